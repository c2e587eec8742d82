/* crowd.h - scenes of bench_engine with any number of bodies, and with a known number of contacts. Several scenes are
 * timed in turns, so that whatever else the machine does meets them all alike, and their times can be compared. */
#ifndef TESTS_BENCH_CROWD_H
#define TESTS_BENCH_CROWD_H

#include "gpu/include/contact.h"

typedef struct crowd_body {
    ct_mesh *mesh; /* the crowd owns a reference */
    double start[12];
    double reach;       /* m: how far it strays from its start, along each axis; a rigid body with 0 is never updated */
    bool is_deformable; /* all its positions are sent at every step; it also swells and shrinks by 1 % */
} crowd_body;

typedef struct crowd {
    const char *name;
    const char *kinds[2]; /* what the first body is, and what the others are */
    size_t n_bodies;
    crowd_body *bodies;         /* owned */
    size_t n_pairs, n_contacts; /* boxes that overlap and bodies that touch, at every step; else the run fails */
    uint32_t resolution;        /* of LDI; 0: the method exact */
} crowd;

/* Makes room for bodies; crowd_free frees them. */
crowd crowd_begin(const char *name, size_t n_bodies, uint32_t resolution);
/* Adds a reference to the mesh. */
void crowd_add(crowd *crowd, ct_mesh *mesh, const double start[12], double reach, bool is_deformable);
void crowd_free(crowd *crowd);

/* Times the measured runs of all crowds in turns, then the baselines of those whose steps are short, and prints a line
 * for each run. */
void crowd_compare(const crowd *crowds, size_t n);

/* Makes and times all scenes of this kind that are wanted. */
void time_crowds(void);

#endif

/* ground.h - tori that lie on a wavy slab, for benches: as many as there are, each touches the slab and no other torus.
 */
#ifndef TESTS_BENCH_GROUND_H
#define TESTS_BENCH_GROUND_H

#include "tests/scenes/shapes.h"

enum { GROUND_FINE = 315, GROUND_COARSE = 39, GROUND_MAX_TORI = 4096 };

struct shape ground_slab(int n); /* GROUND_FINE: 399,420 triangles; GROUND_COARSE: 6,396 on nearly the same surface */
struct shape ground_torus(void); /* 1,024 triangles */

/* Pose of torus i of n <= GROUND_MAX_TORI, which are spread evenly over the slab. */
void ground_torus_pose(unsigned i, unsigned n, double pose[12]);

/* m: a torus that strays this far along each axis still touches the slab and no other torus. */
extern const double ground_reach;

#endif

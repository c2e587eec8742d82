/* frame.h - a contact's frame from the entries of both bodies, by the arithmetic of frame_k.h. */
#ifndef CT_FRAME_H
#define CT_FRAME_H

#include "gpu/contact/frame_k.h"
#include "gpu/span/span_cpu.h"

/* The sparse gradient of one body on the lattice: entries in rising order of vertex, none of them all zero. */
typedef struct ct_entries {
    const uint32_t *vertices; /* [count] */
    const int64_t (*sums)[3]; /* [count], see ct_sums */
    size_t count;
    const ct_coords *coords; /* [vertices of the body] */
    const double *origin;    /* [3], m, world: what the rotation part of the 6-vector turns about */
} ct_entries;

/* Runs part(data, 0, ...) and part(data, 1, ...), at the same time if it can; NULL: one after the other. */
typedef void (*ct_run_both)(void *context, void (*part)(void *data, uint32_t body, uint32_t worker), void *data);

/* Fills area, depth, normal, tangents, centre and the 6-vectors (Allard 2010 section 4.2). */
void ct_frame_contact(const ct_window *window, const ct_entries bodies[2], ct_contact *contact, ct_run_both run_both,
                      void *context);

#endif

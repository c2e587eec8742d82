/* frame.h - from a pair's integer sums to what the caller gets: volumes, gradient, contact frame, friction weights.
 *
 * Every sum over vertices is taken over integers (gradient weights, lattice coordinates, friction weights rounded to a
 * fixed-point unit), so no order of vertices, triangles or threads changes a bit of the answer.
 */
#ifndef CT_FRAME_H
#define CT_FRAME_H

#include "gpu/include/contact.h"
#include "gpu/span/span_cpu.h"

/* The sparse gradient of one body on the lattice: entries in rising order of vertex, none of them all zero. */
typedef struct ct_entries {
    const uint32_t *vertices; /* [count] */
    const int64_t (*sums)[3]; /* [count], see ct_sums */
    size_t count;
    const ct_coords *coords; /* [vertices of the body] */
    const double *origin;    /* [3], m, world: what the rotation part of the 6-vector turns about */
} ct_entries;

/* Fills volumes and error estimate; false where the volume is zero (no contact). */
bool ct_frame_volumes(const ct_window *window, const int64_t length[3], ct_contact *contact);

/* m^2 per unit of weight, for each component w: the tile of a ray of view w over CT_WEIGHT_ONE. An entry's dV/dx is its
 * sums times these. */
typedef struct ct_weight_units {
    double of[3];
} ct_weight_units;

ct_weight_units ct_frame_units(const ct_window *window);

static inline void ct_frame_gradient(const ct_weight_units *units, const int64_t sums[3], double gradient[3]) {
    for (int w = 0; w < 3; w++) gradient[w] = (double)sums[w] * units->of[w];
}

/* Fills area, depth, normal, tangents, centre and the 6-vectors (Allard 2010 section 4.2). */
void ct_frame_contact(const ct_window *window, const ct_entries bodies[2], ct_contact *contact);

/* n . dV/dx of one entry, m^2 (Allard 2010 equation 20). */
static inline double ct_frame_friction(const ct_contact *contact, const double g[3]) {
    return contact->normal[0] * g[0] + contact->normal[1] * g[1] + contact->normal[2] * g[2];
}

#endif

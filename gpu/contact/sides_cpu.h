/* sides_cpu.h - divides the gradient sums of a body that touches itself between the contact's two parts, on the CPU
 * (sides_k.h). */
#ifndef CT_SIDES_CPU_H
#define CT_SIDES_CPU_H

#include "gpu/base/scratch.h"
#include "gpu/contact/frame_k.h"
#include "gpu/contact/sums_cpu.h"
#include "gpu/view/near.h"

/* Reusable memory. */
typedef struct ct_side_scratch {
    ct_buffer pieces; /* per vertex, its piece */
    ct_buffer forces; /* per piece */
} ct_side_scratch;

/* The body, and its triangles that may bound a span. */
typedef struct ct_self_surface {
    uint32_t n_vertices;
    const uint32_t *triangles; /* [][3] */
    const ct_triangle_run *runs;
    uint32_t n_runs;
    int64_t rounding; /* a piece's force counts as none if no component exceeds this; 0: sums are exact */
} ct_self_surface;

/* Moves the sums of the vertices of part 1 from the sums of body 0 to those of body 1, which are zero. False: out of
 * memory; nothing was moved. */
bool ct_split_sides(const ct_self_surface *surface, const ct_weight_units *units, const ct_contact_sums *sums,
                    ct_side_scratch *scratch, ct_budget *budget);

/* The part, 0 or 1, that most corners of a triangle are in, after ct_split_sides. */
int ct_side_of_triangle(const uint32_t corner[3], const ct_contact_sums *sums);

#endif

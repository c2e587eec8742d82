/* sides.h - the sides of a body with itself (sides_k.h), for a backend whose sums lie elsewhere: it brings them to the
 * host as rows. */
#ifndef CT_SIDES_H
#define CT_SIDES_H

#include <stdbool.h>

#include "gpu/contact/frame_k.h"

/* A body with itself, and the gradient sums of its vertices. */
typedef struct ct_side_rows {
    const uint32_t *triangles; /* [n_triangles][3] */
    uint32_t n_triangles, n_vertices;
    const int64_t (*sums)[3]; /* [n_vertices] */
    int64_t rounding;         /* as in ct_self_surface */
} ct_side_rows;

/* Fills is_part_1 [n_vertices], 0 or 1: vertices whose sums are zero are in part 0. The bits are those of
 * ct_split_sides. False: out of memory. */
bool ct_find_part_1(const ct_side_rows *rows, const ct_weight_units *units, uint8_t *is_part_1);

#endif

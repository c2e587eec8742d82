/* closing.h - the vertices that close an open surface (close.h): where they are as those of a deformable body move, and
 * results without them. Included from C and C++. */
#ifndef CT_CLOSING_H
#define CT_CLOSING_H

#include "gpu/include/contact.h"

uint32_t ct_closing_count(const ct_mesh *mesh); /* 0: the mesh was given closed */

/* Where the i-th closing vertex is if its vertex of the rim is at `at`: as far away, and in the same direction, as at
 * rest: to the bit at rest, else but for rounding. It stays finite at the ends of float32's range. */
void ct_closing_position(const ct_mesh *mesh, uint32_t i, const float at[3], float out[3]);

/* The same for all closing vertices: positions is [n_vertices][3], whose given vertices have been moved. */
void ct_move_closing(const ct_mesh *mesh, float *positions);

/* The closing vertex that is a copy of this given one; UINT32_MAX: none. */
uint32_t ct_closing_of(const ct_mesh *mesh, uint32_t vertex);

/* An array of an answer with a row for each vertex. */
typedef struct ct_row_array {
    double *rows; /* [rows][width]; NULL: the answer has none */
    size_t width; /* numbers in a row */
} ct_row_array;
/* Adds the rows of closing vertices to the rows of their vertices of the rim, and takes the closing vertices out. Works
 * on rows first to first + *count - 1 of `vertices` and of the n_arrays arrays, and sets *count to those left. */
void ct_fold_closing(const ct_mesh *mesh, uint32_t *vertices, const ct_row_array *arrays, size_t n_arrays,
                     uint64_t first, uint64_t *count);

#endif

/* triangle_tree.h - a spanning forest of a mesh's triangles, which are neighbours across edges, for devices: as the one
 * of units (unit_tree.h) it turns a flood into a prefix sum, here that of a body with itself (self_k.h). */
#ifndef CT_EXACT_TRIANGLE_TREE_H
#define CT_EXACT_TRIANGLE_TREE_H

#include <stdbool.h>

#include "gpu/mesh/adjacency.h"

enum { CT_NO_PARENT_EDGE = 3 };

typedef struct ct_triangle_link {
    uint32_t parent_edge; /* of this triangle, from corner `parent_edge` on: the parent is on its other side.
                             CT_NO_PARENT_EDGE: it is its component's lowest triangle */
    uint32_t first, end;  /* the triangle's place in depth-first order, and the end of those below it */
} ct_triangle_link;

/* Fills links [n_triangles] and roots [n_triangles], of which the first *n_roots, one for each component, are used, in
 * rising order. False: out of memory. */
bool ct_make_triangle_tree(const ct_adjacency *adjacency, uint32_t n_triangles, ct_triangle_link *links,
                           uint32_t *roots, uint32_t *n_roots);

#endif

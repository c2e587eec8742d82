/* adjacency.h - which triangles of a mesh share an edge, and the triangles' area vectors. For methods that work on
 * edges: error bounds from the angle between two faces (Wang 2012), floods over the surface. A slot of the mesh. */
#ifndef CT_ADJACENCY_H
#define CT_ADJACENCY_H

#include "gpu/base/kernel.h"
#include "gpu/include/contact.h"

/* A half-edge is one triangle's side of an edge. Number 3 t + c is triangle t's, from its corner c to its corner
 * (c + 1) % 3. A valid mesh has as many half-edges on every edge in one direction as in the other, as a rule one, and
 * they are opposite in pairs: where parts touch in an edge, each to one of its own part (edge_pairs.h). A vertex may belong to several fans of triangles; that changes nothing here. */
typedef struct ct_adjacency {
    const uint32_t (*opposite)[3];  /* [n_triangles][3]: the half-edge on the other side of half-edge 3 t + c */
    const double (*area_vector)[3]; /* [n_triangles][3], m^2: (v1 - v0) x (v2 - v0) / 2 of the rest positions: along the
                                       outward normal, as long as the area. Not normalised, so that a triangle without
                                       area is no special case. In double, so that the angle between two nearly
                                       coplanar faces keeps its sign */
} ct_adjacency;

/* Made when first asked for, in O(vertices + triangles). NULL: OUT_OF_MEMORY. See ct_mesh_slot_get. */
const ct_adjacency *ct_mesh_adjacency(ct_mesh *mesh, ct_error *error);

CT_FN uint32_t ct_half_edge_triangle(uint32_t half_edge) {
    return half_edge / 3;
}

static inline uint32_t ct_half_edge_corner(uint32_t half_edge) { /* where it starts */
    return half_edge % 3;
}

static inline uint32_t ct_half_edge_opposite(const ct_adjacency *adjacency, uint32_t half_edge) {
    return adjacency->opposite[half_edge / 3][half_edge % 3];
}

#endif

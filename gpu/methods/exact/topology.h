/* topology.h - what the method `exact` finds of a mesh once: compact blocks of its clusters' triangles, how its clusters
 * hang together, and, for rigid bodies, positions and boxes in the order in which a step reads them. Slots of the mesh.
 */
#ifndef CT_EXACT_TOPOLOGY_H
#define CT_EXACT_TOPOLOGY_H

#include <stdbool.h>

#include "gpu/mesh/adjacency.h"
#include "gpu/mesh/clusters.h"

/* ---- blocks of eight triangles ---- */

/* Boxes of blocks tell apart most triangles of two clusters, so blocks should be compact: along the Morton curve that
 * orders a cluster, a run of eight triangles has a box whose faces are twice as large. No bit of an answer depends on
 * which triangles make up a block. */

/* Triangles of a block, and blocks of a cluster. */
enum { CT_EXACT_BLOCK = 8, CT_EXACT_BLOCKS = CT_CLUSTER_TRIANGLES / CT_EXACT_BLOCK };

/* ---- units ---- */

/* A unit is a connected piece of a cluster; triangles that share a vertex are connected. Most clusters are one unit. A
 * unit that no triangle of the other body crosses has one winding number; so a flood visits units, and looks at the
 * vertices of crossed units only. */

/* A step of a walk over a unit's vertices: the edge of a triangle, from one corner to another. Every vertex of a
 * cluster is the end of one step. A step from a corner to itself starts the walk of the cluster's next unit. */
typedef uint16_t ct_walk_step;

CT_FN uint32_t ct_walk_triangle(ct_walk_step s) { /* in the cluster */
    return s >> 4;
}

CT_FN uint32_t ct_walk_from(ct_walk_step s) { /* corner */
    return s >> 2 & 3;
}

CT_FN uint32_t ct_walk_to(ct_walk_step s) { /* corner */
    return s & 3;
}

/* Clusters of a run: 16 i .. 16 i + 15, which one thread adds up. Most vertices belong to clusters of one run alone. */
enum { CT_RUN_CLUSTERS = 16 };

/* Two units that share a vertex. Each such pair is listed once from either side, with one of the shared vertices. */
typedef struct ct_unit_neighbour {
    uint32_t unit;
    uint16_t own_vertex, its_vertex; /* the shared vertex in the list of the own cluster, and of the neighbour's */
} ct_unit_neighbour;

typedef struct ct_topology {
    const ct_clusters *clusters;
    const uint16_t (*corners)[3];    /* [triangles][3]: a corner's vertex in its cluster's list of vertices */
    const ct_walk_step *walk;        /* as long as clusters->vertices: steps first_vertex[c] .. belong to cluster c */
    const uint64_t *in_several_runs; /* a bit for each of clusters->vertices: other runs have clusters with it too */
    const uint8_t *unit_in_cluster;  /* [triangles] */
    const uint8_t *block_order;      /* [triangles] of each cluster, block by block */
    const uint32_t *first_unit;      /* [clusters + 1]: cluster c has the units first_unit[c] .. */
    const uint32_t *cluster_of_unit; /* [n_units] */
    const uint32_t *first_neighbour; /* [n_units + 1] */
    const ct_unit_neighbour *neighbours; /* unit i has the neighbours first_neighbour[i] .. */
    const uint32_t *component_of_unit;   /* [n_units] connected component of the mesh */
    const uint32_t *first_of_component;  /* [n_components] its lowest unit */
    uint32_t n_units, n_components;
} ct_topology;

/* Made when first asked for, in O(vertices + triangles). NULL: OUT_OF_MEMORY. See ct_mesh_slot_get. */
const ct_topology *ct_mesh_topology(ct_mesh *mesh, ct_error *error);

/* ---- clusters of rigid bodies, for the CPU ---- */

/* Boxes of a cluster's blocks, inside the cluster's box, in steps of a 255th of its sides: block i reaches from
 * lo + inset[0..2][i] steps to hi - inset[3..5][i] steps. Rounded outwards; empty for blocks without triangles. */
typedef struct ct_rigid_blocks {
    uint8_t inset[6][CT_EXACT_BLOCKS];
} ct_rigid_blocks;

/* A step along an axis, m. */
static inline double ct_block_step(const ct_cluster_box *box, int axis) {
    return ((double)box->hi[axis] - (double)box->lo[axis]) / 255;
}

/* Positions cluster by cluster, and boxes of blocks: 8 to 10 bytes a triangle. */
typedef struct ct_rigid_clusters {
    const float (*positions)[3]; /* as long as ct_clusters.vertices: rest positions in that order. NULL: clusters share
                                    so many vertices that it would take more than 12 bytes a triangle */
    const ct_rigid_blocks *blocks; /* [clusters] */
} ct_rigid_clusters;

/* Small meshes have none: searching them would cost as much. */
bool ct_has_rigid_clusters(const ct_mesh *mesh);

/* Made when first asked for, in O(triangles). NULL: OUT_OF_MEMORY. See ct_mesh_slot_get. */
const ct_rigid_clusters *ct_mesh_rigid_clusters(ct_mesh *mesh, ct_error *error);

/* ---- spanning forests, for devices ---- */

/* They turn the flood of winding numbers into a prefix sum. In depth-first order, the units whose path to the root
 * crosses a link follow each other. So where the winding number jumps along a link, it jumps for one range of units.
 *
 *     0 ── 1 ── 2          order 0 1 2 3 4: what jumps between 0 and 1 jumps for 1, 2 and 3
 *     │    └─── 3
 *     └─── 4
 */

#define CT_NO_PARENT UINT32_MAX

typedef struct ct_unit_link {
    uint32_t parent;                 /* a neighbouring unit, or CT_NO_PARENT: it is its component's lowest unit */
    uint16_t own_vertex, its_vertex; /* as in ct_unit_neighbour */
    uint32_t first, end;             /* the unit's place in depth-first order, and the end of those below it */
} ct_unit_link;

/* links: [n_units]. False: out of memory. */
bool ct_make_unit_tree(const ct_topology *topology, ct_unit_link *links);

/* The same of a mesh's triangles, which are neighbours across edges: for a body with itself (self_k.h). */

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

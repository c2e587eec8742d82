/* topology.h - how the clusters of a mesh hang together, for floods of winding numbers, and what their blocks are. A
 * slot of the mesh.
 *
 * A unit is a connected piece of a cluster; triangles that share a vertex are connected. Most clusters are one unit. A
 * unit that no triangle of the other body crosses has one winding number; so a flood visits units, and looks at the
 * vertices of crossed units only.
 */
#ifndef CT_EXACT_TOPOLOGY_H
#define CT_EXACT_TOPOLOGY_H

#include "gpu/mesh/clusters.h"

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
    const uint8_t *block_order;      /* [triangles] of each cluster, block by block: see block_order.h */
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

#endif

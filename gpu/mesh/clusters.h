/* clusters.h - runs of neighbouring triangles with bounding boxes, and a tree over them, so that the cost of a contact
 * follows the contact and not the meshes. A slot of the mesh.
 *
 * Triangles are ordered for it (order.h), so CT_CLUSTER_TRIANGLES consecutive ones are neighbours in space. The tree
 * is implicit: every CT_CLUSTER_FAN nodes of a level have one parent, up to a single root.
 *
 *     level 2 (root)   [                 all                  ]
 *     level 1          [ 0 .. 7 ]  [ 8 .. 15 ]  ...                node i has the children 8 i .. 8 i + 7
 *     level 0          0 1 2 3 ...                                 cluster c: triangles 128 c .. 128 c + 127
 */
#ifndef CT_CLUSTERS_H
#define CT_CLUSTERS_H

#include <stdbool.h>

#include "gpu/include/contact.h"
#include "gpu/mesh/cluster_k.h"

enum { CT_CLUSTER_FAN = 8, CT_CLUSTER_LEVELS = 12 };

typedef struct ct_clusters {
    uint32_t n;                            /* clusters */
    uint32_t n_levels, n_nodes;            /* of the tree, clusters included */
    uint32_t level[CT_CLUSTER_LEVELS + 1]; /* first node of each level, and n_nodes */
    const uint32_t *first_vertex;          /* [n + 1] */
    const uint32_t *vertices;              /* cluster c uses the vertices first_vertex[c] .. first_vertex[c + 1] - 1 of
                                              this list: each once, in rising order */
    const ct_cluster_box *rest;            /* [n_nodes] boxes of the rest positions */
    bool has_all_vertices;                 /* every vertex belongs to a triangle */
} ct_clusters;

/* Meshes of at least this many triangles get their tree when they are made, so that their size is known from then on.
 * Of smaller ones all triangles are looked at: searching would cost as much. */
enum { CT_CLUSTERED_TRIANGLES = 16 * CT_CLUSTER_TRIANGLES };

/* Made when first asked for, in O(triangles). NULL: OUT_OF_MEMORY. See ct_mesh_slot_get. */
const ct_clusters *ct_mesh_clusters(ct_mesh *mesh, ct_error *error);

/* Lets boxes [first, end) of clusters reach around lower parts of positions too (split.h). */
void ct_clusters_widen(uint32_t first, uint32_t end, ct_cluster_box *boxes);

/* Computes the boxes of clusters [first, end) from positions [vertices][3]. */
void ct_clusters_refit(const ct_clusters *clusters, const float *positions, uint32_t first, uint32_t end,
                       ct_cluster_box *boxes);

/* Computes the boxes of all other nodes from those of the clusters; boxes: [n_nodes]. */
void ct_clusters_refit_tree(const ct_clusters *clusters, ct_cluster_box *boxes);

#endif

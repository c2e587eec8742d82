/* rigid_clusters.h - the clusters of a rigid body's mesh as the method `exact` reads them on the CPU: positions cluster
 * by cluster, and a box around every eight triangles. A slot of the mesh, 8 to 10 bytes a triangle. */
#ifndef CT_EXACT_RIGID_CLUSTERS_H
#define CT_EXACT_RIGID_CLUSTERS_H

#include "gpu/exact/block_order.h"
#include "gpu/mesh/clusters.h"

/* Boxes of a cluster's blocks (block_order.h), inside the cluster's box, in steps of a 255th of its sides: block i
 * reaches from lo + inset[0..2][i] steps to hi - inset[3..5][i] steps. Rounded outwards; empty for blocks without
 * triangles. */
typedef struct ct_rigid_blocks {
    uint8_t inset[6][CT_EXACT_BLOCKS];
} ct_rigid_blocks;

/* A step along an axis, m. */
static inline double ct_block_step(const ct_cluster_box *box, int axis) {
    return ((double)box->hi[axis] - (double)box->lo[axis]) / 255;
}

typedef struct ct_rigid_clusters {
    const float (*positions)[3]; /* as long as ct_clusters.vertices: rest positions in that order. NULL: clusters share
                                    so many vertices that it would take more than 12 bytes a triangle */
    const ct_rigid_blocks *blocks; /* [clusters] */
} ct_rigid_clusters;

/* Small meshes have none: searching them would cost as much. */
bool ct_has_rigid_clusters(const ct_mesh *mesh);

/* Made when first asked for, in O(triangles). NULL: OUT_OF_MEMORY. See ct_mesh_slot_get. */
const ct_rigid_clusters *ct_mesh_rigid_clusters(ct_mesh *mesh, ct_error *error);

#endif

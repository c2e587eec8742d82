/* body.h - a body as the method `exact` sees it while a pair is computed, and the search of its cluster tree. */
#ifndef CT_EXACT_BODY_H
#define CT_EXACT_BODY_H

#include "gpu/exact/box_k.h"
#include "gpu/exact/exact_cpu.h"

typedef struct ct_exact_body {
    const ct_topology *topology;
    const ct_cluster_box *boxes; /* [nodes] current, in the frame of the positions */
    const float *positions;      /* [vertices][3] */
    ct_lattice_pose pose;
    const ct_rigid_clusters *rigid; /* NULL: the body deforms, or its mesh is small */
    uint32_t n_triangles;
    ct_placed_cluster *placed; /* of all clusters that were placed, in the order in which they were */
    uint32_t n_placed;
    uint32_t *placed_as; /* [clusters] 1 + index into placed; 0: not placed */
} ct_exact_body;

ct_node_box ct_exact_node_box(const ct_exact_body *body, uint32_t node);

typedef struct ct_cluster_pair {
    uint32_t a, b;
} ct_cluster_pair;

/* Appends a pair. pairs: ct_cluster_pair, grows. False: out of memory. */
bool ct_add_cluster_pair(ct_buffer *pairs, size_t *n_pairs, ct_budget *budget, ct_cluster_pair pair);

/* As search_cpu.h, for a body and a block that stands for a half-space (view/half_space_k.h): pairs of the block's only
 * cluster with those clusters whose boxes meet the plane of its top, z = 0 in its own axes. block_first: the block is
 * `a` of the pairs. */
bool ct_find_clusters_at_top(const ct_exact_body *body, const ct_exact_body *block, bool block_first, ct_buffer *pairs,
                             size_t *n_pairs, ct_budget *budget);

/* Calls visit(argument, cluster) for each cluster whose box meets the ray from p to far, along an axis. */
void ct_find_clusters_towards(const ct_exact_body *body, const double p[3], const double far[3],
                              void (*visit)(void *argument, uint32_t cluster), void *argument);
/* The same along +x. */
void ct_find_clusters_on_ray(const ct_exact_body *body, const double p[3],
                             void (*visit)(void *argument, uint32_t cluster), void *argument);

#endif

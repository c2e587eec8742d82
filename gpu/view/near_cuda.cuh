/* near_cuda.cuh - finds the clusters of triangles that can matter to a pair: for the plan stage (plan_cuda.cu), which
 * calls this on one thread for every cluster of every side.
 *
 * The test is that of the CPU (near_k.h). The CPU walks a tree of boxes; here all clusters are tested, which are 1/128
 * of the triangles. */
#ifndef CT_NEAR_CUDA_CUH
#define CT_NEAR_CUDA_CUH

#include "gpu/backend/cuda/collective.cuh"
#include "gpu/backend/cuda/plan.cuh"
#include "gpu/view/near_k.h"

/* All clusters of a body with few triangles are near: they are not culled. */
CT_DEVICE uint32_t ct_find_views_of_cluster(const ct_gpu_plan *plan, const ct_gpu_body *body, int k, uint64_t cluster) {
    if (!body->cluster_boxes) return 7;
    const ct_cluster_box box = body->cluster_boxes[cluster];
    ct_axis_limits limits[3];
    double lo[3], hi[3];
    CT_UNROLL
    for (int i = 0; i < 3; i++) {
        const double *row = body->pose + 4 * i;
        limits[i] = ct_find_axis_limits(&plan->window.axis[i], true);
        lo[i] = (double)box.lo[i];
        hi[i] = (double)box.hi[i];
        if (body->rigid) ct_find_posed_extent(row, ct_bound_pose_rounding(row, &box), &box, &lo[i], &hi[i]);
    }
    return ct_find_near_views(limits, plan->initial_winding[k], lo, hi);
}

/* Lists cluster i of all sides' if it is near. One beyond the capacity is counted all the same. */
CT_DEVICE void ct_list_cluster_if_near(const ct_plan_tables &b, uint64_t i) {
    const uint64_t side = ct_find_owner(2 * b.counts->pairs, i, [&](uint64_t k) { return b.cluster_offset[k]; });
    const uint64_t cluster = i - b.cluster_offset[side];
    const ct_gpu_body *body = b.bodies[b.pairs[side / 2].body[side & 1]];
    const uint32_t views = ct_find_views_of_cluster(&b.plans[side / 2], body, (int)(side & 1), cluster);
    if (!views) return;
    const uint64_t index = ct_append_index(&b.counts->near_clusters);
    if (index >= b.capacity.near_clusters) return;
    ct_gpu_near_cluster near;
    near.side = (uint32_t)side;
    near.cluster = (uint32_t)cluster & 0x1fffffff;
    near.views = views & 7;
    b.near_clusters[index] = near;
}

#endif

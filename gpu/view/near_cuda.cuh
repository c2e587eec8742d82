/* near_cuda.cuh - finds the clusters of triangles that can matter to a pair, and how crossings in front of its window
 * are counted: for the plan stage (plan_cuda.cu), which calls this on one thread for every cluster of every side, or
 * pair. The narrow stage (narrow_cuda.cu) takes the clusters' boxes of it.
 *
 * The test is that of the CPU (near_k.h). The CPU walks a tree of boxes; here all clusters are tested, which are 1/128
 * of the triangles. */
#ifndef CT_NEAR_CUDA_CUH
#define CT_NEAR_CUDA_CUH

#include "gpu/device/cuda/collective.cuh"
#include "gpu/view/near_k.h"
#include "gpu/view/plan_cuda.cuh"

/* How the initial winding numbers of body k on the view along axis w are found, once the window is planned. The
 * triangles in front are as many as fit between the body's near end and the window, those that straddle its begin as
 * many as fit beside the window; they are followed along the axis beside which the body is shorter. */
CT_DEVICE ct_gpu_loops ct_choose_loops(const ct_plan_tables &b, const ct_gpu_body *body, const ct_box *box,
                                       const ct_gpu_plan *plan, int k, int w) {
    enum { COUNTING_COST = 4 }; /* of a cluster whose crossings are counted; 1: of one that is searched for edges */
    if (plan->status || !b.follows_loops || !body->cluster_boxes || plan->initial_winding[k][w] != CT_INITIAL_COUNTED)
        return CT_NO_LOOPS;
    const ct_lattice *axis = plan->window.axis;
    const int u = ct_view_u(w), v = ct_view_v(w);
    const double beside_u = box->hi[u] - axis[u].origin, beside_v = box->hi[v] - axis[v].origin;
    const double in_front = axis[w].origin + axis[w].lo * axis[w].unit - box->lo[w];
    if (fmin(beside_u, beside_v) > COUNTING_COST * in_front) return CT_NO_LOOPS;
    return beside_u < beside_v ? CT_LOOPS_ALONG_U : CT_LOOPS_ALONG_V;
}

/* The box of a cluster of a body that has boxes, m, world, widened by what rounding moves a posed coordinate. */
CT_DEVICE void ct_gpu_cluster_extent(const ct_gpu_body *body, uint32_t cluster, double lo[3], double hi[3]) {
    const ct_cluster_box box = body->cluster_boxes[cluster];
    CT_UNROLL
    for (int k = 0; k < 3; k++) {
        const double *row = body->pose + 4 * k;
        lo[k] = (double)box.lo[k];
        hi[k] = (double)box.hi[k];
        if (body->rigid) ct_find_posed_extent(row, ct_bound_pose_rounding(row, &box), &box, &lo[k], &hi[k]);
    }
}

/* Fills views and straddles of cluster near->cluster of body k. All clusters of a body with few triangles are near:
 * they are not culled. */
CT_DEVICE void ct_find_views_of_cluster(const ct_gpu_plan *plan, const ct_gpu_body *body, int k,
                                        ct_gpu_near_cluster *near) {
    near->views = 7;
    near->straddles = 0;
    if (!body->cluster_boxes) return;
    ct_axis_limits limits[3];
    double lo[3], hi[3];
    ct_gpu_cluster_extent(body, near->cluster, lo, hi);
    CT_UNROLL
    for (int i = 0; i < 3; i++) limits[i] = ct_find_axis_limits(&plan->window.axis[i]);
    uint8_t initial[3];
    CT_UNROLL
    for (int w = 0; w < 3; w++) {
        const uint8_t loops = plan->loops[k][w];
        /* Where loops are followed, crossings in front matter as little as where the balance gives the number. */
        initial[w] = loops ? (uint8_t)CT_INITIAL_FROM_BALANCE : plan->initial_winding[k][w];
        if (loops && ct_may_straddle(limits, w, loops == CT_LOOPS_ALONG_U, lo, hi)) near->straddles |= 1u << w;
    }
    near->views = ct_find_near_views(limits, initial, lo, hi) & 7;
}

/* Lists cluster i of all sides' if it is near. One beyond the capacity is counted all the same. */
CT_DEVICE void ct_list_cluster_if_near(const ct_plan_tables &b, uint64_t i) {
    const uint64_t side = ct_find_owner(2 * b.counts->pairs, i, [&](uint64_t k) { return b.cluster_offset[k]; });
    const ct_gpu_body *body = b.bodies[b.pairs[side / 2].body[side & 1]];
    ct_gpu_near_cluster near;
    near.side = (uint32_t)side;
    near.cluster = (uint32_t)(i - b.cluster_offset[side]) & 0x3ffffff;
    ct_find_views_of_cluster(&b.plans[side / 2], body, (int)(side & 1), &near);
    if (!(near.views | near.straddles)) return;
    const uint64_t index = ct_append_index(&b.counts->near_clusters);
    if (index < b.capacity.near_clusters) b.near_clusters[index] = near;
}

#endif

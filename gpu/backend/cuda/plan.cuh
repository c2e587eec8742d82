/* plan.cuh - each pair's window, and where its triangles, vertices and rays begin among those of the batch.
 *
 * A side is one body of a pair: side 2 p + k is body k of pair p. A view is one pair seen along one axis: 3 p + w. A
 * chunk is what one block works on: CT_BLOCK triangles of a side, CT_VERTEX_CHUNK vertices of a side, or CT_BLOCK rays
 * of a view.
 */
#ifndef CT_CUDA_PLAN_CUH
#define CT_CUDA_PLAN_CUH

#include "gpu/backend/cuda/pair.cuh"
#include "gpu/view/view_k.h"
#include "gpu/view/winding_k.h"

enum { CT_VERTEX_CHUNK = 1024 };

struct ct_gpu_plan {
    ct_window window;
    uint8_t status;                /* ct_plan_status; unless CT_PLAN_OK the pair has no window and nothing to compute */
    uint8_t initial_winding[2][3]; /* ct_initial_winding per body and view */
    uint8_t unused;
};

struct ct_plan_tables : ct_pair_tables {
    ct_gpu_plan *plans;              /* [capacity.pairs] */
    uint64_t *triangle_chunk_offset; /* [2 capacity.pairs + 1] per side */
    uint64_t *vertex_chunk_offset;   /* [2 capacity.pairs + 1] per side */
    uint64_t *ray_chunk_offset;      /* [3 capacity.pairs + 1] per view */
    uint64_t *ray_offset;            /* [3 capacity.pairs + 1] per view */
    int64_t *span_length;            /* [3 capacity.pairs] per view, set to 0 here; the span stage adds to it */
    uint32_t *step_refused;          /* [n_steps] ~index of the first pair without a window; 0: none */
};

/* Lattice coordinates of a body's vertex. */
CT_DEVICE void ct_gpu_coords(const ct_gpu_body *body, const ct_window *window, uint32_t vertex, int32_t q[3]) {
    const float *p = body->positions + 3 * (uint64_t)vertex;
    const float x = p[0], y = p[1], z = p[2];
    for (int k = 0; k < 3; k++) {
        const double row = body->rigid ? ct_pose_coord(body->pose + 4 * k, x, y, z)
                                       : (double)(k == 0   ? x
                                                  : k == 1 ? y
                                                           : z);
        q[k] = ct_snap(row, window->axis[k].origin, window->axis[k].scale);
    }
}

unsigned ct_cuda_plan(const ct_plan_tables *tables, unsigned grid, cudaStream_t stream);

#endif

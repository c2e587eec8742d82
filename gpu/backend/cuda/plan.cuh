/* plan.cuh - each pair's window and its contact candidates, and the list of chunks that the later stages work on.
 *
 *     pair of bodies  ->  contact candidates  ->  contacts found
 *
 * A pair has as many candidates as contacts that it may yield: one with LDI, one for each cell where a method divides
 * the intersection. Each candidate has sums of its own; one with a volume becomes a contact
 * (gpu/backend/cuda/answer.cuh). In the tables pairs, candidates and contacts follow each other in the same order.
 *
 * Indices:
 *     side 2 p + k         body k of pair p. Its triangles are rasterised once for all candidates. A body's pair with
 *                          itself has triangles on side 0 only.
 *     view 3 p + w         pair p seen along axis w
 *     part 2 c + k         part k of candidate c, as in ct_contact: the share of body k, with its sums per vertex
 *
 * A chunk is what one block works on: CT_BLOCK triangles of a side, CT_VERTEX_CHUNK vertices of a part, or CT_BLOCK
 * rays of a view. The plan stage lists all chunks with their owners once, by one binary search a chunk, all of them in
 * parallel. Searching in the stages instead would hold a whole block up, once in each of six kernels.
 */
#ifndef CT_CUDA_PLAN_CUH
#define CT_CUDA_PLAN_CUH

#include "gpu/backend/cuda/pair.cuh"
#include "gpu/view/view_k.h"
#include "gpu/view/winding_k.h"

enum { CT_VERTEX_CHUNK = 1024 };

struct ct_gpu_plan {
    ct_box part; /* of the overlap of the bodies' boxes, m, world: what the window spans */
    ct_window window;
    uint8_t status;                /* ct_plan_status; unless CT_PLAN_OK the pair has no window and nothing to compute */
    uint8_t initial_winding[2][3]; /* ct_initial_winding per body and view */
    uint8_t unused;
};

struct ct_gpu_chunk {
    uint32_t owner; /* side, part or view */
    uint32_t index; /* among the owner's chunks */
};

struct ct_plan_tables : ct_pair_tables {
    ct_gpu_plan *plans;                 /* [capacity.pairs] */
    uint64_t *candidate_offset;         /* [capacity.pairs + 1] a pair's first candidate */
    uint64_t *triangle_chunk_offset;    /* [2 capacity.pairs + 1] per side */
    uint64_t *pair_vertex_chunk_offset; /* [capacity.pairs + 1] of all parts of a pair's candidates */
    uint64_t *ray_chunk_offset;         /* [3 capacity.pairs + 1] per view */
    uint64_t *ray_offset;               /* [3 capacity.pairs + 1] per view */
    uint32_t *candidate_pair;           /* [capacity.candidates] */
    uint64_t *vertex_chunk_offset;      /* [2 capacity.candidates + 1] per part */
    int64_t *span_length;               /* [capacity.candidates][3] per view, set to 0 here; spans add to it */
    int64_t *span_count;                /* the same: the number of spans */
    ct_gpu_chunk *chunks;               /* [capacity.chunks] of triangles, then of vertices, then of rays */
    uint32_t *step_refused;             /* [n_steps] ~index of the first pair without a window; 0: none */
};

CT_DEVICE bool ct_is_self_pair(const ct_gpu_pair *pair) {
    return pair->body[0] == pair->body[1];
}

/* The list of each kind of chunks, of counts->triangle_chunks, vertex_chunks and ray_chunks elements. */
CT_DEVICE const ct_gpu_chunk *ct_triangle_chunks(const ct_plan_tables &b) {
    return b.chunks;
}
CT_DEVICE const ct_gpu_chunk *ct_vertex_chunks(const ct_plan_tables &b) {
    return b.chunks + b.counts->triangle_chunks;
}
CT_DEVICE const ct_gpu_chunk *ct_ray_chunks(const ct_plan_tables &b) {
    return b.chunks + b.counts->triangle_chunks + b.counts->vertex_chunks;
}

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

/* Finds each pair's part; ct_cuda_plan launches it. */
unsigned ct_cuda_narrow(const ct_plan_tables *tables, unsigned grid, cudaStream_t stream);

unsigned ct_cuda_plan(const ct_plan_tables *tables, unsigned grid, cudaStream_t stream);

extern const ct_kernel_entry ct_plan_kernels[], ct_narrow_kernels[];

#endif

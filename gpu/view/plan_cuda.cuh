/* plan_cuda.cuh - each pair's window and its contact candidates, and what the later stages work on: the clusters of
 * triangles that can matter, and chunks of vertices and rays.
 *
 *     pair of bodies  ->  contact candidates  ->  contacts found
 *
 * A pair has as many candidates as contacts that it may yield: one with LDI, one for each cell where a method divides
 * the intersection. Each candidate has sums of its own; one with a volume becomes a contact
 * (gpu/contact/answer_cuda.cuh). In the tables pairs, candidates and contacts follow each other in the same order.
 *
 * Indices:
 *     side 2 p + k         body k of pair p. Its triangles are rasterised once for all candidates. A body's pair with
 *                          itself has triangles on side 0 only.
 *     view 3 p + w         pair p seen along axis w
 *     part 2 c + k         part k of candidate c, as in ct_contact: the share of body k, with its sums per vertex
 *
 * A chunk is what one block works on: CT_VERTEX_CHUNK vertices of a part, or CT_BLOCK rays of a view. The plan stage
 * lists all chunks with their owners once, by one binary search a chunk, all of them in parallel. Searching in the
 * stages instead would hold a whole block up, once in each of five kernels.
 *
 * Triangles are worked on by clusters (gpu/mesh/clusters.h). The plan stage tests the box of every cluster of a side
 * against the pair's window, one thread a cluster, and lists those that are near with the views in which they are. So
 * later stages never look at triangles beside the window, and at those in front of it only where their crossings count.
 * Of a large body even these are left out: the loops in which they end are followed instead.
 */
#ifndef CT_CUDA_PLAN_CUH
#define CT_CUDA_PLAN_CUH

#include "gpu/mesh/cluster_k.h"
#include "gpu/scene/pair_cuda.cuh"
#include "gpu/view/view_k.h"
#include "gpu/view/winding_k.h"

enum { CT_VERTEX_CHUNK = 1024 };

/* How an initial winding number that is CT_INITIAL_COUNTED is found: from the crossings of the triangles in front, or
 * from the loops in which these end (gpu/methods/ldi/front_winding.h). */
enum ct_gpu_loops { CT_NO_LOOPS, CT_LOOPS_ALONG_U, CT_LOOPS_ALONG_V };

struct ct_gpu_plan {
    ct_box part; /* of the overlap of the bodies' boxes, m, world: what the window spans */
    ct_window window;
    uint8_t status;                /* ct_plan_status; unless CT_PLAN_OK the pair has no window and nothing to compute */
    uint8_t initial_winding[2][3]; /* ct_initial_winding per body and view */
    uint8_t loops[2][3];           /* ct_gpu_loops per body and view */
    uint8_t unused[3];
};

struct ct_gpu_chunk {
    uint32_t owner; /* part or view */
    uint32_t index; /* among the owner's chunks */
};

/* A cluster that can matter. One entry serves all its views, because a triangle is snapped once for all of them. */
struct ct_gpu_near_cluster {
    uint32_t side;
    uint32_t cluster : 26;  /* of the side's body, which has less than 2^32 triangles */
    uint32_t views : 3;     /* bit w: its crossings can matter in the view along axis w */
    uint32_t straddles : 3; /* bit w: it can have an edge of the loops in front of that view */
};
static_assert(sizeof(ct_gpu_near_cluster) == 8, "one load");

struct ct_plan_tables : ct_pair_tables {
    ct_gpu_plan *plans;                 /* [capacity.pairs] */
    uint64_t *candidate_offset;         /* [capacity.pairs + 1] a pair's first candidate */
    uint64_t *cluster_offset;           /* [2 capacity.pairs + 1] per side */
    uint64_t *pair_vertex_chunk_offset; /* [capacity.pairs + 1] of all parts of a pair's candidates */
    uint64_t *ray_chunk_offset;         /* [3 capacity.pairs + 1] per view */
    uint64_t *ray_offset;               /* [3 capacity.pairs + 1] per view */
    uint32_t *candidate_pair;           /* [capacity.candidates] */
    uint64_t *vertex_chunk_offset;      /* [2 capacity.candidates + 1] per part */
    int64_t *span_length;               /* [capacity.candidates][3] per view, set to 0 here; spans add to it */
    int64_t *span_count;                /* the same: the number of spans */
    int64_t *inverted_length;           /* the same: of intervals in which a body is inside out (ct_is_inverted) */
    ct_gpu_chunk *chunks;               /* [capacity.chunks] of vertices, then of rays */
    ct_gpu_near_cluster *near_clusters; /* [capacity.near_clusters], in no order */
    uint32_t *step_refused;             /* [n_steps] ~index of the first pair without a window; 0: none */
    bool casts_tiles;                   /* the method `ebpi`: it needs windows and chunks of vertices, no rays */
    bool follows_loops;                 /* false where OpenGL rasterises: it counts the crossings in front */
};

CT_DEVICE bool ct_is_self_pair(const ct_gpu_pair *pair) {
    return pair->body[0] == pair->body[1];
}

/* The list of each kind of chunks, of counts->vertex_chunks and ray_chunks elements. */
CT_DEVICE const ct_gpu_chunk *ct_vertex_chunks(const ct_plan_tables &b) {
    return b.chunks;
}
CT_DEVICE const ct_gpu_chunk *ct_ray_chunks(const ct_plan_tables &b) {
    return b.chunks + b.counts->vertex_chunks;
}

/* A triangle of a near cluster. */
struct ct_gpu_near_triangle {
    uint32_t side, views, straddles; /* as in ct_gpu_near_cluster; no bit is set if there is no such triangle */
    uint64_t triangle;               /* of the body */
    const ct_gpu_plan *plan;
    const ct_gpu_body *body;
};

/* Triangle i of those of all near clusters, of which there are CT_CLUSTER_TRIANGLES counts->near_clusters at most. */
CT_DEVICE ct_gpu_near_triangle ct_near_triangle_at(const ct_plan_tables &b, uint64_t i) {
    const ct_gpu_near_cluster near = b.near_clusters[i / CT_CLUSTER_TRIANGLES];
    ct_gpu_near_triangle at;
    at.side = near.side;
    at.triangle = (uint64_t)near.cluster * CT_CLUSTER_TRIANGLES + i % CT_CLUSTER_TRIANGLES;
    at.plan = &b.plans[near.side / 2];
    at.body = b.bodies[b.pairs[near.side / 2].body[near.side & 1]];
    at.views = at.triangle < at.body->n_triangles ? near.views : 0;
    at.straddles = at.triangle < at.body->n_triangles ? near.straddles : 0;
    return at;
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

/* The same along the axes that a pose of the body's positions leads to. */
CT_DEVICE void ct_gpu_posed_coords(const ct_gpu_body *body, const double pose[12], const ct_window *window,
                                   uint32_t vertex, int32_t q[3]) {
    const float *p = body->positions + 3 * (uint64_t)vertex;
    for (int k = 0; k < 3; k++)
        q[k] = ct_snap(ct_pose_coord(pose + 4 * k, p[0], p[1], p[2]), window->axis[k].origin, window->axis[k].scale);
}

/* Finds each pair's part; ct_cuda_plan launches it. */
unsigned ct_cuda_narrow(const ct_plan_tables *tables, unsigned grid, cudaStream_t stream);

unsigned ct_cuda_plan(const ct_plan_tables *tables, unsigned grid, cudaStream_t stream);

extern const ct_kernel_entry ct_plan_kernels[], ct_narrow_kernels[];

#endif

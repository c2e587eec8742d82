/* resident_cuda.cuh - bodies as they lie on the device between steps, the steps of a batch, and what these steps send:
 * for the kernels that update bodies (gpu/view/update_cuda.cu, deformed_cuda.cu) and for all stages after them. */
#ifndef CT_CUDA_RESIDENT_CUH
#define CT_CUDA_RESIDENT_CUH

#include "gpu/base/box.h"
#include "gpu/base/kernel.h"
#include "gpu/mesh/cluster_k.h"
#include "gpu/mesh/split_k.h"
#include "gpu/mesh/volume_k.h"
#include "gpu/scene/counts_cuda.cuh"

/* gpu/methods/exact/exact_cuda.cuh */
struct ct_gpu_topology;
struct ct_gpu_own_surface;

struct ct_gpu_body {
    float *positions; /* [n_vertices][3]: a deformable body's own, or the rest positions of a rigid body's mesh */
    const uint32_t *triangles;
    ct_cluster_box *cluster_boxes; /* [ct_cluster_count(n_triangles)] in the frame of the positions: a deformable body's
                                      own, or the mesh's; NULL: it has too few triangles to cull */
    uint32_t n_vertices, n_triangles;
    uint32_t group, mask;
    uint32_t rigid;
    uint32_t searches_box; /* see CT_SEARCHED_CLUSTERS */
    /* Of the mesh, for the method `exact`; NULL before a scene with that method has the body. */
    const ct_gpu_topology *topology;
    const ct_gpu_own_surface *own_surface; /* the same, if it meets itself */
    uint32_t is_inverted;                  /* a deformable body whose volume was negative when it was measured last */
    uint32_t is_half_space;
    uint32_t meets_itself; /* it has a pair with itself, whatever its group and mask */
    uint32_t is_rounded;   /* float32 does not hold all positions that were given: see ct_gpu_rounding */
    double pose[12];
    double about[3];                 /* m, the point of torques: ct_body_origin */
    uint64_t box[6];                 /* world, lo then hi, as ct_order_key */
    int64_t volume_high, volume_low; /* a deformable body's, of its last update: see ct_volume_of_sum */
};

/* Integers whose unsigned order is the order of the doubles, so that integer atomics find minima and maxima. */
CT_FN uint64_t ct_order_key(double x) {
    union {
        double d;
        uint64_t u;
    } bits;
    bits.d = x + 0.0; /* -0 becomes 0 */
    return bits.u >> 63 ? ~bits.u : bits.u | (uint64_t)1 << 63;
}

CT_FN double ct_order_value(uint64_t key) {
    union {
        double d;
        uint64_t u;
    } bits;
    bits.u = key >> 63 ? key & ~((uint64_t)1 << 63) : ~key;
    return bits.d;
}

CT_FN ct_box ct_gpu_box(const ct_gpu_body *body) {
    ct_box box;
    for (int k = 0; k < 3; k++) {
        box.lo[k] = ct_order_value(body->box[k]);
        box.hi[k] = ct_order_value(body->box[3 + k]);
    }
    return box;
}

/* m^3, signed: of a deformable body that has been updated. */
CT_FN double ct_gpu_volume(const ct_gpu_body *body) {
    const ct_box box = ct_gpu_box(body);
    return ct_volume_of_sum(body->volume_high, body->volume_low, ct_volume_scale_of(&box).unit);
}

/* m, the most that positions on the device are off along an axis from those that were given in double precision.
 * reach: m, the largest |coordinate| of the positions. */
CT_FN double ct_gpu_rounding(const ct_gpu_body *body, double reach) {
    return body->is_rounded ? 2 * CT_HIGH_ROUNDING * reach : 0; /* 2: turned along a diagonal */
}

struct ct_gpu_step {
    ct_gpu_body *const *bodies;    /* resident with the scene: [n_bodies], then the keys of ct_gpu_ignored */
    uint32_t first_body, n_bodies; /* index of the first among the batch's bodies */
    uint32_t n_ignored, want;
    uint32_t resolution[3];
    uint32_t n_candidates; /* contacts that a pair may yield */
    uint32_t n_half_spaces;
    uint32_t n_directions, wants_second; /* wants_second: it has directions, or wants INERTIA */
    uint64_t first_direction;            /* in ct_resident_tables.directions */
    uint32_t wants_patches;
    uint32_t takes_half_spaces; /* 0: they have no contacts; else none with each other */
    double pixel_size, stiffness;
    double cell_size; /* m; 0: no cells */
};

/* How a body moves along one of its step's directions: ct_direction. */
enum { CT_GPU_DOES_NOT_MOVE = 0, CT_GPU_MOVES_BY_TWIST = 1, CT_GPU_MOVES_BY_VALUES = 2 };
struct ct_gpu_direction {
    double twist[6];
    uint64_t first_value; /* in ct_resident_tables.direction_values */
    uint32_t kind, unused;
};

/* [n_ignored] ct_pair_key of the scene's bodies, sorted. */
CT_FN const uint64_t *ct_gpu_ignored(const ct_gpu_step *step) {
    return (const uint64_t *)(step->bodies + step->n_bodies);
}

/* ---- what steps send ---- */

/* Rows [first_row, first_row of the next write) of the positions sent go to `positions`: to the vertices from
 * first_vertex on, or to those that `indices` lists from first_index on. No vertex is written twice. */
struct ct_gpu_position_write {
    float *positions;
    float *before; /* as long as positions: gets what is overwritten, at the same vertices */
    uint64_t first_row;
    uint32_t first_vertex, first_index; /* first_index CT_GPU_NONE: no list */
};

struct ct_gpu_pose_write {
    ct_gpu_body *body;
    double pose[12], about[3];
};

/* A body whose box is computed anew, by as many blocks as it has box chunks: CT_BOX_CHUNK vertices, or CT_BOX_CLUSTERS
 * clusters of a body whose box is searched. */
struct ct_gpu_box_update {
    ct_gpu_body *body;
    uint64_t first_chunk : 62;
    uint64_t is_rounded : 1;      /* of a deformable body */
    uint64_t measures_volume : 1; /* ct_body_volume_is_due */
};
enum { CT_BOX_CHUNK = 2048, CT_BOX_CLUSTERS = 64 };

/* The box of a posed body is searched in the clusters that may reach its ends, if there are many clusters. A search
 * looks at a cluster's vertices by its triangles' corners, which is six times as many, and at 4 to 16 % of the clusters
 * of scanned meshes of this size. Of smaller meshes more clusters reach the ends; all their vertices are looked at. */
enum { CT_SEARCHED_CLUSTERS = 2048 };
CT_FN uint64_t ct_gpu_box_chunks(uint64_t n_vertices, uint32_t n_triangles, bool searches_box) {
    return searches_box ? ((uint64_t)ct_cluster_count(n_triangles) + CT_BOX_CLUSTERS - 1) / CT_BOX_CLUSTERS
                        : (n_vertices + CT_BOX_CHUNK - 1) / CT_BOX_CHUNK;
}

/* ---- what every stage reads ---- */

/* The tables of a batch grow by inheritance: a stage's tables contain those of the stages before it and nothing of
 * those after it, as the include rules say. */
struct ct_resident_tables {
    ct_gpu_counts *counts;
    ct_gpu_capacity capacity;
    const ct_gpu_step *steps;
    ct_gpu_body **bodies; /* [n_bodies], step after step */
    uint32_t n_steps, n_bodies;

    /* What steps send: */
    const ct_gpu_box_update *box_updates;
    const ct_gpu_pose_write *pose_writes;
    const ct_gpu_position_write *position_writes;
    const uint32_t *indices;
    const float *rows;                  /* [n_rows][3] */
    const ct_gpu_direction *directions; /* of all steps: [n_bodies][n_directions] of each */
    const double *direction_values;     /* of all directions */
    /* The write that has the first of each CT_BLOCK rows; the update that each box chunk belongs to. */
    const uint32_t *row_chunk_write, *box_chunk_update;
    uint64_t n_rows, n_box_chunks;
    uint32_t n_box_updates, n_pose_writes, n_position_writes;
    ct_box *out_boxes;   /* [n_box_updates] in the answer (answer_cuda.cuh) */
    double *out_volumes; /* [n_box_updates] in the answer; m^3, 0 for a rigid body */
};

/* Writes what steps send into the bodies and computes the boxes of those that moved. As all launches of stages it
 * returns how many kernels it launched. */
unsigned ct_cuda_update_bodies(const ct_resident_tables *tables, unsigned grid, cudaStream_t stream);

/* The volumes and the clusters' boxes of the deformable bodies that moved, once their boxes are known;
 * ct_cuda_update_bodies launches it. */
unsigned ct_cuda_measure_deformed_bodies(const ct_resident_tables *tables, unsigned grid, cudaStream_t stream);

extern const ct_kernel_entry ct_update_kernels[], ct_deformed_kernels[];

#endif

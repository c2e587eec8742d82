/* pair_cuda.cuh - pairs of bodies whose boxes overlap, and the tables that the broad phase finds them with.
 *
 * In a scene of few bodies each body is tested against all others. A crowd, which has more, is sorted along a
 * space-filling curve, so that neighbours in the list are neighbours in space, and gets a bounding volume hierarchy
 * (BVH): each node of level k + 1 holds CT_BVH_FANOUT consecutive nodes of level k, and level 0 is the bodies. A body
 * is tested against the nodes of its crowd's root level and descends into those whose boxes it meets.
 */
#ifndef CT_CUDA_PAIR_CUH
#define CT_CUDA_PAIR_CUH

#include "gpu/scene/resident_cuda.cuh"

enum { CT_MAX_SMALL_SCENE = 128 }; /* bodies; a scene with more is a crowd */
enum { CT_BVH_FANOUT_BITS = 2, CT_BVH_FANOUT = 1 << CT_BVH_FANOUT_BITS, CT_BVH_MAX_LEVELS = 9, CT_BVH_MAX_ROOTS = 32 };
/* A row is the pairs of one first body. A row with more than CT_LIGHT_ROW pairs is heavy; only crowds have such rows.
 */
enum { CT_LIGHT_ROW = CT_MAX_SMALL_SCENE };
/* Bodies that one block sorts, and levels of the BVH that one block builds above them. */
enum { CT_SORT_RUN = 512, CT_SORT_RUN_LEVELS = 2 };
static_assert(CT_SORT_RUN % (1 << CT_BVH_FANOUT_BITS * CT_SORT_RUN_LEVELS) == 0, "no node spans two runs");

struct ct_gpu_crowd {
    uint32_t step, root_level;
    /* Indices among those of the whole batch. A test chunk is CT_BLOCK bodies and one root that they are tested
     * against. */
    uint32_t first_run, first_test_chunk, first_key;
    uint32_t first_node[CT_BVH_MAX_LEVELS]; /* of each level */
};

CT_FN bool ct_gpu_is_crowd(const ct_gpu_step *step) {
    return step->n_bodies > CT_MAX_SMALL_SCENE;
}
/* Nodes of a level above n bodies. */
CT_FN uint64_t ct_bvh_level_size(uint64_t n, uint32_t level) {
    const uint32_t bits = CT_BVH_FANOUT_BITS * level;
    return (n + ((uint64_t)1 << bits) - 1) >> bits;
}

/* The box around one body or several, and the union of their groups and of their masks. */
struct ct_gpu_node {
    double lo[3], hi[3];
    uint32_t group, mask; /* group 0: meets nothing */
    uint32_t body;        /* level 0: index among the batch's bodies */
    uint32_t unused;
};

struct ct_gpu_pair {
    uint32_t step;
    uint32_t body[2]; /* indices among the batch's bodies; equal: the body with itself */
};

/* A crowd's pairs are found in no order; each is written into the row of its first body and sorted afterwards. */
struct ct_gpu_unsorted_pair {
    uint32_t body[2];
};

struct ct_pair_tables : ct_resident_tables {
    const ct_gpu_crowd *crowds;
    uint32_t n_crowds, n_runs, n_keys, n_test_chunks, n_nodes; /* of all crowds */
    uint32_t most_keys;                                        /* of one crowd */
    uint64_t *curve_keys[2];  /* [n_keys] position on the curve << 32 | index of the body in its step; sorted by runs */
    ct_gpu_node *nodes;       /* [n_nodes] */
    uint32_t *row_count;      /* [n_bodies] pairs whose first body this is */
    uint64_t *row_offset;     /* [n_bodies + 1] index of its first pair */
    uint32_t *heavy_rows;     /* [n_bodies] first bodies of the heavy rows, in no order */
    uint64_t *step_box_tests; /* [n_steps] of a crowd */
    ct_gpu_unsorted_pair *unsorted_pairs; /* [capacity.pairs] */
    ct_gpu_pair *pairs;                   /* [capacity.pairs], in rising order */
};

unsigned ct_cuda_build_crowds(const ct_pair_tables *tables, unsigned grid, cudaStream_t stream);
unsigned ct_cuda_find_pairs(const ct_pair_tables *tables, unsigned grid, cudaStream_t stream);

extern const ct_kernel_entry ct_crowd_kernels[];
extern const ct_kernel_entry ct_pair_kernels[];

#endif

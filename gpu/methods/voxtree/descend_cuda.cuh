/* descend_cuda.cuh - one level of all pairs of a batch on a device: a list of the open cubes of the level before, whose
 * children are compared by a thread each, and which they put the next level's open cubes on. For the method VOXTREE.
 *
 * Lists and tables are filled in any order; all sums are integers (descend_k.h). */
#ifndef CT_VOXEL_DESCEND_CUH
#define CT_VOXEL_DESCEND_CUH

#include "gpu/device/cuda/cuda.cuh"
#include "gpu/methods/voxtree/descend_k.h"

/* An open cube of a pair. */
struct ct_voxel_front {
    uint32_t pair; /* its number in the batch */
    ct_voxel_open open;
};

struct ct_voxel_pair_sums {
    ct_voxel_cube_sums settled, open;
};

/* Sums of a pair of groups of a pair in the round. */
struct ct_voxel_slot {
    uint64_t
        key; /* 0: none; else (1 + place) << 33 | 1 << 32 of settled cubes | the driver's group << 16 | the other's */
    ct_voxel_group_sums sums;
};

struct ct_voxel_counts {
    uint64_t n_next;   /* open cubes of the next level */
    uint64_t n_groups; /* slots that are filled */
    uint64_t n_lost;   /* primitives that found no slot */
};

struct ct_voxel_tables {
    const ct_voxel_geometry *geometry; /* [n_places] of the round's pairs, trees on the device */
    const uint32_t *place;             /* [n_pairs of the batch] in the round, or CT_GPU_NONE */
    const ct_voxel_front *front;       /* [n_front] of the level before; of the first level a root for each pair */
    uint64_t n_front;
    bool is_root;
    ct_voxel_front *next;     /* as long as the round has cubes to compare */
    ct_voxel_pair_sums *sums; /* [n_places], 0 */
    ct_voxel_slot *slots;     /* [n_slots] hash table, a power of two; 0 */
    ct_voxel_slot *groups;    /* [n_slots] those that are filled */
    uint64_t n_slots;         /* 0: no points are wanted */
    ct_voxel_counts *counts;  /* 0 */
};

/* Computes the level; then lists the groups' sums. Returns how many kernels it launched. */
unsigned ct_cuda_descend(const ct_voxel_tables *tables, unsigned grid, cudaStream_t stream);

extern const ct_kernel_entry ct_descend_kernels[];

#endif

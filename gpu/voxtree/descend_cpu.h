/* descend_cpu.h - the CPU's kernel of the method VOXTREE, one set per instruction set. */
#ifndef CT_VOXEL_DESCEND_CPU_H
#define CT_VOXEL_DESCEND_CPU_H

#include "gpu/voxtree/pair.h"

typedef enum ct_voxel_descent { CT_VOXEL_DONE, CT_VOXEL_LATE, CT_VOXEL_NO_MEMORY } ct_voxel_descent;

typedef struct ct_voxel_cpu {
    /* Computes the next level of a pair that can descend. LATE: the deadline (of ct_now, 0: none) passed before it was
     * complete, and NO_MEMORY, which also says that it was cancelled: the answer is still that of the level before. */
    ct_voxel_descent (*descend)(ct_voxel_pair *pair, double deadline, ct_budget *budget);
} ct_voxel_cpu;

extern const ct_voxel_cpu ct_voxel_cpu_base;
#ifdef __x86_64__
extern const ct_voxel_cpu ct_voxel_cpu_avx2;
#endif

#endif

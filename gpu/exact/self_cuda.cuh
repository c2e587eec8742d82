/* self_cuda.cuh - the method `exact` on a device for bodies with themselves. */
#ifndef CT_EXACT_SELF_CUDA_CUH
#define CT_EXACT_SELF_CUDA_CUH

#include "gpu/contact/sides_cuda.cuh"
#include "gpu/exact/exact_cuda.cuh"

/* The winding numbers just outside their surfaces, once crossings are totalled. */
unsigned ct_cuda_find_own_windings(const ct_exact_tables *tables, unsigned grid, cudaStream_t stream);

/* The moments of the vertices of part 1, from the sums and parts in *sides: ct_own_plan.part_1. */
unsigned ct_cuda_sum_part_1(const ct_exact_tables *tables, const ct_side_tables *sides, unsigned grid,
                            cudaStream_t stream);

extern const ct_kernel_entry ct_own_kernels[];

#endif

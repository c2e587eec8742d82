/* span.cuh - what the span stage leaves behind beside the sums: spans that were asked for, and counts of fragments. */
#ifndef CT_CUDA_SPAN_CUH
#define CT_CUDA_SPAN_CUH

#include "gpu/backend/cuda/raster.cuh"
#include "gpu/include/contact.h"

struct ct_gpu_span {
    uint32_t candidate, view; /* view: 0, 1 or 2 */
    uint64_t ray;             /* of the view */
    int32_t lower, upper;     /* depths */
    ct_span span; /* of a body with itself, lower_body is the triangle of the lower end until sides are known */
};

struct ct_span_tables : ct_raster_tables {
    uint64_t *step_fragments; /* [n_steps] */
    ct_gpu_span *spans;       /* [capacity.spans], in no order */
};

unsigned ct_cuda_spans(const ct_span_tables *tables, unsigned grid, cudaStream_t stream);

extern const ct_kernel_entry ct_span_kernels[];

#endif

/* span.cuh - what the span stage leaves behind beside the sums: spans that were asked for or that cells divide, and
 * counts of fragments. */
#ifndef CT_CUDA_SPAN_CUH
#define CT_CUDA_SPAN_CUH

#include "gpu/backend/cuda/raster.cuh"
#include "gpu/include/contact.h"

/* Wishes that need the sparse gradient. */
enum { CT_WANT_ENTRIES = CT_WANT_FRAME | CT_WANT_GRADIENT | CT_WANT_FRICTION | CT_WANT_FORCES };

struct ct_gpu_span {
    uint32_t candidate, view; /* view: 0, 1 or 2 */
    uint64_t ray;             /* of the view */
    int32_t lower, upper;     /* depths */
    ct_span span; /* of a body with itself, lower_body is the triangle of the lower end until sides are known */
};

/* A span of a contact with cells (gpu/span/cells_cuda.cuh), for the kernels that cut it at their walls. */
struct ct_gpu_cell_span {
    uint32_t candidate, view;
    uint32_t ray;                /* of the view */
    uint32_t lower[2], upper[2]; /* the fragments that bound it, per body; CT_GPU_NONE: none of that body's */
};

struct ct_span_tables : ct_raster_tables {
    uint64_t *step_fragments;     /* [n_steps] */
    ct_gpu_span *spans;           /* [capacity.spans], in no order */
    ct_gpu_cell_span *cell_spans; /* [capacity.cell_spans], in no order */
};

unsigned ct_cuda_spans(const ct_span_tables *tables, unsigned grid, cudaStream_t stream);

extern const ct_kernel_entry ct_span_kernels[];

#endif

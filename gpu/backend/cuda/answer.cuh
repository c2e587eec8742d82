/* answer.cuh - what the contact stage makes of the sums: entries of the sparse gradient, contacts, and each step's
 * totals, in memory that the host reads. */
#ifndef CT_CUDA_ANSWER_CUH
#define CT_CUDA_ANSWER_CUH

#include "gpu/backend/cuda/span.cuh"
#include "gpu/contact/frame_k.h"

/* Wide sums as two words each, high * 2^32 + low, so that atomics can add to them. First the sums of ct_moments, then
 * those of ct_barycentre. */
enum { CT_MOMENT_SUMS = 12, CT_BARYCENTRE_SUMS = 8, CT_WIDE_SUMS = CT_MOMENT_SUMS + CT_BARYCENTRE_SUMS };

struct ct_gpu_side_sums {
    int64_t high[CT_WIDE_SUMS], low[CT_WIDE_SUMS];
};

CT_FN ct_wide ct_gpu_wide_sum(const ct_gpu_side_sums *side, int k) {
    return (ct_wide)side->high[k] * ((int64_t)1 << 32) + side->low[k];
}

struct ct_gpu_contact {
    uint32_t body[2]; /* indices among the batch's bodies */
    uint64_t first_entry;
    ct_weight_units units;
    ct_contact contact; /* all but body[], first[], first_span */
};

struct ct_gpu_step_totals {
    uint64_t pairs, box_tests, rays, fragments, first_contact, n_contacts;
    uint32_t refused; /* the first pair without a window, or CT_GPU_NONE */
    uint32_t body[2]; /* its bodies, as indices among the batch's */
};

struct ct_answer_tables : ct_span_tables {
    ct_gpu_side_sums *side_sums; /* [2 capacity.pairs] per side */
    uint32_t *entry_count;       /* [capacity.vertex_chunks] per chunk of vertices */
    uint64_t *entry_offset;      /* [capacity.vertex_chunks + 1] */
    uint64_t *contact_offset;    /* [capacity.pairs + 1] per pair */
    uint32_t *entry_vertices;    /* [capacity.entries] */
    int64_t *entry_sums;         /* [capacity.entries][3] */

    /* In memory that the host reads: */
    ct_gpu_counts *out_counts;
    ct_gpu_step_totals *out_steps; /* [n_steps] */
    ct_gpu_contact *out_contacts;  /* [capacity.contacts] */
    uint32_t *out_vertices;        /* [capacity.entries], of steps that asked for them */
    int64_t *out_sums;             /* [capacity.entries][3] */
};

unsigned ct_cuda_answer(const ct_answer_tables *tables, unsigned grid, cudaStream_t stream);

#endif

/* answer_cuda.cuh - what the contact stage makes of the sums: entries of the sparse gradient, contacts, and each step's
 * totals. All of it goes to one block of device memory, which the host copies in one piece:
 *
 *     ct_gpu_counts | ct_gpu_step_totals per step | ct_box per moved body | ct_gpu_contact per contact |
 *     per step that wants them: gradient, forces, weights, vertices of all its entries | ct_gpu_span per span
 *
 * The first three are the head; its size does not depend on what the batch finds. The rest begins where
 * ct_gpu_counts.first_array and first_span say, and ends at answer_bytes.
 */
#ifndef CT_CUDA_ANSWER_CUH
#define CT_CUDA_ANSWER_CUH

#include "gpu/contact/frame_k.h"
#include "gpu/contact/sums_cuda.cuh"
#include "gpu/include/contact.h"
#include "gpu/view/turned_k.h"

/* Wishes that need the sparse gradient. */
enum { CT_WANT_ENTRIES = CT_WANT_FRAME | CT_WANT_GRADIENT | CT_WANT_FRICTION | CT_WANT_FORCES };

/* A span that was asked for. */
struct ct_gpu_span {
    uint32_t candidate, view; /* view: 0, 1 or 2 */
    uint64_t ray;             /* of the view */
    int32_t lower, upper;     /* depths */
    ct_span span; /* of a body with itself, lower_body is the triangle of the lower end until sides are known */
};

/* Wide sums as two words each, high * 2^32 + low, so that atomics can add to them. First the sums of ct_moments, then
 * those of ct_barycentre. */
enum { CT_MOMENT_SUMS = 12, CT_BARYCENTRE_SUMS = 8, CT_WIDE_SUMS = CT_MOMENT_SUMS + CT_BARYCENTRE_SUMS };

struct ct_gpu_part_sums {
    int64_t high[CT_WIDE_SUMS], low[CT_WIDE_SUMS];
};

CT_FN ct_wide ct_gpu_wide_sum(const ct_gpu_part_sums *part, int k) {
    return (ct_wide)part->high[k] * ((int64_t)1 << 32) + part->low[k];
}

struct ct_gpu_contact {
    uint32_t body[2]; /* indices among the batch's bodies */
    uint32_t candidate, unused;
    ct_contact contact; /* all but body[], first[], first_span, n_spans */
};

struct ct_gpu_step_totals {
    uint64_t pairs, box_tests, rays, fragments, first_contact, n_contacts;
    uint64_t n_entries;
    uint64_t arrays;  /* where its arrays are (ct_gpu_array_layout), in bytes from the beginning of the answer */
    uint32_t refused; /* the first pair without a window, or CT_GPU_NONE */
    uint32_t body[2]; /* its bodies, as indices among the batch's */
    uint32_t unused;
};

/* Where a step's arrays of n entries lie, in bytes from the first one on. */
struct ct_gpu_array_layout {
    uint64_t gradient, forces, weights, vertices, end;
};

CT_FN ct_gpu_array_layout ct_gpu_lay_out_arrays(uint32_t want, uint64_t n) {
    ct_gpu_array_layout at;
    at.gradient = 0;
    at.forces = at.gradient + (want & CT_WANT_GRADIENT ? n * sizeof(double[3]) : 0);
    at.weights = at.forces + (want & CT_WANT_FORCES ? n * sizeof(double[3]) : 0);
    at.vertices = at.weights + (want & CT_WANT_FRICTION ? n * sizeof(double) : 0);
    const uint64_t any = want & (CT_WANT_GRADIENT | CT_WANT_FORCES | CT_WANT_FRICTION);
    at.end = at.vertices + (any ? (n * sizeof(uint32_t) + 7) / 8 * 8 : 0);
    return at;
}

struct ct_gpu_step_entries {
    uint64_t first, n; /* among the batch's entries */
    uint64_t arrays;   /* as in ct_gpu_step_totals */
};

struct ct_answer_tables : ct_sum_tables {
    uint64_t *step_fragments, *step_rays; /* [n_steps] */
    ct_gpu_span *spans;                   /* [capacity.spans], in no order */
    ct_gpu_part_sums *part_sums;          /* [2 capacity.candidates] per part */
    uint64_t *contact_offset;             /* [capacity.candidates + 1] contacts before a candidate */
    uint32_t *entry_count;                /* [capacity.vertex_chunks] per chunk of vertices */
    uint64_t *entry_offset;               /* [capacity.vertex_chunks + 1] */
    uint32_t *entry_vertices;             /* [capacity.entries] */
    int64_t *entry_sums;                  /* [capacity.entries][3] */
    ct_gpu_step_entries *step_entries;    /* [n_steps] */
    const ct_view_error *view_errors;     /* [candidates][3] of methods that bound the error of each view; else NULL */
    const ct_turned_views *turned; /* [candidates], where views of some are turned; else NULL. What is along their
                                          axes is turned back on the host */

    char *answer;                  /* [capacity.answer_bytes] */
    ct_gpu_step_totals *out_steps; /* in the answer: [n_steps] */
    ct_gpu_contact *out_contacts;  /* in the answer */
};

unsigned ct_cuda_answer(const ct_answer_tables *tables, unsigned grid, cudaStream_t stream);

extern const ct_kernel_entry ct_answer_kernels[];

#endif

/* span_cpu.h - the CPU's span stage: finds the spans of a bin's rays and adds them to the sums of the pair's contacts.
 */
#ifndef CT_SPAN_CPU_H
#define CT_SPAN_CPU_H

#include "gpu/contact/sums_cpu.h"
#include "gpu/methods/ldi/cells_cpu.h"
#include "gpu/methods/ldi/raster_cpu.h"
#include "gpu/methods/ldi/span_k.h"

/* Per-thread memory. */
typedef struct ct_span_scratch {
    ct_buffer ray;   /* one ray's crossings in order */
    ct_buffer spans; /* ct_raw_span [n_spans], in the order of bins and rays */
    size_t n_spans;
    ct_buffer covers; /* the large-triangle path's */
    ct_cell_scratch cells;
} ct_span_scratch;

/* Which spans of a pair are found, and where they are accumulated. */
typedef struct ct_span_options {
    const uint32_t *triangles[2]; /* per body: [n][3] vertex indices */
    ct_span_rule rule;
    uint32_t contact;         /* index, among the pair's contacts, of the sums that the spans are added to */
    bool keep_spans;          /* also append them to scratch->spans */
    const ct_cell_grid *grid; /* also cut them into cells, in scratch->cells; NULL: no cells */
    bool has_cell_gradient;   /* else cells have only their spans */
} ct_span_options;

/* The fast paths know the pair rule in closed form and only add up lengths and gradients. This is the one place that
 * decides where they replace the walk (ct_walk_crossing), which gives the same bits. */
static inline bool ct_may_skip_walk(const ct_span_options *options) {
    return options->rule == CT_SPAN_OF_PAIR && !options->keep_spans;
}

/* The fast path for large triangles adds up whole blocks of rays, which may lie in several cells. */
static inline bool ct_may_sum_large_triangles(const ct_span_options *options) {
    return ct_may_skip_walk(options) && !options->grid;
}

typedef enum ct_large_status {
    CT_LARGE_DONE,
    CT_LARGE_NOT_APPLICABLE, /* nothing was done: use the raster stage and then span */
    CT_LARGE_FAILED          /* out of memory */
} ct_large_status;

typedef struct ct_span_cpu {
    /* Adds the spans of a bin's rays to sums[options->contact]. False: out of memory. */
    bool (*span)(const ct_ray_lists *rays, const ct_span_options *options, ct_contact_sums *sums,
                 ct_span_scratch *scratch, ct_budget *budget);

    /* The fast path for a bin that few large triangles cover: rasterises it and adds its spans without storing
     * fragments. Gives what ct_raster_cpu.raster and span give, but leaves no lists in *rays, only the bin and the
     * number of fragments. *rastered_at: when (ct_now) the rays were rasterised and spans remained. Needs
     * ct_may_sum_large_triangles(options). */
    ct_large_status (*large_triangles)(ct_ray_lists *rays, const ct_window *window, const ct_bin_plan *plan,
                                       uint32_t bin, const ct_binned_chunk *chunks, size_t n_chunks,
                                       const ct_span_options *options, ct_contact_sums *sums, ct_span_scratch *scratch,
                                       ct_budget *budget, double *rastered_at);
} ct_span_cpu;

extern const ct_span_cpu ct_span_cpu_base;
#ifdef __x86_64__
extern const ct_span_cpu ct_span_cpu_avx2;
#endif

#endif

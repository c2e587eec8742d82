/* span_cpu.h - the CPU's span stage: finds the spans of a bin's rays and adds them to the sums of the pair's contacts.
 */
#ifndef CT_SPAN_CPU_H
#define CT_SPAN_CPU_H

#include "gpu/raster/raster_cpu.h"
#include "gpu/span/cells_cpu.h"
#include "gpu/span/span_k.h"

/* Vertices are summed and cleared in groups of CT_VERTEX_GROUP, each with one touched flag; CT_VERTEX_BLOCK vertices
 * have eight flags, which are read as one word. */
enum { CT_VERTEX_GROUP = 4, CT_VERTEX_BLOCK = 8 * CT_VERTEX_GROUP };

/* The sums of one contact, or one thread's part of them. All are integers, so parts add up to the same total however
 * the work was split. All are zero between uses: reading a sum clears it. */
typedef struct ct_contact_sums {
    /* Per body and view: [vertices], weights in units of CT_WEIGHT_ONE rays. One plane per view, because bins of one
     * view follow each other: the plane being added to then stays in a core's cache. */
    int64_t *gradient[2][3];
    uint8_t *touched[2]; /* per body, 1 for each group of vertices whose sums may be non-zero, else 0 */
    /* Both are padded to whole CT_VERTEX_BLOCKs. */
    int64_t length[3];   /* per view, sum of span lengths, in units of the view's axis times ray areas */
    int64_t spans[3];    /* per view, number of spans, times ray areas */
    int64_t inverted[3]; /* per view, as length: of intervals in which a body is inside out (ct_is_inverted) */
} ct_contact_sums;

/* A kept span, in lattice coordinates. */
typedef struct ct_raw_span {
    int32_t u, v, lower, upper; /* the ray; depths of the two ends */
    int32_t view;
    int32_t
        lower_body; /* of a span of a body with itself, instead: the triangle of the lower end, until sides are known */
} ct_raw_span;

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

/* span_cpu.h - the CPU's span stage: sorts each ray of a band, finds its spans and adds them to the pair's sums. */
#ifndef CT_SPAN_CPU_H
#define CT_SPAN_CPU_H

#include "gpu/raster/raster_cpu.h"
#include "gpu/span/span_k.h"

/* Vertices next to each other whose sums are looked at together; and those of eight such groups, whose marks are. */
enum { CT_VERTEX_GROUP = 4, CT_VERTEX_BLOCK = 8 * CT_VERTEX_GROUP };

/* The sums of one pair, or one thread's part of them. Everything is an integer, so parts add up to the same total
 * however the work was split. All zero between uses: whoever reads a sum clears it. */
typedef struct ct_contact_sums {
    /* Per body and view: [vertices], weights in units of CT_WEIGHT_ONE samples. The views' bands are walked one view
     * after the other, so that what is added to at a time fits a core's cache. */
    int64_t *gradient[2][3];
    uint8_t *touched[2]; /* per body, 1 for each group of vertices whose sums may be non-zero, otherwise 0 */
    /* Both have room for vertices in whole CT_VERTEX_BLOCK. */
    int64_t length[3]; /* per view, sum of span lengths in units of the view's axis */
} ct_contact_sums;

/* A span as found, on the lattice. */
typedef struct ct_raw_span {
    int32_t column, row, lower, upper; /* sample in (u, v); depths */
    int32_t view, lower_body;
} ct_raw_span;

typedef struct ct_span_scratch {
    ct_buffer ray;   /* one ray's fragments in order */
    ct_buffer spans; /* ct_raw_span, where they are kept */
    size_t n_spans;
} ct_span_scratch;

typedef enum ct_large_status {
    CT_LARGE_DONE,
    CT_LARGE_NOT_APPLICABLE, /* not such a band: nothing was done */
    CT_LARGE_FAILED          /* out of memory */
} ct_large_status;

typedef struct ct_span_cpu {
    /* Adds the spans of all rays of a band to `sums`, and appends them to scratch->spans if keep is set; triangles are
     * the two bodies' [n][3] vertex indices. False: out of memory. */
    bool (*span)(const ct_ray_lists *rays, const uint32_t *const triangles[2], ct_contact_sums *sums,
                 ct_span_scratch *scratch, ct_budget *budget, bool keep);

    /* A band that few triangles cover, each of them many samples, rasterised and walked at once: as
     * ct_raster_cpu.raster and then span without keep, but that *rays has no lists afterwards, only the place and the
     * number of fragments. */
    ct_large_status (*coarse)(ct_ray_lists *rays, const ct_window *window, const ct_bands *bands, uint32_t band,
                              const ct_bin *bins, size_t n_bins, const uint32_t *const triangles[2],
                              ct_contact_sums *sums, ct_span_scratch *scratch, ct_budget *budget);
} ct_span_cpu;

extern const ct_span_cpu ct_span_cpu_base;
#ifdef __x86_64__
extern const ct_span_cpu ct_span_cpu_avx2;
#endif

#endif

/* raster_cpu.h - the second half of the CPU's raster stage: the triangles and crossings of a bin become, for each ray,
 * a list of its fragments. */
#ifndef CT_RASTER_CPU_H
#define CT_RASTER_CPU_H

#include "gpu/methods/ldi/bin_cpu.h"

/* The rays of one bin, with all crossings that can bound a span; memory is per thread and kept. No span lies outside
 * the depths where both bodies' boxes are: crossings behind them are left out, those in front at most counted. */
typedef struct ct_ray_lists {
    ct_buffer head_memory, winding_memory, fragment_memory;
    uint32_t *head; /* [rows][columns], index of a ray's first fragment, or CT_END; unordered along the ray */
    ct_linked_fragment *fragments;
    uint32_t n_fragments;
    int32_t (*winding)[2]; /* [rows][columns], initial winding number per body that is CT_INITIAL_COUNTED, else 0; NULL:
                              neither body is */
    ct_initial_winding initial[2]; /* per body */
    ct_bin bin;
    int32_t view;       /* axis of the rays */
    int32_t first_body; /* the body rasterised first; the other's fragments are kept only on rays that it crosses */
} ct_ray_lists;

/* Sets all of *rays except the lists, for bin number `bin`. All chunks of one body come before those of the other.
 */
void ct_ray_lists_begin(ct_ray_lists *rays, const ct_bin_plan *plan, uint32_t bin, const ct_binned_chunk *chunks,
                        size_t n_chunks);

static inline size_t ct_ray_count(const ct_ray_lists *rays) {
    return (size_t)rays->bin.rows * (size_t)rays->bin.columns;
}

typedef struct ct_raster_cpu {
    /* Rasterises bin number `bin` into `rays`; all chunks of one body come before those of the other. False: out of
     * memory; n_fragments is undefined then. */
    bool (*raster)(ct_ray_lists *rays, ct_budget *budget, const ct_window *window, const ct_bin_plan *plan,
                   uint32_t bin, const ct_binned_chunk *chunks, size_t n_chunks);
} ct_raster_cpu;

extern const ct_raster_cpu ct_raster_cpu_base;
#ifdef __x86_64__
extern const ct_raster_cpu ct_raster_cpu_avx2;
#endif

#endif

/* raster_cpu.h - the second half of the CPU's raster stage: what was binned to a band becomes, for each ray, a list of
 * its fragments. */
#ifndef CT_RASTER_CPU_H
#define CT_RASTER_CPU_H

#include "gpu/raster/bin_cpu.h"

/* Per-thread memory of the raster stage: the rays of the band it was last used for, with all crossings that can bound a
 * span. No span can lie outside the depths where both bodies' boxes are: crossings after them are left out, and those
 * before them at most counted. */
typedef struct ct_ray_lists {
    ct_buffer head_memory, winding_memory, fragment_memory;
    uint32_t *head; /* [rows][n_u], index of a ray's first fragment, or CT_END; of any order along the ray */
    ct_linked_fragment *fragments;
    uint32_t n_fragments;
    int32_t (*winding)[2]; /* [rows][n_u], per body of CT_INITIAL_COUNTED the winding number with which the ray enters
                              the window's depths, else 0; NULL: neither body is counted */
    ct_initial_winding entry[2]; /* per body */
    int32_t view, first_row, rows, columns;
    int32_t first_body; /* of the first bin; the other's fragments are kept only on rays that this one is on */
} ct_ray_lists;

/* Which rays band `band` (an index among all views' bands) has: all of *rays but the lists. All bins of one body come
 * before those of the other. */
void ct_set_band_extent(ct_ray_lists *rays, const ct_window *window, const ct_bands *bands, uint32_t band,
                        const ct_bin *bins, size_t n_bins);

typedef struct ct_raster_cpu {
    /* Rasterises band `band` (an index among all views' bands) into `rays`; all bins of one body come before those of
     * the other. False: out of memory; the number of fragments that there was no room for is unknown then. */
    bool (*raster)(ct_ray_lists *rays, ct_budget *budget, const ct_window *window, const ct_bands *bands, uint32_t band,
                   const ct_bin *bins, size_t n_bins);
} ct_raster_cpu;

extern const ct_raster_cpu ct_raster_cpu_base;
#ifdef __x86_64__
extern const ct_raster_cpu ct_raster_cpu_avx2;
#endif

#endif

/* raster_cpu.h - the CPU's raster stage: triangles are binned to bands of lattice rows, then each band is rasterised
 * into lists of fragments per ray. A band is the unit of parallel work, sized so that its fragments stay in cache. */
#ifndef CT_RASTER_CPU_H
#define CT_RASTER_CPU_H

#include <stdbool.h>
#include <stddef.h>

#include "gpu/base/scratch.h"
#include "gpu/raster/raster_k.h"
#include "gpu/view/snap_cpu.h"

/* How the winding number with which a ray enters the window's depths is known. A ray's crossings of a closed surface
 * add up to nothing, so a surface that ends within those depths needs no look at what comes before them. */
typedef enum ct_entry {
    CT_ENTRY_OUTSIDE, /* 0: the body has no triangle before the window */
    CT_ENTRY_LISTED,  /* the body has none after it: what the listed crossings lack to 0; those before are left out */
    CT_ENTRY_COUNTED, /* it has both: crossings before the window are counted */
} ct_entry;

/* One body of a pair on the pair's lattice. */
typedef struct ct_placed {
    const ct_coords *coords;   /* [vertices] */
    const ct_cells *cells;     /* [vertices] */
    const uint32_t *triangles; /* [n_triangles][3] */
    uint32_t n_triangles;
    uint32_t body;    /* 0 or 1 */
    uint8_t entry[3]; /* ct_entry of the view along each axis */
} ct_placed;

/* How the rows of each view are cut: band b of view w has rows b << shift[w] .. ((b + 1) << shift[w]) - 1. */
typedef struct ct_bands {
    int32_t shift[3];
    uint32_t count[3];
    uint32_t first[3]; /* index of view w's first band among all; bands of one view follow each other */
    uint32_t total;
    /* Per axis, for telling triangles of a single sample: the samples, and whether two pitches are few enough units for
     * what raster_singles computes. */
    int16_t n[3];
    bool fine[3];
} ct_bands;

/* Chosen so that a band has about `samples` samples, at least one row. */
ct_bands ct_bands_plan(const ct_window *window, int32_t samples);

/* The triangles of one chunk of a body, by band: entries[offset[2 b]] .. entries[offset[2 b + 2] - 1] are those that
 * may cover a sample of band b; those before entries[offset[2 b + 1]] can cover one sample only. Owned by whoever
 * binned; memory is kept for the next use. */
typedef struct ct_bin {
    ct_buffer lists, offsets, memory;
    const ct_placed *placed;
    const uint32_t *entries;
    const uint32_t *offset; /* [2 bands.total + 1] */
} ct_bin;

void ct_bin_free(ct_bin *bin, ct_budget *budget); /* its memory; the bin itself is the caller's */

/* Per-thread memory of the raster stage: the rays of the band it was last used for, with all crossings that can bound a
 * span. No span can lie outside the depths where both bodies' boxes are: crossings after them are left out, and those
 * before them at most counted. */
typedef struct ct_ray_lists {
    ct_buffer head_memory, winding_memory, fragment_memory;
    uint32_t *head; /* [rows][n_u], index of a ray's first fragment, or CT_END; of any order along the ray */
    ct_linked_fragment *fragments;
    uint32_t n_fragments;
    int32_t (*winding)[2]; /* [rows][n_u], per body of CT_ENTRY_COUNTED the winding number with which the ray enters the
                              window's depths, else 0; NULL: neither body is counted */
    ct_entry entry[2];     /* per body */
    int32_t view, first_row, rows, columns;
    int32_t first_body; /* of the first bin; the other's fragments are kept only on rays that this one is on */
} ct_ray_lists;

/* Which rays band `band` (an index among all views' bands) has: all of *rays but the lists. All bins of one body come
 * before those of the other. */
void ct_rays_place(ct_ray_lists *rays, const ct_window *window, const ct_bands *bands, uint32_t band,
                   const ct_bin *bins, size_t n_bins);

typedef struct ct_raster_cpu {
    /* Bins triangles [first, last). False: out of memory. */
    bool (*bin)(ct_bin *bin, ct_budget *budget, const ct_placed *placed, const ct_bands *bands, uint32_t first,
                uint32_t last);

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

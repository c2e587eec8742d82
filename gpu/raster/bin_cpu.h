/* bin_cpu.h - the first half of the CPU's raster stage: which triangles of a body matter, to which bands of lattice
 * rows they belong, and, of those that can cover one sample only, which do. A band is the unit of parallel work, sized
 * so that its fragments stay in cache. */
#ifndef CT_BIN_CPU_H
#define CT_BIN_CPU_H

#include <stdbool.h>
#include <stddef.h>

#include "gpu/base/scratch.h"
#include "gpu/raster/raster_k.h"
#include "gpu/view/snap_cpu.h"
#include "gpu/view/winding_k.h"

/* One body of a pair on the pair's lattice. */
typedef struct ct_snapped_body {
    const ct_coords *coords;   /* [vertices] */
    const ct_cells *cells;     /* [vertices] */
    const uint32_t *triangles; /* [n_triangles][3] */
    uint32_t n_triangles;
    uint32_t body;    /* 0 or 1 */
    uint8_t entry[3]; /* ct_initial_winding of the view along each axis */
} ct_snapped_body;

/* How the rows of each view are cut: band b of view w has rows b << shift[w] .. ((b + 1) << shift[w]) - 1. */
typedef struct ct_bands {
    int32_t shift[3];
    uint32_t count[3];
    uint32_t first[3]; /* index of view w's first band among all; bands of one view follow each other */
    uint32_t total;
} ct_bands;

/* Chosen so that a band has about `samples` samples, at least one row. */
ct_bands ct_bands_plan(const ct_window *window, int32_t samples);

/* Crossings of a view that were found when their triangles were binned, band by band. */
typedef struct ct_crossings {
    const uint64_t *front;  /* its fragment's key and, 32 bits up, l1 */
    const uint64_t *back;   /* l2 and tag */
    const uint64_t *where;  /* row * columns + column of its ray, perhaps CT_CROSSING_COUNTED, and, 32 bits up, row */
    const uint32_t *offset; /* [bands of the view + 1] */
} ct_crossings;
#define CT_CROSSING_COUNTED 0x80000000u /* before the window, and only to be counted */

struct ct_crossing_memory {
    ct_buffer front, back, where;
};

/* The triangles of one chunk of a body, by band b: entries[offset[b]] .. entries[offset[b + 1] - 1] are those that may
 * cover a sample of it, but for small ones, whose crossings are in crossings. Owned by whoever binned; memory is kept
 * for the next use. */
typedef struct ct_bin {
    ct_buffer offsets, entry_memory;
    struct ct_crossing_memory crossing_memory[3];
    const ct_snapped_body *placed;
    const uint32_t *entries;
    const uint32_t *offset;    /* [bands.total + 1] */
    ct_crossings crossings[3]; /* per view */
} ct_bin;

void ct_bin_free(ct_bin *bin, ct_budget *budget); /* its memory; the bin itself is the caller's */

/* Triangles that were kept, so that those which are tried together have the same to be tried: first those whose corners
 * have at most one sample between them along each axis, then the others; of each kind those that can cover a sample in
 * one view only, that along x, y or z, and then those of several views. */
enum { CT_KEPT_SINGLE, CT_KEPT_SEVERAL = 4, CT_KEPT_LISTS = 8 };

/* Per-thread memory of binning. */
typedef struct ct_bin_scratch {
    ct_buffer kept_memory, listed;
    struct ct_crossing_memory crossed[3];
    /* [n_kept] triangles each, from cull to bin; after the last come some that are there already, as four are looked at
     * together: corners of others need not be known to bin. */
    const uint32_t *kept[CT_KEPT_LISTS];
    uint32_t n_kept[CT_KEPT_LISTS];
} ct_bin_scratch;

void ct_bin_scratch_free(ct_bin_scratch *scratch, ct_budget *budget);

typedef struct ct_bin_cpu {
    /* Which of triangles [first, last) may cover a sample that matters in some view, into scratch->kept. Looks at their
     * corners' cells, not at coords. False: out of memory. */
    bool (*cull)(ct_bin_scratch *scratch, ct_budget *budget, const ct_snapped_body *placed, uint32_t first,
                 uint32_t last);

    /* Bins scratch->kept. Without `crossings` all of them are entries. False: out of memory. */
    bool (*bin)(ct_bin *bin, ct_bin_scratch *scratch, ct_budget *budget, const ct_snapped_body *placed,
                const ct_window *window, const ct_bands *bands, bool crossings);
} ct_bin_cpu;

extern const ct_bin_cpu ct_bin_cpu_base;
#ifdef __x86_64__
extern const ct_bin_cpu ct_bin_cpu_avx2;
#endif

#endif

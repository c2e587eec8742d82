/* bin_cpu.h - the first half of the CPU's raster stage: culls a body's triangles, sorts the kept ones into bins, and
 * rasterises small ones on the way. */
#ifndef CT_BIN_CPU_H
#define CT_BIN_CPU_H

#include <stdbool.h>
#include <stddef.h>

#include "gpu/base/scratch.h"
#include "gpu/methods/ldi/bins.h"
#include "gpu/view/near.h"
#include "gpu/view/raster_k.h"
#include "gpu/view/snap_cpu.h"
#include "gpu/view/winding_k.h"

/* One body of a pair, its vertices snapped to the pair's lattice. */
typedef struct ct_snapped_body {
    const ct_coords *coords;   /* [vertices] */
    const ct_cells *cells;     /* [vertices] */
    const uint32_t *triangles; /* [n_triangles][3] */
    uint32_t n_triangles;
    uint32_t body;      /* 0 or 1 */
    uint8_t initial[3]; /* ct_initial_winding of the view along each axis */
    /* Of views that are CT_INITIAL_COUNTED: the initial winding numbers [n_v][n_u] where they are known already
     * (front_winding.h); NULL: triangles in front of the window are counted. */
    const int32_t *front_winding[3];
} ct_snapped_body;

/* Triangles in front of the window's depths need no look in the view along axis w. */
static inline bool ct_drops_front(const ct_snapped_body *snapped, int w) {
    return snapped->initial[w] == CT_INITIAL_FROM_BALANCE || snapped->front_winding[w];
}

/* Crossings of a view that were found while their triangles were binned, bin by bin. */
typedef struct ct_crossings {
    const uint64_t *front;  /* the fragment's key; in the upper half l1 */
    const uint64_t *back;   /* the fragment's l2; in the upper half its tag */
    const uint64_t *where;  /* number of the ray in its bin, with CT_CROSSING_COUNTED; the upper half is scratch */
    const uint32_t *offset; /* [bins of the view + 1] */
} ct_crossings;
#define CT_CROSSING_COUNTED 0x80000000u /* in front of the window: changes only the initial winding number */

struct ct_crossing_memory {
    ct_buffer front, back, where;
};

/* A chunk of a body's triangles, sorted into bins. Bin b has the triangles entries[offset[b]] .. entries[offset[b + 1]
 * - 1], which may cover samples of it, and the crossings of small triangles, which are in no list of
 * entries. Memory is kept for the next use. */
typedef struct ct_binned_chunk {
    ct_buffer offsets, entry_memory;
    struct ct_crossing_memory crossing_memory[3];
    const ct_snapped_body *snapped;
    const uint32_t *entries;
    const uint32_t *offset;    /* [plan's n_bins + 1] */
    ct_crossings crossings[3]; /* per view; with no bins where crossings were not asked for */
} ct_binned_chunk;

void ct_binned_chunk_free(ct_binned_chunk *chunk, ct_budget *budget); /* its memory; the struct is the caller's */

/* Kept triangles are sorted into lists of similar ones, because four are rasterised together and take as long as the
 * slowest. First come those with at most one sample between their corners along each axis, then the others; of each
 * kind, those that can cover samples of one view only (along x, y or z), then those of several views. */
enum { CT_KEPT_SINGLE, CT_KEPT_SEVERAL = 4, CT_KEPT_LISTS = 8 };

/* Per-thread memory of binning. */
typedef struct ct_bin_scratch {
    ct_buffer kept_memory, entries;
    struct ct_crossing_memory crossings[3];
    /* [n_kept] triangle ids, padded with copies of the first id, for the SIMD loop and its prefetches. From cull to
     * bin.
     */
    const uint32_t *kept[CT_KEPT_LISTS];
    uint32_t n_kept[CT_KEPT_LISTS];
} ct_bin_scratch;

void ct_bin_scratch_free(ct_bin_scratch *scratch, ct_budget *budget);

typedef struct ct_bin_cpu {
    /* Finds which triangles of some runs may cover a sample that matters in some view: scratch->kept. Reads cells, not
     * coords. False: out of memory. */
    bool (*cull)(ct_bin_scratch *scratch, ct_budget *budget, const ct_snapped_body *snapped,
                 const ct_triangle_run *runs, size_t n_runs);

    /* Sorts scratch->kept into bins. emit_small: small triangles become crossings; otherwise all are entries. False: out of memory. */
    bool (*bin)(ct_binned_chunk *chunk, ct_bin_scratch *scratch, ct_budget *budget, const ct_snapped_body *snapped,
                const ct_window *window, const ct_bin_plan *plan, bool emit_small);
} ct_bin_cpu;

extern const ct_bin_cpu ct_bin_cpu_base;
#ifdef __x86_64__
extern const ct_bin_cpu ct_bin_cpu_avx2;
#endif

#endif

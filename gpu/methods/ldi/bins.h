/* bins.h - which bins the tiles of a pair's views are cut into. For the planner, the raster and the span stages. */
#ifndef CT_BINS_H
#define CT_BINS_H

#include <stddef.h>

#include "gpu/view/tile_k.h"

/* A tile of one of the views, and its bins: columns x rows of them, each of 2^shift_u x 2^shift_v samples (fewer at the
 * tile's upper ends), numbered row by row from `first` on among all bins of the pair. */
typedef struct ct_binned_tile {
    ct_tile tile;
    int32_t view; /* axis of the view that it belongs to */
    int32_t shift_u, shift_v;
    uint32_t columns, rows;
    uint32_t first;
} ct_binned_tile;

/* All bins of a pair. Each view is one tile that fills the window (ct_uniform_tile). */
typedef struct ct_bin_plan {
    const ct_binned_tile *tiles; /* [3] by view, owned by the planner */
    uint32_t n_bins;
} ct_bin_plan;

/* The plan of a window's three views; tiles: [3], filled here and kept by the plan. */
ct_bin_plan ct_bin_plan_views(const ct_window *window, int32_t max_samples, int32_t max_columns,
                              ct_binned_tile tiles[3]);

/* One bin: which tile it belongs to, and its samples, counted from the tile's first. */
typedef struct ct_bin {
    const ct_binned_tile *of;
    int32_t first_column, first_row;
    int32_t columns, rows;
} ct_bin;

/* Bin number i < plan->n_bins. */
ct_bin ct_bin_at(const ct_bin_plan *plan, uint32_t i);

#endif

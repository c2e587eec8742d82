/* bins.c - cuts tiles into bins. */
#include "gpu/raster/bins.h"

ct_binned_tile ct_bin_tile(const ct_tile *tile, int view, int32_t max_samples, int32_t max_columns, uint32_t first) {
    ct_binned_tile t = {.tile = *tile, .view = view, .first = first};
    while ((int64_t)1 << t.shift_u < tile->n_u && (int64_t)2 << t.shift_u <= max_columns) t.shift_u++;
    if (tile->n_u <= max_columns) /* one bin across, however many samples that is */
        while ((int64_t)1 << t.shift_u < tile->n_u) t.shift_u++;
    t.columns = (uint32_t)((tile->n_u + ((int64_t)1 << t.shift_u) - 1) >> t.shift_u);
    const int64_t across = t.columns == 1 ? tile->n_u : (int64_t)1 << t.shift_u;
    while ((2 << t.shift_v) * across <= max_samples && (1 << t.shift_v) < tile->n_v) t.shift_v++;
    t.rows = (uint32_t)((tile->n_v + (1 << t.shift_v) - 1) >> t.shift_v);
    return t;
}

ct_bin_plan ct_bin_plan_uniform(const ct_window *window, int32_t max_samples, int32_t max_columns,
                                ct_binned_tile tiles[3]) {
    uint32_t n = 0;
    for (int w = 0; w < 3; w++) {
        const ct_tile tile = ct_uniform_tile(window, w);
        tiles[w] = ct_bin_tile(&tile, w, max_samples, max_columns, n);
        n += tiles[w].columns * tiles[w].rows;
    }
    return (ct_bin_plan){.tiles = tiles, .first_tile = {0, 1, 2, 3}, .n_bins = n, .is_uniform = true};
}

ct_bin_plan ct_bin_plan_tiles(const ct_binned_tile *tiles, uint32_t n_tiles) {
    ct_bin_plan plan = {.tiles = tiles};
    for (uint32_t i = 0; i < n_tiles; i++) {
        plan.first_tile[tiles[i].view + 1] = i + 1;
        plan.n_bins = tiles[i].first + tiles[i].columns * tiles[i].rows;
    }
    for (int w = 0; w < 3; w++) /* a view may have no tile */
        if (plan.first_tile[w + 1] < plan.first_tile[w]) plan.first_tile[w + 1] = plan.first_tile[w];
    return plan;
}

ct_bin ct_bin_at(const ct_bin_plan *plan, uint32_t i) {
    uint32_t lo = 0, hi = plan->first_tile[3]; /* the last tile whose first bin is not after i */
    while (hi - lo > 1) {
        const uint32_t middle = lo + (hi - lo) / 2;
        if (plan->tiles[middle].first <= i)
            lo = middle;
        else
            hi = middle;
    }
    const ct_binned_tile *t = &plan->tiles[lo];
    const uint32_t column = (i - t->first) % t->columns, row = (i - t->first) / t->columns;
    ct_bin bin = {.of = t,
                  .first_column = (int32_t)(column << t->shift_u),
                  .first_row = (int32_t)(row << t->shift_v),
                  .columns = 1 << t->shift_u,
                  .rows = 1 << t->shift_v};
    if (bin.columns > t->tile.n_u - bin.first_column) bin.columns = t->tile.n_u - bin.first_column;
    if (bin.rows > t->tile.n_v - bin.first_row) bin.rows = t->tile.n_v - bin.first_row;
    return bin;
}

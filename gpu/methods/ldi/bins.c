/* bins.c - cuts tiles into bins; what of a bin no instruction set changes. */
#include "gpu/methods/ldi/bins.h"

#include "gpu/methods/ldi/raster_gl.h"

/* Cuts a tile into bins of at most `max_samples` samples (at least one row), numbered from `first` on. A bin is as wide
 * as its tile up to `max_columns` samples. */
static ct_binned_tile bin_tile(const ct_tile *tile, int view, int32_t max_samples, int32_t max_columns,
                               uint32_t first) {
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

ct_bin_plan ct_bin_plan_views(const ct_window *window, int32_t max_samples, int32_t max_columns,
                              ct_binned_tile tiles[3]) {
    uint32_t n = 0;
    for (int w = 0; w < 3; w++) {
        const ct_tile tile = ct_uniform_tile(window, w);
        tiles[w] = bin_tile(&tile, w, max_samples, max_columns, n);
        n += tiles[w].columns * tiles[w].rows;
    }
    return (ct_bin_plan){.tiles = tiles, .n_bins = n};
}

ct_bin ct_bin_at(const ct_bin_plan *plan, uint32_t i) {
    const ct_binned_tile *t = &plan->tiles[2]; /* the last one whose first bin is not after i */
    while (t->first > i) t--;
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

/* ---- memory of bins and of their rays ---- */

void ct_ray_lists_begin(ct_ray_lists *rays, const ct_bin_plan *plan, uint32_t bin, const ct_binned_chunk *chunks,
                        size_t n_chunks) {
    rays->bin = ct_bin_at(plan, bin);
    rays->view = rays->bin.of->view;
    rays->initial[0] = rays->initial[1] = CT_INITIAL_ZERO;
    for (size_t i = 0; i < n_chunks; i++)
        rays->initial[chunks[i].snapped->body] = (ct_initial_winding)chunks[i].snapped->initial[rays->view];
    rays->first_body = n_chunks ? (int32_t)chunks[0].snapped->body : 0;
}

static void free_crossings(struct ct_crossing_memory memory[3], ct_budget *budget) {
    for (int w = 0; w < 3; w++) {
        ct_buffer_free(&memory[w].front, budget);
        ct_buffer_free(&memory[w].back, budget);
        ct_buffer_free(&memory[w].where, budget);
    }
}

void ct_binned_chunk_free(ct_binned_chunk *chunk, ct_budget *budget) {
    ct_buffer_free(&chunk->offsets, budget);
    ct_buffer_free(&chunk->entry_memory, budget);
    free_crossings(chunk->crossing_memory, budget);
}

void ct_bin_scratch_free(ct_bin_scratch *scratch, ct_budget *budget) {
    ct_buffer_free(&scratch->kept_memory, budget);
    ct_buffer_free(&scratch->entries, budget);
    free_crossings(scratch->crossings, budget);
}

/* ---- quads of bins, for OpenGL: one per triangle and bin ---- */

bool ct_quads_add(ct_quads *quads, ct_budget *budget, const ct_window *window, const ct_bin_plan *plan,
                  const ct_binned_chunk *chunk, uint32_t first, uint32_t end, uint32_t region) {
    const ct_snapped_body *snapped = chunk->snapped;
    const size_t max_quads = quads->n + (chunk->offset[end] - chunk->offset[first]);
    if (max_quads * sizeof(ct_quad) > quads->memory.capacity &&
        !ct_buffer_reserve(&quads->memory, budget, max_quads * sizeof(ct_quad), quads->n * sizeof(ct_quad), false))
        return false;
    ct_quad *p = (ct_quad *)quads->memory.data + quads->n;
    for (uint32_t number = first; number < end; number++) {
        const ct_bin bin = ct_bin_at(plan, number);
        const int w = bin.of->view;
        const bool is_counted = snapped->initial[w] == CT_INITIAL_COUNTED;
        for (uint32_t i = chunk->offset[number]; i < chunk->offset[number + 1]; i++) {
            const uint32_t *k = snapped->triangles + 3 * (size_t)chunk->entries[i];
            const int32_t *const q[3] = {snapped->coords[k[0]], snapped->coords[k[1]], snapped->coords[k[2]]};
            if (!ct_make_quad(p, window, w, is_counted, q, bin.first_row, bin.first_row + bin.rows)) continue;
            p->tag = snapped->body << 31 | chunk->entries[i];
            p->region = region;
            quads->samples += (uint64_t)(p->u1 - p->u0) * (uint64_t)(p->v1 - p->v0);
            p++;
        }
    }
    quads->n = (size_t)(p - (ct_quad *)quads->memory.data);
    return true;
}

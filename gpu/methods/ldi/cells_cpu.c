/* cells_cpu.c - a table of the cells that a thread has met, their chunks of records, and the column of a run of rays.
 */
#include "gpu/methods/ldi/cells_cpu.h"

#include <string.h>

enum { LEAST_TABLE = 256 };

/* Records of a cell's first chunk, and of later ones: each has twice as many as the one before, up to these. */
enum { FIRST_CHUNK = 8, LARGEST_CHUNK = 128 };

static uint32_t slot_of(const ct_cell_scratch *scratch, uint64_t key) {
    const uint32_t *table = scratch->table.data;
    const ct_cell_spans *cells = scratch->cells.data;
    uint32_t slot = (uint32_t)((key * 0x9e3779b97f4a7c15u) >> 32) & scratch->table_mask;
    while (table[slot] && cells[table[slot] - 1].key != key) slot = (slot + 1) & scratch->table_mask;
    return slot;
}

/* An empty table; false: out of memory, and the old one is unchanged. */
static bool make_table(ct_cell_scratch *scratch, ct_budget *budget, uint32_t n) {
    if (!ct_buffer_reserve(&scratch->table, budget, n * sizeof(uint32_t),
                           scratch->table.data ? (scratch->table_mask + (size_t)1) * sizeof(uint32_t) : 0, false))
        return false;
    memset(scratch->table.data, 0, n * sizeof(uint32_t));
    scratch->table_mask = n - 1;
    return true;
}

/* An empty column of n cells. False: out of memory. */
static bool make_column(ct_cell_scratch *scratch, ct_budget *budget, size_t n) {
    enum { END_SUMS = 4, SUMS_OF_END = 3 + 3, SUMS = 2 + 2 + END_SUMS * SUMS_OF_END };
    const size_t padded = (n + CT_COLUMN_LANES - 1) / CT_COLUMN_LANES * CT_COLUMN_LANES + CT_COLUMN_LANES;
    const size_t bytes = padded * (SUMS * sizeof(int64_t) + sizeof(uint32_t));
    if (!ct_buffer_reserve(&scratch->column_memory, budget, bytes, 0, false)) return false;
    ct_cell_column *column = &scratch->column;
    int64_t *at = scratch->column_memory.data;
    memset(at, 0, padded * SUMS * sizeof *at);
    *column = (ct_cell_column){.length = at, .spans = at + padded, .share = at + 2 * padded, .rest = at + 3 * padded};
    at += 4 * padded;
    for (int i = 0; i < END_SUMS; i++) {
        ct_end_sums *sums = &column->end_sums[i / 2][i % 2];
        sums->tag = CT_NO_RECORD;
        sums->ends = (int64_t(*)[3])at;
        at += 3 * padded;
        for (int k = 0; k < 3; k++, at += padded) sums->walls[k] = at;
    }
    column->cell = (uint32_t *)at;
    for (size_t i = 0; i < padded; i++) column->cell[i] = (uint32_t)CT_UNKNOWN_CELL;
    return true;
}

bool ct_cells_clear(ct_cell_scratch *scratch, ct_budget *budget, const ct_cell_grid *grid) {
    scratch->n_cells = 0;
    scratch->n_records = 0;
    for (int i = 0; i < 1 << CT_CELL_CACHE_BITS; i++) scratch->cache[i] = (ct_cached_record){.tag = CT_NO_RECORD};
    int32_t longest = 0;
    for (int k = 0; k < 3; k++)
        if (grid->axis[k].n > longest) longest = grid->axis[k].n;
    return make_table(scratch, budget, LEAST_TABLE) && make_column(scratch, budget, (size_t)longest);
}

/* The table is at most half full. */
static bool grow_table(ct_cell_scratch *scratch, ct_budget *budget) {
    if (2 * (scratch->n_cells + 1) <= scratch->table_mask) return true;
    if (!make_table(scratch, budget, 2 * (scratch->table_mask + 1))) return false;
    const ct_cell_spans *cells = scratch->cells.data;
    for (uint32_t i = 0; i < scratch->n_cells; i++)
        ((uint32_t *)scratch->table.data)[slot_of(scratch, cells[i].key)] = i + 1;
    return true;
}

uint32_t ct_cells_find(ct_cell_scratch *scratch, ct_budget *budget, uint64_t key) {
    uint32_t *entry = (uint32_t *)scratch->table.data + slot_of(scratch, key);
    if (!*entry) {
        const size_t used = scratch->n_cells * sizeof(ct_cell_spans);
        if (used + sizeof(ct_cell_spans) > scratch->cells.capacity &&
            !ct_buffer_reserve(&scratch->cells, budget, 2 * used + 64 * sizeof(ct_cell_spans), used, false))
            return CT_NO_CELL;
        if (!grow_table(scratch, budget)) return CT_NO_CELL;
        entry = (uint32_t *)scratch->table.data + slot_of(scratch, key);
        ((ct_cell_spans *)scratch->cells.data)[scratch->n_cells++] = (ct_cell_spans){.key = key, .chunk = CT_NO_CHUNK};
        *entry = scratch->n_cells;
    }
    return *entry - 1;
}

bool ct_cells_add_chunk(ct_cell_scratch *scratch, ct_budget *budget, ct_cell_spans *cell) {
    uint32_t n = FIRST_CHUNK;
    if (cell->chunk != CT_NO_CHUNK) n = 2 * (cell->chunk_end - cell->chunk - 1);
    if (n > LARGEST_CHUNK) n = LARGEST_CHUNK;
    const uint32_t first = scratch->n_records;
    const size_t used = first * sizeof(ct_cell_record), bytes = (n + 1) * sizeof(ct_cell_record);
    if (first > CT_NO_CHUNK - LARGEST_CHUNK - 2) return false; /* 160 GiB of records */
    if (used + bytes > scratch->records.capacity &&
        !ct_buffer_reserve(&scratch->records, budget, 2 * used + bytes + 4096, used, false))
        return false;
    ((ct_cell_record *)scratch->records.data)[first] = (ct_cell_record){.corner = {cell->chunk, cell->next}};
    scratch->n_records += n + 1;
    cell->chunk = first;
    cell->next = first + 1;
    cell->chunk_end = first + 1 + n;
    return true;
}

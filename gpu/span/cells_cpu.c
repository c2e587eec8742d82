/* cells_cpu.c - a table of the cells that a thread has met, and its list of records. */
#include "gpu/span/cells_cpu.h"

#include <string.h>

enum { LEAST_TABLE = 256 };

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

bool ct_cells_clear(ct_cell_scratch *scratch, ct_budget *budget) {
    scratch->n_cells = 0;
    scratch->n_records = 0;
    scratch->max_records = scratch->records.capacity / sizeof(ct_cell_record);
    scratch->last_key = UINT64_MAX;
    for (int i = 0; i < 1 << CT_CELL_CACHE_BITS; i++) scratch->cache[i] = (ct_cell_record){.tag = CT_NO_RECORD};
    return make_table(scratch, budget, LEAST_TABLE);
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

bool ct_cells_find(ct_cell_scratch *scratch, ct_budget *budget, uint64_t key) {
    uint32_t *entry = (uint32_t *)scratch->table.data + slot_of(scratch, key);
    if (!*entry) {
        const size_t used = scratch->n_cells * sizeof(ct_cell_spans);
        if (used + sizeof(ct_cell_spans) > scratch->cells.capacity &&
            !ct_buffer_reserve(&scratch->cells, budget, 2 * used + 64 * sizeof(ct_cell_spans), used, false))
            return false;
        if (!grow_table(scratch, budget)) return false;
        entry = (uint32_t *)scratch->table.data + slot_of(scratch, key);
        ((ct_cell_spans *)scratch->cells.data)[scratch->n_cells++] = (ct_cell_spans){.key = key};
        *entry = scratch->n_cells;
    }
    scratch->last = *entry - 1;
    scratch->last_key = key;
    return true;
}

bool ct_cells_grow_records(ct_cell_scratch *scratch, ct_budget *budget) {
    const size_t used = scratch->n_records * sizeof(ct_cell_record);
    if (!ct_buffer_reserve(&scratch->records, budget, 2 * used + 4096, used, false)) return false;
    scratch->max_records = scratch->records.capacity / sizeof(ct_cell_record);
    return true;
}

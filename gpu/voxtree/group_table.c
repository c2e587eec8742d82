/* group_table.c - grows the table. */
#include "gpu/voxtree/group_table.h"

#include <string.h>

#include "gpu/base/cancel.h"

enum { FIRST_SLOTS = 64 };

void ct_voxel_clear_groups(ct_voxel_group_table *table) {
    table->n = 0;
    if (table->n_slots) memset(table->slots.data, 0, table->n_slots * sizeof(uint32_t));
}

void ct_voxel_free_groups(ct_voxel_group_table *table, ct_budget *budget) {
    ct_buffer_free(&table->sums, budget);
    ct_buffer_free(&table->slots, budget);
    table->n = table->n_slots = 0;
}

ct_voxel_group_sums *ct_voxel_append_sums(ct_buffer *buffer, ct_budget *budget, size_t n) {
    const size_t size = sizeof(ct_voxel_group_sums);
    if ((n + 1) * size > buffer->capacity && !ct_buffer_reserve(buffer, budget, 2 * (n + 8) * size, n * size, false))
        return NULL;
    return (ct_voxel_group_sums *)buffer->data + n;
}

static void enter(ct_voxel_group_table *table, uint32_t index) {
    const ct_voxel_group_sums *sums = (const ct_voxel_group_sums *)table->sums.data + index;
    uint32_t *slots = table->slots.data, mask = table->n_slots - 1;
    uint32_t at = ct_voxel_hash_groups(sums->group[0], sums->group[1]) & mask;
    while (slots[at]) at = (at + 1) & mask;
    slots[at] = index + 1;
}

static bool grow_slots(ct_voxel_group_table *table, ct_budget *budget) {
    const uint32_t n = table->n_slots ? 2 * table->n_slots : FIRST_SLOTS;
    if (!ct_buffer_reserve(&table->slots, budget, n * sizeof(uint32_t), 0, false)) return false;
    table->n_slots = n;
    memset(table->slots.data, 0, n * sizeof(uint32_t));
    for (uint32_t i = 0; i < table->n; i++) {
        if (CT_POLL_EVERY(i + 1, 4096) && ct_is_cancelled()) return false; /* the pair ends with it */
        enter(table, i);
    }
    return true;
}

ct_voxel_group_sums *ct_voxel_add_group(ct_voxel_group_table *table, ct_budget *budget, uint32_t a, uint32_t b) {
    if (4 * (table->n + 1) > table->n_slots && !grow_slots(table, budget)) return NULL;
    ct_voxel_group_sums *sums = ct_voxel_append_sums(&table->sums, budget, table->n);
    if (!sums) return NULL;
    *sums = (ct_voxel_group_sums){.group = {a, b}};
    enter(table, table->n++);
    return sums;
}

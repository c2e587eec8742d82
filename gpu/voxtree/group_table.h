/* group_table.h - sums of contact primitives by pair of groups, in a hash table. */
#ifndef CT_VOXEL_GROUP_TABLE_H
#define CT_VOXEL_GROUP_TABLE_H

#include "gpu/base/scratch.h"
#include "gpu/voxtree/descend_k.h"

/* 0 is an empty table. */
typedef struct ct_voxel_group_table {
    ct_buffer sums;  /* ct_voxel_group_sums [n], in the order in which the pairs of groups were met */
    ct_buffer slots; /* uint32_t [n_slots], a power of two: 1 + index in sums, or 0 */
    uint32_t n, n_slots;
} ct_voxel_group_table;

/* Keeps the memory. */
void ct_voxel_clear_groups(ct_voxel_group_table *table);
void ct_voxel_free_groups(ct_voxel_group_table *table, ct_budget *budget);

/* Gives a pair of groups that the table does not have sums of 0. NULL: out of memory. */
ct_voxel_group_sums *ct_voxel_add_group(ct_voxel_group_table *table, ct_budget *budget, uint32_t a, uint32_t b);

static inline uint32_t ct_voxel_hash_groups(uint32_t a, uint32_t b) {
    return (a * 0x9e3779b1u ^ b * 0x85ebca6bu) * 0xc2b2ae35u >> 7;
}

/* The sums of a pair of groups, of 0 at the first call; until the next call. NULL: out of memory. */
static inline ct_voxel_group_sums *ct_voxel_group(ct_voxel_group_table *table, ct_budget *budget, uint32_t a,
                                                  uint32_t b) {
    const uint32_t *slots = table->slots.data, mask = table->n_slots - 1;
    ct_voxel_group_sums *all = table->sums.data;
    for (uint32_t at = ct_voxel_hash_groups(a, b) & mask; table->n_slots && slots[at]; at = (at + 1) & mask) {
        ct_voxel_group_sums *sums = all + (slots[at] - 1);
        if (sums->group[0] == a && sums->group[1] == b) return sums;
    }
    return ct_voxel_add_group(table, budget, a, b);
}

static inline void ct_voxel_add_sums(ct_voxel_group_sums *to, const ct_voxel_group_sums *from) {
    for (int k = 0; k < 3; k++) {
        to->normal[k] += from->normal[k];
        to->point[k] += from->point[k];
    }
    to->probability += from->probability;
    to->depth += from->depth;
    to->n += from->n;
}

/* Room for one more at the end of a buffer of n sums. NULL: out of memory. */
ct_voxel_group_sums *ct_voxel_append_sums(ct_buffer *buffer, ct_budget *budget, size_t n);

#endif

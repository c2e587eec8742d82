/* bin_sort.h - counting sorts of a chunk's entries and crossings by bin; for bin_cpu.simd.c.
 *
 * count[b + 2] counts the elements of bin b. After the prefix sum count[b + 1] is where bin b begins and serves as its
 * write position, so that in the end count[b + 1] is where bin b ends and count[b] where it begins. */
#ifndef CT_BIN_SORT_H
#define CT_BIN_SORT_H

#include "gpu/base/cancel.h"
#include "gpu/methods/ldi/tri4.h"

/* A triangle and the bins of a tile that its extent meets: columns [first_u, last_u], rows [first_v, last_v]. */
struct bin_entry {
    uint32_t triangle, tile;
    uint16_t first_u, last_u, first_v, last_v;
};

/* Four triangles emit at most this many crossings in a view; compress_store may write four beyond. */
enum { MAX_EMITTED = 4 * SMALL * SMALL + 4 };

static size_t crossing_capacity(const struct ct_crossing_memory *m) {
    size_t least = m->front.capacity < m->back.capacity ? m->front.capacity : m->back.capacity;
    return (least < m->where.capacity ? least : m->where.capacity) / sizeof(uint64_t);
}

/* A writer to `memory`, which holds n crossings. */
static struct crossing_writer crossing_writer_at(struct ct_crossing_memory *memory, size_t n) {
    const size_t capacity = crossing_capacity(memory);
    return (struct crossing_writer){memory->front.data, memory->back.data, memory->where.data, n,
                                    capacity > MAX_EMITTED ? capacity - MAX_EMITTED : 0};
}

/* Keeps the first n crossings. False: out of memory. */
static bool reserve_crossings(struct ct_crossing_memory *memory, ct_budget *budget, size_t n, size_t capacity) {
    const size_t bytes = capacity * sizeof(uint64_t), used = n * sizeof(uint64_t);
    return ct_buffer_reserve(&memory->front, budget, bytes, used, false) &&
           ct_buffer_reserve(&memory->back, budget, bytes, used, false) &&
           ct_buffer_reserve(&memory->where, budget, bytes, used, false);
}

/* Turns counts into write positions; see above. Returns the sum. */
static uint64_t prefix_sum(uint32_t *count, uint32_t bins) {
    uint64_t total = 0;
    for (uint32_t b = 2; b <= bins + 1; b++) {
        total += count[b];
        count[b] = (uint32_t)total;
    }
    return total;
}

static bool sort_entries(ct_binned_chunk *out, ct_budget *budget, const ct_bin_plan *plan,
                         const struct bin_entry *first, const struct bin_entry *end, uint32_t *count) {
#define EACH_BIN(entry, bin)                                                                                           \
    for (uint32_t row = (entry)->first_v; row <= (entry)->last_v; row++)                                               \
        for (uint32_t                                                                                                  \
                 bin = plan->tiles[(entry)->tile].first + row * plan->tiles[(entry)->tile].columns + (entry)->first_u, \
                 last = bin + ((entry)->last_u - (entry)->first_u);                                                    \
             bin <= last; bin++)
    for (const struct bin_entry *e = first; e < end; e++) {
        if (CT_POLL_EVERY((size_t)(e - first) + 1, 64) && ct_is_cancelled()) return false;
        EACH_BIN(e, bin) count[bin + 2]++;
    }
    uint64_t n = prefix_sum(count, plan->n_bins);
    if (n > UINT32_MAX || !ct_buffer_reserve(&out->entry_memory, budget, (size_t)n * sizeof(uint32_t), 0, false))
        return false;
    uint32_t *entries = out->entry_memory.data;
    for (const struct bin_entry *e = first; e < end; e++) {
        if (CT_POLL_EVERY((size_t)(e - first) + 1, 64) && ct_is_cancelled()) return false;
        EACH_BIN(e, bin) entries[count[bin + 1]++] = e->triangle;
    }
#undef EACH_BIN
    out->entries = entries;
    out->offset = count;
    return true;
}

/* The bin of a tile that a crossing's ray belongs to, and the ray's number in that bin. */
struct bin_ray {
    uint32_t bin, ray;
};

static inline struct bin_ray bin_ray_of(const ct_binned_tile *t, uint64_t where) {
    const uint32_t row = (uint32_t)(where >> 32), ray = (uint32_t)where & ~CT_CROSSING_COUNTED;
    const uint32_t bin_row = row >> t->shift_v, first_row = bin_row << t->shift_v, across = (uint32_t)t->tile.n_u;
    if (t->columns == 1) return (struct bin_ray){bin_row, ray - first_row * across};
    const uint32_t column = ray - row * across, bin_column = column >> t->shift_u;
    const uint32_t first_column = bin_column << t->shift_u, left = across - first_column;
    const uint32_t width = left < 1u << t->shift_u ? left : 1u << t->shift_u;
    return (struct bin_ray){bin_row * t->columns + bin_column, (row - first_row) * width + column - first_column};
}

/* Sorts the crossings of a tile of several bins into `memory`; `where` then numbers rays within their bins. */
static bool sort_crossings(struct ct_crossing_memory *memory, ct_budget *budget, struct crossing_writer *crossings,
                           const ct_binned_tile *t, uint32_t *count) {
    const struct crossing_writer from = *crossings;
    for (size_t i = 0; i < from.n; i++) count[bin_ray_of(t, from.where[i]).bin + 2]++;
    prefix_sum(count, t->columns * t->rows);
    if (!reserve_crossings(memory, budget, 0, from.n)) return false;
    const struct crossing_writer to = crossing_writer_at(memory, 0);
    for (size_t i = 0; i < from.n; i++) {
        const struct bin_ray at = bin_ray_of(t, from.where[i]);
        const uint32_t k = count[at.bin + 1]++;
        to.front[k] = from.front[i];
        to.back[k] = from.back[i];
        to.where[k] = at.ray | (from.where[i] & CT_CROSSING_COUNTED);
    }
    *crossings = to;
    return true;
}

#endif

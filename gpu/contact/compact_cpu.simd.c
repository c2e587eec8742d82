/* compact_cpu.simd.c - sums to moments, entries and barycentres on the CPU, a group of vertices at a time. */
#include "gpu/contact/compact_cpu.h"

#include "gpu/base/simd.h"
#ifdef __AVX2__
#include "gpu/contact/compact_lanes.h"
#else
#include "gpu/contact/compact_plain.h"
#endif

/* Adds up CT_VERTEX_BLOCK vertices' parts in the first. Returns the marks of all. */
static uint64_t unite(const ct_sum_parts *s, size_t vertex) {
    const struct part to = part_of(s, 0);
    const uint64_t own = load_marks(&to, vertex);
    uint64_t all = own;
    for (uint32_t i = 1; i < s->n_parts; i++) {
        const struct part from = part_of(s, i);
        const uint64_t marks = load_marks(&from, vertex);
        if (!marks) continue;
        for (uint64_t left = marks; left; left &= left - 1) {
            const size_t first = vertex + first_group(left);
            for (int w = 0; w < 3; w++)
                for (size_t v = first; v < first + CT_VERTEX_GROUP; v++) to.plane[w][v] += from.plane[w][v];
            clear_group(&from, first);
        }
        store_marks(&from, vertex, 0);
        all |= marks;
    }
    if (all != own) store_marks(&to, vertex, all);
    return all;
}

static size_t sum_parts(const ct_sum_parts *s, size_t first, size_t end, ct_moments *moments) {
    const struct part sums = part_of(s, 0);
    const ct_coords *coords = s->coords;
    struct moments_block block;
    memset(&block, 0, sizeof block);
    for (size_t word = first; word < end; word += CT_VERTEX_BLOCK) {
        uint64_t marks = s->n_parts > 1 ? unite(s, word) : load_marks(&sums, word);
        if (!marks) continue; /* most have none */
        reserve_moments(&block, moments, (size_t)__builtin_popcountll(marks));
        for (; marks; marks &= marks - 1) add_group(&block, moments, &sums, coords, word + first_group(marks));
    }
    return end_moments(&block, moments);
}

static void write_entries(const ct_sum_parts *s, size_t first, size_t end, const ct_entry_scaling *how,
                          ct_barycentre *barycentre, const ct_entry_arrays *to, size_t at, size_t count) {
    struct entry_writer writer = {part_of(s, 0), s->coords, how, barycentre, *to, at, at + count};
    struct barycentre_block block;
    memset(&block, 0, sizeof block);
    for (size_t word = first; word < end; word += CT_VERTEX_BLOCK) {
        uint64_t marks = load_marks(&writer.sums, word);
        if (!marks) continue;
        reserve_barycentre(&block, barycentre, (size_t)__builtin_popcountll(marks));
        for (; marks; marks &= marks - 1) write_group_entries(&block, &writer, word + first_group(marks));
        store_marks(&writer.sums, word, 0);
    }
    end_barycentre(&block, barycentre);
}

const ct_compact_cpu CT_VARIANT(ct_compact_cpu) = {sum_parts, write_entries};

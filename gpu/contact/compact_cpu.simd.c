/* compact_cpu.simd.c - the CPU's contact stage, one group of vertices at a time. Groups whose touched flag is not set
 * are skipped. */
#include "gpu/contact/compact_cpu.h"

#include <string.h>

#include "gpu/base/simd.h"

struct body_sums {
    int64_t *plane[3]; /* per view: [vertices] */
    uint8_t *touched;  /* [groups] */
};

static inline struct body_sums body_sums_of(const ct_partial_sums *partial, uint32_t thread) {
    const ct_contact_sums *sums = partial->of_thread[thread];
    int64_t *const *plane = sums->gradient[partial->body];
    return (struct body_sums){{plane[0], plane[1], plane[2]}, sums->touched[partial->body]};
}

/* The touched flags of CT_VERTEX_BLOCK vertices, one byte per group. */
static inline uint64_t load_touched(const struct body_sums *sums, size_t vertex) {
    uint64_t touched;
    memcpy(&touched, sums->touched + vertex / CT_VERTEX_GROUP, sizeof touched);
    return touched;
}

static inline void store_touched(const struct body_sums *sums, size_t vertex, uint64_t touched) {
    memcpy(sums->touched + vertex / CT_VERTEX_GROUP, &touched, sizeof touched);
}

/* The first vertex of the block's first touched group, relative to the block. */
static inline size_t first_touched(uint64_t touched) {
    return (size_t)__builtin_ctzll(touched) / 8 * CT_VERTEX_GROUP;
}

/* Loads a vertex's sums. False: they are all zero. */
static inline bool load_sums(const struct body_sums *sums, size_t vertex, int64_t of_vertex[3]) {
    for (int w = 0; w < 3; w++) of_vertex[w] = sums->plane[w][vertex];
    return of_vertex[0] | of_vertex[1] | of_vertex[2];
}

static inline void clear_group(const struct body_sums *sums, size_t vertex) {
    for (int w = 0; w < 3; w++) memset(sums->plane[w] + vertex, 0, CT_VERTEX_GROUP * sizeof *sums->plane[w]);
}

/* Input and output of write_entries; a local copy, so that stores to the arrays cannot alias it. */
struct entry_writer {
    struct body_sums sums;
    const ct_coords *coords;
    const ct_entry_scaling *scaling;
    ct_barycentre *barycentre;
    ct_entry_arrays arrays;
    size_t at, end; /* index of the next entry, and of the first entry behind the range */
};

#ifdef __AVX2__
#include "gpu/contact/compact_avx2.inl"
#else
#include "gpu/contact/compact_scalar.inl"
#endif

/* Adds the other threads' sums of CT_VERTEX_BLOCK vertices to the first thread's, and clears them. Returns the touched
 * flags of the total. */
static uint64_t reduce_block(const ct_partial_sums *partial, size_t vertex) {
    const struct body_sums total = body_sums_of(partial, 0);
    const uint64_t before = load_touched(&total, vertex);
    uint64_t all = before;
    for (uint32_t i = 1; i < partial->n_threads; i++) {
        const struct body_sums from = body_sums_of(partial, i);
        const uint64_t touched = load_touched(&from, vertex);
        if (!touched) continue;
        for (uint64_t left = touched; left; left &= left - 1) {
            const size_t first = vertex + first_touched(left);
            for (int w = 0; w < 3; w++)
                for (size_t v = first; v < first + CT_VERTEX_GROUP; v++) total.plane[w][v] += from.plane[w][v];
            clear_group(&from, first);
        }
        store_touched(&from, vertex, 0);
        all |= touched;
    }
    if (all != before) store_touched(&total, vertex, all);
    return all;
}

static size_t reduce_sums(const ct_partial_sums *partial, size_t first, size_t end, ct_moments *moments) {
    const struct body_sums sums = body_sums_of(partial, 0);
    const ct_coords *coords = partial->coords;
    struct moments_block block;
    memset(&block, 0, sizeof block);
    for (size_t vertex = first; vertex < end; vertex += CT_VERTEX_BLOCK) {
        uint64_t touched = partial->n_threads > 1 ? reduce_block(partial, vertex) : load_touched(&sums, vertex);
        if (!touched) continue; /* most blocks */
        reserve_moments(&block, moments, (size_t)__builtin_popcountll(touched));
        for (; touched; touched &= touched - 1)
            add_group(&block, moments, &sums, coords, vertex + first_touched(touched));
    }
    return end_moments(&block, moments);
}

static void write_entries(const ct_partial_sums *partial, size_t first, size_t end, const ct_entry_scaling *scaling,
                          ct_barycentre *barycentre, const ct_entry_arrays *arrays, size_t at, size_t count) {
    struct entry_writer writer = {
        body_sums_of(partial, 0), partial->coords, scaling, barycentre, *arrays, at, at + count};
    struct barycentre_block block;
    memset(&block, 0, sizeof block);
    for (size_t vertex = first; vertex < end; vertex += CT_VERTEX_BLOCK) {
        uint64_t touched = load_touched(&writer.sums, vertex);
        if (!touched) continue;
        reserve_barycentre(&block, barycentre, (size_t)__builtin_popcountll(touched));
        for (; touched; touched &= touched - 1) write_group_entries(&block, &writer, vertex + first_touched(touched));
        store_touched(&writer.sums, vertex, 0);
    }
    end_barycentre(&block, barycentre);
}

const ct_compact_cpu CT_VARIANT(ct_compact_cpu) = {reduce_sums, write_entries};

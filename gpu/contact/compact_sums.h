/* compact_sums.h - access to one thread's sums of one body and their touched flags; for compact_cpu.simd.c and the
 * headers that it includes. */
#ifndef CT_COMPACT_SUMS_H
#define CT_COMPACT_SUMS_H

#include <string.h>

#include "gpu/contact/compact_cpu.h"

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

#endif

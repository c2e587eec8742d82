/* compact_part.h - one body's sums in the part of one thread, and their marks; for compact_cpu.simd.c and what it uses.
 */
#ifndef CT_COMPACT_PART_H
#define CT_COMPACT_PART_H

#include <string.h>

#include "gpu/contact/compact_cpu.h"

struct part {
    int64_t *plane[3];
    uint8_t *touched;
};

static inline struct part part_of(const ct_sum_parts *s, uint32_t i) {
    const ct_contact_sums *sums = s->parts[i];
    int64_t *const *plane = sums->gradient[s->body];
    return (struct part){{plane[0], plane[1], plane[2]}, sums->touched[s->body]};
}

/* The marks of CT_VERTEX_BLOCK vertices, a byte for each group. */
static inline uint64_t load_marks(const struct part *p, size_t vertex) {
    uint64_t marks;
    memcpy(&marks, p->touched + vertex / CT_VERTEX_GROUP, sizeof marks);
    return marks;
}

static inline void store_marks(const struct part *p, size_t vertex, uint64_t marks) {
    memcpy(p->touched + vertex / CT_VERTEX_GROUP, &marks, sizeof marks);
}

/* The first vertex of the first group that is marked, from the marks' first. */
static inline size_t first_group(uint64_t marks) {
    return (size_t)__builtin_ctzll(marks) / 8 * CT_VERTEX_GROUP;
}

/* A vertex's sums. False: they are all zero. */
static inline bool load_sums(const struct part *p, size_t vertex, int64_t sums[3]) {
    for (int w = 0; w < 3; w++) sums[w] = p->plane[w][vertex];
    return sums[0] | sums[1] | sums[2];
}

static inline void clear_group(const struct part *p, size_t vertex) {
    for (int w = 0; w < 3; w++) memset(p->plane[w] + vertex, 0, CT_VERTEX_GROUP * sizeof *p->plane[w]);
}

/* What entries are made of, copied so that no store can change it. */
struct entry_writer {
    struct part sums;
    const ct_coords *coords;
    const ct_entry_scaling *how;
    ct_barycentre *barycentre;
    ct_entry_arrays to;
    size_t at, last; /* the next entry, and what comes after those of the range */
};

#endif

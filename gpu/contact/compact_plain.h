/* compact_plain.h - what is made of a group's sums, one vertex after the other; for compact_cpu.simd.c. */
#ifndef CT_COMPACT_PLAIN_H
#define CT_COMPACT_PLAIN_H

#include "gpu/contact/compact_part.h"

/* What is added up before it goes to where it belongs. */
struct moments_block {
    ct_moments sum;
    size_t n; /* vertices */
};

static inline void reserve_moments(struct moments_block *block, ct_moments *to, size_t groups) {
    (void)block, (void)to, (void)groups; /* there always is */
}

static inline void add_group(struct moments_block *block, ct_moments *to, const struct part *sums,
                             const ct_coords *coords, size_t vertex) {
    (void)to;
    int64_t of[3];
    for (size_t v = vertex; v < vertex + CT_VERTEX_GROUP; v++) {
        if (!load_sums(sums, v, of)) continue;
        ct_moments_add(&block->sum, coords[v], of);
        block->n++;
    }
}

/* Returns the number of vertices that have a sum. */
static inline size_t end_moments(struct moments_block *block, ct_moments *to) {
    ct_moments_join(to, &block->sum);
    return block->n;
}

struct barycentre_block {
    ct_barycentre sum;
};

static inline void reserve_barycentre(struct barycentre_block *block, ct_barycentre *to, size_t groups) {
    (void)block, (void)to, (void)groups;
}

static inline void write_group_entries(struct barycentre_block *block, struct entry_writer *t, size_t vertex) {
    const ct_entry_arrays *to = &t->to;
    const ct_entry_scaling *how = t->how;
    int64_t of[3];
    for (size_t v = vertex; v < vertex + CT_VERTEX_GROUP; v++) {
        if (!load_sums(&t->sums, v, of)) continue;
        ct_barycentre_add(&block->sum, how->contact, how->has_normal, how->scale, &how->units, t->coords[v], of);
        if (!to->vertices) continue;
        double g[3];
        ct_frame_gradient(&how->units, of, g);
        to->vertices[t->at] = (uint32_t)v;
        if (to->gradient) memcpy(to->gradient + 3 * t->at, g, sizeof g);
        if (to->weights) to->weights[t->at] = ct_frame_friction(how->contact, g);
        for (int k = 0; k < 3 && to->forces; k++) to->forces[3 * t->at + (size_t)k] = how->pressure * g[k];
        t->at++;
    }
    clear_group(&t->sums, vertex);
}

static inline void end_barycentre(struct barycentre_block *block, ct_barycentre *to) {
    ct_barycentre_join(to, &block->sum);
}

#endif

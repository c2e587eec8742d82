/* single_layer.h - the fast path for rays that cross each body's surface at most twice, once inwards and once outwards:
 * nearly all rays. Between the later entry and the earlier exit the ray is inside both bodies, so nothing needs
 * sorting. A ray on which a body's winding number is negative somewhere needs the walk. Only for ct_may_skip_walk; for
 * *.simd.c files of this stage. */
#ifndef CT_SINGLE_LAYER_H
#define CT_SINGLE_LAYER_H

#include "gpu/methods/ldi/accumulate.h"

enum { OUT, IN };

/* What a body's crossings imply for the ray. NEVER_INSIDE: its winding number is 0 all along. A verdict_table has one
 * byte per set of crossings (bits 1 << OUT and 1 << IN). */
enum { HAS_ONE_INTERVAL = 0, NEVER_INSIDE = 1, NEEDS_WALK = 2 };
typedef uint32_t verdict_table;
#define VERDICTS(neither, out, in, both)                                                                               \
    ((verdict_table)(neither) | (verdict_table)(out) << 8 | (verdict_table)(in) << 16 | (verdict_table)(both) << 24)

static inline verdict_table verdicts_of(int32_t initial_winding) {
    return initial_winding == 0   ? VERDICTS(NEVER_INSIDE, NEEDS_WALK, HAS_ONE_INTERVAL, HAS_ONE_INTERVAL)
           : initial_winding == 1 ? VERDICTS(HAS_ONE_INTERVAL, HAS_ONE_INTERVAL, NEEDS_WALK, NEEDS_WALK)
           : initial_winding > 1  ? VERDICTS(HAS_ONE_INTERVAL, NEEDS_WALK, NEEDS_WALK, NEEDS_WALK)
                                  : VERDICTS(NEEDS_WALK, NEEDS_WALK, NEEDS_WALK, NEEDS_WALK);
}

/* For CT_INITIAL_FROM_BALANCE: one exit and no entry means that the ray starts inside. */
static const verdict_table VERDICTS_FROM_BALANCE =
    VERDICTS(NEVER_INSIDE, HAS_ONE_INTERVAL, NEEDS_WALK, HAS_ONE_INTERVAL);

/* Data common to all rays of a bin; a local copy, so that stores to sums cannot alias it. */
struct bin_rays {
    const ct_linked_fragment *fragments;
    const int32_t (*winding)[2]; /* may be NULL */
    verdict_table verdicts[2];   /* of bodies whose initial winding numbers are not counted */
    bool is_counted[2];
    bool starts_outside; /* body 0's initial winding number is 0 on all rays */
};

static inline struct bin_rays bin_rays_of(const ct_ray_lists *rays) {
    struct bin_rays bin = {.fragments = rays->fragments,
                           .winding = (const int32_t(*)[2])rays->winding,
                           .starts_outside = rays->initial[0] == CT_INITIAL_ZERO};
    for (int b = 0; b < 2; b++) {
        bin.is_counted[b] = rays->winding && rays->initial[b] == CT_INITIAL_COUNTED;
        bin.verdicts[b] = rays->initial[b] == CT_INITIAL_FROM_BALANCE ? VERDICTS_FROM_BALANCE : verdicts_of(0);
    }
    return bin;
}

enum ray_outcome {
    RAY_IS_DONE,
    RAY_NEEDS_WALK, /* nothing was done */
    RAY_HAS_NO_MEMORY
};

static inline enum ray_outcome walk_single_layer(struct accumulators *to, const ct_ray_lists *rays,
                                                 const struct bin_rays *bin, size_t ray, uint32_t head) {
    const ct_linked_fragment *fragments = bin->fragments;
    /* Key and index of each body's exit and entry; sentinels where there is none: an exit behind all, an entry before.
     */
    uint64_t crossed[4] = {UINT64_MAX, 0, UINT64_MAX, 0};
    uint32_t have = 0;
    for (uint32_t i = head; i != CT_END; i = fragments[i].next) {
        uint32_t key = fragments[i].f.key, slot = fragments[i].f.tag >> 31 << 1 | (key & 1);
        if (have >> slot & 1) return RAY_NEEDS_WALK;
        have |= 1u << slot;
        crossed[slot] = (uint64_t)key << 32 | i;
    }
    uint32_t verdict = 0;
    for (int b = 0; b < 2; b++) {
        verdict_table table = bin->is_counted[b] ? verdicts_of(bin->winding[ray][b]) : bin->verdicts[b];
        verdict |= table >> (8 * (have >> (2 * b) & 3));
    }
    if (verdict & NEVER_INSIDE) return RAY_IS_DONE;
    if (verdict & NEEDS_WALK || crossed[IN] > crossed[OUT] || crossed[2 + IN] > crossed[2 + OUT]) return RAY_NEEDS_WALK;
    uint64_t lower = crossed[IN] > crossed[2 + IN] ? crossed[IN] : crossed[2 + IN];
    uint64_t upper = crossed[OUT] < crossed[2 + OUT] ? crossed[OUT] : crossed[2 + OUT];
    if (crossed[IN] >> 32 == crossed[2 + IN] >> 32 || crossed[OUT] >> 32 == crossed[2 + OUT] >> 32)
        return RAY_NEEDS_WALK; /* a bound is shared, or lies outside the window */
    if (lower > upper) return RAY_IS_DONE;
    const ct_fragment *first = &fragments[(uint32_t)lower].f, *last = &fragments[(uint32_t)upper].f;
    if (!to->is_gradient_of_cells) {
        add_fragment_bound(&to->gradient, first, LOWER, ALONE);
        add_fragment_bound(&to->gradient, last, UPPER, ALONE);
    }
    to->length += ct_fragment_depth(last->key) - ct_fragment_depth(first->key);
    to->n_spans++;
    if (!to->cells.grid) return RAY_IS_DONE;
    return add_span_to_cells(&to->cells, rays, ray, first, last) ? RAY_IS_DONE : RAY_HAS_NO_MEMORY;
}

#endif

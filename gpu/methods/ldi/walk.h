/* walk.h - walks any ray: sorts its crossings, feeds them to ct_walk_crossing and hands the span events to the
 * accumulators; for *.simd.c files of this stage. */
#ifndef CT_WALK_H
#define CT_WALK_H

#include <string.h>

#include "gpu/base/simd.h"
#include "gpu/methods/ldi/accumulate.h"
#include "gpu/methods/ldi/ray_order.h"

/* A ray's initial winding number of a body, given the balance of its crossings. */
static inline int32_t initial_winding_of(const ct_ray_lists *rays, size_t ray, int body, int32_t balance) {
    if (rays->initial[body] == CT_INITIAL_FROM_BALANCE) return -balance;
    return rays->winding ? rays->winding[ray][body] : 0;
}

/* Sorts n coincident crossings. Their order matters only among those of one body, which are rarely several. */
static inline void sort_coincident(const ct_linked_fragment *fragments, crossing *c, uint32_t n) {
    if (n > 2 || body_of(c[0]) == body_of(c[1])) heap_sort(fragments, c, n);
}

/* Walks a ray by a rule that is a constant where this is inlined, so that the rule costs nothing. */
static inline __attribute__((always_inline)) bool walk_by(ct_span_rule rule, struct accumulators *to,
                                                          const ct_ray_lists *rays, size_t ray,
                                                          ct_span_scratch *scratch, ct_budget *budget) {
    const ct_linked_fragment *fragments = rays->fragments;
    crossing *c = scratch->ray.data;
    uint32_t capacity = (uint32_t)(scratch->ray.capacity / sizeof *c);
    int32_t balance[2];
    uint32_t n = collect_crossings(rays, ray, c, capacity, balance);
    if (n >= capacity) {
        if (!ct_buffer_reserve(&scratch->ray, budget, ((size_t)n + 1) * sizeof *c, 0, false)) return false;
        c = scratch->ray.data;
        collect_crossings(rays, ray, c, n + 1, balance);
    }
    if (n > INSERTION_MAX) {
        if (ct_is_cancelled_at("ray crossings", rays->n_fragments)) return false;
        heap_sort(fragments, c, n);
    }

    ct_walk walk =
        ct_walk_begin(rule, initial_winding_of(rays, ray, 0, balance[0]), initial_winding_of(rays, ray, 1, balance[1]));
    uint32_t coincident_end = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (CT_POLL_EVERY(i + 1, 4096) && ct_is_cancelled_at("ray crossings", rays->n_fragments)) return false;
        const uint32_t key = key_of(c[i]);
        if (i >= coincident_end) {
            coincident_end = i + 1;
            while (key_of(c[coincident_end]) == key) coincident_end++;
            if (coincident_end - i > 1) sort_coincident(fragments, c + i, coincident_end - i);
        }
        ct_span_event span;
        if (ct_walk_crossing(&walk, key, body_of(c[i]), index_of(c[i]), i + 1 < coincident_end, &span) &&
            !accumulate_span(to, rays, ray, &span))
            return false;
    }
    to->inverted += walk.inverted;
    return true;
}

/* False: out of memory. scratch->ray has a capacity of at least RAY_BYTES. */
static __attribute__((noinline)) bool walk_ray(struct accumulators *to, const ct_ray_lists *rays, size_t ray,
                                               ct_span_rule rule, ct_span_scratch *scratch, ct_budget *budget) {
    return rule == CT_SPAN_OF_SELF ? walk_by(CT_SPAN_OF_SELF, to, rays, ray, scratch, budget)
                                   : walk_by(CT_SPAN_OF_PAIR, to, rays, ray, scratch, budget);
}

/* ---- large_triangles_cpu.simd.c ---- */

ct_large_status CT_VARIANT(ct_large_triangles)(ct_ray_lists *rays, const ct_window *window, const ct_bin_plan *plan,
                                               uint32_t bin, const ct_binned_chunk *chunks, size_t n_chunks,
                                               const ct_span_options *options, ct_contact_sums *sums,
                                               ct_span_scratch *scratch, ct_budget *budget, double *rastered_at);

#endif

/* span_cpu.simd.c - the spans of a bin's rays on the CPU. */
#include "gpu/methods/ldi/single_layer.h"
#include "gpu/methods/ldi/walk.h"

/* False: the ray has no span, and no interval in which a body is inside out; either has two bounds, and lies where both
 * bodies' winding numbers are not 0. The body rasterised second is at the head of every list
 * that it has a fragment in, so one look tells whether a ray can have a span. */
static inline bool can_have_span(const struct bin_rays *bin, size_t ray, uint32_t head, uint32_t first_body,
                                 ct_span_rule rule) {
    if (head == CT_END || bin->fragments[head].next == CT_END) return false;
    if (rule == CT_SPAN_OF_SELF) {
        /* Two crossings into the body and one out of it are the least that bound a span. */
        const uint32_t second = bin->fragments[head].next;
        if (bin->fragments[second].next != CT_END || bin->winding || !bin->starts_outside) return true;
        /* Nor is the body inside out between two crossings if the first of them enters it. */
        const uint32_t a = bin->fragments[head].f.key, b = bin->fragments[second].f.key;
        return !((a < b ? a : b) & 1);
    }
    return bin->fragments[head].f.tag >> 31 != first_body || (bin->winding && bin->winding[ray][1 - first_body] != 0);
}

static bool span(const ct_ray_lists *rays, const ct_span_options *options, ct_contact_sums *sums,
                 ct_span_scratch *scratch, ct_budget *budget) {
    if (!ct_buffer_reserve(&scratch->ray, budget, RAY_BYTES, 0, false)) return false;
    const struct bin_rays bin = bin_rays_of(rays);
    const uint32_t first_body = (uint32_t)rays->first_body;
    const bool may_skip_walk = ct_may_skip_walk(options);
    const ct_span_rule rule = options->rule;
    struct accumulators to;
    begin_accumulating(&to, rays, options, sums, scratch, budget);
    const uint32_t *heads = rays->head;
    bool ok = true;
    size_t n_rays = ct_ray_count(rays);
    /* Rays between polls: some 4,096 crossings. */
    size_t poll_every = 1;
    while (poll_every < 128 && poll_every * rays->n_fragments < 4096 * n_rays) poll_every *= 2;
    for (size_t ray = 0; ray < n_rays && ok; ray++) {
        if (CT_POLL_EVERY(ray + 1, poll_every)) ok = !ct_is_cancelled_at("ray crossings", rays->n_fragments);
        const uint32_t head = heads[ray];
        if (!can_have_span(&bin, ray, head, first_body, rule)) continue;
        const enum ray_outcome result = may_skip_walk ? walk_single_layer(&to, rays, &bin, ray, head) : RAY_NEEDS_WALK;
        ok = result == RAY_NEEDS_WALK ? walk_ray(&to, rays, ray, rule, scratch, budget) : result == RAY_IS_DONE;
    }
    return end_accumulating(&to, rays, options, sums) && ok;
}

const ct_span_cpu CT_VARIANT(ct_span_cpu) = {span, CT_VARIANT(ct_large_triangles)};

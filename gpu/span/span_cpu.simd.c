/* span_cpu.simd.c - the rays of a band to spans to sums on the CPU. */
#include "gpu/span/walk.h"

static bool span(const ct_ray_lists *rays, const uint32_t *const triangles[2], ct_contact_sums *sums,
                 ct_span_scratch *scratch, ct_budget *budget, bool keep) {
    if (!ct_buffer_reserve(&scratch->ray, budget, RAY_BYTES, 0, false)) return false;
    const struct band band = band_of(rays);
    const ct_linked_fragment *fragments = band.fragments;
    struct gradient_accumulator accumulator;
    accumulator_start(&accumulator, rays, triangles, sums);
    const uint32_t first = (uint32_t)rays->first_body;
    const uint32_t *heads = rays->head;
    int64_t total = 0;
    bool ok = true;
    size_t n_rays = (size_t)rays->rows * (size_t)rays->columns;
    for (size_t ray = 0; ray < n_rays && ok; ray++) {
        uint32_t head = heads[ray];
        if (head == CT_END) continue;
        /* The body rasterised last is at the head of every list that it is in. */
        if (fragments[head].f.tag >> 31 == first && !(band.winding && band.winding[ray][1 - first] > 0)) continue;
        if (fragments[head].next == CT_END) continue; /* a span has two bounds */
        if (keep || !walk_simple(&accumulator, &band, ray, head, &total))
            ok = walk_ray(&accumulator, rays, ray, scratch, budget, keep, &total);
    }
    flush_contributions(&accumulator);
    sums->length[rays->view] += total;
    return ok;
}

const ct_span_cpu CT_VARIANT(ct_span_cpu) = {span, CT_VARIANT(ct_large_status)};

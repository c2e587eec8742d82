/* span_cpu.simd.c - rays to spans to sums on the CPU. */
#include "gpu/span/span_cpu.h"

#include "gpu/base/simd.h"

/* ---- order along a ray --------------------------------------------------------------------------------------------
 */

/* Insertion is best for the few layers that most rays have; a ray through thousands must not cost their square. */
enum { INSERTION_MAX = 32 };

static void sift_down(ct_fragment *f, size_t i, size_t n) {
    ct_fragment moving = f[i];
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= n) break;
        if (child + 1 < n && ct_fragment_before(&f[child], &f[child + 1])) child++;
        if (!ct_fragment_before(&moving, &f[child])) break;
        f[i] = f[child];
        i = child;
    }
    f[i] = moving;
}

static void heap_sort(ct_fragment *f, size_t n) {
    for (size_t i = n / 2; i-- > 0;) sift_down(f, i, n);
    for (size_t end = n; --end > 0;) {
        ct_fragment last = f[end];
        f[end] = f[0];
        f[0] = last;
        sift_down(f, 0, end);
    }
}

/* ---- sums ---------------------------------------------------------------------------------------------------------
 */

struct sink {
    ct_sums *sums;
    const uint32_t *const *triangles;
    int view;
};

static inline void add_fragment(const struct sink *s, const ct_fragment *f, int shared, int64_t sign) {
    uint32_t body = f->tag >> 31, triangle = f->tag & 0x7fffffff;
    const uint32_t *corner = s->triangles[body] + 3 * (size_t)triangle;
    int64_t *gradient = s->sums->gradient[body] + s->view, weight[3];
    uint64_t *touched = s->sums->touched[body];
    ct_bound_weights(f, shared, weight);
    for (int k = 0; k < 3; k++) {
        uint32_t vertex = corner[k];
        gradient[3 * (size_t)vertex] += sign * weight[k];
        touched[vertex >> 6] |= (uint64_t)1 << (vertex & 63);
    }
}

static inline int32_t add_bound(const struct sink *s, const ct_fragment *f, ct_bound bound, int64_t sign) {
    int32_t a = bound.fragment[0], b = bound.fragment[1];
    int shared = a >= 0 && b >= 0;
    if (a >= 0) add_fragment(s, &f[a], shared, sign);
    if (b >= 0) add_fragment(s, &f[b], shared, sign);
    return ct_fragment_depth(f[a >= 0 ? a : b].key);
}

/* ---- rays ---------------------------------------------------------------------------------------------------------
 */

/* Copies a ray's list to f in order, and returns its length. */
static inline uint32_t gather(const ct_ray_lists *rays, uint32_t head, ct_fragment *f, uint32_t capacity) {
    uint32_t n = 0;
    for (uint32_t i = head; i != CT_END;) {
        const ct_linked_fragment *l = &rays->fragments[i];
        if (n < INSERTION_MAX) {
            uint32_t at = n;
            while (at > 0 && ct_fragment_before(&l->f, &f[at - 1])) {
                f[at] = f[at - 1];
                at--;
            }
            f[at] = l->f;
        } else if (n < capacity) {
            f[n] = l->f;
        }
        n++;
        i = l->next;
    }
    return n;
}

static bool keep_span(ct_span_scratch *scratch, ct_budget *budget, ct_raw_span span) {
    size_t used = scratch->n_spans * sizeof span;
    if (used + sizeof span > scratch->spans.capacity &&
        !ct_buffer_reserve(&scratch->spans, budget, 2 * used + 4096, used, false))
        return false;
    ((ct_raw_span *)scratch->spans.data)[scratch->n_spans++] = span;
    return true;
}

static bool span(const ct_ray_lists *rays, const uint32_t *const triangles[2], ct_sums *sums, ct_span_scratch *scratch,
                 ct_budget *budget, bool keep) {
    if (!ct_buffer_reserve(&scratch->ray, budget, 4 * INSERTION_MAX * sizeof(ct_fragment), 0, false)) return false;
    ct_fragment *f = scratch->ray.data;
    uint32_t capacity = (uint32_t)(scratch->ray.capacity / sizeof *f);
    const struct sink sink = {sums, triangles, rays->view};
    int64_t total = 0;
    size_t n_rays = (size_t)rays->rows * (size_t)rays->columns;
    for (size_t ray = 0; ray < n_rays; ray++) {
        uint32_t head = rays->head[ray];
        if (head == CT_END) continue;
        uint32_t n = gather(rays, head, f, capacity);
        if (n > capacity) {
            if (!ct_buffer_reserve(&scratch->ray, budget, (size_t)n * sizeof *f, 0, false)) return false;
            f = scratch->ray.data;
            capacity = (uint32_t)(scratch->ray.capacity / sizeof *f);
            gather(rays, head, f, capacity);
        }
        if (n > INSERTION_MAX) heap_sort(f, n);

        ct_walk walk = {{rays->winding[ray][0], rays->winding[ray][1]}, {{-1, -1}}};
        for (uint32_t i = 0, j; i < n; i = j) {
            j = i + 1;
            while (j < n && f[j].key == f[i].key) j++;
            ct_bound lower, upper;
            if (!ct_walk_group(&walk, f, (int32_t)i, (int32_t)j, &lower, &upper)) continue;
            int32_t z0 = add_bound(&sink, f, lower, -1), z1 = add_bound(&sink, f, upper, 1);
            total += z1 - z0;
            if (keep && !keep_span(scratch, budget,
                                   (ct_raw_span){(int32_t)(ray % (size_t)rays->columns),
                                                 rays->first_row + (int32_t)(ray / (size_t)rays->columns), z0, z1,
                                                 rays->view, lower.fragment[0] >= 0 ? 0 : 1}))
                return false;
        }
    }
    sums->length[rays->view] += total;
    return true;
}

const ct_span_cpu CT_VARIANT(ct_span_cpu) = {span};

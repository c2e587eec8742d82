/* span_cpu.simd.c - rays to spans to sums on the CPU. */
#include "gpu/span/span_cpu.h"

#include "gpu/base/simd.h"

/* ---- order along a ray ---- */

/* A fragment in a ray's order: its key and, below, its index. */
typedef uint64_t entry;

static inline uint32_t key_of(entry e) {
    return (uint32_t)(e >> 32);
}

/* Insertion is best for the few layers that most rays have; a ray through thousands must not cost their square. */
enum { INSERTION_MAX = 32 };

static inline bool entry_before(const ct_linked_fragment *fragments, entry a, entry b) {
    if (key_of(a) != key_of(b)) return a < b;
    return ct_fragment_before(&fragments[(uint32_t)a].f, &fragments[(uint32_t)b].f);
}

static void sift_down(const ct_linked_fragment *fragments, entry *e, size_t i, size_t n) {
    entry moving = e[i];
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= n) break;
        if (child + 1 < n && entry_before(fragments, e[child], e[child + 1])) child++;
        if (!entry_before(fragments, moving, e[child])) break;
        e[i] = e[child];
        i = child;
    }
    e[i] = moving;
}

static void heap_sort(const ct_linked_fragment *fragments, entry *e, size_t n) {
    for (size_t i = n / 2; i-- > 0;) sift_down(fragments, e, i, n);
    for (size_t end = n; end-- > 1;) {
        entry last = e[end];
        e[end] = e[0];
        e[0] = last;
        sift_down(fragments, e, 0, end);
    }
}

/* Copies a ray's list to e, in order if it is no longer than INSERTION_MAX, but for entries of equal key among
 * themselves. Returns its length, which may be more than there was room for. */
static inline uint32_t gather(const ct_linked_fragment *fragments, uint32_t head, entry *e, uint32_t capacity) {
    uint32_t n = 0;
    for (uint32_t i = head; i != CT_END; i = fragments[i].next, n++) {
        entry new = (entry)fragments[i].f.key << 32 | i;
        if (n < INSERTION_MAX) {
            uint32_t at = n;
            for (; at > 0 && e[at - 1] > new; at--) e[at] = e[at - 1];
            e[at] = new;
        } else if (n < capacity) {
            e[n] = new;
        }
    }
    return n;
}

/* ---- sums ---- */

struct sink {
    ct_sums *sums;
    const uint32_t *const *triangles;
    int view;
};

static inline void add_fragment(const struct sink *s, const ct_fragment *f, int shared, int64_t sign) {
    uint32_t body = f->tag >> 31, triangle = f->tag & 0x7fffffff;
    const uint32_t *corner = s->triangles[body] + 3 * (size_t)triangle;
    int64_t *gradient = s->sums->gradient[body] + s->view, weight[3];
    uint8_t *touched = s->sums->touched[body];
    ct_bound_weights(f, shared, weight);
    for (int k = 0; k < 3; k++) {
        size_t vertex = corner[k];
        gradient[3 * vertex] += sign * weight[k];
        touched[vertex / CT_TOUCHED_VERTICES] = 1;
    }
}

/* Returns the depth of the bound. */
static inline int32_t add_bound(const struct sink *s, const ct_linked_fragment *fragments, const ct_bound *bound,
                                int64_t sign) {
    int64_t a = bound->fragment[0], b = bound->fragment[1];
    int shared = a >= 0 && b >= 0;
    if (a >= 0) add_fragment(s, &fragments[a].f, shared, sign);
    if (b >= 0) add_fragment(s, &fragments[b].f, shared, sign);
    return ct_fragment_depth(fragments[a >= 0 ? a : b].f.key);
}

/* ---- rays ---- */

static bool keep_span(ct_span_scratch *scratch, ct_budget *budget, ct_raw_span span) {
    size_t used = scratch->n_spans * sizeof span;
    if (used + sizeof span > scratch->spans.capacity &&
        !ct_buffer_reserve(&scratch->spans, budget, 2 * used + 4096, used, false))
        return false;
    ((ct_raw_span *)scratch->spans.data)[scratch->n_spans++] = span;
    return true;
}

/* Walks entries [i, n) of one key, which is rare. */
static int walk_group(const ct_linked_fragment *fragments, ct_walk *walk, entry *e, uint32_t n, ct_bound *upper) {
    if (n > 1) heap_sort(fragments, e, n);
    ct_group group;
    ct_group_start(&group, walk);
    for (uint32_t i = 0; i < n; i++)
        ct_group_add(&group, walk, key_of(e[i]) & 1, (int)(fragments[(uint32_t)e[i]].f.tag >> 31), (uint32_t)e[i]);
    *upper = group.crossed;
    return ct_group_end(&group, walk);
}

static bool span(const ct_ray_lists *rays, const uint32_t *const triangles[2], ct_sums *sums, ct_span_scratch *scratch,
                 ct_budget *budget, bool keep) {
    if (!ct_buffer_reserve(&scratch->ray, budget, 4 * INSERTION_MAX * sizeof(entry), 0, false)) return false;
    entry *e = scratch->ray.data;
    uint32_t capacity = (uint32_t)(scratch->ray.capacity / sizeof *e);
    const ct_linked_fragment *fragments = rays->fragments;
    const struct sink sink = {sums, triangles, rays->view};
    const uint32_t first = (uint32_t)rays->first_body;
    int64_t total = 0;
    size_t n_rays = (size_t)rays->rows * (size_t)rays->columns;
    for (size_t ray = 0; ray < n_rays; ray++) {
        uint32_t head = rays->head[ray];
        if (head == CT_END) continue;
        /* The body rasterised last is at the head of every list that it is in. */
        if (fragments[head].f.tag >> 31 == first && rays->winding[ray][1 - first] <= 0) continue;
        uint32_t n = gather(fragments, head, e, capacity);
        if (n > capacity) {
            if (!ct_buffer_reserve(&scratch->ray, budget, (size_t)n * sizeof *e, 0, false)) return false;
            e = scratch->ray.data;
            capacity = (uint32_t)(scratch->ray.capacity / sizeof *e);
            gather(fragments, head, e, capacity);
        }
        if (n > INSERTION_MAX) heap_sort(fragments, e, n);

        ct_walk walk = {{rays->winding[ray][0], rays->winding[ray][1]}, {{-1, -1}}};
        for (uint32_t i = 0; i < n;) {
            uint32_t key = key_of(e[i]), j = i + 1;
            ct_bound upper;
            int closed;
            if (j == n || key_of(e[j]) != key) {
                int body = (int)(fragments[(uint32_t)e[i]].f.tag >> 31);
                closed = ct_walk_one(&walk, key & 1, body, (uint32_t)e[i]);
                upper.fragment[body] = (uint32_t)e[i];
                upper.fragment[1 - body] = -1;
            } else {
                while (j < n && key_of(e[j]) == key) j++;
                closed = walk_group(fragments, &walk, e + i, j - i, &upper);
            }
            i = j;
            if (!closed) continue;
            int32_t z0 = add_bound(&sink, fragments, &walk.lower, -1), z1 = add_bound(&sink, fragments, &upper, 1);
            total += z1 - z0;
            if (keep && !keep_span(scratch, budget,
                                   (ct_raw_span){(int32_t)(ray % (size_t)rays->columns),
                                                 rays->first_row + (int32_t)(ray / (size_t)rays->columns), z0, z1,
                                                 rays->view, walk.lower.fragment[0] >= 0 ? 0 : 1}))
                return false;
        }
    }
    sums->length[rays->view] += total;
    return true;
}

const ct_span_cpu CT_VARIANT(ct_span_cpu) = {span};

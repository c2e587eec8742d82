/* ray_order.h - one ray's crossings in the order of ct_fragment_before; for *.simd.c files of this stage. */
#ifndef CT_RAY_ORDER_H
#define CT_RAY_ORDER_H

#include "gpu/base/cancel.h"
#include "gpu/methods/ldi/span_cpu.h"

/* A crossing for sorting: its key in the upper half, then its fragment's index, then its body in the lowest bit. */
typedef uint64_t crossing;

static const crossing LAST = UINT64_MAX; /* sorts behind all others: no key is that large */

static inline crossing crossing_of(const ct_fragment *f, uint32_t index) {
    return (crossing)f->key << 32 | index << 1 | f->tag >> 31;
}

static inline uint32_t key_of(crossing c) {
    return (uint32_t)(c >> 32);
}

static inline uint32_t index_of(crossing c) {
    return (uint32_t)c >> 1;
}

static inline int body_of(crossing c) {
    return (int)(c & 1);
}

/* Insertion sort is fastest for the few layers of most rays; longer rays are heap-sorted, because a ray through
 * thousands of layers must not cost their square. */
enum { INSERTION_MAX = 32 };

/* Capacity that scratch->ray needs before rays are walked. */
#define RAY_BYTES (4 * INSERTION_MAX * sizeof(crossing))

static inline bool crossing_before(const ct_linked_fragment *fragments, crossing a, crossing b) {
    if (key_of(a) != key_of(b)) return a < b;
    return ct_fragment_before(&fragments[index_of(a)].f, &fragments[index_of(b)].f);
}

static void sift_down(const ct_linked_fragment *fragments, crossing *c, size_t i, size_t n) {
    crossing moving = c[i];
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= n) break;
        if (child + 1 < n && crossing_before(fragments, c[child], c[child + 1])) child++;
        if (!crossing_before(fragments, moving, c[child])) break;
        c[i] = c[child];
        i = child;
    }
    c[i] = moving;
}

/* Of a ray through millions of layers, the order may be wrong once the thread's work is cancelled. */
static void heap_sort(const ct_linked_fragment *fragments, crossing *c, size_t n) {
    for (size_t i = n / 2; i-- > 0;) {
        if (CT_POLL_EVERY(i + 1, 4096) && ct_is_cancelled()) return;
        sift_down(fragments, c, i, n);
    }
    for (size_t end = n; end-- > 1;) {
        if (CT_POLL_EVERY(end, 4096) && ct_is_cancelled()) return;
        crossing last = c[end];
        c[end] = c[0];
        c[0] = last;
        sift_down(fragments, c, 0, end);
    }
}

/* Copies a ray's list to c, with LAST behind it, and returns its length; beyond the capacity (> INSERTION_MAX)
 * crossings are only counted. At most INSERTION_MAX of them are sorted by key. balance: per body, the sum of the
 * crossings' signs, +1 entering. */
static inline uint32_t collect_crossings(const ct_ray_lists *rays, size_t ray, crossing *c, uint32_t capacity,
                                         int32_t balance[2]) {
    const ct_linked_fragment *fragments = rays->fragments;
    uint32_t n = 0;
    balance[0] = balance[1] = 0;
    for (uint32_t i = rays->head[ray]; i != CT_END; i = fragments[i].next, n++) {
        crossing new = crossing_of(&fragments[i].f, i);
        balance[body_of(new)] += key_of(new) & 1 ? 1 : -1;
        if (n < INSERTION_MAX) {
            uint32_t at = n;
            for (; at > 0 && c[at - 1] > new; at--) c[at] = c[at - 1];
            c[at] = new;
        } else {
            if (n + 1 < capacity) c[n] = new;
            if (CT_POLL_EVERY(n, 4096) && ct_is_cancelled()) break;
        }
    }
    if (n < capacity) c[n] = LAST;
    return n;
}

#endif

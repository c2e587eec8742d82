/* gradient_accumulator.h - adds the bounds of spans to the gradient sums at their triangles' corners; for *.simd.c
 * files of this stage.
 *
 * Contributions are buffered per triangle. Neighbouring rays mostly meet the same triangle, so its corners get one
 * addition for all of them; and a buffer of MAX_PENDING triangles lets prefetches of their sums, which lie anywhere in
 * memory, complete before the additions. */
#ifndef CT_GRADIENT_ACCUMULATOR_H
#define CT_GRADIENT_ACCUMULATOR_H

#include "gpu/methods/ldi/span_cpu.h"

enum { LOWER, UPPER };

/* Kinds of bounds: of one body alone, or body 0's or body 1's half of a shared one. */
enum { ALONE, HALF, KINDS = HALF + 2 };

/* The bounds of one triangle added up, upper ones positive, lower ones negative: l1 and l2 for its corners 1 and 2; the
 * rest of `whole` belongs to corner 0. */
struct triangle_contribution {
    uint32_t tag;
    int64_t whole, l1, l2;
};

enum { MAX_PENDING = 32 };
#define NO_TRIANGLE UINT32_MAX

struct gradient_accumulator {
    int64_t *gradient[2]; /* per body: the view's plane of the contact's sums */
    uint8_t *touched[2];
    const uint32_t *const *triangles;
    int64_t ray_area;                             /* ct_tile.ray_area */
    struct triangle_contribution *open[2][KINDS]; /* by side: that of the triangle met last */
    uint32_t n;
    struct triangle_contribution pending[MAX_PENDING], none;
};

static inline void close_contributions(struct gradient_accumulator *a) {
    for (int kind = 0; kind < KINDS; kind++) a->open[LOWER][kind] = a->open[UPPER][kind] = &a->none;
    a->n = 0;
}

/* Points into itself: it must not be moved afterwards. */
static inline void begin_gradient(struct gradient_accumulator *a, const ct_ray_lists *rays,
                                  const ct_span_options *options, ct_contact_sums *sums) {
    for (int b = 0; b < 2; b++) {
        a->gradient[b] = sums[options->contact].gradient[b][rays->view];
        a->touched[b] = sums[options->contact].touched[b];
    }
    a->triangles = options->triangles;
    a->ray_area = rays->bin.of->tile.ray_area;
    a->none = (struct triangle_contribution){.tag = NO_TRIANGLE};
    close_contributions(a);
}

static inline const uint32_t *corners_of(const struct gradient_accumulator *a, uint32_t tag) {
    return a->triangles[tag >> 31] + 3 * (size_t)(tag & 0x7fffffff);
}

static __attribute__((noinline)) void flush_contributions(struct gradient_accumulator *a) {
    for (uint32_t i = 0; i < a->n; i++) {
        const uint32_t tag = a->pending[i].tag, *corner = corners_of(a, tag);
        const int64_t *gradient = a->gradient[tag >> 31];
        for (int k = 0; k < 3; k++) __builtin_prefetch(gradient + corner[k], 1);
    }
    const int64_t area = a->ray_area;
    for (uint32_t i = 0; i < a->n; i++) {
        const struct triangle_contribution c = a->pending[i];
        const uint32_t *corner = corners_of(a, c.tag), k0 = corner[0], k1 = corner[1], k2 = corner[2];
        int64_t *gradient = a->gradient[c.tag >> 31];
        uint8_t *touched = a->touched[c.tag >> 31];
        gradient[k0] += area * (c.whole - c.l1 - c.l2);
        gradient[k1] += area * c.l1;
        gradient[k2] += area * c.l2;
        touched[k0 / CT_VERTEX_GROUP] = touched[k1 / CT_VERTEX_GROUP] = touched[k2 / CT_VERTEX_GROUP] = 1;
    }
    close_contributions(a);
}

static inline struct triangle_contribution *open_contribution(struct gradient_accumulator *a, uint32_t tag) {
    if (a->n == MAX_PENDING) flush_contributions(a);
    struct triangle_contribution *c = &a->pending[a->n++];
    *c = (struct triangle_contribution){.tag = tag};
    __builtin_prefetch(corners_of(a, tag));
    return c;
}

/* Adds what the fields of triangle_contribution say of one triangle. */
static inline void add_contribution(struct gradient_accumulator *a, uint32_t tag, int64_t whole, int64_t l1,
                                    int64_t l2) {
    struct triangle_contribution *c = open_contribution(a, tag);
    c->whole = whole;
    c->l1 = l1;
    c->l2 = l2;
}

/* Adds n bounds of one triangle; l1, l2: the sums of their weights at corners 1 and 2. */
static inline void add_bounds(struct gradient_accumulator *a, uint32_t tag, int side, int kind, int64_t n, int64_t l1,
                              int64_t l2) {
    struct triangle_contribution *c = a->open[side][kind];
    if (c->tag != tag) a->open[side][kind] = c = open_contribution(a, tag);
    const int64_t sign = side == UPPER ? 1 : -1;
    c->whole += sign * n * (CT_WEIGHT_ONE >> (kind >= HALF));
    c->l1 += sign * l1;
    c->l2 += sign * l2;
}

static inline void add_fragment_bound(struct gradient_accumulator *a, const ct_fragment *f, int side, int kind) {
    int64_t weight[3];
    ct_bound_weights(f, kind >= HALF, weight);
    add_bounds(a, f->tag, side, kind, 1, weight[1], weight[2]);
}

#endif

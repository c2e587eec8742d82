/* gradient_accumulator.h - bounds of spans to the sums at their triangles' corners, for *.simd.c files of this stage.
 */
#ifndef CT_GRADIENT_ACCUMULATOR_H
#define CT_GRADIENT_ACCUMULATOR_H

#include "gpu/span/span_cpu.h"

enum { LOWER, UPPER };

/* Kinds of bounds: one body's alone, or body 0's or body 1's half of one that they contribution. */
enum { ALONE, HALF, KINDS = HALF + 2 };

/* What the bounds of one triangle add up to, with the sign that their side has: l1 and l2 for its corners 1 and 2, the
 * rest of `whole` for corner 0. */
struct triangle_contribution {
    uint32_t tag;
    int64_t whole, l1, l2;
};

/* Shares are pending back: neighbouring rays mostly meet the same triangle, whose corners then need one addition for
 * all of them, and as sums lie anywhere in memory, in the order of a mesh's vertices, those of many triangles at a time
 * come into the cache before they are added to. */
enum { MAX_PENDING = 32 };
#define NO_TRIANGLE UINT32_MAX

struct gradient_accumulator {
    int64_t *gradient[2]; /* the view's, per body */
    uint8_t *touched[2];
    const uint32_t *const *triangles;
    struct triangle_contribution *open[2][KINDS]; /* by side: that of the triangle met last */
    uint32_t n;
    struct triangle_contribution pending[MAX_PENDING], none;
};

static inline void forget_contributions(struct gradient_accumulator *s) {
    for (int kind = 0; kind < KINDS; kind++) s->open[LOWER][kind] = s->open[UPPER][kind] = &s->none;
    s->n = 0;
}

/* It must stay where it is. */
static inline void accumulator_start(struct gradient_accumulator *s, const ct_ray_lists *rays,
                                     const uint32_t *const *triangles, ct_contact_sums *sums) {
    for (int b = 0; b < 2; b++) {
        s->gradient[b] = sums->gradient[b][rays->view];
        s->touched[b] = sums->touched[b];
    }
    s->triangles = triangles;
    s->none = (struct triangle_contribution){.tag = NO_TRIANGLE};
    forget_contributions(s);
}

static inline const uint32_t *corners_of(const struct gradient_accumulator *s, uint32_t tag) {
    return s->triangles[tag >> 31] + 3 * (size_t)(tag & 0x7fffffff);
}

static __attribute__((noinline)) void flush_contributions(struct gradient_accumulator *s) {
    for (uint32_t i = 0; i < s->n; i++) {
        const uint32_t tag = s->pending[i].tag, *corner = corners_of(s, tag);
        const int64_t *gradient = s->gradient[tag >> 31];
        for (int k = 0; k < 3; k++) __builtin_prefetch(gradient + corner[k], 1);
    }
    for (uint32_t i = 0; i < s->n; i++) {
        const struct triangle_contribution contribution = s->pending[i];
        const uint32_t *corner = corners_of(s, contribution.tag), a = corner[0], b = corner[1], c = corner[2];
        int64_t *gradient = s->gradient[contribution.tag >> 31];
        uint8_t *touched = s->touched[contribution.tag >> 31];
        gradient[a] += contribution.whole - contribution.l1 - contribution.l2;
        gradient[b] += contribution.l1;
        gradient[c] += contribution.l2;
        touched[a / CT_VERTEX_GROUP] = touched[b / CT_VERTEX_GROUP] = touched[c / CT_VERTEX_GROUP] = 1;
    }
    forget_contributions(s);
}

static inline struct triangle_contribution *new_contribution(struct gradient_accumulator *s, uint32_t tag) {
    if (s->n == MAX_PENDING) flush_contributions(s);
    struct triangle_contribution *contribution = &s->pending[s->n++];
    *contribution = (struct triangle_contribution){.tag = tag};
    __builtin_prefetch(corners_of(s, tag));
    return contribution;
}

/* n bounds of one triangle, whose weights of corners 1 and 2 add up to l1 and l2. */
static inline void add_bounds(struct gradient_accumulator *s, uint32_t tag, int side, int kind, int64_t n, int64_t l1,
                              int64_t l2) {
    struct triangle_contribution *contribution = s->open[side][kind];
    if (contribution->tag != tag) s->open[side][kind] = contribution = new_contribution(s, tag);
    const int64_t sign = side == UPPER ? 1 : -1;
    contribution->whole += sign * n * (CT_WEIGHT_ONE >> (kind >= HALF));
    contribution->l1 += sign * l1;
    contribution->l2 += sign * l2;
}

static inline void add_fragment(struct gradient_accumulator *s, const ct_fragment *f, int side, int kind) {
    int64_t weight[3];
    ct_bound_weights(f, kind >= HALF, weight);
    add_bounds(s, f->tag, side, kind, 1, weight[1], weight[2]);
}

#endif

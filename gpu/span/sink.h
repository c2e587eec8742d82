/* sink.h - bounds of spans to the sums at their triangles' corners, for *.simd.c files of this stage. */
#ifndef CT_SINK_H
#define CT_SINK_H

#include "gpu/span/span_cpu.h"

enum { LOWER, UPPER };

/* Kinds of bounds: one body's alone, or body 0's or body 1's half of one that they share. */
enum { ALONE, HALF, KINDS = HALF + 2 };

/* What the bounds of one triangle add up to, with the sign that their side has: l1 and l2 for its corners 1 and 2, the
 * rest of `whole` for corner 0. */
struct share {
    uint32_t tag;
    int64_t whole, l1, l2;
};

/* Shares are held back: neighbouring rays mostly meet the same triangle, whose corners then need one addition for all
 * of them, and as sums lie anywhere in memory, in the order of a mesh's vertices, those of many triangles at a time
 * come into the cache before they are added to. */
enum { HELD = 32 };
#define NO_TRIANGLE UINT32_MAX

struct sink {
    int64_t *gradient[2]; /* the view's, per body */
    uint8_t *touched[2];
    const uint32_t *const *triangles;
    struct share *open[2][KINDS]; /* by side: that of the triangle met last */
    uint32_t n;
    struct share held[HELD], none;
};

static inline void close_all(struct sink *s) {
    for (int kind = 0; kind < KINDS; kind++) s->open[LOWER][kind] = s->open[UPPER][kind] = &s->none;
    s->n = 0;
}

/* It must stay where it is. */
static inline void sink_start(struct sink *s, const ct_ray_lists *rays, const uint32_t *const *triangles,
                              ct_sums *sums) {
    for (int b = 0; b < 2; b++) {
        s->gradient[b] = sums->gradient[b][rays->view];
        s->touched[b] = sums->touched[b];
    }
    s->triangles = triangles;
    s->none = (struct share){.tag = NO_TRIANGLE};
    close_all(s);
}

static inline const uint32_t *corners_of(const struct sink *s, uint32_t tag) {
    return s->triangles[tag >> 31] + 3 * (size_t)(tag & 0x7fffffff);
}

static __attribute__((noinline)) void drain(struct sink *s) {
    for (uint32_t i = 0; i < s->n; i++) {
        const uint32_t tag = s->held[i].tag, *corner = corners_of(s, tag);
        const int64_t *gradient = s->gradient[tag >> 31];
        for (int k = 0; k < 3; k++) __builtin_prefetch(gradient + corner[k], 1);
    }
    for (uint32_t i = 0; i < s->n; i++) {
        const struct share share = s->held[i];
        const uint32_t *corner = corners_of(s, share.tag), a = corner[0], b = corner[1], c = corner[2];
        int64_t *gradient = s->gradient[share.tag >> 31];
        uint8_t *touched = s->touched[share.tag >> 31];
        gradient[a] += share.whole - share.l1 - share.l2;
        gradient[b] += share.l1;
        gradient[c] += share.l2;
        touched[a / CT_GROUP] = touched[b / CT_GROUP] = touched[c / CT_GROUP] = 1;
    }
    close_all(s);
}

static inline struct share *hold(struct sink *s, uint32_t tag) {
    if (s->n == HELD) drain(s);
    struct share *share = &s->held[s->n++];
    *share = (struct share){.tag = tag};
    __builtin_prefetch(corners_of(s, tag));
    return share;
}

/* n bounds of one triangle, whose weights of corners 1 and 2 add up to l1 and l2. */
static inline void add_bounds(struct sink *s, uint32_t tag, int side, int kind, int64_t n, int64_t l1, int64_t l2) {
    struct share *share = s->open[side][kind];
    if (share->tag != tag) s->open[side][kind] = share = hold(s, tag);
    const int64_t sign = side == UPPER ? 1 : -1;
    share->whole += sign * n * (CT_WEIGHT_ONE >> (kind >= HALF));
    share->l1 += sign * l1;
    share->l2 += sign * l2;
}

static inline void add_fragment(struct sink *s, const ct_fragment *f, int side, int kind) {
    int64_t weight[3];
    ct_bound_weights(f, kind >= HALF, weight);
    add_bounds(s, f->tag, side, kind, 1, weight[1], weight[2]);
}

#endif

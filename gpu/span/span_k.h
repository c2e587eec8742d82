/* span_k.h - from a ray's sorted fragments to spans: depth intervals that lie inside both bodies. */
#ifndef CT_SPAN_K_H
#define CT_SPAN_K_H

#include "gpu/raster/raster_k.h"

/* What bounds a span from one side: the fragment by which body 0 and/or body 1 crossed there. Where both crossed at the
 * same depth each carries half: the gradient is then the central difference, and neither body's order matters. */
typedef struct ct_bound {
    int32_t fragment[2]; /* per body, index among the ray's fragments; -1: that body did not cross here */
} ct_bound;

typedef struct ct_walk {
    int32_t winding[2];
    ct_bound lower;
} ct_walk;

CT_FN int ct_fragment_before(const ct_fragment *a, const ct_fragment *b) {
    uint64_t ka = (uint64_t)a->key << 32 | a->l1, kb = (uint64_t)b->key << 32 | b->l1;
    if (ka != kb) return ka < kb;
    uint64_t ta = (uint64_t)a->l2 << 32 | a->tag, tb = (uint64_t)b->l2 << 32 | b->tag;
    return ta < tb;
}

/* Takes the crossings [i, j) of equal key into account. Returns 1 where they close a span, whose lower bound is then
 * *lower and whose upper is *upper. */
CT_FN int ct_walk_group(ct_walk *walk, const ct_fragment *f, int32_t i, int32_t j, ct_bound *lower, ct_bound *upper) {
    int inside = (walk->winding[0] > 0) & (walk->winding[1] > 0);
    int entering = f[i].key & 1;
    ct_bound crossed;
    crossed.fragment[0] = crossed.fragment[1] = -1;
    for (int32_t k = i; k < j; k++) {
        int body = (int)(f[k].tag >> 31);
        if (entering) {
            if (++walk->winding[body] == 1) crossed.fragment[body] = k;
        } else {
            if (--walk->winding[body] == 0) crossed.fragment[body] = k;
        }
    }
    int now = (walk->winding[0] > 0) & (walk->winding[1] > 0);
    if (now & !inside) walk->lower = crossed;
    if (inside & !now) {
        *lower = walk->lower;
        *upper = crossed;
        return 1;
    }
    return 0;
}

/* The shares of a bound: per corner of the fragment's triangle, in units of CT_WEIGHT_ONE, summing to exactly one, or
 * to exactly a half for each body where both bound the span. */
CT_FN void ct_bound_weights(const ct_fragment *f, int shared, int64_t weight[3]) {
    weight[1] = (int64_t)(int32_t)f->l1 >> shared;
    weight[2] = (int64_t)(int32_t)f->l2 >> shared;
    weight[0] = (CT_WEIGHT_ONE >> shared) - weight[1] - weight[2];
}

#endif

/* span_k.h - from a ray's sorted fragments to spans: depth intervals that lie inside both bodies. */
#ifndef CT_SPAN_K_H
#define CT_SPAN_K_H

#include "gpu/raster/raster_k.h"

/* What bounds a span from one side: the fragment by which body 0 and/or body 1 crossed there. Where both crossed at the
 * same depth each carries half: the gradient is then the central difference, and neither body's order matters. */
typedef struct ct_bound {
    int64_t fragment[2]; /* per body, index into the fragments; -1: that body did not cross here */
} ct_bound;

/* A walk along a ray. Start with the winding numbers with which the ray enters. */
typedef struct ct_walk {
    int32_t winding[2];
    ct_bound lower; /* of the span that is open: both winding numbers are positive */
} ct_walk;

CT_FN int ct_fragment_before(const ct_fragment *a, const ct_fragment *b) {
    uint64_t ka = (uint64_t)a->key << 32 | a->l1, kb = (uint64_t)b->key << 32 | b->l1;
    if (ka != kb) return ka < kb;
    uint64_t ta = (uint64_t)a->l2 << 32 | a->tag, tb = (uint64_t)b->l2 << 32 | b->tag;
    return ta < tb;
}

/* Takes one crossing into account, fragment `index` of body `body`, which no other crossing shares depth and
 * orientation with. Returns 1 where it closes a span: from walk->lower to this fragment. */
CT_FN int ct_walk_one(ct_walk *walk, int entering, int body, int64_t index) {
    int other = walk->winding[1 - body] > 0;
    if (entering) {
        if (++walk->winding[body] == 1 && other) {
            walk->lower.fragment[body] = index;
            walk->lower.fragment[1 - body] = -1;
        }
        return 0;
    }
    return --walk->winding[body] == 0 && other;
}

/* What crossings that share depth and orientation do together: collects them, in the order of ct_fragment_before. */
typedef struct ct_coincident_crossings {
    int inside; /* was the ray inside both bodies before them */
    ct_bound crossed;
} ct_coincident_crossings;

CT_FN void ct_coincident_start(ct_coincident_crossings *group, const ct_walk *walk) {
    group->inside = walk->winding[0] > 0 && walk->winding[1] > 0;
    group->crossed.fragment[0] = group->crossed.fragment[1] = -1;
}

CT_FN void ct_coincident_add(ct_coincident_crossings *group, ct_walk *walk, int entering, int body, int64_t index) {
    walk->winding[body] += entering ? 1 : -1;
    if (walk->winding[body] == entering) group->crossed.fragment[body] = index;
}

/* Returns 1 where they close a span: from walk->lower to group->crossed. */
CT_FN int ct_coincident_end(const ct_coincident_crossings *group, ct_walk *walk) {
    int now = walk->winding[0] > 0 && walk->winding[1] > 0;
    if (now && !group->inside) walk->lower = group->crossed;
    return group->inside && !now;
}

/* The shares of a bound: per corner of the fragment's triangle, in units of CT_WEIGHT_ONE, summing to exactly one, or
 * to exactly a half for each body where both bound the span. */
CT_FN void ct_bound_weights(const ct_fragment *f, int shared, int64_t weight[3]) {
    weight[1] = (int64_t)(int32_t)f->l1 >> shared;
    weight[2] = (int64_t)(int32_t)f->l2 >> shared;
    weight[0] = (CT_WEIGHT_ONE >> shared) - weight[1] - weight[2];
}

#endif

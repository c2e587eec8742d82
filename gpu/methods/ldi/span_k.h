/* span_k.h - the span rule, and the walk along a ray that turns its sorted crossings into span events.
 *
 * A ray's winding number of a body goes up by 1 where the ray enters the body and down by 1 where it leaves; the ray is
 * inside the body where the number is positive. A span is a maximal depth interval that satisfies the span rule:
 *
 *     winding of A   0 --+1-----------------0----------     crossings of A:  enter a0, leave a1
 *     winding of B   0 -----------+1---------------0---     crossings of B:  enter b0, leave b1
 *                        a0       b0        a1     b1
 *                                 [== span ==]              lower bound b0, upper bound a1
 *
 * This file is the rule's only home: the CPU, CUDA and every accumulator get their spans from ct_walk_crossing. The
 * The walk also tells where a body is inside out (ct_is_inverted), which the contact reports beside its volume. The
 * fast paths (gpu/methods/ldi/single_layer.h, large_triangles_cpu.simd.c) are closed forms of the same rule for rays on which
 * every body has at most one interval; gpu/methods/ldi/accumulate.h says where they may replace the walk.
 */
#ifndef CT_SPAN_K_H
#define CT_SPAN_K_H

#include "gpu/include/contact.h"
#include "gpu/view/raster_k.h"
#include "gpu/view/view_k.h"

typedef enum ct_span_rule {
    CT_SPAN_OF_PAIR, /* inside both bodies: both winding numbers are at least 1 */
    CT_SPAN_OF_SELF, /* twice inside one body: the winding number of body 0 is at least 2 */
} ct_span_rule;

/* The least winding number with which the rule counts a body as covering the ray. */
CT_FN int32_t ct_span_threshold(ct_span_rule rule) {
    return rule == CT_SPAN_OF_SELF ? 2 : 1;
}

/* The span rule. */
CT_FN int ct_is_in_span(ct_span_rule rule, const int32_t winding[2]) {
    const int32_t least = ct_span_threshold(rule);
    return winding[0] >= least && (rule == CT_SPAN_OF_SELF || winding[1] >= least);
}

/* The volume that the span rule would count if a body were not inside out there: both bodies cover the ray, one or both
 * with a negative winding number. Of a body with itself: its winding number is negative. */
CT_FN int ct_is_inverted(ct_span_rule rule, const int32_t winding[2]) {
    if (rule == CT_SPAN_OF_SELF) return winding[0] < 0;
    return winding[0] && winding[1] && (winding[0] < 0 || winding[1] < 0);
}

/* One end of a span: the fragment with which body 0 and/or body 1 crosses there. Where both cross at the same depth,
 * each bounds half of the span: the gradient is then the central difference, and the order of bodies does not matter.
 */
typedef struct ct_bound {
    int64_t fragment[2]; /* per body, index of the fragment; -1: the body does not cross here */
} ct_bound;

typedef struct ct_span_event {
    ct_bound lower, upper;
} ct_span_event;

typedef struct ct_walk {
    int32_t winding[2];
    ct_span_rule rule;
    int is_in_span;   /* before the crossings that `crossed` collects */
    int is_inverted;  /* likewise, by ct_is_inverted */
    int64_t inverted; /* total length of the intervals in which it is set, once they have ended */
    ct_bound crossed; /* by the crossings seen so far that share one depth and orientation */
    ct_bound lower;   /* of the open span, where is_in_span is set */
} ct_walk;

/* winding: the winding numbers with which the ray enters the window's depths. */
CT_FN ct_walk ct_walk_begin(ct_span_rule rule, int32_t winding0, int32_t winding1) {
    ct_walk walk;
    walk.winding[0] = winding0;
    walk.winding[1] = winding1;
    walk.rule = rule;
    walk.is_in_span = ct_is_in_span(rule, walk.winding);
    walk.is_inverted = ct_is_inverted(rule, walk.winding);
    walk.inverted = 0;
    walk.crossed.fragment[0] = walk.crossed.fragment[1] = -1;
    walk.lower = walk.crossed;
    return walk;
}

/* Order of crossings along a ray. */
CT_FN int ct_fragment_before(const ct_fragment *a, const ct_fragment *b) {
    uint64_t ka = (uint64_t)a->key << 32 | a->l1, kb = (uint64_t)b->key << 32 | b->l1;
    if (ka != kb) return ka < kb;
    uint64_t ta = (uint64_t)a->l2 << 32 | a->tag, tb = (uint64_t)b->l2 << 32 | b->tag;
    return ta < tb;
}

/* Advances the walk over the next crossing, in the order of ct_fragment_before: fragment `index` of body `body`.
 * Crossings with the same key (depth and orientation) act together; has_next_same_key: the next crossing is one of
 * them. Returns 1 and fills *event where a span ends here. */
CT_FN int ct_walk_crossing(ct_walk *walk, uint32_t key, int body, int64_t index, int has_next_same_key,
                           ct_span_event *event) {
    const int entering = (int)(key & 1);
    walk->winding[body] += entering ? 1 : -1;
    /* Of several coincident crossings of one body, the one that passes the threshold bounds the span. */
    if (walk->winding[body] == ct_span_threshold(walk->rule) - !entering) walk->crossed.fragment[body] = index;
    if (has_next_same_key) return 0;
    const int is_inverted = ct_is_inverted(walk->rule, walk->winding);
    if (is_inverted != walk->is_inverted) {
        walk->inverted += is_inverted ? -(int64_t)ct_fragment_depth(key) : ct_fragment_depth(key);
        walk->is_inverted = is_inverted;
    }
    const int was_in_span = walk->is_in_span, is_in_span = ct_is_in_span(walk->rule, walk->winding);
    const ct_bound bound = walk->crossed;
    walk->is_in_span = is_in_span;
    walk->crossed.fragment[0] = walk->crossed.fragment[1] = -1;
    if (is_in_span && !was_in_span) walk->lower = bound;
    if (is_in_span || !was_in_span) return 0;
    event->lower = walk->lower;
    event->upper = bound;
    return 1;
}

/* The weights of a bound at the three corners of its fragment's triangle, in units of CT_WEIGHT_ONE. They sum to
 * exactly one, or to exactly a half where both bodies bound the span (is_shared). */
CT_FN void ct_bound_weights(const ct_fragment *f, int is_shared, int64_t weight[3]) {
    weight[1] = (int64_t)(int32_t)f->l1 >> is_shared;
    weight[2] = (int64_t)(int32_t)f->l2 >> is_shared;
    weight[0] = (CT_WEIGHT_ONE >> is_shared) - weight[1] - weight[2];
}

/* ---- in the world ---- */

/* A span's two end points, for callers that ask for spans. u, v: the ray's lattice coordinates; lower, upper: depths of
 * the span's ends. */
CT_FN void ct_span_to_world(const ct_window *window, int view, int32_t u, int32_t v, int32_t lower, int32_t upper,
                            int lower_body, ct_span *s) {
    const int axis_u = ct_view_u(view), axis_v = ct_view_v(view);
    const ct_lattice *a = window->axis;
    s->lower[axis_u] = s->upper[axis_u] = (float)(a[axis_u].origin + u * a[axis_u].unit);
    s->lower[axis_v] = s->upper[axis_v] = (float)(a[axis_v].origin + v * a[axis_v].unit);
    s->lower[view] = (float)(a[view].origin + lower * a[view].unit);
    s->upper[view] = (float)(a[view].origin + upper * a[view].unit);
    s->axis = (uint32_t)view;
    s->lower_body = (uint32_t)lower_body;
}

#endif

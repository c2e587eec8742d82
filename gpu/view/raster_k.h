/* raster_k.h - one sample against one triangle: exact coverage, depth and barycentric weights. All backends compile
 * this arithmetic.
 *
 * Coverage is decided on integer edge functions (Pineda 1988). The fill rule decides about samples on an edge:
 *
 *     v ^          C             Sample p lies on edge AC, which two triangles share. The rule tests p' = p + (e, e^2)
 *       |         /|\            instead, for an infinitesimal e > 0: to the right, and far less upwards. p' lies on no
 *       |        / | \           edge and on no vertex, so exactly one of the triangles around p covers it: here ABC.
 *       |       D  p  B          So a ray enters a closed surface as often as it leaves it.
 *       |        \ | /
 *       |         \|/
 *       |          A
 *       +---------------> u
 *
 * This is Simulation of Simplicity (Edelsbrunner and Muecke 1990). The top-left rule of graphics APIs displaces to the
 * right and far less downwards. ct_edge_inside is the rule's only home.
 */
#ifndef CT_RASTER_K_H
#define CT_RASTER_K_H

#include "gpu/base/kernel.h"

/* Barycentric weights are fixed-point, in units of 2^-30: their sums are exact in any order. */
#define CT_WEIGHT_BITS 30
#define CT_WEIGHT_ONE  ((int64_t)1 << CT_WEIGHT_BITS)

/* Depths lie within +-2^28 (plus rounding). With the bias they are positive and fit the key's upper 31 bits; the lowest
 * bit is the orientation. */
#define CT_DEPTH_BIAS (1 << 29)

/* One ray-triangle crossing. Crossings of a ray are ordered by (key, l1, l2, tag). */
typedef struct ct_fragment {
    uint32_t key; /* (depth + CT_DEPTH_BIAS) << 1 | is_entering. At equal depth leaving sorts before entering, so bodies
                     that only touch bound no span. */
    uint32_t l1, l2; /* weights of the triangle's corners 1 and 2; corner 0's is CT_WEIGHT_ONE - l1 - l2 */
    uint32_t tag;    /* body (0 or 1) << 31 | triangle */
} ct_fragment;

/* An element of a ray's list of fragments. */
typedef struct ct_linked_fragment {
    ct_fragment f;
    uint32_t next; /* index of another fragment of the same ray, or CT_END */
} ct_linked_fragment;
#define CT_END UINT32_MAX

CT_FN int32_t ct_fragment_depth(uint32_t key) {
    return (int32_t)(key >> 1) - CT_DEPTH_BIAS;
}

/* A triangle projected along a view's axis. Edge function k is twice the signed area of the triangle that a sample and
 * the edge opposite corner k span; all three are positive inside. Their sum is twice the triangle's area, so edge
 * function k over that sum is the barycentric weight of corner k. */
typedef struct ct_triangle_setup {
    int64_t edge[3];              /* edge functions at one sample, given to ct_make_setup */
    int64_t step_u[3], step_v[3]; /* their change from one sample to the next along u and v */
    int32_t ccw;                  /* 1: counter-clockwise in (u, v), rays leave the body; -1: clockwise, rays enter */
    int32_t z0;                   /* depth of corner 0 */
    double dz1, dz2;              /* depths of corners 1 and 2, relative to z0 */
    double inverse;               /* 1 over twice the triangle's area */
} ct_triangle_setup;

CT_FN int32_t ct_min3(int32_t a, int32_t b, int32_t c) {
    int32_t m = a < b ? a : b;
    return m < c ? m : c;
}

CT_FN int32_t ct_max3(int32_t a, int32_t b, int32_t c) {
    int32_t m = a > b ? a : b;
    return m > c ? m : c;
}

/* x * 2^n; x << n would be undefined for negative x. */
CT_FN int64_t ct_shift_left(int64_t x, int n) {
    return (int64_t)((uint64_t)x << n);
}

/* a, b, c: the corners' lattice coordinates x, y, z. u, v, w: the view's axes. (cu, cv): lattice coordinates of the
 * sample that s->edge is for; su, sv: log2 of the sample pitch. Returns 0 for a triangle seen edge-on, which covers no
 * sample. */
CT_FN int ct_make_setup(ct_triangle_setup *s, const int32_t *a, const int32_t *b, const int32_t *c, int u, int v, int w,
                        int32_t cu, int32_t cv, int su, int sv) {
    int64_t xb = b[u] - a[u], yb = b[v] - a[v], xc = c[u] - a[u], yc = c[v] - a[v];
    int64_t area = xb * yc - xc * yb;
    if (area == 0) return 0;
    int64_t flip = area >> 63; /* -1 for a clockwise triangle: (x ^ flip) - flip is -x then */
    xb = (xb ^ flip) - flip;
    yb = (yb ^ flip) - flip;
    xc = (xc ^ flip) - flip;
    yc = (yc ^ flip) - flip;
    area = (area ^ flip) - flip;
    int64_t xs = (int64_t)cu - a[u], ys = (int64_t)cv - a[v];
    /* With s = sample - a: edge function 1 is cross(s, c - a), 2 is cross(b - a, s), 0 the rest of the area. */
    int64_t e1 = xs * yc - xc * ys, e2 = xb * ys - xs * yb;
    s->edge[0] = area - e1 - e2;
    s->edge[1] = e1;
    s->edge[2] = e2;
    s->step_u[0] = ct_shift_left(yb - yc, su);
    s->step_u[1] = ct_shift_left(yc, su);
    s->step_u[2] = ct_shift_left(-yb, su);
    s->step_v[0] = ct_shift_left(xc - xb, sv);
    s->step_v[1] = ct_shift_left(-xc, sv);
    s->step_v[2] = ct_shift_left(xb, sv);
    s->ccw = (int32_t)(1 | flip);
    s->z0 = a[w];
    s->dz1 = (double)(b[w] - a[w]);
    s->dz2 = (double)(c[w] - a[w]);
    s->inverse = 1.0 / (double)area;
    return 1;
}

/* The fill rule: does a sample on edge k count as inside it? The edge function at p' is e * step_u + e^2 * step_v, so
 * step_u decides, and step_v where step_u is 0. */
CT_FN int ct_edge_inside(const ct_triangle_setup *s, int k) {
    return s->step_u[k] > 0 || (s->step_u[k] == 0 && s->step_v[k] > 0);
}

/* Is the sample with these edge functions covered? */
CT_FN int ct_covers(const ct_triangle_setup *s, int64_t e0, int64_t e1, int64_t e2) {
    if ((e0 | e1 | e2) < 0) return 0;
    if (e0 && e1 && e2) return 1;
    return (e0 || ct_edge_inside(s, 0)) && (e1 || ct_edge_inside(s, 1)) && (e2 || ct_edge_inside(s, 2));
}

/* The fragment at a covered sample with edge functions e1 and e2, converted to double (rounded above 2^53). The result
 * depends only on the triangle and the sample, not on the sample of the setup or on the triangle's index, so no order
 * of work changes a bit. */
CT_FN ct_fragment ct_fragment_at(const ct_triangle_setup *s, double e1, double e2, uint32_t tag) {
    ct_fragment f;
    double w1 = e1 * s->inverse, w2 = e2 * s->inverse;
    int32_t depth = s->z0 + ct_round_i32(w1 * s->dz1 + w2 * s->dz2);
    f.key = (uint32_t)(depth + CT_DEPTH_BIAS) << 1 | (uint32_t)(s->ccw < 0);
    f.l1 = (uint32_t)ct_round_i32(w1 * (double)CT_WEIGHT_ONE);
    f.l2 = (uint32_t)ct_round_i32(w2 * (double)CT_WEIGHT_ONE);
    f.tag = tag;
    return f;
}

#endif

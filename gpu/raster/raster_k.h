/* raster_k.h - one ray sample against one triangle: exact coverage, depth, barycentric weights.
 *
 * Coverage is decided on integers. The sample is thought of as displaced by (e, e^2) for an infinitesimal e > 0, so it
 * never lies on an edge or a vertex: of the triangles around a shared edge or vertex exactly one covers it (the exact
 * form of a top-left rule), and the crossings of a closed surface along any ray cancel.
 */
#ifndef CT_RASTER_K_H
#define CT_RASTER_K_H

#include "gpu/base/kernel.h"

/* Barycentric weights are fixed-point: one is 2^30. Sums of weights are then exact and free of order. */
#define CT_WEIGHT_BITS 30
#define CT_WEIGHT_ONE  ((int64_t)1 << CT_WEIGHT_BITS)

/* Depths lie within +-2^28 and a rounding; biased they are positive and leave the key's low bit for the orientation. */
#define CT_DEPTH_BIAS (1 << 29)

/* One ray-triangle crossing. Crossings of a ray are ordered by (key, l1, l2, tag). */
typedef struct ct_fragment {
    uint32_t key; /* (depth + CT_DEPTH_BIAS) << 1 | entering: at equal depth leaving comes before entering, so surfaces
                     that merely touch bound no span */
    uint32_t l1, l2; /* weights of the triangle's corners 1 and 2; corner 0 has the rest of CT_WEIGHT_ONE */
    uint32_t tag;    /* body (0 or 1) << 31 | triangle */
} ct_fragment;

CT_FN int32_t ct_fragment_depth(uint32_t key) {
    return (int32_t)(key >> 1) - CT_DEPTH_BIAS;
}

/* A triangle on a view, ready to be tried at samples. Edge function k is twice the area between the sample and the edge
 * opposite to corner k, signed so that all three are positive inside; `in` is that minus `bias`, so that a sample is
 * covered where all three are >= 0 (bias is 0 where the displaced sample is inside an edge that the sample lies on). */
typedef struct ct_setup {
    int64_t in[3];                /* at the sample it was made for */
    int64_t step_u[3], step_v[3]; /* change from one sample to the next */
    int32_t bias[3];              /* 0 or 1 */
    int32_t ccw;                  /* 1: counter-clockwise in (u, v), a ray leaves the body here; -1: it enters */
    double inverse;               /* 1 over twice the triangle's area */
    int32_t z0;                   /* depth of corner 0 */
    double dz1, dz2;              /* of corners 1 and 2, relative to it */
} ct_setup;

/* a, b, c: corners' lattice coordinates x, y, z; the view's axes u, v, w; the first sample at (cu, cv), samples 2^su
 * and 2^sv apart. Returns 0 for a triangle seen edge-on, which covers no sample and bounds no depth. */
CT_FN int ct_make_setup(ct_setup *s, const int32_t *a, const int32_t *b, const int32_t *c, int u, int v, int w,
                        int32_t cu, int32_t cv, int su, int sv) {
    int64_t xa = a[u] - cu, xb = b[u] - cu, xc = c[u] - cu;
    int64_t ya = a[v] - cv, yb = b[v] - cv, yc = c[v] - cv;
    int64_t ea = xb * yc - xc * yb, eb = xc * ya - xa * yc, ec = xa * yb - xb * ya;
    int64_t area = ea + eb + ec;
    if (area == 0) return 0;
    int64_t ccw = area > 0 ? 1 : -1;
    int64_t ua = ccw * (yb - yc), ub = ccw * (yc - ya), uc = ccw * (ya - yb); /* d edge / d u, and below d v */
    int64_t va = ccw * (xc - xb), vb = ccw * (xa - xc), vc = ccw * (xb - xa);
    s->bias[0] = !(ua > 0 || (ua == 0 && va > 0));
    s->bias[1] = !(ub > 0 || (ub == 0 && vb > 0));
    s->bias[2] = !(uc > 0 || (uc == 0 && vc > 0));
    s->in[0] = ccw * ea - s->bias[0];
    s->in[1] = ccw * eb - s->bias[1];
    s->in[2] = ccw * ec - s->bias[2];
    s->step_u[0] = ua * ((int64_t)1 << su);
    s->step_u[1] = ub * ((int64_t)1 << su);
    s->step_u[2] = uc * ((int64_t)1 << su);
    s->step_v[0] = va * ((int64_t)1 << sv);
    s->step_v[1] = vb * ((int64_t)1 << sv);
    s->step_v[2] = vc * ((int64_t)1 << sv);
    s->ccw = (int32_t)ccw;
    s->inverse = 1.0 / (double)(ccw * area);
    s->z0 = a[w];
    s->dz1 = (double)(b[w] - a[w]);
    s->dz2 = (double)(c[w] - a[w]);
    return 1;
}

/* The fragment at a covered sample where in[1], in[2] are these. Only the triangle and the sample matter, not where the
 * setup was made nor where the triangle stands in its mesh, so neither changes a bit. */
CT_FN ct_fragment ct_fragment_at(const ct_setup *s, int64_t in1, int64_t in2, uint32_t tag) {
    ct_fragment f;
    double w1 = (double)(in1 + s->bias[1]) * s->inverse, w2 = (double)(in2 + s->bias[2]) * s->inverse;
    int32_t depth = s->z0 + ct_round_i32(w1 * s->dz1 + w2 * s->dz2);
    f.key = (uint32_t)(depth + CT_DEPTH_BIAS) << 1 | (uint32_t)(s->ccw < 0);
    f.l1 = (uint32_t)ct_round_i32(w1 * (double)CT_WEIGHT_ONE);
    f.l2 = (uint32_t)ct_round_i32(w2 * (double)CT_WEIGHT_ONE);
    f.tag = tag;
    return f;
}

#endif

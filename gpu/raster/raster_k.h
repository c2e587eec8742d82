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

/* Corner k of a triangle relative to the sample, and the edge function of the edge opposite to it: twice the signed
 * area of (sample, next corner, corner after that). */
CT_FN int64_t ct_edge(int32_t x1, int32_t y1, int32_t x2, int32_t y2) {
    return (int64_t)x1 * y2 - (int64_t)x2 * y1;
}

/* The sign of an edge function that is zero, at the displaced sample: +1 or -1, or 0 for an edge without extent. */
CT_FN int ct_edge_tie(int32_t x1, int32_t y1, int32_t x2, int32_t y2) {
    if (y1 != y2) return y1 > y2 ? 1 : -1;
    if (x1 != x2) return x2 > x1 ? 1 : -1;
    return 0;
}

/* Does the triangle with edge functions e (for corners x, y relative to the sample) cover the sample? Returns +1 where
 * it is counter-clockwise in (u, v), -1 where clockwise, 0 where it does not cover. */
CT_FN int ct_covers(const int64_t e[3], const int32_t x[3], const int32_t y[3]) {
    if ((e[0] > 0) & (e[1] > 0) & (e[2] > 0)) return 1;
    if ((e[0] < 0) & (e[1] < 0) & (e[2] < 0)) return -1;
    if (e[0] && e[1] && e[2]) return 0;
    int sum = 0;
    for (int k = 0; k < 3; k++) {
        int i = k == 2 ? 0 : k + 1, j = k == 0 ? 2 : k - 1;
        int sign = e[k] > 0 ? 1 : e[k] < 0 ? -1 : ct_edge_tie(x[i], y[i], x[j], y[j]);
        sum += sign;
    }
    return sum == 3 ? 1 : sum == -3 ? -1 : 0;
}

/* The fragment of a covered sample; z are the corners' depths. Only corner order and edge functions matter, so the same
 * triangle gives the same bits wherever it stands in its mesh. */
CT_FN ct_fragment ct_make_fragment(const int64_t e[3], const int32_t z[3], int ccw, uint32_t tag) {
    ct_fragment f;
    double inverse = 1.0 / (double)(e[0] + e[1] + e[2]);
    double w1 = (double)e[1] * inverse, w2 = (double)e[2] * inverse;
    int32_t depth = z[0] + ct_round_i32(w1 * (double)(z[1] - z[0]) + w2 * (double)(z[2] - z[0]));
    f.key = (uint32_t)(depth + CT_DEPTH_BIAS) << 1 | (uint32_t)(ccw < 0);
    f.l1 = (uint32_t)ct_round_i32(w1 * (double)CT_WEIGHT_ONE);
    f.l2 = (uint32_t)ct_round_i32(w2 * (double)CT_WEIGHT_ONE);
    f.tag = tag;
    return f;
}

#endif

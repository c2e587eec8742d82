/* tile_size_k.h - error bound polynomials of tiles (tile_bound.h), and the cuts that are planned from them. */
#ifndef CT_EBPI_TILE_SIZE_K_H
#define CT_EBPI_TILE_SIZE_K_H

#include "gpu/methods/ebpi/edge_k.h"

/* Bounds are integers, so that no order of faces changes a bit: mean depths in 2^-16 lattice units of the view's axis.
 */
#define CT_EBPI_DEPTH_BITS 16

/* Of a pixel or tile. Integers, so that no order of edges changes a bit: mean depths in 2^-CT_EBPI_DEPTH_BITS lattice
 * units of the view's axis. */
typedef struct ct_ebpi_polynomial {
    int64_t term[CT_EBPI_TERMS];
    int64_t along_u, along_v; /* equation 11: sums of l_u / w and l_v / h, weighted */
} ct_ebpi_polynomial;

/* Adds an edge that runs the parts x and y of the sides: its terms (ct_ebpi_spread_terms) of depths in lattice units.
 * In equation 11 the paper weighs it by the slopes of both faces; here its error in each tile that it crosses is the
 * weight, so that an edge between two faces of nearly one slope counts little. */
CT_FN void ct_ebpi_add_terms(ct_ebpi_polynomial *polynomial, const double term[CT_EBPI_TERMS], double x, double y) {
    const double scale = 1 << CT_EBPI_DEPTH_BITS;
    double sum = 0;
    for (int k = 0; k < CT_EBPI_TERMS; k++) {
        polynomial->term[k] += (int64_t)(term[k] * scale);
        sum += term[k];
    }
    if (!(x + y > 0) || sum <= 0) return;
    polynomial->along_u += (int64_t)(x / (x + y) * sum * scale);
    polynomial->along_v += (int64_t)(y / (x + y) * sum * scale);
}

/* How often the sides of a tile are halved. */
typedef struct ct_ebpi_cut {
    uint8_t u, v;
} ct_ebpi_cut;

/* 2^-n, without a call. |n| <= 1022. */
CT_FN double ct_ebpi_half_to(int n) {
    union {
        uint64_t bits;
        double x;
    } of;
    of.bits = (uint64_t)(1023 - n) << 52;
    return of.x;
}

/* The mean over the pixel for tiles of a cut; at least 0. */
CT_FN double ct_ebpi_evaluate_cut(const ct_ebpi_polynomial *polynomial, ct_ebpi_cut cut) {
    const int64_t *term = polynomial->term;
    const double p = ct_ebpi_half_to(cut.u), q = ct_ebpi_half_to(cut.v), over_p = ct_ebpi_half_to(-cut.u),
                 over_q = ct_ebpi_half_to(-cut.v);
    const double sum =
        p * (p * (double)term[CT_EBPI_W2] + q * (double)term[CT_EBPI_WH] + (double)term[CT_EBPI_W] +
             p * p * over_q * (double)term[CT_EBPI_W3_BY_H]) +
        q * (q * (double)term[CT_EBPI_H2] + (double)term[CT_EBPI_H] + q * q * over_p * (double)term[CT_EBPI_H3_BY_W]);
    return sum > 0 ? sum : 0;
}

/* Cuts a tile once more than `cut` does: in two along u, in two along v, or in four, whichever lowers its error most
 * for each new ray. Only sides for which `may` is not 0 are halved; at least one is not 0. On entry *error is the error
 * under `cut` (ct_ebpi_evaluate_cut), on return that under the cut which is returned. */
CT_FN ct_ebpi_cut ct_ebpi_cut_more(const ct_ebpi_polynomial *polynomial, ct_ebpi_cut cut, ct_ebpi_cut may,
                                   double *error) {
    const double whole = *error;
    double most_gain = -1;
    ct_ebpi_cut best = cut;
    for (int i = 0; i < 3; i++) { /* both sides, u, v */
        const int u = i != 2, v = i != 1;
        if ((u && !may.u) || (v && !may.v)) continue;
        ct_ebpi_cut more;
        more.u = (uint8_t)(cut.u + u);
        more.v = (uint8_t)(cut.v + v);
        const double left = ct_ebpi_evaluate_cut(polynomial, more);
        const double gain = (whole - left) * ct_ebpi_half_to(u + v);
        if (gain <= most_gain) continue;
        most_gain = gain;
        *error = left;
        best = more;
    }
    return best;
}

/* What a cut leaves of a tile's bound where its polynomial does not say: an edge crosses 4 to 7 of 16 tiles, and has a
 * quarter of the error in each; a step of the depth has all of it. */
#define CT_EBPI_LEFT_AFTER_ONE 0.4f
#define CT_EBPI_LEFT_AFTER_TWO 0.25f

/* The cuts of a tile for one pass and for two, whose sides are halved `most` times at most, and the part of its bound
 * that should be left after each. */
CT_FN void ct_ebpi_plan_parts(const ct_ebpi_polynomial *polynomial, ct_ebpi_cut most, ct_ebpi_cut cut[2],
                              float left[2]) {
    ct_ebpi_cut at = {0, 0};
    const double whole = ct_ebpi_evaluate_cut(polynomial, at);
    double error = whole;
    for (int k = 0; k < 2; k++) {
        ct_ebpi_cut may;
        may.u = most.u > at.u;
        may.v = most.v > at.v;
        if (may.u || may.v) at = ct_ebpi_cut_more(polynomial, at, may, &error);
        cut[k] = at;
        left[k] = whole > 0 ? (float)(error / whole) : k ? CT_EBPI_LEFT_AFTER_TWO : CT_EBPI_LEFT_AFTER_ONE;
    }
}

#endif

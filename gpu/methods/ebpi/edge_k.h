/* edge_k.h - the error that an edge causes in a tile, as published: algorithms 1 and 2 of Wang, Faure and Pai 2012,
 * with the view's axes u, v for the paper's X, Y. For rays that are not bounded strictly.
 *
 * Algorithm 1 gives the errors of an edge's two faces the same sign or opposite ones. Its steep cases agree with the
 * figures: opposite signs where the normals are at less than a right angle. Its general case is printed the other way
 * round: as printed (alpha^i alpha^j >= 0: same sign) a symmetric roof has no error at all, two nearly coplanar faces
 * the sum of theirs, and a face that becomes steeper changes its sign on the way. The error along an edge is that of
 * the jump of the slope, |alpha^i - alpha^j|, also at silhouettes: so the signs are swapped here.
 *
 * Between two steep faces algorithm 1 gives the face that it names i the sign -1, so that the sum depends on which face
 * comes first. Here the face of the smaller depth interval has it. No order of triangles changes a bound.
 */
#ifndef CT_EBPI_EDGE_K_H
#define CT_EBPI_EDGE_K_H

#include <math.h>

#include "gpu/base/kernel.h"

/* A face of an edge, its depth along the rays, in the units of u and v. */
typedef struct ct_ebpi_side {
    double normal[3]; /* outward, along u, v and the rays; any length */
    double depth;     /* the face's depth interval inside the tile */
    int32_t is_steep; /* counts as parallel to the rays */
} ct_ebpi_side;

/* Algorithm 1. alpha: n_u / n_w of the faces in case 1, n_v / n_w in case 2; not read of steep faces. */
CT_FN void ct_ebpi_signs(const ct_ebpi_side side[2], const double alpha[2], int k[2]) {
    const double *a = side[0].normal, *b = side[1].normal;
    const int is_convex = a[0] * b[0] + a[1] * b[1] + a[2] * b[2] >= 0;
    k[0] = k[1] = 1;
    if (side[0].is_steep && side[1].is_steep) {
        if (is_convex) k[side[0].depth > side[1].depth ? 1 : 0] = -1;
        return;
    }
    if (side[1].is_steep) {
        if (is_convex) k[0] = -1;
        return;
    }
    if (side[0].is_steep) {
        if (is_convex) k[1] = -1;
        return;
    }
    if (!(alpha[0] * alpha[1] >= 0)) return;
    k[fabs(alpha[0]) > fabs(alpha[1]) ? 1 : 0] = -1;
}

/* Equation 7 over the tile's area: the mean depth of the frustum beyond an edge through the centre, for a face of slope
 * alpha across the edge. across: the tile's side along alpha's axis, along: the other side. beta: how far the edge
 * moves along alpha's axis for each unit of the other. */
CT_FN double ct_ebpi_frustum(double alpha, double beta, double across, double along) {
    return fabs(alpha) * (3 * (across / 2) * (across / 2) + (along * beta / 2) * (along * beta / 2)) / (6 * across);
}

CT_FN int ct_ebpi_is_coplanar(const ct_ebpi_side side[2]) {
    const double *a = side[0].normal, *b = side[1].normal;
    return !side[0].is_steep && !side[1].is_steep && a[0] * b[2] == b[0] * a[2] && a[1] * b[2] == b[1] * a[2] &&
           a[2] * b[2] > 0;
}

/* Algorithm 2 and equation 8: the mean over a tile of w x h of the error of an edge whose projection runs lu and lv
 * inside it. At least 0. */
CT_FN double ct_ebpi_edge_error(const ct_ebpi_side side[2], double lu, double lv, double w, double h) {
    const double crossed = lu / w + lv / h;
    const int is_case1 = lv * w >= lu * h;
    const double across = is_case1 ? w : h, along = is_case1 ? h : w;
    const double long_side = is_case1 ? lv : lu, short_side = is_case1 ? lu : lv;
    double alpha[2] = {0, 0}, sum = 0;
    int k[2];
    if (crossed == 0 || ct_ebpi_is_coplanar(side)) return 0;
    for (int i = 0; i < 2; i++)
        if (!side[i].is_steep) alpha[i] = side[i].normal[is_case1 ? 0 : 1] / side[i].normal[2];
    ct_ebpi_signs(side, alpha, k);
    for (int i = 0; i < 2; i++) {
        const int is_narrow = side[i].is_steep || across * fabs(alpha[i]) / 8 > side[i].depth;
        sum +=
            k[i] * (is_narrow ? side[i].depth / 2
                              : ct_ebpi_frustum(alpha[i], long_side > 0 ? short_side / long_side : 0, across, along));
    }
    return sum > 0 ? crossed * sum : 0;
}

/* Equation 9: the seven terms of the error of all tiles of a pixel, by their powers of a tile's sides. */
enum {
    CT_EBPI_W2,
    CT_EBPI_H2,
    CT_EBPI_WH,
    CT_EBPI_H3_BY_W,
    CT_EBPI_W3_BY_H,
    CT_EBPI_H,
    CT_EBPI_W,
    CT_EBPI_TERMS,
};

/* The terms of an edge whose projection runs the parts x and y of a pixel's sides inside it, for one tile of the
 * pixel's size and divided by its area: mean depths. For tiles whose sides are the parts p and q of the pixel's, they
 * are multiplied by p^2, q^2, pq, q^3 / p, p^3 / q, q, p. drop: the jump of the slope, times the pixel's side, along
 * the axis that the edge runs across; narrow: depth intervals of faces that count by these. */
CT_FN void ct_ebpi_spread_terms(double x, double y, double drop, double narrow, double term[CT_EBPI_TERMS]) {
    const int is_case1 = y >= x;
    const double more = is_case1 ? y : x, less = is_case1 ? x : y;
    const double slant = more > 0 ? less / more * (less / more) / 24 : 0;
    term[is_case1 ? CT_EBPI_W2 : CT_EBPI_H2] = drop * more / 8;
    term[is_case1 ? CT_EBPI_H2 : CT_EBPI_W2] = drop * more * slant;
    term[CT_EBPI_WH] = drop * less / 8;
    term[is_case1 ? CT_EBPI_H3_BY_W : CT_EBPI_W3_BY_H] = drop * less * slant;
    term[is_case1 ? CT_EBPI_W3_BY_H : CT_EBPI_H3_BY_W] = 0;
    term[CT_EBPI_H] = narrow * x / 2;
    term[CT_EBPI_W] = narrow * y / 2;
}

/* The steps that the published error of an edge is of, which runs lu and lv in a pixel of w x h: what
 * ct_ebpi_spread_terms takes. 0: the edge adds nothing. */
CT_FN int ct_ebpi_edge_steps(const ct_ebpi_side side[2], double lu, double lv, double w, double h, double *drop,
                             double *narrow) {
    const int is_case1 = lv * w >= lu * h;
    const double across = is_case1 ? w : h;
    double alpha[2] = {0, 0};
    int k[2];
    *drop = *narrow = 0;
    if ((lu == 0 && lv == 0) || ct_ebpi_is_coplanar(side)) return 0;
    for (int i = 0; i < 2; i++)
        if (!side[i].is_steep) alpha[i] = side[i].normal[is_case1 ? 0 : 1] / side[i].normal[2];
    ct_ebpi_signs(side, alpha, k);
    for (int i = 0; i < 2; i++) {
        if (side[i].is_steep || across * fabs(alpha[i]) / 8 > side[i].depth)
            *narrow += k[i] * side[i].depth;
        else
            *drop += k[i] * (across * fabs(alpha[i]));
    }
    return 1;
}

#endif

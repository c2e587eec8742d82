/* tile_size.c - sizes of tiles from error bound polynomials. */
#include "gpu/methods/ebpi/tile_bound.h"

#include <math.h>
#include <stdbool.h>

double ct_ebpi_evaluate(const ct_ebpi_polynomial *polynomial, double p, double q) {
    const double power[CT_EBPI_TERMS] = {p * p, q * q, p * q, q * q * q / p, p * p * p / q, q, p};
    double sum = 0;
    for (int k = 0; k < CT_EBPI_TERMS; k++) sum += (double)polynomial->term[k] * power[k];
    return sum > 0 ? sum : 0;
}

/* The sizes of one ratio, by the smaller part s of the pixel's sides; the other one is at most 1. At s = 1 both are. */
struct size {
    double p, q;   /* parts of the pixel's sides */
    double dp, dq; /* derivatives of p and q with respect to s */
};

static struct size size_at(const ct_ebpi_polynomial *of, double s) {
    const double u = (double)of->along_u, v = (double)of->along_v;
    struct size size = {1, 1, 0, 0};
    if (u >= v) {
        size.q = s, size.dq = 1;
        if (u * s < v) size.p = u / v * s, size.dp = u / v;
    } else {
        size.p = s, size.dp = 1;
        if (v * s < u) size.q = v / u * s, size.dq = v / u;
    }
    return size;
}

/* What the polynomial changes by with s. */
static double slope_at(const ct_ebpi_polynomial *of, const struct size *at) {
    const double p = at->p, q = at->q, r = q / p;
    const double by_p[CT_EBPI_TERMS] = {2 * p, 0, q, -r * r * q, 3 * p * p / q, 0, 1};
    const double by_q[CT_EBPI_TERMS] = {0, 2 * q, p, 3 * r * q, -p * p * p / (q * q), 1, 0};
    double sum = 0;
    for (int k = 0; k < CT_EBPI_TERMS; k++) sum += (double)of->term[k] * (by_p[k] * at->dp + by_q[k] * at->dq);
    return sum;
}

/* Steps of the search: bisection alone halves the bracket this often. */
enum { MOST_STEPS = 60 };

/* Newton's method inside a bracket whose lower end is within the tolerance and whose upper end is not. A step that
 * would leave the bracket, or has not halved it, is replaced by bisection. Sizes are wanted to the next power of 2, so
 * the search ends at a hundredth. */
void ct_ebpi_tile_size(const ct_ebpi_polynomial *polynomial, double tolerance, double *p, double *q) {
    *p = *q = 1;
    if (ct_ebpi_evaluate(polynomial, 1, 1) <= tolerance) return;
    double lo = 0, hi = 1, s = 1;
    for (int step = 0; step < MOST_STEPS && hi - lo > 0.01 * hi; step++) {
        const struct size at = size_at(polynomial, s);
        const double off = ct_ebpi_evaluate(polynomial, at.p, at.q) - tolerance, slope = slope_at(polynomial, &at);
        const double before = hi - lo;
        if (off > 0)
            hi = s;
        else
            lo = s;
        /* A little beyond the root, so that the bracket closes from both sides. */
        s -= 1.005 * off / slope;
        if (!(slope > 0) || !(s > lo && s < hi) || hi - lo > 0.5 * before) s = 0.5 * (lo + hi);
    }
    const struct size at = size_at(polynomial, lo > 0 ? lo : hi);
    *p = at.p;
    *q = at.q;
}

/* The least cut to at most a part. */
static uint8_t cut_below(double size, uint8_t most) {
    int n = 0;
    while (n < most && ct_ebpi_half_to(n) > size) n++;
    return (uint8_t)n;
}

ct_ebpi_cut ct_ebpi_cut_to(const ct_ebpi_polynomial *polynomial, double tolerance, ct_ebpi_cut most) {
    double p, q;
    ct_ebpi_tile_size(polynomial, tolerance, &p, &q);
    ct_ebpi_cut cut = {cut_below(p, most.u), cut_below(q, most.v)};
    /* Rounding changes the ratio of the sides, which may add to the error. */
    while (ct_ebpi_evaluate_cut(polynomial, cut) > tolerance && (cut.u < most.u || cut.v < most.v)) {
        const ct_ebpi_cut u = {(uint8_t)(cut.u + 1), cut.v}, v = {cut.u, (uint8_t)(cut.v + 1)};
        const bool takes_u = cut.v == most.v || (cut.u < most.u && ct_ebpi_evaluate_cut(polynomial, u) <=
                                                                       ct_ebpi_evaluate_cut(polynomial, v));
        cut = takes_u ? u : v;
    }
    for (bool is_less = true; is_less;) {
        const ct_ebpi_cut u = {(uint8_t)(cut.u - 1), cut.v}, v = {cut.u, (uint8_t)(cut.v - 1)};
        if (cut.u && ct_ebpi_evaluate_cut(polynomial, u) <= tolerance)
            cut = u;
        else if (cut.v && ct_ebpi_evaluate_cut(polynomial, v) <= tolerance)
            cut = v;
        else
            is_less = false;
    }
    return cut;
}

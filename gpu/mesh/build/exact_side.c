/* exact_side.c - on which side of a plane a point lies, without rounding. Doubles decide where their error is smaller than
 * their value (Shewchuk 1997, "Adaptive precision floating-point arithmetic"); else sums of products that are exact. */
#include <math.h>
#include <stdbool.h>

#include "gpu/mesh/build/hull.h"

enum { MOST_TERMS = 48 };

/* An exact sum of doubles that overlap nowhere, rising: its sign is that of the last. Floats make products of 2^-447 to
 * 2^384, so nothing underflows. */
typedef struct ct_exact_sum {
    double part[MOST_TERMS];
    int n;
} ct_exact_sum;

static void add_exactly(ct_exact_sum *sum, double term) {
    int kept = 0;
    for (int i = 0; i < sum->n; i++) {
        const double high = term + sum->part[i], shift = high - term;
        const double low = (term - (high - shift)) + (sum->part[i] - shift);
        if (low != 0) sum->part[kept++] = low;
        term = high;
    }
    if (term != 0) sum->part[kept++] = term;
    sum->n = kept;
}

static int sign_of(const ct_exact_sum *sum) {
    if (!sum->n) return 0;
    return sum->part[sum->n - 1] > 0 ? 1 : -1;
}

/* x y z, of which x y is exact: floats have 24 bits. */
static void add_product(ct_exact_sum *sum, double x, double y, double z) {
    const double xy = x * y, high = xy * z;
    add_exactly(sum, high);
    add_exactly(sum, fma(xy, z, -high));
}

/* The determinant of three positions, times 1 or -1. */
static void add_determinant(ct_exact_sum *sum, double sign, const float *a, const float *b, const float *c) {
    for (int i = 0; i < 3; i++) {
        const int j = (i + 1) % 3, k = (i + 2) % 3;
        add_product(sum, sign * (double)a[i], b[j], c[k]);
        add_product(sum, -sign * (double)a[i], b[k], c[j]);
    }
}

int ct_side_of_plane(const float *a, const float *b, const float *c, const float *d) {
    double u[3], v[3], w[3], value = 0, magnitude = 0;
    for (int k = 0; k < 3; k++) {
        u[k] = (double)b[k] - (double)a[k];
        v[k] = (double)c[k] - (double)a[k];
        w[k] = (double)d[k] - (double)a[k];
    }
    for (int i = 0; i < 3; i++) {
        const int j = (i + 1) % 3, k = (i + 2) % 3;
        const double p = u[j] * v[k], q = u[k] * v[j];
        value += w[i] * (p - q);
        magnitude += fabs(w[i]) * (fabs(p) + fabs(q));
    }
    /* Shewchuk's bound is 7.8e-16 of the magnitude. */
    if (fabs(value) > 1e-15 * magnitude) return value > 0 ? 1 : -1;
    ct_exact_sum sum = {.n = 0};
    add_determinant(&sum, 1, b, c, d);
    add_determinant(&sum, -1, a, c, d);
    add_determinant(&sum, 1, a, b, d);
    add_determinant(&sum, -1, a, b, c);
    return sign_of(&sum);
}

bool ct_are_on_line(const float *a, const float *b, const float *c) {
    for (int k = 0; k < 3; k++) { /* (b - a) x (c - a), one coordinate at a time */
        const int i = (k + 1) % 3, j = (k + 2) % 3;
        ct_exact_sum sum = {.n = 0};
        add_exactly(&sum, (double)a[i] * (double)b[j]);
        add_exactly(&sum, -(double)a[j] * (double)b[i]);
        add_exactly(&sum, (double)b[i] * (double)c[j]);
        add_exactly(&sum, -(double)b[j] * (double)c[i]);
        add_exactly(&sum, (double)c[i] * (double)a[j]);
        add_exactly(&sum, -(double)c[j] * (double)a[i]);
        if (sign_of(&sum)) return false;
    }
    return true;
}

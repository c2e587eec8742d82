/* inertia_k.h - second moments of the intersection, for the method `exact`.
 *
 * By the divergence theorem they are integrals over the parts of both surfaces inside the other body:
 * x^2 dV -> n_x x^3 / 3 dA, x y dV -> n_x x^2 y / 2 dA, and so on. By Green's theorem those over a triangle are sums
 * over segments (segment_k.h), with an integral along x within: integral of (integral over 0..x of f(x', y) dx') dy. f
 * is cubic, so Gauss's rules with two points within and three along the segment are exact.
 */
#ifndef CT_EXACT_INERTIA_K_H
#define CT_EXACT_INERTIA_K_H

#include <math.h>

#include "gpu/base/kernel.h"

/* xx, yy, zz, xy, yz, zx */
enum { CT_MOMENTS = 6 };

/* A triangle whose corners count from the point about which moments are taken, in units. */
typedef struct ct_moment_triangle {
    double corner[3], u[3], v[3], normal[3]; /* corner 0, the sides to corners 1 and 2, u x v */
} ct_moment_triangle;

/* Adds the whole triangle, times weight. Integrals of cubic polynomials from sums over the corners: that of x^2 y over
 * a triangle of area A is A / 60 (Sx^2 Sy + 2 Sx Sxy + Sy Sxx + 2 Sxxy), with Sxy the sum of x y over the corners. */
CT_FN void ct_add_triangle_moments(const ct_moment_triangle *t, double weight, double sum[CT_MOMENTS]) {
    double r[3][3], total[3];
    for (int k = 0; k < 3; k++) {
        r[0][k] = t->corner[k];
        r[1][k] = t->corner[k] + t->u[k];
        r[2][k] = t->corner[k] + t->v[k];
        total[k] = r[0][k] + r[1][k] + r[2][k];
    }
    for (int k = 0; k < 3; k++) {
        const int l = (k + 1) % 3;
        double xx = 0, xy = 0, xxx = 0, xxy = 0;
        for (int i = 0; i < 3; i++) {
            const double x = r[i][k], y = r[i][l];
            xx += x * x;
            xy += x * y;
            xxx += x * x * x;
            xxy += x * x * y;
        }
        const double n = weight * t->normal[k] * (1.0 / 120);
        sum[k] += n * (total[k] * total[k] * total[k] + 3 * total[k] * xx + 2 * xxx) / 3;
        sum[3 + k] += n * (total[k] * total[k] * total[l] + 2 * total[k] * xy + total[l] * xx + 2 * xxy) / 2;
    }
}

/* Adds a segment p -> q of the triangle, in barycentric coordinates, times weight. */
CT_FN void ct_add_segment_moments(const ct_moment_triangle *t, const double p[2], const double q[2], double weight,
                                  double sum[CT_MOMENTS]) {
    const double near_end = (1 - sqrt(0.6)) / 2, at[3] = {near_end, 0.5, 1 - near_end};
    const double part[3] = {5.0 / 18, 8.0 / 18, 5.0 / 18}, inner = (1 - sqrt(1.0 / 3)) / 2;
    for (int i = 0; i < 3; i++) {
        const double x = p[0] + at[i] * (q[0] - p[0]), y = p[1] + at[i] * (q[1] - p[1]);
        for (int j = 0; j < 2; j++) {
            const double within = x * (j ? 1 - inner : inner), w = weight * (q[1] - p[1]) * part[i] * (x / 2);
            double r[3];
            for (int k = 0; k < 3; k++) r[k] = t->corner[k] + within * t->u[k] + y * t->v[k];
            for (int k = 0; k < 3; k++) {
                const double square = w * t->normal[k] * r[k] * r[k];
                sum[k] += square * r[k] / 3;
                sum[3 + k] += square * r[(k + 1) % 3] / 2;
            }
        }
    }
}

/* Of the edge 1 -> 2 from y = a on, where w is higher by `jump`. */
CT_FN void ct_add_edge_moments(const ct_moment_triangle *t, double a, double jump, double sum[CT_MOMENTS]) {
    const double p[2] = {1 - a, a}, q[2] = {0, 1};
    ct_add_segment_moments(t, p, q, jump, sum);
}

#endif

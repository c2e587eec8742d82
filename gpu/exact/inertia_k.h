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

/* triangle.h - the place of a triangle that is nearest to a point. */
#ifndef CT_TRIANGLE_H
#define CT_TRIANGLE_H

#include <math.h>
#include <string.h>

#include "gpu/base/vec.h"

static inline double ct_square_between(const double a[3], const double b[3]) {
    double between[3];
    ct_sub3(a, b, between);
    return ct_dot3(between, between);
}

static inline double ct_nearest_of_edge(const double a[3], const double b[3], const double p[3], double out[3]) {
    double ab[3], ap[3];
    ct_sub3(b, a, ab);
    ct_sub3(p, a, ap);
    const double size = ct_dot3(ab, ab);
    const double t = size > 0 ? fmin(fmax(ct_dot3(ab, ap) / size, 0), 1) : 0;
    for (int k = 0; k < 3; k++) out[k] = a[k] + t * ab[k];
    return ct_square_between(p, out);
}

/* The square of the distance of p from the triangle, which may be degenerate; out, which may be NULL: the nearest place. */
static inline double ct_nearest_of_triangle(const double *const corner[3], const double p[3], double *out) {
    double e[2][3], n[3], ap[3], q[3];
    ct_sub3(corner[1], corner[0], e[0]);
    ct_sub3(corner[2], corner[0], e[1]);
    ct_sub3(p, corner[0], ap);
    ct_cross3(e[0], e[1], n);
    const double size = ct_dot3(n, n);
    if (size > 0) { /* the foot of the normal through p, if it is in the triangle */
        ct_cross3(ap, e[1], q);
        const double s = ct_dot3(n, q) / size;
        ct_cross3(e[0], ap, q);
        const double t = ct_dot3(n, q) / size;
        if (s >= 0 && t >= 0 && s + t <= 1) {
            const double height = ct_dot3(n, ap);
            for (int k = 0; k < 3 && out; k++) out[k] = p[k] - height / size * n[k];
            return height * height / size;
        }
    }
    double best = INFINITY;
    for (int i = 0; i < 3; i++) {
        const double square = ct_nearest_of_edge(corner[i], corner[(i + 1) % 3], p, q);
        if (!(square < best)) continue;
        best = square;
        if (out) memcpy(out, q, sizeof q);
    }
    return best;
}

#endif

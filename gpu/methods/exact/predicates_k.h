/* predicates_k.h - signs of determinants on lattice points, exact and without ties; and the exact ray that is made of
 * them.
 *
 * Points have integer coordinates below 2^39 in size (lattice_k.h). A determinant is first computed in doubles, with a
 * bound of its rounding; where that does not tell the sign, in 128-bit integers.
 *
 * Ties are broken by symbolic perturbation: one of the two bodies moves as a whole by an infinitesimal (e, e^2, e^3),
 * so the sign of a determinant that is zero is that of the first non-zero coefficient of e, e^2, e^3. All predicates of
 * a pair of bodies are then those of two bodies in general position. So every two triangles that cross do so in one
 * segment with one start and one end, also where faces coincide, edges meet edges or vertices meet faces. Parallel
 * edges and triangles without area have no sign, and 0 is returned, but the sign is never needed: nothing can pierce
 * them.
 */
#ifndef CT_EXACT_PREDICATES_K_H
#define CT_EXACT_PREDICATES_K_H

#include <math.h>

#include "gpu/base/kernel.h"
#include "gpu/methods/exact/lattice_k.h"

/* Bounds the rounding of a determinant computed as below, as a part of the sum of its terms' sizes: differences of
 * coordinates are exact, and at most eight roundings of 2^-53 follow one another; doubled for the rounding of the bound
 * itself. */
#define CT_FILTER 0x1p-49

typedef __int128 ct_int128;

CT_FN int ct_sign_of(ct_int128 x) {
    return (x > 0) - (x < 0);
}

/* Differences of two lattice points. */
typedef struct ct_int3 {
    int64_t x, y, z;
} ct_int3;

CT_FN ct_int3 ct_int3_between(const double *from, const double *to) {
    ct_int3 d;
    d.x = (int64_t)(to[0] - from[0]);
    d.y = (int64_t)(to[1] - from[1]);
    d.z = (int64_t)(to[2] - from[2]);
    return d;
}

/* Sign of the cross product's first component that is not 0: its sign along (e, e^2, e^3). */
CT_FN int ct_perturbed_cross_sign(ct_int3 a, ct_int3 b) {
    int sign = ct_sign_of((ct_int128)a.y * b.z - (ct_int128)a.z * b.y);
    if (!sign) sign = ct_sign_of((ct_int128)a.z * b.x - (ct_int128)a.x * b.z);
    if (!sign) sign = ct_sign_of((ct_int128)a.x * b.y - (ct_int128)a.y * b.x);
    return sign;
}

/* det(b - a, c - a, d - a) as an integer. */
CT_FN ct_int128 ct_orientation(const double *a, const double *b, const double *c, const double *d) {
    const ct_int3 u = ct_int3_between(a, b), v = ct_int3_between(a, c), w = ct_int3_between(a, d);
    return u.x * ((ct_int128)v.y * w.z - (ct_int128)v.z * w.y) + u.y * ((ct_int128)v.z * w.x - (ct_int128)v.x * w.z) +
           u.z * ((ct_int128)v.x * w.y - (ct_int128)v.y * w.x);
}

/* Nearest below 2^53, else within 2^-52 of itself; written out because not every compiler converts an __int128 on a
 * device. */
CT_FN double ct_int128_to_double(ct_int128 x) {
    const unsigned __int128 size = x < 0 ? -(unsigned __int128)x : (unsigned __int128)x;
    const double value = (double)(uint64_t)(size >> 64) * 18446744073709551616.0 + (double)(uint64_t)size;
    return x < 0 ? -value : value;
}

/* A determinant with its sign. */
typedef struct ct_signed_value {
    double value; /* of the points as they are: 0, or of the sign's sign */
    double error; /* bounds its rounding */
    int sign;     /* -1, 1; 0 only where it is never needed */
    int is_tie;   /* the sign is that of the perturbation */
} ct_signed_value;

/* A determinant that is 0, with the sign of its perturbation. */
CT_FN ct_signed_value ct_tie(int sign) {
    ct_signed_value s;
    s.value = s.error = 0;
    s.sign = sign;
    s.is_tie = 1;
    return s;
}

CT_FN ct_signed_value ct_signed_det(ct_int128 det) {
    ct_signed_value s;
    s.value = ct_int128_to_double(det);
    s.error = fabs(s.value) * 0x1p-51;
    s.sign = ct_sign_of(det);
    s.is_tie = 0;
    return s;
}

/* ct_exact_side of a point on the plane. */
CT_FN ct_signed_value ct_tied_side(const double *u0, const double *u1, const double *u2, int moved) {
    return ct_tie(moved * ct_perturbed_cross_sign(ct_int3_between(u0, u1), ct_int3_between(u0, u2)));
}

/* Side of point p of the plane through u0, u1, u2: positive on the side to which the triangle's normal points.
 * moved: +1 if p belongs to the body that is perturbed, -1 if the triangle does. */
CT_FN ct_signed_value ct_exact_side(const double *p, const double *u0, const double *u1, const double *u2, int moved) {
    const ct_int128 det = ct_orientation(u0, u1, u2, p);
    return det ? ct_signed_det(det) : ct_tied_side(u0, u1, u2, moved);
}

/* ct_exact_edges of edges on one plane. */
CT_FN ct_signed_value ct_tied_edges(const double *a0, const double *a1, const double *b0, const double *b1, int moved) {
    return ct_tie(-moved * ct_perturbed_cross_sign(ct_int3_between(a0, a1), ct_int3_between(b0, b1)));
}

/* Orientation of edge a0 a1 to edge b0 b1: det(a1 - a0, b0 - a0, b1 - a0). Swapping the edges changes nothing. moved:
 * +1 if edge b belongs to the body that is perturbed, -1 if edge a does. */
CT_FN ct_signed_value ct_exact_edges(const double *a0, const double *a1, const double *b0, const double *b1,
                                     int moved) {
    const ct_int128 det = ct_orientation(a0, a1, b0, b1);
    return det ? ct_signed_det(det) : ct_tied_edges(a0, a1, b0, b1, moved);
}

/* ---- in doubles, with a filter ---- */

/* A cross product, and the sums of its terms' sizes. */
typedef struct ct_normal {
    double of[3], size[3];
} ct_normal;

CT_FN ct_normal ct_normal_of(const double *a, const double *b) {
    ct_normal n;
    for (int k = 0; k < 3; k++) {
        const int i = (k + 1) % 3, j = (k + 2) % 3;
        const double p = a[i] * b[j], q = a[j] * b[i];
        n.of[k] = p - q;
        n.size[k] = fabs(p) + fabs(q);
    }
    return n;
}

/* ---- a ray ---- */

/* One exact ray along an axis counts how often a point lies inside a body. Any axis gives the same count: the
 * perturbation moves a body as a whole, whatever a ray meets. */

/* Whether the triangle's box, without rounding, has the ray from p along +x in it. */
CT_FN int ct_ray_may_hit(const double *const q[3], const double *p) {
    if (q[0][0] < p[0] && q[1][0] < p[0] && q[2][0] < p[0]) return 0;
    for (int k = 1; k < 3; k++) {
        if (q[0][k] < p[k] && q[1][k] < p[k] && q[2][k] < p[k]) return 0;
        if (q[0][k] > p[k] && q[1][k] > p[k] && q[2][k] > p[k]) return 0;
    }
    return 1;
}

/* +1: the ray from p to far leaves the body through this triangle; -1: it enters; 0: it misses. far: p but for one
 * coordinate, which is CT_LATTICE_LIMIT or -CT_LATTICE_LIMIT. moved: +1 if the triangle's body is perturbed, -1 if p's
 * is. */
CT_FN int ct_ray_hit_towards(const double *p, const double *far, const double *const q[3], int moved) {
    const int from = ct_exact_side(p, q[0], q[1], q[2], -moved).sign;
    const int to = ct_exact_side(far, q[0], q[1], q[2], -moved).sign;
    if (from == to) return 0;
    int sign[3];
    for (int k = 0; k < 3; k++) sign[k] = ct_exact_edges(p, far, q[k], q[(k + 1) % 3], moved).sign;
    return sign[0] == sign[1] && sign[1] == sign[2] ? to : 0;
}

/* The same along +x. */
CT_FN int ct_ray_hit(const double *p, const double *const q[3], int moved) {
    const double far[3] = {CT_LATTICE_LIMIT, p[1], p[2]};
    return ct_ray_hit_towards(p, far, q, moved);
}

#endif

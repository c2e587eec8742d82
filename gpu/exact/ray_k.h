/* ray_k.h - one exact ray along an axis, which counts how often a point lies inside a body. Any axis gives the same
 * count: the perturbation moves a body as a whole, whatever a ray meets. */
#ifndef CT_EXACT_RAY_K_H
#define CT_EXACT_RAY_K_H

#include "gpu/exact/lattice_k.h"
#include "gpu/exact/predicates_k.h"

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

/* hessian_k.h - the product of the volume's exact second derivative with a direction, for the method `exact`.
 *
 * The gradient at vertex k is the sum over its triangles t of N_t I_k, N_t the cross product of two sides and I_k the
 * integral of w lambda_k over t in barycentric coordinates (segment_k.h). Along a direction d of all vertices
 *
 *     (H d)_k = sum over t of dN_t I_k  +  sum over t of N_t dI_k.
 *
 * The barycentric domain stays; only the segments in it move. With f = N_u . (p - u_0), negative on the other
 * triangle's inner side, a segment moves outwards by -df / |grad f|; at a point that is p on t and q on u
 * df = N_u . (dp - dq). Integrated along the segment, of length L in space,
 *
 *     dI_k = c * integral over 0..1 of lambda_k N_u . (dq - dp) ds,     c = L / |N_t x N_u|.
 *
 *              dq           The block between a vertex of t and one of u is c * (integral of lambda_k mu_l) N_t N_u^T,
 *       u  \   ->           the transpose of the block between u and t. So H is symmetric, to rounding; and a common
 *     ______\_____ t        translation of both bodies has dq = dp and dN = 0, so H d is 0.
 *            \
 */
#ifndef CT_EXACT_HESSIAN_K_H
#define CT_EXACT_HESSIAN_K_H

#include "gpu/exact/recross_k.h"

/* How a point of a rigid body moves along a twist about its origin. point: units; arm: m, from the body's origin to the
 * lattice's; out: m. */
CT_FN void ct_find_rigid_motion(const double twist[6], const double *point, double unit, const double arm[3],
                                double out[3]) {
    double from_origin[3];
    for (int i = 0; i < 3; i++) from_origin[i] = point[i] * unit + arm[i];
    ct_cross_product(twist + 3, from_origin, out);
    for (int i = 0; i < 3; i++) out[i] += twist[i];
}

/* How a triangle's normal u x v changes. u, v: sides from corner 0, units; d: motions of the corners, m. In units * m.
 */
CT_FN void ct_turn_normal(const double u[3], const double v[3], const double d[3][3], double out[3]) {
    double du[3], dv[3], a[3], b[3];
    for (int k = 0; k < 3; k++) {
        du[k] = d[1][k] - d[0][k];
        dv[k] = d[2][k] - d[0][k];
    }
    ct_cross_product(du, v, a);
    ct_cross_product(u, dv, b);
    for (int k = 0; k < 3; k++) out[k] = a[k] + b[k];
}

/* Adds, to the products at the corners of triangle `own`, what its segment's motion adds. d: of the corners of both
 * triangles, m. */
CT_FN void ct_add_moved_segment(const ct_recrossing *r, const double own[3][3], const double other[3][3],
                                double out[3][3]) {
    double lambda[2][3], motion[2];
    for (int s = 0; s < 2; s++) {
        const double mu[3] = {1 - r->other[s][0] - r->other[s][1], r->other[s][0], r->other[s][1]};
        lambda[s][0] = 1 - r->own[s][0] - r->own[s][1];
        lambda[s][1] = r->own[s][0];
        lambda[s][2] = r->own[s][1];
        motion[s] = 0;
        for (int k = 0; k < 3; k++) {
            const double dq = mu[0] * other[0][k] + mu[1] * other[1][k] + mu[2] * other[2][k];
            const double dp = lambda[s][0] * own[0][k] + lambda[s][1] * own[1][k] + lambda[s][2] * own[2][k];
            motion[s] += r->normal_other[k] * (dq - dp);
        }
    }
    for (int c = 0; c < 3; c++) { /* both factors are linear along the segment */
        const double integral =
            (lambda[0][c] * (2 * motion[0] + motion[1]) + lambda[1][c] * (motion[0] + 2 * motion[1])) / 6;
        for (int k = 0; k < 3; k++) out[c][k] += r->normal_own[k] * (integral * r->spread);
    }
}

#endif

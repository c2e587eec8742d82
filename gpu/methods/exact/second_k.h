/* second_k.h - what a contact of the method `exact` has on request: products with the volume's exact second derivative,
 * and the inertia of the intersection. */
#ifndef CT_EXACT_SECOND_K_H
#define CT_EXACT_SECOND_K_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/include/contact.h"
#include "gpu/methods/exact/segment_k.h"

/* ---- products with the second derivative ---- */

/* The gradient at vertex k is the sum over its triangles t of N_t I_k, N_t the cross product of two sides and I_k the
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

/* Of a triangle's corners, at a place in barycentric coordinates (lambda_1, lambda_2). */
CT_FN void ct_find_weights(const double at[2], double weights[3]) {
    weights[0] = 1 - at[0] - at[1];
    weights[1] = at[0];
    weights[2] = at[1];
}

/* Adds, to the products at the corners of triangle `own`, what its segment's motion adds. d: of the corners of both
 * triangles, m. second_cpu.simd.c does the same, operation by operation, for several directions at once. */
CT_FN void ct_add_moved_segment(const ct_recrossing *r, const double own[3][3], const double other[3][3],
                                double out[3][3]) {
    double lambda[2][3], motion[2];
    for (int s = 0; s < 2; s++) {
        double mu[3];
        ct_find_weights(r->own[s], lambda[s]);
        ct_find_weights(r->other[s], mu);
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

/* ---- inertia ---- */

/* Second moments of the intersection.
 *
 * By the divergence theorem they are integrals over the parts of both surfaces inside the other body:
 * x^2 dV -> n_x x^3 / 3 dA, x y dV -> n_x x^2 y / 2 dA, and so on. On a triangle coordinates are linear in the barycentric
 * lambda_1 and lambda_2, so that ten integrals of w lambda_1^a lambda_2^b tell all of degree 3. By Green's theorem these
 * are sums over segments (segment_k.h), of lambda_1^(a + 1) / (a + 1) lambda_2^b d lambda_2, for which Gauss's rule with
 * three points is exact.
 *
 * Beside them, for laws of contact (gpu/after/law.c), the first and second moments of each side's surface: integrals of
 * r_i n_j dA and r_i r_k n_j dA, which tell the force and torque of any pressure that is linear in space.
 */

/* Of a cluster: the second moments xx, yy, zz, xy, yz, zx; the surface's first ones, [i][j]; and its second ones, [xx ..
 * zx][j]. */
enum { CT_MOMENTS = 33, CT_SURFACE_FIRST = 6, CT_SURFACE_SECOND = 15 };

/* A triangle whose corners count from the point about which moments are taken, in units. */
typedef struct ct_moment_triangle {
    double corner[3], u[3], v[3], normal[3]; /* corner 0, the sides to corners 1 and 2, u x v */
} ct_moment_triangle;

/* Integrals of w x^a y^b over a triangle, x = lambda_1, y = lambda_2: of 1, x, y, xx, xy, yy, xxx, xxy, xyy, yyy. */
enum { CT_MONOMIALS = 10 };

/* Of the whole triangle. */
CT_FN void ct_whole_monomials(double w, double m[CT_MONOMIALS]) {
    m[0] = w / 2;
    m[1] = m[2] = w / 6;
    m[3] = m[5] = w / 12;
    m[4] = w / 24;
    m[6] = m[9] = w / 20;
    m[7] = m[8] = w / 60;
}

/* Adds a segment p -> q of the triangle, in barycentric coordinates, times weight. */
CT_FN void ct_add_segment_monomials(const double p[2], const double q[2], double weight, double m[CT_MONOMIALS]) {
    const double at[3] = {0.1127016653792583, 0.5, 0.8872983346207417}, part[3] = {5.0 / 18, 8.0 / 18, 5.0 / 18};
    for (int i = 0; i < 3; i++) {
        const double x = p[0] + at[i] * (q[0] - p[0]), y = p[1] + at[i] * (q[1] - p[1]);
        const double a = weight * (q[1] - p[1]) * part[i] * x, b = a * x * 0.5, c = a * x * x * (1.0 / 3);
        m[0] += a;
        m[1] += b;
        m[2] += a * y;
        m[3] += c;
        m[4] += b * y;
        m[5] += a * y * y;
        m[6] += b * x * x * 0.5;
        m[7] += c * y;
        m[8] += b * y * y;
        m[9] += a * y * y * y;
    }
}

/* Of the edge 1 -> 2 from y = a on, where w is higher by `jump`. */
CT_FN void ct_add_edge_monomials(double a, double jump, double m[CT_MONOMIALS]) {
    const double p[2] = {1 - a, a}, q[2] = {0, 1};
    ct_add_segment_monomials(p, q, jump, m);
}

/* Adds a triangle's part of the moments. exact_cpu.simd.c does the same, operation by operation, three axes at once. */
CT_FN void ct_add_moments(const ct_moment_triangle *t, const double m[CT_MONOMIALS], double sum[CT_MOMENTS]) {
    double one[3], x[3], y[3], square[3], mixed[3]; /* integrals of r_k, x r_k, y r_k, r_k r_k, r_k r_l */
    for (int k = 0; k < 3; k++) {
        const double c = t->corner[k], u = t->u[k], v = t->v[k];
        one[k] = c * m[0] + u * m[1] + v * m[2];
        x[k] = c * m[1] + u * m[3] + v * m[4];
        y[k] = c * m[2] + u * m[4] + v * m[5];
    }
    for (int k = 0; k < 3; k++) {
        const int l = (k + 1) % 3;
        const double c = t->corner[k], u = t->u[k], v = t->v[k];
        const double xx = c * m[3] + u * m[6] + v * m[7], xy = c * m[4] + u * m[7] + v * m[8],
                     yy = c * m[5] + u * m[8] + v * m[9];
        const double x_square = c * x[k] + u * xx + v * xy, y_square = c * y[k] + u * xy + v * yy;
        square[k] = c * one[k] + u * x[k] + v * y[k];
        mixed[k] = t->corner[l] * one[k] + t->u[l] * x[k] + t->v[l] * y[k];
        sum[k] += t->normal[k] * (c * square[k] + u * x_square + v * y_square) * (1.0 / 3);
        sum[3 + k] += t->normal[k] * (t->corner[l] * square[k] + t->u[l] * x_square + t->v[l] * y_square) * 0.5;
    }
    for (int k = 0; k < 3; k++)
        for (int j = 0; j < 3; j++) {
            sum[CT_SURFACE_FIRST + 3 * k + j] += one[k] * t->normal[j];
            sum[CT_SURFACE_SECOND + 3 * k + j] += square[k] * t->normal[j];
            sum[CT_SURFACE_SECOND + 9 + 3 * k + j] += mixed[k] * t->normal[j];
        }
}

/* ---- from clusters to contacts ---- */

/* Products are merged at vertices, moments added up. For every backend: sums are added in the order of clusters, so the
 * bits are the same wherever the clusters were summed. */

/* The sums of a cluster that is inside the other body, or crossed, in one pass; K directions. */
typedef struct ct_second_cluster {
    const uint32_t *vertices; /* [n_vertices] the mesh's */
    uint32_t n_vertices;
    double *products;       /* [n_vertices][K][3], units * m */
    double (*forces)[2][3]; /* [K] the sum of its products; and of arm x product + motion x gradient, units^2 * m */
    double *moments;        /* [CT_MOMENTS] units^5, units^3 and units^4, about the contact's centre */
} ct_second_cluster;

typedef struct ct_second_pair {
    const ct_second_cluster *clusters[2][2]; /* by body and pass, in rising order of clusters */
    uint32_t n_clusters[2][2];
    int n_passes;
    uint32_t n_directions;
    double unit;      /* m */
    double arm[2][3]; /* m: from a body's origin to the lattice's */
} ct_second_pair;

#ifdef __cplusplus
extern "C" {
#endif

/* Sets the contact's inertia, linear_pressure and plane_moments. After its frame. */
void ct_second_moments(const ct_second_pair *pair, ct_contact *contact);

/* Numbers the vertices of body b's clusters from 1 on, in rising order; row_of: [n_vertices], zero before, and where a
 * vertex is in no cluster. Returns how many there are. */
uint32_t ct_second_number_rows(const ct_second_pair *pair, int b, uint32_t n_vertices, uint32_t *row_of);

/* Adds up body b's clusters at their vertices, and drops vertices whose products are all 0. sums: [rows][K][3] for each
 * pass, zero before. Afterwards values[], which may be sums[0] and have as many rows, has the products of the vertices
 * that are left, m^2, and vertices[] lists them, in rising order. Returns how many there are. */
uint32_t ct_second_merge(const ct_second_pair *pair, int b, uint32_t n_vertices, const uint32_t *row_of,
                         double *const sums[2], uint32_t *vertices, double *values);

/* The derivative of body b's generalized gradient along direction k. */
void ct_second_generalized(const ct_second_pair *pair, int b, uint32_t k, double out[6]);

#ifdef __cplusplus
}
#endif

#endif

/* sides_k.h - the two sides of a contact of a body with itself: which of its vertices are part 0, and which are part 1.
 *
 * The gradient of such a contact sums to 0 over the body, so a normal needs the two surfaces that bound the overlap:
 *
 *        ___________________                    a piece: vertices with a gradient that
 *       |   arm    |xxxxxxx|_______             edges connect; here one on the arm's end,
 *       |__________|xxxxxxx| torso              one on the torso's flank
 *                  |_______________
 *
 * Each piece has a force, the sum of its vertices' gradients. The axis along which the forces are largest divides the
 * pieces in two: a piece whose force points along the axis is part 1, any other part 0. So the normal, which pushes
 * part 0, points along the axis as well. Of the axis's two directions, the normal's largest component is positive in
 * one.
 *
 * If no piece has a force, there is one surface: a fold whose two sides meet at its crease, or a closed surface inside
 * another. A fold's surface goes on beyond the overlap: then each vertex is a piece of its own. A closed surface has no
 * side: all of it is part 0, and the contact has no normal.
 *
 * Sums are over integers, so the order of vertices and triangles does not change a bit of them.
 */
#ifndef CT_SIDES_K_H
#define CT_SIDES_K_H

#include "gpu/contact/frame_k.h"

/* Sums of products of the forces' components, in units of 1 / scale^2: xx, yy, zz, xy, yz, zx. */
typedef struct ct_force_products {
    ct_wide of[6];
} ct_force_products;

/* Units per m^2 with which products are added up, where no component of a force exceeds `largest` > 0. Products of 30
 * bits leave room for 2^66 of them. */
CT_FN double ct_product_scale(double largest) {
    return ldexp(1.0, 30) / largest;
}

CT_FN void ct_force_products_add(ct_force_products *sum, double scale, const double force[3]) {
    int64_t q[3];
    for (int i = 0; i < 3; i++) q[i] = llrint(force[i] * scale);
    for (int i = 0; i < 3; i++) {
        sum->of[i] += (ct_wide)q[i] * q[i];
        sum->of[3 + i] += (ct_wide)q[i] * q[(i + 1) % 3];
    }
}

/* The direction in which the forces are largest: the eigenvector of the largest eigenvalue of the matrix of products.
 * Squared 24 times, the matrix has no other left that is smaller by more than a millionth. Returns 0 if all products
 * are 0. */
CT_FN int ct_force_axis(const ct_force_products *sum, double axis[3]) {
    double m[3][3];
    for (int i = 0; i < 3; i++) {
        const int j = (i + 1) % 3;
        m[i][i] = ct_wide_to_double(sum->of[i]);
        m[i][j] = m[j][i] = ct_wide_to_double(sum->of[3 + i]);
    }
    if (!(m[0][0] + m[1][1] + m[2][2] > 0)) return 0;
    for (int round = 0; round < 24; round++) {
        const double scale = 1 / (m[0][0] + m[1][1] + m[2][2]);
        double squared[3][3];
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++) {
                squared[i][j] = 0;
                for (int k = 0; k < 3; k++) squared[i][j] += m[i][k] * scale * (m[k][j] * scale);
            }
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++) m[i][j] = squared[i][j];
    }
    int largest = 0;
    for (int i = 1; i < 3; i++)
        if (m[i][i] > m[largest][largest]) largest = i;
    for (int i = 0; i < 3; i++) axis[i] = m[i][largest];
    return 1;
}

/* The part, 0 or 1, of a piece with this force. */
CT_FN int ct_side_of(const double axis[3], const double force[3]) {
    return axis[0] * force[0] + axis[1] * force[1] + axis[2] * force[2] > 0;
}

#endif

/* half_space_k.h - the box of a half-space, and the block that stands for it in a pair of bodies: the mesh of every
 * half-space, the box from (-1, -1, -1) to (1, 1, 0) (scene/half_space.h), posed and scaled. */
#ifndef CT_HALF_SPACE_K_H
#define CT_HALF_SPACE_K_H

#include <math.h>

#include "gpu/base/box.h"
#include "gpu/base/kernel.h"
#include "gpu/include/contact.h"

/* The box of a half-space with this pose; -+ CT_ENDLESS where it has no end. */
CT_FN void ct_half_space_box(const double pose[12], ct_box *box) {
    const double n[3] = {pose[2], pose[6], pose[10]};
    for (int k = 0; k < 3; k++) {
        box->lo[k] = -CT_ENDLESS;
        box->hi[k] = CT_ENDLESS;
        if (n[(k + 1) % 3] != 0 || n[(k + 2) % 3] != 0 || pose[4 * k] != 0 || pose[4 * k + 1] != 0) continue;
        if (n[k] > 0) /* the plane is perpendicular to this axis */
            box->hi[k] = pose[4 * k + 3] + 0.0;
        else
            box->lo[k] = pose[4 * k + 3] + 0.0;
    }
}

/* Solves R x = p for the R of a pose, which is a rotation to 1e-3 only. */
CT_FN void ct_solve_rotation(const double pose[12], const double p[3], double x[3]) {
    double c[3][3], cross[3][3], det = 0; /* columns */
    for (int j = 0; j < 3; j++)
        for (int k = 0; k < 3; k++) c[j][k] = pose[4 * k + j];
    for (int j = 0; j < 3; j++)
        for (int k = 0; k < 3; k++) {
            const double *a = c[(j + 1) % 3], *b = c[(j + 2) % 3];
            cross[j][k] = a[(k + 1) % 3] * b[(k + 2) % 3] - a[(k + 2) % 3] * b[(k + 1) % 3];
        }
    for (int k = 0; k < 3; k++) det += c[0][k] * cross[0][k];
    for (int j = 0; j < 3; j++) x[j] = (cross[j][0] * p[0] + cross[j][1] * p[1] + cross[j][2] * p[2]) / det;
}

/* m: bounds the rounding of a box's distance from the plane. middle: of the box, from the pose's origin. */
CT_FN double ct_half_space_blur(const double pose[12], const double middle[3]) {
    double reach = 0;
    for (int k = 0; k < 3; k++) reach = fmax(reach, fmax(fabs(pose[4 * k + 3]), fabs(middle[k])));
    return 0x1p-49 * reach;
}

/* A plane whose place is not known to this part of the other body's size cuts that body nowhere in particular. It
 * matters only if it may cut the body: a body wholly inside needs no plane, and one wholly outside has no contact. */
#define CT_MOST_BLUR 0x1p-12

/* The block for a box that lies wholly inside, from the box alone: its top is out of reach too. size: the sum of the
 * box's sides. */
CT_FN void ct_half_space_block_inside(const double pose[12], const ct_box *other, double size, double block[12],
                                      double *rounding) {
    int exponent;
    frexp(size, &exponent);
    const double bit = ldexp(1.0, exponent - 7), step = ldexp(1.0, exponent - 20); /* as in ct_half_space_block */
    const double scale = ceil(1.1 * size / bit) * bit, top = nearbyint(0.55 * size / step) * step;
    double reach = size;
    for (int k = 0; k < 3; k++) {
        const double middle = 0.5 * (other->lo[k] + other->hi[k]);
        for (int j = 0; j < 3; j++) block[4 * k + j] = pose[4 * k + j] * scale;
        block[4 * k + 3] = nearbyint(middle / step) * step + pose[4 * k + 2] * top;
        reach = fmax(reach, fabs(block[4 * k + 3]));
    }
    *rounding = 0x1p-49 * reach;
}

/* A block of the half-space, which stands for it wherever the box `other` is: the pose, scaled, that takes the mesh
 * there. Its top lies in the plane, unless `other` is far below it; its sides and its bottom are out of reach.
 * *rounding: m, bounds how far rounding moves it; endless if doubles do not tell where the plane is beside the box,
 * whose block is then not set. 0: the box lies above the plane. */
CT_FN int ct_half_space_block(const double pose[12], const ct_box *other, double block[12], double *rounding) {
    double middle[3], at[3], size = 0;
    for (int k = 0; k < 3; k++) {
        middle[k] = 0.5 * (other->lo[k] + other->hi[k]) - pose[4 * k + 3];
        size += other->hi[k] - other->lo[k]; /* the box's diagonal is shorter */
    }
    if (size == 0) return 0; /* a point */
    ct_solve_rotation(pose, middle, at);
    const double blur = ct_half_space_blur(pose, middle);
    const int is_vague = blur > CT_MOST_BLUR * size;
    if (is_vague && at[2] < -(0.55 * size + 4 * blur)) {
        ct_half_space_block_inside(pose, other, size, block, rounding);
        return 1;
    }
    if (is_vague && at[2] <= size + 4 * blur) {
        *rounding = INFINITY;
        return 1;
    }
    if (at[2] > size) return 0;
    /* The other box reaches half of the size from its middle at most, so from there 0.55 are out of its reach, and 1.1
     * from the top if that is 0.55 above it. Few bits, so that a block along the axes has exact coordinates. */
    int exponent;
    frexp(size, &exponent);
    const double bit = ldexp(1.0, exponent - 7), step = ldexp(1.0, exponent - 20);
    const double scale = ceil(1.1 * size / bit) * bit;
    for (int k = 0; k < 2; k++) at[k] = nearbyint(at[k] / step) * step;
    at[2] = at[2] < -0.55 * size ? nearbyint((at[2] + 0.55 * size) / step) * step : 0;
    double reach = 0;
    for (int k = 0; k < 3; k++) {
        const double *row = pose + 4 * k;
        double moved = row[3];
        reach = fmax(reach, fabs(row[3]));
        for (int j = 0; j < 3; j++) {
            block[4 * k + j] = row[j] * scale;
            if (at[j] != 0) moved += row[j] * at[j];
            reach = fmax(reach, fabs(at[j]));
        }
        block[4 * k + 3] = moved;
    }
    *rounding = 0x1p-49 * reach;
    return 1;
}

/* The boxes of a pair of bodies, and the blocks of those that are half-spaces. */
typedef struct ct_pair_placement {
    ct_box box[2];       /* of a half-space: of its block */
    double block[2][12]; /* of a half-space: its pose, scaled */
    double rounding[2];  /* m, of the block's place; 0 of other bodies */
    double foot[3];      /* m: the middle of the block's top, which is below or above the other body's middle */
    int has_foot;        /* one of the bodies is a half-space */
    int is_too_far;      /* doubles do not tell where a plane is beside the other body: the pair is refused */
} ct_pair_placement;

/* pose[k], box[k]: of body k. 0: they have no contact: one lies above the other one's plane, or both are half-spaces.
 */
CT_FN int ct_place_pair(const double *const pose[2], const ct_box *const box[2], const int is_half_space[2],
                        ct_pair_placement *out) {
    out->is_too_far = out->has_foot = 0;
    if (is_half_space[0] && is_half_space[1]) return 0;
    for (int b = 0; b < 2; b++) {
        out->box[b] = *box[b];
        out->rounding[b] = 0;
        if (!is_half_space[b]) continue;
        if (!ct_half_space_block(pose[b], box[1 - b], out->block[b], &out->rounding[b])) return 0;
        if (out->rounding[b] > CT_ENDLESS) {
            out->is_too_far = 1;
            return 1;
        }
        out->has_foot = 1;
        for (int k = 0; k < 3; k++) {
            const double *row = out->block[b] + 4 * k, across = fabs(row[0]) + fabs(row[1]);
            out->foot[k] = row[3];
            out->box[b].lo[k] = row[3] - across - fmax(row[2], 0.0);
            out->box[b].hi[k] = row[3] + across - fmin(row[2], 0.0);
        }
    }
    return 1;
}

#endif

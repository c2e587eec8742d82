/* lattice_k.h - the integer lattice on which the method `exact` places a pair of bodies.
 *
 * Coordinates are integers below 2^39 in size, kept in doubles, which hold them exactly. Differences of two are below
 * 2^40, so products of three, as orientation predicates have them, fit in 128-bit integers. The unit is a power of two,
 * so positions in float32 of deformable bodies are lattice points wherever their last bit is at least a unit; a
 * position between lattice points is moved by half a unit at most along each axis. The origin lies near the contact,
 * where coordinates are small.
 */
#ifndef CT_EXACT_LATTICE_K_H
#define CT_EXACT_LATTICE_K_H

#include <math.h>

#include "gpu/base/box.h"
#include "gpu/base/kernel.h"

#define CT_LATTICE_LIMIT 549755813888.0 /* 2^39 */

typedef struct ct_exact_lattice {
    double origin[3];     /* m, world; a multiple of unit */
    double unit, inverse; /* m, a power of two; 1 / unit */
} ct_exact_lattice;

/* Along each axis, the overlap of two boxes lies in the middle of the lattice. Swapping the boxes changes no bit. */
CT_FN ct_exact_lattice ct_plan_exact_lattice(const ct_box *a, const ct_box *b) {
    ct_exact_lattice lattice;
    double size = 0, middle[3];
    for (int k = 0; k < 3; k++) {
        middle[k] = 0.5 * (fmax(a->lo[k], b->lo[k]) + fmin(a->hi[k], b->hi[k]));
        size = fmax(size, fmax(fmax(a->hi[k], b->hi[k]) - middle[k], middle[k] - fmin(a->lo[k], b->lo[k])));
    }
    int exponent;
    frexp(size, &exponent); /* size < 2^exponent; one bit to spare for the rounding of the boxes and the origin */
    lattice.unit = ldexp(1.0, exponent - 38);
    lattice.inverse = ldexp(1.0, 38 - exponent);
    for (int k = 0; k < 3; k++) {
        const double steps = middle[k] * lattice.inverse;
        /* Beyond 2^52 every double is an integer. */
        lattice.origin[k] = fabs(steps) < 4503599627370496.0 ? nearbyint(steps) * lattice.unit : middle[k];
    }
    return lattice;
}

CT_FN double ct_extent_of(const ct_box *box) {
    return fmax(box->hi[0] - box->lo[0], fmax(box->hi[1] - box->lo[1], box->hi[2] - box->lo[2]));
}

/* The lattice spans both bodies. The smaller one needs 2^16 steps of it: float32 positions have 24 bits, so fewer would
 * move its vertices by more than what a body can be expected to be modelled to. 0: one has fewer. */
CT_FN int ct_extents_fit(const ct_box *a, const ct_box *b) {
    const double least = 65536 * ct_plan_exact_lattice(a, b).unit;
    const double extent_a = ct_extent_of(a), extent_b = ct_extent_of(b);
    return !(extent_a > 0 && extent_a < least) && !(extent_b > 0 && extent_b < least);
}

/* The nearest lattice coordinate of x, in units, |x| < 2^51. */
CT_FN double ct_round_to_lattice(double x) {
    return (x + CT_ROUND_MAGIC) - CT_ROUND_MAGIC;
}

/* A pose that takes rest positions to units of the lattice. */
typedef struct ct_lattice_pose {
    double row[3][4];
    double rounding; /* units: bounds the rounding of a coordinate before it is placed on the lattice */
    double scale;    /* units per m */
    int is_turned;   /* the body's axes are not the world's */
} ct_lattice_pose;

/* pose: row-major 3x4 [R|t], or NULL for positions in world axes. reach: m, the largest |coordinate| of a rest
 * position; a deformable body's coordinates are subtracted without rounding, or with one that is counted here. */
CT_FN ct_lattice_pose ct_lattice_pose_of(const ct_exact_lattice *lattice, const double *pose, double reach) {
    ct_lattice_pose p;
    p.rounding = 0;
    p.scale = lattice->inverse;
    p.is_turned = 0;
    for (int k = 0; k < 3; k++) {
        double size = 0;
        for (int j = 0; j < 3; j++) {
            const double r = pose ? pose[4 * k + j] : (double)(j == k);
            p.row[k][j] = r * lattice->inverse;
            p.is_turned |= r != (double)(j == k);
            size += fabs(r) * reach;
        }
        p.row[k][3] = ((pose ? pose[4 * k + 3] : 0) - lattice->origin[k]) * lattice->inverse;
        if (pose) p.rounding = fmax(p.rounding, 0x1p-50 * (size * lattice->inverse + fabs(p.row[k][3])));
    }
    return p;
}

/* The lattice point of a rest position. Returns the most that a coordinate was moved to reach it, units. */
CT_FN double ct_place_point(const ct_lattice_pose *pose, const float *position, double out[3]) {
    double residual = 0;
    for (int k = 0; k < 3; k++) {
        const double *row = pose->row[k];
        const double x =
            row[0] * (double)position[0] + row[1] * (double)position[1] + row[2] * (double)position[2] + row[3];
        out[k] = ct_round_to_lattice(x);
        residual = fmax(residual, fabs(x - out[k]));
    }
    return residual;
}

#endif

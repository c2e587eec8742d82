/* volume_k.h - the signed volume of a closed surface, as exact sums that do not depend on the order of its triangles.
 *
 * By the divergence theorem with the field (0, 0, z), 6 V is the sum over the triangles of
 *
 *     term = 2 (area of the triangle seen along z, negative where its back is seen) * (sum of its corners' z).
 *
 * x and y enter only as differences of corners, and z is taken relative to the middle of the box of all positions, so
 * a body far from the origin loses no digits. Each term is computed in double and rounded once to a multiple of a unit
 * that is about 2^-50 of the largest term that the box allows. Sums of multiples are integers, hence exact.
 */
#ifndef CT_VOLUME_K_H
#define CT_VOLUME_K_H

#include <math.h>

#include "gpu/base/box.h"
#include "gpu/base/kernel.h"

typedef struct ct_volume_scale {
    double middle3; /* m, 3 times the middle of the box along z */
    double rounder; /* m^3, 1.5 * 2^52 units: adding it rounds a term to a multiple of the unit */
    double unit;    /* m^3, a power of two; 0: the box is flat, and so is the body */
} ct_volume_scale;

/* `box` contains all positions. */
CT_FN ct_volume_scale ct_volume_scale_of(const ct_box *box) {
    ct_volume_scale scale;
    double size[3];
    int exponent;
    for (int k = 0; k < 3; k++) size[k] = box->hi[k] - box->lo[k];
    /* A triangle in a rectangle has at most half its area, and three z differ from the middle by half the height each.
     */
    const double largest = 1.5 * (size[0] * size[1] * size[2]);
    scale.middle3 = 1.5 * (box->lo[2] + box->hi[2]);
    scale.unit = scale.rounder = 0;
    if (!(largest > 0)) return scale;
    frexp(largest, &exponent); /* largest < 2^exponent */
    scale.unit = ldexp(1.0, exponent - 50);
    scale.rounder = 1.5 * ldexp(1.0, exponent + 2);
    return scale;
}

/* The bits of a double as an integer: those of neighbouring multiples of the unit, near the rounder, differ by 1. */
CT_FN int64_t ct_volume_bits(double x) {
    union {
        double d;
        int64_t i;
    } bits;
    bits.d = x;
    return bits.i;
}

/* The term of the triangle a b c, in units; below 2^51 in size. */
CT_FN int64_t ct_volume_term(const float *a, const float *b, const float *c, const ct_volume_scale *scale) {
    const double ux = (double)b[0] - (double)a[0], uy = (double)b[1] - (double)a[1];
    const double vx = (double)c[0] - (double)a[0], vy = (double)c[1] - (double)a[1];
    const double z = ((double)a[2] + (double)b[2]) + ((double)c[2] - scale->middle3);
    return ct_volume_bits((ux * vy - uy * vx) * z + scale->rounder) - ct_volume_bits(scale->rounder);
}

/* Triangles whose terms an int64 can sum: 2^12 terms below 2^51. */
enum { CT_VOLUME_BLOCK = 1 << 12 };

/* The volume in m^3 from the sum of all terms, which is high * 2^32 + low with 0 <= low < 2^62. */
CT_FN double ct_volume_of_sum(int64_t high, int64_t low, double unit) {
    high += low >> 32;
    low &= 0xffffffff;
    return ((double)high * 4294967296.0 + (double)low) * unit / 6;
}

#endif

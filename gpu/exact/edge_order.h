/* edge_order.h - the order in which an edge of one body pierces triangles of the other, exact and without ties but for
 * triangles that coincide. */
#ifndef CT_EXACT_EDGE_ORDER_H
#define CT_EXACT_EDGE_ORDER_H

#include "gpu/exact/predicates_k.h"

/* Where an edge from `a` to `b` pierces a triangle: at the part start / length of the way. Below 2^125 in size. */
typedef struct ct_piercing {
    ct_int128 start, length;
    ct_int128 normal[3]; /* of the triangle */
} ct_piercing;

/* The edge pierces the triangle u. */
static inline ct_piercing ct_piercing_of(const double *a, const double *b, const double *const u[3]) {
    const ct_int3 v = ct_int3_between(u[0], u[1]), w = ct_int3_between(u[0], u[2]);
    const ct_int128 start = ct_orientation(u[0], u[1], u[2], a);
    return (ct_piercing){.start = start,
                         .length = start - ct_orientation(u[0], u[1], u[2], b),
                         .normal = {(ct_int128)v.y * w.z - (ct_int128)v.z * w.y,
                                    (ct_int128)v.z * w.x - (ct_int128)v.x * w.z,
                                    (ct_int128)v.x * w.y - (ct_int128)v.y * w.x}};
}

/* Size of a product of two integers of 128 bits. */
typedef struct ct_wide_size {
    unsigned __int128 high, low;
} ct_wide_size;

static inline ct_wide_size ct_multiply_sizes(unsigned __int128 a, unsigned __int128 b) {
    const uint64_t a1 = (uint64_t)(a >> 64), a0 = (uint64_t)a, b1 = (uint64_t)(b >> 64), b0 = (uint64_t)b;
    const unsigned __int128 low = (unsigned __int128)a0 * b0, cross = (unsigned __int128)a0 * b1,
                            other = (unsigned __int128)a1 * b0;
    const unsigned __int128 middle = (low >> 64) + (uint64_t)cross + (uint64_t)other;
    return (ct_wide_size){(unsigned __int128)a1 * b1 + (cross >> 64) + (other >> 64) + (middle >> 64),
                          middle << 64 | (uint64_t)low};
}

static inline unsigned __int128 ct_size_of_int128(ct_int128 x) {
    return x < 0 ? -(unsigned __int128)x : (unsigned __int128)x;
}

/* Sign of a b - c d. */
static inline int ct_compare_products(ct_int128 a, ct_int128 b, ct_int128 c, ct_int128 d) {
    const int left = ct_sign_of(a) * ct_sign_of(b), right = ct_sign_of(c) * ct_sign_of(d);
    if (left != right) return left < right ? -1 : 1;
    const ct_wide_size x = ct_multiply_sizes(ct_size_of_int128(a), ct_size_of_int128(b)),
                       y = ct_multiply_sizes(ct_size_of_int128(c), ct_size_of_int128(d));
    if (x.high != y.high) return x.high < y.high ? -left : left;
    if (x.low != y.low) return x.low < y.low ? -left : left;
    return 0;
}

/* Below 0: the edge pierces the first triangle first. 0: the two coincide where it does. moved: +1 if the edge's body
 * is perturbed, -1 if the triangles' is. The perturbation moves `start` along the normal and leaves `length`. */
static inline int ct_compare_piercings(const ct_piercing *x, const ct_piercing *y, int moved) {
    const int sign = ct_sign_of(x->length) * ct_sign_of(y->length);
    int order = ct_compare_products(x->start, y->length, y->start, x->length);
    for (int k = 0; k < 3 && !order; k++)
        order = moved * ct_compare_products(x->normal[k], y->length, y->normal[k], x->length);
    return sign * order;
}

#endif

/* wide_sums.h - exact sums of 64-bit weights times 32-bit coordinates, four per vector; the same integers as the
 * 128-bit sums of frame_k.h. For *.simd.c files with AVX2, which has a vector product of 32-bit integers; without it
 * the processor's scalar 64 x 64 -> 128 bit product is faster.
 *
 *     weight (48 bits)  =  high digit (24 bits, signed) * 2^24  +  low digit (24 bits)
 *     sum of weight * q =  sum of high * q * 2^24               +  sum of low * q
 *
 * A digit times a coordinate is below 2^55, so a 64-bit lane holds MAX_PRODUCTS of them. */
#ifndef CT_WIDE_SUMS_H
#define CT_WIDE_SUMS_H

#ifdef __AVX2__

#include <assert.h>
#include <string.h>

#include "gpu/contact/frame_k.h"
#include "gpu/view/lanes.h"
#include "gpu/view/snap_cpu.h"

enum { DIGIT_BITS = 24, WEIGHT_BITS = 48, MAX_PRODUCTS = 128 };
static_assert(DIGIT_BITS + 31 + 7 < 63 && 1 << 7 == MAX_PRODUCTS && 2 * DIGIT_BITS == WEIGHT_BITS,
              "a sum of products fits in its lane");

/* Four int32 in the lower halves of 64-bit lanes; the upper halves are undefined. */
typedef ct_v4l ct_low_i32;

struct digits {
    ct_low_i32 low, high; /* high is signed */
};

struct product_sum {
    ct_v4l low, high; /* sums of each digit times coordinates */
};

/* Not zero in lanes whose weight is no signed number of WEIGHT_BITS bits. */
static inline ct_v4u overflow_bits(ct_v4l weight) {
    return ((ct_v4u)weight + ((uint64_t)1 << (WEIGHT_BITS - 1))) >> WEIGHT_BITS;
}

/* Of weights without overflow_bits. */
static inline struct digits digits_of(ct_v4l weight) {
    return (struct digits){weight & ((1 << DIGIT_BITS) - 1), (ct_v4l)((ct_v4u)weight >> DIGIT_BITS)};
}

static inline ct_v4l multiply(ct_low_i32 a, ct_low_i32 b) {
    return (ct_v4l)_mm256_mul_epi32((__m256i)a, (__m256i)b);
}

static inline void add_products(struct product_sum *sum, struct digits weight, ct_low_i32 q) {
    sum->low += multiply(weight.low, q);
    sum->high += multiply(weight.high, q);
}

static inline ct_wide sum_lanes(ct_v4l x) {
    return (ct_wide)x[0] + x[1] + x[2] + x[3];
}

static inline ct_wide sum_products(const struct product_sum *sum) {
    return sum_lanes(sum->low) + sum_lanes(sum->high) * (1 << DIGIT_BITS);
}

static inline ct_v2l load_coords(const ct_coords coords) {
    ct_v2l v;
    memcpy(&v, coords, sizeof v);
    return v;
}

/* The coordinates x, y and z of four consecutive vertices. */
static inline void load_group_coords(const ct_coords coords[4], ct_low_i32 q[3]) {
    const ct_v4l even = __builtin_shufflevector(load_coords(coords[0]), load_coords(coords[2]), 0, 1, 2, 3);
    const ct_v4l odd = __builtin_shufflevector(load_coords(coords[1]), load_coords(coords[3]), 0, 1, 2, 3);
    const ct_v4l xy = __builtin_shufflevector(even, odd, 0, 4, 2, 6);
    q[0] = xy;
    q[1] = (ct_v4l)((ct_v4u)xy >> 32);
    q[2] = __builtin_shufflevector(even, odd, 1, 5, 3, 7);
}

#endif

#endif

/* exact.h - exact sums of 64-bit weights times 32-bit coordinates, four at a time, for *.simd.c files: the vector form
 * of what frame_k.h adds up in 128 bits, and the same integers. For AVX2, which multiplies so many 32-bit numbers to
 * 64-bit ones; without that, a processor's own product of 128 bits takes less time. */
#ifndef CT_WIDE_SUMS_H
#define CT_WIDE_SUMS_H

#ifdef __AVX2__

#include <assert.h>
#include <string.h>

#include "gpu/contact/frame_k.h"
#include "gpu/raster/lanes.h"
#include "gpu/view/snap_cpu.h"

/* A weight of up to WEIGHT_BITS bits is two digits. A digit, which is less than 2^DIGIT_BITS, times a coordinate is
 * less than 2^55, and MOST_PRODUCTS of these fit in 63 bits. */
enum { DIGIT_BITS = 24, WEIGHT_BITS = 48, MOST_PRODUCTS = 128 };
static_assert(DIGIT_BITS + 31 + 7 < 63 && 1 << 7 == MOST_PRODUCTS && 2 * DIGIT_BITS == WEIGHT_BITS,
              "a sum of products fits in its lane");

/* Lanes of 64 bits of which the lower 32 count, as an int32; the upper may hold anything. */
typedef ct_v4l ct_lower;

/* Of weights in the range only: both digits, of which the higher has the sign. */
struct digits {
    ct_lower low, high;
};

struct product_sum {
    ct_v4l low, high; /* of these digits times coordinates */
};

/* Not zero where a weight is out of the range, which is a signed number of so many bits. */
static inline ct_v4u beyond_range(ct_v4l weight) {
    return ((ct_v4u)weight + ((uint64_t)1 << (WEIGHT_BITS - 1))) >> WEIGHT_BITS;
}

static inline struct digits digits_of(ct_v4l weight) {
    return (struct digits){weight & ((1 << DIGIT_BITS) - 1), (ct_v4l)((ct_v4u)weight >> DIGIT_BITS)};
}

static inline ct_v4l product(ct_lower a, ct_lower b) {
    return (ct_v4l)_mm256_mul_epi32((__m256i)a, (__m256i)b);
}

static inline void add_products(struct product_sum *sum, struct digits weight, ct_lower q) {
    sum->low += product(weight.low, q);
    sum->high += product(weight.high, q);
}

static inline ct_wide sum_of_lanes(ct_v4l x) {
    return (ct_wide)x[0] + x[1] + x[2] + x[3];
}

static inline ct_wide sum_of_products(const struct product_sum *sum) {
    return sum_of_lanes(sum->low) + sum_of_lanes(sum->high) * (1 << DIGIT_BITS);
}

static inline ct_v2l load_coords(const ct_coords at) {
    ct_v2l v;
    memcpy(&v, at, sizeof v);
    return v;
}

/* Coordinates x, y and z of four vertices next to each other. */
static inline void lower_coords(const ct_coords at[4], ct_lower q[3]) {
    const ct_v4l even = __builtin_shufflevector(load_coords(at[0]), load_coords(at[2]), 0, 1, 2, 3);
    const ct_v4l odd = __builtin_shufflevector(load_coords(at[1]), load_coords(at[3]), 0, 1, 2, 3);
    const ct_v4l xy = __builtin_shufflevector(even, odd, 0, 4, 2, 6);
    q[0] = xy;
    q[1] = (ct_v4l)((ct_v4u)xy >> 32);
    q[2] = __builtin_shufflevector(even, odd, 1, 5, 3, 7);
}

#endif

#endif

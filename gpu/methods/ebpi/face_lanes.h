/* face_lanes.h - arithmetic on four faces, one per SIMD lane, for the method EBPI's *.simd.c files. */
#ifndef CT_EBPI_FACE_LANES_H
#define CT_EBPI_FACE_LANES_H

#include <string.h>

#include "gpu/view/lanes.h"

static inline ct_v4i load_v4i(const int32_t *from) {
    ct_v4i x;
    memcpy(&x, from, sizeof x);
    return x;
}

static inline void store_v4i(int32_t *to, ct_v4i x) {
    memcpy(to, &x, sizeof x);
}

static inline ct_v4d load_v4d(const double *from) {
    ct_v4d x;
    memcpy(&x, from, sizeof x);
    return x;
}

static inline void store_v4d(double *to, ct_v4d x) {
    memcpy(to, &x, sizeof x);
}

static inline ct_v4d v4d(double x) {
    return (ct_v4d){x, x, x, x};
}

static inline ct_v4l wide(ct_v4i x) {
    return ct_v4l_of_v4i(x);
}

/* Of numbers that fit an int32_t. */
static inline ct_v4l product(ct_v4l a, ct_v4l b) {
#ifdef __AVX2__
    return (ct_v4l)_mm256_mul_epi32((__m256i)a, (__m256i)b);
#else
    return a * b;
#endif
}

static inline ct_v4d absolute(ct_v4d x) {
    return (ct_v4d)((ct_v4l)x & INT64_MAX);
}

static inline ct_v4d choose(ct_v4l mask, ct_v4d yes, ct_v4d no) {
#ifdef __AVX__
    return (ct_v4d)_mm256_blendv_pd((__m256d)no, (__m256d)yes, (__m256d)mask);
#else
    return (ct_v4d)((mask & (ct_v4l)yes) | (~mask & (ct_v4l)no));
#endif
}

/* Of numbers whose result fits an int32_t. */
static inline ct_v4i round_down(ct_v4d x) {
    const ct_v4i i = ct_v4i_of_v4d(x);
    return i + ct_v4i_of_v4l(x < to_double(i));
}

static inline ct_v4i round_up(ct_v4d x) {
    const ct_v4i i = ct_v4i_of_v4d(x);
    return i - ct_v4i_of_v4l(x > to_double(i));
}

/* The integer part of 0 <= x < 2^51. */
static inline ct_v4l whole_part(ct_v4d x) {
    const ct_v4d magic = v4d(0x1p52), shifted = x + magic;
    return (ct_v4l)shifted - (ct_v4l)magic + (ct_v4l)(shifted - magic > x); /* the sum may round up */
}

static inline int64_t sum_of(ct_v4l x) {
    return x[0] + x[1] + x[2] + x[3];
}

/* The x, y and z of four vertices, and what is fourth. */
static inline __attribute__((always_inline)) void transpose(const int32_t *const p[4], ct_v4i to[4]) {
    const ct_v4i a = load_v4i(p[0]), b = load_v4i(p[1]), c = load_v4i(p[2]), d = load_v4i(p[3]);
    const ct_v4i ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    const ct_v4i ab2 = __builtin_shufflevector(a, b, 2, 6, 3, 7), cd2 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    to[0] = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
    to[1] = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
    to[2] = __builtin_shufflevector(ab2, cd2, 0, 1, 4, 5);
    to[3] = __builtin_shufflevector(ab2, cd2, 2, 3, 6, 7);
}

#endif

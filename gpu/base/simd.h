/* simd.h - vector types for *.simd.c files, which are compiled once per instruction set with CT_SIMD set to its name.
 * The types are the vector extensions of gcc and clang, so one source serves all instruction sets and computes the same
 * bits.
 */
#ifndef CT_SIMD_H
#define CT_SIMD_H

#include <stdint.h>
#ifdef __AVX2__
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

#define CT_JOIN_(a, b)   a##_##b
#define CT_JOIN(a, b)    CT_JOIN_(a, b)
#define CT_VARIANT(name) CT_JOIN(name, CT_SIMD) /* ct_snap_cpu -> ct_snap_cpu_avx2 */

typedef float ct_v4f __attribute__((vector_size(16)));
typedef int32_t ct_v4i __attribute__((vector_size(16)));
typedef int16_t ct_v4s __attribute__((vector_size(8)));
typedef int64_t ct_v2l __attribute__((vector_size(16)));
typedef double ct_v4d __attribute__((vector_size(32)));
typedef int64_t ct_v4l __attribute__((vector_size(32)));

/* The number in all lanes, as a float. */
static inline ct_v4f ct_v4f_of(double x) {
    const float f = (float)x;
    return (ct_v4f){f, f, f, f};
}

/* a where it is the smaller, or the larger, of the two, else b; also where one is no number. */
static inline ct_v4f ct_v4f_min(ct_v4f a, ct_v4f b) {
#ifdef __SSE2__
    return (ct_v4f)_mm_min_ps((__m128)a, (__m128)b);
#else
    const ct_v4i less = a < b;
    return (ct_v4f)((less & (ct_v4i)a) | (~less & (ct_v4i)b));
#endif
}

static inline ct_v4f ct_v4f_max(ct_v4f a, ct_v4f b) {
#ifdef __SSE2__
    return (ct_v4f)_mm_max_ps((__m128)a, (__m128)b);
#else
    const ct_v4i more = a > b;
    return (ct_v4f)((more & (ct_v4i)a) | (~more & (ct_v4i)b));
#endif
}

/* Conversions lane by lane. AVX2 has one instruction for each; gcc compiles __builtin_convertvector to four to six. */

static inline ct_v4d ct_v4d_of_v4i(ct_v4i x) {
#ifdef __AVX2__
    return (ct_v4d)_mm256_cvtepi32_pd((__m128i)x);
#else
    return __builtin_convertvector(x, ct_v4d);
#endif
}

static inline ct_v4d ct_v4d_of_v4f(ct_v4f x) {
#ifdef __AVX2__
    return (ct_v4d)_mm256_cvtps_pd((__m128)x);
#else
    return __builtin_convertvector(x, ct_v4d);
#endif
}

/* Rounds towards zero. */
static inline ct_v4i ct_v4i_of_v4d(ct_v4d x) {
#ifdef __AVX2__
    return (ct_v4i)_mm256_cvttpd_epi32((__m256d)x);
#else
    return __builtin_convertvector(x, ct_v4i);
#endif
}

static inline ct_v4l ct_v4l_of_v4i(ct_v4i x) {
#ifdef __AVX2__
    return (ct_v4l)_mm256_cvtepi32_epi64((__m128i)x);
#else
    return __builtin_convertvector(x, ct_v4l);
#endif
}

/* Keeps the lower half of each lane. */
static inline ct_v4i ct_v4i_of_v4l(ct_v4l x) {
#ifdef __AVX2__
    __m256i v = (__m256i)x;
    return (ct_v4i)_mm_shuffle_ps((__m128)_mm256_castsi256_si128(v), (__m128)_mm256_extracti128_si256(v, 1), 0x88);
#else
    return __builtin_convertvector(x, ct_v4i);
#endif
}

static inline ct_v4s ct_v4s_of_v4i(ct_v4i x) {
#ifdef __AVX2__
    const __m128i low = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1);
    return (ct_v4s)_mm_cvtsi128_si64(_mm_shuffle_epi8((__m128i)x, low));
#else
    return __builtin_convertvector(x, ct_v4s);
#endif
}

/* The square root of each lane. */
static inline ct_v4d ct_v4d_sqrt(ct_v4d x) {
#ifdef __AVX2__
    return (ct_v4d)_mm256_sqrt_pd((__m256d)x);
#else
    ct_v4d root;
    for (int k = 0; k < 4; k++) root[k] = __builtin_sqrt(x[k]);
    return root;
#endif
}

/* A bit for each lane of a mask, whose lanes have all bits or none. */
static inline uint32_t ct_v4l_to_bits(ct_v4l mask) {
#ifdef __AVX2__
    return (uint32_t)_mm256_movemask_pd((__m256d)mask);
#else
    return (uint32_t)((mask[0] & 1) | (mask[1] & 2) | (mask[2] & 4) | (mask[3] & 8));
#endif
}

/* a where the mask has all bits, b where it has none. */
static inline ct_v4d ct_v4d_choose(ct_v4l mask, ct_v4d a, ct_v4d b) {
    return (ct_v4d)((mask & (ct_v4l)a) | (~mask & (ct_v4l)b));
}

/* In each lane x > y ? x : y, and x < y ? x : y. */
static inline ct_v4d ct_v4d_max(ct_v4d x, ct_v4d y) {
#ifdef __AVX2__
    return (ct_v4d)_mm256_max_pd((__m256d)x, (__m256d)y);
#else
    return ct_v4d_choose(x > y, x, y);
#endif
}
static inline ct_v4d ct_v4d_min(ct_v4d x, ct_v4d y) {
#ifdef __AVX2__
    return (ct_v4d)_mm256_min_pd((__m256d)x, (__m256d)y);
#else
    return ct_v4d_choose(x < y, x, y);
#endif
}

/* In each lane x from lo to hi. */
static inline ct_v4i ct_v4i_clamp(ct_v4i x, ct_v4i lo, ct_v4i hi) {
#ifdef __AVX2__
    return (ct_v4i)_mm_min_epi32(_mm_max_epi32((__m128i)x, (__m128i)lo), (__m128i)hi);
#else
    const ct_v4i below = x<lo, above = x> hi;
    return (below & lo) | (above & hi) | (~(below | above) & x);
#endif
}

/* A bit for each lane below 0. */
static inline uint32_t ct_v4i_signs(ct_v4i x) {
#ifdef __SSE2__
    return (uint32_t)_mm_movemask_ps((__m128)x);
#else
    return (uint32_t)((x[0] < 0) | (x[1] < 0) << 1 | (x[2] < 0) << 2 | (x[3] < 0) << 3);
#endif
}

/* The product of the lower halves of each lane, as signed 32-bit integers. */
static inline ct_v4l ct_v4l_multiply_low(ct_v4l a, ct_v4l b) {
#ifdef __AVX2__
    return (ct_v4l)_mm256_mul_epi32((__m256i)a, (__m256i)b);
#else
    return (a << 32 >> 32) * (b << 32 >> 32);
#endif
}

#endif

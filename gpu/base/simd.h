/* simd.h - vector types for *.simd.c files, which are compiled once per instruction set with CT_SIMD set to its name.
 * The types are the vector extensions of gcc and clang, so one source serves all instruction sets and computes the same
 * bits.
 */
#ifndef CT_SIMD_H
#define CT_SIMD_H

#include <stdint.h>
#ifdef __AVX2__
#include <immintrin.h>
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

#endif

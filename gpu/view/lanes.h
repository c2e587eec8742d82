/* lanes.h - raster_k.h's arithmetic on vectors, one sample or triangle per SIMD lane; for *.simd.c files. */
#ifndef CT_LANES_H
#define CT_LANES_H

#include <stdbool.h>

#include "gpu/base/simd.h"
#include "gpu/view/raster_k.h"
#ifdef __SSE2__
#include <immintrin.h>
#endif

static inline ct_v4i v4i(int32_t x) {
    return (ct_v4i){x, x, x, x};
}

#ifdef __SSE4_1__ /* the compiler does not recognise the masks below as one instruction */
static inline ct_v4i min_v4i(ct_v4i a, ct_v4i b) {
    return (ct_v4i)_mm_min_epi32((__m128i)a, (__m128i)b);
}

static inline ct_v4i max_v4i(ct_v4i a, ct_v4i b) {
    return (ct_v4i)_mm_max_epi32((__m128i)a, (__m128i)b);
}
#else
static inline ct_v4i min_v4i(ct_v4i a, ct_v4i b) {
    ct_v4i less = a < b;
    return (less & a) | (~less & b);
}

static inline ct_v4i max_v4i(ct_v4i a, ct_v4i b) {
    ct_v4i more = a > b;
    return (more & a) | (~more & b);
}
#endif

/* min_v4d and max_v4d: x and y must not be NaN. */
#ifdef __AVX__
static inline ct_v4d min_v4d(ct_v4d a, ct_v4d b) {
    return (ct_v4d)_mm256_min_pd((__m256d)a, (__m256d)b);
}

static inline ct_v4d max_v4d(ct_v4d a, ct_v4d b) {
    return (ct_v4d)_mm256_max_pd((__m256d)a, (__m256d)b);
}
#else
static inline ct_v4d min_v4d(ct_v4d a, ct_v4d b) {
    ct_v4l less = a < b;
    return (ct_v4d)((less & (ct_v4l)a) | (~less & (ct_v4l)b));
}

static inline ct_v4d max_v4d(ct_v4d a, ct_v4d b) {
    ct_v4l more = a > b;
    return (ct_v4d)((more & (ct_v4l)a) | (~more & (ct_v4l)b));
}
#endif

static inline ct_v4d to_double(ct_v4i x) {
    return ct_v4d_of_v4i(x);
}

/* Bit l is the sign of lane l. Of a comparison's result: the lanes in which it holds. */
static inline unsigned sign_bits(ct_v4l x) {
#ifdef __AVX__
    return (unsigned)_mm256_movemask_pd((__m256d)x);
#else
    return (unsigned)((x[0] < 0) | (x[1] < 0) << 1 | (x[2] < 0) << 2 | (x[3] < 0) << 3);
#endif
}

static inline unsigned sign_bits_v4i(ct_v4i x) {
#ifdef __SSE2__
    return (unsigned)_mm_movemask_ps((__m128)x);
#else
    return (unsigned)((x[0] < 0) | (x[1] < 0) << 1 | (x[2] < 0) << 2 | (x[3] < 0) << 3);
#endif
}

typedef uint64_t ct_v4u __attribute__((vector_size(32)));

/* True if any bit of any lane is set. */
static inline bool any(ct_v4u x) {
#ifdef __AVX__
    return !_mm256_testz_si256((__m256i)x, (__m256i)x);
#else
    return x[0] | x[1] | x[2] | x[3];
#endif
}

/* The lower halves of a's lanes and the upper halves of b's. */
static inline ct_v4u join_halves(ct_v4u a, ct_v4u b) {
#ifdef __AVX2__
    return (ct_v4u)_mm256_blend_epi32((__m256i)a, (__m256i)b, 0xaa);
#else
    return (a & 0xffffffff) | (b & 0xffffffff00000000);
#endif
}

/* The number of lanes in a lane set: bit l stands for lane l. */
static inline unsigned count_lanes(unsigned lanes) {
#ifdef __POPCNT__
    return (unsigned)__builtin_popcount(lanes);
#else
    return 0x4332322132212110 >> 4 * lanes & 7; /* a table of sixteen digits */
#endif
}

/* Stores the lanes in lane set `lanes` to consecutive elements. May write four elements: those behind the last
 * stored lane become undefined. */
static inline void compress_store(uint64_t to[4], ct_v4u x, unsigned lanes) {
#ifdef __AVX2__
    static const uint8_t halves[16][8] = {{0},
                                          {0, 1},
                                          {2, 3},
                                          {0, 1, 2, 3},
                                          {4, 5},
                                          {0, 1, 4, 5},
                                          {2, 3, 4, 5},
                                          {0, 1, 2, 3, 4, 5},
                                          {6, 7},
                                          {0, 1, 6, 7},
                                          {2, 3, 6, 7},
                                          {0, 1, 2, 3, 6, 7},
                                          {4, 5, 6, 7},
                                          {0, 1, 4, 5, 6, 7},
                                          {2, 3, 4, 5, 6, 7},
                                          {0, 1, 2, 3, 4, 5, 6, 7}};
    const __m256i order = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)halves[lanes]));
    _mm256_storeu_si256((__m256i *)to, _mm256_permutevar8x32_epi32((__m256i)x, order));
#else
    for (unsigned l = 0; l < 4; l++) {          /* the next lane overwrites one that is not in the set */
        *to = x[l];
        to += lanes >> l & 1;
    }
#endif
}

/* ct_round_i32 per lane. */
static inline ct_v4i round_v4d(ct_v4d x) {
    return ct_v4i_of_v4l((ct_v4l)(x + CT_ROUND_MAGIC));
}

/* Fragment keys at `depth` relative to z0, which includes CT_DEPTH_BIAS. Defined in lanes whose sample is covered;
 * other lanes may overflow, hence the unsigned arithmetic. */
static inline ct_v4i keys_of(ct_v4i z0, ct_v4d depth, ct_v4i entering) {
    typedef uint32_t v4u __attribute__((vector_size(16)));
    return (ct_v4i)(((v4u)z0 + (v4u)round_v4d(depth)) << 1) | entering;
}

/* (double)x per lane, which AVX2 has no instruction for. Each half's 32 bits become the mantissa bits of a double with
 * a fixed exponent. Both doubles are exact, and so is the subtraction of the exponents' offsets; only the final
 * addition rounds. */
static inline ct_v4d int64_to_double(ct_v4l x) {
    typedef uint64_t v4u __attribute__((vector_size(32)));
    v4u low = ((v4u)x & 0xffffffff) | 0x4330000000000000; /* 2^52 + lower half */
    v4u high = ((v4u)x >> 32) ^ 0x4530000080000000;       /* 2^84 + 2^63 + upper half * 2^32 */
    return ((ct_v4d)high - (0x1p84 + 0x1p63 + 0x1p52)) + (ct_v4d)low;
}

/* first + lane * step. AVX2 has no 64-bit multiplication, so the lanes are computed as scalars. */
static inline ct_v4l four_steps(int64_t first, int64_t step) {
    return (ct_v4l){first, first + step, first + 2 * step, first + 3 * step};
}

#endif

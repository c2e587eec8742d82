/* lanes.inl - vectors: of points, of eight numbers in single precision, and of four triangles. A part of
 * exact_cpu.simd.c. */
#ifndef CT_EXACT_LANES_INL
#define CT_EXACT_LANES_INL

#include <math.h>
#include <string.h>

#include "gpu/base/simd.h"
#include "gpu/methods/exact/exact_cpu.h"

typedef float v8f __attribute__((vector_size(32)));
typedef int32_t v8i __attribute__((vector_size(32)));

static inline ct_v4d load_point(const double *p) {
    ct_v4d v;
    memcpy(&v, __builtin_assume_aligned(p, 32), sizeof v);
    return v;
}

static inline void store_point(double *p, ct_v4d v) {
    memcpy(__builtin_assume_aligned(p, 32), &v, sizeof v);
}

static inline ct_v4d absolute(ct_v4d x) {
    return (ct_v4d)((ct_v4l)x & INT64_MAX);
}

static inline ct_v4d smaller(ct_v4d a, ct_v4d b) {
#ifdef __AVX2__
    return (ct_v4d)_mm256_min_pd((__m256d)a, (__m256d)b);
#else
    const ct_v4l take = a < b;
    return (ct_v4d)((take & (ct_v4l)a) | (~take & (ct_v4l)b));
#endif
}

static inline ct_v4d larger(ct_v4d a, ct_v4d b) {
#ifdef __AVX2__
    return (ct_v4d)_mm256_max_pd((__m256d)a, (__m256d)b);
#else
    const ct_v4l take = a > b;
    return (ct_v4d)((take & (ct_v4l)a) | (~take & (ct_v4l)b));
#endif
}

static inline ct_v4f to_floats(ct_v4d x) {
#ifdef __AVX2__
    return (ct_v4f)_mm256_cvtpd_ps((__m256d)x);
#else
    return __builtin_convertvector(x, ct_v4f);
#endif
}

static inline v8f load8(const float *p) {
    v8f v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* Not by memcpy, which gcc 12 turns into stores of eight bytes where it knows no alignment. */
typedef float unaligned_v4f __attribute__((vector_size(16), aligned(4), may_alias));
typedef float unaligned_v8f __attribute__((vector_size(32), aligned(4), may_alias));
typedef int64_t unaligned_v2l __attribute__((vector_size(16), aligned(8), may_alias));

static inline void store4(float *p, ct_v4f v) {
    *(unaligned_v4f *)p = v;
}

static inline void store8(float *p, v8f v) {
    *(unaligned_v8f *)p = v;
}

static inline v8f all8(float x) {
    return (v8f){x, x, x, x, x, x, x, x};
}

static inline v8f smaller8(v8f a, v8f b) {
#ifdef __AVX2__
    return (v8f)_mm256_min_ps((__m256)a, (__m256)b);
#else
    const v8i take = a < b;
    return (v8f)((take & (v8i)a) | (~take & (v8i)b));
#endif
}

static inline v8f larger8(v8f a, v8f b) {
#ifdef __AVX2__
    return (v8f)_mm256_max_ps((__m256)a, (__m256)b);
#else
    const v8i take = a > b;
    return (v8f)((take & (v8i)a) | (~take & (v8i)b));
#endif
}

/* a * b + c, rounded once or twice: for tests whose margins are wider than that. */
static inline v8f fused8(v8f a, v8f b, v8f c) {
#ifdef __AVX2__
    return (v8f)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return a * b + c;
#endif
}

static inline v8f absolute8(v8f x) {
    return (v8f)((v8i)x & INT32_MAX);
}

static inline v8f join4(ct_v4f a, ct_v4f b) {
    return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7);
}

/* The smallest element of three vectors each; the fourth lane repeats the third. */
static inline ct_v4f smallest_of_each(const v8f v[3]) {
    ct_v4f half[3];
    for (int k = 0; k < 3; k++)
        half[k] = ct_v4f_min(__builtin_shufflevector(v[k], v[k], 0, 1, 2, 3),
                             __builtin_shufflevector(v[k], v[k], 4, 5, 6, 7));
    const ct_v4f xy = ct_v4f_min(__builtin_shufflevector(half[0], half[1], 0, 4, 1, 5),
                                 __builtin_shufflevector(half[0], half[1], 2, 6, 3, 7)); /* x y x y */
    const ct_v4f zz = ct_v4f_min(__builtin_shufflevector(half[2], half[2], 0, 0, 1, 1),
                                 __builtin_shufflevector(half[2], half[2], 2, 2, 3, 3)); /* z z z z */
    return ct_v4f_min(__builtin_shufflevector(xy, zz, 0, 1, 4, 5), __builtin_shufflevector(xy, zz, 2, 3, 6, 7));
}

static inline ct_v4d root4(ct_v4d x) {
#ifdef __AVX2__
    return (ct_v4d)_mm256_sqrt_pd((__m256d)x);
#else
    for (int i = 0; i < 4; i++) x[i] = sqrt(x[i]);
    return x;
#endif
}

/* Where the mask is set, a, elsewhere b. */
static inline ct_v4d choose(ct_v4l mask, ct_v4d a, ct_v4d b) {
#ifdef __AVX2__
    return (ct_v4d)_mm256_blendv_pd((__m256d)b, (__m256d)a, (__m256d)mask);
#else
    return (ct_v4d)((mask & (ct_v4l)a) | (~mask & (ct_v4l)b));
#endif
}

static inline uint32_t mask_of(v8i flags) {
#ifdef __AVX2__
    return (uint32_t)_mm256_movemask_ps((__m256)flags);
#else
    uint32_t mask = 0;
    for (int i = 0; i < 8; i++) mask |= (uint32_t)(flags[i] & 1) << i;
    return mask;
#endif
}

static inline uint32_t count_bits8(uint32_t bits) {
#ifdef __AVX2__
    return (uint32_t)__builtin_popcount(bits);
#else
    bits -= bits >> 1 & 0x55;
    bits = (bits & 0x33) + (bits >> 2 & 0x33);
    return (bits + (bits >> 4)) & 15;
#endif
}

static inline v8f load_bytes8(const uint8_t *p) {
    typedef uint8_t v8b __attribute__((vector_size(8)));
    v8b v;
    memcpy(&v, p, sizeof v);
    return __builtin_convertvector(v, v8f);
}

/* ---- triangles ---- */

static inline void load_triangle(const ct_placed_cluster *c, uint32_t t, const double *p[3]) {
    for (int k = 0; k < 3; k++) p[k] = c->points[c->corners[t][k]];
}

/* x, y, z of a corner, or of a vector, of four triangles. */
struct vector4 {
    ct_v4d of[3];
};

/* Four triangles; lanes that are not used repeat the first one. */
struct triangles4 {
    struct vector4 corner[3];
};

static inline void transpose_points(ct_v4d p, ct_v4d q, ct_v4d r, ct_v4d s, struct vector4 *to) {
    const ct_v4d a = __builtin_shufflevector(p, q, 0, 4, 2, 6), b = __builtin_shufflevector(p, q, 1, 5, 3, 7);
    const ct_v4d c = __builtin_shufflevector(r, s, 0, 4, 2, 6), d = __builtin_shufflevector(r, s, 1, 5, 3, 7);
    to->of[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5);
    to->of[1] = __builtin_shufflevector(b, d, 0, 1, 4, 5);
    to->of[2] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
}

static inline void load_triangles4(const ct_placed_cluster *c, const uint32_t t[4], struct triangles4 *to) {
    for (int k = 0; k < 3; k++)
        transpose_points(load_point(c->points[c->corners[t[0]][k]]), load_point(c->points[c->corners[t[1]][k]]),
                         load_point(c->points[c->corners[t[2]][k]]), load_point(c->points[c->corners[t[3]][k]]),
                         &to->corner[k]);
}

/* Normals, and the sums of the sizes of their terms. */
struct normal4 {
    struct vector4 n, size;
};

static inline struct normal4 normals_of(const struct vector4 p[3]) {
    struct normal4 out;
    for (int k = 0; k < 3; k++) {
        const int i = (k + 1) % 3, j = (k + 2) % 3;
        const ct_v4d a = (p[1].of[i] - p[0].of[i]) * (p[2].of[j] - p[0].of[j]);
        const ct_v4d b = (p[1].of[j] - p[0].of[j]) * (p[2].of[i] - p[0].of[i]);
        out.n.of[k] = a - b;
        out.size.of[k] = absolute(a) + absolute(b);
    }
    return out;
}

/* Signed values of four pairs at a time, with their errors. */
struct values4 {
    ct_v4d value[3], error[3];
};

/* Of the two ends of a segment, or of the two triangles. */
typedef double v2d __attribute__((vector_size(16)));
typedef int64_t v2l __attribute__((vector_size(16)));

#endif

/* kernel.h - shared by the *_k.h headers, which hold the engine's arithmetic for both backends: gcc compiles them for
 * the CPU, nvcc for the GPU. Both compute the same bits, because all results are exact integers or IEEE doubles
 * computed in a fixed order without contraction to fused multiply-add. */
#ifndef CT_KERNEL_H
#define CT_KERNEL_H

#include <stdint.h>

#ifdef __CUDACC__
#define CT_FN static __host__ __device__ inline
#else
#define CT_FN static inline
#endif

/* As fmax and fmin of numbers, which compilers turn into calls for the sake of NaN. */
CT_FN double ct_greater(double a, double b) {
    return a > b ? a : b;
}

CT_FN double ct_lesser(double a, double b) {
    return a < b ? a : b;
}

/* Rounds to the nearest integer, ties to even, for |x| < 2^51: after adding 1.5 * 2^52 the low bits of the mantissa are
 * the integer. It vectorises, and all machines run the same operations. */
#define CT_ROUND_MAGIC 6755399441055744.0

CT_FN int32_t ct_round_i32(double x) {
    union {
        double d;
        int64_t i;
    } bits;
    bits.d = x + CT_ROUND_MAGIC;
    return (int32_t)bits.i;
}

#endif

/* kernel.h - what the *_k.h headers share. Their functions are the engine's arithmetic, written once: gcc compiles them
 * for the CPU, nvcc for the GPU, and both give the same bits because every result is either exact integer arithmetic or
 * IEEE double arithmetic in a fixed order without contraction. */
#ifndef CT_KERNEL_H
#define CT_KERNEL_H

#include <stdint.h>

#ifdef __CUDACC__
#define CT_FN static __host__ __device__ inline
#else
#define CT_FN static inline
#endif

/* Rounds to the nearest integer, ties to even, for |x| < 2^51: adding 1.5 * 2^52 leaves the integer in the low bits of
 * the mantissa. The same instruction sequence on every machine, and it vectorises. */
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

/* simd.h - for *.simd.c files, which are compiled once per instruction set with CT_SIMD set to its name. Vectors are
 * the compiler's (gcc's and clang's extension), so one source serves every instruction set and gives the same bits. */
#ifndef CT_SIMD_H
#define CT_SIMD_H

#include <stdint.h>

#define CT_JOIN_(a, b)   a##_##b
#define CT_JOIN(a, b)    CT_JOIN_(a, b)
#define CT_VARIANT(name) CT_JOIN(name, CT_SIMD) /* ct_snap_cpu -> ct_snap_cpu_avx2 */

typedef float ct_v4f __attribute__((vector_size(16)));
typedef int32_t ct_v4i __attribute__((vector_size(16)));
typedef int16_t ct_v4s __attribute__((vector_size(8)));
typedef int64_t ct_v2l __attribute__((vector_size(16)));
typedef double ct_v4d __attribute__((vector_size(32)));
typedef int64_t ct_v4l __attribute__((vector_size(32)));

#endif

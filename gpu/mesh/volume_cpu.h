/* volume_cpu.h - the CPU's pass over a deformable body's triangles that finds its signed volume. */
#ifndef CT_VOLUME_CPU_H
#define CT_VOLUME_CPU_H

#include <stddef.h>
#include <stdint.h>

#include "gpu/base/box.h"

/* Positions are loaded 16 bytes at a time, so this many bytes after the last one must be readable. */
enum { CT_VOLUME_PADDING = 4 };

typedef struct ct_volume_cpu {
    /* The signed volume, in m^3, of the closed surface [n_triangles] over float32 positions [][3], which are finite and
     * inside `box`. The same bits for any order of triangles and vertices, any instruction set, and on the GPU. */
    double (*signed_volume)(const float *positions, const uint32_t *triangles, size_t n_triangles, const ct_box *box);
} ct_volume_cpu;

extern const ct_volume_cpu ct_volume_cpu_base;
#ifdef __x86_64__
extern const ct_volume_cpu ct_volume_cpu_avx2;
#endif

#endif

/* snap_cpu.h - the CPU's pass over a body's vertices: boxes, and positions as lattice coordinates. */
#ifndef CT_SNAP_CPU_H
#define CT_SNAP_CPU_H

#include <stdbool.h>
#include <stddef.h>

#include "gpu/base/box.h"
#include "gpu/view/view_k.h"

typedef int32_t ct_coords[4]; /* lattice coordinates x, y, z of a vertex; the fourth is 0 */
typedef uint64_t ct_cells;    /* ct_cell of x, y, z, sixteen bits each from the lowest; the rest is 0 */

typedef struct ct_snap_cpu {
    /* Smallest box around float32 positions [n][3] of any alignment, posed if pose is not NULL. False: a number is not
     * finite (box undefined). n = 0 gives an empty box. */
    bool (*box)(const void *positions, size_t n, const double *pose, ct_box *box);

    /* coords and cells of vertices [first, last). */
    void (*snap)(const ct_window *window, const float *positions, const double *pose, size_t first, size_t last,
                 ct_coords *coords, ct_cells *cells);
} ct_snap_cpu;

extern const ct_snap_cpu ct_snap_cpu_base;
#ifdef __x86_64__
extern const ct_snap_cpu ct_snap_cpu_avx2;
#endif

#endif

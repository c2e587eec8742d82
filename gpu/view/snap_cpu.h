/* snap_cpu.h - the CPU's pass over a body's vertices: boxes, and positions as lattice coordinates. */
#ifndef CT_SNAP_CPU_H
#define CT_SNAP_CPU_H

#include <stdbool.h>
#include <stddef.h>

#include "gpu/base/box.h"
#include "gpu/view/view_k.h"

typedef int32_t ct_coords[4]; /* lattice coordinates x, y, z of a vertex; the fourth is 0 */

/* Per vertex sixteen bits for each of x, y, z from the lowest: its ct_samples_below, and whether it lies before or
 * after the part of the axis where both bodies' boxes are. */
typedef uint64_t ct_cells;
#define CT_CELL_MASK   0x1fff
#define CT_CELL_BEFORE 0x2000
#define CT_CELL_AFTER  0x4000

typedef struct ct_snap_cpu {
    /* Smallest box around float32 positions [n][3] of any alignment, posed if pose is not NULL. False: a number is not
     * finite (box undefined). n = 0 gives an empty box. */
    bool (*box)(const void *positions, size_t n, const double *pose, ct_box *box);

    /* coords and cells of vertices [first, last); either may be NULL. */
    void (*snap)(const ct_window *window, const float *positions, const double *pose, size_t first, size_t last,
                 ct_coords *coords, ct_cells *cells);

    /* coords of the corners of some triangles only: those of `triangles` [][3] whose numbers are kept[n_kept]. */
    void (*snap_corners)(const ct_window *window, const float *positions, const double *pose, const uint32_t *triangles,
                         const uint32_t *kept, size_t n_kept, ct_coords *coords);
} ct_snap_cpu;

extern const ct_snap_cpu ct_snap_cpu_base;
#ifdef __x86_64__
extern const ct_snap_cpu ct_snap_cpu_avx2;
#endif

#endif

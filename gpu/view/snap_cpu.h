/* snap_cpu.h - the CPU's passes over vertices: bounding boxes, doubles to pairs of floats, and conversion to lattice
 * coordinates. */
#ifndef CT_SNAP_CPU_H
#define CT_SNAP_CPU_H

#include <stdbool.h>
#include <stddef.h>

#include "gpu/base/box.h"
#include "gpu/mesh/clusters.h"
#include "gpu/view/view_k.h"

typedef int32_t ct_coords[4]; /* lattice coordinates x, y, z of a vertex; the fourth is 0 */

/* A vertex's position relative to samples and window: 16 bits each for x, y, z, x lowest. The bits are ct_samples_below
 * of the coordinate and two flags: below the axis's `lo` (BEFORE), above its `hi` (AFTER). */
typedef uint64_t ct_cells;
#define CT_CELL_MASK   0x1fff
#define CT_CELL_BEFORE 0x2000
#define CT_CELL_AFTER  0x4000

typedef struct ct_snap_cpu {
    /* Computes the bounding box of float32 positions [n][3] of any alignment, transformed by pose unless it is NULL. n
     * = 0 gives an empty box. False: a position is not finite, and the box is undefined. */
    bool (*box)(const void *positions, size_t n, const double *pose, ct_box *box);
    /* The same of float64 positions without a pose. *are_floats: float32 holds all of them. False: one is not finite as
     * float32, and both are undefined. */
    bool (*wide_box)(const void *positions, size_t n, ct_box *box, bool *are_floats);
    /* Float64 positions [n][3] of any alignment less the origin as high + low (mesh/split.h). low: NULL where float32
     * holds them. */
    void (*split)(const void *positions, size_t n, const double origin[3], float *high, float *low);

    /* Computes coords and cells of vertices [first, last); either may be NULL. */
    void (*snap)(const ct_window *window, const float *positions, const double *pose, size_t first, size_t last,
                 ct_coords *coords, ct_cells *cells);

    /* Computes coords of the corners of triangles kept[0..n_kept) only. */
    void (*snap_corners)(const ct_window *window, const float *positions, const double *pose, const uint32_t *triangles,
                         const uint32_t *kept, size_t n_kept, ct_coords *coords);
    /* Computes coords and cells of the n vertices in a list; either may be NULL. */
    void (*snap_list)(const ct_window *window, const float *positions, const double *pose, const uint32_t *vertices,
                      size_t n, ct_coords *coords, ct_cells *cells);
    /* As ct_clusters_refit. */
    void (*refit)(const ct_clusters *clusters, const float *positions, uint32_t first, uint32_t end,
                  ct_cluster_box *boxes);
} ct_snap_cpu;

extern const ct_snap_cpu ct_snap_cpu_base;
#ifdef __x86_64__
extern const ct_snap_cpu ct_snap_cpu_avx2;
#endif

#endif

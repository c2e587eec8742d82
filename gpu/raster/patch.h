/* patch.h - triangles as the OpenGL rasteriser draws them: each as rectangles of samples, which OpenGL fills, with what
 * a shader needs to decide exactly which of these samples the triangle covers, and to make their fragments.
 */
#ifndef CT_PATCH_H
#define CT_PATCH_H

#include "gpu/raster/raster_cpu.h"

/* A part of a view: some of its rows. The same layout as in patch_vertex.glsl. */
typedef struct ct_tile {
    int32_t left, bottom; /* where it lies in the picture that holds all tiles of a drawing, in pixels; set by it */
    int32_t columns, first_row, rows;
    int32_t first_ray; /* index of its first ray among those of all tiles; rays are numbered row by row */
    int32_t shift_u, shift_v;
} ct_tile;

/* Flags of a patch; the first three are ct_edge_inside of each edge. */
#define CT_PATCH_INSIDE    7u
#define CT_PATCH_CLOCKWISE 8u  /* a ray enters the body here */
#define CT_PATCH_BEFORE    16u /* before the window's depths, of a body that is CT_ENTRY_COUNTED: not kept */

/* The same layout as in patch_vertex.glsl. */
typedef struct ct_patch {
    int32_t xb, yb, xc, yc; /* corners 1 and 2 in (u, v), relative to corner 0; negated where clockwise */
    int32_t x0, y0, z0;     /* corner 0 */
    uint32_t tag;
    int32_t dz1, dz2; /* depths of corners 1 and 2, relative to corner 0 */
    double inverse;   /* 1 over twice the area */
    uint16_t u0, u1;  /* samples of the rectangle: columns [u0, u1), rows [v0, v1) of the view */
    uint16_t v0, v1;
    uint32_t tile;
    uint32_t flags;
} ct_patch;

/* A growing list of them, kept for the next use by who clears n and samples. */
typedef struct ct_patches {
    ct_buffer memory; /* ct_patch [n] */
    size_t n;
    uint64_t samples; /* of all their rectangles: no more fragments than these come of them */
} ct_patches;

/* Appends those of a bin's triangles in bands [first, end) of view w, which are the rows of `tile`. False: out of
 * memory. */
bool ct_patches_add(ct_patches *patches, ct_budget *budget, const ct_window *window, const ct_bands *bands,
                    const ct_bin *bin, int w, uint32_t first, uint32_t end, uint32_t tile);

#endif

/* view.h - a view of a pair for the method EBPI: its pixels, and for each pixel the faces of both bodies that lie over
 * it. For the stages that bound a tile's error and cast its ray.
 *
 * A pixel is a square of 2^pixel_shift pitches of the window's lattice. The pitch is the finest that a tile may have,
 * so every tile is a rectangle of whole pitches, and the area of its ray is their number (ct_tile.ray_area).
 */
#ifndef CT_EBPI_VIEW_H
#define CT_EBPI_VIEW_H

#include <stdbool.h>
#include <stddef.h>

#include "gpu/mesh/adjacency.h"
#include "gpu/methods/ebpi/rect_k.h"
#include "gpu/view/snap_cpu.h"
#include "gpu/view/tile_k.h"
#include "gpu/view/winding_k.h"

typedef struct ct_arena ct_arena;   /* gpu/base/arena.h */
typedef struct ct_budget ct_budget; /* gpu/base/scratch.h */

/* A body of the pair, its vertices on the pair's lattice. */
typedef struct ct_ebpi_body {
    const ct_coords *coords;   /* [vertices] */
    const uint32_t *triangles; /* [n_triangles][3] */
    const ct_adjacency *adjacency;
    uint32_t n_triangles;
} ct_ebpi_body;

/* The plane of a face: depth changes by u and v per unit along the view's axes. NaN: the face is steep. */
typedef struct ct_slope {
    double u, v;
} ct_slope;

/* A body's triangles are listed in parts: enough for a few threads. */
enum { CT_EBPI_MOST_PARTS = 8 };

typedef struct ct_ebpi_view {
    int32_t axis;             /* of the rays */
    int32_t u, v;             /* the other axes */
    int32_t pitch_shift[2];   /* log2 of the pitch along u and v, lattice units */
    int32_t pixel_shift;      /* log2 of a pixel's side in pitches */
    int32_t columns, rows;    /* pixels */
    int32_t lo, hi;           /* depths where the bodies' boxes overlap, lattice units */
    uint8_t initial[2];       /* ct_initial_winding of each body. Faces behind `hi` are left out, and with
                                 FROM_BALANCE those before `lo` */
    const ct_ebpi_body *body; /* [2] */
    uint32_t parts[2];        /* of the bodies' triangles, consecutive ones of about the same number each */
    uint32_t *next[2];        /* per body: [parts][columns * rows], faces of each pixel, then where the next one goes */
    uint32_t *first;          /* [columns * rows + 1] */
    uint32_t *faces;          /* pixel p: faces[first[p]] .. faces[first[p + 1] - 1], as body << 31 | triangle,
                                 body 0's first */
} ct_ebpi_view;

/* Plans the pixels of the view along an axis: about `most` along the longer side. Only the pixels; no faces. The
 * caller may set `initial`, which is ZERO: no face is left out in front. */
ct_ebpi_view ct_ebpi_view_plan(const ct_window *window, int axis, int32_t most);

ct_ebpi_rect ct_ebpi_pixel_rect(const ct_ebpi_view *view, int32_t column, int32_t row);

/* Lists the faces of every pixel, in four steps: begin; count each part of each body (ct_ebpi_list_cpu); place;
 * write each part. Parts may be counted, and written, at the same time. Memory is the arena's. False: out of memory. */
bool ct_ebpi_view_begin(ct_ebpi_view *view, const ct_ebpi_body body[2], ct_arena *arena, ct_budget *budget);
bool ct_ebpi_view_place(ct_ebpi_view *view, ct_arena *arena, ct_budget *budget);

/* The first triangle of a part of a body; of part `parts`: behind the last one. */
static inline uint32_t ct_ebpi_part_begin(const ct_ebpi_view *view, int b, uint32_t part) {
    return (uint32_t)((uint64_t)view->body[b].n_triangles * part / view->parts[b]);
}

/* A face meets a rectangle in the projection, its edges included; exact. corner: its corners' lattice coordinates. */
bool ct_ebpi_face_meets(const ct_ebpi_view *view, const int32_t *const corner[3], const ct_ebpi_rect *rect);

static inline void ct_ebpi_corners(const ct_ebpi_body *body, uint32_t triangle, const int32_t *corner[3]) {
    for (int k = 0; k < 3; k++) corner[k] = body->coords[body->triangles[3 * (size_t)triangle + (size_t)k]];
}

#endif

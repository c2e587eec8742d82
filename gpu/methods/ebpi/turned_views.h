/* turned_views.h - a pair whose views lie along axes of its own instead of the world's (view/turned_k.h): how they are
 * found. For the method EBPI, on the host of every backend; contact/turned.h turns its contacts back.
 */
#ifndef CT_TURNED_VIEWS_H
#define CT_TURNED_VIEWS_H

#include <stdint.h>

#include "gpu/include/contact.h"
#include "gpu/view/snap_cpu.h"
#include "gpu/view/turned_k.h"

/* A body's surface. */
typedef struct ct_turned_body {
    const float *positions;    /* [n_vertices][3] */
    const double *pose;        /* row-major 3 x 4, positions to world; NULL: they are in the world */
    const uint32_t *triangles; /* [n_triangles][3] */
    uint32_t n_vertices, n_triangles;
    ct_box box; /* m, world */
} ct_turned_body;

/* Plans the window of a part of the bodies' overlap, as fine as the lattice allows; boxes and part are along the views'
 * axes. OUT_OF_RANGE: no lattice can hold them. */
ct_status ct_ebpi_plan_window(const ct_box box[2], const ct_box *part, ct_window *window, ct_error *error);

/* Finds a pair's axes (directions.h) and what follows from them. part: what `window` spans; the window becomes
 * that along the axes. The world's axes are kept, and the window, where others are hardly better, where the bodies'
 * boxes along them do not meet, and where no lattice can hold these. */
void ct_turn_views(const ct_turned_body body[2], const ct_snap_cpu *snap, const ct_box *part, ct_window *window,
                   ct_turned_views *views);

#endif

/* front_winding.h - initial winding numbers from the boundary of what lies in front of the window.
 *
 * A ray's initial winding number is minus the number of times that the triangles in front of the window's depths cover
 * the ray's sample, clockwise ones counted negative. Such a sum depends on the boundary of these triangles alone: it is
 * the winding number, around the sample in the view's plane, of the loops in which they end. Each edge of a loop is
 * shared with a triangle that straddles the depth where the window begins, and such triangles are few:
 *
 *      depth ->         |== window ==
 *      \____/\___/\__/\_|_/\_                 all to the left of the bar: in front, not looked at
 *                      ^^^                    straddling triangles: the loop runs along their edges in front
 *
 * Along each row or column of samples, the loops' winding number is found by counting the edges beyond a sample. All is
 * decided on integers with the samples displaced as in raster_k.h, so the numbers are those that counting crossings
 * gives, bit for bit. */
#ifndef CT_FRONT_WINDING_H
#define CT_FRONT_WINDING_H

#include <stddef.h>

#include "gpu/view/near.h"
#include "gpu/view/snap_cpu.h"
#include "gpu/view/tile_k.h"

/* A body's triangles that may straddle the begin of the window's depths along one axis. */
typedef struct ct_front_loops {
    const ct_coords *coords;   /* [vertices]; those of the runs' triangles are set */
    const uint32_t *triangles; /* [n_triangles][3] */
    const ct_triangle_run *runs;
    size_t n_runs;
    bool along_u; /* edges are counted along u, from a sample on; otherwise along v */
} ct_front_loops;

/* Fills winding [n_v][n_u] with the initial winding numbers of the samples of a uniform view (ct_uniform_tile) along
 * axis `view`. The runs hold every straddling triangle whose edges can lie beyond a sample of the view. */
void ct_count_front_winding(const ct_front_loops *loops, const ct_window *window, int view, int32_t *winding);

#endif

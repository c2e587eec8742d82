/* turned_k.h - views of a pair along axes of its own instead of the world's, for every backend (ebpi/turned_views.h).
 *
 * Positions are turned while they are snapped to the lattice, so all stages on the lattice are those of views along the
 * world's axes. What comes from the lattice is in the turned frame until it is turned back.
 */
#ifndef CT_TURNED_K_H
#define CT_TURNED_K_H

#include <stdbool.h>

#include "gpu/base/box.h"
#include "gpu/base/kernel.h"

typedef struct ct_turned_views {
    bool is_turned;     /* else the views lie along the world's axes, and nothing else is set */
    double axes[3][3];  /* rows */
    double pose[2][12]; /* of each body's positions, into coordinates along the axes */
    ct_box box[2];      /* of each body, along them */
} ct_turned_views;

/* a to its coordinates along the axes. */
CT_FN void ct_turn_into_views(const ct_turned_views *views, double a[3]) {
    const double from[3] = {a[0], a[1], a[2]};
    for (int i = 0; i < 3 && views->is_turned; i++)
        a[i] = views->axes[i][0] * from[0] + views->axes[i][1] * from[1] + views->axes[i][2] * from[2];
}

/* a to the world's coordinates. */
CT_FN void ct_turn_out_of_views(const ct_turned_views *views, double a[3]) {
    const double from[3] = {a[0], a[1], a[2]};
    for (int k = 0; k < 3 && views->is_turned; k++)
        a[k] = views->axes[0][k] * from[0] + views->axes[1][k] * from[1] + views->axes[2][k] * from[2];
}

#endif

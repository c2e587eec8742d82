/* turned_views.c - see turned_views.h. */
#include "gpu/methods/ebpi/turned_views.h"

#include <math.h>

#include "gpu/base/fail.h"
#include "gpu/methods/ebpi/directions.h"
#include "gpu/methods/ebpi/refine.h"

/* The pose that takes a body's positions to coordinates along the axes. */
static void turn_pose(const double axes[3][3], const double *pose, double to[12]) {
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 4; j++)
            to[4 * i + j] = pose     ? axes[i][0] * pose[j] + axes[i][1] * pose[4 + j] + axes[i][2] * pose[8 + j]
                            : j == 3 ? 0
                                     : axes[i][j];
}

/* A box along the axes that holds the part of the world's. */
static ct_box turn_part(const double axes[3][3], const ct_box *part) {
    ct_box box;
    for (int i = 0; i < 3; i++) {
        double centre = 0, half = 0, size = 0;
        for (int k = 0; k < 3; k++) {
            centre += 0.5 * axes[i][k] * (part->lo[k] + part->hi[k]);
            half += 0.5 * fabs(axes[i][k]) * (part->hi[k] - part->lo[k]);
            size += fabs(part->lo[k]) + fabs(part->hi[k]);
        }
        half += 0x1p-48 * size; /* for rounding */
        box.lo[i] = centre - half;
        box.hi[i] = centre + half;
    }
    return box;
}

static double longest_side(const ct_box *box) {
    double side = 0;
    for (int k = 0; k < 3; k++) side = fmax(side, box->hi[k] - box->lo[k]);
    return side;
}

ct_status ct_ebpi_plan_window(const ct_box box[2], const ct_box *part, ct_window *window, ct_error *error) {
    ct_plan_need need;
    for (int k = 0; k < 3; k++)
        if (ct_plan_axis(&box[0], &box[1], part, k, 0, CT_EBPI_PITCHES, CT_EBPI_PITCHES, &window->axis[k], &need))
            return ct_fail(error, CT_OUT_OF_RANGE, "", "no lattice can hold them");
    return CT_OK;
}

void ct_turn_views(const ct_turned_body body[2], const ct_snap_cpu *snap, const ct_box *part, ct_window *window,
                   ct_turned_views *views) {
    ct_gaussian_image image;
    ct_window turned;
    views->is_turned = false;
    ct_gaussian_image_begin(&image, 2 * fmax(longest_side(&body[0].box), longest_side(&body[1].box)));
    for (int b = 0; b < 2; b++)
        ct_gaussian_image_add(&image, body[b].positions, body[b].triangles, body[b].n_triangles, body[b].pose, part);
    if (!ct_optimize_axes(&image, views->axes)) return;
    ct_box of = turn_part(views->axes, part);
    for (int b = 0; b < 2; b++) {
        ct_box *box = &views->box[b];
        turn_pose(views->axes, body[b].pose, views->pose[b]);
        if (!snap->box(body[b].positions, body[b].n_vertices, views->pose[b], box)) return;
        for (int k = 0; k < 3; k++) {
            of.lo[k] = fmax(of.lo[k], box->lo[k]);
            of.hi[k] = fmin(of.hi[k], box->hi[k]);
        }
    }
    for (int k = 0; k < 3; k++)
        if (of.lo[k] >= of.hi[k]) return;
    if (ct_ebpi_plan_window(views->box, &of, &turned, NULL)) return;
    *window = turned;
    views->is_turned = true;
}

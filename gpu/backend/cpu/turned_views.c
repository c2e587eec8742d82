/* turned_views.c - see turned_views.h. */
#include "gpu/backend/cpu/turned_views.h"

#include <math.h>
#include <string.h>

#include "gpu/backend/cpu/pair_context.h"
#include "gpu/ebpi/directions.h"

/* ---- planning ---- */

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

static double longest_side(const ct_body *body) {
    double side = 0;
    for (int k = 0; k < 3; k++) side = fmax(side, body->box.hi[k] - body->box.lo[k]);
    return side;
}

void ct_turn_views(const ct_device *device, ct_pair_task *pair) {
    ct_gaussian_image image;
    double axes[3][3];
    pair->is_turned = false;
    ct_gaussian_image_begin(&image, 2 * fmax(longest_side(pair->body[0]), longest_side(pair->body[1])));
    for (int b = 0; b < 2; b++) {
        const ct_body *body = pair->body[b];
        ct_gaussian_image_add(&image, ct_body_positions(body), body->mesh->triangles, body->mesh->n_triangles,
                              ct_body_pose(body), &pair->part);
    }
    if (!ct_optimize_axes(&image, axes)) return;
    ct_box part = turn_part(axes, &pair->part);
    for (int b = 0; b < 2; b++) {
        const ct_body *body = pair->body[b];
        ct_box *box = &pair->view_box[b];
        turn_pose(axes, ct_body_pose(body), pair->view_pose[b]);
        if (!device->kernels->snap->box(ct_body_positions(body), body->mesh->n_vertices, pair->view_pose[b], box))
            return;
        for (int k = 0; k < 3; k++) {
            part.lo[k] = fmax(part.lo[k], box->lo[k]);
            part.hi[k] = fmin(part.hi[k], box->hi[k]);
        }
    }
    for (int k = 0; k < 3; k++)
        if (part.lo[k] >= part.hi[k]) return;
    pair->part = part;
    memcpy(pair->view_axes, axes, sizeof axes);
    pair->is_turned = true;
}

const double *ct_view_pose(const ct_pair_task *pair, int body) {
    return pair->is_turned ? pair->view_pose[body] : ct_body_pose(pair->body[body]);
}

const ct_box *ct_view_box(const ct_pair_task *pair, int body) {
    return pair->is_turned ? &pair->view_box[body] : &pair->body[body]->box;
}

void ct_turn_into_views(const ct_pair_task *pair, double a[3]) {
    const double from[3] = {a[0], a[1], a[2]};
    for (int i = 0; i < 3 && pair->is_turned; i++)
        a[i] = pair->view_axes[i][0] * from[0] + pair->view_axes[i][1] * from[1] + pair->view_axes[i][2] * from[2];
}

void ct_turn_out_of_views(const ct_pair_task *pair, double a[3]) {
    const double from[3] = {a[0], a[1], a[2]};
    for (int k = 0; k < 3 && pair->is_turned; k++)
        a[k] = pair->view_axes[0][k] * from[0] + pair->view_axes[1][k] * from[1] + pair->view_axes[2][k] * from[2];
}

/* ---- contacts ---- */

/* Rounds n gradients so that they add up to exactly 0: all are multiples of `quantum`, and no sum of some of them is as
 * much as 2^53 of it. */
static void balance(double *gradient, uint64_t n) {
    double size = 0, left[3] = {0, 0, 0};
    for (uint64_t i = 0; i < 3 * n; i++) size += fabs(gradient[i]);
    if (!(size > 0)) return;
    const double quantum = ldexp(1.0, ilogb(size) - 51);
    for (uint64_t i = 0; i < n; i++)
        for (uint64_t k = 0; k < 3; k++) {
            gradient[3 * i + k] = quantum * rint(gradient[3 * i + k] / quantum);
            left[k] += gradient[3 * i + k];
        }
    for (int k = 0; k < 3; k++) gradient[k] -= left[k];
}

void ct_turn_back_contact(const ct_pair_task *pair, ct_pair_contact *of) {
    ct_contact *contact = &of->contact;
    const ct_entry_arrays *entries = &of->entries;
    const uint64_t n = contact->count[0] + contact->count[1];
    for (int b = 0; b < 2; b++) {
        ct_turn_out_of_views(pair, contact->generalized_gradient[b]);
        ct_turn_out_of_views(pair, contact->generalized_gradient[b] + 3);
        ct_turn_out_of_views(pair, contact->side_center[b]);
    }
    ct_turn_out_of_views(pair, contact->center);
    ct_frame_normal(contact, contact->generalized_gradient[0]);
    for (uint64_t e = 0; e < n && entries->gradient; e++) ct_turn_out_of_views(pair, entries->gradient + 3 * e);
    for (uint64_t e = 0; e < n && entries->forces; e++) ct_turn_out_of_views(pair, entries->forces + 3 * e);
    if (entries->gradient) balance(entries->gradient, n);
}

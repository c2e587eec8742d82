/* turned.c - see turned.h. */
#include "gpu/contact/turned.h"

#include <math.h>

#include "gpu/contact/frame_k.h"

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

void ct_turn_back_contact(const ct_turned_views *views, ct_contact *contact, double *gradient, double *forces) {
    const uint64_t n = contact->count[0] + contact->count[1];
    for (int b = 0; b < 2; b++) {
        ct_turn_out_of_views(views, contact->generalized_gradient[b]);
        ct_turn_out_of_views(views, contact->generalized_gradient[b] + 3);
        ct_turn_out_of_views(views, contact->side_center[b]);
    }
    ct_turn_out_of_views(views, contact->center);
    ct_frame_normal(contact, contact->generalized_gradient[0], 0);
    ct_frame_area(contact);
    for (uint64_t e = 0; e < n && gradient; e++) ct_turn_out_of_views(views, gradient + 3 * e);
    for (uint64_t e = 0; e < n && forces; e++) ct_turn_out_of_views(views, forces + 3 * e);
    if (gradient) balance(gradient, n);
}

/* frame.c - contact frames from sums. */
#include "gpu/contact/frame.h"

#include <string.h>

static void generalized(const ct_window *window, const ct_weight_units *units, const ct_entries *body, double out[6]) {
    ct_moments sums;
    memset(&sums, 0, sizeof sums);
    for (size_t k = 0; k < body->count; k++) ct_moments_add(&sums, body->coords[body->vertices[k]], body->sums[k]);
    ct_moments_finish(&sums, window, units, body->origin, out);
}

void ct_frame_contact(const ct_window *window, const ct_entries bodies[2], ct_contact *contact) {
    const ct_weight_units units = ct_frame_units(window);
    generalized(window, &units, &bodies[0], contact->generalized_gradient[0]);
    generalized(window, &units, &bodies[1], contact->generalized_gradient[1]);
    const int has_normal = ct_frame_normal(contact, contact->generalized_gradient[0]);

    const double scale = ct_barycentre_scale(window);
    ct_barycentre side[2];
    memset(side, 0, sizeof side);
    for (int i = 0; i < 2; i++)
        for (size_t k = 0; k < bodies[i].count; k++)
            ct_barycentre_add(&side[i], contact, has_normal, scale, &units, bodies[i].coords[bodies[i].vertices[k]],
                              bodies[i].sums[k]);
    ct_frame_finish(window, side, has_normal, scale, contact);
}

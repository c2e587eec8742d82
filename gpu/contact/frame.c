/* frame.c - contact frames from sums. */
#include "gpu/contact/frame.h"

#include <string.h>

struct frame {
    const ct_window *window;
    const ct_entries *bodies;
    ct_contact *contact;
    ct_weight_units units;
    int has_normal;
    double scale;
    ct_barycentre side[2];
};

static void generalized(void *data, uint32_t b, uint32_t worker) {
    (void)worker;
    struct frame *f = data;
    const ct_entries *body = &f->bodies[b];
    ct_moments sums;
    memset(&sums, 0, sizeof sums);
    for (size_t k = 0; k < body->count; k++) ct_moments_add(&sums, body->coords[body->vertices[k]], body->sums[k]);
    ct_moments_finish(&sums, f->window, &f->units, body->origin, f->contact->generalized_gradient[b]);
}

static void barycentre(void *data, uint32_t b, uint32_t worker) {
    (void)worker;
    struct frame *f = data;
    const ct_entries *body = &f->bodies[b];
    ct_barycentre side;
    memset(&side, 0, sizeof side);
    for (size_t k = 0; k < body->count; k++)
        ct_barycentre_add(&side, f->contact, f->has_normal, f->scale, &f->units, body->coords[body->vertices[k]],
                          body->sums[k]);
    f->side[b] = side;
}

static void one_after_the_other(void *context, void (*part)(void *data, uint32_t body, uint32_t worker), void *data) {
    (void)context;
    part(data, 0, 0);
    part(data, 1, 0);
}

void ct_frame_contact(const ct_window *window, const ct_entries bodies[2], ct_contact *contact, ct_run_both run_both,
                      void *context) {
    struct frame f = {.window = window, .bodies = bodies, .contact = contact, .units = ct_frame_units(window)};
    if (!run_both) run_both = one_after_the_other;
    run_both(context, generalized, &f);
    f.has_normal = ct_frame_normal(contact, contact->generalized_gradient[0]);
    f.scale = ct_barycentre_scale(window);
    run_both(context, barycentre, &f);
    ct_frame_finish(window, f.side, f.has_normal, f.scale, contact);
}

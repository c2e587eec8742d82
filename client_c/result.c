/* result.c - the answer to a step as the caller sees it: its own handles, and arrays that are aligned. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client_c/client.h"

/* Frames come at any address. NULL with *ok left: absent; *ok false: out of memory. */
static const void *aligned(ctc_step *step, int slot, const wire_array *array, bool *ok) {
    size_t element = wire_dtype_size(array->dtype), bytes = (size_t)array->count * element;
    if (array->dtype == WIRE_NONE) return NULL;
    if ((uintptr_t)array->data % element == 0) return array->data;
    void *copy = realloc(step->aligned[slot], bytes ? bytes : 1); /* an empty array may lie anywhere too */
    if (!copy) {
        *ok = false;
        return NULL;
    }
    step->aligned[slot] = copy;
    return memcpy(copy, array->data, bytes);
}

bool ctc_make_result(contactd_client *client, ctc_step *step) {
    const wire_step_result *r = &step->answer.u.step_result;
    ctc_scene *scene = client->scenes[step->scene - 1];
    bool ok = true;
    const uint32_t *vertices = aligned(step, 0, &r->vertices, &ok);
    const double *gradient = aligned(step, 1, &r->gradient, &ok), *weights = aligned(step, 2, &r->weights, &ok);
    const double *forces = aligned(step, 3, &r->forces, &ok);
    const float *spans = aligned(step, 4, &r->spans, &ok);
    const uint8_t *axes = aligned(step, 5, &r->span_axes, &ok);
    const uint32_t *product_vertices = aligned(step, 6, &r->product_vertices, &ok);
    const double *products = aligned(step, 7, &r->products, &ok);
    const double *generalized = aligned(step, 8, &r->generalized_products, &ok);
    const double *friction = aligned(step, 9, &r->friction_forces, &ok);
    const bool has_products = product_vertices && products && generalized;
    if (!ok ||
        (r->n_contacts && !ctc_grow32(&step->contacts, r->n_contacts - 1, &step->cap_contacts, sizeof *step->contacts)))
        return false;
    if (r->n_warnings && !ctc_grow32(&step->warnings, r->n_warnings - 1, &step->cap_warnings, sizeof *step->warnings))
        return false;
    for (uint32_t i = 0; i < r->n_warnings; i++)
        step->warnings[i] = (contactd_warning){.code = r->warnings[i].code,
                                               .body = ctc_body_of(scene, r->warnings[i].body),
                                               .value = r->warnings[i].value};
    for (uint32_t i = 0; i < r->n_contacts; i++) {
        const wire_contact *from = &r->contacts[i];
        contactd_contact *to = &step->contacts[i];
        *to = (contactd_contact){.volume = from->volume,
                                 .error_bound = from->error_bound,
                                 .error_estimate = from->error_estimate,
                                 .area = from->area,
                                 .depth = from->depth,
                                 .index = from->index,
                                 .max_winding = from->max_winding,
                                 .inverted_triangles = from->inverted_triangles,
                                 .spin = from->spin,
                                 .n_spans = spans ? from->n_spans : 0,
                                 .spans = spans ? spans + 6 * from->first_span : NULL,
                                 .span_axes = axes ? axes + from->first_span : NULL};
        memcpy(to->volumes, from->volumes, sizeof to->volumes);
        memcpy(to->normal, from->normal, sizeof to->normal);
        memcpy(to->tangents, from->tangents, sizeof to->tangents);
        memcpy(to->center, from->center, sizeof to->center);
        memcpy(to->generalized_gradient, from->generalized, sizeof to->generalized_gradient);
        memcpy(to->side_center, from->side_centers, sizeof to->side_center);
        memcpy(to->relative_velocity, from->relative_velocity, sizeof to->relative_velocity);
        memcpy(to->friction, from->friction, sizeof to->friction);
        if (has_products) to->generalized_product = generalized + (size_t)i * r->directions * 12;
        for (int k = 0; k < 3; k++) {
            to->inertia[k][k] = from->inertia[k];
            to->inertia[k][(k + 1) % 3] = to->inertia[(k + 1) % 3][k] = from->inertia[3 + k];
        }
        for (int b = 0; b < 2; b++) {
            uint64_t first = from->first[b];
            if (has_products)
                to->products[b] = (contactd_products){.n = from->count_product[b],
                                                      .vertices = product_vertices + from->first_product[b],
                                                      .values = products + from->first_product[b] * r->directions * 3};
            to->bodies[b] = ctc_body_of(scene, from->body[b]);
            to->sparse[b] = (contactd_sparse){.n = from->count[b],
                                              .vertices = vertices ? vertices + first : NULL,
                                              .gradient = gradient ? gradient + 3 * first : NULL,
                                              .weights = weights ? weights + first : NULL,
                                              .forces = forces ? forces + 3 * first : NULL,
                                              .friction = friction ? friction + 3 * first : NULL};
        }
    }
    const wire_settings *settings = r->revision ? &r->settings : &scene->settings;
    const bool has_frames = step->want & CONTACTD_WANT_ALL || (r->n_contacts && r->contacts[0].has_slip);
    if (has_frames && !ctc_continue_frames(scene, step->contacts, r->n_contacts)) return false;
    step->result = (contactd_result){.n_contacts = r->n_contacts,
                                     .contacts = step->contacts,
                                     .method = wire_method_name(r->method),
                                     .backend = r->backend,
                                     .pairs = r->pairs,
                                     .rays = r->rays,
                                     .fragments = r->fragments,
                                     .ended = wire_ended_name(r->ended),
                                     .passes = r->passes,
                                     .n_warnings = r->n_warnings,
                                     .warnings = step->warnings,
                                     .n_directions = has_products ? r->directions : 0,
                                     .latency_us = (double)(step->answered_ns - step->submitted_ns) * 1e-3};
    step->result.has_slip = r->n_contacts > 0;
    for (uint32_t i = 0; i < r->n_contacts; i++) step->result.has_slip &= r->contacts[i].has_slip;
    memcpy(step->result.timings_us, r->timings_us, sizeof step->result.timings_us);
    contactd_settings_init(&step->result.settings);
    step->result.settings.method = wire_method_name(settings->method);
    memcpy(step->result.settings.resolution, settings->resolution, sizeof settings->resolution);
    step->result.settings.pixel_size = settings->pixel_size;
    step->result.settings.stiffness = settings->stiffness;
    step->result.settings.patches = settings->patches;
    step->result.settings.tolerance = settings->tolerance;
    step->result.settings.tolerance_rel = settings->tolerance_rel;
    step->result.settings.strict = settings->strict;
    step->result.settings.ray_budget = (int64_t)settings->ray_budget;
    step->result.revision = r->revision;
    return true;
}

void contactd_stiffness_product(const contactd_contact *contact, double stiffness, const double *const in[2],
                                double *const out[2]) {
    if (!contact || !in || !out) return;
    const bool is_self = contact->bodies[0] == contact->bodies[1];
    double product = 0;
    for (int b = 0; b < 2; b++) {
        const contactd_sparse *s = &contact->sparse[b];
        const double *from = in[b] || !is_self ? in[b] : in[1 - b];
        if (!from || !s->gradient) continue;
        for (uint64_t i = 0; i < s->n; i++)
            for (int c = 0; c < 3; c++) product += s->gradient[3 * i + c] * from[3 * (uint64_t)s->vertices[i] + c];
    }
    for (int b = 0; b < 2; b++) {
        const contactd_sparse *s = &contact->sparse[b];
        double *to = out[b] || !is_self ? out[b] : out[1 - b];
        if (!to || !s->gradient) continue;
        for (uint64_t i = 0; i < s->n; i++)
            for (int c = 0; c < 3; c++)
                to[3 * (uint64_t)s->vertices[i] + c] -= stiffness * product * s->gradient[3 * i + c];
    }
}

double contactd_target_volume(const contactd_contact *contact, double depth) {
    return contact ? depth * contact->area : 0;
}

void contactd_hessian_product(const contactd_result *result, const contactd_contact *contact, uint32_t direction,
                              double *const out[2]) {
    if (!result || !contact || !out || direction >= result->n_directions) return;
    const bool is_self = contact->bodies[0] == contact->bodies[1];
    for (int b = 0; b < 2; b++) {
        const contactd_products *p = &contact->products[b];
        double *to = out[b] || !is_self ? out[b] : out[1 - b];
        for (uint64_t i = 0; to && i < p->n; i++)
            for (uint64_t c = 0; c < 3; c++)
                to[3 * (uint64_t)p->vertices[i] + c] += p->values[3 * (i * result->n_directions + direction) + c];
    }
}

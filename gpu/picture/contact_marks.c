/* contact_marks.c - the contacts of a step as marks: normals, and gradients of vertices. Films are in films.c. */
#include <math.h>
#include <string.h>

#include "gpu/picture/picture.h"

/* Of the picture's shorter side: arrows along the largest gradient, and along normals. */
static const double GRADIENT_LENGTH = 0.12, NORMAL_LENGTH = 0.2;
/* Pixels. */
static const double GRADIENT_WIDTH = 1.5, NORMAL_WIDTH = 5;

static const char REMEDY[] = "show one contact, or less of it";

static double length_of(const double v[3]) {
    return sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
}

double ct_snapshot_shorter_side(const ct_snapshot *snapshot) {
    const ct_snapshot_options *o = &snapshot->options;
    return snapshot->camera.pixel * (o->width < o->height ? o->width : o->height);
}

static ct_status add_arrow(ct_snapshot *snapshot, const double from[3], const double along[3], double length,
                           const uint8_t color[4], double width, ct_error *error) {
    double at[2][3];
    for (int k = 0; k < 3; k++) {
        at[0][k] = from[k];
        at[1][k] = from[k] + along[k] * length;
    }
    return ct_marks_add(snapshot, CT_MARK_ARROW, (const double(*)[3])at, color, width, "the arrows", REMEDY, error);
}

static ct_status add_gradient(ct_snapshot *snapshot, const ct_result *result, const ct_contact *contact, double scale,
                              const uint8_t color[4], ct_error *error) {
    ct_status status = CT_OK;
    for (int part = 0; !status && part < 2; part++) {
        const size_t place = ct_snapshot_find_body(snapshot, contact->body[part]);
        for (uint64_t i = contact->first[part]; !status && i < contact->first[part] + contact->count[part]; i++) {
            double from[3];
            ct_snapshot_vertex(&snapshot->bodies[place], result->vertices[i], from);
            status = add_arrow(snapshot, from, result->gradient + 3 * i, scale, color, GRADIENT_WIDTH, error);
        }
    }
    return status;
}

/* Arrows' metres per square metre of the gradient: the largest of all shown contacts is as long as said above. */
static double scale_of_gradients(const ct_snapshot *snapshot, const ct_result *result) {
    double largest = 0;
    for (size_t i = 0; i < result->n_contacts; i++) {
        const ct_contact *contact = &result->contacts[i];
        if (!ct_snapshot_shows(&snapshot->options, contact->body)) continue;
        for (int part = 0; part < 2; part++)
            for (uint64_t k = contact->first[part]; k < contact->first[part] + contact->count[part]; k++)
                largest = fmax(largest, length_of(result->gradient + 3 * k));
    }
    return largest > 0 ? GRADIENT_LENGTH * ct_snapshot_shorter_side(snapshot) / largest : 0;
}

static bool is_of_pair(const ct_contact *a, const ct_contact *b) {
    return a->body[0] == b->body[0] && a->body[1] == b->body[1];
}

ct_status ct_mark_contacts(ct_snapshot *snapshot, const ct_result *result, ct_error *error) {
    const uint32_t show = snapshot->options.show;
    const double scale = scale_of_gradients(snapshot, result);
    ct_status status = CT_OK;
    uint32_t shown = 0;
    for (size_t i = 0; !status && i < result->n_contacts; i++) {
        const ct_contact *contact = &result->contacts[i];
        if (!ct_snapshot_shows(&snapshot->options, contact->body)) continue;
        if (show & CT_SHOW_CONTACTS && (i == 0 || !is_of_pair(contact, contact - 1))) {
            size_t n = 1;
            while (i + n < result->n_contacts && is_of_pair(contact, contact + n)) n++;
            status = ct_mark_films(snapshot, result, i, n, shown, error);
        }
        uint8_t color[4] = {0, 0, 0, 255};
        memcpy(color, ct_contact_color[shown++ % CT_CONTACT_COLORS], 3);
        if (!status && show & CT_SHOW_GRADIENTS) status = add_gradient(snapshot, result, contact, scale, color, error);
        for (int k = 0; k < 3; k++) color[k] = (uint8_t)(color[k] * 0.7); /* apart from the gradient's */
        if (!status && show & CT_SHOW_CONTACTS && length_of(contact->normal) > 0)
            status = add_arrow(snapshot, contact->center, contact->normal,
                               NORMAL_LENGTH * ct_snapshot_shorter_side(snapshot), color, NORMAL_WIDTH, error);
    }
    return status;
}

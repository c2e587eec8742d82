/* result.c - the answer to a step as the caller sees it: its own handles, and arrays that are aligned. */
#include "client_c/result.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client_c/base.h"
#include "client_c/frames.h"
#include "client_c/records.h"
#include "proto/contact_rows.h"

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

/* The arrays that contacts and cells have their entries in. NULL: not wanted, or absent. */
struct arrays {
    const uint32_t *vertices, *product_vertices;
    const double *gradient, *weights, *forces, *friction, *products, *generalized;
    const double *points;
    const uint32_t *groups, *offsets;
    const uint64_t *ids;
    const contactd_polygon *polygons;
    const contactd_polygon_vertex *corners;
    const float *spans;
    const uint8_t *axes;
    bool has_products;
};

/* The fields of contactd_contact from `bodies` on are those of ct_contact, so that they are copied in one piece. */
enum { FIELDS_END = offsetof(ct_contact, cell) + sizeof((ct_contact){0}.cell) };
static_assert(offsetof(contactd_contact, bodies) == 0 && offsetof(ct_contact, body) == 0 &&
                  offsetof(contactd_contact, index) == offsetof(ct_contact, index) &&
                  offsetof(contactd_contact, cell) == offsetof(ct_contact, cell),
              "contactd_contact begins with the fields of ct_contact");
static_assert((int)CONTACTD_TYPE_F64 == CT_CONTACT_IS_F64 && (int)CONTACTD_TYPE_U32 == CT_CONTACT_IS_U32 &&
                  (int)CONTACTD_TYPE_I32 == CT_CONTACT_IS_I32 && (int)CONTACTD_TYPE_FLAG == CT_CONTACT_IS_FLAG &&
                  (int)CONTACTD_TYPE_U64 == CT_CONTACT_IS_U64,
              "a column's type is its row's");

static_assert(sizeof(contactd_polygon) == WIRE_POLYGON * sizeof(double) &&
                  sizeof(contactd_polygon_vertex) == WIRE_POLYGON_VERTEX * sizeof(double),
              "rows of the wire are structs");

/* number: of the contact in the answer; -1: it is a cell. */
static void make_contact(ctc_scene *scene, const struct arrays *a, uint32_t directions, const ct_contact *from,
                         int64_t number, contactd_contact *to) {
    const bool has_products = a->has_products && number >= 0;
    *to = (contactd_contact){.n_points = a->points ? from->n_points : 0,
                             .points = a->points ? a->points + WIRE_POINT * from->first_point : NULL,
                             .point_groups = a->points && a->groups ? a->groups + 2 * from->first_point : NULL,
                             .point_ids = a->points && a->ids ? a->ids + from->first_point : NULL,
                             .n_polygons = a->polygons ? from->n_polygons : 0,
                             .polygons = a->polygons ? a->polygons + from->first_polygon : NULL,
                             .polygon_offsets = a->polygons ? a->offsets + from->first_polygon : NULL,
                             .polygon_vertices = a->polygons ? a->corners : NULL,
                             .n_spans = a->spans ? from->n_spans : 0,
                             .spans = a->spans ? a->spans + 6 * from->first_span : NULL,
                             .span_axes = a->axes ? a->axes + from->first_span : NULL};
    memcpy((void *)to, from, FIELDS_END);
    if (has_products) to->generalized_product = a->generalized + (size_t)number * directions * 12;
    for (int b = 0; b < 2; b++) {
        uint64_t first = from->first[b];
        if (has_products)
            to->products[b] = (contactd_products){.n = from->count_product[b],
                                                  .vertices = a->product_vertices + from->first_product[b],
                                                  .values = a->products + from->first_product[b] * directions * 3};
        to->bodies[b] = ctc_body_of(scene, from->body[b]);
        to->sparse[b] = (contactd_sparse){.n = from->count[b],
                                          .vertices = a->vertices ? a->vertices + first : NULL,
                                          .gradient = a->gradient ? a->gradient + 3 * first : NULL,
                                          .weights = a->weights ? a->weights + first : NULL,
                                          .forces = a->forces ? a->forces + 3 * first : NULL,
                                          .friction = a->friction ? a->friction + 3 * first : NULL};
    }
}

bool ctc_make_result(contactd_client *client, ctc_step *step) {
    const wire_step_result *r = &step->answer.u.step_result;
    ctc_scene *scene = client->scenes[step->scene - 1];
    bool ok = true;
    struct arrays a = {.vertices = aligned(step, 0, &r->vertices, &ok),
                       .gradient = aligned(step, 1, &r->gradient, &ok),
                       .weights = aligned(step, 2, &r->weights, &ok),
                       .forces = aligned(step, 3, &r->forces, &ok),
                       .spans = aligned(step, 4, &r->spans, &ok),
                       .axes = aligned(step, 5, &r->span_axes, &ok),
                       .product_vertices = aligned(step, 6, &r->product_vertices, &ok),
                       .products = aligned(step, 7, &r->products, &ok),
                       .generalized = aligned(step, 8, &r->generalized_products, &ok),
                       .friction = aligned(step, 9, &r->friction_forces, &ok),
                       .points = aligned(step, 10, &r->points, &ok),
                       .groups = aligned(step, 11, &r->point_groups, &ok),
                       .ids = aligned(step, 17, &r->point_ids, &ok),
                       .polygons = aligned(step, 14, &r->surface_polygons, &ok),
                       .offsets = aligned(step, 15, &r->surface_offsets, &ok),
                       .corners = aligned(step, 16, &r->surface_vertices, &ok)};
    const uint32_t *pairs = aligned(step, 12, &r->progress, &ok);
    const uint64_t *ended_ids = aligned(step, 18, &r->ended_ids, &ok);
    const double *apart = aligned(step, 13, &r->separations, &ok);
    const bool has_products = a.has_products = a.product_vertices && a.products && a.generalized;
    const uint64_t n_all = (uint64_t)r->n_contacts + r->n_cells;
    if (!ok || n_all > UINT32_MAX ||
        (n_all && !ctc_grow32(&step->contacts, (uint32_t)n_all - 1, &step->cap_contacts, sizeof *step->contacts)))
        return false;
    if (r->n_warnings && !ctc_grow32(&step->warnings, r->n_warnings - 1, &step->cap_warnings, sizeof *step->warnings))
        return false;
    const uint32_t n_progress = pairs ? (uint32_t)(r->progress.count / WIRE_PROGRESS) : 0;
    if (n_progress && !ctc_grow32(&step->progress, n_progress - 1, &step->cap_progress, sizeof *step->progress))
        return false;
    for (uint32_t i = 0; i < n_progress; i++) {
        const uint32_t *row = pairs + (size_t)WIRE_PROGRESS * i;
        step->progress[i] = (contactd_pair_progress){.bodies = {ctc_body_of(scene, row[0]), ctc_body_of(scene, row[1])},
                                                     .is_examined = row[2] != 0,
                                                     .is_refined = row[2] > 1,
                                                     .levels = {row[3], row[4]},
                                                     .ended = wire_ended_name((wire_ended)row[5])};
    }
    const uint32_t n_separations = apart ? (uint32_t)(r->separations.count / WIRE_SEPARATION) : 0;
    if (n_separations &&
        !ctc_grow32(&step->separations, n_separations - 1, &step->cap_separations, sizeof *step->separations))
        return false;
    for (uint32_t i = 0; i < n_separations; i++) {
        const double *row = apart + (size_t)WIRE_SEPARATION * i;
        contactd_separation *to = &step->separations[i];
        *to = (contactd_separation){.distance = row[2]};
        for (int b = 0; b < 2; b++)
            to->bodies[b] = ctc_body_of(scene, row[b] >= 0 && row[b] <= UINT32_MAX ? (uint32_t)row[b] : 0);
        memcpy(to->normal, row + 3, sizeof to->normal);
        memcpy(to->points, row + 6, sizeof to->points);
    }
    for (uint32_t i = 0; i < r->n_warnings; i++)
        step->warnings[i] = (contactd_warning){.code = r->warnings[i].code,
                                               .body = ctc_body_of(scene, r->warnings[i].body),
                                               .value = r->warnings[i].value};
    contactd_contact *cells = r->n_cells ? step->contacts + r->n_contacts : NULL; /* behind the contacts */
    for (uint32_t i = 0; i < r->n_cells; i++) make_contact(scene, &a, r->directions, &r->cells[i], -1, &cells[i]);
    for (uint32_t i = 0; i < r->n_contacts; i++) {
        contactd_contact *to = &step->contacts[i];
        make_contact(scene, &a, r->directions, &r->contacts[i], i, to);
        to->n_cells = (uint32_t)r->contacts[i].n_cells;
        if (to->n_cells) to->cells = cells + r->contacts[i].first_cell;
    }
    const wire_settings *settings = r->revision ? &r->settings : &scene->settings;
    const bool has_frames = step->want & CONTACTD_WANT_ALL || r->groups & (CT_CONTACT_FRAME | CT_CONTACT_SLIP);
    if (has_frames && !ctc_continue_frames(scene, step->contacts, r->n_contacts)) return false;
    step->result = (contactd_result){.n_contacts = r->n_contacts,
                                     .contacts = step->contacts,
                                     .method = ct_method_name(r->method),
                                     .backend = r->backend,
                                     .pairs = r->pairs,
                                     .rays = r->rays,
                                     .fragments = r->fragments,
                                     .ended = wire_ended_name(r->ended),
                                     .passes = r->passes,
                                     .quality = r->quality,
                                     .n_progress = n_progress,
                                     .progress = step->progress,
                                     .n_separations = n_separations,
                                     .separations = step->separations,
                                     .n_ended_ids = ended_ids ? r->ended_ids.count : 0,
                                     .ended_ids = ended_ids,
                                     .n_warnings = r->n_warnings,
                                     .warnings = step->warnings,
                                     .n_directions = has_products ? r->directions : 0,
                                     .latency_us = (double)(step->answered_ns - step->submitted_ns) * 1e-3};
    step->result.groups = r->groups | (step->want & CONTACTD_WANT_IDS ? CT_CONTACT_IDS : 0u);
    step->result.has_slip = r->groups & CT_CONTACT_SLIP;
    step->result.has_wrenches = r->groups & CT_CONTACT_LAW;
    memcpy(step->result.timings_us, r->timings_us, sizeof step->result.timings_us);
    memcpy(step->result.wall_us, r->wall_us, sizeof step->result.wall_us);
    step->result.settings = settings->to;
    step->result.revision = r->revision;
    return true;
}

contactd_code contactd_result_column(const contactd_result *result, contactd_column_id id, contactd_column *out) {
    if (!out) return CONTACTD_INVALID_ARGUMENT;
    *out = (contactd_column){0};
    if (!result) return CONTACTD_INVALID_ARGUMENT;
    ct_contact_row row = {"bodies", CT_CONTACT_IS_U32, offsetof(ct_contact, body), 1, 2, 0, CONTACTD_COLUMN_BODIES, ""};
    for (int k = 0; k < CT_CONTACT_ROWS && row.id != (int)id; k++) row = ct_contact_rows[k];
    if (row.id != (int)id) return CONTACTD_INVALID_ARGUMENT;
    /* NaN stands for what a method does not give of the other groups. */
    const unsigned given = result->groups | CT_CONTACT_BOUNDS | CT_CONTACT_INTERVAL;
    if (result->n_contacts && row.group && !(row.group & given)) return CONTACTD_NOT_FOUND;
    *out = (contactd_column){.data = result->n_contacts ? (const char *)result->contacts + row.offset : NULL,
                             .stride = sizeof *result->contacts,
                             .n = result->n_contacts,
                             .type = (contactd_column_type)row.type,
                             .rows = row.rows ? (uint32_t)row.rows : 1,
                             .columns = row.columns ? (uint32_t)row.columns : 1,
                             .name = row.name,
                             .unit = row.unit};
    return CONTACTD_OK;
}

bool ctc_lacks_gradient(const contactd_contact *contact) {
    return !isnan(contact->volume_lower) && contact->sparse[0].n + contact->sparse[1].n == 0;
}

contactd_code contactd_stiffness_product(const contactd_contact *contact, double stiffness, const double *const in[2],
                                         double *const out[2]) {
    if (!contact || !in || !out) return CONTACTD_INVALID_ARGUMENT;
    if (ctc_lacks_gradient(contact)) return CONTACTD_UNSUPPORTED;
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
    return CONTACTD_OK;
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

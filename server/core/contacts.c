/* contacts.c - see contacts.h. */
#include "server/core/contacts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/contact_rows.h"

/* ---- one ---- */

/* A field as its row says: a number, a list, or a list of lists. */
static void field(json_out *out, const ct_contact_row *row, const ct_contact *contact) {
    const char *at = (const char *)contact + row->offset;
    if (row->type == CT_CONTACT_IS_U32) {
        json_out_integer(out, row->name, *(const uint32_t *)(const void *)at);
    } else if (row->type == CT_CONTACT_IS_U64) {
        json_out_integer(out, row->name, *(const uint64_t *)(const void *)at);
    } else if (row->type == CT_CONTACT_IS_FLAG) {
        json_out_bool(out, row->name, *(const bool *)(const void *)at);
    } else if (row->type == CT_CONTACT_IS_I32) {
        json_out_array(out, row->name);
        for (int i = 0; i < row->columns; i++) json_out_number(out, NULL, ((const int32_t *)(const void *)at)[i]);
        json_out_array_end(out);
    } else if (!row->rows) {
        json_out_number(out, row->name, *(const double *)(const void *)at);
    } else if (row->rows == 1) {
        json_out_numbers(out, row->name, (const double *)(const void *)at, (size_t)row->columns);
    } else {
        json_out_array(out, row->name);
        for (int i = 0; i < row->rows; i++)
            json_out_numbers(out, NULL, (const double *)(const void *)at + i * row->columns, (size_t)row->columns);
        json_out_array_end(out);
    }
}

void report_contact_fields(json_out *out, const ct_result *result, const ct_contact *contact, unsigned groups) {
    if (result->want & CT_WANT_INERTIA && !(groups & CT_CONTACT_CELL)) groups |= CT_CONTACT_INERTIA;
    if (result->method == CT_METHOD_VOXTREE) groups |= CT_CONTACT_INTERVAL;
    json_out_array(out, "bodies");
    json_out_integer(out, NULL, contact->body[0]);
    json_out_integer(out, NULL, contact->body[1]);
    json_out_array_end(out);
    if (result->want & CT_WANT_FRAME) groups |= CT_CONTACT_FRAME;
    if (result->has_slip) groups |= CT_CONTACT_SLIP;
    if (result->has_wrenches && !(groups & CT_CONTACT_CELL)) groups |= CT_CONTACT_LAW;
    if (result->want & CT_WANT_IDS && !(groups & CT_CONTACT_CELL)) groups |= CT_CONTACT_IDS;
    if (!isnan(contact->error_bounds[0])) groups |= CT_CONTACT_BOUNDS;
    for (int k = 0; k < CT_CONTACT_ROWS; k++) {
        const ct_contact_row *row = &ct_contact_rows[k];
        if (!row->group || row->group & groups) field(out, row, contact);
    }
}

void report_contact_points(json_out *out, const ct_result *result, const ct_contact *contact) {
    if (result->method != CT_METHOD_VOXTREE && !contact->n_points) return;
    json_out_array(out, "points");
    for (uint64_t i = 0; i < contact->n_points && out->state == JSON_OUT_OK; i++) {
        const ct_point *point = &result->points[contact->first_point + i];
        json_out_object(out, NULL);
        json_out_numbers(out, "position", point->position, 3);
        json_out_numbers(out, "normal", point->normal, 3);
        json_out_number(out, "depth", point->depth);
        json_out_number(out, "weight", point->weight);
        if (result->method != CT_METHOD_VOXTREE) json_out_number(out, "area", point->weight * contact->area);
        json_out_array(out, "group");
        for (int b = 0; b < 2; b++)
            json_out_number(out, NULL, point->group[b] == CT_NO_GROUP ? NAN : point->group[b]); /* null: the inside */
        json_out_array_end(out);
        if (result->want & CT_WANT_IDS) json_out_integer(out, "id", point->id);
        json_out_object_end(out);
    }
    json_out_array_end(out);
}

/* ---- the order ---- */

typedef struct place {
    double key; /* the largest first */
    const ct_contact *contact;
} place;

static int compare(const void *a, const void *b) {
    const place *x = a, *y = b;
    if (x->key != y->key) return x->key > y->key ? -1 : 1;
    return (x->contact > y->contact) - (x->contact < y->contact);
}

static double key_of(const ct_contact *contact, contact_order order) {
    return order == CONTACTS_BY_VOLUME  ? contact->volume
           : order == CONTACTS_BY_DEPTH ? contact->depth
           : order == CONTACTS_BY_ID    ? -(double)contact->id
                                        : 0;
}

/* The contacts that are wanted, on whatever page; *n of them. NULL: out of memory. */
static place *list(const ct_result *result, const contact_page *page, size_t *n) {
    place *places = malloc((result->n_contacts + 1) * sizeof *places);
    *n = 0;
    for (size_t i = 0; places && i < result->n_contacts; i++) {
        const ct_contact *contact = &result->contacts[i];
        if (page->body && contact->body[0] != page->body && contact->body[1] != page->body) continue;
        places[(*n)++] = (place){key_of(contact, page->order), contact};
    }
    if (places && page->order != CONTACTS_BY_PLACE) qsort(places, *n, sizeof *places, compare);
    return places;
}

/* ---- the answer ---- */

static bool fail_without(const scene_record *scene, const step_answer *last, server_error *error) {
    char object[48];
    snprintf(object, sizeof object, "scene %" PRIu64, scene->handle);
    if (last)
        return server_fail(error, CONTACTD_CONFLICT, object, "scene",
                           "the last step failed, so there are no contacts of it");
    return server_fail(error, CONTACTD_CONFLICT, object, "scene",
                       "the contacts of step %" PRIu64 " are not kept any more: answers had to make room for others "
                       "(--scene-memory). Those of the next step will be there",
                       scene->steps);
}

bool report_contacts(json_out *out, const scene_record *scene, const step_answer *last, const contact_page *page,
                     server_error *error) {
    size_t n = 0;
    const ct_result *result = last ? step_answer_result(last) : NULL;
    if (!result && scene->steps) return fail_without(scene, last, error);
    place *places = result ? list(result, page, &n) : NULL;
    if (result && !places)
        return server_fail(error, CONTACTD_OUT_OF_MEMORY, "contacts", "", "no memory for a list of contacts");
    json_out_object(out, NULL);
    json_out_integer(out, "scene", scene->handle);
    json_out_integer(out, "step", last ? step_answer_steps(last) : scene->steps);
    json_out_integer(out, "total", n);
    json_out_integer(out, "offset", page->offset);
    json_out_array(out, "contacts");
    for (uint64_t i = page->offset; i < n && i - page->offset < page->limit; i++) {
        json_out_object(out, NULL);
        report_contact_fields(out, result, places[i].contact, 0);
        report_contact_points(out, result, places[i].contact);
        json_out_object_end(out);
    }
    json_out_array_end(out);
    json_out_object_end(out);
    free(places);
    return true;
}

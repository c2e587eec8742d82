/* answers.c - see answers.h. */
#include "server/http/answers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/contact_rows.h"
#include "proto/setting_rows.h"
#include "server/core/contacts.h"

static void repair(json_out *out, const ct_mesh_changes *changes) {
    static const char *const names[CT_CHANGE_KINDS] = {
        [CT_CHANGE_DEGENERATE] = "degenerate_triangles",
        [CT_CHANGE_DUPLICATE] = "duplicate_triangles",
        [CT_CHANGE_WELDED] = "welded_vertices",
        [CT_CHANGE_TURNED] = "turned_triangles",
        [CT_CHANGE_FILLED] = "filled_holes",
    };
    json_out_object(out, "repair");
    json_out_bool(out, "changed", changes->is_changed);
    json_out_integer(out, "fill_triangles", changes->fill_triangles);
    json_out_number(out, "moved", changes->moved);
    json_out_number(out, "self_overlap", changes->self_overlap < 0 ? NAN : changes->self_overlap);
    for (int k = 0; k < CT_CHANGE_KINDS; k++) {
        const ct_mesh_change *change = &changes->of[k];
        json_out_object(out, names[k]);
        json_out_integer(out, "count", change->count);
        json_out_array(out, "first");
        for (uint64_t i = 0; i < change->count && i < CT_CHANGE_EXAMPLES; i++) {
            json_out_object(out, NULL);
            json_out_integer(out, "index", change->first[i].index);
            json_out_numbers(out, "at", change->first[i].at, 3);
            if (k == CT_CHANGE_FILLED) json_out_integer(out, "edges", change->first[i].edges);
            json_out_object_end(out);
        }
        json_out_array_end(out);
        json_out_object_end(out);
    }
    json_out_object_end(out);
}

void answer_mesh(json_out *out, const mesh_record *mesh, uint64_t device_bytes, const ct_mesh_changes *changes,
                 bool was_repaired, ct_closing closing, double deviation) {
    json_out_object(out, NULL);
    json_out_integer(out, "id", mesh->handle);
    json_out_string(out, "hash", mesh->info.hash);
    json_out_string(out, "name", mesh->name);
    json_out_integer(out, "vertices", mesh->info.vertices);
    json_out_integer(out, "closing_vertices", mesh->info.closing_vertices);
    json_out_integer(out, "triangles", mesh->info.triangles);
    json_out_integer(out, "components", mesh->info.components);
    json_out_integer(out, "shells", mesh->info.shells);
    json_out_integer(out, "doubled_shells", mesh->info.doubled_shells);
    json_out_integer(out, "bytes", mesh->info.bytes);
    json_out_integer(out, "device_bytes", device_bytes);
    json_out_number(out, "volume", mesh->info.volume);
    json_out_number(out, "area", mesh->info.area);
    json_out_numbers(out, "lo", mesh->info.lo, 3);
    json_out_numbers(out, "hi", mesh->info.hi, 3);
    json_out_numbers(out, "center_of_mass", mesh->info.center_of_mass, 3);
    json_out_array(out, "inertia");
    for (int k = 0; k < 3; k++) json_out_numbers(out, NULL, mesh->info.inertia[k], 3);
    json_out_array_end(out);
    json_out_integer(out, "bodies", mesh->bodies);
    if (closing == CT_CLOSING_HULL) json_out_string(out, "closing", "hull");
    if (closing == CT_CLOSING_WRAP) {
        json_out_string(out, "closing", "wrap");
        json_out_number(out, "deviation", deviation);
    }
    if (changes && changes->uneven_polygons) {
        json_out_integer(out, "uneven_polygons", changes->uneven_polygons);
        json_out_number(out, "unevenness", changes->unevenness);
    }
    if (changes && was_repaired) repair(out, changes);
    json_out_object_end(out);
}

static void setting(json_out *out, const ct_setting_row *row, const ct_scene_settings *settings) {
    switch (row->type) {
    case CT_SETTING_IS_F64:
        json_out_number(out, row->name, ct_setting_number(row, settings));
        break;
    case CT_SETTING_IS_FLAG:
        json_out_bool(out, row->name, ct_setting_integer(row, settings, 0) == 1);
        break;
    case CT_SETTING_IS_CHOICE:
        json_out_string(out, row->name, ct_setting_choice_name(row, ct_setting_integer(row, settings, 0)));
        break;
    case CT_SETTING_IS_U32:
    case CT_SETTING_IS_U64:
        json_out_integer(out, row->name, (uint64_t)ct_setting_integer(row, settings, 0));
        break;
    case CT_SETTING_IS_U32X3:
        if (ct_setting_is_zero(row, settings)) {
            json_out_number(out, row->name, NAN); /* null: none is named */
            break;
        }
        json_out_array(out, row->name);
        for (int i = 0; i < 3; i++) json_out_integer(out, NULL, (uint64_t)ct_setting_integer(row, settings, i));
        json_out_array_end(out);
    }
}

static void settings(json_out *out, const ct_scene_settings *settings, uint64_t revision) {
    for (int s = 0; s < CT_SETTINGS; s++) setting(out, &ct_setting_rows[s], settings);
    json_out_integer(out, "revision", revision);
}

void answer_scene(json_out *out, const scene_record *scene) {
    json_out_object(out, NULL);
    json_out_integer(out, "id", scene->handle);
    json_out_string(out, "name", scene->name);
    json_out_string(out, "running_method", ct_method_name(scene->running.method));
    settings(out, &scene->settings, scene->revision);
    json_out_integer(out, "bodies", scene->bodies);
    json_out_integer(out, "bytes", scene->bytes);
    json_out_integer(out, "device_bytes", scene->device_bytes);
    json_out_integer(out, "steps", scene->steps);
    json_out_integer(out, "contacts", scene->contacts);
    json_out_integer(out, "pending", scene->pending);
    json_out_string(out, "owner", scene->owner_name);
    json_out_number(out, "ttl_s", scene->ttl_s && scene->owner == SESSION_NONE ? scene->ttl_s : NAN); /* null: none */
    json_out_object_end(out);
}

static void phases(json_out *out, const char *key, double queue_seconds, const double seconds[CT_PHASES],
                   double divisor) {
    json_out_object(out, key);
    json_out_number(out, "queue", queue_seconds * 1e6 / divisor);
    for (int phase = 0; phase < CT_PHASES; phase++)
        json_out_number(out, ct_phase_name((ct_phase)phase), seconds[phase] * 1e6 / divisor);
    json_out_object_end(out);
}

/* Of one step or a sum over steps, divided by `divisor`: summed over threads, and by the clock. */
static void timings(json_out *out, double queue_seconds, const double seconds[CT_PHASES],
                    const double wall_seconds[CT_PHASES], double divisor) {
    phases(out, "timings_us", queue_seconds, seconds, divisor);
    phases(out, "wall_us", queue_seconds, wall_seconds, divisor);
}

static int by_value(const void *a, const void *b) {
    const float *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* The smallest latency that at least a share q of the steps did not exceed; null if there was no step. */
static void percentile(json_out *out, const char *key, const float *sorted, size_t n, double q) {
    size_t rank = (size_t)ceil(q * (double)n);
    json_out_number(out, key, n ? (double)sorted[rank ? rank - 1 : 0] * 1e6 : NAN);
}

void answer_stats(json_out *out, const scene_record *scene, float *latencies, size_t n) {
    json_out_object(out, NULL);
    json_out_integer(out, "scene", scene->handle);
    json_out_integer(out, "bodies", scene->bodies);
    json_out_integer(out, "bytes", scene->bytes);
    json_out_integer(out, "device_bytes", scene->device_bytes);
    json_out_integer(out, "steps", scene->steps);
    json_out_integer(out, "failed", scene->failed);
    json_out_integer(out, "pending", scene->pending);
    json_out_integer(out, "sequence", scene->sequence);
    json_out_number(out, "age_s", scene->age_s);
    json_out_number(out, "idle_s", scene->idle_s);
    json_out_object(out, "last");
    json_out_integer(out, "contacts", scene->contacts);
    json_out_number(out, "volume", scene->volume);
    json_out_integer(out, "pairs", scene->pairs);
    json_out_integer(out, "rays", scene->rays);
    json_out_integer(out, "fragments", scene->fragments);
    timings(out, scene->queue_s, scene->phase_s, scene->wall_s, 1);
    json_out_object_end(out);
    json_out_object(out, "total");
    timings(out, scene->total_queue_s, scene->total_phase_s, scene->total_wall_s, 1);
    json_out_object_end(out);
    json_out_object(out, "mean");
    timings(out, scene->total_queue_s, scene->total_phase_s, scene->total_wall_s,
            scene->steps ? (double)scene->steps : 1);
    json_out_object_end(out);
    qsort(latencies, n, sizeof *latencies, by_value);
    json_out_object(out, "latency_us");
    json_out_integer(out, "steps", n);
    percentile(out, "p50", latencies, n, 0.5);
    percentile(out, "p90", latencies, n, 0.9);
    percentile(out, "p99", latencies, n, 0.99);
    percentile(out, "max", latencies, n, 1);
    json_out_object_end(out);
    json_out_object_end(out);
}

/* ---- steps ---- */

static void rows(json_out *out, const char *key, const double *values, uint64_t n) {
    json_out_array(out, key);
    for (uint64_t i = 0; i < n; i++) json_out_numbers(out, NULL, values + 3 * i, 3);
    json_out_array_end(out);
}

static void sparse(json_out *out, const ct_result *result, const ct_contact *contact) {
    json_out_array(out, "sparse");
    for (int i = 0; i < 2; i++) {
        uint64_t first = contact->first[i], n = contact->count[i];
        json_out_object(out, NULL);
        json_out_integer(out, "body", contact->body[i]);
        json_out_array(out, "vertices");
        for (uint64_t k = 0; k < n; k++) json_out_integer(out, NULL, result->vertices[first + k]);
        json_out_array_end(out);
        if (result->gradient) rows(out, "gradient", result->gradient + 3 * first, n);
        if (result->weights) json_out_numbers(out, "friction_weights", result->weights + first, n);
        if (result->forces) rows(out, "forces", result->forces + 3 * first, n);
        if (result->friction_forces) rows(out, "friction_forces", result->friction_forces + 3 * first, n);
        json_out_object_end(out);
    }
    json_out_array_end(out);
}

/* Of contact `index` of the result. */
static void products(json_out *out, const ct_result *result, size_t index) {
    const ct_contact *contact = &result->contacts[index];
    const uint64_t k = result->n_directions;
    json_out_array(out, "products");
    for (int i = 0; i < 2; i++) {
        const uint64_t first = contact->first_product[i], n = contact->count_product[i];
        json_out_object(out, NULL);
        json_out_integer(out, "body", contact->body[i]);
        json_out_array(out, "vertices");
        for (uint64_t v = 0; v < n; v++) json_out_integer(out, NULL, result->product_vertices[first + v]);
        json_out_array_end(out);
        json_out_array(out, "values");
        for (uint64_t v = 0; v < n && out->state == JSON_OUT_OK; v++)
            rows(out, NULL, result->products + 3 * k * (first + v), k);
        json_out_array_end(out);
        json_out_object_end(out);
    }
    json_out_array_end(out);
    json_out_array(out, "generalized_product");
    for (uint64_t d = 0; d < k; d++) {
        json_out_array(out, NULL);
        for (uint64_t i = 0; i < 2; i++)
            json_out_numbers(out, NULL, result->generalized_product + 12 * (index * k + d) + 6 * i, 6);
        json_out_array_end(out);
    }
    json_out_array_end(out);
}

static void spans(json_out *out, const ct_result *result, const ct_contact *contact) {
    json_out_array(out, "spans");
    for (uint64_t i = 0; i < contact->n_spans && out->state == JSON_OUT_OK; i++) {
        const ct_span *span = &result->spans[contact->first_span + i];
        json_out_object(out, NULL);
        json_out_floats(out, "lower", span->lower, 3);
        json_out_floats(out, "upper", span->upper, 3);
        json_out_integer(out, "axis", span->axis);
        json_out_integer(out, "lower_body", contact->body[span->lower_body & 1]);
        json_out_object_end(out);
    }
    json_out_array_end(out);
}

/* Columns of a contact's polygons. */
static void polygon_vectors(json_out *out, const char *name, const ct_surface_polygon *of, uint64_t n, size_t offset) {
    json_out_array(out, name);
    for (uint64_t i = 0; i < n && out->state == JSON_OUT_OK; i++)
        json_out_numbers(out, NULL, (const double *)(const void *)((const char *)&of[i] + offset), 3);
    json_out_array_end(out);
}

static void polygon_corners(json_out *out, const ct_surface_vertex *of, uint64_t n) {
    json_out_array(out, "vertices");
    for (uint64_t i = 0; i < n && out->state == JSON_OUT_OK; i++) json_out_numbers(out, NULL, of[i].position, 3);
    json_out_array_end(out);
    json_out_array(out, "depths");
    for (uint64_t i = 0; i < n && out->state == JSON_OUT_OK; i++) json_out_number(out, NULL, of[i].depth);
    json_out_array_end(out);
    json_out_array(out, "pressures");
    for (uint64_t i = 0; i < n && out->state == JSON_OUT_OK; i++) json_out_number(out, NULL, of[i].pressure);
    json_out_array_end(out);
}

/* Only of a step that wants a surface. */
static void surface(json_out *out, const ct_result *result, const ct_contact *contact) {
    const uint64_t n = contact->n_polygons;
    const ct_surface_polygon *polygons = result->polygons + contact->first_polygon;
    const uint32_t *first = result->polygon_first + contact->first_polygon;
    json_out_object(out, "surface");
    json_out_array(out, "offsets");
    for (uint64_t i = 0; i <= n && out->state == JSON_OUT_OK; i++) json_out_integer(out, NULL, first[i] - first[0]);
    json_out_array_end(out);
    polygon_corners(out, result->polygon_vertices + first[0], first[n] - first[0]);
    json_out_array(out, "areas");
    for (uint64_t i = 0; i < n && out->state == JSON_OUT_OK; i++) json_out_number(out, NULL, polygons[i].area);
    json_out_array_end(out);
    polygon_vectors(out, "centers", polygons, n, offsetof(ct_surface_polygon, center));
    polygon_vectors(out, "normals", polygons, n, offsetof(ct_surface_polygon, normal));
    polygon_vectors(out, "slips", polygons, n, offsetof(ct_surface_polygon, slip));
    polygon_vectors(out, "forces", polygons, n, offsetof(ct_surface_polygon, force));
    polygon_vectors(out, "torques", polygons, n, offsetof(ct_surface_polygon, torque));
    json_out_object_end(out);
}

/* Only of a step with a margin. */
static void separations(json_out *out, const ct_result *result) {
    json_out_array(out, "separations");
    for (size_t i = 0; i < result->n_separations && out->state == JSON_OUT_OK; i++) {
        const ct_separation *pair = &result->separations[i];
        json_out_object(out, NULL);
        json_out_array(out, "bodies");
        for (int b = 0; b < 2; b++) json_out_integer(out, NULL, pair->body[b]);
        json_out_array_end(out);
        json_out_number(out, "distance", pair->distance);
        json_out_numbers(out, "normal", pair->normal, 3);
        json_out_array(out, "points");
        for (int b = 0; b < 2; b++) json_out_numbers(out, NULL, pair->point[b], 3);
        json_out_array_end(out);
        json_out_object_end(out);
    }
    json_out_array_end(out);
}

static void progress(json_out *out, const ct_result *result) {
    json_out_array(out, "progress");
    for (uint64_t i = 0; i < result->n_progress && out->state == JSON_OUT_OK; i++) {
        const ct_pair_progress *pair = &result->progress[i];
        json_out_object(out, NULL);
        json_out_array(out, "bodies");
        for (int b = 0; b < 2; b++) json_out_integer(out, NULL, pair->body[b]);
        json_out_array_end(out);
        json_out_bool(out, "examined", pair->is_examined);
        json_out_bool(out, "refined", pair->is_refined);
        json_out_array(out, "levels");
        for (int b = 0; b < 2; b++) json_out_integer(out, NULL, pair->level[b]);
        json_out_array_end(out);
        json_out_string(out, "ended", ct_ended_name(pair->ended));
        json_out_object_end(out);
    }
    json_out_array_end(out);
}

/* What their vertices have. */
static void contact_entries(json_out *out, const ct_result *result, const ct_contact *contact) {
    if (!(result->want & (CT_WANT_GRADIENT | CT_WANT_FRICTION | CT_WANT_FORCES))) return;
    json_out_array(out, "gradient_nonzeros");
    json_out_integer(out, NULL, contact->count[0]);
    json_out_integer(out, NULL, contact->count[1]);
    json_out_array_end(out);
    sparse(out, result, contact);
}

static void cells(json_out *out, const ct_result *result, const ct_contact *contact) {
    json_out_array(out, "cells");
    for (uint64_t i = 0; i < contact->n_cells && out->state == JSON_OUT_OK; i++) {
        const ct_contact *cell = &result->cells[contact->first_cell + i];
        json_out_object(out, NULL);
        report_contact_fields(out, result, cell, CT_CONTACT_CELL);
        contact_entries(out, result, cell);
        json_out_object_end(out);
    }
    json_out_array_end(out);
}

static void contact_answer(json_out *out, const ct_result *result, const ct_contact *contact) {
    json_out_object(out, NULL);
    report_contact_fields(out, result, contact, 0);
    contact_entries(out, result, contact);
    if (contact->n_cells) cells(out, result, contact);
    if (result->n_directions) products(out, result, (size_t)(contact - result->contacts));
    if (result->want & CT_WANT_SPANS) spans(out, result, contact);
    report_contact_points(out, result, contact);
    if (result->polygons) surface(out, result, contact);
    json_out_object_end(out);
}

void answer_settings(json_out *out, const ct_scene_settings *of, uint64_t revision) {
    settings(out, of, revision);
}

static void warnings(json_out *out, const ct_result *result) {
    json_out_array(out, "warnings");
    for (size_t i = 0; i < result->n_warnings && out->state == JSON_OUT_OK; i++) {
        json_out_object(out, NULL);
        json_out_string(out, "code", ct_warning_name(result->warnings[i].code));
        json_out_integer(out, "body", result->warnings[i].body);
        json_out_number(out, "volume", result->warnings[i].value);
        json_out_object_end(out);
    }
    json_out_array_end(out);
}

void answer_overlap(json_out *out, const step_answer *answer, const char *backend) {
    const ct_result *result = step_answer_result(answer);
    json_out_object(out, NULL);
    json_out_array(out, "contacts");
    for (size_t i = 0; i < result->n_contacts && out->state == JSON_OUT_OK; i++)
        contact_answer(out, result, &result->contacts[i]);
    json_out_array_end(out);
    json_out_string(out, "method", ct_method_name(result->method));
    json_out_string(out, "backend", backend);
    timings(out, step_answer_queue_seconds(answer), result->seconds, result->wall_seconds, 1);
    json_out_object_end(out);
}

void answer_step(json_out *out, uint64_t scene, const step_answer *answer, const char *backend) {
    const ct_result *result = step_answer_result(answer);
    uint64_t revision;
    const ct_scene_settings *in_force = step_answer_settings(answer, &revision);
    json_out_object(out, NULL);
    json_out_integer(out, "scene", scene);
    json_out_array(out, "contacts");
    for (size_t i = 0; i < result->n_contacts && out->state == JSON_OUT_OK; i++)
        contact_answer(out, result, &result->contacts[i]);
    json_out_array_end(out);
    json_out_string(out, "method", ct_method_name(result->method));
    json_out_string(out, "backend", backend);
    json_out_integer(out, "pairs", result->pairs);
    json_out_integer(out, "rays", result->rays);
    json_out_integer(out, "fragments", result->fragments);
    json_out_string(out, "ended", ct_ended_name(result->ended));
    json_out_number(out, "quality", result->quality);
    if (result->want & CT_WANT_IDS) {
        json_out_array(out, "ended_ids");
        for (size_t i = 0; i < result->n_ended_ids; i++) json_out_integer(out, NULL, result->ended_ids[i]);
        json_out_array_end(out);
    }
    if (in_force->margin > 0) separations(out, result);
    if (result->method == CT_METHOD_VOXTREE) progress(out, result);
    json_out_object(out, "settings");
    settings(out, in_force, revision);
    json_out_object_end(out);
    json_out_integer(out, "passes", result->passes);
    warnings(out, result);
    timings(out, step_answer_queue_seconds(answer), result->seconds, result->wall_seconds, 1);
    json_out_object_end(out);
}

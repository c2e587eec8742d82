/* live_events.c - see live_events.h. Arrays are base64 of little-endian numbers: text that a browser decodes at once. */
#include "server/http/live_events.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/clock.h"
#include "server/base/json_out.h"
#include "server/http/answers.h"

/* Of a frame: contacts, polygons of their surfaces, and separations. What is beyond is left out, and told. */
enum { MOST_CONTACTS = 2000, MOST_POLYGONS = 20000, MOST_SEPARATIONS = 2000 };

live_event *live_event_retain(live_event *event) {
    atomic_fetch_add_explicit(&event->references, 1, memory_order_relaxed);
    return event;
}

void live_event_release(live_event **event) {
    live_event *gone = *event;
    *event = NULL;
    if (!gone || atomic_fetch_sub_explicit(&gone->references, 1, memory_order_acq_rel) != 1) return;
    free(gone->text);
    free(gone);
}

/* Takes the text over. */
static live_event *make(char *text, size_t size) {
    live_event *event = text ? malloc(sizeof *event) : NULL;
    if (!event) {
        free(text);
        return NULL;
    }
    atomic_init(&event->references, 1);
    event->text = text;
    event->size = size;
    return event;
}

static void begin(json_out *out, const char *name, size_t limit) {
    json_out_init(out, limit);
    json_out_raw(out, "event: ", 7);
    json_out_raw(out, name, strlen(name));
    json_out_raw(out, "\ndata: ", 7);
    json_out_object(out, NULL);
}

static live_event *end(json_out *out) {
    json_out_object_end(out);
    json_out_raw(out, "\n\n", 2);
    if (out->state == JSON_OUT_OK) return make(out->data, out->size);
    json_out_free(out);
    return NULL;
}

live_event *live_heartbeat(void) {
    static const char text[] = ": still here\n\n";
    char *copy = malloc(sizeof text - 1);
    if (copy) memcpy(copy, text, sizeof text - 1);
    return make(copy, sizeof text - 1);
}

live_event *live_closed_event(const char *why, bool may_again) {
    json_out out;
    begin(&out, "closed", 4096);
    json_out_string(&out, "reason", why);
    json_out_bool(&out, "again", may_again);
    return end(&out);
}

/* ---- bodies ---- */

live_event *live_bodies_event(const live_look *look) {
    static const char *const kinds[] = {
        [CT_BODY_DEFORMABLE] = "deformable", [CT_BODY_RIGID] = "rigid", [CT_BODY_HALF_SPACE] = "half_space"};
    json_out out;
    begin(&out, "scene", look->limit);
    json_out_integer(&out, "scene", look->scene->handle);
    json_out_string(&out, "name", look->scene->name);
    json_out_string(&out, "method", ct_method_name(look->scene->running.method));
    json_out_object(&out, "settings");
    answer_settings(&out, &look->scene->settings, look->scene->revision);
    json_out_object_end(&out);
    json_out_array(&out, "bodies");
    for (size_t i = 0; i < look->n_bodies && out.state == JSON_OUT_OK; i++) {
        const body_record *body = &look->bodies[i];
        json_out_object(&out, NULL);
        json_out_integer(&out, "id", body->body);
        json_out_string(&out, "kind", kinds[body->kind]);
        if (body->kind != CT_BODY_HALF_SPACE) json_out_string(&out, "mesh", body->mesh_hash);
        json_out_integer(&out, "triangles", body->mesh_triangles);
        json_out_object_end(&out);
    }
    json_out_array_end(&out);
    return end(&out);
}

/* ---- frames ---- */

static void poses(json_out *out, const live_look *look) {
    float *data = malloc((look->n_bodies + 1) * 12 * sizeof *data);
    size_t n = 0;
    if (!data) out->state = JSON_OUT_NO_MEMORY;
    json_out_object(out, "poses");
    json_out_array(out, "ids");
    for (size_t i = 0; data && i < look->n_bodies; i++) {
        if (look->bodies[i].kind == CT_BODY_DEFORMABLE) continue;
        json_out_integer(out, NULL, look->bodies[i].body);
        for (int k = 0; k < 12; k++) data[n++] = (float)look->bodies[i].pose[k];
    }
    json_out_array_end(out);
    json_out_base64(out, "data", data, n * sizeof *data);
    json_out_object_end(out);
    free(data);
}

static void positions(json_out *out, const live_look *look) {
    const float *at = look->positions;
    json_out_array(out, "positions");
    for (size_t i = 0; i < look->n_bodies && out->state == JSON_OUT_OK; i++) {
        const body_record *body = &look->bodies[i];
        if (body->kind != CT_BODY_DEFORMABLE) continue;
        json_out_object(out, NULL);
        json_out_integer(out, "id", body->body);
        json_out_base64(out, "data", at, body->mesh_vertices * 3 * sizeof *at);
        json_out_object_end(out);
        at += 3 * body->mesh_vertices;
    }
    json_out_array_end(out);
}

/* The polygons' offsets, corners and the pressures there. */
static void surface(json_out *out, const ct_result *result, const ct_contact *contact) {
    const uint32_t *first = result->polygon_first + contact->first_polygon;
    const ct_surface_vertex *corner = result->polygon_vertices + first[0];
    const size_t n = contact->n_polygons, n_corners = first[n] - first[0];
    uint32_t *offsets = malloc((n + 1) * sizeof *offsets);
    float *vertices = malloc((n_corners + 1) * 4 * sizeof *vertices), *pressures = vertices + 3 * n_corners;
    if (offsets && vertices) {
        for (size_t i = 0; i <= n; i++) offsets[i] = first[i] - first[0];
        for (size_t i = 0; i < n_corners; i++) {
            for (int k = 0; k < 3; k++) vertices[3 * i + (size_t)k] = (float)corner[i].position[k];
            pressures[i] = (float)corner[i].pressure;
        }
        json_out_object(out, "surface");
        json_out_base64(out, "offsets", offsets, (n + 1) * sizeof *offsets);
        json_out_base64(out, "vertices", vertices, 3 * n_corners * sizeof *vertices);
        json_out_base64(out, "pressure", pressures, n_corners * sizeof *pressures);
        json_out_object_end(out);
    } else {
        out->state = JSON_OUT_NO_MEMORY;
    }
    free(offsets);
    free(vertices);
}

static void vector(json_out *out, const char *key, const double *from, size_t n) {
    float to[6];
    for (size_t k = 0; k < n; k++) to[k] = (float)from[k];
    json_out_floats(out, key, to, n);
}

/* What a picture needs of it, in float32: the whole is five times as long, and GET .../contacts has it. */
static void summary(json_out *out, const ct_result *result, const ct_contact *contact) {
    json_out_array(out, "bodies");
    for (int b = 0; b < 2; b++) json_out_integer(out, NULL, contact->body[b]);
    json_out_array_end(out);
    json_out_integer(out, "index", contact->index);
    if (result->want & CT_WANT_IDS) json_out_integer(out, "id", contact->id);
    json_out_float(out, "volume", (float)contact->volume);
    if (result->want & CT_WANT_FRAME) {
        json_out_float(out, "depth", (float)contact->depth);
        json_out_float(out, "area", (float)contact->area);
        vector(out, "center", contact->center, 3);
        vector(out, "normal", contact->normal, 3);
    }
    if (result->has_wrenches) vector(out, "wrench", contact->wrench[0], 6);
}

static void points(json_out *out, const ct_result *result, const ct_contact *contact) {
    json_out_array(out, "points");
    for (uint64_t i = 0; i < contact->n_points && out->state == JSON_OUT_OK; i++)
        vector(out, NULL, result->points[contact->first_point + i].position, 3);
    json_out_array_end(out);
}

/* Bodies without a contact that are within the scene's margin, with the closest points of their surfaces. */
static void separations(json_out *out, const ct_result *result) {
    const size_t n = result ? result->n_separations : 0, most = n < MOST_SEPARATIONS ? n : MOST_SEPARATIONS;
    json_out_array(out, "separations");
    for (size_t i = 0; i < most && out->state == JSON_OUT_OK; i++) {
        const ct_separation *pair = &result->separations[i];
        json_out_object(out, NULL);
        json_out_array(out, "bodies");
        for (int b = 0; b < 2; b++) json_out_integer(out, NULL, pair->body[b]);
        json_out_array_end(out);
        json_out_float(out, "distance", (float)pair->distance);
        json_out_array(out, "points");
        for (int b = 0; b < 2; b++) vector(out, NULL, pair->point[b], 3);
        json_out_array_end(out);
        json_out_object_end(out);
    }
    json_out_array_end(out);
    json_out_integer(out, "n_separations", n);
}

static void contacts(json_out *out, const ct_result *result, unsigned show) {
    const size_t n = result ? result->n_contacts : 0, most = n < MOST_CONTACTS ? n : MOST_CONTACTS;
    uint64_t polygons = 0;
    bool is_cut = n > most;
    json_out_array(out, "contacts");
    for (size_t i = 0; i < most && out->state == JSON_OUT_OK; i++) {
        const ct_contact *contact = &result->contacts[i];
        json_out_object(out, NULL);
        summary(out, result, contact);
        if (show & LIVE_POINTS && contact->n_points) points(out, result, contact);
        if (show & LIVE_SURFACE && result->polygons) {
            polygons += contact->n_polygons;
            if (polygons <= MOST_POLYGONS)
                surface(out, result, contact);
            else
                is_cut = true;
        }
        json_out_object_end(out);
    }
    json_out_array_end(out);
    json_out_integer(out, "n_contacts", n);
    json_out_bool(out, "truncated", is_cut);
}

live_event *live_frame_event(const live_look *look, unsigned show) {
    json_out out;
    begin(&out, "frame", look->limit);
    json_out_integer(&out, "step", look->answer ? step_answer_steps(look->answer) : look->scene->steps);
    json_out_number(&out, "time", (double)clock_ns() * 1e-9);
    poses(&out, look);
    positions(&out, look);
    const ct_result *result = look->answer ? step_answer_result(look->answer) : NULL;
    contacts(&out, result, show);
    separations(&out, result);
    return end(&out);
}

/* replay_compare.c - see replay_compare.h. */
#include "client_c/ctl/replay_compare.h"

#include <stdio.h>
#include <string.h>

#include "client_c/contactd.h"

static bool differ(char *what, size_t size, const char *field) {
    snprintf(what, size, "%s", field);
    return false;
}

static bool same_text(const char *a, const char *b) {
    return strcmp(a ? a : "", b ? b : "") == 0;
}

/* Both encoded with every array in a frame of its own. */
static bool same_encoded(const wire_message *a, const wire_message *b) {
    wire_encoder *one = wire_encoder_new(), *other = wire_encoder_new();
    wire_encoded x, y;
    bool same = one && other && wire_encode(one, a, 0, &x) && wire_encode(other, b, 0, &y) && x.n_frames == y.n_frames;
    for (size_t i = 0; same && i < x.n_frames; i++)
        same = x.frames[i].size == y.frames[i].size &&
               (x.frames[i].size == 0 || memcmp(x.frames[i].data, y.frames[i].data, x.frames[i].size) == 0);
    wire_encoder_free(&one);
    wire_encoder_free(&other);
    return same;
}

/* ---- steps ---- */

static bool same_array(const wire_array *a, const wire_array *b) {
    const size_t bytes = (size_t)a->count * wire_dtype_size(a->dtype);
    return a->dtype == b->dtype && a->count == b->count && (bytes == 0 || memcmp(a->data, b->data, bytes) == 0);
}

/* Names what differs of results that do. */
static void name_difference(const wire_step_result *a, const wire_step_result *b, char *what, size_t size) {
#define ARRAY(name)                                                                                                    \
    { #name, &a->name, &b->name }
    const struct {
        const char *name;
        const wire_array *a, *b;
    } arrays[] = {ARRAY(vertices),        ARRAY(gradient),  ARRAY(weights),          ARRAY(forces),
                  ARRAY(spans),           ARRAY(span_axes), ARRAY(product_vertices), ARRAY(products),
                  ARRAY(friction_forces), ARRAY(points),    ARRAY(point_groups),     ARRAY(progress)};
#undef ARRAY
    if (a->n_contacts != b->n_contacts) {
        snprintf(what, size, "%u contacts instead of %u", b->n_contacts, a->n_contacts);
        return;
    }
    for (uint32_t i = 0; i < a->n_contacts; i++) {
        const ct_contact *x = &a->contacts[i], *y = &b->contacts[i];
        if (memcmp(x->body, y->body, sizeof x->body) == 0 && memcmp(&x->volume, &y->volume, sizeof x->volume) == 0)
            continue;
        snprintf(what, size, "contact %u: volume %.17g of bodies %u and %u instead of %.17g of %u and %u", i, y->volume,
                 y->body[0], y->body[1], x->volume, x->body[0], x->body[1]);
        return;
    }
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        if (same_array(arrays[i].a, arrays[i].b)) continue;
        snprintf(what, size, "%s", arrays[i].name);
        return;
    }
    snprintf(what, size, "%s", a->method != b->method ? "method" : "contacts, settings or counts");
}

/* Numbers of contacts go on from what a scene had before the recording began. Both answers lie in memory of their
 * decoders, which nothing else reads. */
static void forget_ids(wire_step_result *r) {
    ct_contact *contacts = (ct_contact *)(uintptr_t)r->contacts;
    for (uint32_t i = 0; i < r->n_contacts; i++) {
        contacts[i].id = 0;
        contacts[i].is_new = false;
    }
    r->point_ids = r->ended_ids = (wire_array){0};
}

/* The settings' revision counts changes on that server. */
static void forget_times(wire_step_result *r) {
    memset(r->timings_us, 0, sizeof r->timings_us);
    r->has_wall = false;
    r->scene = 0;
    r->cached = false;
    r->backend = "";
    if (r->revision) r->revision = 1;
}

static bool agree_step(wire_message *a, wire_message *b, char *what, size_t size) {
    forget_times(&a->u.step_result);
    forget_times(&b->u.step_result);
    forget_ids(&a->u.step_result);
    forget_ids(&b->u.step_result);
    if (same_encoded(a, b)) return true;
    name_difference(&a->u.step_result, &b->u.step_result, what, size);
    return false;
}

static bool same_errors(const wire_many_result *a, const wire_many_result *b) {
    if (a->n_errors != b->n_errors) return false;
    for (uint32_t i = 0; i < a->n_errors; i++) {
        if (a->errors[i].index != b->errors[i].index || a->errors[i].error.code != b->errors[i].error.code)
            return false;
    }
    return true;
}

static uint64_t all_contacts(const wire_many_result *r) {
    uint64_t n = 0;
    for (uint32_t i = 0; i < r->n; i++) n += r->counts[i];
    return n;
}

/* The decoder has held columns against the data. */
static bool same_columns(const wire_many_result *a, const wire_many_result *b) {
    const uint64_t n = all_contacts(a);
    if (a->n_columns != b->n_columns || a->data.count != b->data.count) return false;
    for (uint32_t i = 0; i < a->n_columns; i++) {
        const wire_column *x = &a->columns[i], *y = &b->columns[i];
        if (x->field != y->field || x->dtype != y->dtype || x->width != y->width || x->offset != y->offset)
            return false;
        if (x->field == CONTACTD_COLUMN_ID || x->field == CONTACTD_COLUMN_IS_NEW) continue; /* as forget_ids */
        const size_t bytes = n * x->width * wire_dtype_size(x->dtype);
        if (bytes && memcmp((const char *)a->data.data + x->offset, (const char *)b->data.data + x->offset, bytes) != 0)
            return false;
    }
    return true;
}

static bool agree_many(const wire_many_result *a, const wire_many_result *b, char *what, size_t size) {
    if (a->n != b->n) return differ(what, size, "the number of scenes");
    if (!same_errors(a, b)) return differ(what, size, "errors");
    if (a->n && memcmp(a->counts, b->counts, a->n * sizeof *a->counts) != 0) return differ(what, size, "counts");
    if (a->n && memcmp(a->ended, b->ended, a->n) != 0) return differ(what, size, "ended");
    return same_columns(a, b) || differ(what, size, "columns");
}

/* ---- the rest ---- */

static bool agree_mesh(const wire_mesh_info *a, const wire_mesh_info *b, char *what, size_t size) {
    if (!same_text(a->hash, b->hash)) return differ(what, size, "hash");
    if (a->vertices != b->vertices || a->triangles != b->triangles) return differ(what, size, "vertices, triangles");
    if (memcmp(&a->volume, &b->volume, sizeof a->volume) != 0) return differ(what, size, "volume");
    if (memcmp(&a->area, &b->area, sizeof a->area) != 0) return differ(what, size, "area");
    bool same = memcmp(a->lo, b->lo, sizeof a->lo) == 0 && memcmp(a->hi, b->hi, sizeof a->hi) == 0;
    return same || differ(what, size, "lo, hi");
}

static void forget_scene(wire_scene_info *s) {
    wire_scene_info kept = {.settings = s->settings, .bodies = s->bodies, .running_method = s->running_method};
    *s = kept;
}

bool replay_agree(wire_message *a, wire_message *b, char *what, size_t size) {
    a->request = a->session = a->epoch = b->request = b->session = b->epoch = 0;
    if (b->type != a->type) {
        const wire_message *error = b->type == WIRE_ERROR ? b : a;
        snprintf(what, size, "%s instead of %s; %s", wire_type_name(b->type), wire_type_name(a->type),
                 error->type == WIRE_ERROR ? error->u.error.message : "");
        return false;
    }
    switch (a->type) {
    case WIRE_STEP_RESULT:
        return agree_step(a, b, what, size);
    case WIRE_MANY_RESULT:
        return agree_many(&a->u.many_result, &b->u.many_result, what, size);
    case WIRE_MESH_INFO:
        return agree_mesh(&a->u.mesh_info, &b->u.mesh_info, what, size);
    case WIRE_SCENE_INFO:
        forget_scene(&a->u.scene_info);
        forget_scene(&b->u.scene_info);
        return same_encoded(a, b) || differ(what, size, "settings");
    case WIRE_SCENES_OPENED: /* handles are this server's */
        if (a->u.scenes_opened.n != b->u.scenes_opened.n) return differ(what, size, "the number of scenes");
        a->u.scenes_opened.scenes = b->u.scenes_opened.scenes;
        a->u.scenes_opened.revision = b->u.scenes_opened.revision;
        return same_encoded(a, b) || differ(what, size, "settings");
    case WIRE_BODIES_ADDED:
        a->u.bodies_added.scene = b->u.bodies_added.scene; /* a handle of this server's */
        return same_encoded(a, b) || differ(what, size, "bodies");
    case WIRE_BODY_ADDED:
        return a->u.body_added.body == b->u.body_added.body || differ(what, size, "body");
    case WIRE_ERROR:
        if (a->u.error.code == b->u.error.code) return true;
        snprintf(what, size, "%s instead of %s", wire_code_name((int)b->u.error.code),
                 wire_code_name((int)a->u.error.code));
        return false;
    default:
        return true; /* Done, Welcome */
    }
}

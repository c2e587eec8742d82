/* snapshot.c - takes snapshots, which are copies of a scene's bodies, poses and spans, and draws them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/base/large.h"
#include "gpu/mesh/mesh.h"
#include "gpu/method/engine.h"
#include "gpu/picture/picture.h"
#include "gpu/scene/half_space_k.h"

#define MAX_SPANS       (UINT64_C(1) << 22)   /* of a snapshot: 128 MiB of span ends */
#define MAX_ALL_SPANS   (UINT64_C(1) << 24)   /* of the step that it is taken from: 0.5 GiB */
#define MAX_GLASS_BYTES (UINT64_C(256) << 20) /* of the GPU's memory, see ct_painter_draw */

/* ---- copying ---- */

bool ct_snapshot_shows(const ct_snapshot_options *o, const uint32_t body[2]) {
    const uint32_t *selected = o->contact;
    return !selected[0] || (body[0] == selected[0] && body[1] == selected[1]) ||
           (body[0] == selected[1] && body[1] == selected[0]);
}

size_t ct_snapshot_find_body(const ct_snapshot *snapshot, uint32_t id) {
    for (size_t i = 0; i < snapshot->n_bodies; i++)
        if (snapshot->bodies[i].id == id) return i;
    return SIZE_MAX;
}

static bool is_shown(const ct_snapshot_options *o, uint32_t body) {
    return !o->contact[0] || body == o->contact[0] || body == o->contact[1];
}

static ct_status copy_body(ct_scene *scene, const ct_body *from, ct_snapshot_body *to, ct_error *error) {
    to->id = from->id;
    to->mesh = ct_mesh_retain(from->mesh);
    to->rigid = from->kind == CT_BODY_RIGID;
    memcpy(to->pose, from->pose, sizeof to->pose);
    if (to->rigid) return CT_OK;
    to->positions = malloc((size_t)from->mesh->n_vertices * 12);
    if (!to->positions)
        return ct_fail(error, CT_OUT_OF_MEMORY, "snapshot", "no memory for a copy of body %u's %u positions", from->id,
                       from->mesh->n_vertices);
    ct_device *device = scene->engine->devices[scene->device].device;
    return scene->engine->backend->body_positions(device, from, to->positions, NULL, error);
}

/* The box around the bodies that are shown, half-spaces excepted. False: there is none. */
static bool find_shown_box(const ct_scene *scene, const ct_snapshot_options *options, ct_box *box) {
    bool any = false;
    for (uint32_t i = 0; i < scene->n_bodies; i++) {
        const ct_body *body = scene->bodies[i];
        if (body->is_half_space || !is_shown(options, body->id)) continue;
        for (int k = 0; k < 3; k++) {
            box->lo[k] = any ? fmin(box->lo[k], body->box.lo[k]) : body->box.lo[k];
            box->hi[k] = any ? fmax(box->hi[k], body->box.hi[k]) : body->box.hi[k];
        }
        any = true;
    }
    return any;
}

/* A half-space is drawn as a thin sheet whose top lies in the plane, opposite the other bodies and 1.5 times as wide as
 * all of them. around: the box of these; NULL: there are none, and the sheet is 2 m wide. */
static ct_status copy_half_space(const ct_body *from, const ct_box *around, ct_snapshot_body *to, ct_error *error) {
    const uint32_t n = from->mesh->n_vertices;
    double at[3] = {0, 0, 0}, half = 1;
    if (around) {
        double middle[3], square = 0;
        for (int k = 0; k < 3; k++) {
            const double side = around->hi[k] - around->lo[k];
            middle[k] = 0.5 * (around->lo[k] + around->hi[k]) - from->pose[4 * k + 3];
            square += side * side;
        }
        ct_solve_rotation(from->pose, middle, at);
        half = 0.75 * sqrt(square);
    }
    to->id = from->id;
    to->mesh = ct_mesh_retain(from->mesh);
    to->is_backdrop = around != NULL;
    to->is_half_space = true;
    for (int k = 0; k < 3; k++) {
        to->plane[k] = from->pose[4 * k + 2];
        to->plane[3] += to->plane[k] * from->pose[4 * k + 3];
    }
    for (int k = 0; k < 12; k++) to->pose[k] = k % 5 == 0;
    to->positions = malloc((size_t)n * 12);
    if (!to->positions)
        return ct_fail(error, CT_OUT_OF_MEMORY, "snapshot", "no memory for the sheet of half-space %u", from->id);
    for (uint32_t v = 0; v < n; v++) {
        const float *p = from->mesh->positions + 3 * (size_t)v; /* in -1 .. 1, -1 .. 1, -1 .. 0 */
        const double x = at[0] + half * (double)p[0], y = at[1] + half * (double)p[1], z = 0.01 * half * (double)p[2];
        for (int k = 0; k < 3; k++) {
            const double *row = from->pose + 4 * k;
            to->positions[3 * (size_t)v + (size_t)k] = (float)(row[0] * x + row[1] * y + row[2] * z + row[3]);
        }
    }
    return CT_OK;
}

static ct_status copy_bodies(ct_scene *scene, ct_snapshot *snapshot, ct_error *error) {
    snapshot->bodies = calloc(scene->n_bodies ? scene->n_bodies : 1, sizeof *snapshot->bodies);
    if (!snapshot->bodies)
        return ct_fail(error, CT_OUT_OF_MEMORY, "snapshot", "no memory for %u bodies", scene->n_bodies);
    ct_status status = CT_OK;
    ct_box around;
    const bool has_box = find_shown_box(scene, &snapshot->options, &around);
    for (uint32_t i = 0; !status && i < scene->n_bodies; i++) {
        const ct_body *body = scene->bodies[i];
        if (!is_shown(&snapshot->options, body->id)) continue;
        ct_snapshot_body *to = &snapshot->bodies[snapshot->n_bodies++];
        status = body->is_half_space ? copy_half_space(body, has_box ? &around : NULL, to, error)
                                     : copy_body(scene, body, to, error);
    }
    return status;
}

static ct_status fail_spans(const char *about, uint64_t n, ct_error *error) {
    return ct_fail(error, CT_LIMIT_EXCEEDED, "resolution",
                   "snapshot: the intersections have %s%llu samples, a picture shows at most %llu: ask for a lower "
                   "resolution, for one contact, or for a picture without samples",
                   about, (unsigned long long)n, (unsigned long long)MAX_SPANS);
}

/* The contacts' spans, out of a result that has them all. */
static ct_status copy_spans(const ct_result *result, ct_snapshot *snapshot, ct_error *error) {
    uint64_t n = 0;
    for (size_t i = 0; i < result->n_contacts; i++)
        if (ct_snapshot_shows(&snapshot->options, result->contacts[i].body)) n += result->contacts[i].n_spans;
    if (n > MAX_SPANS) return fail_spans("", n, error);
    snapshot->contacts = malloc((result->n_contacts ? result->n_contacts : 1) * sizeof *snapshot->contacts);
    snapshot->spans = malloc((n ? n : 1) * sizeof *snapshot->spans);
    if (!snapshot->contacts || !snapshot->spans)
        return ct_fail(error, CT_OUT_OF_MEMORY, "snapshot", "no memory for %llu samples", (unsigned long long)n);
    for (size_t i = 0; i < result->n_contacts; i++) {
        const ct_contact *from = &result->contacts[i];
        if (!ct_snapshot_shows(&snapshot->options, from->body)) continue;
        ct_snapshot_contact *to = &snapshot->contacts[snapshot->n_contacts++];
        memcpy(to->pitch, from->pitch, sizeof to->pitch);
        to->first_span = snapshot->n_spans;
        to->n_spans = from->n_spans;
        if (!ct_copy_large(snapshot->spans + to->first_span, result->spans + from->first_span,
                           from->n_spans * sizeof(ct_span)))
            return ct_fail_cancelled(error);
        snapshot->n_spans += from->n_spans;
    }
    return CT_OK;
}

/* As a step does, but for what lets a picture that was cancelled end sooner. */
static void fail_step(ct_status status, const ct_error *from, ct_error *error) {
    const char *remedy = status == CT_CANCELLED ? strstr(from->message, ": ") : NULL;
    if (remedy)
        ct_fail(
            error, status, from->field,
            "%.*s: ask for a picture of two bodies, for a lower resolution, or to show the bodies alone, or allow more "
            "time",
            (int)(remedy - from->message), from->message);
    else
        ct_fail(error, status, from->field, "%s", from->message);
}

/* Runs a step of LDI without updates. Its settings are the scene's now. */
static ct_status run_spans(ct_scene *scene, ct_result **result, ct_error *error) {
    ct_step step = {.scene = scene, .want = CT_WANT_SPANS};
    const ct_status status = ct_engine_run(scene->engine, &step, 1);
    if (status) fail_step(status, &step.error, error);
    *result = step.result;
    return status;
}

/* Refuses samples that a step with COARSER times as wide pixels says are too many, before they are taken. It takes a
 * COARSER^2-th of their time and memory, and is right to a few parts in a hundred where there are many. So all
 * contacts' samples are bounded by twice what is shown, or eight times where other contacts are left out. */
static ct_status check_spans(ct_scene *scene, ct_snapshot *snapshot, ct_error *error) {
    enum { COARSER = 16, WORTH = 512 };
    const ct_scene_settings fine = scene->settings;
    uint64_t shown = 0, all = 0;
    ct_scene_settings *s = &scene->settings;
    const uint32_t *r = fine.resolution;
    /* A few pixels take no time, and cannot be too many. */
    if (s->pixel_size == 0 && r[0] < WORTH && r[1] < WORTH && r[2] < WORTH) return CT_OK;
    if (s->pixel_size > 0)
        s->pixel_size *= COARSER;
    else
        for (int a = 0; a < 3; a++) s->resolution[a] = (r[a] + COARSER - 1) / COARSER;
    ct_result *result;
    const ct_status status = run_spans(scene, &result, error);
    scene->settings = fine;
    for (size_t i = 0; !status && i < result->n_contacts; i++) {
        const uint64_t n = COARSER * COARSER * result->contacts[i].n_spans;
        if (ct_snapshot_shows(&snapshot->options, result->contacts[i].body)) shown += n;
        all += n;
    }
    ct_result_free(&result);
    if (status) return status;
    if (shown > MAX_SPANS + MAX_SPANS / 4) return fail_spans("about ", shown, error);
    return all > MAX_ALL_SPANS ? fail_spans("with those that are not shown about ", all, error) : CT_OK;
}

/* Runs a step of LDI without updates, at the snapshot's resolution, and copies its spans: other methods have none. */
static ct_status compute_spans(ct_scene *scene, ct_snapshot *snapshot, ct_error *error) {
    const ct_scene_settings settings = scene->settings;
    uint32_t resolution = snapshot->options.resolution;
    if (settings.method != CT_METHOD_LDI && !resolution) resolution = CT_DEFAULT_RESOLUTION;
    scene->settings.method = CT_METHOD_LDI;
    scene->settings.cell_size = 0; /* spans are the contacts' */
    if (resolution) {
        for (int a = 0; a < 3; a++) scene->settings.resolution[a] = resolution;
        scene->settings.pixel_size = 0;
    }
    ct_enter_phase("taking samples");
    ct_result *result = NULL;
    ct_status status = check_spans(scene, snapshot, error);
    if (!status) status = run_spans(scene, &result, error);
    if (!status) status = copy_spans(result, snapshot, error);
    ct_result_free(&result);
    scene->settings = settings;
    return status;
}

/* ---- what the method finds ---- */

/* Words of CT_SHOW_... that a method has, beside bodies, samples and axes. */
static uint32_t shown_by(const ct_method_row *row) {
    return (row->gives_no_gradient ? 0 : CT_SHOW_CONTACTS | CT_SHOW_GRADIENTS) | (row->gives_tiles ? CT_SHOW_RAYS : 0) |
           (row->method == CT_METHOD_VOXTREE ? CT_SHOW_NODES | CT_SHOW_NORMALS : 0) |
           (row->gives_second ? CT_SHOW_SURFACE : 0);
}

/* Refuses what the scene's method does not have. */
static ct_status check_show(const ct_scene *scene, uint32_t show, ct_error *error) {
    const uint32_t wanted = show & ~(uint32_t)CT_SHOW_DEFAULT;
    if (!wanted) return CT_OK;
    const ct_method method = ct_method_to_run(scene->engine, &scene->settings);
    const ct_method_row *row = ct_method_row_of(method, error);
    if (!row) return CT_UNSUPPORTED;
    const uint32_t missing = wanted & ~shown_by(row);
    if (!missing) return CT_OK;
    char refused[96], has[96];
    return ct_fail(error, CT_INVALID_ARGUMENT, "show",
                   "snapshot: show names %s, which the scene's method %s does not have: show some of %s",
                   ct_show_names(missing, refused, sizeof refused), ct_method_name(row->method),
                   ct_show_names(CT_SHOW_DEFAULT | shown_by(row), has, sizeof has));
}

/* Runs a step without updates and marks what `show` names of it. */
static ct_status mark_method(ct_scene *scene, ct_snapshot *snapshot, ct_error *error) {
    const uint32_t show = snapshot->options.show;
    if (!(show & ~(uint32_t)CT_SHOW_DEFAULT) || !snapshot->n_bodies) return CT_OK;
    ct_step step = {.scene = scene, .want = CT_WANT_FRAME | CT_WANT_GRADIENT};
    if (show & CT_SHOW_RAYS) step.want |= CT_WANT_TILES;
    if (show & CT_SHOW_SURFACE) step.want |= CT_WANT_SURFACE;
    ct_status status = ct_engine_run(scene->engine, &step, 1);
    if (status) fail_step(status, &step.error, error);
    if (!status && show & (CT_SHOW_CONTACTS | CT_SHOW_GRADIENTS))
        status = ct_mark_contacts(snapshot, step.result, error);
    if (!status && show & CT_SHOW_SURFACE) status = ct_mark_surface(snapshot, step.result, error);
    if (!status && show & CT_SHOW_RAYS) status = ct_mark_tiles(snapshot, step.result, error);
    if (!status && show & (CT_SHOW_NODES | CT_SHOW_NORMALS))
        status = ct_mark_voxels(snapshot, &scene->settings, step.result, error);
    ct_result_free(&step.result);
    return status;
}

/* ---- framing ---- */

/* Computes the intersection of two bodies' boxes. False: they do not intersect. */
static bool intersect_boxes(const ct_scene *scene, const uint32_t pair[2], ct_box *box) {
    const ct_box *a = &ct_scene_find(scene, pair[0], NULL)->box, *b = &ct_scene_find(scene, pair[1], NULL)->box;
    bool intersects = true;
    for (int i = 0; i < 3; i++) {
        box->lo[i] = fmax(a->lo[i], b->lo[i]);
        box->hi[i] = fmin(a->hi[i], b->hi[i]);
        intersects = intersects && box->lo[i] <= box->hi[i];
    }
    return intersects;
}

static void add_body_vertices(ct_camera_fit *fit, const ct_snapshot_body *body,
                              void (*add)(ct_camera_fit *, const double[3])) {
    for (size_t i = 0; i < body->mesh->n_vertices; i++) {
        double at[3];
        if (CT_POLL_EVERY(i, 1024) && ct_is_cancelled()) return; /* the snapshot is not kept */
        ct_snapshot_vertex(body, i, at);
        add(fit, at);
    }
}

/* Frames a contact's box enlarged by half, so that the picture also shows its surroundings. */
static void frame_contact(ct_camera_fit *fit, const ct_box *box) {
    for (int corner = 0; corner < 8; corner++) {
        double at[3];
        for (int i = 0; i < 3; i++) {
            double middle = (box->lo[i] + box->hi[i]) / 2, half = (box->hi[i] - box->lo[i]) / 2;
            at[i] = middle + (corner >> i & 1 ? 1.5 : -1.5) * half;
        }
        ct_camera_fit_add_framed(fit, at);
    }
}

static void place_camera(const ct_scene *scene, ct_snapshot *snapshot) {
    ct_camera_fit fit;
    ct_box box;
    const ct_snapshot_options *o = &snapshot->options;
    bool is_close_up = o->contact[0] && intersect_boxes(scene, o->contact, &box);
    ct_camera_fit_begin(&fit, o);
    if (is_close_up) frame_contact(&fit, &box);
    for (size_t i = 0; i < snapshot->n_bodies; i++)
        add_body_vertices(&fit, &snapshot->bodies[i],
                          is_close_up || snapshot->bodies[i].is_backdrop ? ct_camera_fit_add_drawn
                                                                         : ct_camera_fit_add_framed);
    snapshot->camera = ct_camera_fit_end(&fit);
}

/* ---- public functions ---- */

ct_status ct_snapshot_take(ct_scene *scene, const ct_snapshot_options *options, ct_snapshot **out, ct_error *error) {
    *out = NULL;
    ct_status status = ct_snapshot_options_check(options, error);
    if (status) return status;
    for (int i = 0; i < 2; i++)
        if (options->contact[i] && !ct_scene_find(scene, options->contact[i], error)) return CT_NOT_FOUND;
    status = check_show(scene, options->show, error);
    if (status) return status;
    ct_snapshot *snapshot = calloc(1, sizeof *snapshot);
    if (!snapshot) return ct_fail(error, CT_OUT_OF_MEMORY, "snapshot", "no memory for a snapshot");
    snapshot->engine = scene->engine;
    snapshot->options = *options;
    memcpy(scene->only_pair, options->contact, sizeof scene->only_pair);
    if (options->show & CT_SHOW_SAMPLES) status = compute_spans(scene, snapshot, error);
    if (!status) status = copy_bodies(scene, snapshot, error);
    if (!status) {
        place_camera(scene, snapshot);
        if (ct_is_cancelled()) status = ct_fail_cancelled(error);
        if (!status) status = mark_method(scene, snapshot, error);
    }
    memset(scene->only_pair, 0, sizeof scene->only_pair);
    if (status) ct_snapshot_free(&snapshot);
    *out = snapshot;
    return status;
}

void ct_snapshot_free(ct_snapshot **handle) {
    ct_snapshot *snapshot = *handle;
    if (!snapshot) return;
    for (size_t i = 0; i < snapshot->n_bodies; i++) {
        ct_mesh_release(&snapshot->bodies[i].mesh);
        free(snapshot->bodies[i].positions);
    }
    free(snapshot->bodies);
    free(snapshot->contacts);
    free(snapshot->spans);
    for (int kind = 0; kind < CT_MARK_KINDS; kind++) free(snapshot->marks[kind].marks);
    free(snapshot);
    *handle = NULL;
}

/* Waits for whoever draws. False: the thread's work was cancelled before. */
static bool lock_painting(ct_engine *engine) {
    if (!ct_thread_working.cancel) return pthread_mutex_lock(&engine->painting) == 0;
    while (pthread_mutex_trylock(&engine->painting) != 0) {
        if (ct_is_cancelled()) return false;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return true;
}

ct_status ct_snapshot_draw(const ct_snapshot *snapshot, uint8_t *pixels, ct_error *error) {
    ct_engine *engine = snapshot->engine;
    ct_enter_phase("waiting for other pictures");
    if (!lock_painting(engine)) return ct_fail_cancelled(error);
    engine->destroy_painter = ct_painter_destroy;
    ct_status status = engine->painter ? CT_OK : ct_painter_create(&engine->painter, error);
    if (!status) status = ct_painter_draw(engine->painter, snapshot, MAX_GLASS_BYTES, pixels, error);
    pthread_mutex_unlock(&engine->painting);
    if (!status && snapshot->options.show & CT_SHOW_AXES)
        ct_axes_draw(&snapshot->camera, snapshot->options.width, snapshot->options.height, pixels);
    return status;
}

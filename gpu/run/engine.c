/* engine.c - creates engines, dispatches batches to methods, and computes products with second derivatives. */
#include "gpu/include/contact.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/after/identity.h"
#include "gpu/after/law.h"
#include "gpu/after/points.h"
#include "gpu/after/separation.h"
#include "gpu/after/sheet.h"
#include "gpu/after/slip.h"
#include "gpu/after/spread.h"
#include "gpu/after/warnings.h"
#include "gpu/base/cancel.h"
#include "gpu/base/clock.h"
#include "gpu/base/fail.h"
#include "gpu/mesh/closing.h"
#include "gpu/method/engine.h"

enum { ENGINE_COOKIE = 0xe9913002 };

/* Steps of a batch that a thread completes before it takes others. */
enum { STEPS_OF_TASK = 8 };

const char *ct_phase_name(ct_phase phase) {
    static const char *const names[CT_PHASES] = {"upload", "broadphase", "raster", "span", "contact", "download"};
    return (unsigned)phase < CT_PHASES ? names[phase] : "unknown";
}

void ct_engine_options_init(ct_engine_options *options) {
    *options = (ct_engine_options){
        .cookie = ENGINE_COOKIE, .backend = "auto", .rasterizer = "auto", .devices = "all", .simd = "auto"};
}

/* Opens all devices of a backend, or none. */
static ct_status open_devices(ct_engine *engine, const ct_backend *backend, const ct_engine_options *options,
                              ct_error *error) {
    size_t n = backend->count(options, error);
    if (n == 0) return CT_UNSUPPORTED;
    engine->backend = backend;
    for (engine->n_devices = 0; engine->n_devices < n; engine->n_devices++) {
        ct_status status =
            backend->create(options, engine->n_devices, &engine->devices[engine->n_devices].device, error);
        if (!status) continue;
        while (engine->n_devices > 0) backend->destroy(&engine->devices[--engine->n_devices].device);
        return status;
    }
    return CT_OK;
}

static ct_status unknown_backend(const char *name, ct_error *error) {
    char names[64] = "";
    const ct_backend *backend;
    for (size_t i = 0, used = 0; (backend = ct_backend_at(i)) && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? " " : "", backend->name);
    return ct_fail(error, CT_UNSUPPORTED, "backend", "backend \"%s\" is not in this build, which has: %s", name, names);
}

ct_status ct_engine_create(const ct_engine_options *options, ct_engine **out, ct_error *error) {
    *out = NULL;
    if (options->cookie != ENGINE_COOKIE)
        return ct_fail(error, CT_INVALID_ARGUMENT, "options", "options were not filled by ct_engine_options_init");
    if (options->max_cells > CT_MAX_CELLS)
        return ct_fail(error, CT_OUT_OF_RANGE, "max_cells", "max_cells is %u, expected at most %d", options->max_cells,
                       CT_MAX_CELLS);
    ct_engine *engine = calloc(1, sizeof *engine);
    if (!engine) return ct_fail(error, CT_OUT_OF_MEMORY, "", "no memory for an engine");
    bool is_auto = !options->backend || !strcmp(options->backend, "auto");
    size_t used =
        (size_t)snprintf(engine->reason, sizeof engine->reason, is_auto ? "the best that works" : "asked for");
    ct_error why = {0};
    const ct_backend *backend;
    for (size_t i = 0; (backend = ct_backend_at(i)); i++) {
        if (!is_auto && strcmp(options->backend, backend->name) != 0) continue;
        why.status = CT_OK;
        if (open_devices(engine, backend, options, &why) == CT_OK) {
            pthread_mutex_init(&engine->painting, NULL);
            ct_engine_find_methods(engine);
            *out = engine;
            return CT_OK;
        }
        if (used < sizeof engine->reason)
            used += (size_t)snprintf(engine->reason + used, sizeof engine->reason - used, "; not %s: %s", backend->name,
                                     why.message);
    }
    free(engine);
    if (why.status == CT_OK) return unknown_backend(options->backend, error);
    if (error) *error = why;
    return why.status;
}

void ct_engine_destroy(ct_engine **handle) {
    ct_engine *engine = *handle;
    if (!engine) return;
    if (engine->painter) engine->destroy_painter(&engine->painter);
    pthread_mutex_destroy(&engine->painting);
    for (size_t i = 0; i < engine->n_devices; i++) engine->backend->destroy(&engine->devices[i].device);
    free(engine);
    *handle = NULL;
}

const char *ct_engine_reason(const ct_engine *engine) {
    return engine->reason;
}

size_t ct_engine_device_count(const ct_engine *engine) {
    return engine->n_devices;
}

void ct_engine_get_facts(const ct_engine *engine, size_t device, ct_engine_facts *facts) {
    const ct_engine_device *at = &engine->devices[device];
    memset(facts, 0, sizeof *facts);
    engine->backend->facts(at->device, facts);
    facts->scenes = atomic_load(&at->scenes);
    facts->triangles = atomic_load(&at->triangles);
}

void ct_engine_forget_mesh(ct_engine *engine, const ct_mesh *mesh) {
    if (!engine->backend->mesh_forget) return;
    for (size_t i = 0; i < engine->n_devices; i++) engine->backend->mesh_forget(engine->devices[i].device, mesh);
}

uint64_t ct_engine_mesh_bytes(ct_engine *engine, const char *hash) {
    uint64_t bytes = 0;
    for (size_t i = 0; engine->backend->mesh_bytes && i < engine->n_devices; i++)
        bytes += engine->backend->mesh_bytes(engine->devices[i].device, hash);
    return bytes;
}

uint64_t ct_engine_release_scratch(ct_engine *engine, double seconds) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < engine->n_devices; i++)
        bytes += engine->backend->release_scratch(engine->devices[i].device, seconds);
    return bytes;
}

/* ---- running a batch ---- */

static ct_method_run *run_of(const ct_engine *engine, const ct_step *step) {
    return ct_engine_run_of(engine, ct_method_row_of(ct_method_of_step(step), NULL));
}

/* Runs a batch whose steps differ in device or method, part after part. A caller that wants devices to work side by
 * side runs a batch for each. */
static void run_parts(ct_engine *engine, ct_step *steps, size_t n_steps) {
    ct_step *part = malloc(n_steps * sizeof *part);
    size_t *index = malloc(n_steps * sizeof *index); /* of the part's steps in the batch */
    bool *done = calloc(n_steps, sizeof *done);
    for (size_t first = 0; part && index && done && first < n_steps; first++) {
        if (done[first]) continue;
        size_t device = steps[first].scene->device, n = 0;
        ct_method_run *run = run_of(engine, &steps[first]);
        for (size_t i = first; i < n_steps; i++) {
            if (steps[i].scene->device != device || run_of(engine, &steps[i]) != run) continue;
            done[i] = true;
            index[n] = i;
            part[n++] = steps[i];
        }
        run(engine->devices[device].device, part, n);
        for (size_t k = 0; k < n; k++) steps[index[k]] = part[k];
    }
    for (size_t i = 0; (!part || !index || !done) && i < n_steps; i++)
        if (!steps[i].error.status)
            ct_fail(&steps[i].error, CT_OUT_OF_MEMORY, "", "no memory for a batch of %zu steps", n_steps);
    free(part);
    free(index);
    free(done);
}

/* Points are made from the result: those of VOXTREE are there already. */
static bool needs_points(const ct_step *step, const ct_method_row *row) {
    return (step->scene->settings.max_points > 0 || step->want & CT_WANT_POINTS) && !row->gives_no_gradient;
}

static void check_step(ct_step *step, const ct_method_row *row) {
    step->result = NULL;
    step->error.status = CT_OK;
    step->error.message[0] = step->error.field[0] = 0;
    ct_status status = ct_method_check_step(row, step, &step->error);
    for (size_t u = 0; u < step->n_updates && !status; u++)
        status = ct_update_check(step->scene, &step->updates[u], &step->error);
    if (!status) status = ct_replace_stray_updates(step, &step->error);
    if (!status && step->n_directions)
        status = ct_directions_check(step->scene, step->directions, step->n_directions, &step->error);
    if (!status) status = ct_velocities_check(step->scene, step, &step->error);
    if (!status) ct_sheet_check(step, &step->error);
    if (step->n_velocities || needs_points(step, row)) step->want |= CT_WANT_FRICTION;
    step->want |= ct_law_wants(step) | ct_sheet_wants(step) | ct_identity_wants(step);
    if (step->want & (CT_WANT_FRICTION | CT_WANT_INERTIA | CT_WANT_POINTS)) step->want |= CT_WANT_FRAME;
}

static void add_slip(ct_step *step) {
    if (step->result && step->n_velocities && ct_result_add_slip(step->scene, step, step->result, &step->error))
        ct_result_free(&step->result);
}

static void add_law(ct_step *step) {
    if (step->result && step->scene->settings.law == CT_LAW_PRESSURE &&
        ct_result_add_law(step->scene, step, step->result, &step->error))
        ct_result_free(&step->result);
}

static void add_sheet(ct_step *step) {
    if (step->result && step->want & CT_WANT_SURFACE &&
        ct_result_add_sheet(step->scene, step, step->result, &step->error))
        ct_result_free(&step->result);
}

static void add_separations(ct_step *step) {
    if (step->result && step->scene->settings.margin > 0 &&
        ct_result_add_separations(step->scene, step->result, NULL, &step->error))
        ct_result_free(&step->result);
}

static void add_points(ct_step *step, const ct_method_row *row) {
    const uint32_t given = step->scene->settings.max_points, most = given ? given : CT_DEFAULT_POINTS;
    if (step->result && needs_points(step, row) &&
        ct_result_add_points(step->scene, most, step->result, NULL, &step->error))
        ct_result_free(&step->result);
}

static void add_ids(ct_step *step) {
    if (step->result && step->want & CT_WANT_IDS && ct_result_add_ids(step->scene, step->result, &step->error))
        ct_result_free(&step->result);
}

/* What every method's contacts get on the host. Its time is part of the contact stage's: a scheduler learns from it
 * what the scene's steps cost. */
static void add_to_contacts(ct_step *step, const ct_method_row *row) {
    const double start = ct_now();
    const ct_working before = ct_work_for(step->cancel, 0, 0);
    add_points(step, row);
    add_slip(step);
    add_law(step);
    add_sheet(step);
    add_separations(step);
    add_ids(step);
    ct_work_back(before);
    if (!step->result) return;
    const double seconds = ct_now() - start;
    step->result->seconds[CT_PHASE_CONTACT] += seconds;
    step->result->wall_seconds[CT_PHASE_CONTACT] += seconds;
}

/* A method without limits always completes, so its results are marked here. */
static void mark_completed(ct_step *step, const ct_method_row *row) {
    if (!step->result || row->takes_time_budget || row->takes_tolerance) return;
    step->result->ended = CT_ENDED_COMPLETED;
    step->result->quality = 1;
}

static void mark_intervals(ct_step *step) {
    if (!step->result || step->result->method == CT_METHOD_VOXTREE) return;
    for (size_t i = 0; i < step->result->n_contacts; i++)
        step->result->contacts[i].volume_lower = step->result->contacts[i].volume_upper = NAN;
    for (size_t i = 0; i < step->result->n_cells; i++)
        step->result->cells[i].volume_lower = step->result->cells[i].volume_upper = NAN;
}

/* What results have of the closing vertices of open surfaces goes to the vertices of their rims. */
static void fold_closing(ct_step *step) {
    ct_result *r = step->result;
    if (!r || !ct_scene_has_open_mesh(step->scene)) return;
    const ct_row_array entries[] = {{r->gradient, 3}, {r->weights, 1}, {r->forces, 3}, {r->friction_forces, 3}};
    const ct_row_array products = {r->products, 3 * (size_t)r->n_directions};
    for (size_t i = 0; i < r->n_contacts + r->n_cells; i++) {
        ct_contact *c = i < r->n_contacts ? &r->contacts[i] : &r->cells[i - r->n_contacts];
        for (int b = 0; b < 2; b++) {
            const ct_body *body = ct_scene_find(step->scene, c->body[b], NULL);
            if (!body || !ct_closing_count(body->mesh)) continue;
            if (r->vertices) ct_fold_closing(body->mesh, r->vertices, entries, 4, c->first[b], &c->count[b]);
            if (r->product_vertices && i < r->n_contacts)
                ct_fold_closing(body->mesh, r->product_vertices, &products, 1, c->first_product[b],
                                &c->count_product[b]);
        }
    }
}

static void add_warnings(ct_step *step) {
    if (!step->result) return;
    ct_scene_note_conditions(step->scene, step->updates, step->n_updates);
    if (ct_step_list_warnings(step, step->result, &step->error)) ct_result_free(&step->result);
}

/* Where a poll said that the step is cancelled, some part of it may be missing: it has no result, whatever became of
 * the poll. */
static void drop_cancelled(ct_step *step) {
    if (!step->result || !step->cancel || !ct_cancel_was_seen(step->cancel)) return;
    ct_result_free(&step->result);
    const ct_working before = ct_work_for(step->cancel, 0, 0);
    ct_fail_cancelled(&step->error);
    ct_work_back(before);
}

/* Steps whose scenes have a max_step_time get a ct_cancel of their own, in `own`, inside the one that they have or
 * their thread's. */
static void begin_limit(ct_step *step, ct_cancel *own) {
    const double seconds = step->scene->settings.max_step_time;
    if (!(seconds > 0)) return;
    ct_cancel_init(own, seconds);
    own->outer = step->cancel ? step->cancel : ct_thread_working.cancel;
    step->cancel = own;
}

static bool has_limit(const ct_step *steps, size_t n_steps) {
    for (size_t i = 0; i < n_steps; i++)
        if (steps[i].scene->settings.max_step_time > 0) return true;
    return false;
}

/* A step that failed has changed nothing. */
static void end_step(const ct_engine *engine, ct_step *step) {
    drop_cancelled(step);
    ct_identity_end_step(step->scene, step->result != NULL);
    if (!step->result) {
        engine->backend->undo(engine->devices[step->scene->device].device, step);
        ct_scene_note_conditions(step->scene, step->updates, step->n_updates);
    }
    step->scene->is_moved = false;
    ct_restore_stray_updates(step);
}

/* What a step that its method has run gets besides. */
static void complete_step(ct_step *step) {
    const ct_method_row *row = ct_method_row_of(ct_method_of_step(step), NULL);
    mark_completed(step, row);
    mark_intervals(step);
    add_to_contacts(step, row);
    fold_closing(step);
    add_warnings(step);
}

struct part_of_steps {
    ct_step *steps;
    size_t n;
};

static void check_some(void *context, uint32_t index, uint32_t worker) {
    const struct part_of_steps *all = context;
    const size_t first = (size_t)index * STEPS_OF_TASK, end = first + STEPS_OF_TASK;
    (void)worker;
    for (size_t i = first; i < end && i < all->n; i++)
        check_step(&all->steps[i], ct_method_row_of(ct_method_of_step(&all->steps[i]), NULL));
}

static void complete_some(void *context, uint32_t index, uint32_t worker) {
    const struct part_of_steps *all = context;
    const size_t first = (size_t)index * STEPS_OF_TASK, end = first + STEPS_OF_TASK;
    (void)worker;
    for (size_t i = first; i < end && i < all->n; i++) complete_step(&all->steps[i]);
}

static ct_status run_steps(ct_engine *engine, ct_step *steps, size_t n_steps) {
    const size_t device = steps[0].scene->device;
    ct_method_run *const run = run_of(engine, &steps[0]);
    struct part_of_steps all = {steps, n_steps};
    const uint32_t n_tasks = (uint32_t)((n_steps + STEPS_OF_TASK - 1) / STEPS_OF_TASK);
    bool is_uniform = true;
    ct_spread(steps[0].scene, n_tasks, check_some, &all);
    for (size_t i = 0; i < n_steps; i++)
        is_uniform = is_uniform && steps[i].scene->device == device && run_of(engine, &steps[i]) == run;
    if (is_uniform)
        run(engine->devices[device].device, steps, n_steps);
    else
        run_parts(engine, steps, n_steps);
    ct_status first = CT_OK;
    if (is_uniform) /* few steps are one task, whose work is spread */
        ct_spread(steps[0].scene, n_tasks, complete_some, &all);
    else
        for (uint32_t i = 0; i < n_tasks; i++) complete_some(&all, i, 0);
    for (size_t i = 0; i < n_steps; i++) {
        end_step(engine, &steps[i]);
        if (!first) first = steps[i].error.status;
    }
    return first;
}

/* Both steps of such a scene would see the bodies where the last of them put them. */
static bool has_scene_twice(const ct_step *steps, size_t n_steps) {
    bool is_twice = false;
    for (size_t i = 0; i < n_steps; i++) {
        is_twice = is_twice || steps[i].scene->is_in_batch;
        steps[i].scene->is_in_batch = true;
    }
    for (size_t i = 0; i < n_steps; i++) steps[i].scene->is_in_batch = false;
    return is_twice;
}

static ct_status refuse_batch(ct_step *steps, size_t n_steps) {
    for (size_t i = 0; i < n_steps; i++) {
        steps[i].result = NULL;
        memset(&steps[i].error, 0, sizeof steps[i].error);
        ct_fail(&steps[i].error, CT_INVALID_ARGUMENT, "scene",
                "a scene is in this batch of %zu steps twice: run its second step in a call of its own", n_steps);
    }
    return CT_INVALID_ARGUMENT;
}

ct_status ct_engine_run(ct_engine *engine, ct_step *steps, size_t n_steps) {
    if (n_steps == 0) return CT_OK;
    if (n_steps > 1 && has_scene_twice(steps, n_steps)) return refuse_batch(steps, n_steps);
    if (!has_limit(steps, n_steps)) return run_steps(engine, steps, n_steps);
    ct_cancel *own = malloc(n_steps * sizeof *own), **given = malloc(n_steps * sizeof *given);
    ct_status status = CT_OUT_OF_MEMORY;
    for (size_t i = 0; i < n_steps; i++) {
        if (own && given) {
            given[i] = steps[i].cancel;
            begin_limit(&steps[i], &own[i]);
        } else {
            steps[i].result = NULL;
            memset(&steps[i].error, 0, sizeof steps[i].error);
            ct_fail(&steps[i].error, CT_OUT_OF_MEMORY, "", "no memory for a batch of %zu steps", n_steps);
        }
    }
    if (own && given) status = run_steps(engine, steps, n_steps);
    for (size_t i = 0; own && given && i < n_steps; i++) steps[i].cancel = given[i];
    free(own);
    free(given);
    return status;
}

const char *ct_ended_name(ct_ended ended) {
    switch (ended) {
    case CT_ENDED_COMPLETED:
        return "completed";
    case CT_ENDED_RAY_BUDGET:
        return "ray_budget";
    case CT_ENDED_PASS_LIMIT:
        return "pass_limit";
    case CT_ENDED_PRECISION:
        return "precision";
    case CT_ENDED_LEVEL:
        return "level";
    case CT_ENDED_PAIRS:
        return "pairs";
    case CT_ENDED_TIME:
        return "time";
    }
    return "unknown";
}

void ct_result_free(ct_result **handle) {
    ct_result *result = *handle;
    if (!result) return;
    free(result->cells);
    free(result->vertices);
    free(result->gradient);
    free(result->weights);
    free(result->forces);
    free(result->friction_forces);
    free(result->spans);
    free(result->tiles);
    free(result->points);
    free(result->ended_ids);
    free(result->polygons);
    free(result->polygon_first);
    free(result->polygon_vertices);
    free(result->separations);
    free(result->progress);
    free(result->warnings);
    free(result->product_vertices);
    free(result->products);
    free(result->generalized_product);
    free(result);
    *handle = NULL;
}

ct_status ct_contact_stiffness_product(const ct_result *result, size_t contact, double stiffness,
                                       const double *const in[2], double *const out[2]) {
    const ct_contact *c = &result->contacts[contact];
    if (!ct_contact_has_gradient(result, contact)) return CT_UNSUPPORTED;
    double along = 0; /* g . d */
    for (int b = 0; b < 2; b++)
        for (uint64_t i = c->first[b]; in[b] && i < c->first[b] + c->count[b]; i++)
            for (int k = 0; k < 3; k++)
                along += result->gradient[3 * i + k] * in[b][3 * (size_t)result->vertices[i] + k];
    for (int b = 0; b < 2; b++)
        for (uint64_t i = c->first[b]; out[b] && i < c->first[b] + c->count[b]; i++)
            for (int k = 0; k < 3; k++)
                out[b][3 * (size_t)result->vertices[i] + k] -= stiffness * along * result->gradient[3 * i + k];
    return CT_OK;
}

double ct_contact_target_volume(const ct_contact *contact, double depth) {
    return depth * contact->area;
}

void ct_contact_hessian_product(const ct_result *result, size_t contact, uint32_t direction, double *const out[2]) {
    const ct_contact *c = &result->contacts[contact];
    for (int b = 0; b < 2; b++)
        for (uint64_t i = c->first_product[b]; out[b] && i < c->first_product[b] + c->count_product[b]; i++)
            for (uint64_t k = 0; k < 3; k++)
                out[b][3 * (size_t)result->product_vertices[i] + k] +=
                    result->products[3 * (i * result->n_directions + direction) + k];
}

/* methods.c - the table of methods and backends. To add a method: a row in proto/catalogue/methods.toml, its number in
 * proto/contactd.fbs, a row here. To add a backend: a column. */
#include "gpu/method/method.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/mesh/adjacency.h"
#include "gpu/mesh/mesh.h"
#include "gpu/method/backend_cpu.h"
#include "gpu/method/engine.h"
#include "gpu/methods/ebpi/turned_views.h"
#include "gpu/methods/exact/exact.h"
#include "gpu/methods/exact/topology.h"
#include "gpu/methods/voxtree/tree.h"
#include "gpu/view/view.h"
#include "proto/setting_rows.h"
#ifdef CT_HAVE_CUDA
#include "gpu/method/backend_cuda.h"
#define ON_CUDA(run) run
#else
#define ON_CUDA(run) NULL
#endif

/* ---- what settings name ---- */

static bool is_named(const ct_scene_settings *s, ct_setting setting) {
    return !ct_setting_is_zero(&ct_setting_rows[setting], s);
}

static bool names_sampling(const ct_scene_settings *s) {
    return is_named(s, CT_SETTING_RESOLUTION) || is_named(s, CT_SETTING_PIXEL_SIZE);
}

/* The first setting that EBPI alone takes; NULL: none is named. */
static const ct_setting_row *names_precision(const ct_scene_settings *s) {
    for (int k = 0; k < CT_SETTINGS; k++)
        if (ct_setting_rows[k].methods == 1u << CT_METHOD_EBPI && is_named(s, (ct_setting)k))
            return &ct_setting_rows[k];
    return NULL;
}

/* The method that AUTO stands for, and the setting that says so. NONE: none does, the engine decides. */
static ct_method chosen_by_settings(const ct_scene_settings *s, const char **why) {
    const ct_setting_row *precision = names_precision(s);
    *why = s->patches                           ? "patches"
           : s->law != CT_LAW_VOLUME            ? "law"
           : s->cell_size != 0                  ? "cell_size"
           : precision                          ? precision->name
           : is_named(s, CT_SETTING_RESOLUTION) ? "resolution"
           : is_named(s, CT_SETTING_PIXEL_SIZE) ? "pixel_size"
                                                : NULL;
    if (s->patches || s->law != CT_LAW_VOLUME) return CT_METHOD_EXACT;
    if (s->cell_size != 0) return CT_METHOD_LDI;
    return precision ? CT_METHOD_EBPI : *why ? CT_METHOD_LDI : CT_METHOD_NONE;
}

/* Refuses a setting that could have no effect. */
static ct_status check_taken(const ct_scene_settings *s, ct_error *error) {
    const char *why = NULL;
    const ct_method chosen = s->method == CT_METHOD_AUTO ? chosen_by_settings(s, &why) : s->method;
    const ct_setting_row *row = ct_settings_not_taken(s, chosen ? chosen : CT_METHOD_LDI);
    if (!row) return CT_OK;
    const char *taken_by = ct_method_name(ct_setting_taken_by(row));
    if (why)
        return ct_fail(error, CT_INVALID_ARGUMENT,
                       s->cell_size != 0 ? "cell_size"
                       : s->patches      ? "patches"
                                         : row->name,
                       "with %s, method \"auto\" runs \"%s\", which takes no %s, of method \"%s\": leave out either",
                       why, ct_method_name(chosen), row->name, taken_by);
    return ct_fail(error, CT_INVALID_ARGUMENT, row->name,
                   "method \"%s\" takes no %s: leave it out, or choose method \"%s\"", ct_method_name(s->method),
                   row->name, taken_by);
}

static ct_status check_ranges(const ct_scene_settings *s, ct_error *error) {
    char message[512];
    for (int k = 0; k < CT_SETTINGS; k++) {
        const contactd_code code =
            k == CT_SETTING_METHOD ? CONTACTD_OK : ct_setting_check(&ct_setting_rows[k], s, message, sizeof message);
        if (code)
            return ct_fail(error, code == CONTACTD_NON_FINITE ? CT_NON_FINITE : CT_OUT_OF_RANGE,
                           ct_setting_rows[k].name, "%s", message);
    }
    return CT_OK;
}

/* ---- what methods need of them ---- */

static ct_status check_ebpi(const ct_scene_settings *s, ct_error *error) {
    if (s->tolerance > 0 || s->tolerance_rel > 0) return CT_OK;
    return ct_fail(error, CT_INVALID_ARGUMENT, "tolerance",
                   "method \"ebpi\" needs a tolerance in m^3, or tolerance_rel, a fraction of the volume");
}

/* Winding numbers are flooded along the clusters' topology, and pieces are found along the edges. The CPU reads rigid
 * bodies cluster by cluster. */
static ct_status prepare_for_exact(const ct_mesh_use *use, ct_mesh *mesh, ct_error *error) {
    const bool reads_rigid_clusters = use->on_cpu && use->kind == CT_BODY_RIGID && ct_has_rigid_clusters(mesh);
    if (use->meets_itself && mesh->has_shared_edges)
        return ct_fail(error, CT_INVALID_ARGUMENT, "self_contact",
                       "method \"exact\" does not find the contacts with itself of a body whose parts share edges: "
                       "give each part vertices of its own, or choose the method \"ldi\"");
    if (!ct_mesh_topology(mesh, error)) return ct_failure();
    if (reads_rigid_clusters && !ct_mesh_rigid_clusters(mesh, error)) return ct_failure();
    const bool follows_edges = use->settings->patches || use->meets_itself; /* so do floods over its own surface */
    return follows_edges && !ct_mesh_adjacency(mesh, error) ? ct_failure() : CT_OK;
}

static ct_status check_voxtree(const ct_scene_settings *s, ct_error *error) {
    const uint32_t finest = s->voxel_level ? s->voxel_level : CT_MAX_VOXEL_LEVEL;
    if (s->level <= finest) return CT_OK;
    return ct_fail(error, CT_OUT_OF_RANGE, "level", "level is %u, expected 1 to %u, which is %s, or 0 for all levels",
                   s->level, finest, s->voxel_level ? "voxel_level" : "the finest that a tree can have");
}

static ct_status prepare_voxels(const ct_mesh_use *use, ct_mesh *mesh, ct_error *error) {
    ct_error why = {0};
    const uint32_t level = ct_voxel_level_for(mesh, use->settings);
    if (!ct_voxel_tree_hold(mesh, level, &why)) return ct_fail(error, why.status, why.field, "%s", why.message);
    const ct_status status = use->settings->refine ? prepare_for_exact(use, mesh, error) : CT_OK;
    if (status) ct_voxel_tree_drop(mesh, level);
    return status;
}

static void unprepare_voxels(const ct_scene_settings *settings, ct_mesh *mesh) {
    ct_voxel_tree_drop(mesh, ct_voxel_level_for(mesh, settings));
}

/* ---- pairs ---- */

static ct_status check_view(const ct_scene_settings *settings, const ct_body *const body[2], ct_error *error) {
    ct_window window;
    return ct_view_plan(&body[0]->box, &body[1]->box, settings, &window, error);
}

static ct_status check_tiles(const ct_scene_settings *settings, const ct_body *const body[2], ct_error *error) {
    const ct_box boxes[2] = {body[0]->box, body[1]->box}, overlap = ct_overlap(&boxes[0], &boxes[1]);
    ct_window window;
    (void)settings;
    return ct_ebpi_plan_window(boxes, &overlap, &window, error);
}

static ct_status check_lattice(const ct_scene_settings *settings, const ct_body *const body[2], ct_error *error) {
    (void)settings;
    return ct_exact_check_pair(body, error);
}

/* ---- the table ---- */

/* What is not named is false or NULL: the method does not have it. */
static const ct_method_row rows[] = {
    {.method = CT_METHOD_LDI,
     .gives_spans = true,
     .check_pair = check_view,
     .self_on = {"cpu", "cuda"},
     .cpu = ct_cpu_run_ldi,
     .cuda = ON_CUDA(ct_gpu_run_ldi)},
    {.method = CT_METHOD_EXACT,
     .takes_half_spaces = true,
     .self_on = {"cpu", "cuda"},
     .gives_second = true,
     .check_pair = check_lattice,
     .prepare_mesh = prepare_for_exact,
     .cpu = ct_cpu_run_exact,
     .cuda = ON_CUDA(ct_gpu_run_exact)},
    {.method = CT_METHOD_EBPI,
     .check_settings = check_ebpi,
     .takes_tolerance = true,
     .gives_tiles = true,
     .check_pair = check_tiles,
     .cpu = ct_cpu_run_ebpi,
     .cuda = ON_CUDA(ct_gpu_run_ebpi)},
    {.method = CT_METHOD_VOXTREE,
     .check_settings = check_voxtree,
     .takes_time_budget = true,
     .is_rigid_only = true,
     .gives_no_gradient = true,
     .prepare_mesh = prepare_voxels,
     .unprepare_mesh = unprepare_voxels,
     .cpu = ct_cpu_run_voxtree,
     .cuda = ON_CUDA(ct_gpu_run_voxtree)},
};

enum { ROWS = sizeof rows / sizeof *rows };
static_assert((int)ROWS <= (int)CT_MAX_METHODS, "CT_MAX_METHODS is too small");

ct_method_run *ct_method_run_on(const ct_method_row *row, const char *backend) {
    if (!strcmp(backend, "cpu")) return row->cpu;
    if (!strcmp(backend, "cuda")) return row->cuda;
    return NULL;
}

/* ---- look-ups ---- */

/* Writes "ldi, ...": the methods of the engine's backend, or of the build if engine is NULL. */
static void list_names(const ct_engine *engine, char *out, size_t size) {
    size_t used = 0;
    snprintf(out, size, "none");
    for (size_t i = 0; i < ROWS; i++) {
        if (engine && !engine->run[i]) continue;
        int n = used < size
                    ? snprintf(out + used, size - used, "%s%s", used ? ", " : "", ct_method_name(rows[i].method))
                    : 0;
        used += (size_t)n;
    }
}

const ct_method_row *ct_method_row_of(ct_method method, ct_error *error) {
    for (size_t i = 0; i < ROWS; i++)
        if (rows[i].method == method) return &rows[i];
    char names[128];
    list_names(NULL, names, sizeof names);
    ct_fail(error, CT_UNSUPPORTED, "method", "method %d is unknown: this build has %s", (int)method, names);
    return NULL;
}

ct_status ct_method_check_pair(const ct_step *step, const ct_body *const body[2], ct_error *error) {
    const ct_method_row *row = ct_method_row_of(ct_method_of_step(step), NULL);
    return row && row->check_pair ? row->check_pair(&step->scene->settings, body, error) : CT_OK;
}

bool ct_method_leaves_out(const ct_step *step, const ct_body *const body[2]) {
    return step->scene->settings.skip_unplaced && ct_method_check_pair(step, body, NULL) == CT_OUT_OF_RANGE;
}

ct_method ct_method_at(size_t i) {
    return i < ROWS ? rows[i].method : CT_METHOD_NONE;
}

void ct_engine_find_methods(ct_engine *engine) {
    for (size_t i = 0; i < ROWS; i++) engine->run[i] = ct_method_run_on(&rows[i], engine->backend->name);
}

ct_method_run *ct_engine_run_of(const ct_engine *engine, const ct_method_row *row) {
    return engine->run[row - rows];
}

size_t ct_engine_methods(const ct_engine *engine, ct_method out[CT_MAX_METHODS]) {
    size_t n = 0;
    for (size_t i = 0; i < ROWS; i++)
        if (engine->run[i]) out[n++] = rows[i].method;
    return n;
}

ct_method ct_engine_auto_method(const ct_engine *engine) {
    const ct_method_row *exact = ct_method_row_of(CT_METHOD_EXACT, NULL);
    return exact && ct_engine_run_of(engine, exact) ? CT_METHOD_EXACT : CT_METHOD_LDI;
}

ct_method ct_method_to_run(const ct_engine *engine, const ct_scene_settings *settings) {
    if (settings->method != CT_METHOD_AUTO) return settings->method;
    const char *why;
    const ct_method chosen = chosen_by_settings(settings, &why);
    return chosen ? chosen : ct_engine_auto_method(engine);
}

ct_method ct_method_of_step(const ct_step *step) {
    const ct_scene *scene = step->scene;
    const ct_method_row *ebpi = ct_method_row_of(CT_METHOD_EBPI, NULL);
    const bool may_choose =
        scene->asked.method == CT_METHOD_AUTO && !names_sampling(&scene->asked) && scene->asked.cell_size == 0;
    return may_choose && step->tolerance > 0 && ct_engine_run_of(scene->engine, ebpi) ? CT_METHOD_EBPI
                                                                                      : scene->settings.method;
}

ct_status ct_method_check_engine(const ct_engine *engine, const ct_method_row *row, ct_error *error) {
    if (ct_engine_run_of(engine, row)) return CT_OK;
    char names[128];
    list_names(engine, names, sizeof names);
    return ct_fail(error, CT_UNSUPPORTED, "method", "method \"%s\" is not available on backend \"%s\", which has: %s",
                   ct_method_name(row->method), engine->backend->name, names);
}

ct_status ct_method_check_half_spaces(const ct_method_row *row, const char *field, ct_error *error) {
    if (row->takes_half_spaces) return CT_OK;
    return ct_fail(error, CT_UNSUPPORTED, field, "method \"%s\" takes no half-spaces: use a mesh, or method \"exact\"",
                   ct_method_name(row->method));
}

ct_status ct_method_prepare_mesh(const ct_mesh_use *use, ct_mesh *mesh, ct_error *error) {
    const ct_method_row *row = ct_method_row_of(use->settings->method, error);
    if (!row) return CT_UNSUPPORTED;
    return row->prepare_mesh ? row->prepare_mesh(use, mesh, error) : CT_OK;
}

void ct_method_unprepare_mesh(const ct_scene_settings *running, ct_mesh *mesh) {
    const ct_method_row *row = ct_method_row_of(running->method, NULL);
    if (row && row->unprepare_mesh) row->unprepare_mesh(running, mesh);
}

ct_status ct_method_check_kind(const ct_scene_settings *running, ct_body_kind kind, ct_error *error) {
    const ct_method_row *row = ct_method_row_of(running->method, error);
    if (!row) return CT_UNSUPPORTED;
    if (kind != CT_BODY_DEFORMABLE || !row->is_rigid_only) return CT_OK;
    return ct_fail(
        error, CT_UNSUPPORTED, "kind",
        "method \"%s\" takes no deformable bodies, as their voxels change with each step: use a rigid body, or "
        "method \"exact\" or \"ldi\"",
        ct_method_name(row->method));
}

/* ---- checks ---- */

ct_status ct_method_check_settings(const ct_scene_settings *settings, ct_error *error) {
    const ct_method_row *row = NULL;
    const char *why;
    if (settings->method != CT_METHOD_AUTO && !(row = ct_method_row_of(settings->method, error))) return CT_UNSUPPORTED;
    ct_status status = check_taken(settings, error);
    if (!status) status = check_ranges(settings, error);
    if (!status && !row && chosen_by_settings(settings, &why) == CT_METHOD_EBPI) return check_ebpi(settings, error);
    return status || !row || !row->check_settings ? status : row->check_settings(settings, error);
}

ct_status ct_method_check_self(const ct_engine *engine, const ct_scene_settings *running, ct_error *error) {
    const ct_method_row *row = ct_method_row_of(running->method, error);
    if (!row) return CT_UNSUPPORTED;
    bool is_found = false;
    for (int i = 0; i < 2; i++)
        is_found = is_found || (row->self_on[i] && strcmp(engine->backend->name, row->self_on[i]) == 0);
    if (!is_found)
        return ct_fail(
            error, CT_UNSUPPORTED, "self_contact",
            "method \"%s\" on backend \"%s\" finds no contact of a body with itself: leave self_contact out, "
            "or choose method \"ldi\" or \"exact\"",
            ct_method_name(row->method), engine->backend->name);
    if (running->patches)
        return ct_fail(
            error, CT_UNSUPPORTED, "self_contact",
            "the contact of a body with itself is not divided into patches: leave out either self_contact or "
            "patches");
    return CT_OK;
}

static ct_status check_limit(const ct_method_row *row, const char *field, double value, bool taken, ct_error *error) {
    if (value == 0) return CT_OK;
    if (!isfinite(value))
        return ct_fail(error, CT_NON_FINITE, field, "the step's %s is %g, expected a positive number, or 0 for none",
                       field, value);
    if (value < 0)
        return ct_fail(error, CT_OUT_OF_RANGE, field, "the step's %s is %g, expected a positive number, or 0 for none",
                       field, value);
    if (taken) return CT_OK;
    return ct_fail(error, CT_INVALID_ARGUMENT, field, "method \"%s\" takes no %s: leave it 0, or choose another method",
                   ct_method_name(row->method), field);
}

/* What only EXACT gives. */
static ct_status check_second(const ct_method_row *row, const ct_step *step, ct_error *error) {
    const char *what = step->want & CT_WANT_SURFACE   ? "contact surface"
                       : step->want & CT_WANT_INERTIA ? "inertia"
                       : step->n_directions           ? "products"
                                                      : NULL;
    if (!what || row->gives_second) return CT_OK;
    return ct_fail(error, CT_INVALID_ARGUMENT, step->want & (CT_WANT_SURFACE | CT_WANT_INERTIA) ? "want" : "directions",
                   "method \"%s\" gives no %s: leave it out, or choose method \"exact\"", ct_method_name(row->method),
                   what);
}

/* A method that a step chose for itself: whether it takes the scene as it is. */
static ct_status check_chosen(const ct_method_row *row, const ct_scene *scene, ct_error *error) {
    if (row->method == scene->settings.method) return CT_OK;
    ct_scene_settings asked = scene->asked;
    asked.method = row->method;
    ct_status status = check_taken(&asked, error);
    ct_scene_settings running = scene->settings;
    running.method = row->method;
    if (!status && scene->n_self) status = ct_method_check_self(scene->engine, &running, error);
    if (!status && scene->n_half_spaces) status = ct_method_check_half_spaces(row, "tolerance", error);
    return status;
}

ct_status ct_method_check_step(const ct_method_row *row, const ct_step *step, ct_error *error) {
    ct_status status = check_chosen(row, step->scene, error);
    if (!status) status = check_second(row, step, error);
    if (status) return status;
    if (step->n_velocities && row->gives_no_gradient)
        return ct_fail(
            error, CT_INVALID_ARGUMENT, "velocities",
            "method \"%s\" gives no gradient of vertices to weigh velocities with: leave them out, or choose "
            "method \"exact\"",
            ct_method_name(row->method));
    const bool names_forces = step->want & CT_WANT_FORCES && (step->want & CT_WANT_ALL) != CT_WANT_ALL;
    if (names_forces && row->gives_no_gradient && !step->scene->settings.refine)
        return ct_fail(
            error, CT_INVALID_ARGUMENT, "want",
            "method \"%s\" gives no forces on vertices: leave them out of want, set refine, or choose method "
            "\"exact\"",
            ct_method_name(row->method));
    if (step->want & CT_WANT_SPANS && !row->gives_spans)
        return ct_fail(error, CT_INVALID_ARGUMENT, "want",
                       "method \"%s\" gives no spans: leave them out of want, or choose method \"ldi\"",
                       ct_method_name(row->method));
    if (step->want & CT_WANT_TILES && !row->gives_tiles)
        return ct_fail(error, CT_INVALID_ARGUMENT, "want",
                       "method \"%s\" gives no tiles: leave them out of want, or choose method \"ebpi\"",
                       ct_method_name(row->method));
    if (!(step->tolerance >= 0 && step->tolerance <= ct_setting_rows[CT_SETTING_TOLERANCE].most))
        return ct_fail(error, CT_OUT_OF_RANGE, "tolerance",
                       "the step's tolerance is %g m^3, expected %s, or 0 for none", step->tolerance,
                       ct_setting_rows[CT_SETTING_TOLERANCE].expected);
    status = check_limit(row, "time_budget", step->time_budget, row->takes_time_budget, error);
    return status ? status : check_limit(row, "tolerance", step->tolerance, row->takes_tolerance, error);
}

/* methods.c - the table of methods and backends. To add a method: a value of ct_method, a row here, its name on the
 * wire (proto/contactd.fbs and codec.h). To add a backend: a column. */
#include "gpu/methods.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gpu/backend/cpu/cpu.h"
#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/engine.h"
#include "gpu/exact/rigid_clusters.h"
#include "gpu/exact/topology.h"
#include "gpu/mesh/adjacency.h"
#include "gpu/voxtree/tree.h"
#ifdef CT_HAVE_CUDA
#include "gpu/backend/cuda/backend_cuda.h"
#define ON_CUDA(run) run
#else
#define ON_CUDA(run) NULL
#endif

const char *ct_allocation_name(ct_allocation allocation) {
    static const char *const names[] = {"optimal", "published", "per_pixel"};
    return (unsigned)allocation < sizeof names / sizeof *names ? names[allocation] : NULL;
}

static bool names_sampling(const ct_scene_settings *s) {
    return s->resolution[0] || s->resolution[1] || s->resolution[2] || s->pixel_size != 0;
}

static bool names_precision(const ct_scene_settings *s) {
    return s->tolerance != 0 || s->tolerance_rel != 0 || s->strict || s->optimize_directions || s->ray_budget ||
           s->allocation != CT_ALLOCATION_OPTIMAL;
}

/* For a method that does not aim at a tolerance. */
static ct_status check_no_precision(const ct_scene_settings *s, ct_error *error) {
    if (!names_precision(s)) return CT_OK;
    const char *field = s->tolerance != 0        ? "tolerance"
                        : s->tolerance_rel != 0  ? "tolerance_rel"
                        : s->strict              ? "strict"
                        : s->optimize_directions ? "optimize_directions"
                        : s->ray_budget          ? "ray_budget"
                                                 : "allocation";
    return ct_fail(error, CT_INVALID_ARGUMENT, field,
                   "method \"%s\" takes no %s: leave it out, or choose method \"ebpi\"", ct_method_name(s->method),
                   field);
}

static ct_status check_max_points(const ct_scene_settings *s, ct_error *error) {
    if (s->max_points <= CT_MAX_POINTS) return CT_OK;
    return ct_fail(error, CT_OUT_OF_RANGE, "max_points", "max_points is %u, expected 1 to %d, or 0 for %s",
                   s->max_points, CT_MAX_POINTS, s->method == CT_METHOD_VOXTREE ? "the default" : "none");
}

/* For a method without voxel trees. */
static ct_status check_no_voxels(const ct_scene_settings *s, ct_error *error) {
    const char *field = s->voxel_level      ? "voxel_level"
                        : s->level          ? "level"
                        : s->pair_budget    ? "pair_budget"
                        : s->center_normals ? "center_normals"
                        : s->plain_average  ? "plain_average"
                        : s->refine         ? "refine"
                                            : NULL;
    if (!field) return CT_OK;
    return ct_fail(error, CT_INVALID_ARGUMENT, field,
                   "method \"%s\" takes no %s: leave it out, or choose method \"voxtree\"", ct_method_name(s->method),
                   field);
}

static ct_status check_sampling(const ct_scene_settings *s, ct_error *error) {
    const bool has_resolution = s->resolution[0] || s->resolution[1] || s->resolution[2];
    for (int i = 0; has_resolution && i < 3; i++)
        if (s->resolution[i] < 1 || s->resolution[i] > CT_MAX_RESOLUTION)
            return ct_fail(error, CT_OUT_OF_RANGE, "resolution", "resolution %u along %c, expected 1 to %d",
                           s->resolution[i], "xyz"[i], CT_MAX_RESOLUTION);
    if (s->pixel_size == 0 || (s->pixel_size >= 1e-30 && s->pixel_size <= 1e30)) return CT_OK;
    return ct_fail(error, CT_OUT_OF_RANGE, "pixel_size",
                   "pixel_size is %g m, expected a length from 1e-30 to 1e30, or 0 for a resolution", s->pixel_size);
}

static ct_status check_ldi(const ct_scene_settings *s, ct_error *error) {
    ct_status status = check_no_precision(s, error);
    if (!status) status = check_no_voxels(s, error);
    return status ? status : check_sampling(s, error);
}

/* For a method without samples. It would not read a sampling, so it refuses one: it could have no effect. */
static ct_status check_no_sampling(const ct_scene_settings *s, ct_error *error) {
    if (!names_sampling(s)) return CT_OK;
    const char *field = s->pixel_size != 0 ? "pixel_size" : "resolution";
    return ct_fail(error, CT_INVALID_ARGUMENT, field,
                   "method \"%s\" takes no %s: leave it out, or choose method \"ldi\"", ct_method_name(s->method),
                   field);
}

static ct_status check_exact(const ct_scene_settings *s, ct_error *error) {
    ct_status status = check_no_sampling(s, error);
    if (!status) status = check_no_precision(s, error);
    return status ? status : check_no_voxels(s, error);
}

/* The lattice carries about this part of a volume. */
static const double LEAST_TOLERANCE_REL = 1e-6;

/* 0: there is none. */
#define EXPECTED_TOLERANCE                                                                                             \
    "a volume above 0, up to 1e300 m^3; the smallest depends on the bodies' extents, and a step that asks for less "   \
    "names it"

static bool is_tolerance(double tolerance) {
    return tolerance >= 0 && tolerance <= 1e300;
}

static ct_status check_ebpi(const ct_scene_settings *s, ct_error *error) {
    ct_status status = check_no_sampling(s, error);
    if (!status) status = check_no_voxels(s, error);
    if (status) return status;
    if (!is_tolerance(s->tolerance))
        return ct_fail(error, CT_OUT_OF_RANGE, "tolerance", "tolerance is %g m^3, expected " EXPECTED_TOLERANCE,
                       s->tolerance);
    if (!(s->tolerance_rel >= 0 && s->tolerance_rel <= 1) ||
        (s->tolerance_rel > 0 && s->tolerance_rel < LEAST_TOLERANCE_REL))
        return ct_fail(error, CT_OUT_OF_RANGE, "tolerance_rel",
                       "tolerance_rel is %g, expected a fraction of the volume from %g to 1", s->tolerance_rel,
                       LEAST_TOLERANCE_REL);
    if (s->tolerance == 0 && s->tolerance_rel == 0)
        return ct_fail(error, CT_INVALID_ARGUMENT, "tolerance",
                       "method \"ebpi\" needs a tolerance in m^3, or tolerance_rel, a fraction of the volume");
    if (!ct_allocation_name(s->allocation))
        return ct_fail(error, CT_OUT_OF_RANGE, "allocation",
                       "allocation is %d, expected 0 (optimal), 1 (published) or 2 (per_pixel)", (int)s->allocation);
    if (s->ray_budget && (s->ray_budget < 3 || s->ray_budget > CT_MAX_RAY_BUDGET))
        return ct_fail(error, CT_OUT_OF_RANGE, "ray_budget",
                       "ray_budget is %llu, expected 3, one for each view, to %d, or 0 for the default",
                       (unsigned long long)s->ray_budget, CT_MAX_RAY_BUDGET);
    return CT_OK;
}

/* AUTO runs EBPI where a precision is named, LDI where a sampling is. */
static ct_status check_auto(const ct_scene_settings *s, ct_error *error) {
    if (!names_precision(s)) return check_ldi(s, error);
    ct_scene_settings ebpi = *s;
    ebpi.method = CT_METHOD_EBPI;
    return check_ebpi(&ebpi, error);
}

/* Winding numbers are flooded along the clusters' topology, and pieces are found along the edges. The CPU reads rigid
 * bodies cluster by cluster. */
static ct_status prepare_for_exact(const ct_mesh_use *use, ct_mesh *mesh, ct_error *error) {
    const bool reads_rigid_clusters = use->on_cpu && use->kind == CT_BODY_RIGID && ct_has_rigid_clusters(mesh);
    if (!ct_mesh_topology(mesh, error)) return ct_failure();
    if (reads_rigid_clusters && !ct_mesh_rigid_clusters(mesh, error)) return ct_failure();
    const bool follows_edges = use->settings->patches || use->meets_itself; /* so do floods over its own surface */
    return follows_edges && !ct_mesh_adjacency(mesh, error) ? ct_failure() : CT_OK;
}

static ct_status check_voxtree(const ct_scene_settings *s, ct_error *error) {
    ct_status status = check_no_sampling(s, error);
    if (!status) status = check_no_precision(s, error);
    if (status) return status;
    if (s->voxel_level && (s->voxel_level < CT_MIN_VOXEL_LEVEL || s->voxel_level > CT_MAX_VOXEL_LEVEL))
        return ct_fail(error, CT_OUT_OF_RANGE, "voxel_level",
                       "voxel_level is %u, expected %d to %d, or 0 for one that suits each mesh", s->voxel_level,
                       CT_MIN_VOXEL_LEVEL, CT_MAX_VOXEL_LEVEL);
    const uint32_t finest = s->voxel_level ? s->voxel_level : CT_MAX_VOXEL_LEVEL;
    if (s->level > finest)
        return ct_fail(error, CT_OUT_OF_RANGE, "level",
                       "level is %u, expected 1 to %u, which is %s, or 0 for all levels", s->level, finest,
                       s->voxel_level ? "voxel_level" : "the finest that a tree can have");
    return CT_OK;
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

/* ---- the table ---- */

/* What is not named is false or NULL: the method does not have it. */
static const ct_method_row rows[] = {
    {.method = CT_METHOD_LDI,
     .name = "ldi",
     .check_settings = check_ldi,
     .gives_spans = true,
     .gives_cells = true,
     .self_on = {"cpu", "cuda"},
     .cpu = ct_cpu_run_ldi,
     .cuda = ON_CUDA(ct_gpu_run_ldi)},
    {.method = CT_METHOD_EXACT,
     .name = "exact",
     .check_settings = check_exact,
     .gives_patches = true,
     .takes_half_spaces = true,
     .self_on = {"cpu", "cuda"},
     .gives_second = true,
     .prepare_mesh = prepare_for_exact,
     .cpu = ct_cpu_run_exact,
     .cuda = ON_CUDA(ct_gpu_run_exact)},
    {.method = CT_METHOD_EBPI,
     .name = "ebpi",
     .check_settings = check_ebpi,
     .takes_tolerance = true,
     .gives_tiles = true,
     .cpu = ct_cpu_run_ebpi,
     .cuda = ON_CUDA(ct_gpu_run_ebpi)},
    {.method = CT_METHOD_VOXTREE,
     .name = "voxtree",
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

static const char auto_name[] = "auto";

/* Writes "ldi, ...": the methods of the engine's backend, or of the build if engine is NULL. */
static void list_names(const ct_engine *engine, char *out, size_t size) {
    size_t used = 0;
    snprintf(out, size, "none");
    for (size_t i = 0; i < ROWS; i++) {
        if (engine && !engine->run[i]) continue;
        int n = used < size ? snprintf(out + used, size - used, "%s%s", used ? ", " : "", rows[i].name) : 0;
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

const char *ct_method_name(ct_method method) {
    if (method == CT_METHOD_AUTO) return auto_name;
    const ct_method_row *row = ct_method_row_of(method, NULL);
    return row ? row->name : "unknown";
}

ct_method ct_method_at(size_t i) {
    return i < ROWS ? rows[i].method : CT_METHOD_NONE;
}

ct_status ct_method_find(const char *name, ct_method *out, ct_error *error) {
    *out = CT_METHOD_NONE;
    if (!strcmp(name, auto_name)) {
        *out = CT_METHOD_AUTO;
        return CT_OK;
    }
    for (size_t i = 0; i < ROWS; i++)
        if (!strcmp(rows[i].name, name)) {
            *out = rows[i].method;
            return CT_OK;
        }
    char names[128];
    list_names(NULL, names, sizeof names);
    return ct_fail(error, CT_UNSUPPORTED, "method", "method \"%.60s\" is unknown: this build has %s", name, names);
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
    if (settings->patches) return CT_METHOD_EXACT;
    if (settings->cell_size > 0) return CT_METHOD_LDI;
    if (names_precision(settings)) return CT_METHOD_EBPI;
    return names_sampling(settings) ? CT_METHOD_LDI : ct_engine_auto_method(engine);
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
                   row->name, engine->backend->name, names);
}

ct_status ct_method_check_half_spaces(const ct_method_row *row, const char *field, ct_error *error) {
    if (row->takes_half_spaces) return CT_OK;
    return ct_fail(error, CT_UNSUPPORTED, field, "method \"%s\" takes no half-spaces: use a mesh, or method \"exact\"",
                   row->name);
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
        row->name);
}

/* ---- checks ---- */

/* Patches need a method that gives them on some backend, and none of those has a sampling. */
static ct_status check_patches(const ct_scene_settings *s, const ct_method_row *row, ct_error *error) {
    if (!s->patches) return CT_OK;
    if (row && !row->gives_patches)
        return ct_fail(error, CT_INVALID_ARGUMENT, "patches",
                       "method \"%s\" gives no patches: leave patches out, or choose method \"exact\"", row->name);
    if (names_sampling(s))
        return ct_fail(error, CT_INVALID_ARGUMENT, "patches",
                       "patches need method \"exact\", which takes no resolution and no pixel_size: leave out either "
                       "the sampling or patches");
    if (!row && names_precision(s))
        return ct_fail(error, CT_INVALID_ARGUMENT, "patches",
                       "patches need method \"exact\", which takes no tolerance, strict and ray_budget: leave out "
                       "either those or patches");
    return CT_OK;
}

/* Cells need a method that gives them on some backend, and none of those gives patches. */
static ct_status check_cells(const ct_scene_settings *s, const ct_method_row *row, ct_error *error) {
    if (s->cell_size == 0) return CT_OK;
    if (!(s->cell_size >= 1e-30 && s->cell_size <= 1e30))
        return ct_fail(error, CT_OUT_OF_RANGE, "cell_size",
                       "cell_size is %g m, expected a length from 1e-30 to 1e30, or 0 for no cells", s->cell_size);
    if (row && !row->gives_cells)
        return ct_fail(error, CT_INVALID_ARGUMENT, "cell_size",
                       "method \"%s\" gives no cells: leave cell_size 0, or choose method \"ldi\"", row->name);
    if (s->patches || names_precision(s))
        return ct_fail(error, CT_INVALID_ARGUMENT, "cell_size",
                       "cells need method \"ldi\", which gives no patches and takes no tolerance: leave out either "
                       "cell_size or these");
    return CT_OK;
}

static ct_status check_margin(const ct_scene_settings *s, ct_error *error) {
    if (s->margin >= 0 && s->margin <= 1e30) return CT_OK;
    return ct_fail(error, CT_OUT_OF_RANGE, "margin", "margin is %g m, expected a length up to 1e30, or 0 for none",
                   s->margin);
}

static ct_status check_step_time(const ct_scene_settings *s, ct_error *error) {
    if (s->max_step_time >= 0 && isfinite(s->max_step_time)) return CT_OK;
    return ct_fail(error, isfinite(s->max_step_time) ? CT_OUT_OF_RANGE : CT_NON_FINITE, "max_step_time",
                   "max_step_time is %g s, expected a positive number, or none at all", s->max_step_time);
}

ct_status ct_method_check_settings(const ct_scene_settings *settings, ct_error *error) {
    const ct_method_row *row = NULL;
    if (settings->method != CT_METHOD_AUTO && !(row = ct_method_row_of(settings->method, error))) return CT_UNSUPPORTED;
    ct_status status = row ? row->check_settings(settings, error) : check_auto(settings, error);
    if (!status) status = check_max_points(settings, error);
    if (!status) status = check_margin(settings, error);
    if (!status) status = check_step_time(settings, error);
    if (!status) status = check_patches(settings, row, error);
    return status ? status : check_cells(settings, row, error);
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
            row->name, engine->backend->name);
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
                   row->name, field);
}

/* What only EXACT gives. */
static ct_status check_second(const ct_method_row *row, const ct_step *step, ct_error *error) {
    const bool wants_inertia = step->want & CT_WANT_INERTIA;
    if ((!wants_inertia && !step->n_directions) || row->gives_second) return CT_OK;
    return ct_fail(error, CT_INVALID_ARGUMENT, wants_inertia ? "want" : "directions",
                   "method \"%s\" gives no %s: leave them out, or choose method \"exact\"", row->name,
                   wants_inertia ? "inertia" : "products");
}

/* A method that a step chose for itself: whether it takes the scene as it is. */
static ct_status check_chosen(const ct_method_row *row, const ct_scene *scene, ct_error *error) {
    if (row->method == scene->settings.method) return CT_OK;
    ct_status status = check_patches(&scene->asked, row, error);
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
            row->name);
    const bool names_forces = step->want & CT_WANT_FORCES && (step->want & CT_WANT_ALL) != CT_WANT_ALL;
    if (names_forces && row->gives_no_gradient && !step->scene->settings.refine)
        return ct_fail(
            error, CT_INVALID_ARGUMENT, "want",
            "method \"%s\" gives no forces on vertices: leave them out of want, set refine, or choose method "
            "\"exact\"",
            row->name);
    if (step->want & CT_WANT_SPANS && !row->gives_spans)
        return ct_fail(error, CT_INVALID_ARGUMENT, "want",
                       "method \"%s\" gives no spans: leave them out of want, or choose method \"ldi\"", row->name);
    if (step->want & CT_WANT_TILES && !row->gives_tiles)
        return ct_fail(error, CT_INVALID_ARGUMENT, "want",
                       "method \"%s\" gives no tiles: leave them out of want, or choose method \"ebpi\"", row->name);
    if (!is_tolerance(step->tolerance))
        return ct_fail(error, CT_OUT_OF_RANGE, "tolerance",
                       "the step's tolerance is %g m^3, expected " EXPECTED_TOLERANCE ", or 0 for none",
                       step->tolerance);
    status = check_limit(row, "time_budget", step->time_budget, row->takes_time_budget, error);
    return status ? status : check_limit(row, "tolerance", step->tolerance, row->takes_tolerance, error);
}

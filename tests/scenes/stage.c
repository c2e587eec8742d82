/* stage.c - scenes for tests. */
#include "tests/scenes/stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/mesh/build/sha256.h"
#include "tests/scenes/build.h"

static void demand(ct_status status, const char *what, const ct_error *error) {
    if (status == CT_OK) return;
    fprintf(stderr, "stage: %s: %s: %s: %s\n", what, ct_status_name(status), error->field, error->message);
    abort();
}

ct_engine *stage_engine(uint32_t threads, const char *simd) {
    ct_engine_options options;
    ct_engine *engine;
    ct_error error = {0};
    ct_engine_options_init(&options);
    options.backend = "cpu";
    options.threads = threads;
    if (simd) options.simd = simd;
    demand(ct_engine_create(&options, &engine, &error), "engine", &error);
    return engine;
}

ct_scene_settings stage_resolution(uint32_t n) {
    ct_scene_settings settings;
    ct_scene_settings_init(&settings);
    for (int k = 0; k < 3; k++) settings.resolution[k] = n;
    return settings;
}

ct_scene_settings stage_pixel(double pixel_size) {
    ct_scene_settings settings = stage_resolution(CT_DEFAULT_RESOLUTION);
    settings.pixel_size = pixel_size;
    return settings;
}

static void place_deformable(struct stage *stage, uint32_t body, const struct placed *placed) {
    const struct shape *shape = placed->shape;
    float *positions = shape_alloc(shape->n_vertices, 3 * sizeof *positions);
    for (uint32_t v = 0; v < shape->n_vertices; v++)
        for (int k = 0; k < 3; k++) {
            const float *p = shape->positions + 3 * (size_t)v;
            const double *row = placed->pose + 4 * k;
            positions[3 * (size_t)v + (size_t)k] =
                (float)(row[0] * (double)p[0] + row[1] * (double)p[1] + row[2] * (double)p[2] + row[3]);
        }
    ct_update update = {
        .body = body, .kind = CT_UPDATE_POSITIONS, .positions = positions, .dtype = CT_F32, .count = shape->n_vertices};
    ct_result *result = stage_step(stage, &update, 1, 0);
    ct_result_free(&result);
    free(positions);
}

ct_scene_settings stage_voxtree(uint32_t voxel_level, uint32_t level) {
    ct_scene_settings settings;
    ct_scene_settings_init(&settings);
    settings.method = CT_METHOD_VOXTREE;
    settings.voxel_level = voxel_level;
    settings.level = level;
    return settings;
}

ct_scene_settings stage_exact(void) {
    ct_scene_settings settings;
    ct_scene_settings_init(&settings);
    settings.method = CT_METHOD_EXACT;
    return settings;
}

ct_mesh *stage_scanned_mesh(const char *file) {
    const char *folder = getenv("CONTACTD_MESHES");
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder && *folder ? folder : "../shared/meshes", file);
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    fseek(f, 0, SEEK_END);
    const long size = ftell(f);
    rewind(f);
    void *bytes = shape_alloc((uint64_t)size, 1);
    ct_mesh *mesh = NULL;
    ct_mesh_limits limits;
    ct_mesh_limits_init(&limits);
    ct_error error = {.status = CT_DEVICE_ERROR, .message = "cannot be read"};
    if (fread(bytes, 1, (size_t)size, f) == (size_t)size)
        ct_mesh_read(bytes, (size_t)size, CT_FORMAT_AUTO, &limits, &mesh, &error);
    if (!mesh) demand(error.status, path, &error);
    free(bytes);
    fclose(f);
    return mesh;
}

static ct_mesh *mesh_of(const struct placed *placed, ct_error *error) {
    const struct shape *shape = placed->shape;
    if (!shape || !placed->open) return shape ? shape_to_mesh(shape, error) : NULL;
    ct_mesh_options options;
    ct_mesh *mesh = NULL;
    ct_mesh_options_init(&options);
    memcpy(options.open_direction, placed->open, sizeof options.open_direction);
    ct_mesh_create_with(shape->positions, CT_F32, shape->n_vertices, shape->triangles, shape->n_triangles, &options,
                        &mesh, NULL, error);
    return mesh;
}

struct stage stage_open(ct_engine *engine, const ct_scene_settings *settings, const struct placed *bodies, int n) {
    struct stage stage = {.engine = engine, .n = n};
    ct_error error = {0};
    demand(ct_scene_create(engine, settings, &stage.scene, &error), "scene", &error);
    for (int i = 0; i < n; i++) {
        ct_body_options options;
        ct_body_options_init(&options);
        options.kind = bodies[i].kind ? bodies[i].kind : CT_BODY_RIGID;
        options.self_contact = bodies[i].self_contact;
        if (!bodies[i].shape) options.kind = CT_BODY_HALF_SPACE;
        if (bodies[i].pose && options.kind != CT_BODY_DEFORMABLE)
            memcpy(options.pose, bodies[i].pose, sizeof options.pose);
        ct_mesh *mesh = mesh_of(&bodies[i], &error);
        demand(error.status, "mesh", &error);
        demand(ct_scene_add_body(stage.scene, mesh, &options, &stage.body[i], &error), "body", &error);
        ct_mesh_release(&mesh);
    }
    for (int i = 0; i < n; i++)
        if (bodies[i].pose && bodies[i].kind == CT_BODY_DEFORMABLE) place_deformable(&stage, stage.body[i], &bodies[i]);
    return stage;
}

void stage_close(struct stage *stage) {
    ct_scene_destroy(&stage->scene);
}

void stage_forget_answers(const struct stage *stage) {
    ct_error error = {0};
    ct_scene_settings settings;
    ct_scene_get_settings(stage->scene, &settings);
    demand(ct_scene_configure(stage->scene, &settings, &error), "settings", &error);
}

ct_result *stage_step(struct stage *stage, const ct_update *updates, size_t n_updates, uint32_t want) {
    return stage_run(stage, (ct_step){.updates = updates, .n_updates = n_updates, .want = want});
}

ct_result *stage_run(struct stage *stage, ct_step step) {
    step.scene = stage->scene;
    demand(ct_engine_run(stage->engine, &step, 1), "step", &step.error);
    return step.result;
}

ct_result *stage_once(ct_engine *engine, const ct_scene_settings *settings, const struct placed *bodies, int n,
                      uint32_t want) {
    struct stage stage = stage_open(engine, settings, bodies, n);
    ct_result *result = stage_step(&stage, NULL, 0, want);
    stage_close(&stage);
    return result;
}

static void take(ct_sha256 *sha, const void *bytes, size_t size) {
    uint64_t length = bytes ? size : UINT64_MAX;
    ct_sha256_update(sha, &length, sizeof length);
    if (bytes) ct_sha256_update(sha, bytes, size);
}

/* What only VOXTREE gives. */
static void take_voxels(ct_sha256 *sha, const ct_result *result) {
    for (size_t i = 0; i < result->n_contacts; i++) {
        const ct_contact *c = &result->contacts[i];
        const double interval[] = {c->volume_lower, c->volume_upper, c->error_bound};
        const uint64_t points[] = {c->first_point, c->n_points};
        take(sha, interval, sizeof interval);
        take(sha, points, sizeof points);
    }
    const uint64_t size = result->points ? result->n_points * offsetof(ct_point, id) : UINT64_MAX;
    ct_sha256_update(sha, &size, sizeof size);
    for (uint64_t i = 0; i < result->n_points; i++) ct_sha256_update(sha, &result->points[i], offsetof(ct_point, id));
    for (size_t i = 0; i < result->n_progress; i++) {
        const ct_pair_progress *p = &result->progress[i];
        const uint32_t progress[] = {p->body[0], p->body[1], p->is_examined, p->level[0], p->level[1], p->ended};
        take(sha, progress, sizeof progress);
    }
    const uint32_t ended = result->ended;
    take(sha, &ended, sizeof ended);
    take(sha, &result->quality, sizeof result->quality);
}

static void take_contact(ct_sha256 *sha, const ct_contact *c) {
    take(sha, c->body, sizeof c->body);
    take(sha, &c->volume, sizeof c->volume);
    take(sha, c->volumes, sizeof c->volumes);
    take(sha, &c->error_estimate, sizeof c->error_estimate); /* error_bound: NaN, whose sign is no promise */
    take(sha, &c->area, sizeof c->area);
    take(sha, &c->depth, sizeof c->depth);
    take(sha, c->normal, sizeof c->normal);
    take(sha, c->tangents, sizeof c->tangents);
    take(sha, c->center, sizeof c->center);
    take(sha, c->generalized_gradient, sizeof c->generalized_gradient);
    take(sha, c->first, sizeof c->first);
    take(sha, c->count, sizeof c->count);
    take(sha, &c->first_span, sizeof c->first_span);
    take(sha, &c->n_spans, sizeof c->n_spans);
}

static void take_slip(ct_sha256 *sha, const ct_contact *c) {
    take(sha, c->side_center, sizeof c->side_center);
    take(sha, c->relative_velocity, sizeof c->relative_velocity);
    take(sha, &c->spin, sizeof c->spin);
    take(sha, c->friction, sizeof c->friction);
}

static void take_wrenches(ct_sha256 *sha, const ct_contact *c) {
    take(sha, c->wrench, sizeof c->wrench);
    take(sha, c->extents, sizeof c->extents);
    take(sha, c->axes, sizeof c->axes);
}

void stage_hash(const ct_result *result, char hex[33]) {
    ct_sha256 sha;
    uint8_t digest[32];
    ct_sha256_init(&sha);
    const uint64_t counts[] = {result->n_contacts, result->n_entries, result->n_spans, result->want, result->method,
                               result->pairs,
                               /* how many rays the method exact casts is how it finds its answer, not what it is */
                               result->method == CT_METHOD_EXACT ? 0 : result->rays};
    take(&sha, counts, sizeof counts);
    for (size_t i = 0; i < result->n_contacts; i++) take_contact(&sha, &result->contacts[i]);
    for (uint64_t i = 0; i < result->n_cells; i++) {
        take_contact(&sha, &result->cells[i]);
        take(&sha, result->cells[i].cell, sizeof result->cells[i].cell);
    }
    size_t n = result->n_entries;
    take(&sha, result->vertices, n * sizeof *result->vertices);
    take(&sha, result->gradient, 3 * n * sizeof *result->gradient);
    take(&sha, result->weights, n * sizeof *result->weights);
    take(&sha, result->forces, 3 * n * sizeof *result->forces);
    take(&sha, result->spans, result->n_spans * sizeof *result->spans);
    if (result->n_tiles) take(&sha, result->tiles, result->n_tiles * sizeof *result->tiles);
    if (result->method == CT_METHOD_VOXTREE) take_voxels(&sha, result);
    if (result->has_slip) {
        for (size_t i = 0; i < result->n_contacts; i++) take_slip(&sha, &result->contacts[i]);
        for (uint64_t i = 0; i < result->n_cells; i++) take_slip(&sha, &result->cells[i]);
        take(&sha, result->friction_forces, 3 * n * sizeof *result->friction_forces);
    }
    for (size_t i = 0; i < result->n_contacts && result->has_wrenches; i++) take_wrenches(&sha, &result->contacts[i]);
    ct_sha256_final(&sha, digest);
    for (int i = 0; i < 16; i++) snprintf(hex + 2 * i, 3, "%02x", digest[i]);
}

/* hostile_scene.c - scenes of hostile shapes. */
#include "tests/scenes/hostile_scene.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/setting_rows.h"
#include "tests/scenes/build.h"

static const char *const places[] = {
#define NAME(place, name) name,
    HOSTILE_PLACE_MAP(NAME)
#undef NAME
};

hostile_scene hostile_scene_default(void) {
    hostile_scene scene = {.kind = HOSTILE_BALL, .triangles = 1000, .bodies = 100, .seed = 1, .has_updates = true};
    scene.want = CT_WANT_FRAME | CT_WANT_GRADIENT;
    ct_scene_settings_init(&scene.settings);
    scene.settings.method = CT_METHOD_EXACT;
    return scene;
}

/* ---- words ---- */

enum type { U32, U64, F64, BOOL, METHOD, KIND, PLACE, RESOLUTION, ALLOCATION };

static const struct field {
    const char *name;
    enum type type;
    size_t at;
} fields[] = {
#define FIELD(name, type)                                                                                              \
    { #name, type, offsetof(hostile_scene, name) }
#define SETTING(name, type)                                                                                            \
    { #name, type, offsetof(hostile_scene, settings) + offsetof(ct_scene_settings, name) }
    {"shape", KIND, offsetof(hostile_scene, kind)},
    FIELD(place, PLACE),
    FIELD(triangles, U32),
    FIELD(bodies, U32),
    FIELD(seed, U64),
    {"deformable", BOOL, offsetof(hostile_scene, is_deformable)},
    FIELD(want, U32),
    FIELD(directions, U32),
    {"velocities", BOOL, offsetof(hostile_scene, has_velocities)},
    {"updates", BOOL, offsetof(hostile_scene, has_updates)},
    SETTING(method, METHOD),
    SETTING(resolution, RESOLUTION),
    SETTING(pixel_size, F64),
    SETTING(tolerance, F64),
    SETTING(tolerance_rel, F64),
    SETTING(strict, BOOL),
    SETTING(optimize_directions, BOOL),
    SETTING(allocation, ALLOCATION),
    SETTING(ray_budget, U64),
    SETTING(patches, BOOL),
    SETTING(cell_size, F64),
    SETTING(margin, F64),
    SETTING(voxel_level, U32),
    SETTING(level, U32),
    SETTING(pair_budget, U64),
    SETTING(center_normals, BOOL),
    SETTING(plain_average, BOOL),
    SETTING(refine, BOOL),
    SETTING(max_points, U32),
#undef FIELD
#undef SETTING
};
enum { FIELDS = sizeof fields / sizeof *fields };

/* As a double, which holds all that the fields can be. */
static double get(const hostile_scene *scene, const struct field *field) {
    const void *at = (const char *)scene + field->at;
    switch (field->type) {
    case U64:
        return (double)*(const uint64_t *)at;
    case F64:
        return *(const double *)at;
    case BOOL:
        return *(const bool *)at;
    default: /* the first number of a resolution; enumerations are as large as uint32_t */
        return *(const uint32_t *)at;
    }
}

static void set(hostile_scene *scene, const struct field *field, double value) {
    void *at = (char *)scene + field->at;
    switch (field->type) {
    case U64:
        *(uint64_t *)at = (uint64_t)value;
        break;
    case F64:
        *(double *)at = value;
        break;
    case BOOL:
        *(bool *)at = value != 0;
        break;
    case RESOLUTION:
        for (int k = 0; k < 3; k++) ((uint32_t *)at)[k] = (uint32_t)value;
        break;
    default:
        *(uint32_t *)at = (uint32_t)value;
    }
}

static bool parse(const struct field *field, const char *text, double *value) {
    if (field->type == KIND) {
        *value = hostile_find(text);
        return *value < HOSTILE_KINDS;
    }
    if (field->type == PLACE) {
        int place = 0;
        while (place < HOSTILE_PLACES && strcmp(text, places[place]) != 0) place++;
        *value = place;
        return place < HOSTILE_PLACES;
    }
    if (field->type == METHOD) {
        int64_t method = 0;
        if (!ct_setting_choice_find(&ct_setting_rows[CT_SETTING_METHOD], text, &method)) return false;
        *value = (double)method;
        return true;
    }
    char *end;
    *value = strtod(text, &end);
    return end != text && !*end;
}

bool hostile_scene_set(hostile_scene *scene, const char *word) {
    for (size_t i = 0; i < FIELDS; i++) {
        const size_t length = strlen(fields[i].name);
        double value;
        if (strncmp(word, fields[i].name, length) != 0 || word[length] != '=') continue;
        if (!parse(&fields[i], word + length + 1, &value)) return false;
        set(scene, &fields[i], value);
        return true;
    }
    return false;
}

void hostile_scene_print(const hostile_scene *scene, char *text, size_t size) {
    const hostile_scene usual = hostile_scene_default();
    size_t used = 0;
    *text = 0;
    for (size_t i = 0; i < FIELDS && used < size; i++) {
        const struct field *f = &fields[i];
        const double value = get(scene, f);
        if (value == get(&usual, f) && f->type != KIND && f->type != PLACE && f->type != METHOD) continue;
        const char *name = f->type == KIND     ? hostile_name(scene->kind)
                           : f->type == PLACE  ? places[scene->place]
                           : f->type == METHOD ? ct_method_name(scene->settings.method)
                                               : NULL;
        const char *space = used ? " " : "";
        int n = name ? snprintf(text + used, size - used, "%s%s=%s", space, f->name, name)
                     : snprintf(text + used, size - used, "%s%s=%.17g", space, f->name, value);
        used += n < 0 ? 0 : (size_t)n;
    }
}

/* ---- any bytes ---- */

typedef struct bytes {
    const uint8_t *at;
    size_t left;
} bytes;

static uint32_t take(bytes *from, uint32_t below) {
    uint32_t value = 0;
    for (int i = 0; i < 2 && from->left > 0; i++, from->left--) value = value << 8 | *from->at++;
    return value % below;
}

/* Between both, both included, as likely in each octave. */
static double take_between(bytes *from, double low, double high) {
    const double value = low * pow(high / low, take(from, 256) / 255.0);
    return value > high ? high : value;
}

static void take_settings(bytes *from, ct_scene_settings *s) {
    static const ct_method methods[] = {CT_METHOD_EXACT, CT_METHOD_EXACT, CT_METHOD_LDI, CT_METHOD_EBPI,
                                        CT_METHOD_VOXTREE};
    s->method = methods[take(from, 5)];
    const bool flags[3] = {take(from, 2), take(from, 2), take(from, 2)};
    if (take(from, 3) == 0) s->margin = take_between(from, 1e-3, 1e9);
    if (take(from, 3) == 0) s->max_points = (uint32_t)take_between(from, 1, CT_MAX_POINTS);
    switch (s->method) {
    case CT_METHOD_EXACT:
        s->patches = flags[0];
        break;
    case CT_METHOD_LDI:
        for (int k = 0; k < 3; k++) s->resolution[k] = (uint32_t)take_between(from, 1, CT_MAX_RESOLUTION);
        if (flags[0]) s->pixel_size = take_between(from, 1e-4, 1);
        if (flags[1]) s->cell_size = take_between(from, 1e-3, 1);
        break;
    case CT_METHOD_EBPI:
        s->strict = flags[0];
        s->optimize_directions = flags[1];
        s->allocation = (ct_allocation)take(from, 3);
        s->ray_budget = (uint64_t)take_between(from, 3, CT_MAX_RAY_BUDGET);
        *(flags[2] ? &s->tolerance : &s->tolerance_rel) = take_between(from, flags[2] ? 1e-12 : 1e-6, 1e-2);
        break;
    default:
        s->refine = flags[0];
        s->center_normals = flags[1];
        s->plain_average = flags[2];
        s->voxel_level = CT_MIN_VOXEL_LEVEL + take(from, CT_MAX_VOXEL_LEVEL - CT_MIN_VOXEL_LEVEL + 1);
        s->level = take(from, s->voxel_level + 1);
        if (take(from, 2)) s->pair_budget = (uint64_t)take_between(from, 1, 1e9);
    }
}

hostile_scene hostile_scene_of(const uint8_t *data, size_t size, uint32_t max_triangles, uint32_t max_bodies) {
    bytes from = {data, size};
    hostile_scene scene = hostile_scene_default();
    scene.kind = (hostile_kind)take(&from, HOSTILE_KINDS);
    scene.place = (hostile_place)take(&from, HOSTILE_PLACES);
    scene.triangles = (uint32_t)take_between(&from, 4, max_triangles);
    scene.bodies = (uint32_t)take_between(&from, 2, max_bodies);
    /* A crowd's triangles are those of all bodies. */
    if (scene.place == HOSTILE_CROWD) scene.triangles = scene.triangles / scene.bodies + 1;
    scene.seed = take(&from, 256);
    take_settings(&from, &scene.settings);
    const bool is_exact = scene.settings.method == CT_METHOD_EXACT;
    const bool is_voxtree = scene.settings.method == CT_METHOD_VOXTREE;
    scene.want = take(&from, 16);
    if (is_voxtree) scene.want &= ~(uint32_t)CT_WANT_FORCES; /* refused */
    if (is_exact && take(&from, 4) == 0) scene.want |= CT_WANT_INERTIA;
    if (scene.settings.method == CT_METHOD_LDI && take(&from, 4) == 0) scene.want |= CT_WANT_SPANS;
    if (scene.settings.method == CT_METHOD_EBPI && take(&from, 4) == 0) scene.want |= CT_WANT_TILES;
    if (is_exact && take(&from, 4) == 0) scene.directions = 1 + take(&from, CT_MAX_DIRECTIONS);
    scene.has_velocities = take(&from, 4) == 0 && !is_voxtree;
    scene.has_updates = take(&from, 4) != 0;
    scene.is_deformable = take(&from, 3) == 0 && !is_voxtree;
    /* What methods refuse. */
    if (scene.place == HOSTILE_SELF &&
        (scene.settings.patches || (!is_exact && scene.settings.method != CT_METHOD_LDI)))
        scene.place = HOSTILE_SAME;
    if (scene.place == HOSTILE_FLOOR && !is_exact) scene.place = HOSTILE_PAIR;
    return scene;
}

void hostile_scene_shrink(hostile_scene *scene) {
    enum { MOST_SAMPLES = 200, MOST_RAYS = 20000, FINEST_LEVEL = 5 };
    static const double finest = 0.02; /* m */
    ct_scene_settings *s = &scene->settings;
    for (int k = 0; k < 3; k++)
        if (s->resolution[k] > MOST_SAMPLES) s->resolution[k] = MOST_SAMPLES;
    if (s->pixel_size > 0 && s->pixel_size < finest) s->pixel_size = finest;
    if (s->cell_size > 0 && s->cell_size < 2 * finest) s->cell_size = 2 * finest;
    if (s->ray_budget > MOST_RAYS) s->ray_budget = MOST_RAYS;
    if (s->voxel_level > FINEST_LEVEL) s->voxel_level = FINEST_LEVEL;
    if (s->level > s->voxel_level) s->level = s->voxel_level;
}

/* ---- in an engine ---- */

static size_t bodies_of(const hostile_scene *scene) {
    if (scene->place == HOSTILE_CROWD) return scene->bodies;
    return scene->place == HOSTILE_SELF || scene->place == HOSTILE_FLOOR ? 1 : 2;
}

static bool has_both(const hostile_scene *scene) {
    return scene->place == HOSTILE_PAIR || scene->place == HOSTILE_TURNED || scene->place == HOSTILE_CROWD;
}

void hostile_scene_shapes(const hostile_scene *scene, struct shape shapes[2]) {
    shapes[0] = hostile_shape(scene->kind, scene->triangles, 0, scene->seed);
    shapes[1] = has_both(scene) ? hostile_shape(scene->kind, scene->triangles, 1, scene->seed) : (struct shape){0};
}

static void place_body(const hostile_scene *scene, size_t i, uint64_t *rng, double pose[12]) {
    shape_pose_identity(pose);
    if (scene->place == HOSTILE_ASIDE && i)
        for (int k = 0; k < 3; k++) pose[4 * k + 3] = 0.01 + 0.003 * k;
    if (scene->place == HOSTILE_TURNED || scene->place == HOSTILE_CROWD) shape_pose_random(rng, 0.3, pose);
}

static void fill_moves(hostile_stage *stage, const hostile_scene *scene, size_t i, const struct shape *shape) {
    const bool is_rigid = !scene->is_deformable;
    ct_update *update = &stage->updates[i];
    *update = (ct_update){.body = stage->bodies[i], .kind = is_rigid ? CT_UPDATE_POSE : CT_UPDATE_POSITIONS};
    memcpy(update->pose, stage->poses + 12 * i, sizeof update->pose);
    update->pose[3] += 0x1p-12;
    ct_direction direction = {.body = stage->bodies[i], .index = (uint32_t)i, .twist = {0, 0, 1, 0.5, 0, 0}};
    ct_velocity velocity = {.body = stage->bodies[i], .twist = {0, 1, 0, 0, 0, 0.5}};
    if (!is_rigid) {
        update->positions = direction.values = velocity.values = stage->moved;
        update->dtype = direction.dtype = velocity.dtype = CT_F64;
        update->count = direction.count = velocity.count = shape->n_vertices;
    }
    stage->velocities[i] = velocity;
    if (i) return;
    for (uint32_t k = 0; k < scene->directions; k++) {
        direction.index = k;
        stage->directions[k] = direction;
    }
}

/* Deformable bodies are all one shape's, as their positions are shared. */
static int variant_of(const hostile_scene *scene, size_t i) {
    return has_both(scene) && !scene->is_deformable ? (int)(i % 2) : 0;
}

static ct_status add_body(hostile_stage *stage, const hostile_scene *scene, size_t i, ct_error *error) {
    ct_body_options options;
    ct_body_options_init(&options);
    options.kind = scene->is_deformable ? CT_BODY_DEFORMABLE : CT_BODY_RIGID;
    options.self_contact = scene->place == HOSTILE_SELF;
    if (!scene->is_deformable) memcpy(options.pose, stage->poses + 12 * i, sizeof options.pose);
    return ct_scene_add_body(stage->scene, stage->meshes[variant_of(scene, i)], &options, &stage->bodies[i], error);
}

ct_status hostile_open(hostile_stage *stage, ct_engine *engine, const hostile_scene *scene,
                       const struct shape shapes[2], ct_error *error) {
    const size_t n = bodies_of(scene);
    *stage = (hostile_stage){.engine = engine, .n_bodies = n};
    stage->bodies = shape_alloc(n, sizeof *stage->bodies);
    stage->poses = shape_alloc(n, 12 * sizeof(double));
    stage->updates = shape_alloc(n, sizeof *stage->updates);
    stage->velocities = shape_alloc(n, sizeof *stage->velocities);
    stage->directions = shape_alloc(scene->directions, sizeof *stage->directions);
    stage->moved = shape_alloc(shapes[0].n_vertices, 3 * sizeof(double));
    for (size_t i = 0; i < 3 * (size_t)shapes[0].n_vertices; i++)
        stage->moved[i] = (double)shapes[0].positions[i] + 0x1p-12;
    uint64_t rng = scene->seed;
    for (size_t i = 0; i < n; i++) place_body(scene, i, &rng, stage->poses + 12 * i);
    for (int s = 0; s < 2; s++)
        if (shapes[s].n_triangles && !(stage->meshes[s] = shape_to_mesh(&shapes[s], error))) return error->status;
    ct_status status = ct_scene_create(engine, &scene->settings, &stage->scene, error);
    for (size_t i = 0; i < n && status == CT_OK; i++) {
        status = add_body(stage, scene, i, error);
        fill_moves(stage, scene, i, &shapes[0]);
    }
    uint32_t floor;
    if (status == CT_OK && scene->place == HOSTILE_FLOOR)
        status = ct_scene_add_half_space(stage->scene, (const double[3]){0.1, 0.2, 1}, 0.05, NULL, &floor, error);
    return status;
}

void hostile_close(hostile_stage *stage) {
    ct_scene_destroy(&stage->scene);
    for (int s = 0; s < 2; s++) ct_mesh_release(&stage->meshes[s]);
    free(stage->bodies);
    free(stage->poses);
    free(stage->updates);
    free(stage->velocities);
    free(stage->directions);
    free(stage->moved);
    *stage = (hostile_stage){0};
}

ct_step hostile_step(const hostile_stage *stage, const hostile_scene *scene) {
    ct_step step = {.scene = stage->scene, .want = scene->want};
    if (scene->has_updates) step.updates = stage->updates, step.n_updates = stage->n_bodies;
    if (scene->has_velocities) step.velocities = stage->velocities, step.n_velocities = stage->n_bodies;
    if (scene->directions) step.directions = stage->directions, step.n_directions = scene->directions;
    return step;
}

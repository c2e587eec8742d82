/* golden.c - the golden scenes and their hashes, at the end. Only an intended change of answers changes the hashes. */
#include "tests/scenes/golden.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/mesh/build/sha256.h"
#include "tests/scenes/build.h"
#include "tests/scenes/stage.h"

static const uint32_t everything = CT_WANT_ALL | CT_WANT_SPANS;

struct combined {
    ct_sha256 sha;
    struct golden_answer answer;
};
typedef struct combined combined;

static void take(combined *all, ct_result *result) {
    char hex[33];
    stage_hash(result, hex);
    ct_sha256_update(&all->sha, hex, 32);
    all->answer.contacts += result->n_contacts;
    all->answer.fragments += result->fragments;
    ct_result_free(&result);
}

/* ---- scenes ---- */

static void pairs_of_shapes(ct_engine *engine, combined *all) {
    uint64_t rng = 2024;
    struct shape shapes[] = {shape_torus(0.8, 0.35, 48, 24), shape_blob(1, 4, 0.5, 9),
                             shape_bolt(0.9, 0.2, 0.4, 4, 48, 16), shape_cube(1.5, 4), shape_l_prism(1.5, 1)};
    for (int i = 0; i < 15; i++) {
        double pose[2][12];
        shape_pose_random(&rng, 0.4, pose[0]);
        shape_pose_random(&rng, 0.4, pose[1]);
        if (i % 5 == 0) shape_pose_identity(pose[0]), shape_pose_identity(pose[1]);
        ct_scene_settings settings = i % 2 ? stage_resolution(17u + 5u * (uint32_t)i) : stage_pixel(0.03 + 0.01 * i);
        ct_body_kind kind = i % 3 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE;
        take(all, stage_once(engine, &settings,
                             (struct placed[]){{&shapes[i % 5], pose[0], kind}, {&shapes[i * 2 % 5], pose[1], kind}}, 2,
                             everything));
    }
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) shape_free(&shapes[i]);
}

/* Large enough that one pair is spread over all threads. */
static void large_pair(ct_engine *engine, combined *all) {
    struct shape a = shape_blob(1, 6, 0.3, 4), b = shape_torus(0.9, 0.4, 300, 120);
    ct_scene_settings settings = stage_resolution(160);
    take(all, stage_once(engine, &settings, (struct placed[]){{&a, NULL, 0}, {&b, NULL, CT_BODY_DEFORMABLE}}, 2,
                         CT_WANT_ALL));
    shape_free(&a);
    shape_free(&b);
}

static void pile(ct_engine *engine, combined *all) {
    enum { N = 40 };
    uint64_t rng = 99;
    struct shape shapes[N];
    double poses[N][12];
    struct placed bodies[N];
    for (int i = 0; i < N; i++) {
        shapes[i] =
            i ? i % 2 ? shape_blob(0.5, 2, 0.4, (uint64_t)i) : shape_torus(0.4, 0.2, 16, 10) : shape_box(10, 10, 1);
        shape_pose_random(&rng, 1.5, poses[i]);
        if (i == 0) shape_pose_identity(poses[0]);
        bodies[i] = (struct placed){&shapes[i], poses[i], i % 4 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE};
    }
    ct_scene_settings settings = stage_resolution(24);
    take(all, stage_once(engine, &settings, bodies, N, everything));
    for (int i = 0; i < N; i++) shape_free(&shapes[i]);
}

/* Steps that move a rigid body and vertices of a deformable one, in all kinds of updates; positions stay resident. */
static void moving(ct_engine *engine, combined *all) {
    uint64_t rng = 5;
    struct shape soft = shape_blob(1, 4, 0.2, 3), tool = shape_torus(0.7, 0.3, 40, 20);
    double pose[12];
    shape_pose_identity(pose);
    ct_scene_settings settings = stage_pixel(0.05);
    struct stage stage =
        stage_open(engine, &settings, (struct placed[]){{&soft, NULL, CT_BODY_DEFORMABLE}, {&tool, pose, 0}}, 2);
    for (int step = 0; step < 10; step++) {
        ct_update updates[2] = {{.body = stage.body[1], .kind = CT_UPDATE_POSE}};
        const double axis[3] = {1, step, 2}, by[3] = {0.9 - 0.05 * step, 0.3, 0.1 * step};
        shape_pose_axis(axis, 0.03 * step, by, updates[0].pose);
        for (uint32_t v = 0; v < soft.n_vertices; v++)
            for (int k = 0; k < 3; k++) soft.positions[3 * v + (uint32_t)k] *= (float)shape_uniform(&rng, 0.998, 1.002);
        uint32_t range[2] = {100, 500}, indices[3] = {7, 2000, 1};
        float three[9];
        for (int i = 0; i < 3; i++) memcpy(three + 3 * i, soft.positions + 3 * (size_t)indices[i], 12);
        updates[1] = (ct_update){.body = stage.body[0],
                                 .kind = CT_UPDATE_POSITIONS,
                                 .positions = soft.positions,
                                 .dtype = CT_F32,
                                 .count = soft.n_vertices};
        if (step % 3 == 1)
            updates[1] = (ct_update){.body = stage.body[0],
                                     .kind = CT_UPDATE_RANGES,
                                     .positions = soft.positions + 300,
                                     .dtype = CT_F32,
                                     .count = 500,
                                     .indices = range,
                                     .n_indices = 2};
        if (step % 3 == 2)
            updates[1] = (ct_update){.body = stage.body[0],
                                     .kind = CT_UPDATE_INDEXED,
                                     .positions = three,
                                     .dtype = CT_F32,
                                     .count = 3,
                                     .indices = indices,
                                     .n_indices = 3};
        take(all, stage_step(&stage, updates, 2, everything));
    }
    stage_close(&stage);
    shape_free(&soft);
    shape_free(&tool);
}

/* Many small scenes in one batch. */
static void batch(ct_engine *engine, combined *all) {
    enum { N = 64 };
    uint64_t rng = 17;
    struct stage stages[N];
    ct_step steps[N];
    for (int i = 0; i < N; i++) {
        struct shape a = shape_icosphere(0.6, 2), b = shape_blob(0.7, 2, 0.3, (uint64_t)i);
        double pose[2][12];
        shape_pose_random(&rng, 0.5, pose[0]);
        shape_pose_random(&rng, 0.5, pose[1]);
        ct_scene_settings settings = stage_resolution(8u + (uint32_t)i % 32);
        stages[i] = stage_open(engine, &settings, (struct placed[]){{&a, pose[0], 0}, {&b, pose[1], 0}}, 2);
        steps[i] = (ct_step){.scene = stages[i].scene, .want = everything};
        shape_free(&a);
        shape_free(&b);
    }
    ct_engine_run(engine, steps, N);
    for (int i = 0; i < N; i++) {
        if (!steps[i].result) {
            fprintf(stderr, "golden: batch, step %d: %s\n", i, steps[i].error.message);
            abort();
        }
        take(all, steps[i].result);
        stage_close(&stages[i]);
    }
}

/* So many bodies that a backend may sort them: a heap on a ground, twice, with pairs ignored and groups that do not
 * meet. */
static void crowd(ct_engine *engine, combined *all) {
    enum { N = 300 };
    uint64_t rng = 31;
    struct shape shapes[3] = {shape_box(40, 40, 1), shape_icosphere(0.6, 1), shape_box(0.9, 0.7, 0.5)};
    ct_mesh *meshes[3];
    for (int i = 0; i < 3; i++) {
        meshes[i] = shape_to_mesh(&shapes[i], NULL);
        shape_free(&shapes[i]);
    }
    ct_scene_settings settings = stage_resolution(6);
    struct stage stage = {.engine = engine};
    ct_update updates[N];
    uint32_t ids[N];
    bool good = ct_scene_create(engine, &settings, &stage.scene, NULL) == CT_OK;
    for (uint32_t i = 0; i < N && good; i++) {
        ct_body_options options;
        ct_body_options_init(&options);
        options.kind = CT_BODY_RIGID;
        options.group = i % 5 ? 1 : 2;
        options.mask = i % 7 ? 3 : 1;
        options.ignore = &ids[i / 2];
        options.n_ignore = i > 0;
        good = meshes[i ? 1 + i % 2 : 0] &&
               ct_scene_add_body(stage.scene, meshes[i ? 1 + i % 2 : 0], &options, &ids[i], NULL) == CT_OK;
        updates[i] = (ct_update){.body = ids[i], .kind = CT_UPDATE_POSE};
    }
    if (!good) {
        fprintf(stderr, "golden: crowd cannot be set up\n");
        abort();
    }
    for (int step = 0; step < 2; step++) {
        for (uint32_t i = 0; i < N; i++) {
            shape_pose_random(&rng, 2.5, updates[i].pose);
            updates[i].pose[11] += 2.2;
        }
        shape_pose_identity(updates[0].pose);
        for (int k = 0; k < 3; k++) updates[0].pose[4 * k + 3] = k < 2 ? -20 : -0.9;
        take(all, stage_step(&stage, updates, N, CT_WANT_ALL));
    }
    stage_close(&stage);
    for (int i = 0; i < 3; i++) ct_mesh_release(&meshes[i]);
}

/* Contacts that are thin in an axis, or in none as they are tilted: their windows are narrowed. */
static void shallow(ct_engine *engine, combined *all) {
    struct shape ball = shape_icosphere(1, 4), slab = shape_slab(6, 1, 0, 1, 24), plate = shape_box(6, 6, 1);
    double low = 0;
    for (uint32_t i = 0; i < ball.n_vertices; i++) low = fmin(low, (double)ball.positions[3 * i + 2]);
    for (int i = 0; i < 12; i++) {
        const double axis[3] = {1, i % 3, 0.5}, none[3] = {0, 0, 0}, depth = ldexp(0.1, -2 * (i / 2));
        double pose[2][12];
        shape_pose_axis(axis, i % 2 ? 0.03 * i : 0, none, pose[0]);
        memcpy(pose[1], pose[0], sizeof pose[1]);
        const double center = low + depth - (i % 4 < 2 ? 0 : 0.5); /* along the slab's own z */
        for (int k = 0; k < 3; k++) pose[1][4 * k + 3] = pose[0][4 * k + 2] * center;
        const ct_scene_settings settings = i % 3 == 2 ? stage_pixel(0.01) : stage_resolution(24);
        const ct_body_kind kind = i % 5 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE;
        take(all, stage_once(engine, &settings,
                             (struct placed[]){{&ball, pose[0], kind}, {i % 4 < 2 ? &slab : &plate, pose[1], 0}}, 2,
                             everything));
    }
    shape_free(&ball);
    shape_free(&slab);
    shape_free(&plate);
}

/* Voxel trees that are followed to the end, to a level, and until a budget of pairs of cubes is spent, with all ways of
 * making points. */
static void voxel_trees(ct_engine *engine, combined *all) {
    enum { N = 20 };
    uint64_t rng = 2005;
    struct shape shapes[] = {shape_torus(0.6, 0.25, 48, 24), shape_blob(0.6, 4, 0.4, 3), shape_box(1.1, 0.8, 0.7),
                             shape_bolt(0.5, 0.15, 0.3, 4, 48, 16), shape_l_prism(1.2, 0.7)};
    double poses[N][12];
    struct placed bodies[N];
    for (int i = 0; i < N; i++) {
        shape_pose_random(&rng, 1, poses[i]);
        bodies[i] = (struct placed){&shapes[i % 5], poses[i], CT_BODY_RIGID};
    }
    for (int i = 0; i < 8; i++) {
        ct_scene_settings settings = stage_voxtree(i % 3 ? 5 : 0, i % 4 == 1 ? 3 : 0);
        if (i % 4 == 2) settings.pair_budget = 5000;
        settings.center_normals = i & 1;
        settings.plain_average = i >> 1 & 1;
        settings.max_points = i < 4 ? 0 : 100;
        take(all, stage_once(engine, &settings, bodies, N, CT_WANT_ALL));
    }
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) shape_free(&shapes[i]);
}

/* Bodies that overlap themselves, by the method `exact`: shells, faces that coincide, a tangle on a grid in which
 * triangles cross at their own vertices, and one that is spread over all threads. */
static void overlapping_selves(ct_engine *engine, combined *all) {
    uint64_t rng = 13;
    struct shape rings[2] = {shape_torus(0.6, 0.25, 100, 50), shape_torus(0.6, 0.25, 100, 50)};
    struct shape cubes[2] = {shape_cube(1, 4), shape_cube(1, 3)}, tangle = shape_icosphere(1, 3);
    shape_translate(&rings[1], 0.35, 0.0625, 0.2);
    shape_translate(&cubes[1], 0.5, 0.25, 0);
    for (size_t i = 0; i < 3 * (size_t)tangle.n_vertices; i++)
        tangle.positions[i] =
            (float)(0x1p-4 * nearbyint(0x1p4 * ((double)tangle.positions[i] + shape_uniform(&rng, -0.25, 0.25))));
    struct shape shapes[] = {shape_merge(&rings[0], &rings[1]), shape_merge(&cubes[0], &cubes[1]), tangle};
    const ct_scene_settings settings = stage_exact();
    for (int i = 0; i < 6; i++) {
        double pose[12];
        shape_pose_random(&rng, 0.4, pose);
        if (i < 3) shape_pose_identity(pose);
        take(all, stage_once(engine, &settings,
                             (struct placed[]){{&shapes[i % 3], pose, i % 2 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE, 1},
                                               {&shapes[1], pose, CT_BODY_RIGID, i == 4}},
                             2, CT_WANT_ALL));
    }
    for (int i = 0; i < 2; i++) shape_free(&rings[i]), shape_free(&cubes[i]);
    for (int i = 0; i < 3; i++) shape_free(&shapes[i]);
}

/* The same by the method `ldi`, with rays at and between the vertices of a grid. */
static void sampled_selves(ct_engine *engine, combined *all) {
    uint64_t rng = 14;
    struct shape rings[2] = {shape_torus(0.6, 0.25, 100, 50), shape_torus(0.6, 0.25, 100, 50)};
    struct shape cubes[2] = {shape_cube(1, 4), shape_cube(1, 3)};
    shape_translate(&rings[1], 0.35, 0.0625, 0.2);
    shape_translate(&cubes[1], 0.5, 0.25, 0.125);
    struct shape shapes[] = {shape_merge(&rings[0], &rings[1]), shape_merge(&cubes[0], &cubes[1])};
    for (int i = 0; i < 8; i++) {
        double poses[2][12];
        shape_pose_random(&rng, 0.4, poses[0]);
        shape_pose_random(&rng, 0.4, poses[1]);
        if (i < 4) shape_pose_identity(poses[0]);
        ct_scene_settings settings = i % 3 ? stage_resolution(24u + 9u * (uint32_t)i) : stage_pixel(0.03125);
        if (i >= 6) settings.cell_size = 0.3;
        const ct_body_kind kind = i / 2 % 2 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE;
        take(all, stage_once(engine, &settings,
                             (struct placed[]){{&shapes[i % 2], poses[0], kind, .self_contact = 1},
                                               {&shapes[1], poses[1], CT_BODY_RIGID, .self_contact = i == 5}},
                             2, everything));
    }
    for (int i = 0; i < 2; i++) shape_free(&rings[i]), shape_free(&cubes[i]), shape_free(&shapes[i]);
}

/* Contacts that are divided into cells, whose walls lie on faces and samples and beside them, the last one by all
 * threads. */
static void cells(ct_engine *engine, combined *all) {
    uint64_t rng = 2010;
    struct shape shapes[] = {shape_torus(0.8, 0.35, 48, 24), shape_blob(1, 4, 0.5, 9), shape_cube(1.5, 4),
                             shape_l_prism(1.5, 1), shape_blob(1, 6, 0.3, 4)};
    for (int i = 0; i < 10; i++) {
        double poses[2][12];
        shape_pose_random(&rng, 0.4, poses[0]);
        shape_pose_random(&rng, 0.4, poses[1]);
        if (i % 3 == 2) shape_pose_identity(poses[0]), shape_pose_identity(poses[1]), poses[1][3] = 0.25;
        const bool is_last = i == 9;
        ct_scene_settings settings = is_last ? stage_resolution(120)
                                     : i % 2 ? stage_resolution(13u + 5u * (uint32_t)i)
                                             : stage_pixel(0.03125);
        settings.cell_size = i % 3 == 2 ? 0.25 : 0.11 + 0.07 * i;
        const ct_body_kind kind = i % 3 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE;
        take(all, stage_once(engine, &settings,
                             (struct placed[]){{&shapes[is_last ? 4 : i % 4], poses[0], kind},
                                               {&shapes[i * 3 % 4], poses[1], kind}},
                             2, everything));
    }
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) shape_free(&shapes[i]);
}

/* Slip and friction: velocities of rigid bodies, of vertices in both numeric types, and of a half-space, by `exact` and
 * `ldi`, also of cells. */
static void slip(ct_engine *engine, combined *all) {
    uint64_t rng = 2008;
    struct shape soft = shape_blob(0.8, 4, 0.3, 6), hard = shape_torus(0.7, 0.3, 48, 24);
    const size_t n = 3 * (size_t)soft.n_vertices;
    double *wide = shape_alloc(n, sizeof *wide);
    float *narrow = shape_alloc(n, sizeof *narrow);
    for (int i = 0; i < 8; i++) {
        double poses[3][12];
        for (int b = 0; b < 3; b++) shape_pose_random(&rng, b == 2 ? 0.1 : 0.5, poses[b]);
        const bool is_exact = i % 2, has_half_space = i % 4 == 1;
        ct_scene_settings settings = is_exact ? stage_exact() : i % 4 ? stage_resolution(40) : stage_pixel(0.04);
        if (!is_exact && i >= 4) settings.cell_size = 0.4;
        struct stage stage = stage_open(
            engine, &settings,
            (struct placed[]){{&soft, poses[0], CT_BODY_DEFORMABLE}, {&hard, poses[1], 0}, {NULL, poses[2], 0}},
            has_half_space ? 3 : 2);
        ct_velocity velocities[3] = {
            {.body = stage.body[0], .values = wide, .dtype = CT_F64, .count = soft.n_vertices}};
        if (i >= 4) velocities[0].values = narrow, velocities[0].dtype = CT_F32;
        for (size_t k = 0; k < n; k++) narrow[k] = (float)(wide[k] = shape_uniform(&rng, -1, 1));
        for (int b = 1; b < stage.n; b++) {
            velocities[b] = (ct_velocity){.body = stage.body[b]};
            for (int k = 0; k < 6; k++) velocities[b].twist[k] = shape_uniform(&rng, -2, 2);
        }
        take(all, stage_run(&stage, (ct_step){.want = CT_WANT_ALL,
                                              .velocities = velocities,
                                              .n_velocities = i == 6 ? 1 : (size_t)stage.n, /* the others are at rest */
                                              .viscosity = i == 2 ? 0 : 1.5 * i}));
        stage_close(&stage);
    }
    free(wide);
    free(narrow);
    shape_free(&soft);
    shape_free(&hard);
}

/* The law "pressure": rigid and deformable bodies of several materials, and a half-space, that move. */
static void pressures(ct_engine *engine, combined *all) {
    enum { STEPS = 10 };
    static const ct_material materials[] = {
        {1e6, 0.5, 0.3, 0.8}, {4e6, 0.3, 0, 0.3}, {2e7, 0, 0.1, 0}, {1e5, 0.9, 0, 0.9}};
    uint64_t rng = 1975;
    struct shape shapes[] = {shape_torus(0.7, 0.3, 24, 12), shape_cube(1.2, 2), shape_blob(0.8, 3, 0.4, 6),
                             shape_l_prism(1, 0.6)};
    double *wide = shape_alloc(3 * (size_t)shapes[2].n_vertices, sizeof *wide);
    for (size_t k = 0; k < 3 * (size_t)shapes[2].n_vertices; k++) wide[k] = shape_uniform(&rng, -1, 1);
    ct_scene_settings settings = stage_exact();
    settings.law = CT_LAW_PRESSURE;
    settings.patches = true;
    for (int step = 0; step < STEPS; step++) {
        double poses[5][12];
        struct placed bodies[5];
        for (int b = 0; b < 5; b++) {
            shape_pose_random(&rng, 0.6, poses[b]);
            bodies[b] = (struct placed){b < 4 ? &shapes[b] : NULL, poses[b], b == 2 ? CT_BODY_DEFORMABLE : 0};
        }
        struct stage stage = stage_open(engine, &settings, bodies, 5);
        ct_velocity velocities[4] = {{.body = stage.body[0]}, {.body = stage.body[1]}, {.body = stage.body[2]}};
        for (int b = 0; b < 2; b++)
            for (int k = 0; k < 6; k++) velocities[b].twist[k] = shape_uniform(&rng, -1, 1);
        velocities[2].values = wide, velocities[2].dtype = CT_F64, velocities[2].count = shapes[2].n_vertices;
        for (int b = 0; b < 4; b++)
            if (ct_scene_set_material(stage.scene, stage.body[b], 0, &materials[b], NULL) != CT_OK) {
                fprintf(stderr, "golden: pressures, material %d\n", b);
                abort();
            }
        take(all, stage_run(&stage, (ct_step){.want = CT_WANT_ALL, .velocities = velocities, .n_velocities = 3}));
        stage_close(&stage);
    }
    free(wide);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) shape_free(&shapes[i]);
}

/* A heightfield of n x n squares, facing up. */
static struct shape ground(double side, uint32_t n) {
    struct shape s = {.n_vertices = (n + 1) * (n + 1), .n_triangles = 2 * n * n};
    s.positions = shape_alloc(s.n_vertices, 3 * sizeof *s.positions);
    s.triangles = shape_alloc(s.n_triangles, 3 * sizeof *s.triangles);
    for (uint32_t v = 0; v < s.n_vertices; v++) {
        const double x = side * (v % (n + 1) / (double)n - 0.5), y = side * (v / (n + 1) / (double)n - 0.5);
        float *p = s.positions + 3 * (size_t)v;
        p[0] = (float)x, p[1] = (float)y, p[2] = (float)shape_slab_top(side, 0.15, 2, x, y);
    }
    for (uint32_t q = 0; q < n * n; q++) {
        const uint32_t a = q / n * (n + 1) + q % n, b = a + 1, c = a + n + 1, d = c + 1;
        memcpy(s.triangles + 6 * (size_t)q, (uint32_t[]){a, b, d, a, d, c}, 6 * sizeof *s.triangles);
    }
    return s;
}

/* Open surfaces that bound the volume behind them, by `exact` and `ldi`: rigid and deformable, in the middle and over
 * the rim, where the walls are met. */
static void open_surfaces(ct_engine *engine, combined *all) {
    uint64_t rng = 23;
    const double down[3] = {0, 0, -1}, aslant[3] = {0.25, 0, -1};
    struct shape field = ground(4, 24), ball = shape_icosphere(0.7, 3), tool = shape_torus(0.6, 0.25, 40, 20);
    for (int i = 0; i < 12; i++) {
        double poses[2][12], at[12];
        shape_pose_random(&rng, 1, poses[0]);
        shape_pose_random(&rng, 0.3, at);
        at[3] += i % 3 == 2 ? 2 : 0.3 * i - 1; /* across the field, and over its rim */
        if (i < 4) shape_pose_identity(poses[0]);
        memcpy(poses[1], poses[0], sizeof at);
        for (int k = 0; k < 3; k++)
            for (int j = 0; j < 3; j++) poses[1][4 * k + 3] += poses[0][4 * k + j] * at[4 * j + 3];
        const ct_scene_settings settings = i % 2 ? stage_exact() : i % 4 ? stage_resolution(33) : stage_pixel(0.05);
        take(all, stage_once(engine, &settings,
                             (struct placed[]){{&field, poses[0], i / 2 % 2 ? CT_BODY_DEFORMABLE : CT_BODY_RIGID,
                                                .open = i % 5 == 4 ? aslant : down},
                                               {i % 4 < 2 ? &ball : &tool, poses[1], 0}},
                             2, CT_WANT_ALL));
    }
    shape_free(&field);
    shape_free(&ball);
    shape_free(&tool);
}

static const struct {
    const char *name;
    void (*run)(ct_engine *engine, combined *all);
    const char *hash;
} scenes[] = {
    {"pairs of shapes", pairs_of_shapes, "2916aa7755665df5ca8a81f400592d14"},
    {"large pair", large_pair, "ecc3fd0a935a687537c136e7841624d7"},
    {"pile", pile, "723c6a0c40cecd2f712595bdb032ec08"},
    {"moving", moving, "fa031b60645c14d807a4b25b15639620"},
    {"batch", batch, "4911b6e5a55bcc24f670628ac2e24e58"},
    {"crowd", crowd, "35302352da6514ab40836437be585f8c"},
    {"shallow", shallow, "172eff8d4a05d3c2d49d4127a1ba3d49"},
    {"voxel trees", voxel_trees, "e1baedd58fe68ecff72309abbcee618b"},
    {"overlapping selves", overlapping_selves, "78e9366ebfe20bb44871fe2ad8e778dc"},
    {"sampled selves", sampled_selves, "b1ce089feb79748b275efe9350e76daf"},
    {"cells", cells, "943ec94a0e27dd0009162a57156db08b"},
    {"slip", slip, "3732d0698532914b77bb36efe6697d50"},
    {"pressures", pressures, "37834d64d873441ef3a0ecce5cf34038"},
    {"open surfaces", open_surfaces, "62a7f23fe77a17ac670d631acf5ad47d"},
};

const char *golden_name(size_t scene) {
    return scene < sizeof scenes / sizeof *scenes ? scenes[scene].name : NULL;
}

const char *golden_hash(size_t scene) {
    return scenes[scene].hash;
}

struct golden_answer golden_run(ct_engine *engine, size_t scene) {
    combined all = {.answer.contacts = 0};
    uint8_t digest[32];
    ct_sha256_init(&all.sha);
    scenes[scene].run(engine, &all);
    ct_sha256_final(&all.sha, digest);
    for (size_t i = 0; i < 16; i++) snprintf(all.answer.hash + 2 * i, 3, "%02x", digest[i]);
    return all.answer;
}

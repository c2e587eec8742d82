/* test_culled.c - scenes of which a contact touches a small part: every available backend, with each of its
 * rasterisers, gives the bits of the CPU backend's native rasteriser, whichever clusters of triangles it leaves out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/method/backend.h"
#include "tests/scenes/build.h"
#include "tests/scenes/stage.h"

static const uint32_t everything = CT_WANT_ALL | CT_WANT_SPANS;

/* The CPU backend, and another that is held to it. */
static ct_engine *engines[2];

#ifdef __SANITIZE_ADDRESS__ /* a quarter of the triangles: each thread is a fiber there */
enum { LEVEL = 4, ROUNDS = 4 };
#else
enum { LEVEL = 5, ROUNDS = 12 };
#endif

static void open_both(struct stage stages[2], const ct_scene_settings *settings, const struct placed *bodies, int n) {
    for (int e = 0; e < 2; e++) stages[e] = stage_open(engines[e], settings, bodies, n);
}

static void close_both(struct stage stages[2]) {
    for (int e = 0; e < 2; e++) stage_close(&stages[e]);
}

/* One step of both. Returns the contacts found. */
static uint64_t compare(const char *name, struct stage stages[2], const ct_update *updates, size_t n_updates) {
    char hex[2][33];
    uint64_t contacts = 0;
    for (int e = 0; e < 2; e++) {
        ct_result *result = stage_step(&stages[e], updates, n_updates, everything);
        stage_hash(result, hex[e]);
        contacts = result->n_contacts;
        ct_result_free(&result);
    }
    if (strcmp(hex[0], hex[1]) != 0) fail_msg("%s: %s, expected %s", name, hex[1], hex[0]);
    for (int i = 0; i < stages[0].n; i++) {
        ct_body_info info[2];
        for (int e = 0; e < 2; e++)
            assert_int_equal(ct_scene_body_info(stages[e].scene, stages[e].body[i], &info[e], NULL), CT_OK);
        for (int k = 0; k < 3; k++) assert_true(info[0].lo[k] == info[1].lo[k] && info[0].hi[k] == info[1].hi[k]);
    }
    return contacts;
}

/* Any rotation, and this translation. */
static void turned(uint64_t *rng, double x, double y, double z, double pose[12]) {
    shape_pose_random(rng, 0, pose);
    pose[3] = x;
    pose[7] = y;
    pose[11] = z;
}

/* Both shapes in one mesh. */
static struct shape join(const struct shape *a, const struct shape *b) {
    struct shape all = shape_begin(a->n_vertices + b->n_vertices, a->n_triangles + b->n_triangles);
    const struct shape *parts[2] = {a, b};
    for (int i = 0; i < 2; i++) {
        const uint32_t first = i ? a->n_vertices : 0;
        for (uint32_t v = 0; v < parts[i]->n_vertices; v++) {
            const float *p = parts[i]->positions + 3 * v;
            shape_add_vertex(&all, (double)p[0], (double)p[1], (double)p[2]);
        }
        for (uint32_t t = 0; t < parts[i]->n_triangles; t++) {
            const uint32_t *k = parts[i]->triangles + 3 * t;
            shape_add_triangle(&all, first + k[0], first + k[1], first + k[2]);
        }
    }
    return all;
}

/* Two bodies that share a tenth of their widths, posed anew in every step; near the origin and far from it. */
static void test_touching_at_the_rim(void **state) {
    (void)state;
    struct shape ball = shape_blob(1, LEVEL, 0.3, 5);
    uint64_t rng = 9, contacts = 0;
    for (int kind = 0; kind < 2; kind++) {
        ct_scene_settings settings = kind ? stage_pixel(0.02) : stage_resolution(50);
        struct stage stages[2];
        open_both(stages, &settings, (struct placed[]){{&ball, NULL, 0}, {&ball, NULL, 0}}, 2);
        for (int round = 0; round < ROUNDS; round++) {
            const double far = round % 3 == 2 ? 1e6 : 0;
            ct_update poses[2] = {{.body = stages[0].body[0], .kind = CT_UPDATE_POSE},
                                  {.body = stages[0].body[1], .kind = CT_UPDATE_POSE}};
            turned(&rng, far, 0, 0, poses[0].pose);
            turned(&rng, far + (round % 2 ? 1.8 : 0.2), 0.1 * round, 0.3, poses[1].pose);
            contacts += compare("touching at the rim", stages, poses, 2);
        }
        close_both(stages);
    }
    assert_true(contacts >= ROUNDS);
    shape_free(&ball);
}

/* A mesh of two balls 20 m apart; a third body touches one, and the other is beside the window, in front of it or
 * behind it. */
static void test_far_apart_halves(void **state) {
    (void)state;
    struct shape ball = shape_icosphere(1, LEVEL), other = shape_copy(&ball), tool = shape_torus(0.8, 0.3, 60, 24);
    shape_translate(&other, 20, 0.5, 0.2);
    struct shape halves = join(&ball, &other);
    uint64_t rng = 4, contacts = 0;
    for (int kind = 0; kind < 2; kind++) {
        ct_scene_settings settings = stage_resolution(40);
        struct stage stages[2];
        const struct placed bodies[] = {{&halves, NULL, kind ? CT_BODY_DEFORMABLE : CT_BODY_RIGID}, {&tool, NULL, 0}};
        open_both(stages, &settings, bodies, 2);
        for (int round = 0; round < ROUNDS; round++) {
            ct_update pose = {.body = stages[0].body[1], .kind = CT_UPDATE_POSE};
            turned(&rng, round % 2 ? 20.6 : -0.5, round % 4 < 2 ? 0.9 : -0.4, 0.2, pose.pose);
            contacts += compare("far apart halves", stages, &pose, 1);
        }
        close_both(stages);
    }
    assert_int_equal(contacts, 2 * ROUNDS);
    shape_free(&ball);
    shape_free(&other);
    shape_free(&halves);
    shape_free(&tool);
}

/* Small bodies on a ground of many triangles. */
static void test_large_ground(void **state) {
    (void)state;
    enum { SMALL = 5 };
    struct shape ground = shape_slab(20, 0.5, 0.2, 6, LEVEL == 5 ? 100 : 50), ball = shape_icosphere(0.4, 2);
    struct placed bodies[1 + SMALL] = {{&ground, NULL, 0}};
    double poses[SMALL][12];
    uint64_t rng = 6;
    for (int i = 0; i < SMALL; i++) {
        turned(&rng, 3.7 * i - 8, 2.9 * i - 7, shape_slab_top(20, 0.2, 6, 3.7 * i - 8, 2.9 * i - 7) + 0.25, poses[i]);
        bodies[1 + i] = (struct placed){&ball, poses[i], i % 2 ? CT_BODY_DEFORMABLE : CT_BODY_RIGID};
    }
    ct_scene_settings settings = stage_resolution(24);
    struct stage stages[2];
    open_both(stages, &settings, bodies, 1 + SMALL);
    assert_int_equal(compare("large ground", stages, NULL, 0), SMALL);
    ct_update tilted = {.body = stages[0].body[0], .kind = CT_UPDATE_POSE};
    shape_pose_axis((const double[]){1, 2, 0}, 0.003, (const double[]){0, 0, 0.05}, tilted.pose);
    assert_true(compare("tilted ground", stages, &tilted, 1) > 0);
    close_both(stages);
    shape_free(&ground);
    shape_free(&ball);
}

/* A soft body of many triangles: all vertices move, then a few, then none. */
static void test_deforming(void **state) {
    (void)state;
    struct shape soft = shape_icosphere(1, LEVEL), tool = shape_torus(0.5, 0.2, 40, 40);
    double pose[12];
    uint64_t rng = 8, contacts = 0;
    turned(&rng, 1.2, 0.1, 0, pose);
    ct_scene_settings settings = stage_resolution(36);
    struct stage stages[2];
    open_both(stages, &settings, (struct placed[]){{&soft, NULL, CT_BODY_DEFORMABLE}, {&tool, pose, 0}}, 2);
    uint32_t some[60];
    for (int round = 0; round < ROUNDS; round++) {
        const double stretch = 1 + 0.2 * (round % 5), shift = 0.15 * (round % 3);
        for (uint32_t v = 0; v < soft.n_vertices; v++) {
            soft.positions[3 * v] = (float)((double)soft.positions[3 * v] * stretch + shift);
            soft.positions[3 * v + 1] /= (float)stretch;
        }
        for (int i = 0; i < 60; i++) some[i] = (uint32_t)shape_random(&rng) % soft.n_vertices;
        const ct_update
            all = {stages[0].body[0], CT_UPDATE_POSITIONS, soft.positions, CT_F32, soft.n_vertices, NULL, 0, {0}},
            few = {stages[0].body[0], CT_UPDATE_INDEXED, soft.positions + 30, CT_F32, 60, some, 60, {0}};
        contacts += compare("deformed", stages, &all, 1);
        contacts += compare("deformed by a few", stages, &few, 1);
        contacts += compare("at rest", stages, NULL, 0);
        for (uint32_t v = 0; v < soft.n_vertices; v++) { /* back */
            soft.positions[3 * v] = (float)(((double)soft.positions[3 * v] - shift) / stretch);
            soft.positions[3 * v + 1] *= (float)stretch;
        }
    }
    assert_true(contacts > ROUNDS);
    close_both(stages);
    shape_free(&soft);
    shape_free(&tool);
}

/* A large body reaches out of the window before, behind or on both sides of it along each axis, so that its clusters in
 * front of a view are dropped on some views and counted on others. */
static void test_partly_in_front(void **state) {
    (void)state;
    static const double shifts[] = {-0.75, 0, 0.75};
    struct shape large = shape_icosphere(1, LEVEL), small = shape_torus(0.3, 0.12, 16, 8), bar = shape_box(3, 0.4, 0.3),
                 fine = shape_cylinder(0.25, 3, 700);
    const struct shape *tools[3] = {&small, &bar, &fine};
    uint64_t contacts = 0;
    ct_scene_settings settings = stage_resolution(21);
    for (int tool = 0; tool < 3; tool++) {
        struct stage stages[2];
        open_both(stages, &settings, (struct placed[]){{&large, NULL, 0}, {tools[tool], NULL, 0}}, 2);
        for (int i = tool; i < 27; i += LEVEL == 5 ? 2 : 5) {
            ct_update pose = {.body = stages[0].body[1], .kind = CT_UPDATE_POSE};
            shape_pose_axis((const double[]){1, 1, i}, 0.04 * i,
                            (const double[]){shifts[i % 3], shifts[i / 3 % 3], shifts[i / 9]}, pose.pose);
            contacts += compare("partly in front", stages, &pose, 1);
        }
        /* Samples so dense that edges in front of the window lie beyond hundreds of them. */
        settings = stage_resolution(LEVEL == 5 ? 180 : 120);
        for (int e = 0; e < 2; e++) assert_int_equal(ct_scene_configure(stages[e].scene, &settings, NULL), CT_OK);
        contacts += compare("dense samples", stages, NULL, 0);
        settings = stage_resolution(21);
        close_both(stages);
    }
    assert_true(contacts > 8);
    shape_free(&large);
    shape_free(&small);
    shape_free(&bar);
    shape_free(&fine);
}

/* ---- every backend ---- */

static ct_engine *open_backend(const char *name, const char *rasterizer, ct_error *error) {
    ct_engine_options options;
    ct_engine *engine = NULL;
    ct_engine_options_init(&options);
    options.backend = name;
    options.rasterizer = rasterizer;
    options.threads = 2;
    ct_engine_create(&options, &engine, error);
    return engine;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_touching_at_the_rim),
                                       cmocka_unit_test(test_far_apart_halves), cmocka_unit_test(test_large_ground),
                                       cmocka_unit_test(test_deforming), cmocka_unit_test(test_partly_in_front)};
    static const char *const rasterizers[] = {"native", "egl"};
    int failed = 0;
    const ct_backend *backend;
    ct_error error = {0};
    engines[0] = open_backend("cpu", "native", &error);
    for (size_t i = 0; engines[0] && (backend = ct_backend_at(i / 2)); i++) {
        char name[32];
        snprintf(name, sizeof name, "%s, %s", backend->name, rasterizers[i % 2]);
        memset(&error, 0, sizeof error);
        engines[1] = open_backend(backend->name, rasterizers[i % 2], &error);
        if (!engines[1]) {
            printf("[  SKIPPED ] backend %s: %s\n", name, error.message);
            continue;
        }
        failed += cmocka_run_group_tests_name(name, tests, NULL, NULL);
        ct_engine_destroy(&engines[1]);
    }
    ct_engine_destroy(&engines[0]);
    return failed;
}

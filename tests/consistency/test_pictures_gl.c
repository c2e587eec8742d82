/* test_pictures_gl.c - every available backend gives the CPU backend's pictures, byte for byte: scenes and single
 * contacts; bodies that were never stepped, that moved, or whose positions were updated in parts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/include/snapshot.h"
#include "gpu/method/backend.h"
#include "tests/scenes/stage.h"

/* The CPU backend, and another that is held to it. */
static ct_engine *engines[2];
static struct stage stages[2];
static struct shape soft, tool;

static int open_scenes(void **state) {
    (void)state;
    soft = shape_blob(1, 3, 0.3, 5);
    tool = shape_torus(0.8, 0.3, 32, 16);
    double pose[2][12];
    for (int k = 0; k < 2; k++) {
        shape_pose_identity(pose[k]);
        pose[k][3] = k ? -0.9 : 0.7;
        pose[k][11] = 0.1 * k;
    }
    const struct placed bodies[3] = {
        {&soft, NULL, CT_BODY_DEFORMABLE}, {&tool, pose[0], CT_BODY_RIGID}, {&tool, pose[1], CT_BODY_DEFORMABLE}};
    ct_scene_settings settings = stage_resolution(24);
    for (int e = 0; e < 2; e++) stages[e] = stage_open(engines[e], &settings, bodies, 3);
    return 0;
}

static int close_scenes(void **state) {
    (void)state;
    for (int e = 0; e < 2; e++) stage_close(&stages[e]);
    shape_free(&soft);
    shape_free(&tool);
    return 0;
}

static uint8_t *picture(int e, const ct_snapshot_options *o, size_t *size) {
    ct_snapshot *snapshot;
    ct_error error = {0};
    uint8_t *pixels = malloc((size_t)o->width * o->height * 4), *png = NULL;
    ct_status status = ct_snapshot_take(stages[e].scene, o, &snapshot, &error);
    if (!status) status = ct_snapshot_draw(snapshot, pixels, &error);
    if (status == CT_UNSUPPORTED) {
        printf("[  SKIPPED ] %s\n", error.message);
        ct_snapshot_free(&snapshot);
        free(pixels);
        skip();
    }
    if (!status) status = ct_snapshot_png(o->width, o->height, pixels, &png, size, &error);
    if (status) fail_msg("%s", error.message);
    ct_snapshot_free(&snapshot);
    free(pixels);
    return png;
}

/* Takes one of each, which are the same. Returns the CPU's. */
static uint8_t *compare(const ct_snapshot_options *o, size_t *size) {
    size_t sizes[2];
    uint8_t *png[2];
    for (int e = 0; e < 2; e++) png[e] = picture(e, o, &sizes[e]);
    assert_int_equal(sizes[0], sizes[1]);
    assert_memory_equal(png[0], png[1], sizes[0]);
    free(png[1]);
    *size = sizes[0];
    return png[0];
}

/* The whole scene; one contact; bodies alone; samples alone at another resolution. */
static void test_never_stepped(void **state) {
    (void)state;
    size_t size;
    ct_snapshot_options o;
    ct_snapshot_options_init(&o);
    o.width = 160;
    o.height = 120;
    uint8_t *whole = compare(&o, &size), *part;
    size_t bytes;
    ct_snapshot_options contact = o, bodies = o, samples = o;
    contact.contact[0] = stages[0].body[0];
    contact.contact[1] = stages[0].body[1];
    bodies.show = CT_SHOW_BODIES;
    samples.show = CT_SHOW_SAMPLES;
    samples.resolution = 61;
    const ct_snapshot_options *others[] = {&contact, &bodies, &samples};
    for (int i = 0; i < 3; i++) {
        part = compare(others[i], &bytes);
        assert_false(bytes == size && !memcmp(part, whole, bytes));
        free(part);
    }
    free(whole);
}

static void update(const ct_update *updates, size_t n) {
    for (int e = 0; e < 2; e++) {
        ct_result *result = stage_step(&stages[e], updates, n, 0);
        ct_result_free(&result);
    }
}

static void test_moved(void **state) {
    (void)state;
    size_t sizes[4];
    ct_snapshot_options o;
    ct_snapshot_options_init(&o);
    o.width = 160;
    o.height = 120;
    uint8_t *pictures[4] = {compare(&o, &sizes[0])};
    float *positions = malloc(12 * (size_t)soft.n_vertices);
    for (uint32_t i = 0; i < 3 * soft.n_vertices; i++) positions[i] = 0.9F * soft.positions[i] + 0.05F;
    const ct_update all = {.body = stages[0].body[0],
                           .kind = CT_UPDATE_POSITIONS,
                           .positions = positions,
                           .dtype = CT_F32,
                           .count = soft.n_vertices};
    update(&all, 1);
    pictures[1] = compare(&o, &sizes[1]);
    const uint32_t ranges[4] = {3, 20, 100, 40}, some[3] = {0, 7, 300};
    ct_update parts[2] = {all, all};
    parts[0].kind = CT_UPDATE_RANGES;
    parts[0].count = 60;
    parts[0].indices = ranges;
    parts[0].n_indices = 4;
    parts[1].kind = CT_UPDATE_INDEXED;
    parts[1].count = 3;
    parts[1].indices = some;
    parts[1].n_indices = 3;
    update(parts, 2);
    pictures[2] = compare(&o, &sizes[2]);
    ct_update pose = {.body = stages[0].body[1], .kind = CT_UPDATE_POSE};
    shape_pose_identity(pose.pose);
    pose.pose[3] = 0.4;
    pose.pose[7] = 0.3;
    update(&pose, 1);
    pictures[3] = compare(&o, &sizes[3]);
    for (int i = 1; i < 4; i++)
        assert_false(sizes[i] == sizes[i - 1] && !memcmp(pictures[i], pictures[i - 1], sizes[i]));
    for (int i = 0; i < 4; i++) free(pictures[i]);
    free(positions);
}

/* Fewer bodies, and none. */
static void test_removed(void **state) {
    (void)state;
    ct_snapshot_options o;
    ct_snapshot_options_init(&o);
    o.width = o.height = 100;
    for (int i = 2; i >= 0; i--) {
        size_t size;
        for (int e = 0; e < 2; e++)
            assert_int_equal(ct_scene_remove_body(stages[e].scene, stages[e].body[i], NULL), CT_OK);
        free(compare(&o, &size));
    }
}

static ct_engine *open_backend(const char *name, ct_error *error) {
    ct_engine_options options;
    ct_engine *engine = NULL;
    ct_engine_options_init(&options);
    options.backend = name;
    options.threads = 2;
    ct_engine_create(&options, &engine, error);
    return engine;
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, open_scenes, close_scenes)
    const struct CMUnitTest tests[] = {TEST(test_never_stepped), TEST(test_moved), TEST(test_removed)};
    int failed = 0;
    const ct_backend *backend;
    ct_error error = {0};
    engines[0] = open_backend("cpu", &error);
    for (size_t i = 0; engines[0] && (backend = ct_backend_at(i)); i++) {
        if (!strcmp(backend->name, "cpu")) continue;
        memset(&error, 0, sizeof error);
        engines[1] = open_backend(backend->name, &error);
        if (!engines[1]) {
            printf("[  SKIPPED ] backend %s: %s\n", backend->name, error.message);
            continue;
        }
        failed += cmocka_run_group_tests_name(backend->name, tests, NULL, NULL);
        ct_engine_destroy(&engines[1]);
    }
    ct_engine_destroy(&engines[0]);
    return failed;
}

/* test_draw_pairs.c - the CPU backend's way of drawing, with a draw function made for the test in OpenGL's stead: it
 * rasterises quads by raster_k.h itself, takes only so many rays or fragments at a time, or fails. Pairs are then
 * drawn together, alone or in parts, and the answers are those of the native rasteriser, or errors that name the
 * bodies.
 */
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/base/fail.h"
#include "gpu/method/backend_cpu.h"
#include "gpu/method/engine.h"
#include "gpu/methods/ldi/pair_cpu.h"
#include "tests/scenes/stage.h"
#include "tests/unit/raster/software.h"

/* What the draw function does, and has done. One workspace is used at a time here. */
static struct {
    uint32_t most_rays, most_fragments;
    ct_status fails;
    int drawings, refused;
    uint32_t max_regions; /* in one drawing */
    struct software memory;
} fake;

static ct_status draw_fake(ct_workspace *workspace, ct_drawing *d, ct_error *error) {
    (void)workspace;
    fake.drawings++;
    if (d->n_regions > fake.max_regions) fake.max_regions = d->n_regions;
    if (fake.fails) return ct_fail(error, fake.fails, "rasterizer", "the test makes it fail");
    software_draw(&fake.memory, d);
    if ((fake.most_rays && d->n_rays > fake.most_rays) ||
        (fake.most_fragments && d->n_fragments > fake.most_fragments)) {
        fake.refused++;
        return ct_fail(error, CT_LIMIT_EXCEEDED, "rasterizer", "too much at once");
    }
    return CT_OK;
}

static ct_engine *engine_with(uint32_t threads, ct_draw_fn with) {
    ct_engine *engine = stage_engine(threads, NULL);
    ct_ldi_device_of(engine->devices[0].device)->draw = with;
    memset(&fake, 0, sizeof fake);
    return engine;
}

/* ---- the same answers, however they are drawn ---- */

enum { SCENES = 6 };

/* All scenes in one batch; hashes of their answers. */
static void run_all(ct_engine *engine, uint32_t resolution, char hashes[SCENES][33], ct_error *error) {
    struct shape shapes[3] = {shape_torus(0.8, 0.35, 32, 16), shape_blob(1, 3, 0.4, 9), shape_cube(1.5, 1)};
    struct stage stages[SCENES];
    ct_step steps[SCENES];
    uint64_t rng = 3;
    for (int i = 0; i < SCENES; i++) {
        double pose[2][12];
        shape_pose_random(&rng, 0.3, pose[0]);
        shape_pose_random(&rng, 0.3, pose[1]);
        ct_scene_settings settings = stage_resolution(resolution + (uint32_t)i);
        stages[i] = stage_open(engine, &settings,
                               (struct placed[]){{&shapes[i % 3], pose[0], 0}, {&shapes[i / 2], pose[1], 0}}, 2);
        steps[i] = (ct_step){.scene = stages[i].scene, .want = CT_WANT_ALL | (i % 2 ? CT_WANT_SPANS : 0)};
    }
    ct_status status = ct_engine_run(engine, steps, SCENES);
    if (error) *error = steps[0].error;
    for (int i = 0; i < SCENES; i++) {
        hashes[i][0] = 0;
        if (!status) stage_hash(steps[i].result, hashes[i]);
        ct_result_free(&steps[i].result);
        stage_close(&stages[i]);
    }
    for (int i = 0; i < 3; i++) shape_free(&shapes[i]);
}

static void compare(uint32_t threads, uint32_t resolution, uint32_t most_rays, uint32_t most_fragments) {
    char expected[SCENES][33], got[SCENES][33];
    ct_engine *native = engine_with(2, NULL);
    run_all(native, resolution, expected, NULL);
    ct_engine_destroy(&native);
    ct_engine *drawn = engine_with(threads, draw_fake);
    fake.most_rays = most_rays;
    fake.most_fragments = most_fragments;
    ct_error error = {0};
    run_all(drawn, resolution, got, &error);
    assert_string_equal(error.message, "");
    for (int i = 0; i < SCENES; i++) assert_string_equal(got[i], expected[i]);
    ct_engine_facts facts;
    ct_engine_get_facts(drawn, 0, &facts);
    assert_string_equal(facts.rasterizer, "egl");
    assert_false(facts.lost);
    ct_engine_destroy(&drawn);
    software_free(&fake.memory);
}

static void test_together(void **state) {
    (void)state;
    for (uint32_t threads = 1; threads <= 3; threads++) {
        compare(threads, 24, 0, 0);
        assert_int_equal(fake.drawings, 1); /* of all scenes */
        assert_int_equal(fake.max_regions, 3 * SCENES);
    }
}

/* One that is much of the batch is drawn for itself, its work spread over threads. */
static void test_large(void **state) {
    (void)state;
    compare(3, 200, 0, 0);
    assert_true(fake.drawings >= 1);
}

static void test_parts(void **state) {
    (void)state;
    compare(2, 40, 3 * 40 * 40, 0); /* all but the first have more rays than that */
    assert_true(fake.refused > 0 && fake.drawings > SCENES);
    compare(2, 90, 1600, 0); /* a row of bins has nearly as many */
    assert_true(fake.refused > 2 && fake.drawings > 12 * SCENES);
    compare(1, 90, 0, 9000);
    assert_true(fake.refused > 2 && fake.drawings > 2 * SCENES);
}

/* ---- failures ---- */

static void test_no_room(void **state) {
    (void)state;
    char got[SCENES][33];
    ct_engine *drawn = engine_with(2, draw_fake);
    fake.most_rays = 10; /* less than a row */
    ct_error error = {0};
    run_all(drawn, 60, got, &error);
    assert_int_equal(error.status, CT_OUT_OF_MEMORY);
    assert_non_null(strstr(error.message, "bodies 1 and 2 need more working memory"));
    fake.most_rays = 0;
    run_all(drawn, 60, got, &error); /* nothing is left of it */
    assert_int_equal(error.status, CT_OK);
    ct_engine_destroy(&drawn);
    software_free(&fake.memory);
}

static void test_lost(void **state) {
    (void)state;
    const uint32_t resolutions[2] = {16, 200}; /* together, and alone */
    for (int i = 0; i < 2; i++) {
        char got[SCENES][33];
        ct_engine *drawn = engine_with(2, draw_fake);
        fake.fails = CT_DEVICE_ERROR;
        ct_error error = {0};
        run_all(drawn, resolutions[i], got, &error);
        assert_int_equal(error.status, CT_DEVICE_ERROR);
        assert_string_equal(error.message, "bodies 1 and 2: the test makes it fail");
        ct_engine_facts facts;
        ct_engine_get_facts(drawn, 0, &facts);
        assert_true(facts.lost);
        assert_string_equal(facts.lost_reason, "the test makes it fail");
        ct_engine_destroy(&drawn);
        software_free(&fake.memory);
    }
}

static void test_unknown(void **state) {
    (void)state;
    ct_engine_options options;
    ct_engine *engine = NULL;
    ct_error error = {0};
    ct_engine_options_init(&options);
    options.backend = "cpu";
    options.rasterizer = "vulkan";
    assert_int_equal(ct_engine_create(&options, &engine, &error), CT_UNSUPPORTED);
    assert_null(engine);
    assert_string_equal(error.field, "rasterizer");
    assert_string_equal(error.message, "there is no rasterizer \"vulkan\": choose native or egl");
#ifndef CT_HAVE_EGL
    error = (ct_error){0};
    options.rasterizer = "egl";
    assert_int_equal(ct_engine_create(&options, &engine, &error), CT_UNSUPPORTED);
    assert_non_null(strstr(error.message, "rasterizer \"egl\" is not in this build, which has: native"));
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_together), cmocka_unit_test(test_large), cmocka_unit_test(test_parts),
        cmocka_unit_test(test_no_room),  cmocka_unit_test(test_lost),  cmocka_unit_test(test_unknown),
    };
    return cmocka_run_group_tests_name("drawn", tests, NULL, NULL);
}

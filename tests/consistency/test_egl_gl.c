/* test_egl_gl.c - answers rasterised by OpenGL are those of the CPU's native rasteriser, bit for bit: golden scenes,
 * random bodies at resolutions from 1 to 512, aligned and coincident faces, hundreds of crossings along a ray, two
 * concurrent batches, and drawings in parts because of too little memory.
 *
 * Skipped without EGL and OpenGL 4.5.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/scenes/build.h"
#include "tests/scenes/golden.h"
#include "tests/scenes/stage.h"

static ct_engine *native, *egl;

/* NULL: there is none, and why has been said. */
static ct_engine *open_engine(const char *rasterizer, uint32_t threads, uint64_t limit) {
    ct_engine_options options;
    ct_engine *engine = NULL;
    ct_error error = {0};
    ct_engine_options_init(&options);
    options.backend = "cpu";
    options.rasterizer = rasterizer;
    options.threads = threads;
    options.max_scratch_bytes = limit;
    if (ct_engine_create(&options, &engine, &error)) fprintf(stderr, "SKIPPED: %s: %s\n", rasterizer, error.message);
    return engine;
}

static int open_engines(void **state) {
    (void)state;
    native = open_engine("native", 2, 0);
    egl = open_engine("egl", 2, 0);
    return native ? 0 : -1;
}

static int close_engines(void **state) {
    (void)state;
    ct_engine_destroy(&native);
    ct_engine_destroy(&egl);
    return 0;
}

static void need_egl(void) {
    if (!egl) skip();
}

/* ---- the same bits ---- */

static const uint32_t everything = CT_WANT_ALL | CT_WANT_SPANS;

static void assert_same(const ct_result *a, const ct_result *b, const char *what) {
    char hash[2][33];
    stage_hash(a, hash[0]);
    stage_hash(b, hash[1]);
    if (strcmp(hash[0], hash[1]) != 0)
        fail_msg("%s: %zu contacts of %g m^3 natively, %zu of %g m^3 with egl", what, a->n_contacts,
                 a->n_contacts ? a->contacts[0].volume : 0, b->n_contacts, b->n_contacts ? b->contacts[0].volume : 0);
    assert_int_equal(a->rays, b->rays);
    assert_int_equal(a->fragments, b->fragments);
}

/* Returns the fragments. */
static uint64_t compare(const ct_scene_settings *settings, const struct placed *bodies, int n, uint32_t want,
                        const char *what) {
    ct_result *a = stage_once(native, settings, bodies, n, want), *b = stage_once(egl, settings, bodies, n, want);
    assert_same(a, b, what);
    uint64_t fragments = a->fragments;
    ct_result_free(&a);
    ct_result_free(&b);
    return fragments;
}

static void test_facts(void **state) {
    (void)state;
    need_egl();
    ct_engine_facts facts;
    ct_engine_get_facts(egl, 0, &facts);
    assert_string_equal(facts.rasterizer, "egl");
    assert_string_equal(facts.backend, "cpu");
    assert_non_null(strstr(facts.device, " + "));
    assert_false(facts.lost);
    ct_engine_get_facts(native, 0, &facts);
    assert_string_equal(facts.rasterizer, "native");
}

static void test_golden(void **state) {
    (void)state;
    need_egl();
    ct_engine *single = open_engine("egl", 1, 0);
    for (size_t i = 0; golden_name(i); i++) {
        struct golden_answer a = golden_run(native, i), b = golden_run(egl, i), c = golden_run(single, i);
        assert_string_equal(a.hash, golden_hash(i));
        if (strcmp(b.hash, a.hash) != 0 || strcmp(c.hash, a.hash) != 0) fail_msg("golden scene %s", golden_name(i));
        assert_int_equal(b.fragments, a.fragments);
        assert_int_equal(c.contacts, a.contacts);
    }
    ct_engine_destroy(&single);
}

static void test_resolutions(void **state) {
    (void)state;
    need_egl();
    uint64_t rng = 31;
    struct shape shapes[] = {shape_torus(0.8, 0.35, 48, 24), shape_blob(1, 4, 0.5, 9), shape_cube(1.5, 1),
                             shape_icosphere(0.9, 1), shape_l_prism(1.5, 1)};
    const uint32_t resolutions[] = {1, 2, 3, 5, 8, 31, 64, 100, 200, 512};
    for (size_t i = 0; i < 40; i++) {
        double pose[2][12];
        shape_pose_random(&rng, i % 8 ? 0.4 : 40, pose[0]); /* some far from the origin */
        shape_pose_random(&rng, 0.4, pose[1]);
        if (i % 8 == 0)
            for (int k = 0; k < 3; k++) pose[1][4 * k + 3] += pose[0][4 * k + 3];
        ct_scene_settings settings = stage_resolution(resolutions[i % 10]);
        settings.resolution[i % 3] = resolutions[(i / 10 + i) % 9];
        if (i == 39) settings.resolution[0] = settings.resolution[1] = 1500; /* more columns than bands have samples */
        const struct placed bodies[2] = {{&shapes[i % 5], pose[0], i % 2 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE},
                                         {&shapes[i / 5 % 5], pose[1], CT_BODY_RIGID}};
        char what[64];
        snprintf(what, sizeof what, "case %zu, resolution %u", i, resolutions[i % 10]);
        compare(&settings, bodies, 2, i % 4 ? CT_WANT_ALL : everything, what);
    }
    for (size_t i = 0; i < 5; i++) shape_free(&shapes[i]);
}

/* Edges that pass through samples, faces that coincide, views in which triangles are seen edge-on. */
static void test_aligned(void **state) {
    (void)state;
    need_egl();
    struct shape box = shape_box(2, 2, 2), cube = shape_cube(2, 4), tetrahedron = shape_tetrahedron(2);
    double here[12], above[12], beside[12];
    shape_pose_identity(here);
    shape_pose_identity(above);
    shape_pose_identity(beside);
    above[11] = 2;
    beside[3] = 1;
    beside[7] = 0.5;
    for (uint32_t n = 1; n <= 16; n *= 2) {
        ct_scene_settings settings = n == 16 ? stage_pixel(0.25) : stage_resolution(n);
        const struct placed scenes[][2] = {{{&box, here, 0}, {&cube, here, 0}},
                                           {{&box, here, 0}, {&cube, above, 0}},
                                           {{&cube, here, 0}, {&cube, beside, 0}},
                                           {{&tetrahedron, here, 0}, {&tetrahedron, here, 0}},
                                           {{&tetrahedron, here, 0}, {&box, beside, 0}}};
        for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++)
            compare(&settings, scenes[i], 2, everything, "aligned bodies");
    }
    shape_free(&box);
    shape_free(&cube);
    shape_free(&tetrahedron);
}

/* Plates above each other, as one body. */
static struct shape plates(int n) {
    struct shape all = shape_begin(8u * (uint64_t)n, 12u * (uint64_t)n), one = shape_box(1, 1, 0.5 / n);
    for (int i = 0; i < n; i++) {
        for (uint32_t v = 0; v < 8; v++)
            shape_add_vertex(&all, (double)one.positions[3 * v] + 0.0003 * i, one.positions[3 * v + 1],
                             (double)one.positions[3 * v + 2] + (double)i / n);
        for (uint32_t t = 0; t < 12; t++)
            shape_add_triangle(&all, one.triangles[3 * t] + 8 * (uint32_t)i, one.triangles[3 * t + 1] + 8 * (uint32_t)i,
                               one.triangles[3 * t + 2] + 8 * (uint32_t)i);
    }
    shape_free(&one);
    return all;
}

static void test_deep(void **state) {
    (void)state;
    need_egl();
    struct shape deep = plates(400), box = shape_box(0.6, 0.7, 2);
    const struct placed bodies[2] = {{&deep, NULL, 0}, {&box, NULL, 0}};
    ct_scene_settings settings = stage_resolution(40);
    uint64_t fragments = compare(&settings, bodies, 2, everything, "400 plates");
    printf("%llu fragments on %d rays\n", (unsigned long long)fragments, 3 * 40 * 40);
    assert_true(fragments > 40 * 40 * 700);
    shape_free(&deep);
    shape_free(&box);
}

/* A body with itself: two shells in one mesh. */
static void test_self_contact(void **state) {
    (void)state;
    need_egl();
    struct shape torus = shape_torus(0.7, 0.3, 60, 30), blob = shape_blob(0.8, 4, 0.3, 2);
    shape_translate(&blob, 0.6, 0.2, 0.1);
    struct shape both = shape_merge(&torus, &blob);
    const struct placed bodies[2] = {{&both, NULL, 0, .self_contact = 1}, {&blob, NULL, 0}};
    for (int n = 1; n <= 2; n++) {
        ct_scene_settings settings = stage_resolution(100);
        compare(&settings, bodies, n, everything, "two shells in one mesh");
    }
    shape_free(&torus), shape_free(&blob), shape_free(&both);
}

/* ---- little memory ---- */

/* Tight budgets end in OUT_OF_MEMORY or in the same bits; between the two are those with which it is drawn in parts. */
static void test_parts(void **state) {
    (void)state;
    need_egl();
    struct shape deep = plates(40), blob = shape_blob(0.5, 5, 0.3, 2);
    const struct placed bodies[2] = {{&deep, NULL, 0}, {&blob, NULL, 0}};
    ct_scene_settings settings = stage_resolution(96);
    ct_result *expected = stage_once(native, &settings, bodies, 2, everything);
    int refused = 0, drawn = 0;
    for (uint64_t limit = (uint64_t)1 << 21; limit <= (uint64_t)1 << 27; limit *= 2) {
        ct_engine *engine = open_engine("egl", 2, limit);
        struct stage stage = stage_open(engine, &settings, bodies, 2);
        ct_step step = {.scene = stage.scene, .want = everything};
        ct_status status = ct_engine_run(engine, &step, 1);
        if (status) {
            assert_int_equal(status, CT_OUT_OF_MEMORY);
            assert_non_null(strstr(step.error.message, "bodies 1 and 2 need more working memory"));
            assert_int_equal(drawn, 0); /* more memory is never worse */
            refused++;
        } else {
            assert_same(expected, step.result, "in parts");
            drawn++;
        }
        ct_engine_facts facts;
        ct_engine_get_facts(engine, 0, &facts);
        assert_true(facts.scratch_peak <= limit);
        ct_result_free(&step.result);
        stage_close(&stage);
        ct_engine_destroy(&engine);
    }
    printf("of 7 budgets from 2 to 128 MiB, %d were refused, %d sufficed\n", refused, drawn);
    assert_true(refused >= 1 && drawn >= 2);
    ct_result_free(&expected);
    shape_free(&deep);
    shape_free(&blob);
}

/* ---- two batches at a time ---- */

struct caller {
    struct stage stage;
    char hash[33];
    int wrong;
};

static void *call(void *argument) {
    struct caller *caller = argument;
    for (int i = 0; i < 12; i++) {
        ct_step step = {.scene = caller->stage.scene, .want = everything};
        char hash[33] = "";
        if (ct_engine_run(egl, &step, 1) == CT_OK) stage_hash(step.result, hash);
        caller->wrong += strcmp(hash, caller->hash) != 0;
        ct_result_free(&step.result);
    }
    return NULL;
}

static void test_lanes(void **state) {
    (void)state;
    need_egl();
    enum { CALLERS = 3 };
    struct caller callers[CALLERS];
    pthread_t threads[CALLERS];
    struct shape a = shape_blob(1, 4, 0.3, 7), b = shape_torus(0.8, 0.3, 40, 20);
    for (int i = 0; i < CALLERS; i++) {
        ct_scene_settings settings = stage_resolution(20u + 40u * (uint32_t)i);
        const struct placed bodies[2] = {{&a, NULL, 0}, {&b, NULL, 0}};
        ct_result *expected = stage_once(native, &settings, bodies, 2, everything);
        stage_hash(expected, callers[i].hash);
        ct_result_free(&expected);
        callers[i].stage = stage_open(egl, &settings, bodies, 2);
        callers[i].wrong = 0;
    }
    for (int i = 0; i < CALLERS; i++) assert_int_equal(pthread_create(&threads[i], NULL, call, &callers[i]), 0);
    for (int i = 0; i < CALLERS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(callers[i].wrong, 0);
        stage_close(&callers[i].stage);
    }
    shape_free(&a);
    shape_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_facts),   cmocka_unit_test(test_golden), cmocka_unit_test(test_resolutions),
        cmocka_unit_test(test_aligned), cmocka_unit_test(test_deep),   cmocka_unit_test(test_self_contact),
        cmocka_unit_test(test_parts),   cmocka_unit_test(test_lanes),
    };
    return cmocka_run_group_tests_name("egl", tests, open_engines, close_engines);
}

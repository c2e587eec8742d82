/* test_interop_cuda.c - OpenGL as the CUDA backend's rasteriser, on the shim and the machine's OpenGL: both must be on
 * the same GPU and share memory; what a step copies and launches; too little memory; every failure. The bits of every
 * scene are tests/consistency/test_backends.c's. Needs a build with CUDA=shim and EGL, and EGL with OpenGL 4.5; skipped
 * in others. */
#include "tests/unit/unit.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined CT_CUDA_SHIM && defined CT_HAVE_EGL

#include "tests/unit/backend/shim.h"

static ct_engine_options options_for(const char *rasterizer) {
    ct_engine_options options;
    ct_engine_options_init(&options);
    options.backend = "cuda";
    options.rasterizer = rasterizer;
    return options;
}

static bool has_egl;

static int find_egl(void **state) {
    (void)state;
    ct_engine_options options = options_for("egl");
    ct_engine *engine = NULL;
    ct_error error = {0};
    has_egl = ct_engine_create(&options, &engine, &error) == CT_OK;
    if (!has_egl) printf("SKIPPED: %s\n", error.message);
    ct_engine_destroy(&engine);
    return 0;
}

#define NEED_EGL()                                                                                                     \
    if (!has_egl) skip()

static ct_engine *open_plain(void) {
    ct_engine_options options = options_for("egl");
    return open_engine(&options);
}

static void expect_no_egl(ct_status status, const char *part) {
    ct_engine_options options = options_for("egl");
    expect_refused(&options, status, "rasterizer", part);
}

/* ---- the same GPU, shared memory ---- */

static void test_the_same_gpu(void **state) {
    (void)state;
    NEED_EGL();
    ct_engine *engine = open_plain();
    assert_string_equal(facts_of(engine).backend, "cuda");
    assert_string_equal(facts_of(engine).rasterizer, "egl");
    ct_engine_destroy(&engine);
    set("CT_SHIM_GL_DEVICE", "-1");
    expect_no_egl(CT_UNSUPPORTED, "is not the GPU that CUDA calls device 0, CPU shim (no GPU), but to CUDA none "
                                  "(cudaErrorNoDevice)");
    set("CT_SHIM_DEVICES", "2");
    set("CT_SHIM_GL_DEVICE", "1");
    expect_no_egl(CT_UNSUPPORTED, "but to CUDA device 1: choose GPUs by devices in place of CUDA_VISIBLE_DEVICES");
    ct_engine_options second = options_for("egl");
    second.devices = "1";
    engine = open_engine(&second);
    ct_engine_destroy(&engine);
}

static void test_memory_that_is_not_shared(void **state) {
    (void)state;
    NEED_EGL();
    static const char *const failures[][2] = {
        {"cudaGraphicsGLRegisterBuffer:1:999",
         "sharing a buffer with OpenGL. Use a newer driver, or the native rasterizer"},
        {"cudaGraphicsGLRegisterBuffer:9:1", "while sharing a buffer with OpenGL"},
        {"cudaGraphicsMapResources:1:999", "while mapping OpenGL buffers"},
        {"cudaGraphicsResourceGetMappedPointer:1:1", "while asking for the address of an OpenGL buffer"},
        {"cudaGraphicsUnmapResources:1:999", "while unmapping OpenGL buffers"}};
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++) {
        set("CT_SHIM_FAIL", failures[i][0]);
        expect_no_egl(CT_UNSUPPORTED, failures[i][1]);
        set("CT_SHIM_FAIL", NULL);
        ct_engine *engine = open_plain();
        ct_engine_destroy(&engine);
    }
    set("CT_SHIM_FAIL", "cudaGraphicsGLRegisterBuffer:3:2");
    expect_no_egl(CT_OUT_OF_MEMORY, "no memory for buffers of OpenGL's");
}

/* ---- the same bits ---- */

static void test_any_order_of_threads(void **state) {
    (void)state;
    NEED_EGL();
    static const char *const orders[] = {"0", "255", "85", "1"};
    char expected[33];
    reference(40, expected);
    for (size_t i = 0; i < 4; i++) {
        set("CT_SHIM_ORDER", orders[i]);
        ct_engine *engine = open_plain();
        struct stage stage = open_pair(engine, 40);
        for (int again = 0; again < 2; again++) expect_hash(&stage, expected);
        stage_close(&stage);
        ct_engine_destroy(&engine);
    }
}

/* Views that do not fit into the picture side by side: two thin bars that cross, in a window as large as they are long.
 */
static void test_overlapping_draw_regions(void **state) {
    (void)state;
    NEED_EGL();
    struct shape bar = shape_box(2, 0.01, 0.1);
    double poses[2][12];
    for (int k = 0; k < 2; k++) {
        const double c = 0.8, s = k ? 0.6 : -0.6, pose[12] = {c, -s, 0, 0.1 * k, s, c, 0, -0.2 * k, 0, 0, 1, 0.03 * k};
        memcpy(poses[k], pose, sizeof pose);
    }
    const struct placed bodies[2] = {{&bar, poses[0], CT_BODY_RIGID}, {&bar, poses[1], CT_BODY_RIGID}};
    ct_engine *engines[2] = {stage_engine(2, NULL), open_plain()};
    struct stage stages[2][2];
    char hex[2][2][33];
    for (int e = 0; e < 2; e++) {
        ct_step steps[2];
        for (uint32_t i = 0; i < 2; i++) {
            ct_scene_settings settings = stage_resolution(2100 - 50 * i);
            settings.resolution[2] = 2;
            stages[e][i] = stage_open(engines[e], &settings, bodies, 2);
            steps[i] = (ct_step){.scene = stages[e][i].scene, .want = CT_WANT_ALL};
        }
        assert_int_equal(ct_engine_run(engines[e], steps, 2), CT_OK);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(steps[i].result->n_contacts, 1);
            stage_hash(steps[i].result, hex[e][i]);
            ct_result_free(&steps[i].result);
            stage_close(&stages[e][i]);
        }
        ct_engine_destroy(&engines[e]);
    }
    for (int i = 0; i < 2; i++) assert_string_equal(hex[0][i], hex[1][i]);
    shape_free(&bar);
}

/* ---- copies and launches ---- */

/* Nothing of a drawing passes through the host: a step copies as many bytes as without OpenGL, and keeps as many
 * crossings. */
static void test_traffic(void **state) {
    (void)state;
    NEED_EGL();
    uint64_t moved[2][2], launches[2], fragments[2];
    for (int e = 0; e < 2; e++) {
        ct_engine_options options = options_for(e ? "egl" : "native");
        ct_engine *engine = open_engine(&options);
        struct stage stage = open_pair(engine, 50);
        ct_update pose = {.body = stage.body[1], .kind = CT_UPDATE_POSE};
        shape_pose_identity(pose.pose);
        for (int round = 0; round < 2; round++) {
            ct_engine_facts before = facts_of(engine);
            ct_result *result = stage_step(&stage, &pose, 1, everything);
            ct_engine_facts after = facts_of(engine);
            moved[e][0] = after.uploaded - before.uploaded;
            moved[e][1] = after.downloaded - before.downloaded;
            launches[e] = after.launches - before.launches;
            fragments[e] = result->fragments;
            if (round) assert_int_equal(after.reruns, before.reruns);
            assert_true(after.reruns < 10);
            ct_result_free(&result);
        }
        stage_close(&stage);
        ct_engine_destroy(&engine);
    }
    assert_memory_equal(moved[0], moved[1], sizeof moved[0]);
    assert_int_equal(launches[0], launches[1]);
    assert_true(fragments[0] > 0 && fragments[0] == fragments[1]);
}

/* ---- too little memory ---- */

static void test_budgets(void **state) {
    (void)state;
    NEED_EGL();
    char expected[33], hex[33];
    reference(40, expected);
    int passed = 0, failed = 0;
    for (uint64_t limit = 200000; limit < 12000000; limit += limit / 2) {
        ct_engine_options options = options_for("egl");
        options.max_device_bytes = limit;
        ct_engine *engine = open_engine(&options);
        struct stage stage = open_pair(engine, 40);
        ct_step step = {.scene = stage.scene, .want = everything};
        for (int round = 0; round < 2; round++) {
            if (ct_engine_run(engine, &step, 1) == CT_OK) {
                stage_hash(step.result, hex);
                assert_string_equal(hex, expected);
                passed++;
            } else {
                assert_int_equal(step.error.status, CT_OUT_OF_MEMORY);
                assert_string_equal(step.error.field, "scratch");
                assert_non_null(strstr(step.error.message, "bodies 1 and 2 need"));
                assert_int_equal(passed, 0);
                failed++;
            }
            ct_result_free(&step.result);
            assert_true(facts_of(engine).memory_used <= limit);
        }
        stage_close(&stage);
        ct_engine_destroy(&engine);
    }
    printf("of %d budgets %d were too small\n", (passed + failed) / 2, failed / 2);
    assert_true(passed > 2 && failed > 2);
}

/* ---- a device that is lost ---- */

static void test_lost(void **state) {
    (void)state;
    NEED_EGL();
    static const char *const failures[] = {"cudaGraphicsMapResources:2:999", "cudaGraphicsUnmapResources:3:719",
                                           "cudaGraphicsResourceGetMappedPointer:3:700", "launch:4:719",
                                           "cudaGraphicsGLRegisterBuffer:1:999"};
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++) {
        ct_engine *engine = open_plain();
        struct stage stage = open_pair(engine, 30);
        set("CT_SHIM_FAIL", failures[i]);
        for (int round = 0; round < 2; round++) {
            ct_step step = {.scene = stage.scene, .want = everything};
            assert_int_equal(ct_engine_run(engine, &step, 1), CT_DEVICE_ERROR);
            assert_non_null(strstr(step.error.message, "cudaError"));
            assert_null(step.result);
        }
        assert_true(facts_of(engine).lost);
        stage_close(&stage);
        ct_engine_destroy(&engine);
        set("CT_SHIM_FAIL", NULL);
    }
}

/* ---- several batches at a time ---- */

struct runner {
    ct_engine *engine;
    struct stage stage;
    const char *expected;
    int wrong;
};

static void *run_steps(void *argument) {
    struct runner *r = argument;
    for (int i = 0; i < 5; i++) {
        ct_step step = {.scene = r->stage.scene, .want = everything};
        char hex[33] = "";
        if (ct_engine_run(r->engine, &step, 1) == CT_OK) stage_hash(step.result, hex);
        ct_result_free(&step.result);
        r->wrong += strcmp(hex, r->expected) != 0;
    }
    return NULL;
}

static void test_concurrent_batches(void **state) {
    (void)state;
    NEED_EGL();
    enum { RUNNERS = 3 };
    char expected[2][33];
    reference(30, expected[0]);
    reference(11, expected[1]);
    for (int tight = 0; tight < 2; tight++) { /* tight: one batch at a time fits, so each frees the other's buffers */
        ct_engine_options options = options_for("egl");
        if (tight) options.max_device_bytes = 5000000;
        ct_engine *engine = open_engine(&options);
        struct runner runners[RUNNERS];
        pthread_t threads[RUNNERS];
        for (int i = 0; i < RUNNERS; i++)
            runners[i] = (struct runner){engine, open_pair(engine, i % 2 ? 11 : 30), expected[i % 2], 0};
        for (int i = 0; i < RUNNERS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, run_steps, &runners[i]), 0);
        for (int i = 0; i < RUNNERS; i++) {
            pthread_join(threads[i], NULL);
            assert_int_equal(runners[i].wrong, 0);
            stage_close(&runners[i].stage);
        }
        ct_engine_destroy(&engine);
    }
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup(f, default_devices)
#define ONE_THREAD(f)                                                                                                  \
    { #f, UNIT_RACES_ONLY ? unit_left_out : f, default_devices, NULL, NULL }
    const struct CMUnitTest tests[] = {
        ONE_THREAD(test_the_same_gpu),
        ONE_THREAD(test_memory_that_is_not_shared),
        ONE_THREAD(test_any_order_of_threads),
        ONE_THREAD(test_overlapping_draw_regions),
        ONE_THREAD(test_traffic),
        ONE_THREAD(test_budgets),
        TEST(test_lost),
        TEST(test_concurrent_batches),
    };
    return cmocka_run_group_tests_name("cuda and OpenGL", tests, find_egl, NULL);
}

#else

int main(void) {
    printf("SKIPPED: CUDA and OpenGL together are tested in builds with CUDA=shim and EGL=1\n");
    return 0;
}

#endif

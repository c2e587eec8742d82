/* test_exact_cuda.c - the method `exact` on the CUDA backend, on the shim: any order of threads, too little memory,
 * what is sent and launched, and memory that comes back. Its bits on every kind of scene:
 * tests/consistency/test_exact_backends.c. Needs a build with CUDA=shim; skipped in others. */
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef CT_CUDA_SHIM

#include "tests/unit/backend/shim.h"

static ct_engine *open_cuda(uint64_t max_device_bytes) {
    ct_engine_options options;
    ct_engine_options_init(&options);
    options.backend = "cuda";
    options.max_device_bytes = max_device_bytes;
    return open_engine(&options);
}

/* Two bodies of many clusters that cross, the one in part by coincident faces. */
static struct stage open_exact(ct_engine *engine) {
    struct shape a = shape_cube(2, 12), b = shape_torus(0.9, 0.4, 40, 20), c = shape_cube(1, 8);
    const ct_scene_settings settings = stage_exact();
    double pose[12];
    shape_pose_identity(pose);
    pose[3] = 1;
    struct stage stage = stage_open(
        engine, &settings,
        (struct placed[]){{&a, NULL, CT_BODY_DEFORMABLE}, {&b, pose, CT_BODY_RIGID}, {&c, pose, CT_BODY_RIGID}}, 3);
    shape_free(&a);
    shape_free(&b);
    shape_free(&c);
    return stage;
}

/* The hash of their answer from the CPU backend. */
static void find_expected(char hex[33]) {
    ct_engine *engine = stage_engine(1, NULL);
    struct stage stage = open_exact(engine);
    ct_result *result = stage_step(&stage, NULL, 0, CT_WANT_ALL);
    assert_int_equal(result->method, CT_METHOD_EXACT);
    assert_int_equal(result->n_contacts, 3);
    stage_hash(result, hex);
    ct_result_free(&result);
    stage_close(&stage);
    ct_engine_destroy(&engine);
}

static void expect_same(struct stage *stage, const char *expected) {
    char hex[33];
    ct_result *result = stage_step(stage, NULL, 0, CT_WANT_ALL);
    stage_hash(result, hex);
    assert_string_equal(hex, expected);
    ct_result_free(&result);
}

static void test_any_order_of_threads(void **state) {
    (void)state;
    static const char *const orders[] = {"0", "1", "31", "63", "42"};
    char expected[33];
    find_expected(expected);
    for (size_t i = 0; i < (UNIT_RACES_ONLY ? 1 : sizeof orders / sizeof *orders); i++) {
        set("CT_SHIM_ORDER", orders[i]);
        ct_engine *engine = open_cuda(0);
        struct stage stage = open_exact(engine);
        for (int step = 0; step < 2; step++) expect_same(&stage, expected);
        stage_close(&stage);
        ct_engine_destroy(&engine);
    }
}

/* Whatever the budget: the CPU's bits, or an error that names it. */
static void test_budgets(void **state) {
    (void)state;
    char expected[33], hex[33];
    find_expected(expected);
    int passed = 0, failed = 0;
    for (uint64_t limit = 300000; limit < 20000000; limit += limit / 4) {
        ct_engine *engine = open_cuda(limit);
        struct shape shapes[3] = {shape_cube(2, 12), shape_torus(0.9, 0.4, 40, 20), shape_cube(1, 8)};
        const ct_scene_settings settings = stage_exact();
        ct_scene *scene;
        ct_body_options body;
        bool there = true;
        ct_body_options_init(&body);
        assert_int_equal(ct_scene_create(engine, &settings, &scene, NULL), CT_OK);
        for (int i = 0; i < 3; i++) {
            uint32_t id;
            ct_mesh *mesh = shape_to_mesh(&shapes[i], NULL);
            body.kind = i ? CT_BODY_RIGID : CT_BODY_DEFORMABLE;
            body.pose[3] = i ? 1 : 0;
            there = there && ct_scene_add_body(scene, mesh, &body, &id, NULL) == CT_OK;
            ct_mesh_release(&mesh);
            shape_free(&shapes[i]);
        }
        ct_step step = {.scene = scene, .want = CT_WANT_ALL};
        for (int round = 0; round < 2 && there; round++) {
            if (ct_engine_run(engine, &step, 1) == CT_OK) {
                stage_hash(step.result, hex);
                assert_string_equal(hex, expected);
                ct_result_free(&step.result);
                passed++;
            } else {
                assert_int_equal(step.error.status, CT_OUT_OF_MEMORY);
                assert_string_equal(step.error.field, "scratch");
                assert_non_null(strstr(step.error.message, "the scene's 3 bodies need"));
                assert_non_null(strstr(step.error.message, "choose method \"ldi\", or raise the budget"));
                failed++;
            }
            assert_true(facts_of(engine).memory_used <= limit);
        }
        ct_scene_destroy(&scene);
        ct_engine_destroy(&engine);
    }
    printf("%d steps passed, %d had too little memory\n", passed, failed);
    assert_true(passed > 2 && failed > 4);
}

/* One allocation after the other fails, or all from one on: an error or the right answer, and the next step is
 * answered. */
static void test_allocations_fail(void **state) {
    (void)state;
    static const char *const functions[] = {"cudaMallocFromPoolAsync", "cudaHostAlloc"};
    char expected[33], hex[33];
    find_expected(expected);
    int n_failed = 0, without_topology = 0;
    for (size_t f = 0; f < 2; f++)
        for (int n = 1; n <= 24; n++) {
            char failure[64];
            ct_engine *engine = open_cuda(0);
            struct stage stage = open_exact(engine);
            snprintf(failure, sizeof failure, "%s:%d%s:2", functions[f], n, n % 2 ? "+" : "");
            set("CT_SHIM_FAIL", failure);
            ct_step step = {.scene = stage.scene, .want = CT_WANT_ALL};
            if (ct_engine_run(engine, &step, 1) == CT_OK) {
                stage_hash(step.result, hex);
                assert_string_equal(hex, expected);
                ct_result_free(&step.result);
            } else {
                assert_int_equal(step.error.status, CT_OUT_OF_MEMORY);
                without_topology += strstr(step.error.message, "for the topology of a mesh") != NULL;
                n_failed++;
            }
            set("CT_SHIM_FAIL", NULL);
            expect_same(&stage, expected);
            stage_close(&stage);
            ct_engine_destroy(&engine);
        }
    printf("%d steps failed, %d of them for want of a mesh's topology\n", n_failed, without_topology);
    assert_true(n_failed > 6 && without_topology > 0);
}

/* The topology is sent with the first step alone; launches do not depend on the number of scenes. */
static void test_traffic_and_launches(void **state) {
    (void)state;
    enum { N = 6 };
    char expected[33];
    find_expected(expected);
    ct_engine *engine = open_cuda(0);
    struct stage stages[N];
    ct_step steps[N];
    uint64_t launches[2], uploaded = 0;
    for (int i = 0; i < N; i++) stages[i] = open_exact(engine);
    for (int n = 0; n < 2; n++) /* the second round is counted, when all tables have grown */
        for (int round = 0; round < 2; round++) {
            const size_t n_steps = n ? N : 1;
            const ct_engine_facts before = facts_of(engine);
            for (size_t i = 0; i < n_steps; i++) steps[i] = (ct_step){.scene = stages[i].scene, .want = CT_WANT_ALL};
            assert_int_equal(ct_engine_run(engine, steps, n_steps), CT_OK);
            for (size_t i = 0; i < n_steps; i++) {
                char hex[33];
                stage_hash(steps[i].result, hex);
                assert_string_equal(hex, expected);
                ct_result_free(&steps[i].result);
            }
            const ct_engine_facts after = facts_of(engine);
            launches[n] = after.launches - before.launches;
            uploaded = after.uploaded - before.uploaded;
        }
    assert_int_equal(launches[0], launches[1]);
    assert_in_range(launches[0], 1, 16);
    assert_in_range(uploaded, 1, 4096);
    for (int i = 0; i < N; i++) stage_close(&stages[i]);
    ct_engine_destroy(&engine);
}

/* A mesh's topology counts as the mesh's memory, and goes with it. */
static void test_memory_comes_back(void **state) {
    (void)state;
    ct_engine *engine = open_cuda(0);
    struct shape shape = shape_cube(2, 12);
    ct_mesh *mesh = shape_to_mesh(&shape, NULL);
    const ct_scene_settings settings = stage_exact();
    ct_scene *scene;
    ct_body_options body;
    ct_body_options_init(&body);
    assert_int_equal(ct_scene_create(engine, &settings, &scene, NULL), CT_OK);
    const uint64_t before = facts_of(engine).memory_meshes;
    for (int i = 0; i < 2; i++) {
        uint32_t id;
        assert_int_equal(ct_scene_add_body(scene, mesh, &body, &id, NULL), CT_OK);
    }
    const uint64_t added = facts_of(engine).memory_meshes;
    ct_step step = {.scene = scene, .want = CT_WANT_ALL};
    for (int round = 0; round < 2; round++) {
        assert_int_equal(ct_engine_run(engine, &step, 1), CT_OK);
        assert_int_equal(step.result->n_contacts, 1);
        ct_result_free(&step.result);
        const uint64_t bytes = facts_of(engine).memory_meshes - added; /* one copy for both bodies */
        assert_in_range(bytes, 6 * 12 * 12 * 12, 3 * 6 * 12 * 12 * 12);
    }
    ct_scene_destroy(&scene);
    ct_engine_forget_mesh(engine, mesh);
    assert_int_equal(facts_of(engine).memory_meshes, before);
    ct_mesh_release(&mesh);
    shape_free(&shape);
    ct_engine_destroy(&engine);
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup(f, default_devices)
#define ONE_THREAD(f)                                                                                                  \
    { #f, UNIT_RACES_ONLY ? unit_left_out : f, default_devices, NULL, NULL }
    const struct CMUnitTest tests[] = {TEST(test_any_order_of_threads), ONE_THREAD(test_budgets),
                                       ONE_THREAD(test_allocations_fail), ONE_THREAD(test_traffic_and_launches),
                                       ONE_THREAD(test_memory_comes_back)};
    return cmocka_run_group_tests_name("exact on cuda", tests, NULL, NULL);
}

#else

int main(void) {
    printf("SKIPPED: the CUDA backend's host side is tested in builds with CUDA=shim\n");
    return 0;
}

#endif

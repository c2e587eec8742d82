/* test_ebpi_cuda.c - the method `ebpi` on the CUDA backend, on the shim: any order of threads, too little memory,
 * and memory that comes back. Its bits on all kinds of bodies: tests/consistency/test_ebpi_backends.c.
 * Needs a build with CUDA=shim; skipped in others. */
#include "tests/unit/unit.h"

#include <stdio.h>

#ifdef CT_CUDA_SHIM

#include "tests/unit/backend/method_cuda.h"

static ct_scene_settings ebpi(bool strict) {
    ct_scene_settings settings;
    ct_scene_settings_init(&settings);
    settings.method = CT_METHOD_EBPI;
    settings.tolerance_rel = 0.6;
    settings.strict = strict;
    settings.optimize_directions = !strict;
    return settings;
}

/* Three bodies that cross, by a bound. */
static struct stage open_ebpi(ct_engine *engine, bool strict) {
    struct shape a = shape_cube(2, 4), b = shape_torus(0.9, 0.4, 20, 10), c = shape_icosphere(0.7, 2);
    const ct_scene_settings settings = ebpi(strict);
    double pose[12];
    uint64_t rng = 3;
    shape_pose_random(&rng, 0.5, pose);
    struct stage stage = stage_open(
        engine, &settings,
        (struct placed[]){{&a, NULL, CT_BODY_DEFORMABLE}, {&b, pose, CT_BODY_RIGID}, {&c, pose, CT_BODY_RIGID}}, 3);
    shape_free(&a);
    shape_free(&b);
    shape_free(&c);
    return stage;
}

static const struct method_scene three = {CT_METHOD_EBPI, open_ebpi, {2, 2}, {3, 3}};

/* Or else the tests below would not see tables that are used again. */
static void test_takes_several_passes(void **state) {
    (void)state;
    ct_engine *engine = stage_engine(1, NULL);
    for (int strict = 0; strict < 2; strict++) {
        struct stage stage = open_ebpi(engine, strict);
        ct_result *result = stage_step(&stage, NULL, 0, CT_WANT_FRAME);
        printf("%d passes\n", (int)result->passes);
        assert_true(result->passes > 1);
        ct_result_free(&result);
        stage_close(&stage);
    }
    ct_engine_destroy(&engine);
}

static void test_any_order_of_threads(void **state) {
    (void)state;
    static const char *const orders[] = {"0", "1", "31", "42"};
    for (int strict = 0; strict < (UNIT_RACES_ONLY ? 1 : 2); strict++)
        for (size_t i = 0; i < (UNIT_RACES_ONLY ? 1 : sizeof orders / sizeof *orders); i++)
            check_order(&three, strict, orders[i], 1);
}

/* Pairs are refined side by side, with one launch for what several of them need: as many as for one pair, if all need the
 * same. */
static void test_launches(void **state) {
    (void)state;
    enum { N = 5, ROUNDS = 3 };
    char expected[33];
    find_expected(&three, false, expected);
    ct_engine *engine = open_cuda(0);
    struct stage stages[N];
    ct_step steps[N];
    uint64_t launches[ROUNDS];
    for (int i = 0; i < N; i++) stages[i] = open_ebpi(engine, false);
    for (int round = 0; round < ROUNDS; round++) { /* in the first, tables grow */
        const ct_engine_facts before = facts_of(engine);
        const size_t n = round == 2 ? 1 : N;
        for (size_t i = 0; i < n; i++) steps[i] = (ct_step){.scene = stages[i].scene, .want = CT_WANT_ALL};
        assert_int_equal(ct_engine_run(engine, steps, n), CT_OK);
        for (size_t i = 0; i < n; i++) expect_result(&steps[i].result, expected);
        launches[round] = facts_of(engine).launches - before.launches;
    }
    assert_int_equal(launches[1], launches[2]);
    for (int i = 0; i < N; i++) stage_close(&stages[i]);
    ct_engine_destroy(&engine);
}

/* Whatever the budget: the CPU's bits, or an error that names it. */
static void test_budgets(void **state) {
    (void)state;
    char expected[33];
    find_expected(&three, false, expected);
    struct outcomes outcomes = {0, 0};
    for (uint64_t limit = 1000000; limit < 100000000; limit *= 2) {
        ct_engine *engine = open_cuda(limit);
        struct stage stage = open_ebpi(engine, false);
        step_within(engine, stage.scene, limit, expected, "lower ray_budget or a larger tolerance, or raise the budget",
                    &outcomes);
        stage_close(&stage);
        ct_engine_destroy(&engine);
    }
    printf("%d steps passed, %d had too little memory\n", outcomes.passed, outcomes.failed);
    assert_true(outcomes.passed > 2 && outcomes.failed > 2);
}

static void test_allocations_fail(void **state) {
    (void)state;
    int n_worded;
    const int n_failed = fail_allocations(&three, false, &(struct failures){28, 3, 1, NULL}, &n_worded);
    printf("%d steps failed\n", n_failed);
    assert_true(n_failed > 3);
}

/* A mesh's adjacency is sent once, counts as the mesh's memory, and goes with it. */
static void test_memory_comes_back(void **state) {
    (void)state;
    struct shape shape = shape_icosphere(1, 3);
    const ct_scene_settings settings = ebpi(false);
    check_memory_of_mesh(&settings, &shape, 0.5, 12 * shape.n_triangles, 12 * shape.n_triangles + 512);
    shape_free(&shape);
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup(f, default_devices)
#define ONE_THREAD(f)                                                                                                  \
    { #f, UNIT_RACES_ONLY ? unit_left_out : f, default_devices, NULL, NULL }
    const struct CMUnitTest tests[] = {
        TEST(test_takes_several_passes), TEST(test_any_order_of_threads),   TEST(test_launches),
        ONE_THREAD(test_budgets),        ONE_THREAD(test_allocations_fail), ONE_THREAD(test_memory_comes_back)};
    return cmocka_run_group_tests_name("ebpi on cuda", tests, NULL, NULL);
}

#else

int main(void) {
    printf("SKIPPED: the CUDA backend's host side is tested in builds with CUDA=shim\n");
    return 0;
}

#endif

/* test_exact_cuda.c - the method `exact` on the CUDA backend, on the shim: any order of threads, too little memory,
 * what is sent and launched, and memory that comes back. Its bits on every kind of scene:
 * tests/consistency/test_exact_backends.c. Needs a build with CUDA=shim; skipped in others. */
#include "tests/unit/unit.h"

#include <stdio.h>

#ifdef CT_CUDA_SHIM

#include "tests/unit/backend/method_cuda.h"

/* Three bodies of many clusters that cross, some in part by coincident faces. */
enum { BODIES = 3 };
static void make_bodies(struct shape shapes[BODIES]) {
    shapes[0] = shape_cube(2, 12);
    shapes[1] = shape_torus(0.9, 0.4, 40, 20);
    shapes[2] = shape_cube(1, 8);
}

/* has_own: the last body also has a second shell, and a contact with itself. */
static struct stage open_exact(ct_engine *engine, bool has_own) {
    struct shape shapes[BODIES], shell = shape_cube(1, 5);
    const ct_scene_settings settings = stage_exact();
    make_bodies(shapes);
    shape_translate(&shell, 0.5, 0.5, 0.25);
    struct shape own = shape_merge(&shapes[2], &shell);
    double pose[12];
    shape_pose_identity(pose);
    pose[3] = 1;
    struct stage stage = stage_open(engine, &settings,
                                    (struct placed[]){{&shapes[0], NULL, CT_BODY_DEFORMABLE},
                                                      {&shapes[1], pose, CT_BODY_RIGID},
                                                      {has_own ? &own : &shapes[2], pose, CT_BODY_RIGID, has_own}},
                                    BODIES);
    for (int i = 0; i < BODIES; i++) shape_free(&shapes[i]);
    shape_free(&shell);
    shape_free(&own);
    return stage;
}

static const struct method_scene three = {CT_METHOD_EXACT, open_exact, {3, 4}, {3, 4}};

static void test_any_order_of_threads(void **state) {
    (void)state;
    static const char *const orders[] = {"0", "1", "31", "63", "42"};
    for (size_t i = 0; i < 2 * (UNIT_RACES_ONLY ? 1 : sizeof orders / sizeof *orders); i++)
        check_order(&three, i % 2, orders[i / 2], 2);
}

/* Whatever the budget: the CPU's bits, or an error that names it. */
static void try_budgets(bool has_own) {
    char expected[33];
    find_expected(&three, has_own, expected);
    struct outcomes outcomes = {0, 0};
    for (uint64_t limit = 300000; limit < 20000000; limit += limit / 4) {
        ct_engine *engine = open_cuda(limit);
        struct shape shapes[BODIES], shell = shape_cube(1, 5);
        make_bodies(shapes);
        shape_translate(&shell, 0.5, 0.5, 0.25);
        struct shape own = shape_merge(&shapes[2], &shell);
        const ct_scene_settings settings = stage_exact();
        ct_scene *scene;
        ct_body_options body;
        bool there = true;
        ct_body_options_init(&body);
        assert_int_equal(ct_scene_create(engine, &settings, &scene, NULL), CT_OK);
        for (int i = 0; i < 3; i++) {
            uint32_t id;
            body.self_contact = has_own && i == 2;
            ct_mesh *mesh = shape_to_mesh(body.self_contact ? &own : &shapes[i], NULL);
            body.kind = i ? CT_BODY_RIGID : CT_BODY_DEFORMABLE;
            body.pose[3] = i ? 1 : 0;
            there = there && ct_scene_add_body(scene, mesh, &body, &id, NULL) == CT_OK;
            ct_mesh_release(&mesh);
            shape_free(&shapes[i]);
        }
        shape_free(&shell);
        shape_free(&own);
        if (there) step_within(engine, scene, limit, expected, "choose method \"ldi\", or raise the budget", &outcomes);
        ct_scene_destroy(&scene);
        ct_engine_destroy(&engine);
    }
    printf("%d steps passed, %d had too little memory\n", outcomes.passed, outcomes.failed);
    assert_true(outcomes.passed > 2 && outcomes.failed > 4);
}

static void test_budgets(void **state) {
    (void)state;
    try_budgets(false);
    try_budgets(true);
}

static void test_allocations_fail(void **state) {
    (void)state;
    int n_worded;
    int n_failed =
        fail_allocations(&three, false, &(struct failures){24, 1, 1, "for the topology of a mesh"}, &n_worded);
    printf("%d steps failed, %d of them for want of a mesh's topology\n", n_failed, n_worded);
    assert_true(n_failed > 6 && n_worded > 0);
    n_failed = fail_allocations(&three, true, &(struct failures){34, 3, 0, "for the edges of a mesh"}, &n_worded);
    printf("%d steps failed, %d of them for want of a mesh's edges\n", n_failed, n_worded);
    assert_true(n_failed > 4 && n_worded > 0);
}

/* The topology is sent with the first step alone; launches do not depend on the number of scenes. */
static void count_launches(bool has_own, uint64_t most) {
    enum { N = 6 };
    char expected[33];
    find_expected(&three, has_own, expected);
    ct_engine *engine = open_cuda(0);
    struct stage stages[N];
    ct_step steps[N];
    uint64_t launches[2], uploaded = 0;
    for (int i = 0; i < N; i++) stages[i] = open_exact(engine, has_own);
    for (int n = 0; n < 2; n++) /* the second round is counted, when all tables have grown */
        for (int round = 0; round < 2; round++) {
            const size_t n_steps = n ? N : 1;
            const ct_engine_facts before = facts_of(engine);
            for (size_t i = 0; i < n_steps; i++) steps[i] = (ct_step){.scene = stages[i].scene, .want = CT_WANT_ALL};
            assert_int_equal(ct_engine_run(engine, steps, n_steps), CT_OK);
            for (size_t i = 0; i < n_steps; i++) expect_result(&steps[i].result, expected);
            const ct_engine_facts after = facts_of(engine);
            launches[n] = after.launches - before.launches;
            uploaded = after.uploaded - before.uploaded;
        }
    assert_int_equal(launches[0], launches[1]);
    assert_in_range(launches[0], 1, most);
    assert_in_range(uploaded, 1, has_own ? 65536 : 4096); /* with a byte for each vertex of bodies with themselves */
    for (int i = 0; i < N; i++) stage_close(&stages[i]);
    ct_engine_destroy(&engine);
}

static void test_traffic_and_launches(void **state) {
    (void)state;
    count_launches(false, 16);
    count_launches(true, 25);
}

/* A mesh's topology counts as the mesh's memory, and goes with it. */
static void test_memory_comes_back(void **state) {
    (void)state;
    struct shape shape = shape_cube(2, 12);
    const ct_scene_settings settings = stage_exact();
    check_memory_of_mesh(&settings, &shape, 0, 6 * 12 * 12 * 12, 3 * 6 * 12 * 12 * 12);
    shape_free(&shape);
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

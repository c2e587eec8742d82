/* test_crowds.c - scenes of many bodies on the CUDA backend: the same pairs in the same order as on the CPU, with few
 * box tests and launches, also in a batch with small scenes. Skipped where there is no CUDA backend. */
#include "tests/unit/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/scene/scene.h"
#include "tests/scenes/stage.h"

enum { N = 1000, SIZES = 6 };

static ct_engine *engines[2]; /* CPU, CUDA */

static int open_engines(void **state) {
    (void)state;
    static const char *const names[] = {"cpu", "cuda"};
    for (int e = 0; e < 2; e++) {
        ct_engine_options options;
        ct_error error = {0};
        ct_engine_options_init(&options);
        options.backend = names[e];
        options.devices = "0";
        options.threads = 2;
        if (ct_engine_create(&options, &engines[e], &error) == CT_OK) continue;
        print_message("SKIPPED: %s\n", error.message);
        ct_engine_destroy(&engines[0]);
        return 0;
    }
    return 0;
}

static int close_engines(void **state) {
    (void)state;
    for (int e = 0; e < 2; e++) ct_engine_destroy(&engines[e]);
    return 0;
}

/* ---- the same scene on both ---- */

typedef struct crowd {
    ct_scene *scenes[2];
    uint32_t n;
    uint32_t *ids;
    ct_update *poses;
} crowd;

static ct_mesh *cuboid(double x, double y, double z) {
    struct shape box = shape_box(x, y, z);
    ct_mesh *mesh = shape_to_mesh(&box, NULL);
    assert_non_null(mesh);
    shape_free(&box);
    return mesh;
}

static crowd open_crowd(uint32_t n) {
    crowd c = {.n = n, .ids = calloc(n + 1, sizeof *c.ids), .poses = calloc(n + 1, sizeof *c.poses)};
    assert_non_null(c.ids);
    assert_non_null(c.poses);
    ct_scene_settings settings = stage_resolution(2);
    for (int e = 0; e < 2; e++) assert_int_equal(ct_scene_create(engines[e], &settings, &c.scenes[e], NULL), CT_OK);
    return c;
}

/* Rigid body k, at (0, 0, 0). */
static void add_body(crowd *c, uint32_t k, ct_mesh *mesh, ct_body_options *options) {
    options->kind = CT_BODY_RIGID;
    for (int e = 0; e < 2; e++)
        assert_int_equal(ct_scene_add_body(c->scenes[e], mesh, options, &c->ids[k], NULL), CT_OK);
    c->poses[k] = (ct_update){.body = c->ids[k], .kind = CT_UPDATE_POSE};
    shape_pose_identity(c->poses[k].pose);
}

static void close_crowd(crowd *c) {
    for (int e = 0; e < 2; e++) ct_scene_destroy(&c->scenes[e]);
    free(c->ids);
    free(c->poses);
}

/* Moves the centre of body k. */
static void move_body(crowd *c, uint32_t k, double x, double y, double z) {
    const double at[3] = {x, y, z};
    for (int i = 0; i < 3; i++) c->poses[k].pose[4 * i + 3] = at[i];
}

/* Steps n crowds on both engines, as one batch. Returns the pairs found. */
static uint64_t compare(crowd *const *crowds, size_t n, uint32_t want) {
    ct_step steps[2][16];
    uint64_t pairs = 0;
    assert_true(n <= 16);
    for (int e = 0; e < 2; e++) {
        for (size_t i = 0; i < n; i++)
            steps[e][i] = (ct_step){
                .scene = crowds[i]->scenes[e], .updates = crowds[i]->poses, .n_updates = crowds[i]->n, .want = want};
        assert_int_equal(ct_engine_run(engines[e], steps[e], n), CT_OK);
    }
    for (size_t i = 0; i < n; i++) {
        char hex[2][33];
        assert_int_equal(steps[0][i].result->pairs, steps[1][i].result->pairs);
        pairs += steps[0][i].result->pairs;
        for (int e = 0; e < 2; e++) {
            stage_hash(steps[e][i].result, hex[e]);
            ct_result_free(&steps[e][i].result);
        }
        assert_string_equal(hex[0], hex[1]);
    }
    return pairs;
}

/* ---- few tests ---- */

static void expect_few_tests(const char *name, crowd *c, uint64_t at_most) {
    ct_engine_facts before, after;
    ct_engine_get_facts(engines[1], 0, &before);
    const uint64_t pairs = compare(&c, 1, 0), tests = c->scenes[1]->broad.box_tests;
    ct_engine_get_facts(engines[1], 0, &after);
    if (after.reruns == before.reruns) assert_int_equal(after.launches - before.launches, 18);
    print_message("%s: %llu box tests, %llu pairs\n", name, (unsigned long long)tests, (unsigned long long)pairs);
    assert_in_range(tests, pairs, at_most); /* of 499,500 that are possible */
}

static void test_few_box_tests(void **state) {
    (void)state;
    if (!engines[1] || UNIT_RACES_ONLY) skip(); /* test_random_batches runs the same kernels with fewer pairs */
    ct_mesh *unit = cuboid(1, 1, 1), *ground = cuboid(1000, 1000, 2);
    ct_body_options options;
    ct_body_options_init(&options);
    crowd c = open_crowd(N);
    for (uint32_t k = 0; k < N; k++) add_body(&c, k, k ? unit : ground, &options);
    uint32_t order[N]; /* neighbours in space are far apart in the scene's list */
    uint64_t rng = 11;
    for (uint32_t k = 0; k < N; k++) order[k] = k;
    for (uint32_t k = N - 1; k > 1; k--) {
        const uint32_t other = 1 + (uint32_t)(shape_random(&rng) % k), swap = order[k];
        order[k] = order[other];
        order[other] = swap;
    }
    move_body(&c, 0, 0, 0, -1e5);
    for (int axis = 0; axis < 3; axis++) {
        for (uint32_t k = 1; k < N; k++) {
            double at[3] = {0, 0, 0};
            at[axis] = 0.95 * order[k];
            move_body(&c, k, at[0], at[1], at[2]);
        }
        expect_few_tests("stack", &c, 20000);
        for (uint32_t k = 1; k < N; k++) {
            double at[3] = {0, 0, 0};
            at[(axis + 1) % 3] = 0.95 * (order[k] % 32);
            at[(axis + 2) % 3] = 0.95 * (order[k] / 32);
            move_body(&c, k, at[0], at[1], at[2]);
        }
        expect_few_tests("plane", &c, 40000);
    }
    for (uint32_t k = 1; k < N; k++)
        move_body(&c, k, 0.9 * (order[k] % 10), 0.9 * (order[k] / 10 % 10), 0.9 * (order[k] / 100));
    expect_few_tests("pile", &c, 80000);
    move_body(&c, 0, 5, 5, -1.1); /* under the lowest of them */
    expect_few_tests("pile on a ground", &c, 80000);
    move_body(&c, 1, 1e6, 1e6, 1e6);
    expect_few_tests("pile on a ground and a lost body", &c, 80000);
    close_crowd(&c);
    ct_mesh_release(&unit);
    ct_mesh_release(&ground);
}

/* ---- the same pairs ---- */

/* Boxes of several sizes, groups, masks and ignored pairs. */
static crowd mixed(uint32_t n, ct_mesh *const meshes[SIZES], uint64_t *rng) {
    crowd c = open_crowd(n);
    for (uint32_t k = 0; k < n; k++) {
        ct_body_options options;
        ct_body_options_init(&options);
        options.group = 1u << shape_random(rng) % 3;
        options.mask = shape_random(rng) % 2 ? ~0u : (uint32_t)(shape_random(rng) % 8);
        const uint32_t ignored = k ? c.ids[shape_random(rng) % k] : 0;
        options.ignore = &ignored;
        options.n_ignore = k > 0;
        add_body(&c, k, meshes[shape_random(rng) % 50 ? shape_random(rng) % (SIZES - 1) : SIZES - 1], &options);
    }
    return c;
}

static void scatter(crowd *c, uint64_t *rng, double dense, bool lattice) {
    const double reach = cbrt((double)c->n / dense);
    for (uint32_t k = 0; k < c->n; k++) {
        double at[3];
        for (int i = 0; i < 3; i++) {
            at[i] = shape_uniform(rng, 0, reach);
            if (lattice) at[i] = floor(at[i]); /* boxes that touch, and several at one point */
        }
        move_body(c, k, at[0], at[1], at[2]);
    }
}

static void test_random_batches(void **state) {
    (void)state;
    if (!engines[1]) skip();
    static const uint32_t sizes[] = {2, 129, 0, 200, 128, 1, 40, 2, 530};
    enum { SCENES = sizeof sizes / sizeof *sizes };
    ct_mesh *meshes[SIZES];
    for (int i = 0; i < SIZES - 1; i++) meshes[i] = cuboid(0.5 + 0.25 * i, 1.5 - 0.25 * i, 1);
    meshes[SIZES - 1] = cuboid(30, 20, 0.5);
    uint64_t rng = 5, pairs = 0;
    crowd crowds[SCENES], *list[SCENES];
    for (int i = 0; i < SCENES; i++) crowds[i] = mixed(sizes[i], meshes, &rng);
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < SCENES; i++) {
            list[i] = &crowds[(i + round) % SCENES];
            scatter(list[i], &rng, round % 2 ? 0.1 : 0.5, round % 3 == 0);
        }
        setenv("CT_SHIM_ORDER", round % 2 ? "85" : "0", 1); /* on the shim: another order of threads */
        pairs += compare(list, SCENES, round ? 0 : CT_WANT_ALL);
    }
    unsetenv("CT_SHIM_ORDER");
    print_message("%llu pairs\n", (unsigned long long)pairs);
    assert_true(pairs > 2000);
    for (int i = 0; i < SCENES; i++) close_crowd(&crowds[i]);
    for (int i = 0; i < SIZES; i++) ct_mesh_release(&meshes[i]);
}

/* Thousands of bodies, of which every sixth lies on one ground and every fifth on another. The first bodies of both
 * rows touch more than a thousand others each, from all over the scene's list. */
static void test_grounds(void **state) {
    (void)state;
    if (!engines[1]) skip();
    enum { BODIES = UNIT_RACES_ONLY ? 2500 : 9000, OTHER = 700 };
    ct_mesh *unit = cuboid(1, 1, 1), *ground = cuboid(120, 120, 2);
    ct_body_options options;
    ct_body_options_init(&options);
    crowd c = open_crowd(BODIES), *list = &c;
    uint64_t on_grounds = 0;
    for (uint32_t k = 0; k < BODIES; k++) {
        const bool is_ground = k == 0 || k == OTHER;
        const double x = 1.1 * (k % 97) - 53, y = 1.1 * (k % 101) - 55; /* no two alike: 97 and 101 are primes */
        add_body(&c, k, is_ground ? ground : unit, &options);
        if (is_ground)
            move_body(&c, k, k ? 1000 : 0, 0, -1.4);
        else if (k % 6 == 0)
            move_body(&c, k, x, y, 0);
        else if (k % 5 == 0)
            move_body(&c, k, 1000 + x, y, 0);
        else
            move_body(&c, k, -1000 + x, y, 0);
        on_grounds += !is_ground && (k % 6 == 0 || k % 5 == 0);
    }
    for (int order = 0; order < 2; order++) {
        setenv("CT_SHIM_ORDER", order ? "85" : "0", 1);
        assert_int_equal(compare(&list, 1, 0), on_grounds);
    }
    unsetenv("CT_SHIM_ORDER");
    close_crowd(&c);
    ct_mesh_release(&unit);
    ct_mesh_release(&ground);
}

/* All bodies at one point have the same key on the curve, and each meets all others. */
static void test_one_point(void **state) {
    (void)state;
    if (!engines[1] || UNIT_RACES_ONLY) skip();
    ct_mesh *unit = cuboid(1, 1, 1);
    ct_body_options options;
    ct_body_options_init(&options);
    crowd c = open_crowd(131), *list = &c;
    for (uint32_t k = 0; k < c.n; k++) {
        add_body(&c, k, unit, &options);
        move_body(&c, k, 3, 4, 5);
    }
    assert_int_equal(compare(&list, 1, 0), 131 * 130 / 2);
    /* Without its last bodies the scene is no crowd. */
    while (c.n > 127) {
        const uint32_t gone = c.ids[--c.n];
        for (int e = 0; e < 2; e++) assert_int_equal(ct_scene_remove_body(c.scenes[e], gone, NULL), CT_OK);
        if (c.n % 2) assert_int_equal(compare(&list, 1, 0), c.n * (c.n - 1) / 2);
    }
    close_crowd(&c);
    ct_mesh_release(&unit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_few_box_tests),
        cmocka_unit_test(test_random_batches),
        cmocka_unit_test(test_grounds),
        cmocka_unit_test(test_one_point),
    };
    return cmocka_run_group_tests_name("crowds", tests, open_engines, close_engines);
}

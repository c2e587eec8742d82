/* test_second_backends.c - every backend that has the method `exact` computes the CPU's bits of what few steps want:
 * products with the second derivative, and the inertia of the intersection. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/consistency/twin_second.h"

static uint64_t compare_pair(const struct placed a, const struct placed b, uint32_t n_directions, uint32_t want) {
    const ct_scene_settings settings = stage_exact();
    struct placed bodies[1][MOST_BODIES] = {{a, b}};
    struct twin twin = twin_open(&settings, bodies[0], 2);
    const uint64_t found = compare_second(&twin, bodies, &n_directions, 1, want);
    twin_close(&twin);
    return found;
}

static const uint32_t wants[] = {CT_WANT_INERTIA, CT_WANT_ALL | CT_WANT_INERTIA, 0, CT_WANT_GRADIENT};

static void test_random_pairs(void **state) {
    (void)state;
    struct shape shapes[] = {shape_box(1.2, 1, 0.7), shape_blob(0.8, 3, 0.4, 2), shape_torus(0.8, 0.35, 40, 20),
                             shape_tetrahedron(1.4), shape_cube(1.3, 6)};
    uint64_t rng = 41;
    int found = 0;
    for (int round = 0; round < 32; round++) {
        double pose[2][12];
        for (int k = 0; k < 2; k++) shape_pose_random(&rng, 0.4, pose[k]);
        const struct placed a = {&shapes[round % 5], pose[0], round % 3 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE},
                            b = {&shapes[round / 5 % 5], pose[1], round % 2 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE};
        found += compare_pair(a, b, (uint32_t[]){0, 1, 3, CT_MAX_DIRECTIONS}[round % 4], wants[round / 4 % 4]) > 0;
    }
    assert_true(found > 20);
    for (int i = 0; i < 5; i++) shape_free(&shapes[i]);
}

/* Coincident faces: both passes. */
static void test_ties(void **state) {
    (void)state;
    struct shape cube = shape_cube(1, 5), box = shape_box(1, 1, 1);
    int found = 0;
    for (int i = 0; i < 8; i++) {
        double pose[12];
        shape_pose_identity(pose);
        pose[3] = i % 2 * 0.5, pose[7] = i / 2 % 2 * 0.25, pose[11] = i / 4 * 0.5;
        found += compare_pair((struct placed){&cube, NULL, i % 3 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE},
                              (struct placed){i % 2 ? &box : &cube, pose, 0}, 4, wants[i % 2]) > 0;
    }
    assert_int_equal(found, 8);
    shape_free(&cube);
    shape_free(&box);
}

/* A half-space moves by a twist, and has no products of its own. */
static void test_half_spaces(void **state) {
    (void)state;
    struct shape ball = shape_icosphere(1, 3);
    for (int i = 0; i < 4; i++) {
        double plane[12];
        assert_int_equal(ct_plane_pose((const double[]){0.1 * i, 0.3, 1}, 0.4 - 0.2 * i, plane, NULL), CT_OK);
        const struct placed body = {&ball, NULL, i / 2 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE}, below = {.pose = plane};
        assert_true(compare_pair(i % 2 ? body : below, i % 2 ? below : body, 5, wants[1]) > 100);
    }
    shape_free(&ball);
}

/* Scenes of several bodies in a batch, some of which want nothing of it. */
static void test_batches(void **state) {
    (void)state;
    enum { N = 6 };
    uint64_t rng = 3;
    struct shape shapes[] = {shape_icosphere(0.6, 2), shape_box(0.9, 0.8, 1), shape_blob(0.7, 3, 0.3, 7)};
    struct placed bodies[N][MOST_BODIES];
    double poses[N][MOST_BODIES][12];
    struct twin twins[N];
    const uint32_t n_directions[N] = {2, 0, 12, 1, 0, 6};
    const ct_scene_settings settings = stage_exact();
    for (int i = 0; i < N; i++) {
        const int n = i == 3 ? 1 : MOST_BODIES - i % 3;
        memset(bodies[i], 0, sizeof bodies[i]);
        for (int b = 0; b < n; b++) {
            shape_pose_random(&rng, 0.5, poses[i][b]);
            bodies[i][b] =
                (struct placed){&shapes[b % 3], poses[i][b], (b + i) % 2 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE};
        }
        twins[i] = twin_open(&settings, bodies[i], n);
    }
    assert_true(compare_second(twins, bodies, n_directions, N, CT_WANT_GRADIENT) > 1000);
    assert_true(compare_second(twins, bodies, n_directions, N, CT_WANT_INERTIA) > 1000);
    assert_int_equal(compare_second(twins + 1, bodies + 1, n_directions + 1, 1, 0), 0);
    for (int i = 0; i < N; i++) twin_close(&twins[i]);
    for (int i = 0; i < 3; i++) shape_free(&shapes[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_pairs),
        cmocka_unit_test(test_ties),
        cmocka_unit_test(test_half_spaces),
        cmocka_unit_test(test_batches),
    };
    static const char *const rasterizers[] = {"native"};
    return twin_run_on_backends(tests, sizeof tests / sizeof *tests, rasterizers, 1);
}

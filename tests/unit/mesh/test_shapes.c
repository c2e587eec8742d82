/* test_shapes.c - the generated shapes: counts as promised, accepted as meshes, volumes known, the same bits
 * everywhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "tests/scenes/shapes.h"

static const double pi = 3.14159265358979323846;

/* Frees the shape; gives its volume. */
static double check(struct shape shape, uint32_t vertices, uint32_t triangles, const char *hash) {
    assert_int_equal(shape.n_vertices, vertices);
    assert_int_equal(shape.n_triangles, triangles);
    ct_error error = {0};
    ct_mesh *mesh = shape_to_mesh(&shape, &error);
    if (!mesh) fail_msg("refused: %s", error.message);
    ct_mesh_info info;
    ct_mesh_get_info(mesh, &info);
    assert_int_equal(info.vertices, vertices);
    assert_int_equal(info.triangles, triangles);
    assert_int_equal(info.components, 1);
    assert_float_equal(info.volume, shape_volume(&shape), 1e-12 * info.volume);
    if (hash) assert_string_equal(info.hash, hash); /* no platform may make another shape of the same numbers */
    ct_mesh_release(&mesh);
    uint64_t rng = 4;
    double volume = shape_volume(&shape), before = volume;
    shape_shuffle(&shape, &rng);
    assert_float_equal(shape_volume(&shape), before, 1e-12 * before);
    mesh = shape_to_mesh(&shape, &error);
    assert_non_null(mesh);
    ct_mesh_release(&mesh);
    shape_free(&shape);
    return volume;
}

static void test_flat_faced(void **state) {
    (void)state;
    assert_float_equal(check(shape_box(1, 2, 3), 8, 12, NULL), 6, 1e-6);
    assert_float_equal(check(shape_cube(2, 1), 8, 12, NULL), 8, 1e-6);
    assert_float_equal(check(shape_cube(2, 5), 152, 300, NULL), 8, 1e-6);
    assert_float_equal(check(shape_l_prism(2, 3), 12, 20, NULL), 9, 1e-6);
    assert_float_equal(check(shape_tetrahedron(2), 4, 4, NULL), 8.0 / 6, 1e-6);
}

static void test_round(void **state) {
    (void)state;
    for (int level = 0; level <= 6; level++) {
        uint32_t faces = 20u << 2 * level;
        double volume = check(shape_icosphere(1, level), faces / 2 + 2, faces, NULL), ball = 4 * pi / 3;
        assert_true(volume < ball && volume > ball * (1 - 0.6 / (1 << 2 * level)));
    }
    assert_float_equal(check(shape_torus(1, 0.25, 200, 100), 20000, 40000, NULL), 2 * pi * pi * 0.0625, 2e-3);
    /* A regular polygon's area times the height. */
    assert_float_equal(check(shape_cylinder(1, 2, 50), 102, 200, NULL), 50 * sin(2 * pi / 50), 1e-5);
    assert_true(check(shape_blob(1, 4, 0.5, 1), 2562, 5120, NULL) != check(shape_blob(1, 4, 0.5, 2), 2562, 5120, NULL));
    check(shape_blob(1, 5, 0.5, 3), 10242, 20480, NULL);
}

static void test_bolt_and_nut(void **state) {
    (void)state;
    check(shape_bolt(1, 0.2, 0.3, 8, 96, 24), 96 * 193 + 2, 2 * 96 * 193, NULL);
    double nut = check(shape_nut(1, 0.2, 0.3, 3, 96, 24, 0.02, 3), 96 * 75, 2 * 96 * 75, NULL);
    double hexagon = sqrt(3) / 2 * 9; /* across flats squared */
    assert_true(nut < 0.9 * (hexagon - pi * 0.82 * 0.82) && nut > 0.9 * (hexagon - pi * 1.02 * 1.02));
}

static void test_slab(void **state) {
    (void)state;
    assert_float_equal(check(shape_slab(2, 0.5, 0, 0, 1), 8, 12, NULL), 2, 1e-12);
    assert_float_equal(check(shape_slab(2, 0.5, 0.1, 1, 2), 18, 32, NULL), 2, 1e-6);
    assert_float_equal(check(shape_slab(32, 1, 0.1, 3, 39), 3200, 6396, NULL), 1024, 1e-3);
    assert_float_equal(check(shape_slab(32, 1, 0.1, 3, 315), 199712, 399420, NULL), 1024, 1e-3);
}

/* The top is where shape_slab_top says, and there are waves. */
static void test_slab_top(void **state) {
    (void)state;
    struct shape slab = shape_slab(32, 1, 0.1, 3, 39);
    double highest = 0;
    for (uint32_t v = 0; v < slab.n_vertices; v++) {
        const float *p = slab.positions + 3 * (size_t)v;
        double top = shape_slab_top(32, 0.1, 3, (double)p[0], (double)p[1]), z = (double)p[2];
        assert_float_equal(z, v < slab.n_vertices / 2 ? top : -1, 1e-6);
        if (z > highest) highest = z;
    }
    assert_true(highest > 0.09 && highest <= 0.1000001);
    shape_free(&slab);
}

static void test_same_everywhere(void **state) {
    (void)state;
    check(shape_torus(1, 0.3, 40, 20), 800, 1600, "30392c8e5503165fb024be4fff6f3852");
    check(shape_blob(1, 4, 0.4, 7), 2562, 5120, "b7579c7823929b31d6af297b36527d71");
    check(shape_slab(32, 1, 0.1, 3, 39), 3200, 6396, "7cab6262abadde1bfcbea46dcce0c8fd");
    check(shape_bolt(1, 0.2, 0.3, 2, 24, 12), 24 * 25 + 2, 2 * 24 * 25, "af51fb0310d6f64a1d2e4c1c84b876c7");
    uint64_t rng = 42;
    assert_true(shape_random(&rng) == 0xbdd732262feb6e95u); /* splitmix64's own sequence */
    double pose[12];
    struct shape cube = shape_cube(1, 3);
    shape_pose_random(&rng, 2, pose);
    shape_transform(&cube, pose);
    const double axis[3] = {1, 2, 3}, by[3] = {0.5, 0, 0};
    shape_pose_axis(axis, 0.3, by, pose);
    shape_transform(&cube, pose);
    check(cube, 56, 108, "b691ae1e9b492ad57384ca4a2c392558");
}

static void test_poses_are_rotations(void **state) {
    (void)state;
    uint64_t rng = 1;
    for (int i = 0; i < 200; i++) {
        double pose[12];
        const double axis[3] = {shape_uniform(&rng, -1, 1), shape_uniform(&rng, -1, 1), shape_uniform(&rng, -1, 1)};
        const double by[3] = {1, 2, 3};
        if (i % 2)
            shape_pose_random(&rng, 3, pose);
        else
            shape_pose_axis(axis, shape_uniform(&rng, -2, 2), by, pose);
        for (int a = 0; a < 3; a++)
            for (int b = 0; b < 3; b++) {
                double dot = 0;
                for (int k = 0; k < 3; k++) dot += pose[4 * a + k] * pose[4 * b + k];
                assert_float_equal(dot, a == b, 1e-14);
            }
        double det = pose[0] * (pose[5] * pose[10] - pose[6] * pose[9]) -
                     pose[1] * (pose[4] * pose[10] - pose[6] * pose[8]) +
                     pose[2] * (pose[4] * pose[9] - pose[5] * pose[8]);
        assert_float_equal(det, 1, 1e-14);
        assert_true(fabs(pose[3]) <= 3 && fabs(pose[7]) <= 3 && fabs(pose[11]) <= 3);
    }
    double quarter[12];
    const double z[3] = {0, 0, 1}, origin[3] = {0, 0, 0}, turned[3] = {0, 1, 0};
    shape_pose_axis(z, 0.25, origin, quarter);
    for (int k = 0; k < 3; k++) assert_float_equal(quarter[4 * k], turned[k], 1e-15);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flat_faced),
        cmocka_unit_test(test_round),
        cmocka_unit_test(test_bolt_and_nut),
        cmocka_unit_test(test_slab),
        cmocka_unit_test(test_slab_top),
        cmocka_unit_test(test_same_everywhere),
        cmocka_unit_test(test_poses_are_rotations),
    };
    return cmocka_run_group_tests_name("shapes", tests, NULL, NULL);
}

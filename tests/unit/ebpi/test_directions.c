/* test_directions.c - the axes of a pair's views: energies against sums over faces, minima against axes at random. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/mesh/mesh.h"
#include "gpu/methods/ebpi/directions.h"
#include "tests/scenes/shapes.h"
#include "tests/unit/unit.h"

static const ct_box EVERYWHERE = {{-100, -100, -100}, {100, 100, 100}};

static ct_gaussian_image image_of(const struct shape *shape, const double *pose, const ct_box *box) {
    ct_gaussian_image image;
    ct_error error = {0};
    ct_mesh *mesh = shape_to_mesh(shape, &error);
    assert_non_null(mesh);
    ct_gaussian_image_begin(&image, 10);
    ct_gaussian_image_add(&image, mesh->positions, mesh->triangles, mesh->n_triangles, pose, box);
    ct_mesh_release(&mesh);
    return image;
}

static void random_axes(uint64_t *rng, double axes[3][3]) {
    double pose[12];
    shape_pose_random(rng, 0, pose);
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) axes[i][k] = pose[4 * i + k];
}

static const double WORLD[3][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};

/* Equation 12, face by face. */
static double brute_energy(const struct shape *shape, const double axes[3][3]) {
    double sum = 0, area = 0;
    for (size_t t = 0; t < shape->n_triangles; t++) {
        const float *p[3];
        double e[2][3], n[3];
        for (size_t c = 0; c < 3; c++) p[c] = shape->positions + 3 * (size_t)shape->triangles[3 * t + c];
        for (int k = 0; k < 3; k++) {
            e[0][k] = (double)p[1][k] - (double)p[0][k];
            e[1][k] = (double)p[2][k] - (double)p[0][k];
        }
        for (int k = 0; k < 3; k++)
            n[k] = e[0][(k + 1) % 3] * e[1][(k + 2) % 3] - e[0][(k + 2) % 3] * e[1][(k + 1) % 3];
        const double size = sqrt(n[0] * n[0] + n[1] * n[1] + n[2] * n[2]);
        for (int j = 0; j < 3; j++)
            sum += size * pow((n[0] * axes[j][0] + n[1] * axes[j][1] + n[2] * axes[j][2]) / size, 4);
        area += size;
    }
    return sum / area;
}

/* Of a shape at a pose. */
static double posed_energy(const struct shape *shape, const double pose[12], const double axes[3][3]) {
    double turned[3][3];
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++)
            turned[i][k] = axes[i][0] * pose[k] + axes[i][1] * pose[4 + k] + axes[i][2] * pose[8 + k];
    return brute_energy(shape, turned);
}

static void assert_rotation(const double axes[3][3]) {
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            const double product = axes[i][0] * axes[j][0] + axes[i][1] * axes[j][1] + axes[i][2] * axes[j][2];
            assert_true(fabs(product - (i == j)) <= 1e-14);
        }
    const double *a = axes[0], *b = axes[1], *c = axes[2];
    const double volume =
        a[0] * (b[1] * c[2] - b[2] * c[1]) + a[1] * (b[2] * c[0] - b[0] * c[2]) + a[2] * (b[0] * c[1] - b[1] * c[0]);
    assert_true(fabs(volume - 1) <= 1e-14);
}

/* No axes of 20,000 at random are better. */
static void test_minimum(void **state) {
    (void)state;
    uint64_t rng = 3;
    for (int i = 0; i < 12; i++) {
        struct shape shape = i % 4 == 0   ? shape_box(1, shape_uniform(&rng, 0.1, 1), shape_uniform(&rng, 0.1, 1))
                             : i % 4 == 1 ? shape_tetrahedron(1)
                             : i % 4 == 2 ? shape_cylinder(0.3, 1, 16)
                                          : shape_l_prism(1, 0.4);
        double pose[12], axes[3][3], least = 1;
        shape_pose_random(&rng, 1, pose);
        const ct_gaussian_image image = image_of(&shape, pose, &EVERYWHERE);
        for (int j = 0; j < 20000; j++) {
            double other[3][3];
            random_axes(&rng, other);
            least = fmin(least, posed_energy(&shape, pose, other));
        }
        const bool is_turned = ct_optimize_axes(&image, axes);
        const double found = posed_energy(&shape, pose, axes);
        assert_rotation(axes);
        if (is_turned)
            assert_true(found < CT_WORTH_TURNING * posed_energy(&shape, pose, WORLD) && found < least + 1e-6);
        else
            assert_true(least > CT_WORTH_TURNING * posed_energy(&shape, pose, WORLD) - 1e-6 &&
                        memcmp(axes, WORLD, sizeof axes) == 0);
        shape_free(&shape);
    }
}

/* All faces of a cube along the axes count fully; a third of 11/9 is the least of a cube, with axes of 2/3, 2/3, -1/3.
 */
static void test_cube(void **state) {
    (void)state;
    struct shape cube = shape_cube(1, 2);
    const ct_gaussian_image image = image_of(&cube, NULL, &EVERYWHERE);
    double axes[3][3];
    assert_float_equal(brute_energy(&cube, WORLD), 1, 1e-12);
    assert_true(ct_optimize_axes(&image, axes));
    assert_float_equal(brute_energy(&cube, axes), 11.0 / 27, 1e-9);
    shape_free(&cube);
}

/* A ball looks the same from everywhere, and where there is no face there is nothing to gain. */
static void test_nothing_to_gain(void **state) {
    (void)state;
    struct shape ball = shape_icosphere(1, 3);
    const ct_box beside = {{2, 2, 2}, {3, 3, 3}};
    double axes[3][3];
    ct_gaussian_image image = image_of(&ball, NULL, &EVERYWHERE);
    assert_false(ct_optimize_axes(&image, axes));
    assert_memory_equal(axes, WORLD, sizeof axes);
    image = image_of(&ball, NULL, &beside);
    assert_false(ct_optimize_axes(&image, axes));
    shape_free(&ball);
}

/* No order of triangles or corners changes a bit; faces beside the box do not count. */
static void test_order(void **state) {
    (void)state;
    uint64_t rng = 8;
    struct shape shape = shape_blob(1, 3, 0.4, 5), mixed = shape_copy(&shape);
    shape_shuffle(&mixed, &rng);
    double pose[12];
    shape_pose_random(&rng, 1, pose);
    const ct_box half = {{-1, -1, -1}, {0.5, 0.2, 1}};
    const ct_gaussian_image a = image_of(&shape, pose, &half), b = image_of(&mixed, pose, &half);
    const ct_gaussian_image whole = image_of(&shape, pose, &EVERYWHERE);
    assert_memory_equal(a.moment, b.moment, sizeof a.moment);
    assert_true(a.moment[0] < whole.moment[0] && a.moment[0] > 0);
    shape_free(&shape);
    shape_free(&mixed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_minimum),
        cmocka_unit_test(test_cube),
        cmocka_unit_test(test_nothing_to_gain),
        cmocka_unit_test(test_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

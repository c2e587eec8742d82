/* test_sampling.c - the sampled volume, 6-vector and per-vertex gradient of random bodies in random poses against their
 * exact values: a mesh cut by a face, an edge or a corner of a large turned box (clip.h gives those in closed form).
 *
 * The error of a sampled volume: along each row of samples the midpoint rule's error is at most half a pitch times the
 * row's total variation of depth. So that of view w, with pitch p along u and q along v, is at most
 * (p F_u + q F_v) / 2, where F_u is the area of the intersection's surface projected along u. That bound is rigorous
 * and always checked. It is reached only if all errors have the same sign; they are independent from ray to ray, so the
 * root mean square over many poses is checked against a fraction of the bound that falls with the resolution.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/consistency/engine.h"
#include "tests/scenes/clip.h"

enum { POSES = 12 };
static const double big = 16; /* side of the box whose corner cuts */

struct errors {
    double volume, force, torque, vertex; /* relative, root mean square */
};

/* One pose. `planes` of the box's faces can reach the mesh, which is about 1 m in radius. */
static void compare(const struct shape *shape, const struct shape *box, int planes, uint32_t n, uint64_t *rng,
                    struct errors *sum) {
    double pose[12], box_pose[12];
    struct corner corner = {.n = planes};
    shape_pose_random(rng, 2, pose);
    shape_pose_random(rng, 0, box_pose);
    /* A point on the box's face, edge or corner is put near the mesh's centre. */
    double local[3], offset[3];
    for (int k = 0; k < 3; k++) {
        local[k] = k < planes ? big / 2 : shape_uniform(rng, -2, 2);
        offset[k] = shape_uniform(rng, -0.35, 0.35);
    }
    for (int k = 0; k < 3; k++) {
        double turned = 0;
        for (int j = 0; j < 3; j++) turned += box_pose[4 * k + j] * local[j];
        corner.apex[k] = pose[4 * k + 3] + offset[k];
        box_pose[4 * k + 3] = corner.apex[k] - turned;
        for (int i = 0; i < planes; i++) corner.normal[i][k] = box_pose[4 * k + i];
    }
    const double about[3] = {pose[3], pose[7], pose[11]};
    struct clipped exact = clip(shape, pose, &corner, about);

    ct_scene_settings settings = stage_resolution(n);
    const struct placed bodies[2] = {{shape, pose, 0}, {box, box_pose, 0}};
    ct_result *result = stage_once(engine, &settings, bodies, 2, CT_WANT_ALL);
    if (exact.volume < 0.02) { /* hardly anything to measure */
        ct_result_free(&result);
        free(exact.gradient);
        compare(shape, box, planes, n, rng, sum);
        return;
    }
    assert_int_equal(result->n_contacts, 1);
    const ct_contact *c = result->contacts;

    double size = 2.8 / n; /* no window is wider: the widest mesh's box */
    for (int w = 0; w < 3; w++) {
        /* The mesh's part of the intersection's surface is known. The box's part lies in up to three orthogonal planes
         * and in each is no larger than the mesh's cross-section, pi 1.4^2: projected, 11 m^2 at most. */
        double bound = size * (exact.flat[(w + 1) % 3] + exact.flat[(w + 2) % 3] + 11) / 2;
        assert_float_equal(c->volumes[w], exact.volume, bound);
    }
    double e = c->volume / exact.volume - 1, force = 0, torque = 0, vertex = 0, scale = 0;
    sum->volume += e * e;
    for (int k = 0; k < 3; k++) {
        double f = c->generalized_gradient[0][k] - exact.wrench[k],
               t = c->generalized_gradient[0][3 + k] - exact.wrench[3 + k];
        force += f * f / (exact.area * exact.area);
        torque += t * t / (exact.area * exact.area);
    }
    sum->force += force;
    sum->torque += torque;
    double *dense = calloc(3 * (size_t)shape->n_vertices, sizeof *dense);
    assert_non_null(dense);
    for (uint64_t i = c->first[0]; i < c->first[0] + c->count[0]; i++)
        memcpy(dense + 3 * (size_t)result->vertices[i], result->gradient + 3 * i, 3 * sizeof *dense);
    for (size_t i = 0; i < 3 * (size_t)shape->n_vertices; i++) {
        vertex += (dense[i] - exact.gradient[i]) * (dense[i] - exact.gradient[i]);
        scale += exact.gradient[i] * exact.gradient[i];
    }
    sum->vertex += vertex / scale;
    free(dense);
    free(exact.gradient);
    ct_result_free(&result);
}

static struct errors measure(const struct shape *shape, int planes, uint32_t n, uint64_t seed) {
    struct shape box = shape_box(big, big, big);
    struct errors e = {0, 0, 0, 0};
    for (int i = 0; i < POSES; i++) compare(shape, &box, planes, n, &seed, &e);
    shape_free(&box);
    e.volume = sqrt(e.volume / POSES), e.force = sqrt(e.force / POSES);
    e.torque = sqrt(e.torque / POSES), e.vertex = sqrt(e.vertex / POSES);
    print_message(
        "%6u triangles, %d plane%s, %3u^2: rms error of volume %.1e, force %.1e, torque %.1e, vertices %.1e\n",
        shape->n_triangles, planes, planes > 1 ? "s" : " ", n, e.volume, e.force, e.torque, e.vertex);
    return e;
}

static void check(struct shape shape) {
    for (int planes = 1; planes <= 3; planes++) {
        struct errors coarse = measure(&shape, planes, 32, 7), fine = measure(&shape, planes, 256, 7);
        assert_true(coarse.volume < 8e-3 && fine.volume < 6e-5);
        assert_true(coarse.force < 2.5e-2 && fine.force < 1e-3);
        assert_true(coarse.torque < 2e-2 && fine.torque < 8e-4);
        assert_true(fine.vertex < 1.5e-2); /* at 32 samples a vertex's whole fan may fall between two rays */
        assert_true(fine.volume < coarse.volume / 32 && fine.force < coarse.force / 8 &&
                    fine.vertex < coarse.vertex / 8);
    }
    shape_free(&shape);
}

static void test_icosphere(void **state) {
    (void)state;
    check(shape_icosphere(1, 3));
}

static void test_blob(void **state) {
    (void)state;
    check(shape_blob(1, 4, 0.4, 3));
}

static void test_torus(void **state) {
    (void)state;
    check(shape_torus(0.8, 0.3, 48, 24));
}

static void test_few_large_triangles(void **state) {
    (void)state;
    check(shape_l_prism(1.6, 1));
    check(shape_cube(1.4, 1));
    struct shape tetrahedron = shape_tetrahedron(1.6);
    shape_translate(&tetrahedron, -0.4, -0.4, -0.4);
    check(tetrahedron);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_icosphere),
        cmocka_unit_test(test_blob),
        cmocka_unit_test(test_torus),
        cmocka_unit_test(test_few_large_triangles),
    };
    return cmocka_run_group_tests_name("sampling", tests, setup, teardown);
}

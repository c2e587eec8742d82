/* test_derivative.c - the gradient is the derivative of the volume: central differences of the volume itself, for
 * single vertices and for whole rigid bodies.
 *
 * On a world-anchored lattice the rays stay where they are. Moving a vertex along w slides the end points of view w's
 * spans linearly and exactly, so there the difference of V_w must be the gradient's component w to the arithmetic's
 * precision, as long as no span is born or dies: those add terms of second order in the step.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/consistency/engine.h"

static double view_volume(const ct_result *result, int w) {
    return result->n_contacts ? result->contacts->volumes[w] : 0;
}

/* V_w with vertex v of the body moved along w. */
static double moved_vertex(struct stage *stage, uint32_t body, const double *position, uint32_t v, int w, double by) {
    double p[3] = {position[0], position[1], position[2]};
    p[w] += by;
    ct_update update = {.body = body,
                        .kind = CT_UPDATE_INDEXED,
                        .positions = p,
                        .dtype = CT_F64,
                        .count = 1,
                        .indices = &v,
                        .n_indices = 1};
    ct_result *result = stage_step(stage, &update, 1, 0);
    double volume = view_volume(result, w);
    ct_result_free(&result);
    return volume;
}

static void check_vertices(const struct shape *a, const struct shape *b, uint64_t *rng, int rounds) {
    double worst = 0, largest = 0;
    for (int round = 0; round < rounds; round++) {
        double pose[2][12];
        shape_pose_random(rng, 0.3, pose[0]);
        shape_pose_random(rng, 0.3, pose[1]);
        struct shape placed[2] = {shape_copy(a), shape_copy(b)};
        for (int i = 0; i < 2; i++) shape_transform(&placed[i], pose[i]);
        ct_scene_settings settings = stage_pixel(0.04);
        struct stage stage = stage_open(
            engine, &settings,
            (struct placed[]){{&placed[0], NULL, CT_BODY_DEFORMABLE}, {&placed[1], NULL, CT_BODY_DEFORMABLE}}, 2);
        ct_result *result = stage_step(&stage, NULL, 0, CT_WANT_GRADIENT);
        assert_int_equal(result->n_contacts, 1);
        const ct_contact *c = result->contacts;
        for (int side = 0; side < 2; side++)
            for (int i = 0; i < 12 && c->count[side]; i++) {
                uint64_t e = c->first[side] + shape_random(rng) % c->count[side];
                uint32_t v = result->vertices[e];
                const float *f = placed[side].positions + 3 * (size_t)v;
                const double p[3] = {(double)f[0], (double)f[1], (double)f[2]};
                for (int w = 0; w < 3; w++) {
                    const double step = 0x1p-13;
                    double up = moved_vertex(&stage, stage.body[side], p, v, w, step);
                    double down = moved_vertex(&stage, stage.body[side], p, v, w, -step);
                    moved_vertex(&stage, stage.body[side], p, v, w, 0);
                    double slope = (up - down) / (2 * step), g = result->gradient[3 * e + (uint64_t)w];
                    /* A span that is born or dies within the step contributes at most its length over 2 step, on one
                     * ray: an area of 0.0016 m^2. Depths are rounded to 2^-27 of 3 m or so on some 20 rays. */
                    assert_float_equal(slope, g, 0.0016 / 2 + 2e-5);
                    worst += fabs(slope - g);
                    largest += fabs(g);
                }
            }
        ct_result_free(&result);
        stage_close(&stage);
        shape_free(&placed[0]);
        shape_free(&placed[1]);
    }
    print_message("vertices: mean |difference| / mean |gradient| = %.2e\n", worst / largest);
    assert_true(worst / largest < 2e-3);
}

static void test_vertices(void **state) {
    (void)state;
    uint64_t rng = 31;
    struct shape blob = shape_blob(1, 2, 0.4, 1), torus = shape_torus(0.7, 0.35, 20, 14), cube = shape_cube(1.3, 2);
    check_vertices(&blob, &torus, &rng, 4);
    check_vertices(&torus, &cube, &rng, 4);
    check_vertices(&blob, &blob, &rng, 4);
    shape_free(&blob), shape_free(&torus), shape_free(&cube);
}

/* V with body i's pose displaced by a small motion: along axis k (k < 3), or about axis k - 3 through its origin. */
static double moved_body(const struct placed bodies[2], const ct_scene_settings *settings, int i, int k, double by,
                         int view) {
    double pose[12], turned[12];
    memcpy(pose, bodies[i].pose, sizeof pose);
    if (k < 3) {
        pose[4 * k + 3] += by;
    } else {
        double axis[3] = {0, 0, 0}, none[3] = {0, 0, 0}, turn[12];
        axis[k - 3] = 1;
        shape_pose_axis(axis, by / 6.283185307179586, none, turn);
        for (int r = 0; r < 3; r++)
            for (int c = 0; c < 3; c++) {
                turned[4 * r + c] = 0;
                for (int m = 0; m < 3; m++) turned[4 * r + c] += turn[4 * r + m] * pose[4 * m + c];
            }
        for (int r = 0; r < 3; r++)
            for (int c = 0; c < 3; c++) pose[4 * r + c] = turned[4 * r + c];
    }
    struct placed moved[2] = {bodies[0], bodies[1]};
    moved[i].pose = pose;
    ct_result *result = stage_once(engine, settings, moved, 2, 0);
    double volume = view < 0 ? result->n_contacts ? result->contacts->volume : 0 : view_volume(result, view);
    ct_result_free(&result);
    return volume;
}

/* Six-vectors. Translations: V_w along w, exact but for spans that are born or die. Rotations move points across rays
 * too, so the mean volume's slope is only as good as the sampling: fine lattices and a step of some pitches. */
static void test_rigid_bodies(void **state) {
    (void)state;
    uint64_t rng = 12;
    struct shape blob = shape_blob(1, 4, 0.4, 1), torus = shape_torus(0.7, 0.35, 60, 30),
                 bolt = shape_bolt(0.8, 0.15, 0.4, 4, 40, 16);
    const struct shape *pairs[3][2] = {{&blob, &torus}, {&bolt, &blob}, {&torus, &bolt}};
    double translation = 0, rotation = 0, scale[2] = {0, 0};
    for (int round = 0; round < 6; round++) {
        double pose[2][12];
        shape_pose_random(&rng, 0.5, pose[0]);
        shape_pose_random(&rng, 0.5, pose[1]);
        const struct placed bodies[2] = {{pairs[round % 3][0], pose[0], 0}, {pairs[round % 3][1], pose[1], 0}};
        ct_scene_settings coarse = stage_pixel(0.03), fine = stage_pixel(0.008);
        ct_result *result = stage_once(engine, &coarse, bodies, 2, CT_WANT_FRAME);
        ct_result *sharp = stage_once(engine, &fine, bodies, 2, CT_WANT_FRAME);
        assert_int_equal(result->n_contacts, 1);
        for (int i = 0; i < 2; i++)
            for (int k = 0; k < 6; k++) {
                double step = k < 3 ? 1e-4 : 0.01;
                const ct_scene_settings *settings = k < 3 ? &coarse : &fine;
                double g = (k < 3 ? result : sharp)->contacts->generalized_gradient[i][k];
                double slope = (moved_body(bodies, settings, i, k, step, k < 3 ? k : -1) -
                                moved_body(bodies, settings, i, k, -step, k < 3 ? k : -1)) /
                               (2 * step);
                assert_float_equal(slope, g, k < 3 ? 5e-3 : 2e-2);
                *(k < 3 ? &translation : &rotation) += (slope - g) * (slope - g);
                scale[k >= 3] += g * g;
            }
        ct_result_free(&result);
        ct_result_free(&sharp);
    }
    print_message("rigid: rms difference / rms gradient = %.2e translating, %.2e rotating\n",
                  sqrt(translation / scale[0]), sqrt(rotation / scale[1]));
    assert_true(sqrt(translation / scale[0]) < 2e-3);
    assert_true(sqrt(rotation / scale[1]) < 3e-2);
    shape_free(&blob), shape_free(&torus), shape_free(&bolt);
}

/* The rotation part is about the body's own origin: the moment of the force about the mesh's origin where it is now. */
static void test_moment_is_about_the_origin(void **state) {
    (void)state;
    struct shape plate = shape_box(1, 1, 1), pin = shape_box(0.5, 0.5, 2);
    double low[12], high[12];
    shape_pose_identity(low);
    shape_pose_identity(high);
    low[3] = 10, low[7] = 20, low[11] = 30;           /* the plate's origin */
    high[3] = 10.125, high[7] = 20, high[11] = 31.25; /* the pin comes in at its top, off the centre by 1/8 along x */
    ct_scene_settings settings = stage_pixel(0.0625);
    ct_result *result =
        stage_once(engine, &settings, (struct placed[]){{&plate, low, 0}, {&pin, high, 0}}, 2, CT_WANT_FRAME);
    assert_int_equal(result->n_contacts, 1);
    const ct_contact *c = result->contacts;
    assert_true(c->volume == 0.0625); /* 0.5 x 0.5 x 0.25 */
    /* The plate's face lifts at (0.125, 0, 0.5) from its origin with 0.25 m^2 along z: moment (0, -0.125 * 0.25, 0). */
    const double on_plate[6] = {0, 0, 0.25, 0, -0.03125, 0}, on_pin[6] = {0, 0, -0.25, 0, 0, 0};
    for (int k = 0; k < 6; k++) {
        assert_float_equal(c->generalized_gradient[0][k], on_plate[k], 1e-8);
        assert_float_equal(c->generalized_gradient[1][k], on_pin[k], 1e-8);
    }
    const double center[3] = {10.125, 20, 30.375}; /* between the pin's bottom and the plate's top */
    for (int k = 0; k < 3; k++) assert_float_equal(c->center[k], center[k], 1e-7);
    ct_result_free(&result);
    shape_free(&plate), shape_free(&pin);
}

/* Forces are -k V dV/dx, the stiffness product -k g (g . d). */
static void test_forces(void **state) {
    (void)state;
    struct shape a = shape_blob(1, 3, 0.4, 1), b = shape_torus(0.7, 0.35, 30, 20);
    ct_scene_settings settings = stage_resolution(48);
    settings.stiffness = 1250;
    ct_result *r =
        stage_once(engine, &settings, (struct placed[]){{&a, NULL, CT_BODY_DEFORMABLE}, {&b, NULL, CT_BODY_DEFORMABLE}},
                   2, CT_WANT_ALL);
    assert_int_equal(r->n_contacts, 1);
    const ct_contact *c = r->contacts;
    double *in[2], *out[2], along = 0;
    const uint32_t n[2] = {a.n_vertices, b.n_vertices};
    uint64_t rng = 3;
    for (int i = 0; i < 2; i++) {
        in[i] = calloc(3 * (size_t)n[i], sizeof **in), out[i] = calloc(3 * (size_t)n[i], sizeof **out);
        assert_non_null(in[i]);
        assert_non_null(out[i]);
        for (uint32_t k = 0; k < 3 * n[i]; k++) in[i][k] = shape_uniform(&rng, -1, 1);
        for (uint64_t e = c->first[i]; e < c->first[i] + c->count[i]; e++) {
            if (e > c->first[i]) assert_true(r->vertices[e] > r->vertices[e - 1]);
            double size = 0;
            for (int k = 0; k < 3; k++) {
                double g = r->gradient[3 * e + (uint64_t)k];
                size += fabs(g);
                along += g * in[i][3 * r->vertices[e] + (uint32_t)k];
                assert_float_equal(r->forces[3 * e + (uint64_t)k], -1250 * c->volume * g, 1e-12 * 1250);
            }
            assert_true(size > 0); /* sparse: only where there is something */
            double weight = 0;
            for (int k = 0; k < 3; k++) weight += c->normal[k] * r->gradient[3 * e + (uint64_t)k];
            assert_float_equal(r->weights[e], weight, 1e-14);
        }
    }
    ct_contact_stiffness_product(r, 0, 1250, (const double *const *)in, out);
    double *only = calloc(3 * (size_t)n[0], sizeof *only); /* of the first body alone, as each moves alone */
    assert_non_null(only);
    for (int i = 0; i < 2; i++)
        ct_contact_stiffness_product(r, 0, 1250, (const double *[2]){i ? NULL : in[0], i ? in[1] : NULL},
                                     (double *[2]){only, NULL});
    for (uint32_t k = 0; k < 3 * n[0]; k++) assert_float_equal(only[k], out[0][k], 1e-9);
    free(only);
    for (int i = 0; i < 2; i++) {
        for (uint64_t e = c->first[i]; e < c->first[i] + c->count[i]; e++)
            for (uint32_t k = 0; k < 3; k++)
                assert_float_equal(out[i][3 * r->vertices[e] + k], -1250 * along * r->gradient[3 * e + k], 1e-9);
        free(in[i]), free(out[i]);
    }
    /* area: the weights of one side; depth: volume over area; tangents: orthonormal with the normal. */
    double sum = 0;
    for (uint64_t e = c->first[1]; e < c->first[1] + c->count[1]; e++) sum += r->weights[e];
    assert_float_equal(c->area, sum, 1e-9);
    assert_float_equal(c->depth, c->volume / c->area, 1e-12);
    const double *frame[3] = {c->normal, c->tangents[0], c->tangents[1]};
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            double dot = 0;
            for (int k = 0; k < 3; k++) dot += frame[i][k] * frame[j][k];
            assert_float_equal(dot, i == j, 1e-12);
        }
    ct_result_free(&r);
    shape_free(&a), shape_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vertices),
        cmocka_unit_test(test_rigid_bodies),
        cmocka_unit_test(test_moment_is_about_the_origin),
        cmocka_unit_test(test_forces),
    };
    return cmocka_run_group_tests_name("derivatives", tests, setup, teardown);
}

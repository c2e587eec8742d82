/* test_invariance.c - a contact's bits do not depend on the order of triangles, vertices and bodies, on its batch, or
 * on the form of a body's pose; other changes that should not matter change them only by rounding. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/consistency/orders.h"

static const uint32_t everything = CT_WANT_ALL | CT_WANT_SPANS;

/* ---- orders ---- */

static void test_order_changes_nothing(void **state) {
    (void)state;
    uint64_t rng = 11;
    int contacts = 0;
    for (int round = 0; round < 40; round++) {
        struct shape a = random_shape(&rng, false), b = random_shape(&rng, false);
        double pose[2][12];
        const ct_scene_settings settings = round % 2 ? stage_resolution(40) : stage_pixel(0.0625);
        random_poses(&rng, round, pose);
        contacts +=
            compare_orders(&settings, &a, &b, pose, round % 3 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE, everything, &rng);
        shape_free(&a), shape_free(&b);
    }
    assert_true(contacts >= 35);
}

/* ---- batches ---- */

static const ct_scene_settings *settings_of_scene(int scene, ct_scene_settings *settings) {
    *settings = scene % 3 ? stage_resolution(8u << scene % 4) : stage_pixel(0.05);
    return settings;
}

static void test_batch_changes_nothing(void **state) {
    (void)state;
    compare_batches(settings_of_scene, false, everything);
}

/* A pair's contact is the same whatever else is in its scene, and a pair that is filtered out is the only one missing.
 */
static void test_neighbours_change_nothing(void **state) {
    (void)state;
    uint64_t rng = 5;
    enum { N = 6 };
    struct shape shapes[N];
    double poses[N][12];
    struct placed bodies[N];
    for (int i = 0; i < N; i++) {
        shapes[i] = random_shape(&rng, false);
        shape_pose_random(&rng, 0.7, poses[i]);
        bodies[i] = (struct placed){&shapes[i], poses[i], 0};
    }
    ct_scene_settings settings = stage_resolution(32);
    ct_result *all = stage_once(engine, &settings, bodies, N, everything);
    assert_true(all->n_contacts >= 8);
    for (size_t i = 0; i < all->n_contacts; i++) {
        const ct_contact *c = &all->contacts[i];
        if (i) assert_true(c[-1].body[0] < c->body[0] || (c[-1].body[0] == c->body[0] && c[-1].body[1] < c->body[1]));
        uint32_t a = c->body[0] - 1, b = c->body[1] - 1;
        ct_result *pair = stage_once(engine, &settings, (struct placed[]){bodies[a], bodies[b]}, 2, everything);
        assert_int_equal(pair->n_contacts, 1);
        const ct_contact *d = pair->contacts;
        assert_true(c->volume == d->volume && c->area == d->area);
        assert_memory_equal(c->generalized_gradient, d->generalized_gradient, sizeof c->generalized_gradient);
        assert_memory_equal(c->count, d->count, sizeof c->count);
        for (int side = 0; side < 2; side++) {
            assert_memory_equal(all->vertices + c->first[side], pair->vertices + d->first[side], 4 * c->count[side]);
            assert_memory_equal(all->gradient + 3 * c->first[side], pair->gradient + 3 * d->first[side],
                                24 * c->count[side]);
            assert_memory_equal(all->weights + c->first[side], pair->weights + d->first[side], 8 * c->count[side]);
            assert_memory_equal(all->forces + 3 * c->first[side], pair->forces + 3 * d->first[side],
                                24 * c->count[side]);
        }
        ct_result_free(&pair);
    }
    ct_result_free(&all);
    for (int i = 0; i < N; i++) shape_free(&shapes[i]);
}

/* ---- placements ---- */

static void test_rigid_and_deformable_agree(void **state) {
    (void)state;
    uint64_t rng = 8;
    struct shape a = shape_blob(1, 4, 0.4, 9), b = shape_torus(0.8, 0.3, 40, 20);
    ct_scene_settings settings = stage_resolution(64);
    char rigid[33], deformable[33];
    /* A shift that float32 holds exactly: the positions are the same numbers, so the answers are the same bits. */
    for (uint32_t i = 0; i < 3 * b.n_vertices; i++) b.positions[i] = floorf(b.positions[i] * 4096) / 4096;
    double pose[12];
    shape_pose_identity(pose);
    pose[3] = 0.5, pose[7] = -0.25, pose[11] = 0.125;
    ct_result *r =
        stage_once(engine, &settings, (struct placed[]){{&a, NULL, CT_BODY_RIGID}, {&b, pose, CT_BODY_RIGID}}, 2,
                   CT_WANT_GRADIENT | CT_WANT_SPANS);
    ct_result *d =
        stage_once(engine, &settings, (struct placed[]){{&a, NULL, CT_BODY_DEFORMABLE}, {&b, pose, CT_BODY_DEFORMABLE}},
                   2, CT_WANT_GRADIENT | CT_WANT_SPANS);
    assert_int_equal(r->n_contacts, 1);
    assert_int_equal(d->n_contacts, 1);
    /* but for 6-vectors, which are about the rigid body's own origin */
    memset(r->contacts->generalized_gradient, 0, sizeof r->contacts->generalized_gradient);
    memset(d->contacts->generalized_gradient, 0, sizeof d->contacts->generalized_gradient);
    stage_hash(r, rigid);
    stage_hash(d, deformable);
    assert_string_equal(rigid, deformable);
    ct_result_free(&r);
    ct_result_free(&d);
    /* Any pose: positions differ by float32's rounding, 2^-24 of 2 m, over a surface of less than 20 m^2. */
    for (int i = 0; i < 10; i++) {
        shape_pose_random(&rng, 0.4, pose);
        r = stage_once(engine, &settings, (struct placed[]){{&a, NULL, CT_BODY_RIGID}, {&b, pose, CT_BODY_RIGID}}, 2,
                       CT_WANT_FRAME);
        d = stage_once(engine, &settings,
                       (struct placed[]){{&a, NULL, CT_BODY_DEFORMABLE}, {&b, pose, CT_BODY_DEFORMABLE}}, 2,
                       CT_WANT_FRAME);
        assert_int_equal(r->n_contacts, 1);
        assert_int_equal(d->n_contacts, 1);
        assert_float_equal(r->contacts->volume, d->contacts->volume, 5e-6);
        /* 6-vectors: the rigid body's about its own origin, the deformable's about the world's. */
        const double *f = r->contacts->generalized_gradient[1], *g = d->contacts->generalized_gradient[1];
        for (int k = 0; k < 3; k++) {
            int i1 = (k + 1) % 3, i2 = (k + 2) % 3;
            double arm = pose[4 * i1 + 3] * f[i2] - pose[4 * i2 + 3] * f[i1];
            assert_float_equal(f[k], g[k], 2e-3);
            assert_float_equal(f[3 + k] + arm, g[3 + k], 2e-3);
        }
        ct_result_free(&r);
        ct_result_free(&d);
    }
    shape_free(&a), shape_free(&b);
}

/* Moving both bodies by whole pitches of the world's lattice moves the samples along: rounding alone is left. */
static void test_shift_by_pitches(void **state) {
    (void)state;
    uint64_t rng = 77;
    struct shape a = shape_blob(1, 3, 0.4, 9), b = shape_torus(0.8, 0.3, 30, 16);
    for (int i = 0; i < 10; i++) {
        double pose[2][12], moved[2][12], pitch = i % 2 ? 0.03125 : 0.03;
        ct_scene_settings settings = stage_pixel(pitch);
        for (int k = 0; k < 2; k++) shape_pose_random(&rng, 0.4, pose[k]);
        ct_result *here =
            stage_once(engine, &settings, (struct placed[]){{&a, pose[0], 0}, {&b, pose[1], 0}}, 2, CT_WANT_FRAME);
        memcpy(moved, pose, sizeof pose);
        for (int k = 0; k < 3; k++) {
            double by = pitch * floor(shape_uniform(&rng, -1e5, 1e5));
            moved[0][4 * k + 3] += by, moved[1][4 * k + 3] += by;
        }
        ct_result *there =
            stage_once(engine, &settings, (struct placed[]){{&a, moved[0], 0}, {&b, moved[1], 0}}, 2, CT_WANT_FRAME);
        assert_int_equal(here->n_contacts, 1);
        assert_int_equal(there->n_contacts, 1);
        assert_int_equal(here->rays, there->rays);
        const ct_contact *c = here->contacts, *d = there->contacts;
        assert_float_equal(c->volume, d->volume, 1e-6 * c->volume);
        for (int k = 0; k < 3; k++)
            assert_float_equal(c->generalized_gradient[0][k], d->generalized_gradient[0][k], 1e-5);
        for (int k = 3; k < 6; k++)
            assert_float_equal(c->generalized_gradient[0][k], d->generalized_gradient[0][k], 1e-5);
        ct_result_free(&here);
        ct_result_free(&there);
    }
    shape_free(&a), shape_free(&b);
}

/* A window that follows the bodies moves with them anywhere: even a million metres out a contact keeps its digits. */
static void test_far_away(void **state) {
    (void)state;
    uint64_t rng = 78;
    struct shape a = shape_blob(1, 3, 0.4, 9), b = shape_torus(0.8, 0.3, 30, 16);
    ct_scene_settings settings = stage_resolution(50);
    for (int i = 0; i < 10; i++) {
        double pose[2][12], moved[2][12];
        for (int k = 0; k < 2; k++) shape_pose_random(&rng, 0.4, pose[k]);
        memcpy(moved, pose, sizeof pose);
        for (int k = 0; k < 3; k++) {
            double by = shape_uniform(&rng, -1e6, 1e6);
            moved[0][4 * k + 3] += by, moved[1][4 * k + 3] += by;
        }
        ct_result *here =
            stage_once(engine, &settings, (struct placed[]){{&a, pose[0], 0}, {&b, pose[1], 0}}, 2, CT_WANT_FRAME);
        ct_result *there =
            stage_once(engine, &settings, (struct placed[]){{&a, moved[0], 0}, {&b, moved[1], 0}}, 2, CT_WANT_FRAME);
        assert_int_equal(there->n_contacts, 1);
        const ct_contact *c = here->contacts, *d = there->contacts;
        assert_float_equal(c->volume, d->volume, 1e-6 * c->volume);
        for (int k = 0; k < 6; k++)
            assert_float_equal(c->generalized_gradient[0][k], d->generalized_gradient[0][k], 1e-5);
        ct_result_free(&here);
        ct_result_free(&there);
    }
    shape_free(&a), shape_free(&b);
}

static void scale(struct shape *shape, int power) {
    for (size_t i = 0; i < 3 * (size_t)shape->n_vertices; i++) shape->positions[i] = ldexpf(shape->positions[i], power);
}

/* From micrometres to thousands of kilometres: a power of two scales every number of the answer by its power, exactly.
 */
static void test_scale(void **state) {
    (void)state;
    uint64_t rng = 79;
    static const int powers[] = {-20, -9, 3, 20};
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 4; j++) {
            int power = powers[j];
            struct shape a = shape_torus(1, 0.4, 32, 16), b = shape_blob(0.8, 3, 0.3, 5);
            ct_scene_settings settings = i % 2 ? stage_pixel(0.03125) : stage_resolution(50);
            double pose[2][12];
            for (int k = 0; k < 2; k++) shape_pose_random(&rng, 0.4, pose[k]);
            ct_result *r =
                stage_once(engine, &settings, (struct placed[]){{&a, pose[0], 0}, {&b, pose[1], 0}}, 2, everything);
            scale(&a, power), scale(&b, power);
            settings.pixel_size = ldexp(settings.pixel_size, power);
            for (int k = 0; k < 3; k++)
                for (int body = 0; body < 2; body++) pose[body][4 * k + 3] = ldexp(pose[body][4 * k + 3], power);
            ct_result *q =
                stage_once(engine, &settings, (struct placed[]){{&a, pose[0], 0}, {&b, pose[1], 0}}, 2, everything);
            assert_int_equal(r->n_contacts, 1);
            assert_int_equal(q->n_contacts, 1);
            const ct_contact *c = r->contacts, *d = q->contacts;
            assert_true(d->volume == ldexp(c->volume, 3 * power));
            assert_true(d->error_estimate == ldexp(c->error_estimate, 3 * power));
            assert_true(d->area == ldexp(c->area, 2 * power) && d->depth == ldexp(c->depth, power));
            for (int k = 0; k < 3; k++) {
                assert_true(d->volumes[k] == ldexp(c->volumes[k], 3 * power));
                assert_true(d->normal[k] == c->normal[k] && d->center[k] == ldexp(c->center[k], power));
            }
            assert_int_equal(r->n_spans, q->n_spans);
            for (int side = 0; side < 2; side++) {
                assert_int_equal(c->count[side], d->count[side]);
                for (uint64_t e = c->first[side]; e < c->first[side] + c->count[side]; e++) {
                    assert_int_equal(r->vertices[e], q->vertices[e]);
                    assert_true(q->weights[e] == ldexp(r->weights[e], 2 * power));
                    for (int k = 0; k < 3; k++)
                        assert_true(q->gradient[3 * e + k] == ldexp(r->gradient[3 * e + k], 2 * power));
                }
            }
            ct_result_free(&r);
            ct_result_free(&q);
            shape_free(&a), shape_free(&b);
        }
}

/* No axis is treated otherwise than the others: x, y and z renamed y, z and x rename the answer, bit for bit. */
static void test_axes_are_equal(void **state) {
    (void)state;
    uint64_t rng = 80;
    struct shape a = shape_torus(1, 0.4, 32, 16), b = shape_blob(0.8, 3, 0.3, 5);
    for (int i = 0; i < 10; i++) {
        ct_scene_settings settings = i % 2 ? stage_pixel(0.03) : stage_resolution(50);
        double pose[2][12], turned[2][12];
        for (int k = 0; k < 2; k++) {
            shape_pose_random(&rng, 0.4, pose[k]);
            for (int row = 0; row < 3; row++)
                memcpy(turned[k] + 4 * ((row + 1) % 3), pose[k] + 4 * row, 4 * sizeof(double));
        }
        ct_result *r =
            stage_once(engine, &settings, (struct placed[]){{&a, pose[0], 0}, {&b, pose[1], 0}}, 2, everything);
        ct_result *q =
            stage_once(engine, &settings, (struct placed[]){{&a, turned[0], 0}, {&b, turned[1], 0}}, 2, everything);
        assert_int_equal(r->n_contacts, 1);
        assert_int_equal(q->n_contacts, 1);
        assert_int_equal(r->n_spans, q->n_spans);
        const ct_contact *c = r->contacts, *d = q->contacts;
        assert_float_equal(c->volume, d->volume, 1e-15 * c->volume); /* the mean adds its three in another order */
        for (int k = 0; k < 3; k++) assert_true(d->volumes[(k + 1) % 3] == c->volumes[k]);
        for (int side = 0; side < 2; side++) {
            assert_int_equal(c->count[side], d->count[side]);
            for (int k = 0; k < 3; k++)
                assert_true(d->generalized_gradient[side][(k + 1) % 3] == c->generalized_gradient[side][k]);
            for (uint64_t e = c->first[side]; e < c->first[side] + c->count[side]; e++) {
                assert_int_equal(r->vertices[e], q->vertices[e]);
                for (int k = 0; k < 3; k++) assert_true(q->gradient[3 * e + (k + 1) % 3] == r->gradient[3 * e + k]);
            }
        }
        ct_result_free(&r);
        ct_result_free(&q);
    }
    shape_free(&a), shape_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_changes_nothing),
        cmocka_unit_test(test_batch_changes_nothing),
        cmocka_unit_test(test_neighbours_change_nothing),
        cmocka_unit_test(test_rigid_and_deformable_agree),
        cmocka_unit_test(test_shift_by_pitches),
        cmocka_unit_test(test_far_away),
        cmocka_unit_test(test_scale),
        cmocka_unit_test(test_axes_are_equal),
    };
    return cmocka_run_group_tests_name("invariance", tests, setup, teardown);
}

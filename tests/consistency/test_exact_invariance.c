/* test_exact_invariance.c - the method `exact` gives the same bits whatever the order of triangles, vertices and
 * bodies, the number of threads, the instruction set, the batch and the form of a body's pose; powers of two scale
 * them, and other changes that should not matter change them within the bound. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/consistency/orders.h"

static const uint32_t everything = CT_WANT_ALL;

/* ---- orders ---- */

static void test_order_changes_nothing(void **state) {
    (void)state;
    uint64_t rng = 11;
    const ct_scene_settings settings = stage_exact();
    int contacts = 0;
    for (int round = 0; round < 48; round++) {
        struct shape a = random_shape(&rng, round % 6 == 5), b = random_shape(&rng, round % 12 == 5);
        double pose[2][12];
        random_poses(&rng, round, pose);
        contacts +=
            compare_orders(&settings, &a, &b, pose, round % 3 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE, everything, &rng);
        shape_free(&a), shape_free(&b);
    }
    assert_true(contacts >= 40);
}

/* ---- machines ---- */

/* All that stage_hash takes, and the bound. */
static void hash_of(const ct_result *result, char hex[60]) {
    stage_hash(result, hex);
    snprintf(hex + 32, 28, " %a", result->n_contacts ? result->contacts->error_bound : 0.0);
}

static void test_threads_and_instruction_sets(void **state) {
    (void)state;
    static const uint32_t threads[] = {1, 2, 7};
    const ct_scene_settings settings = stage_exact();
    ct_engine_facts facts;
    ct_engine_get_facts(engine, 0, &facts);
    char expected[24][60], hash[60];
    int n_engines = 0;
    for (char *at = facts.simd_available, *name; (name = strtok_r(at, " ", &at));)
        for (int t = 0; t < 3; t++) {
            ct_engine *other = stage_engine(threads[t], name);
            uint64_t rng = 21;
            for (int round = 0; round < 24; round++) {
                struct shape a = random_shape(&rng, round % 3 == 0), b = random_shape(&rng, round % 4 < 2);
                double pose[2][12];
                random_poses(&rng, round, pose);
                const ct_body_kind kind = round % 2 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE;
                ct_result *result = stage_once(other, &settings,
                                               (struct placed[]){{&a, pose[0], kind}, {&b, pose[1], 0}}, 2, everything);
                hash_of(result, n_engines ? hash : expected[round]);
                if (n_engines) assert_string_equal(hash, expected[round]);
                ct_result_free(&result);
                shape_free(&a), shape_free(&b);
            }
            ct_engine_destroy(&other);
            n_engines++;
        }
    assert_true(n_engines >= 3);
}

/* ---- batches ---- */

static const ct_scene_settings *settings_of_scene(int scene, ct_scene_settings *settings) {
    *settings = scene % 4 == 3 ? stage_resolution(16) : stage_exact();
    return settings;
}

static void test_batch_changes_nothing(void **state) {
    (void)state;
    compare_batches(settings_of_scene, true, everything);
}

/* What is asked for changes nothing in the rest of the answer. */
static void test_wants_change_nothing(void **state) {
    (void)state;
    const ct_scene_settings settings = stage_exact();
    struct shape a = shape_blob(1, 3, 0.4, 9), b = shape_torus(0.8, 0.3, 30, 16);
    const struct placed bodies[] = {{&a, NULL, CT_BODY_DEFORMABLE}, {&b, NULL, CT_BODY_RIGID}};
    ct_result *all = stage_once(engine, &settings, bodies, 2, everything);
    static const uint32_t wants[] = {0, CT_WANT_FRAME, CT_WANT_GRADIENT, CT_WANT_FRICTION, CT_WANT_FORCES};
    for (int i = 0; i < 5; i++) {
        ct_result *some = stage_once(engine, &settings, bodies, 2, wants[i]);
        assert_int_equal(some->n_contacts, 1);
        assert_true(some->contacts->volume == all->contacts->volume);
        assert_true(some->contacts->error_bound == all->contacts->error_bound);
        assert_int_equal(some->contacts->max_winding, all->contacts->max_winding);
        if (wants[i]) {
            assert_memory_equal(some->contacts->center, all->contacts->center, sizeof all->contacts->center);
            assert_memory_equal(some->contacts->generalized_gradient, all->contacts->generalized_gradient,
                                sizeof all->contacts->generalized_gradient);
        }
        if (some->gradient) assert_memory_equal(some->gradient, all->gradient, 24 * all->n_entries);
        if (some->weights) assert_memory_equal(some->weights, all->weights, 8 * all->n_entries);
        if (some->forces) assert_memory_equal(some->forces, all->forces, 24 * all->n_entries);
        ct_result_free(&some);
    }
    ct_result_free(&all);
    shape_free(&a), shape_free(&b);
}

/* ---- placements ---- */

/* A shift that float32 holds exactly: the positions are the same numbers, so the answers are the same bits. */
static void test_rigid_and_deformable_agree(void **state) {
    (void)state;
    const ct_scene_settings settings = stage_exact();
    for (int i = 0; i < 4; i++) {
        struct shape a = shape_blob(1, i % 2 ? 5 : 3, 0.4, 9), b = shape_torus(0.8, 0.3, 40, 20);
        for (uint32_t k = 0; k < 3 * b.n_vertices; k++) b.positions[k] = floorf(b.positions[k] * 4096) / 4096;
        double pose[12];
        shape_pose_identity(pose);
        pose[3] = 0.5, pose[7] = -0.25, pose[11] = 0.125 * i;
        char rigid[60], deformable[60];
        ct_result *r =
            stage_once(engine, &settings, (struct placed[]){{&a, NULL, CT_BODY_RIGID}, {&b, pose, CT_BODY_RIGID}}, 2,
                       CT_WANT_GRADIENT);
        ct_result *d = stage_once(engine, &settings,
                                  (struct placed[]){{&a, NULL, CT_BODY_DEFORMABLE}, {&b, pose, CT_BODY_DEFORMABLE}}, 2,
                                  CT_WANT_GRADIENT);
        assert_int_equal(r->n_contacts, 1);
        assert_int_equal(d->n_contacts, 1);
        /* but for 6-vectors, which are about the rigid body's own origin, and the bound, which covers a rigid pose's
         * rounding */
        memset(r->contacts->generalized_gradient, 0, sizeof r->contacts->generalized_gradient);
        memset(d->contacts->generalized_gradient, 0, sizeof d->contacts->generalized_gradient);
        assert_true(r->contacts->error_bound >= d->contacts->error_bound);
        r->contacts->error_estimate = d->contacts->error_estimate = 0;
        stage_hash(r, rigid);
        stage_hash(d, deformable);
        assert_string_equal(rigid, deformable);
        ct_result_free(&r);
        ct_result_free(&d);
        shape_free(&a), shape_free(&b);
    }
}

/* Moved together by a translation that changes all roundings: within both bounds, and those of the poses. */
static void test_translations(void **state) {
    (void)state;
    uint64_t rng = 31;
    const ct_scene_settings settings = stage_exact();
    for (int i = 0; i < 40; i++) {
        struct shape a = random_shape(&rng, i % 4 == 0), b = random_shape(&rng, false);
        double pose[2][12], moved[2][12];
        random_poses(&rng, i, pose);
        memcpy(moved, pose, sizeof pose);
        for (int k = 0; k < 3; k++) {
            const double by = shape_uniform(&rng, -1e3, 1e3);
            for (int body = 0; body < 2; body++) moved[body][4 * k + 3] += by;
        }
        ct_result *here =
            stage_once(engine, &settings, (struct placed[]){{&a, pose[0], 0}, {&b, pose[1], 0}}, 2, everything);
        ct_result *there =
            stage_once(engine, &settings, (struct placed[]){{&a, moved[0], 0}, {&b, moved[1], 0}}, 2, everything);
        assert_int_equal(here->n_contacts, there->n_contacts);
        if (here->n_contacts) {
            const ct_contact *c = here->contacts, *d = there->contacts;
            assert_true(fabs(c->volume - d->volume) <= c->error_bound + d->error_bound + 0x1p-42 * c->area);
        }
        ct_result_free(&here);
        ct_result_free(&there);
        shape_free(&a), shape_free(&b);
    }
}

/* From micrometres to thousands of kilometres: a power of two scales every number of the answer by its power, exactly.
 */
static void test_scale(void **state) {
    (void)state;
    uint64_t rng = 79;
    static const int powers[] = {-20, -9, 3, 20};
    const ct_scene_settings settings = stage_exact();
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 4; j++) {
            const int power = powers[j];
            struct shape shapes[2] = {shape_torus(1, 0.4, 32, 16), shape_blob(0.8, 3, 0.3, 5)};
            double pose[2][12];
            for (int k = 0; k < 2; k++) shape_pose_random(&rng, 0.4, pose[k]);
            ct_result *r =
                stage_once(engine, &settings, (struct placed[]){{&shapes[0], pose[0], 0}, {&shapes[1], pose[1], 0}}, 2,
                           everything);
            for (int body = 0; body < 2; body++) {
                for (size_t k = 0; k < 3 * (size_t)shapes[body].n_vertices; k++)
                    shapes[body].positions[k] = ldexpf(shapes[body].positions[k], power);
                for (int k = 0; k < 3; k++) pose[body][4 * k + 3] = ldexp(pose[body][4 * k + 3], power);
            }
            ct_result *q =
                stage_once(engine, &settings, (struct placed[]){{&shapes[0], pose[0], 0}, {&shapes[1], pose[1], 0}}, 2,
                           everything);
            assert_int_equal(r->n_contacts, 1);
            assert_int_equal(q->n_contacts, 1);
            const ct_contact *c = r->contacts, *d = q->contacts;
            assert_true(d->volume == ldexp(c->volume, 3 * power));
            assert_true(d->error_bound == ldexp(c->error_bound, 3 * power));
            assert_true(d->area == ldexp(c->area, 2 * power) && d->depth == ldexp(c->depth, power));
            for (int k = 0; k < 3; k++)
                assert_true(d->normal[k] == c->normal[k] && d->center[k] == ldexp(c->center[k], power));
            assert_int_equal(r->n_entries, q->n_entries);
            assert_memory_equal(r->vertices, q->vertices, 4 * r->n_entries);
            for (uint64_t e = 0; e < r->n_entries; e++) {
                assert_true(q->weights[e] == ldexp(r->weights[e], 2 * power));
                for (int k = 0; k < 3; k++)
                    assert_true(q->gradient[3 * e + (uint64_t)k] == ldexp(r->gradient[3 * e + (uint64_t)k], 2 * power));
            }
            ct_result_free(&r);
            ct_result_free(&q);
            for (int body = 0; body < 2; body++) shape_free(&shapes[body]);
        }
}

/* A step's answer does not depend on those before it, which leave trees and boxes to the next. */
static void test_steps_leave_nothing_behind(void **state) {
    (void)state;
    uint64_t rng = 33;
    const ct_scene_settings settings = stage_exact();
    struct shape rest = shape_blob(1, 5, 0.4, 3), a = shape_copy(&rest), b = shape_torus(0.9, 0.3, 120, 60);
    double pose[12];
    shape_pose_random(&rng, 0.2, pose);
    const struct placed bodies[] = {{&rest, NULL, CT_BODY_DEFORMABLE}, {&b, pose, CT_BODY_RIGID}};
    struct stage stage = stage_open(engine, &settings, bodies, 2);
    for (int step = 0; step < 12; step++) {
        ct_update updates[2] = {{.body = stage.body[0],
                                 .kind = CT_UPDATE_POSITIONS,
                                 .positions = a.positions,
                                 .dtype = CT_F32,
                                 .count = a.n_vertices},
                                {.body = stage.body[1], .kind = CT_UPDATE_POSE}};
        const uint32_t first = (uint32_t)(shape_random(&rng) % (a.n_vertices / 2)), range[2] = {first, 500};
        for (uint32_t v = first; v < first + 500; v++)
            for (int k = 0; k < 3; k++)
                a.positions[3 * (size_t)v + (size_t)k] += (float)shape_uniform(&rng, -0.01, 0.01);
        if (step % 3) { /* a part of the vertices alone */
            updates[0].kind = CT_UPDATE_RANGES;
            updates[0].positions = a.positions + 3 * (size_t)first;
            updates[0].count = 500;
            updates[0].indices = range;
            updates[0].n_indices = 2;
        }
        shape_pose_random(&rng, 0.2, pose);
        memcpy(updates[1].pose, pose, sizeof pose);
        ct_result *result = stage_step(&stage, updates, step % 4 ? 2 : 1, everything);
        char expected[60], hash[60];
        ct_body_info info;
        assert_int_equal(ct_scene_body_info(stage.scene, stage.body[1], &info, NULL), CT_OK);
        struct stage fresh = stage_open(engine, &settings, (struct placed[]){bodies[0], {&b, info.pose, 0}}, 2);
        ct_update whole = {.body = fresh.body[0],
                           .kind = CT_UPDATE_POSITIONS,
                           .positions = a.positions,
                           .dtype = CT_F32,
                           .count = a.n_vertices};
        ct_result *afresh = stage_step(&fresh, &whole, 1, everything);
        hash_of(result, hash);
        hash_of(afresh, expected);
        assert_string_equal(hash, expected);
        assert_int_equal(result->n_contacts, 1);
        stage_close(&fresh);
        ct_result_free(&result);
        ct_result_free(&afresh);
    }
    stage_close(&stage);
    shape_free(&rest), shape_free(&a), shape_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_changes_nothing),
        cmocka_unit_test(test_threads_and_instruction_sets),
        cmocka_unit_test(test_batch_changes_nothing),
        cmocka_unit_test(test_wants_change_nothing),
        cmocka_unit_test(test_rigid_and_deformable_agree),
        cmocka_unit_test(test_translations),
        cmocka_unit_test(test_scale),
        cmocka_unit_test(test_steps_leave_nothing_behind),
    };
    return cmocka_run_group_tests_name("invariance of exact", tests, setup, teardown);
}

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

#include "tests/consistency/engine.h"

static const uint32_t everything = CT_WANT_ALL;

/* A mesh small enough for one cluster, or of hundreds of them. */
static struct shape random_shape(uint64_t *rng, bool is_large) {
    const uint64_t seed = shape_random(rng);
    switch (seed % 5) {
    case 0:
        return is_large ? shape_torus(0.8, 0.35, 160, 80) : shape_torus(0.8, 0.35, 24, 16);
    case 1:
        return shape_blob(1, is_large ? 5 : 3, 0.5, seed);
    case 2:
        return is_large ? shape_bolt(0.9, 0.2, 0.3, 4, 60, 30) : shape_bolt(0.9, 0.2, 0.4, 3, 30, 12);
    case 3:
        return shape_cube(1.5, is_large ? 30 : 3);
    default:
        return shape_icosphere(1, is_large ? 5 : 2);
    }
}

/* Turned in all ways, or in none, so that faces coincide. */
static void random_poses(uint64_t *rng, int round, double pose[2][12]) {
    for (int body = 0; body < 2; body++) shape_pose_random(rng, 0.4, pose[body]);
    if (round % 4 == 0)
        for (int body = 0; body < 2; body++) shape_pose_identity(pose[body]);
    if (round % 8 == 0) pose[1][3] = 0.25;
}

/* ---- orders ---- */

struct row {
    float position[3];
    double gradient[3], weight, force[3];
};

static int by_position(const void *a, const void *b) {
    return memcmp(a, b, sizeof((struct row *)NULL)->position);
}

/* One body's part of the sparse gradient, in an order that does not depend on how vertices are numbered. */
static struct row *rows_of(const ct_result *r, const ct_contact *c, int side, const struct shape *shape, double sign) {
    struct row *rows = calloc(c->count[side] + 1, sizeof *rows);
    assert_non_null(rows);
    for (uint64_t i = 0; i < c->count[side]; i++) {
        const uint64_t e = c->first[side] + i;
        memcpy(rows[i].position, shape->positions + 3 * (size_t)r->vertices[e], sizeof rows[i].position);
        memcpy(rows[i].gradient, r->gradient + 3 * e, sizeof rows[i].gradient);
        memcpy(rows[i].force, r->forces + 3 * e, sizeof rows[i].force);
        rows[i].weight = sign * r->weights[e];
    }
    qsort(rows, c->count[side], sizeof *rows, by_position);
    return rows;
}

/* The same contact, bit for bit; `swapped`: with its bodies the other way round. */
static void assert_same(const ct_result *r, const struct shape *shapes[2], const ct_result *q,
                        const struct shape *others[2], bool swapped) {
    assert_int_equal(r->n_contacts, 1);
    assert_int_equal(q->n_contacts, 1);
    const ct_contact *c = r->contacts, *d = q->contacts;
    assert_memory_equal(&c->volume, &d->volume, sizeof c->volume);
    assert_memory_equal(c->volumes, d->volumes, sizeof c->volumes);
    assert_memory_equal(&c->error_bound, &d->error_bound, sizeof c->error_bound);
    assert_memory_equal(&c->error_estimate, &d->error_estimate, sizeof c->error_estimate);
    assert_int_equal(c->max_winding, d->max_winding);
    assert_memory_equal(&c->area, &d->area, sizeof c->area);
    assert_memory_equal(&c->depth, &d->depth, sizeof c->depth);
    assert_memory_equal(c->center, d->center, sizeof c->center);
    for (int k = 0; k < 3; k++) assert_true(c->normal[k] == (swapped ? -d->normal[k] : d->normal[k]));
    if (!swapped) assert_memory_equal(c->tangents, d->tangents, sizeof c->tangents);
    assert_int_equal(r->fragments, q->fragments);
    for (int side = 0; side < 2; side++) {
        const int other = swapped ? 1 - side : side;
        for (int k = 0; k < 6; k++) assert_true(c->generalized_gradient[side][k] == d->generalized_gradient[other][k]);
        assert_int_equal(c->count[side], d->count[other]);
        struct row *mine = rows_of(r, c, side, shapes[side], 1),
                   *theirs = rows_of(q, d, other, others[other], swapped ? -1 : 1);
        for (uint64_t i = 0; i < c->count[side]; i++) {
            assert_memory_equal(mine[i].position, theirs[i].position, sizeof mine[i].position);
            for (int k = 0; k < 3; k++) {
                assert_true(mine[i].gradient[k] == theirs[i].gradient[k]);
                assert_true(mine[i].force[k] == theirs[i].force[k]);
            }
            assert_true(mine[i].weight == theirs[i].weight);
        }
        free(mine);
        free(theirs);
    }
}

static void test_order_changes_nothing(void **state) {
    (void)state;
    uint64_t rng = 11;
    const ct_scene_settings settings = stage_exact();
    int contacts = 0;
    for (int round = 0; round < 48; round++) {
        const bool is_large = round % 6 == 5;
        struct shape a = random_shape(&rng, is_large), b = random_shape(&rng, round % 12 == 5), a2 = shape_copy(&a),
                     b2 = shape_copy(&b);
        double pose[2][12];
        random_poses(&rng, round, pose);
        shape_shuffle(&a2, &rng);
        shape_shuffle(&b2, &rng);
        const ct_body_kind kind = round % 3 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE;
        ct_result *plain =
            stage_once(engine, &settings, (struct placed[]){{&a, pose[0], kind}, {&b, pose[1], kind}}, 2, everything);
        ct_result *shuffled =
            stage_once(engine, &settings, (struct placed[]){{&a2, pose[0], kind}, {&b2, pose[1], kind}}, 2, everything);
        ct_result *swapped =
            stage_once(engine, &settings, (struct placed[]){{&b, pose[1], kind}, {&a2, pose[0], kind}}, 2, everything);
        if (plain->n_contacts) {
            contacts++;
            assert_same(plain, (const struct shape *[]){&a, &b}, shuffled, (const struct shape *[]){&a2, &b2}, false);
            assert_same(plain, (const struct shape *[]){&a, &b}, swapped, (const struct shape *[]){&b, &a2}, true);
        } else {
            assert_int_equal(shuffled->n_contacts + swapped->n_contacts, 0);
        }
        ct_result_free(&plain);
        ct_result_free(&shuffled);
        ct_result_free(&swapped);
        shape_free(&a), shape_free(&b), shape_free(&a2), shape_free(&b2);
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

enum { SCENES = 12 };

static void test_batch_changes_nothing(void **state) {
    (void)state;
    uint64_t rng = 23;
    struct shape shapes[SCENES][3];
    double poses[SCENES][3][12];
    struct stage stages[SCENES];
    ct_step steps[SCENES];
    char alone[SCENES][33], hash[33];
    for (int s = 0; s < SCENES; s++) {
        struct placed bodies[3];
        for (int b = 0; b < 3; b++) {
            shapes[s][b] = random_shape(&rng, (s + b) % 5 == 0);
            shape_pose_random(&rng, 0.5, poses[s][b]);
            bodies[b] = (struct placed){&shapes[s][b], poses[s][b], (b + s) % 2 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE};
        }
        const ct_scene_settings settings = s % 4 == 3 ? stage_resolution(16) : stage_exact();
        stages[s] = stage_open(engine, &settings, bodies, 2 + s % 2);
        ct_result *result = stage_step(&stages[s], NULL, 0, everything);
        stage_hash(result, alone[s]);
        ct_result_free(&result);
    }
    for (int round = 0; round < 8; round++) {
        int order[SCENES], n = round ? 1 + (int)(shape_random(&rng) % SCENES) : SCENES;
        for (int s = 0; s < SCENES; s++) {
            const int k = (int)(shape_random(&rng) % (uint64_t)(s + 1));
            order[s] = order[k];
            order[k] = s;
        }
        for (int i = 0; i < n; i++) steps[i] = (ct_step){.scene = stages[order[i]].scene, .want = everything};
        assert_int_equal(ct_engine_run(engine, steps, (size_t)n), CT_OK);
        for (int i = 0; i < n; i++) {
            stage_hash(steps[i].result, hash);
            assert_string_equal(hash, alone[order[i]]);
            ct_result_free(&steps[i].result);
        }
    }
    for (int s = 0; s < SCENES; s++) {
        stage_close(&stages[s]);
        for (int b = 0; b < 3; b++) shape_free(&shapes[s][b]);
    }
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

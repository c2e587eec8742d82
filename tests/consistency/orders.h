/* orders.h - random bodies, in one order and in others: of triangles, of vertices, of bodies and of scenes in a batch.
 */
#ifndef CONSISTENCY_ORDERS_H
#define CONSISTENCY_ORDERS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "tests/consistency/engine.h"

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

/* ---- pairs ---- */

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
    assert_int_equal(r->rays, q->rays);
    const bool is_ldi = r->method == CT_METHOD_LDI; /* spares a body what the first one rules out */
    if (!swapped || !is_ldi) assert_int_equal(r->fragments, q->fragments);
    assert_int_equal(r->n_spans, q->n_spans);
    for (int side = 0; side < 2; side++) {
        const int other = swapped ? 1 - side : side;
        for (int k = 0; k < 6; k++) assert_true(c->generalized_gradient[side][k] == d->generalized_gradient[other][k]);
        if (is_ldi) /* zeros have their sign too */
            assert_memory_equal(c->generalized_gradient[side], d->generalized_gradient[other],
                                sizeof c->generalized_gradient[0]);
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

/* Two bodies of one kind, then with their triangles and vertices shuffled, then also the other way round: the same
 * bits. Whether they touch. */
static bool compare_orders(const ct_scene_settings *settings, struct shape *a, struct shape *b, double pose[2][12],
                           ct_body_kind kind, uint32_t want, uint64_t *rng) {
    struct shape a2 = shape_copy(a), b2 = shape_copy(b);
    shape_shuffle(&a2, rng);
    shape_shuffle(&b2, rng);
    ct_result *plain = stage_once(engine, settings,
                                  (struct placed[]){{a, pose[0], kind, 0, NULL}, {b, pose[1], kind, 0, NULL}}, 2, want);
    ct_result *shuffled = stage_once(
        engine, settings, (struct placed[]){{&a2, pose[0], kind, 0, NULL}, {&b2, pose[1], kind, 0, NULL}}, 2, want);
    ct_result *swapped = stage_once(
        engine, settings, (struct placed[]){{b, pose[1], kind, 0, NULL}, {&a2, pose[0], kind, 0, NULL}}, 2, want);
    const bool touch = plain->n_contacts > 0;
    if (touch) {
        assert_same(plain, (const struct shape *[]){a, b}, shuffled, (const struct shape *[]){&a2, &b2}, false);
        assert_same(plain, (const struct shape *[]){a, b}, swapped, (const struct shape *[]){b, &a2}, true);
    } else {
        assert_int_equal(shuffled->n_contacts + swapped->n_contacts, 0);
    }
    ct_result_free(&plain);
    ct_result_free(&shuffled);
    ct_result_free(&swapped);
    shape_free(&a2), shape_free(&b2);
    return touch;
}

/* ---- batches ---- */

/* Scenes of two or three bodies, every second of them deformable: by themselves, then several in one batch, in random
 * orders, have the same bits. */
static void compare_batches(const ct_scene_settings *(*settings_of)(int scene, ct_scene_settings *), bool has_large,
                            uint32_t want) {
    enum { SCENES = 12 };
    uint64_t rng = 23;
    struct shape shapes[SCENES][3];
    double poses[SCENES][3][12];
    struct stage stages[SCENES];
    ct_step steps[SCENES];
    char alone[SCENES][33], hash[33];
    for (int s = 0; s < SCENES; s++) {
        struct placed bodies[3];
        for (int b = 0; b < 3; b++) {
            shapes[s][b] = random_shape(&rng, has_large && (s + b) % 5 == 0);
            shape_pose_random(&rng, 0.5, poses[s][b]);
            bodies[b] =
                (struct placed){&shapes[s][b], poses[s][b], (b + s) % 2 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE, 0, NULL};
        }
        ct_scene_settings settings;
        stages[s] = stage_open(engine, settings_of(s, &settings), bodies, 2 + s % 2);
        ct_result *result = stage_step(&stages[s], NULL, 0, want);
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
        for (int i = 0; i < n; i++) steps[i] = (ct_step){.scene = stages[order[i]].scene, .want = want};
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

#endif

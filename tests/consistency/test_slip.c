/* test_slip.c - slip and viscous friction against closed forms: flat patches of known area and velocity, turning discs,
 * half-spaces, deformable bodies; forces that balance and never add energy; equal bits whatever the order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/scenes/stage.h"

static ct_engine *engine;

static void near(double a, double b, double tolerance) {
    if (!(fabs(a - b) <= tolerance)) fail_msg("%.17g is not %.17g", a, b);
}

static ct_result *run(struct stage *stage, const ct_velocity *velocities, size_t n, double viscosity, uint32_t want) {
    ct_step step = {
        .scene = stage->scene, .want = want, .velocities = velocities, .n_velocities = n, .viscosity = viscosity};
    if (ct_engine_run(engine, &step, 1)) fail_msg("%s: %s", step.error.field, step.error.message);
    return step.result;
}

/* f . v over all vertices of a contact. */
static double power_of(const ct_result *r, const ct_contact *c, const struct placed *bodies,
                       const ct_velocity *velocities) {
    double power = 0;
    for (int s = 0; s < 2; s++)
        for (uint64_t k = c->first[s]; k < c->first[s] + c->count[s]; k++) {
            const struct placed *body = &bodies[s];
            const float *p = body->shape->positions + 3 * (size_t)r->vertices[k];
            double at[3], v[3];
            for (int i = 0; i < 3; i++)
                at[i] = body->pose[4 * i] * (double)p[0] + body->pose[4 * i + 1] * (double)p[1] +
                        body->pose[4 * i + 2] * (double)p[2];
            const double *w = velocities[s].twist + 3;
            for (int i = 0; i < 3; i++)
                v[i] = velocities[s].twist[i] + w[(i + 1) % 3] * at[(i + 2) % 3] - w[(i + 2) % 3] * at[(i + 1) % 3];
            for (int i = 0; i < 3; i++) power += r->friction_forces[3 * k + (uint64_t)i] * v[i];
        }
    return power;
}

/* A block on a floor: 0.5 m x 0.75 m, sliding and sinking. ldi has three views, of which a tangential component is seen
 * by two: the normalisation is that of the flat patch all the same. */
static void test_flat_patch(void **state) {
    (void)state;
    struct shape floor = shape_box(4, 4, 1), block = shape_box(0.5, 0.75, 0.5);
    double low[12], high[12];
    shape_pose_identity(low);
    shape_pose_identity(high);
    low[11] = -0.5;
    high[11] = 0.25 - 0.0625;
    const struct placed bodies[] = {{&floor, low, 0, 0}, {&block, high, 0, 0}};
    const ct_scene_settings settings[] = {stage_exact(), stage_pixel(1.0 / 64)};
    const double area = 0.5 * 0.75, viscosity = 8;
    for (int m = 0; m < 2; m++) {
        struct stage stage = stage_open(engine, &settings[m], bodies, 2);
        const ct_velocity velocities[] = {{.body = stage.body[0], .twist = {0.5, 0, 0}},
                                          {.body = stage.body[1], .twist = {2, -1, -3}}};
        ct_result *r = run(&stage, velocities, 2, viscosity, 0);
        assert_int_equal(r->n_contacts, 1);
        assert_true(r->has_slip && (r->want & CT_WANT_FRICTION));
        const ct_contact *c = &r->contacts[0];
        const double expected[3] = {1.5, -1, -3};
        near(c->area, area, 1e-6);
        near(c->spin, 0, 1e-9);
        for (int i = 0; i < 3; i++) {
            const double force = i < 2 ? -viscosity * area * expected[i] : 0;
            near(c->relative_velocity[i], expected[i], 1e-9);
            near(c->friction[1][i], force, 1e-5);
            near(c->friction[0][i], -force, 1e-5);
            near(c->friction[0][i] + c->friction[1][i], 0, 1e-12);
        }
        near(c->side_center[0][2], 0, 1e-6);
        near(c->side_center[1][2], -0.0625, 1e-6);
        for (int s = 0; s < 2; s++)
            for (int i = 0; i < 2; i++) near(c->side_center[s][i], 0, 1e-6);
        /* Torques about each body's origin. Both forces act midway between the surfaces, at -0.03125: 0.21875 below the
         * block's origin, 0.46875 above the floor's. */
        near(c->friction[1][3], 0.21875 * c->friction[1][1], 1e-5);
        near(c->friction[1][4], -0.21875 * c->friction[1][0], 1e-5);
        near(c->friction[0][3], -0.46875 * c->friction[0][1], 1e-5);
        const double power = power_of(r, c, bodies, velocities);
        near(power, -viscosity * area * (1.5 * 1.5 + 1), 1e-4);
        ct_result_free(&r);
        /* Without a viscosity there is slip, but no force. */
        r = run(&stage, velocities, 2, 0, 0);
        near(r->contacts[0].relative_velocity[0], 1.5, 1e-9);
        assert_null(r->friction_forces);
        assert_true(r->contacts[0].friction[1][0] == 0);
        ct_result_free(&r);
        /* Without velocities there is neither. */
        r = run(&stage, NULL, 0, 0, CT_WANT_ALL);
        assert_true(!r->has_slip && r->contacts[0].relative_velocity[0] == 0 &&
                    r->contacts[0].side_center[1][2] < -0.06);
        ct_result_free(&r);
        stage_close(&stage);
    }
    shape_free(&floor);
    shape_free(&block);
}

/* A drum of radius 0.5 that turns on a floor: its torque is that of a disc, whatever the floor's triangles. */
static void test_turning_disc(void **state) {
    (void)state;
    struct shape floor = shape_box(20, 20, 1), drum = shape_cylinder(0.5, 1, 256);
    double low[12], high[12];
    shape_pose_identity(low);
    shape_pose_identity(high);
    low[11] = -0.5;
    high[3] = 1;
    high[11] = 0.5 - 0.125;
    const struct placed bodies[] = {{&floor, low, 0, 0}, {&drum, high, 0, 0}};
    const ct_scene_settings settings = stage_exact();
    struct stage stage = stage_open(engine, &settings, bodies, 2);
    const double disc = M_PI / 2 * pow(0.5, 4), viscosity = 3, spin = 2;
    const ct_velocity velocities[] = {{.body = stage.body[0], .twist = {0, 0, 0, 0, 0, -0.5}},
                                      {.body = stage.body[1], .twist = {0, 0, 0, 0, 0, spin - 0.5}}};
    ct_result *r = run(&stage, velocities + 1, 1, viscosity, 0);
    const ct_contact *c = &r->contacts[0];
    near(c->spin, (spin - 0.5) * c->normal[2], 1e-6); /* about the normal, which is downward */
    near(c->relative_velocity[0], 0, 1e-6);
    near(c->friction[1][5], -viscosity * disc * (spin - 0.5), 1e-3 * viscosity * disc);
    near(c->friction[0][5], -c->friction[1][5], 1e-6);
    ct_result_free(&r);
    r = run(&stage, velocities, 2, viscosity, 0); /* the floor turns about its own origin, 1 m away */
    c = &r->contacts[0];
    near(c->spin, spin * c->normal[2], 1e-6);
    near(c->relative_velocity[1], 0.5, 1e-6);
    near(c->friction[1][1], -viscosity * c->area * 0.5, 1e-5);
    ct_result_free(&r);
    stage_close(&stage);
    shape_free(&floor);
    shape_free(&drum);
}

/* A half-space has no vertices, but its wrench is that of a floor of triangles. */
static void test_half_space(void **state) {
    (void)state;
    struct shape drum = shape_cylinder(0.5, 1, 64);
    double high[12];
    const double axis[3] = {0, 0, 1}, by[3] = {0.25, 0.5, 0.375};
    shape_pose_axis(axis, 0.1, by, high);
    const struct placed bodies[] = {{&drum, high, 0, 0}};
    const ct_scene_settings settings = stage_exact();
    struct stage stage = stage_open(engine, &settings, bodies, 1);
    uint32_t plane;
    assert_int_equal(ct_scene_add_half_space(stage.scene, axis, 0, NULL, &plane, NULL), CT_OK);
    const double viscosity = 2;
    const ct_velocity velocities[] = {{.body = plane, .twist = {1, 0, 0, 0, 0, 0.5}},
                                      {.body = stage.body[0], .twist = {0, 0, 0, 0, 0, 2}}};
    ct_result *r = run(&stage, velocities, 2, viscosity, CT_WANT_GRADIENT);
    const ct_contact *c = &r->contacts[0];
    assert_int_equal(c->body[1], plane);
    near(c->spin, -1.5 * c->normal[2], 1e-6); /* of the plane relative to the drum, about the normal, which is upward */
    near(c->relative_velocity[0], 1 - 0.5 * 0.5, 1e-6);
    near(c->relative_velocity[1], 0.5 * 0.25, 1e-6);
    for (int i = 0; i < 3; i++) near(c->friction[0][i] + c->friction[1][i], 0, 1e-12);
    near(c->side_center[1][0], 0.25, 1e-6);
    near(c->side_center[1][2], 0, 1e-9);
    const double turn = viscosity * c->area * c->area / (2 * M_PI) * 1.5;
    near(c->friction[0][5], -turn, 1e-6);
    near(c->friction[1][5], turn + 0.25 * c->friction[1][1] - 0.5 * c->friction[1][0], 1e-6);
    assert_int_equal(c->count[1], 0);
    ct_result_free(&r);
    stage_close(&stage);
    shape_free(&drum);
}

/* Random pairs: forces balance, their power is what the header says, and never positive; a deformable body that moves
 * as a rigid one is held back as one; shuffled vertices, other threads and another order of velocities change no bit.
 */
static void test_random_pairs(void **state) {
    (void)state;
    uint64_t rng = 77;
    int contacts = 0;
    ct_engine *other = stage_engine(3, NULL);
    for (int round = 0; round < 24; round++) {
        struct shape a = shape_blob(1, 3, 0.3, (uint64_t)round), b = shape_torus(0.7, 0.3, 24, 12);
        double poses[2][12];
        for (int i = 0; i < 2; i++) shape_pose_random(&rng, 0.6, poses[i]);
        struct placed bodies[] = {{&a, poses[0], 0, 0}, {&b, poses[1], 0, 0}};
        ct_scene_settings settings = round % 2 ? stage_exact() : stage_resolution(48);
        struct stage stage = stage_open(engine, &settings, bodies, 2);
        ct_velocity velocities[] = {{.body = stage.body[0]}, {.body = stage.body[1]}};
        for (int i = 0; i < 12; i++) velocities[i / 6].twist[i % 6] = shape_uniform(&rng, -1, 1);
        ct_result *r = run(&stage, velocities, 2, 5, 0);
        double kept[32] = {0};
        if (r->n_contacts && r->contacts[0].area > 0) {
            const ct_contact *c = &r->contacts[0];
            double power = 0, torque[3] = {0, 0, 0}, size = 0;
            for (int i = 0; i < 12; i++) power += c->friction[i / 6][i % 6] * velocities[i / 6].twist[i % 6];
            assert_true(power <= 0);
            near(power_of(r, c, bodies, velocities), power, 1e-9 * (1 + fabs(power)));
            for (int s = 0; s < 2; s++) { /* about the world's origin */
                const double *f = c->friction[s], at[3] = {poses[s][3], poses[s][7], poses[s][11]};
                for (int i = 0; i < 3; i++) {
                    const int j = (i + 1) % 3, k = (i + 2) % 3;
                    torque[i] += f[3 + i] + at[j] * f[k] - at[k] * f[j];
                    size += fabs(f[i]);
                }
            }
            for (int i = 0; i < 3; i++) {
                near(c->friction[0][i] + c->friction[1][i], 0, 1e-12 * (1 + size));
                near(torque[i], 0, 1e-12 * (1 + size));
            }
            memcpy(kept, c->relative_velocity, sizeof c->relative_velocity);
            kept[3] = c->spin;
            memcpy(kept + 4, c->friction, sizeof c->friction);
            contacts++;
        }
        ct_result_free(&r);
        stage_close(&stage);
        /* shuffled, on other threads */
        shape_shuffle(&a, &rng);
        shape_shuffle(&b, &rng);
        struct stage again = stage_open(other, &settings, bodies, 2);
        ct_velocity turned[] = {velocities[1], velocities[0]};
        turned[0].body = again.body[1];
        turned[1].body = again.body[0];
        ct_step step = {.scene = again.scene, .velocities = turned, .n_velocities = 2, .viscosity = 5};
        assert_int_equal(ct_engine_run(other, &step, 1), CT_OK);
        double now[32] = {0};
        if (step.result->n_contacts && step.result->contacts[0].area > 0) {
            const ct_contact *c = &step.result->contacts[0];
            memcpy(now, c->relative_velocity, sizeof c->relative_velocity);
            now[3] = c->spin;
            memcpy(now + 4, c->friction, sizeof c->friction);
        }
        for (int i = 0; i < 32; i++)
            if (now[i] != kept[i]) fail_msg("round %d, number %d: %.17g, then %.17g", round, i, kept[i], now[i]);
        ct_result_free(&step.result);
        stage_close(&again);
        shape_free(&a);
        shape_free(&b);
    }
    assert_true(contacts > 12);
    ct_engine_destroy(&other);
}

/* A deformable body whose vertices move as a rigid one's. */
static void test_deformable(void **state) {
    (void)state;
    struct shape ball = shape_icosphere(1, 3), block = shape_cube(1.5, 4);
    double pose[12], at_rest[12];
    shape_pose_identity(at_rest);
    shape_pose_identity(pose);
    pose[3] = 1;
    pose[7] = 0.25;
    const struct placed soft[] = {{&ball, at_rest, CT_BODY_DEFORMABLE, 0}, {&block, pose, 0, 0}},
                        hard[] = {{&ball, at_rest, 0, 0}, {&block, pose, 0, 0}};
    const ct_scene_settings settings = stage_exact();
    struct stage a = stage_open(engine, &settings, soft, 2), b = stage_open(engine, &settings, hard, 2);
    ct_velocity velocity = {.body = b.body[0], .twist = {0.5, 0.25, 1, 2, 0.5, -1}}, each = velocity;
    double *values = malloc(ball.n_vertices * 3 * sizeof *values);
    assert_non_null(values);
    for (uint32_t v = 0; v < ball.n_vertices; v++)
        for (int i = 0; i < 3; i++) {
            const float *p = ball.positions + 3 * v;
            const double *w = velocity.twist + 3;
            values[3 * v + (uint32_t)i] =
                velocity.twist[i] + w[(i + 1) % 3] * (double)p[(i + 2) % 3] - w[(i + 2) % 3] * (double)p[(i + 1) % 3];
        }
    each.values = values;
    each.dtype = CT_F64;
    each.count = ball.n_vertices;
    ct_result *r[2] = {run(&a, &each, 1, 2, CT_WANT_GRADIENT), run(&b, &velocity, 1, 2, CT_WANT_GRADIENT)};
    const ct_contact *c[2] = {&r[0]->contacts[0], &r[1]->contacts[0]};
    near(c[0]->spin, c[1]->spin, 1e-12);
    assert_true(c[0]->spin != 0);
    for (int i = 0; i < 6; i++) near(c[0]->friction[0][i], c[1]->friction[0][i], 1e-12);
    assert_int_equal(r[0]->n_entries, r[1]->n_entries);
    for (uint64_t k = 0; k < 3 * r[0]->n_entries; k++) near(r[0]->friction_forces[k], r[1]->friction_forces[k], 1e-12);
    for (int i = 0; i < 2; i++) ct_result_free(&r[i]);
    near(ct_contact_target_volume(&(ct_contact){.area = 0.5}, 0.25), 0.125, 0);
    free(values);
    stage_close(&a);
    stage_close(&b);
    shape_free(&ball);
    shape_free(&block);
}

/* Tangents follow those before, also where the normal turns to the first of them, and are orthonormal; bodies that were
 * not in contact begin with those of the normal. */
static void test_continuous_frames(void **state) {
    (void)state;
    struct shape ball = shape_icosphere(1, 3);
    double pose[12], first = 0, most = 0;
    shape_pose_identity(pose);
    const struct placed bodies[] = {{&ball, pose, 0, 0}, {&ball, pose, 0, 0}};
    const ct_scene_settings settings = stage_exact();
    struct stage stage = stage_open(engine, &settings, bodies, 2);
    ct_result *before = NULL;
    for (int k = 0; k <= 80; k++) { /* the other ball goes round by way of the pole of tangents */
        const double pole[3] = {0.36, 0.48, 0.8}, across[3] = {0.8, -0.6, 0};
        const double c = cos(M_PI * k / 40), s = sin(M_PI * k / 40);
        ct_update update = {.body = stage.body[1], .kind = CT_UPDATE_POSE};
        memcpy(update.pose, pose, sizeof pose);
        for (int i = 0; i < 3; i++) update.pose[4 * i + 3] = 1.5 * (c * across[i] + s * pole[i]);
        ct_result *r = stage_step(&stage, &update, 1, CT_WANT_FRAME);
        ct_contact *now = &r->contacts[0];
        const ct_contact alone = *now;
        if (before) {
            const ct_contact *then = &before->contacts[0];
            ct_result_continue_frames(before, r);
            for (int i = 0; i < 3; i++) most = fmax(most, fabs(now->tangents[0][i] - then->tangents[0][i]));
            for (int i = 0; i < 3; i++) first = fmax(first, fabs(now->tangents[0][i] - alone.tangents[0][i]));
        }
        double dots[6] = {0};
        for (int i = 0; i < 3; i++) {
            const double *t = now->tangents[0], *u = now->tangents[1], *n = now->normal;
            const double turned = n[(i + 1) % 3] * t[(i + 2) % 3] - n[(i + 2) % 3] * t[(i + 1) % 3];
            near(turned, u[i], 1e-12);
            dots[0] += t[i] * t[i];
            dots[1] += u[i] * u[i];
            dots[2] += t[i] * u[i];
            dots[3] += t[i] * n[i];
        }
        near(dots[0], 1, 1e-12);
        near(dots[1], 1, 1e-12);
        near(dots[2], 0, 1e-12);
        near(dots[3], 0, 1e-12);
        assert_memory_equal(now->normal, alone.normal, sizeof now->normal);
        ct_result_free(&before);
        before = r;
    }
    assert_true(most < 0.15 && first > 0.1);
    /* A normal that jumps by 90 degrees, to the first tangent. */
    ct_contact a = {.normal = {0, 0, 1}, .tangents = {{1, 0, 0}, {0, 1, 0}}}, b = {.normal = {1, 0, 0}}, other = b;
    other.index = 1;
    ct_contact contacts[] = {b, other};
    ct_result old = {.n_contacts = 1, .contacts = &a}, new = {.n_contacts = 2, .contacts = contacts};
    ct_result_continue_frames(&old, &new);
    near(contacts[0].tangents[1][1], 1, 0);
    near(contacts[0].tangents[0][2], -1, 0);
    assert_memory_equal(&contacts[1], &other, sizeof other);
    ct_result_free(&before);
    stage_close(&stage);
    shape_free(&ball);
}

static void test_refused(void **state) {
    (void)state;
    struct shape ball = shape_icosphere(1, 1);
    double pose[12];
    shape_pose_identity(pose);
    const struct placed bodies[] = {{&ball, pose, CT_BODY_DEFORMABLE, 0}, {&ball, pose, 0, 0}};
    const ct_scene_settings settings = stage_exact();
    struct stage stage = stage_open(engine, &settings, bodies, 2);
    double values[42 * 3] = {0}, wild[42 * 3] = {[7] = NAN};
    const uint32_t soft = stage.body[0], hard = stage.body[1];
    const struct {
        ct_velocity velocity[2];
        size_t n;
        double viscosity;
        ct_status status;
        const char *field, *words;
    } cases[] = {
        {{{.body = 99}}, 1, 0, CT_NOT_FOUND, "body", "99"},
        {{{.body = hard, .values = values, .dtype = CT_F64, .count = 42}},
         1,
         0,
         CT_INVALID_ARGUMENT,
         "velocities",
         "twist"},
        {{{.body = soft, .values = values, .dtype = CT_F64, .count = 41}},
         1,
         0,
         CT_WRONG_LENGTH,
         "velocities",
         "velocities of 41 vertices, expected 42"},
        {{{.body = soft, .values = NULL, .dtype = CT_F64, .count = 42}},
         1,
         0,
         CT_INVALID_ARGUMENT,
         "velocities",
         "no values"},
        {{{.body = soft, .values = values, .count = 42}}, 1, 0, CT_INVALID_ARGUMENT, "velocities", "float32"},
        {{{.body = soft, .values = wild, .dtype = CT_F64, .count = 42}}, 1, 0, CT_NON_FINITE, "velocities", "vertex 2"},
        {{{.body = hard, .twist = {0, 1e31}}}, 1, 0, CT_OUT_OF_RANGE, "velocities", "number 1"},
        {{{.body = hard}, {.body = hard}}, 2, 0, CT_INVALID_ARGUMENT, "velocities", "two velocities"},
        {{{.body = hard}}, 1, -1, CT_OUT_OF_RANGE, "viscosity", "-1"},
        {{{.body = hard}}, 1, INFINITY, CT_NON_FINITE, "viscosity", "inf"},
        {{{.body = hard}}, 0, 1, CT_INVALID_ARGUMENT, "velocities", "no body has a velocity"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ct_step step = {.scene = stage.scene,
                        .velocities = cases[i].velocity,
                        .n_velocities = cases[i].n,
                        .viscosity = cases[i].viscosity};
        assert_int_equal(ct_engine_run(engine, &step, 1), cases[i].status);
        assert_string_equal(step.error.field, cases[i].field);
        if (!strstr(step.error.message, cases[i].words)) fail_msg("%s", step.error.message);
        assert_null(step.result);
    }
    ct_result *r = run(&stage, &(ct_velocity){.body = hard, .twist = {1}}, 1, 1, 0);
    assert_int_equal(r->n_contacts, 1);
    ct_result_free(&r);
    stage_close(&stage);
    shape_free(&ball);
}

int main(void) {
    engine = stage_engine(1, NULL);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_flat_patch), cmocka_unit_test(test_turning_disc),
                                       cmocka_unit_test(test_half_space), cmocka_unit_test(test_random_pairs),
                                       cmocka_unit_test(test_deformable), cmocka_unit_test(test_continuous_frames),
                                       cmocka_unit_test(test_refused)};
    const int failed = cmocka_run_group_tests_name("slip", tests, NULL, NULL);
    ct_engine_destroy(&engine);
    return failed;
}

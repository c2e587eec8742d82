/* test_separation.c - distances of bodies within a margin against closed forms and against all pairs of sampled
 * features; half-spaces, deformable and touching bodies, filters; equal bits whatever the order. */
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

static ct_scene_settings with_margin(double margin) {
    ct_scene_settings settings = stage_exact();
    settings.margin = margin;
    return settings;
}

/* The points are `distance` apart along the normal, which pushes the first body away. */
static void check_separation(const ct_separation *s) {
    double length = 0;
    assert_true(s->body[0] < s->body[1] && s->distance >= 0);
    for (int k = 0; k < 3; k++) {
        near(s->point[0][k] - s->point[1][k], s->distance * s->normal[k], 1e-9);
        length += s->normal[k] * s->normal[k];
    }
    near(length, 1, 1e-12);
}

/* Unit boxes moved apart along one, two and three axes: face to face, edge to edge, corner to corner. */
static void test_boxes(void **state) {
    (void)state;
    struct shape box = shape_box(1, 1, 1), fine = shape_cube(1, 12);
    const double moves[][3] = {{0, 0, 1.25}, {0.25, 0.125, -1.25}, {1.25, 1.5, 0.25}, {1.125, -1.25, 1.5}};
    const ct_scene_settings settings[] = {with_margin(2),
                                          {.cookie = stage_exact().cookie, .method = CT_METHOD_LDI, .margin = 2}};
    for (int i = 0; i < 4; i++)
        for (int how = 0; how < 4; how++) {
            double at[12];
            shape_pose_identity(at);
            for (int k = 0; k < 3; k++) at[4 * k + 3] = moves[i][k];
            const struct placed bodies[] = {{how & 1 ? &fine : &box, NULL, 0, 0},
                                            {&box, at, how & 2 ? CT_BODY_DEFORMABLE : 0, 0}};
            ct_result *r = stage_once(engine, &settings[how & 1], bodies, 2, 0);
            assert_int_equal(r->n_contacts, 0);
            assert_int_equal(r->n_separations, 1);
            const ct_separation *s = r->separations;
            double gap[3], distance = 0;
            for (int k = 0; k < 3; k++) {
                gap[k] = copysign(fmax(fabs(moves[i][k]) - 1, 0), -moves[i][k]);
                distance += gap[k] * gap[k];
            }
            distance = sqrt(distance);
            check_separation(s);
            near(s->distance, distance, 1e-12);
            for (int k = 0; k < 3; k++) near(s->normal[k], gap[k] / distance, 1e-12);
            ct_result_free(&r);
        }
    shape_free(&box);
    shape_free(&fine);
}

/* The margin is the limit: just below it they are listed, at it and above they are not. What has a contact is not. */
static void test_margin(void **state) {
    (void)state;
    struct shape box = shape_box(1, 1, 1);
    const struct {
        double z, margin;
        size_t separations, contacts;
    } cases[] = {{1.25, 0.2500001, 1, 0}, {1.25, 0.25, 0, 0}, {1.25, 0.1, 0, 0}, {1.25, 0, 0, 0},
                 {0.99, 0.5, 0, 1},       {1, 1e-6, 1, 0},    {1.5, 1e30, 1, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double at[12];
        shape_pose_identity(at);
        at[11] = cases[i].z;
        const struct placed bodies[] = {{&box, NULL, 0, 0}, {&box, at, 0, 0}};
        const ct_scene_settings settings = with_margin(cases[i].margin);
        ct_result *r = stage_once(engine, &settings, bodies, 2, CT_WANT_ALL);
        assert_int_equal(r->n_separations, cases[i].separations);
        assert_int_equal(r->n_contacts, cases[i].contacts);
        if (cases[i].separations) {
            check_separation(r->separations);
            near(r->separations->distance, cases[i].z - 1, 1e-12);
            assert_true(r->separations->normal[2] == -1); /* of touching boxes, too */
        }
        ct_result_free(&r);
    }
    shape_free(&box);
}

/* Two boxes inside another: a pair that VOXTREE did not come to is neither a contact nor a separation, as its bodies
 * may overlap. The small ones are a separation: boxes that do not overlap need no examination. */
static void test_not_examined(void **state) {
    (void)state;
    struct shape big = shape_box(2, 2, 2), small = shape_box(0.25, 0.25, 0.25);
    double aside[12];
    shape_pose_identity(aside);
    aside[3] = 0.5;
    const struct placed bodies[] = {
        {&big, NULL, CT_BODY_RIGID, 0}, {&small, NULL, CT_BODY_RIGID, 0}, {&small, aside, CT_BODY_RIGID, 0}};
    ct_scene_settings settings = {
        .cookie = stage_exact().cookie, .method = CT_METHOD_VOXTREE, .voxel_level = 4, .margin = 2};
    for (int is_limited = 0; is_limited < 2; is_limited++) {
        settings.pair_budget = is_limited; /* the root of one pair */
        ct_result *r = stage_once(engine, &settings, bodies, 3, CT_WANT_FRAME);
        assert_int_equal(r->n_progress, 2);
        assert_int_equal(r->progress[0].is_examined + r->progress[1].is_examined, 2 - is_limited);
        assert_int_equal(r->n_contacts, 2 - is_limited);
        assert_int_equal(r->n_separations, 1);
        assert_int_equal(r->separations->body[0], r->progress[0].body[1]);
        assert_int_equal(r->separations->body[1], r->progress[1].body[1]);
        ct_result_free(&r);
    }
    shape_free(&big);
    shape_free(&small);
}

static void test_half_spaces(void **state) {
    (void)state;
    struct shape ball = shape_icosphere(0.5, 4);
    double plane[12], at[12];
    uint64_t rng = 8;
    for (int i = 0; i < 16; i++) {
        shape_pose_random(&rng, 0.5, plane);
        shape_pose_random(&rng, 0, at);
        const double height = 0.5 + 0.01 * (i + 1);
        for (int k = 0; k < 3; k++) at[4 * k + 3] = plane[4 * k + 3] + height * plane[4 * k + 2];
        double lowest = INFINITY;
        for (uint32_t v = 0; v < ball.n_vertices; v++) {
            double z = 0;
            for (int k = 0; k < 3; k++) {
                double p = at[4 * k + 3] - plane[4 * k + 3];
                for (int j = 0; j < 3; j++) p += at[4 * k + j] * (double)ball.positions[3 * v + (uint32_t)j];
                z += p * plane[4 * k + 2];
            }
            lowest = fmin(lowest, z);
        }
        const struct placed both[][2] = {{{NULL, plane, 0, 0}, {&ball, at, 0, 0}},
                                         {{&ball, at, 0, 0}, {NULL, plane, 0, 0}}};
        const ct_scene_settings settings = with_margin(0.1);
        for (int order = 0; order < 2; order++) {
            ct_result *r = stage_once(engine, &settings, both[order], 2, 0);
            assert_int_equal(r->n_separations, lowest < 0.1);
            if (r->n_separations) {
                check_separation(r->separations);
                near(r->separations->distance, lowest, 1e-12);
                for (int k = 0; k < 3; k++) near(r->separations->normal[k], (order ? 1 : -1) * plane[4 * k + 2], 1e-12);
            }
            ct_result_free(&r);
        }
    }
    double other[12];
    shape_pose_identity(plane);
    shape_pose_axis((double[]){1, 0, 0}, 0.5, (double[]){0, 0, 0.01}, other);
    const struct placed bodies[] = {{NULL, plane, 0, 0}, {NULL, other, 0, 0}};
    const ct_scene_settings settings = with_margin(1);
    ct_result *r = stage_once(engine, &settings, bodies, 2, 0);
    assert_int_equal(r->n_separations, 0); /* two half-spaces */
    ct_result_free(&r);
    shape_free(&ball);
}

/* ---- against dense samples of both surfaces ---- */

static void corner_of(const struct shape *shape, const double pose[12], uint32_t t, int k, double out[3]) {
    const float *p = shape->positions + 3 * (size_t)shape->triangles[3 * (size_t)t + (size_t)k];
    for (int i = 0; i < 3; i++)
        out[i] = pose[4 * i] * (double)p[0] + pose[4 * i + 1] * (double)p[1] + pose[4 * i + 2] * (double)p[2] +
                 pose[4 * i + 3];
}

enum { STEPS = 6, SAMPLES = (STEPS + 1) * (STEPS + 2) / 2 };

/* Points all over a shape's triangles, its corners among them: [n_triangles * SAMPLES]. */
static double (*samples_of(const struct shape *shape, const double pose[12]))[3] {
    double(*samples)[3] = malloc(shape->n_triangles * SAMPLES * sizeof *samples);
    size_t n = 0;
    for (uint32_t t = 0; t < shape->n_triangles; t++) {
        double c[3][3];
        for (int k = 0; k < 3; k++) corner_of(shape, pose, t, k, c[k]);
        for (int i = 0; i <= STEPS; i++)
            for (int j = 0; i + j <= STEPS; j++, n++)
                for (int k = 0; k < 3; k++)
                    samples[n][k] = (i * c[0][k] + j * c[1][k] + (STEPS - i - j) * c[2][k]) / STEPS;
    }
    return samples;
}

/* How far a point is from the nearest triangle of a shape, by its planes and edges. */
static double distance_to(const struct shape *shape, const double pose[12], const double at[3]) {
    double nearest = INFINITY;
    for (uint32_t t = 0; t < shape->n_triangles; t++) {
        double c[3][3], u = 0, v = 0, best = INFINITY;
        for (int k = 0; k < 3; k++) corner_of(shape, pose, t, k, c[k]);
        /* Descends on the triangle: it is convex, so this ends at the closest point. */
        double uu = 0, uv = 0, vv = 0, up = 0, vp = 0;
        for (int k = 0; k < 3; k++) {
            const double a = c[1][k] - c[0][k], b = c[2][k] - c[0][k], p = at[k] - c[0][k];
            uu += a * a;
            uv += a * b;
            vv += b * b;
            up += a * p;
            vp += b * p;
        }
        for (int round = 0; round < 300; round++) {
            u = fmin(fmax((up - uv * v) / uu, 0), 1 - v);
            v = fmin(fmax((vp - uv * u) / vv, 0), 1 - u);
            /* Along the edge opposite to the first corner. */
            const double across = uu - 2 * uv + vv, slope = (up - uu * u - uv * v) - (vp - uv * u - vv * v);
            const double move = fmin(fmax(slope / across, -u), v);
            u += move;
            v -= move;
        }
        best = 0;
        for (int k = 0; k < 3; k++) {
            const double d = at[k] - c[0][k] - u * (c[1][k] - c[0][k]) - v * (c[2][k] - c[0][k]);
            best += d * d;
        }
        nearest = fmin(nearest, best);
    }
    return sqrt(nearest);
}

/* Random poses: no sample of one surface is closer to a sample of the other; the points are on the surfaces. The same
 * bits by any number of threads and with triangles and vertices shuffled, and mirrored with bodies in the other order.
 */
static void test_random_pairs(void **state) {
    (void)state;
    ct_engine *other = stage_engine(3, "base");
    struct shape a = shape_blob(0.5, 3, 0.4, 3), b = shape_torus(0.4, 0.1, 24, 12), shuffled = shape_copy(&b);
    uint64_t rng = 21;
    shape_shuffle(&shuffled, &rng);
    int n_found = 0;
    for (int i = 0; i < 24; i++) {
        double pose[2][12];
        for (int k = 0; k < 2; k++) shape_pose_random(&rng, 0.8, pose[k]);
        const struct placed bodies[] = {{&a, pose[0], 0, 0}, {&b, pose[1], 0, 0}};
        const struct placed again[] = {{&a, pose[0], 0, 0}, {&shuffled, pose[1], 0, 0}};
        const struct placed turned[] = {{&b, pose[1], 0, 0}, {&a, pose[0], 0, 0}};
        const ct_scene_settings settings = with_margin(0.3);
        ct_result *r[4] = {stage_once(engine, &settings, bodies, 2, 0), stage_once(other, &settings, bodies, 2, 0),
                           stage_once(engine, &settings, again, 2, 0), stage_once(engine, &settings, turned, 2, 0)};
        for (int k = 1; k < 4; k++) assert_int_equal(r[k]->n_separations, r[0]->n_separations);
        double(*samples[2])[3] = {samples_of(&a, pose[0]), samples_of(&b, pose[1])};
        double sampled = INFINITY;
        for (size_t p = 0; p < a.n_triangles * SAMPLES && r[0]->n_contacts == 0; p += 3)
            for (size_t q = 0; q < b.n_triangles * SAMPLES; q += 7) {
                double squared = 0;
                for (int k = 0; k < 3; k++)
                    squared += (samples[0][p][k] - samples[1][q][k]) * (samples[0][p][k] - samples[1][q][k]);
                sampled = fmin(sampled, squared);
            }
        for (int k = 0; k < 2; k++) free(samples[k]);
        sampled = sqrt(sampled);
        if (r[0]->n_separations) {
            const ct_separation *s = r[0]->separations, *mirror = r[3]->separations;
            n_found++;
            check_separation(s);
            for (int k = 1; k < 3; k++) assert_memory_equal(r[k]->separations, s, sizeof *s);
            assert_true(mirror->distance == s->distance);
            for (int k = 0; k < 3; k++) {
                assert_true(mirror->normal[k] == -s->normal[k]);
                assert_true(mirror->point[0][k] == s->point[1][k] && mirror->point[1][k] == s->point[0][k]);
            }
            assert_true(s->distance <= sampled + 1e-12);
            assert_true(s->distance >= sampled - 0.03); /* about a step between samples */
            near(distance_to(&a, pose[0], s->point[0]), 0, 1e-7);
            near(distance_to(&b, pose[1], s->point[1]), 0, 1e-7);
            /* From either point, the other surface is as far away as that. */
            near(distance_to(&b, pose[1], s->point[0]), s->distance, 1e-7);
            near(distance_to(&a, pose[0], s->point[1]), s->distance, 1e-7);
        } else if (r[0]->n_contacts == 0) {
            assert_true(sampled > 0.3);
        }
        for (int k = 0; k < 4; k++) ct_result_free(&r[k]);
    }
    assert_true(n_found >= 6);
    shape_free(&a);
    shape_free(&b);
    shape_free(&shuffled);
    ct_engine_destroy(&other);
}

/* Many bodies: those that are filtered out are not listed; pairs come in order, and updates move bodies. */
static void test_filters_and_order(void **state) {
    (void)state;
    struct shape box = shape_box(1, 1, 1);
    ct_scene *scene;
    ct_scene_settings settings = with_margin(0.5);
    assert_int_equal(ct_scene_create(engine, &settings, &scene, NULL), CT_OK);
    ct_mesh *mesh = shape_to_mesh(&box, NULL);
    uint32_t ids[5];
    for (uint32_t i = 0; i < 5; i++) { /* in a row, 0.25 apart */
        ct_body_options options;
        ct_body_options_init(&options);
        options.kind = CT_BODY_RIGID;
        options.pose[3] = 1.25 * i;
        if (i == 2) options.mask = 2; /* meets none */
        if (i == 4) {
            options.ignore = &ids[3];
            options.n_ignore = 1;
        }
        assert_int_equal(ct_scene_add_body(scene, mesh, &options, &ids[i], NULL), CT_OK);
    }
    ct_mesh_release(&mesh);
    ct_step step = {.scene = scene};
    assert_int_equal(ct_engine_run(engine, &step, 1), CT_OK);
    assert_int_equal(step.result->n_separations, 1);
    assert_int_equal(step.result->separations[0].body[0], ids[0]);
    assert_int_equal(step.result->separations[0].body[1], ids[1]);
    near(step.result->separations[0].normal[0], -1, 1e-12);
    ct_result_free(&step.result);
    ct_update update = {.body = ids[4], .kind = CT_UPDATE_POSE};
    shape_pose_identity(update.pose);
    update.pose[11] = 1.125;
    ct_step moved = {.scene = scene, .updates = &update, .n_updates = 1};
    assert_int_equal(ct_engine_run(engine, &moved, 1), CT_OK);
    assert_int_equal(moved.result->n_separations, 3);
    const double distances[] = {0.25, 0.125, sqrt(0.25 * 0.25 + 0.125 * 0.125)};
    const uint32_t of[3][2] = {{0, 1}, {0, 4}, {1, 4}};
    for (int i = 0; i < 3; i++) {
        check_separation(&moved.result->separations[i]);
        for (int b = 0; b < 2; b++) assert_int_equal(moved.result->separations[i].body[b], ids[of[i][b]]);
        near(moved.result->separations[i].distance, distances[i], 1e-12);
    }
    ct_result_free(&moved.result);
    ct_scene_destroy(&scene);
    shape_free(&box);
}

static void test_refusals(void **state) {
    (void)state;
    const double bad[] = {-1, NAN, INFINITY, 1e31};
    ct_scene *scene;
    for (int i = 0; i < 4; i++) {
        const ct_scene_settings settings = with_margin(bad[i]);
        ct_error error = {0};
        assert_int_equal(ct_scene_create(engine, &settings, &scene, &error), CT_OUT_OF_RANGE);
        assert_string_equal(error.field, "margin");
    }
}

static int open_engine(void **state) {
    (void)state;
    engine = stage_engine(2, NULL);
    return 0;
}

static int close_engine(void **state) {
    (void)state;
    ct_engine_destroy(&engine);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_boxes),        cmocka_unit_test(test_margin),
        cmocka_unit_test(test_not_examined), cmocka_unit_test(test_half_spaces),
        cmocka_unit_test(test_random_pairs), cmocka_unit_test(test_filters_and_order),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}

/* test_separation.c - distances of bodies within a margin against closed forms, against all pairs of triangles, and
 * against all pairs of sampled features; half-spaces, deformable and touching bodies, filters; equal bits whatever the
 * order and the threads; how many features are compared, what a step lists at most, and steps that are cancelled. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/after/separation.h"
#include "gpu/scene/scene.h"
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

/* ---- against all pairs of triangles ---- */

static double dot(const double a[3], const double b[3]) {
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static double squared_between(const double p[3], const double q[3]) {
    const double d[3] = {p[0] - q[0], p[1] - q[1], p[2] - q[2]};
    return dot(d, d);
}

/* The least of what is found inside of both segments and from each of their four ends. */
static double squared_of_segments(const double p[3], const double p2[3], const double q[3], const double q2[3]) {
    double d[3], e[3], r[3], best = INFINITY;
    for (int k = 0; k < 3; k++) {
        d[k] = p2[k] - p[k];
        e[k] = q2[k] - q[k];
        r[k] = p[k] - q[k];
    }
    const double dd = dot(d, d), ee = dot(e, e), de = dot(d, e), dr = dot(d, r), er = dot(e, r);
    const double det = dd * ee - de * de;
    for (int i = 0; i < 5; i++) {
        double u = i == 1 ? 0 : i == 2 ? 1 : 0, v = i == 3 ? 0 : i == 4 ? 1 : 0;
        if (i == 0) {
            u = det > 0 ? fmin(fmax((de * er - ee * dr) / det, 0), 1) : 0;
            v = fmin(fmax((er + u * de) / ee, 0), 1);
        } else if (i < 3) {
            v = fmin(fmax((er + u * de) / ee, 0), 1);
        } else {
            u = fmin(fmax((v * de - dr) / dd, 0), 1);
        }
        double a[3], b[3];
        for (int k = 0; k < 3; k++) {
            a[k] = p[k] + u * d[k];
            b[k] = q[k] + v * e[k];
        }
        best = fmin(best, squared_between(a, b));
    }
    return best;
}

/* From a point to the inside of a triangle, if it is over it. */
static double squared_over(const double p[3], double t[3][3]) {
    double a[3], b[3], n[3], r[3];
    for (int k = 0; k < 3; k++) {
        a[k] = t[1][k] - t[0][k];
        b[k] = t[2][k] - t[0][k];
        r[k] = p[k] - t[0][k];
    }
    for (int k = 0; k < 3; k++) n[k] = a[(k + 1) % 3] * b[(k + 2) % 3] - a[(k + 2) % 3] * b[(k + 1) % 3];
    const double aa = dot(a, a), bb = dot(b, b), ab = dot(a, b), ra = dot(r, a), rb = dot(r, b), det = dot(n, n);
    const double u = (bb * ra - ab * rb) / det, v = (aa * rb - ab * ra) / det;
    if (u < 0 || v < 0 || u + v > 1) return INFINITY;
    return dot(r, n) * dot(r, n) / det;
}

/* Of bodies that do not cross. */
static double distance_of(const struct placed *a, const struct placed *b) {
    double best = INFINITY;
    for (uint32_t i = 0; i < a->shape->n_triangles; i++)
        for (uint32_t j = 0; j < b->shape->n_triangles; j++) {
            double p[3][3], q[3][3];
            for (int k = 0; k < 3; k++) {
                corner_of(a->shape, a->pose, i, k, p[k]);
                corner_of(b->shape, b->pose, j, k, q[k]);
            }
            for (int k = 0; k < 3; k++) {
                best = fmin(best, fmin(squared_over(p[k], q), squared_over(q[k], p)));
                for (int l = 0; l < 3; l++)
                    best = fmin(best, squared_of_segments(p[k], p[(k + 1) % 3], q[l], q[(l + 1) % 3]));
            }
        }
    return sqrt(best);
}

enum { MIXED = 6, CROWD = 24 };

static void make_mixed(struct shape shapes[MIXED]) {
    shapes[0] = shape_box(1, 0.7, 0.4);
    shapes[1] = shape_l_prism(1, 0.3);
    shapes[2] = shape_tetrahedron(1);
    shapes[3] = shape_icosphere(0.5, 1);
    shapes[4] = shape_torus(0.4, 0.1, 12, 8); /* more than one cluster */
    shapes[5] = shape_cylinder(0.1, 1, 12);
}

/* Bodies that nothing keeps apart but chance: one in three is turned by nothing, so that some faces are parallel. */
static void make_crowd(const struct shape shapes[MIXED], struct placed bodies[CROWD], double poses[CROWD][12],
                       double reach) {
    uint64_t rng = 5;
    for (int i = 0; i < CROWD; i++) {
        double turned[12];
        shape_pose_random(&rng, reach, turned);
        if (i % 3 == 0) {
            shape_pose_identity(poses[i]);
            for (int k = 0; k < 3; k++) poses[i][4 * k + 3] = turned[4 * k + 3];
        } else {
            memcpy(poses[i], turned, sizeof turned);
        }
        bodies[i] = (struct placed){&shapes[i % MIXED], poses[i], 0, 0};
    }
}

static bool has_contact(const ct_result *r, uint32_t a, uint32_t b) {
    for (size_t i = 0; i < r->n_contacts; i++)
        if (r->contacts[i].body[0] == a && r->contacts[i].body[1] == b) return true;
    return false;
}

/* All pairs in reach: each has a contact or a separation, which is as brute force has it. */
static void test_all_in_reach(void **state) {
    (void)state;
    struct shape shapes[MIXED];
    make_mixed(shapes);
    for (int dense = 0; dense < 2; dense++) {
        struct placed bodies[CROWD];
        double poses[CROWD][12];
        make_crowd(shapes, bodies, poses, dense ? 1 : 30);
        const ct_scene_settings settings = with_margin(1e9);
        ct_result *r = stage_once(engine, &settings, bodies, CROWD, CT_WANT_FRAME);
        size_t at = 0;
        for (uint32_t a = 0; a < CROWD; a++)
            for (uint32_t b = a + 1; b < CROWD; b++) {
                if (has_contact(r, a + 1, b + 1)) continue;
                assert_true(at < r->n_separations);
                const ct_separation *s = &r->separations[at++];
                assert_true(s->body[0] == a + 1 && s->body[1] == b + 1);
                check_separation(s);
                near(s->distance, distance_of(&bodies[a], &bodies[b]), 1e-12);
            }
        assert_int_equal(at, r->n_separations);
        assert_true(dense ? r->n_contacts > 20 && r->n_separations > 20 : r->n_contacts == 0);
        ct_result_free(&r);
    }
    for (int i = 0; i < MIXED; i++) shape_free(&shapes[i]);
}

/* ---- many bodies ---- */

/* Boxes turned at random. */
static ct_scene *open_boxes(ct_engine *on, uint32_t n, double reach, double margin) {
    struct shape box = shape_box(1, 1, 1);
    const ct_scene_settings settings = with_margin(margin);
    ct_scene *scene;
    uint64_t rng = 3;
    assert_int_equal(ct_scene_create(on, &settings, &scene, NULL), CT_OK);
    ct_mesh *mesh = shape_to_mesh(&box, NULL);
    for (uint32_t i = 0; i < n; i++) {
        ct_body_options options;
        uint32_t id;
        ct_body_options_init(&options);
        options.kind = CT_BODY_RIGID;
        shape_pose_random(&rng, reach, options.pose);
        assert_int_equal(ct_scene_add_body(scene, mesh, &options, &id, NULL), CT_OK);
    }
    ct_mesh_release(&mesh);
    shape_free(&box);
    return scene;
}

static ct_result *step_of(ct_engine *on, ct_scene *scene) {
    ct_step step = {.scene = scene};
    if (ct_engine_run(on, &step, 1)) fail_msg("%s", step.error.message);
    return step.result;
}

static void test_threads(void **state) {
    (void)state;
    const uint32_t threads[] = {1, 2, 7};
    ct_result *expected = NULL;
    for (int i = 0; i < 3; i++) {
        ct_engine *on = stage_engine(threads[i], NULL);
        ct_scene *scene = open_boxes(on, 200, 15, 1e9);
        ct_result *r = step_of(on, scene);
        if (!expected) expected = r;
        assert_true(r->n_separations > 19000 && r->n_separations == expected->n_separations);
        assert_memory_equal(r->separations, expected->separations, r->n_separations * sizeof *r->separations);
        if (r != expected) ct_result_free(&r);
        ct_scene_destroy(&scene);
        ct_engine_destroy(&on);
    }
    ct_result_free(&expected);
}

/* Pairs of features that the search of a scene compares. */
static uint64_t count_compared(ct_scene *scene, size_t *n_separations) {
    ct_result *r = step_of(engine, scene);
    uint64_t compared;
    free(r->separations);
    r->separations = NULL;
    r->n_separations = 0;
    assert_int_equal(ct_result_add_separations(scene, r, &compared, NULL), CT_OK);
    *n_separations = r->n_separations;
    ct_result_free(&r);
    return compared;
}

/* Two boxes have 12 corners, 36 edges and 24 faces, which is some 4,700 pairs when triangles are compared one by one.
 * Of two tori that are linked, and of slabs that are parallel, few features are near one another. */
static void test_compared(void **state) {
    (void)state;
    size_t n;
    ct_scene *boxes = open_boxes(engine, 100, 30, 1e9);
    const uint64_t of_boxes = count_compared(boxes, &n);
    assert_true(n > 4900 && of_boxes < 150 * n);
    ct_scene_destroy(&boxes);

    struct shape torus = shape_torus(0.5, 0.05, 96, 32), slab = shape_slab(1, 0.1, 0, 5, 40);
    double turned[12], above[12], skew[12];
    shape_pose_axis((const double[]){1, 0.1, 0}, 0.25, (const double[]){0.5, 0.01, 0}, turned);
    shape_pose_axis((const double[]){1, 2, 3}, 0.1, (const double[]){0, 0, 0}, skew);
    memcpy(above, skew, sizeof above);
    for (int k = 0; k < 3; k++) above[4 * k + 3] += 0.15 * skew[4 * k + 2];
    const struct placed pairs[][2] = {{{&torus, NULL, 0, 0}, {&torus, turned, 0, 0}},
                                      {{&slab, skew, 0, 0}, {&slab, above, 0, 0}}};
    for (int i = 0; i < 2; i++) {
        const ct_scene_settings settings = with_margin(1);
        struct stage stage = stage_open(engine, &settings, pairs[i], 2);
        const uint64_t compared = count_compared(stage.scene, &n);
        assert_int_equal(n, 1);
        assert_true(compared < 2000000); /* all pairs of triangles are more than 30 million, of 33 features each */
        stage_close(&stage);
    }
    shape_free(&torus);
    shape_free(&slab);
}

/* A step that is cancelled while it searches says so, and the next one gives the same bits as ever. */
static void test_cancelled(void **state) {
    (void)state;
    ct_scene *scene = open_boxes(engine, 120, 15, 1e9);
    ct_result *expected = step_of(engine, scene);
    int n_searching = 0;
    for (uint64_t poll = 1;; poll += 1 + poll / 4) {
        ct_cancel cancel;
        ct_cancel_init(&cancel, 0);
        cancel.at_poll = poll;
        ct_step step = {.scene = scene, .cancel = &cancel};
        const ct_status status = ct_engine_run(engine, &step, 1);
        if (!status) {
            ct_result_free(&step.result);
            break;
        }
        assert_int_equal(status, CT_CANCELLED);
        assert_null(step.result);
        n_searching += !strcmp(ct_cancel_where(&cancel).phase, "finding separations");
        ct_result *r = step_of(engine, scene);
        assert_int_equal(r->n_separations, expected->n_separations);
        assert_memory_equal(r->separations, expected->separations, r->n_separations * sizeof *r->separations);
        ct_result_free(&r);
    }
    assert_true(n_searching >= 5);
    ct_result_free(&expected);
    ct_scene_destroy(&scene);
}

static void check_too_many(ct_scene *scene, const char *count) {
    ct_step step = {.scene = scene};
    assert_int_equal(ct_engine_run(engine, &step, 1), CT_LIMIT_EXCEEDED);
    assert_null(step.result);
    assert_string_equal(step.error.field, "margin");
    assert_non_null(strstr(step.error.message, count));
    assert_non_null(strstr(step.error.message, "use a smaller margin"));
}

/* What is too much is an error, not a shortened list: boxes that are surely within the margin, and more of them than
 * are looked at; above half-spaces, that takes a search. As many as a step lists are listed. */
static void test_too_many(void **state) {
    (void)state;
    ct_scene_settings few = with_margin(0.01);
    const uint32_t sizes[] = {1450, 4098};
    const char *const counts[] = {"1050525 pairs of bodies", "8388608 pairs of bodies"};
    for (int i = 0; i < 2; i++) {
        ct_scene *scene = open_boxes(engine, sizes[i], 1000, 1e9);
        check_too_many(scene, counts[i]);
        assert_int_equal(ct_scene_configure(scene, &few, NULL), CT_OK);
        ct_result *r = step_of(engine, scene); /* a smaller margin helps */
        ct_result_free(&r);
        ct_scene_destroy(&scene);
    }

    struct shape tetrahedron = shape_tetrahedron(1);
    ct_mesh *mesh = shape_to_mesh(&tetrahedron, NULL);
    const ct_scene_settings settings = with_margin(1e9);
    ct_scene *scene;
    assert_int_equal(ct_scene_create(engine, &settings, &scene, NULL), CT_OK);
    uint32_t last = 0;
    for (uint32_t i = 0; i < 1024 + 1025; i++) {
        ct_body_options options;
        ct_body_options_init(&options);
        options.kind = CT_BODY_RIGID;
        options.group = i < 1024 ? 1 : 2;
        options.mask = i < 1024 ? 2 : 1;
        options.pose[3] = i;
        if (i < 1024)
            assert_int_equal(ct_scene_add_half_space(scene, (const double[]){0, 0, 1}, -1.0 - i, &options, &last, NULL),
                             CT_OK);
        else
            assert_int_equal(ct_scene_add_body(scene, mesh, &options, &last, NULL), CT_OK);
    }
    check_too_many(scene, "at most 1048576");
    assert_int_equal(ct_scene_remove_body(scene, last, NULL), CT_OK);
    ct_result *r = step_of(engine, scene);
    assert_int_equal(r->n_separations, CT_MAX_SEPARATIONS);
    for (size_t i = 0; i < r->n_separations; i++) near(r->separations[i].distance, 1 + (double)(i / 1024), 1e-9);
    ct_result_free(&r);
    ct_scene_destroy(&scene);
    ct_mesh_release(&mesh);
    shape_free(&tetrahedron);
}

static void test_refusals(void **state) {
    (void)state;
    const double bad[] = {-1, NAN, INFINITY, 1e31};
    ct_scene *scene;
    for (int i = 0; i < 4; i++) {
        const ct_scene_settings settings = with_margin(bad[i]);
        ct_error error = {0};
        assert_int_equal(ct_scene_create(engine, &settings, &scene, &error),
                         isfinite(bad[i]) ? CT_OUT_OF_RANGE : CT_NON_FINITE);
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
        cmocka_unit_test(test_refusals),     cmocka_unit_test(test_all_in_reach),
        cmocka_unit_test(test_threads),      cmocka_unit_test(test_compared),
        cmocka_unit_test(test_cancelled),    cmocka_unit_test(test_too_many),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}

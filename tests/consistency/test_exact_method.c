/* test_exact_method.c - the method `exact` against closed forms and against brute force in extended precision: volumes
 * within the bound that comes with them, gradients at every vertex, no contact where there is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/consistency/engine.h"
#include "tests/scenes/build.h"
#include "tests/scenes/overlap.h"

static ct_result *run(const struct placed *bodies, int n) {
    const ct_scene_settings settings = stage_exact();
    return stage_once(engine, &settings, bodies, n, CT_WANT_ALL);
}

static ct_result *run_pair(const struct shape *a, const double *pose_a, const struct shape *b, const double *pose_b) {
    return run((struct placed[]){{a, pose_a, CT_BODY_RIGID}, {b, pose_b, CT_BODY_RIGID}}, 2);
}

static const ct_contact *only_contact(const ct_result *result) {
    assert_int_equal(result->n_contacts, 1);
    return result->contacts;
}

static void shift(double pose[12], double x, double y, double z) {
    shape_pose_identity(pose);
    pose[3] = x, pose[7] = y, pose[11] = z;
}

/* ---- what holds of every contact ---- */

/* dV/dx of a part at every vertex. */
static double *dense_gradient(const ct_result *result, const ct_contact *c, int part, uint32_t n_vertices) {
    double *g = shape_alloc(n_vertices, 3 * sizeof *g);
    for (uint64_t e = c->first[part]; e < c->first[part] + c->count[part]; e++) {
        assert_true(result->vertices[e] < n_vertices);
        if (e > c->first[part]) assert_true(result->vertices[e] > result->vertices[e - 1]);
        memcpy(g + 3 * (size_t)result->vertices[e], result->gradient + 3 * e, 3 * sizeof *g);
        assert_true(g[3 * (size_t)result->vertices[e]] != 0 || g[3 * (size_t)result->vertices[e] + 1] != 0 ||
                    g[3 * (size_t)result->vertices[e] + 2] != 0);
    }
    return g;
}

static void assert_sane(const ct_result *result, const ct_contact *c) {
    assert_true(c->volume > 0 && isfinite(c->volume));
    assert_true(c->error_bound >= 0 && c->error_bound < c->volume);
    assert_true(c->error_estimate == c->error_bound);
    assert_true(c->max_winding >= 1);
    assert_int_equal(c->index, 0);
    for (int k = 0; k < 3; k++) {
        assert_true(c->volumes[k] == c->volume);
        assert_true(c->generalized_gradient[0][k] == -c->generalized_gradient[1][k]);
    }
    for (int k = 0; k < 3; k++) { /* both bodies' gradients sum to 0, each to its 6-vector's first half */
        long double sum[2] = {0, 0}, size = 0;
        for (int part = 0; part < 2; part++)
            for (uint64_t e = c->first[part]; e < c->first[part] + c->count[part]; e++) {
                sum[part] += result->gradient[3 * e + (uint64_t)k];
                size += fabsl((long double)result->gradient[3 * e + (uint64_t)k]);
            }
        assert_true(fabsl(sum[0] + sum[1]) <= 0x1p-55L * size);
        assert_true(fabsl(sum[0] - c->generalized_gradient[0][k]) <= 0x1p-52L * size);
    }
}

/* ---- against brute force ---- */

struct errors {
    double volume, bound, gradient; /* the largest: volume's and bound relative to the volume, gradient's to its sum */
    int pairs, contacts;
};

static void transform_point(const double *pose, const float *p, double out[3]) {
    for (int k = 0; k < 3; k++)
        out[k] = pose ? pose[4 * k] * (double)p[0] + pose[4 * k + 1] * (double)p[1] + pose[4 * k + 2] * (double)p[2] +
                            pose[4 * k + 3]
                      : (double)p[k];
}

static double size_of(const struct shape *shape) {
    double reach = 0;
    for (size_t i = 0; i < 3 * (size_t)shape->n_vertices; i++) reach = fmax(reach, fabs((double)shape->positions[i]));
    return 2 * reach;
}

/* Compares the contact of two bodies with brute force. gradient_tolerance: relative to the sum of the gradient's sizes;
 * 0: the surfaces coincide, so that the gradient is not compared. */
static void check_pair(const struct shape *a, const double *pose_a, const struct shape *b, const double *pose_b,
                       double gradient_tolerance, struct errors *errors) {
    const struct shape *shapes[2] = {a, b};
    const double *poses[2] = {pose_a, pose_b};
    struct overlap expected = overlap_find(shapes, poses, gradient_tolerance > 0);
    ct_result *result = run_pair(a, pose_a, b, pose_b);
    const long double slack = 1e-17L * powl(fminl(size_of(a), size_of(b)), 3); /* the reference's rounding */
    errors->pairs++;
    if (!result->n_contacts) { /* too small to be told from none */
        assert_true(expected.volume <= 1e-10L * powl(fmaxl(size_of(a), size_of(b)), 3));
        ct_result_free(&result);
        overlap_free(&expected);
        return;
    }
    const ct_contact *c = only_contact(result);
    assert_sane(result, c);
    errors->contacts++;
    const long double error = fabsl((long double)c->volume - expected.volume);
    if (error > c->error_bound + slack)
        fail_msg("volume %.17g, expected %.17Lg: off by %.3Lg, bound %.3g", c->volume, expected.volume, error,
                 c->error_bound);
    errors->volume = fmax(errors->volume, (double)(error / expected.volume));
    errors->bound = fmax(errors->bound, c->error_bound / c->volume);
    double worst = 0, size = 0;
    long double trace = 0;
    for (int part = 0; part < 2; part++) {
        double *g = dense_gradient(result, c, part, shapes[part]->n_vertices);
        for (uint32_t v = 0; v < shapes[part]->n_vertices; v++) {
            double p[3];
            transform_point(poses[part], shapes[part]->positions + 3 * (size_t)v, p);
            for (int k = 0; k < 3; k++) {
                const double of = g[3 * (size_t)v + (size_t)k];
                trace += (long double)of * ((long double)p[k] - (pose_a ? pose_a[4 * k + 3] : 0));
                size += fabs(of);
                if (gradient_tolerance > 0)
                    worst = fmax(worst, fabs(of - expected.gradient[part][3 * (size_t)v + (size_t)k]));
            }
        }
        free(g);
    }
    /* V is homogeneous of degree 3. The gradient counts from another origin than the volume, whose bound does not hold
     * for it. */
    const long double off = fabsl(trace / 3 - c->volume);
    const long double allowed = c->error_bound + 1e-10L * (c->volume + size * fmaxl(size_of(a), size_of(b)));
    if (off > allowed) fail_msg("volume %.17g, from the gradient off by %.3Lg of %.3Lg", c->volume, off, allowed);
    if (worst > gradient_tolerance * size)
        fail_msg("gradient off by %.3g of %.3g (volume %.3g)", worst, size, c->volume);
    errors->gradient = fmax(errors->gradient, worst / size);
    ct_result_free(&result);
    overlap_free(&expected);
}

static void print_errors(const char *name, const struct errors *errors) {
    print_message("%-20s %4d pairs, %4d in contact; relative errors: volume %.1e (bound %.1e), gradient %.1e\n", name,
                  errors->pairs, errors->contacts, errors->volume, errors->bound, errors->gradient);
}

enum { KINDS = 9 };

static struct shape shape_of_kind(int kind, uint64_t *rng) {
    switch (kind) {
    case 0:
        return shape_box(shape_uniform(rng, 0.3, 1.5), shape_uniform(rng, 0.3, 1.5), shape_uniform(rng, 0.3, 1.5));
    case 1:
        return shape_tetrahedron(shape_uniform(rng, 0.8, 1.5));
    case 2:
        return shape_l_prism(1.2, shape_uniform(rng, 0.2, 1));
    case 3:
        return shape_icosphere(0.6, 1);
    case 4:
        return shape_torus(0.6, 0.25, 10, 6);
    case 5:
        return shape_cylinder(0.4, shape_uniform(rng, 0.5, 1.5), 12);
    case 6:
        return shape_blob(0.7, 2, 0.5, shape_random(rng));
    case 7:
        return shape_box(1.5, 1.5, 0.01); /* a plate */
    default:
        return shape_bolt(0.5, 0.12, 0.3, 2, 8, 6);
    }
}

static void test_random_pairs(void **state) {
    (void)state;
    uint64_t rng = 1;
    struct errors errors = {0};
    for (int i = 0; i < 3 * KINDS * (KINDS + 1) / 2; i++) {
        static const int kind_of[45][2] = {{0, 0}, {0, 1}, {0, 2}, {0, 3}, {0, 4}, {0, 5}, {0, 6}, {0, 7}, {0, 8},
                                           {1, 1}, {1, 2}, {1, 3}, {1, 4}, {1, 5}, {1, 6}, {1, 7}, {1, 8}, {2, 2},
                                           {2, 3}, {2, 4}, {2, 5}, {2, 6}, {2, 7}, {2, 8}, {3, 3}, {3, 4}, {3, 5},
                                           {3, 6}, {3, 7}, {3, 8}, {4, 4}, {4, 5}, {4, 6}, {4, 7}, {4, 8}, {5, 5},
                                           {5, 6}, {5, 7}, {5, 8}, {6, 6}, {6, 7}, {6, 8}, {7, 7}, {7, 8}, {8, 8}};
        struct shape a = shape_of_kind(kind_of[i % 45][0], &rng), b = shape_of_kind(kind_of[i % 45][1], &rng);
        double pose[2][12];
        shape_pose_random(&rng, 0.4, pose[0]);
        shape_pose_random(&rng, 0.4, pose[1]);
        check_pair(&a, pose[0], &b, pose[1], 1e-8, &errors);
        shape_free(&a);
        shape_free(&b);
    }
    print_errors("random pairs", &errors);
    assert_true(errors.contacts > 100);
}

/* ---- closed forms ---- */

/* Bodies of about 1 m whose coordinates lie on the lattice: what is left is the rounding of sums. */
static void assert_volume(const ct_contact *c, double expected) {
    assert_true(fabs(c->volume - expected) <= c->error_bound);
    assert_true(c->error_bound <= 2e-11);
}

/* Unit cubes at all multiples of a quarter: faces, edges and corners coincide in all ways. The gradient is the mean of
 * those of the cubes moved apart by a little and towards each other, so it is 0 along axes where they coincide. */
static void test_cubes_at_quarters(void **state) {
    (void)state;
    struct shape cube = shape_box(1, 1, 1), fine = shape_cube(1, 4);
    for (int i = 0; i < 9 * 9 * 9; i++) {
        const int at[3] = {i % 9 - 4, i / 9 % 9 - 4, i / 81 - 4};
        double pose[12], side[3], volume = 1;
        shift(pose, at[0] / 4.0, at[1] / 4.0, at[2] / 4.0);
        for (int k = 0; k < 3; k++) {
            side[k] = 1 - abs(at[k]) / 4.0;
            volume *= side[k];
        }
        for (int pair = 0; pair < 3; pair++) {
            ct_result *result = run_pair(pair & 1 ? &fine : &cube, NULL, pair & 2 ? &fine : &cube, pose);
            if (volume == 0) {
                assert_int_equal(result->n_contacts, 0);
                assert_int_equal(result->n_entries, 0);
            } else {
                const ct_contact *c = only_contact(result);
                assert_sane(result, c);
                assert_volume(c, volume);
                assert_int_equal(c->max_winding, 1);
                for (int k = 0; k < 3; k++) {
                    const double face = volume / side[k], sign = (at[k] > 0) - (at[k] < 0);
                    assert_float_equal(c->generalized_gradient[0][k], sign * face, 1e-12);
                    assert_float_equal(c->center[k], at[k] / 8.0, 1e-9);
                }
            }
            ct_result_free(&result);
        }
    }
    shape_free(&cube);
    shape_free(&fine);
}

static void compose(const double a[12], const double b[12], double out[12]) {
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 4; j++) {
            out[4 * i + j] = j == 3 ? a[4 * i + 3] : 0;
            for (int k = 0; k < 3; k++) out[4 * i + j] += a[4 * i + k] * b[4 * k + j];
        }
}

/* The same, turned: coordinates are rounded, so faces no longer coincide exactly, and the bound covers that. */
static void test_turned_cubes(void **state) {
    (void)state;
    uint64_t rng = 3;
    struct shape cube = shape_box(1, 1, 1);
    for (int i = 0; i < 200; i++) {
        double at[12], turn[12], pose[12], volume = 1;
        int steps[3];
        for (int k = 0; k < 3; k++) {
            steps[k] = (int)(shape_random(&rng) % 9) - 4;
            volume *= 1 - abs(steps[k]) / 4.0;
        }
        shift(at, steps[0] / 4.0, steps[1] / 4.0, steps[2] / 4.0);
        shape_pose_random(&rng, 100, turn);
        compose(turn, at, pose);
        ct_result *result = run_pair(&cube, turn, &cube, pose);
        if (volume == 0) {
            assert_int_equal(result->n_contacts, 0);
        } else {
            const ct_contact *c = only_contact(result);
            assert_sane(result, c);
            /* The poses themselves are rounded to double. */
            assert_true(fabs(c->volume - volume) <= c->error_bound + 1e-12);
            assert_true(c->error_bound <= 1e-8 * volume);
        }
        ct_result_free(&result);
    }
    shape_free(&cube);
}

static void test_apart(void **state) {
    (void)state;
    struct shape cube = shape_box(1, 1, 1), ball = shape_icosphere(1, 3), ring = shape_torus(1, 0.2, 24, 12);
    double pose[12];
    const double gaps[] = {0, 0x1p-23, 1e-12, 1e-3, 5};
    for (int i = 0; i < 5; i++) {
        shift(pose, 1 + gaps[i], 0.25, 0);
        ct_result *result = run_pair(&cube, NULL, &cube, pose);
        assert_int_equal(result->n_contacts, 0);
        ct_result_free(&result);
    }
    shift(pose, 2, 0, 0);
    ct_result *result = run_pair(&ball, NULL, &ball, pose);
    assert_int_equal(result->n_contacts, 0);
    ct_result_free(&result);
    shape_pose_axis((const double[]){1, 0, 0}, 0.25, (const double[]){1, 0, 0}, pose); /* links of a chain */
    result = run_pair(&ring, NULL, &ring, pose);
    assert_int_equal(result->pairs, 1);
    assert_int_equal(result->n_contacts, 0);
    ct_result_free(&result);
    shift(pose, 0, 0, 0);
    result = run_pair(&ring, NULL, &cube, pose); /* through the hole */
    assert_int_equal(result->n_contacts, 0);
    ct_result_free(&result);
    shape_free(&cube);
    shape_free(&ball);
    shape_free(&ring);
}

static void test_nested(void **state) {
    (void)state;
    uint64_t rng = 5;
    struct shape outer[] = {shape_box(4, 4, 4), shape_icosphere(2, 5), shape_cube(4, 12)};
    struct shape inner[] = {shape_box(1, 0.5, 0.25), shape_blob(0.8, 4, 0.4, 2), shape_tetrahedron(1)};
    for (int i = 0; i < 36; i++) {
        const struct shape *in = &inner[i % 3], *out = &outer[i / 3 % 3];
        double pose[2][12];
        shape_pose_random(&rng, 0.2, pose[0]);
        shape_pose_random(&rng, 0.2, pose[1]);
        ct_result *result = i % 2 ? run_pair(in, pose[0], out, pose[1]) : run_pair(out, pose[1], in, pose[0]);
        const ct_contact *c = only_contact(result);
        const int part = i % 2 ? 0 : 1;
        assert_sane(result, c);
        assert_true(fabs(c->volume - shape_volume(in)) <= c->error_bound + 1e-14);
        assert_int_equal(c->count[1 - part], 0);
        assert_true(c->count[part] > 0);
        for (int k = 0; k < 6; k++) {
            assert_float_equal(c->generalized_gradient[part][k], 0, 1e-9);
            assert_float_equal(c->generalized_gradient[1 - part][k], 0, 0);
        }
        ct_result_free(&result);
    }
    for (int i = 0; i < 3; i++) {
        shape_free(&outer[i]);
        shape_free(&inner[i]);
    }
}

/* A body and its copy in the same place: all faces coincide, so each body bears half of the gradient. */
static void test_identical_bodies(void **state) {
    (void)state;
    uint64_t rng = 6;
    struct shape shapes[] = {shape_box(1, 1, 1),
                             shape_cube(1, 5),
                             shape_blob(0.8, 3, 0.4, 2),
                             shape_icosphere(1, 5),
                             shape_l_prism(1, 0.5),
                             shape_torus(1, 0.4, 80, 40),
                             shape_bolt(1, 0.2, 0.3, 3, 30, 24),
                             shape_tetrahedron(1)};
    for (int i = 0; i < 8; i++) {
        for (int turned = 0; turned < 2; turned++) {
            double pose[12];
            shape_pose_identity(pose);
            if (turned) shape_pose_random(&rng, 3, pose);
            ct_result *result = run_pair(&shapes[i], pose, &shapes[i], pose);
            const ct_contact *c = only_contact(result);
            assert_sane(result, c);
            assert_true(fabs(c->volume - shape_volume(&shapes[i])) <= c->error_bound);
            assert_true(c->error_bound <= 1e-8 * c->volume);
            assert_int_equal(c->count[0], c->count[1]);
            for (uint64_t e = 0; e < 3 * c->count[0]; e++)
                assert_float_equal(result->gradient[3 * c->first[0] + e], result->gradient[3 * c->first[1] + e], 1e-11);
            for (int k = 0; k < 3; k++) assert_float_equal(c->generalized_gradient[0][k], 0, 1e-10);
            for (int k = 0; k < 3; k++) assert_true(c->normal[k] == 0); /* what the sum has is rounding */
            assert_true(c->area == 0 && c->depth == 0);
            ct_result_free(&result);
        }
        shape_free(&shapes[i]);
    }
}

/* The corner of a cube, pressed into a face by 10^-2 to 10^-5 of its side: its force is far above rounding. */
static void test_shallow_corner_has_a_normal(void **state) {
    (void)state;
    struct shape cube = shape_box(1, 1, 1), floor = shape_box(4, 4, 1);
    for (int e = 2; e <= 5; e++) {
        double pose[12], turn[12], below[12];
        shape_pose_axis((double[]){1, -1, 0}, acos(1 / sqrt(3)) / (2 * acos(-1)), (double[]){0, 0, 0}, turn);
        memcpy(pose, turn, sizeof pose);
        double lowest = 0;
        for (int c = 0; c < 8; c++)
            lowest = fmin(lowest, (c & 1 ? 0.5 : -0.5) * turn[8] + (c & 2 ? 0.5 : -0.5) * turn[9] +
                                      (c & 4 ? 0.5 : -0.5) * turn[10]);
        pose[11] = -lowest - pow(10, -e);
        shift(below, 0.1, 0.2, -0.5);
        ct_result *result = run_pair(&floor, below, &cube, pose);
        const ct_contact *c = only_contact(result);
        assert_float_equal(c->normal[2], -1, 1e-2);
        assert_true(c->area > 0);
        ct_result_free(&result);
    }
    shape_free(&cube);
    shape_free(&floor);
}

/* As far away as a pose may be, the shape is still what it is. */
static void test_at_the_limit_of_poses(void **state) {
    (void)state;
    struct shape cube = shape_box(1, 1, 1);
    double pose[2][12];
    for (int turned = 0; turned < 2; turned++) {
        for (int b = 0; b < 2; b++) {
            shape_pose_identity(pose[b]);
            if (turned) shape_pose_axis((double[]){1, 2, 3}, 0.1, (double[]){0, 0, 0}, pose[b]);
            pose[b][3] = CT_POSE_REACH - 2 + 0.5 * b, pose[b][7] = -CT_POSE_REACH + 2, pose[b][11] = 1000;
        }
        ct_result *result = run_pair(&cube, pose[0], &cube, pose[1]);
        const ct_contact *c = only_contact(result);
        struct placed near[] = {{&cube, pose[0], 0}, {&cube, pose[1], 0}};
        double own[2][12];
        for (int b = 0; b < 2; b++) {
            memcpy(own[b], pose[b], sizeof own[b]);
            own[b][3] = 0.5 * b, own[b][7] = own[b][11] = 0;
            near[b].pose = own[b];
        }
        ct_result *truth = run(near, 2);
        assert_true(fabs(c->volume - only_contact(truth)->volume) <= c->error_bound + truth->contacts->error_bound);
        assert_true(c->error_bound < 1e-3);
        ct_result_free(&truth);
        ct_result_free(&result);
    }
    shape_free(&cube);
}

/* A body against itself turned and moved by 10^-4 to 10^-14: all faces are nearly coplanar, their distances around and
 * below a unit of the lattice, so rounding moves surfaces through each other everywhere. */
static void test_nearly_coincident_bodies(void **state) {
    (void)state;
    uint64_t rng = 7;
    struct errors errors = {0};
    for (int i = 0; i < 66; i++) {
        struct shape shape = shape_of_kind(i % KINDS, &rng);
        const double by = pow(10, -4 - i / 6);
        double turn[12], nearly[12], pose[12];
        shape_pose_random(&rng, 1, turn);
        shape_pose_axis((double[]){shape_uniform(&rng, -1, 1), 1, 0.5}, by * shape_uniform(&rng, -1, 1),
                        (double[]){by * shape_uniform(&rng, -1, 1), by * shape_uniform(&rng, -1, 1), 0}, nearly);
        compose(turn, nearly, pose);
        check_pair(&shape, turn, &shape, pose, 0, &errors);
        shape_free(&shape);
    }
    print_errors("nearly coincident", &errors);
    assert_true(errors.contacts == errors.pairs && errors.volume < 1e-9);
}

/* A stack of equal boxes, each 1/64 deep in the next, with coincident sides: each pushes the next one straight up. */
static void test_stack(void **state) {
    (void)state;
    enum { N = 8 };
    struct shape box = shape_cube(1, 2);
    double poses[N][12];
    struct placed bodies[N];
    for (int i = 0; i < N; i++) {
        shift(poses[i], 0, 0, i * (1 - 0x1p-6));
        bodies[i] = (struct placed){&box, poses[i], i % 2 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE};
    }
    ct_result *result = run(bodies, N);
    assert_int_equal(result->n_contacts, N - 1);
    for (int i = 0; i < N - 1; i++) {
        const ct_contact *c = &result->contacts[i];
        assert_int_equal(c->body[0], i + 1);
        assert_int_equal(c->body[1], i + 2);
        assert_sane(result, c);
        assert_volume(c, 0x1p-6);
        for (int k = 0; k < 3; k++) {
            assert_float_equal(c->generalized_gradient[0][k], k == 2, 1e-12);
            assert_float_equal(c->normal[k], k == 2 ? -1 : 0, 1e-12);
            assert_float_equal(c->center[k], k == 2 ? 0.5 + i * (1 - 0x1p-6) - 0x1p-7 : 0, 1e-9);
        }
        assert_float_equal(c->generalized_gradient[0][3], 0, 1e-12);
        assert_float_equal(c->generalized_gradient[0][4], 0, 1e-12);
        assert_float_equal(c->area, 1, 1e-9);
        assert_float_equal(c->depth, 0x1p-6, 1e-9);
    }
    ct_result_free(&result);
    shape_free(&box);
}

/* ---- bodies of many pieces ---- */

static void append(struct shape *to, const struct shape *part, double x, double y, double z) {
    struct shape sum = shape_begin(to->n_vertices + part->n_vertices, to->n_triangles + part->n_triangles);
    const struct shape *parts[2] = {to, part};
    for (int i = 0; i < 2; i++) {
        const uint32_t first = sum.n_vertices;
        for (uint32_t v = 0; v < parts[i]->n_vertices; v++) {
            const float *p = parts[i]->positions + 3 * (size_t)v;
            shape_add_vertex(&sum, (double)p[0] + i * x, (double)p[1] + i * y, (double)p[2] + i * z);
        }
        for (uint32_t t = 0; t < parts[i]->n_triangles; t++) {
            const uint32_t *v = parts[i]->triangles + 3 * (size_t)t;
            shape_add_triangle(&sum, first + v[0], first + v[1], first + v[2]);
        }
    }
    shape_free(to);
    *to = sum;
}

static struct shape cubes(int n, double side, double pitch) {
    struct shape cube = shape_box(side, side, side), all = {0};
    for (int i = 0; i < n * n * n; i++) append(&all, &cube, pitch * (i % n), pitch * (i / n % n), pitch * (i / n / n));
    shape_free(&cube);
    return all;
}

/* Lattices of cubes that touch each other, stand apart or overlap each other, in all of which many faces coincide,
 * against themselves shifted, and against a box. */
static void test_lattices_of_cubes(void **state) {
    (void)state;
    static const double shifts[][3] = {{0, 0, 0}, {0.25, 0, 0}, {0.5, 0.5, 0.5}, {1, 0, 0}, {1, 1, 0.25}, {2, 3, -1}};
    struct errors errors = {0};
    for (int kind = 0; kind < 3; kind++) {
        struct shape lattice = cubes(4, (double[]){1, 0.5, 1.5}[kind], 1), box = shape_box(4, 3.5, 3);
        for (int i = 0; i < 6; i++) {
            double pose[12];
            shift(pose, shifts[i][0], shifts[i][1], shifts[i][2]);
            check_pair(&lattice, NULL, &lattice, pose, 0, &errors);
            check_pair(&lattice, pose, &box, NULL, 0, &errors);
        }
        ct_result *result = run_pair(&lattice, NULL, &lattice, NULL);
        assert_int_equal(only_contact(result)->max_winding, kind == 2 ? 8 : 1);
        ct_result_free(&result);
        shape_free(&lattice);
        shape_free(&box);
    }
    print_errors("lattices of cubes", &errors);
    assert_true(errors.volume < 1e-11 && errors.bound < 1e-9);
}

/* Bodies that overlap themselves count as often as they do. */
static void test_self_overlap(void **state) {
    (void)state;
    uint64_t rng = 8;
    struct errors errors = {0};
    for (int i = 0; i < 30; i++) {
        struct shape two = shape_icosphere(0.6, 1), other = shape_torus(0.6, 0.3, 10, 6);
        append(&two, &other, 0.25, 0, 0);
        if (i % 3 == 0) append(&two, &other, 0.25, 0, 0); /* two shells that coincide */
        if (i % 3 == 1) append(&other, &two, 0, 0.3, 0.1);
        double pose[12];
        shape_pose_random(&rng, 0.3, pose);
        check_pair(&two, NULL, &other, pose, 1e-9, &errors);
        shape_free(&two);
        shape_free(&other);
    }
    print_errors("self-overlap", &errors);
    struct shape shells = shape_box(1, 1, 1), box = shape_box(2, 2, 2);
    for (int i = 0; i < 4; i++) append(&shells, &box, 0, 0, 0);
    struct shape probe = shape_box(0.25, 0.25, 0.25);
    for (int i = 0; i < 2; i++) {
        double pose[12];
        shift(pose, i ? 1 : 0, 0, 0); /* in the middle, and half in the outer shells */
        ct_result *result = run_pair(&shells, NULL, &probe, pose);
        const ct_contact *c = only_contact(result);
        assert_volume(c, i ? 4 * 0x1p-7 : 5 * 0x1p-6);
        assert_int_equal(c->max_winding, i ? 4 : 5);
        ct_result_free(&result);
    }
    shape_free(&shells);
    shape_free(&box);
    shape_free(&probe);
}

/* A deformed body of two boxes, one of which is mirrored: inside out. What is in it counts negatively, and is counted.
 */
static void test_inverted_region(void **state) {
    (void)state;
    struct shape boxes = shape_box(1, 1, 1), probes = shape_box(0.5, 0.5, 0.5);
    const struct shape second = shape_box(1, 1, 1), probe = shape_box(0.25, 0.25, 0.25);
    append(&boxes, &second, 3, 0, 0);
    append(&probes, &probe, 3, 0, 0);
    double pose[12];
    shape_pose_identity(pose);
    const struct placed bodies[] = {{&boxes, NULL, CT_BODY_DEFORMABLE, 0}, {&probes, pose, 0, 0}};
    const ct_scene_settings settings[] = {stage_exact(), stage_pixel(1.0 / 64)};
    float *mirrored = malloc(boxes.n_vertices * 12);
    assert_non_null(mirrored);
    memcpy(mirrored, boxes.positions, boxes.n_vertices * 12);
    for (uint32_t v = 8; v < 16; v++) mirrored[3 * v] = 6 - mirrored[3 * v];
    for (int m = 0; m < 2; m++) {
        struct stage stage = stage_open(engine, &settings[m], bodies, 2);
        ct_result *whole = stage_step(&stage, NULL, 0, CT_WANT_ALL);
        assert_true(fabs(whole->contacts->volume - (0.125 + 0x1p-6)) < 1e-9);
        assert_int_equal(whole->contacts->inverted_triangles, 0);
        const ct_update update = {.body = stage.body[0],
                                  .kind = CT_UPDATE_POSITIONS,
                                  .positions = mirrored,
                                  .dtype = CT_F32,
                                  .count = boxes.n_vertices};
        ct_result *half = stage_step(&stage, &update, 1, CT_WANT_ALL);
        assert_true(fabs(half->contacts->volume - (m ? 0.125 : 0.125 - 0x1p-6)) < 1e-9);
        assert_int_equal(half->contacts->inverted_triangles, m ? 0 : 12); /* those of the probe in the mirrored box */
        ct_result_free(&whole);
        ct_result_free(&half);
        double moved[12];
        memcpy(moved, pose, sizeof moved);
        moved[7] = 0.5; /* through the box's side: some are crossed */
        const ct_update push = {.body = stage.body[1], .kind = CT_UPDATE_POSE};
        ct_update pushed = push;
        memcpy(pushed.pose, moved, sizeof moved);
        half = stage_step(&stage, &pushed, 1, CT_WANT_ALL);
        /* of the probe those that have a corner inside, and of the box none: the probe is not inside out */
        assert_int_equal(half->contacts->inverted_triangles, m ? 0 : 10);
        ct_result_free(&half);
        stage_close(&stage);
    }
    free(mirrored);
    shape_free(&boxes);
    shape_free(&probes);
    shape_free(&(struct shape[]){second}[0]);
    shape_free(&(struct shape[]){probe}[0]);
}

/* Thousands of boxes in one place, all through the middle of one face: inside all of them, but no corner of it is. */
static void test_deep_between_corners(void **state) {
    (void)state;
    for (int n = 20; n <= 2000; n *= 10) {
        struct shape box = shape_box(0.5, 0.5, 4), plate = shape_box(3, 3, 1);
        struct shape boxes = shape_begin(8 * (uint64_t)n, 12 * (uint64_t)n);
        for (int i = 0; i < n; i++) {
            const uint32_t first = boxes.n_vertices;
            for (uint32_t v = 0; v < 8; v++) {
                const float *p = box.positions + 3 * (size_t)v;
                shape_add_vertex(&boxes, (double)p[0], (double)p[1], (double)p[2]);
            }
            for (uint32_t t = 0; t < 12; t++) {
                const uint32_t *v = box.triangles + 3 * (size_t)t;
                shape_add_triangle(&boxes, first + v[0], first + v[1], first + v[2]);
            }
        }
        double pose[12];
        shift(pose, 0.001, 0.3, 0);
        ct_result *result = run_pair(&plate, NULL, &boxes, pose);
        const ct_contact *c = only_contact(result);
        assert_sane(result, c);
        assert_true(fabs(c->volume - 0.25 * n) <= c->error_bound);
        double lift[2] = {0, 0}; /* of the plate's upper and lower face */
        for (uint64_t e = c->first[0]; e < c->first[0] + c->count[0]; e++)
            lift[result->gradient[3 * e + 2] < 0] += result->gradient[3 * e + 2];
        assert_float_equal(lift[0], 0.25 * n, 1e-8 * n);
        assert_float_equal(lift[1], -0.25 * n, 1e-8 * n);
        ct_result_free(&result);
        shape_free(&box);
        shape_free(&plate);
        shape_free(&boxes);
    }
}

/* A comb whose edges touch a plate, to within a unit: hundreds of edges may or may not cross it. A peg is half in it.
 */
static void test_edges_on_a_face(void **state) {
    (void)state;
    uint64_t rng = 15;
    struct errors errors = {0};
    for (int i = 0; i < 16; i++) {
        enum { TEETH = 100 };
        struct shape comb = shape_begin(4 * TEETH + 6, 8 * TEETH + 8), plate = shape_box(4, 4, 1);
        for (int k = 0; k <= 2 * TEETH; k++) /* a zigzag from -1 to 1 along x, its edges along y */
            for (int side = -1; side <= 1; side += 2)
                shape_add_vertex(&comb, (double)(k - TEETH) / TEETH, side, k % 2 ? 0.5 : 0.625);
        for (int corner = -1; corner <= 1; corner += 2)
            for (int side = -1; side <= 1; side += 2) shape_add_vertex(&comb, corner, side, 1);
        const uint32_t n = 2 * TEETH, top = 2 * (n + 1); /* top: left front, left back, right front, right back */
        for (uint32_t k = 0; k < n; k++) {
            shape_add_quad(&comb, 2 * k, 2 * k + 1, 2 * k + 3, 2 * k + 2);
            shape_add_triangle(&comb, 2 * k, 2 * k + 2, top);
            shape_add_triangle(&comb, 2 * k + 3, 2 * k + 1, top + 1);
        }
        shape_add_triangle(&comb, top, 2 * n, top + 2);
        shape_add_triangle(&comb, 2 * n + 1, top + 1, top + 3);
        shape_add_quad(&comb, top, top + 2, top + 3, top + 1);
        shape_add_quad(&comb, 0, top, top + 1, 1);
        shape_add_quad(&comb, 2 * n, 2 * n + 1, top + 3, top + 2);
        struct shape peg = shape_box(0.2, 0.2, 0.2);
        append(&comb, &peg, -1.6, 0, 0.5); /* half in the plate, so that there is a contact, with a bound */
        shape_free(&peg);
        double turn[12], over[12], pose[12];
        shape_pose_random(&rng, 1, turn);
        shape_pose_identity(over);
        over[11] = i % 4 ? shape_uniform(&rng, -1, 1) * pow(10, -8 - i % 6) : 0;
        if (i % 2) over[3] = 1.5; /* half of it beyond the plate */
        compose(turn, over, pose);
        check_pair(&plate, turn, &comb, pose, 0, &errors);
        shape_free(&comb);
        shape_free(&plate);
    }
    print_errors("edges on a face", &errors);
    assert_true(errors.contacts == errors.pairs && errors.volume < 1e-9);
}

/* ---- surfaces as bad as they come ---- */

/* Moves the vertices of a deformable body, and keeps the shape in step. */
static ct_update move_vertices(struct shape *shape, uint32_t body) {
    return (ct_update){.body = body,
                       .kind = CT_UPDATE_POSITIONS,
                       .positions = shape->positions,
                       .dtype = CT_F32,
                       .count = shape->n_vertices};
}

/* Vertices anywhere on a small grid: closed surfaces that cross, fold and overlap themselves, with flat triangles,
 * needles and triangles on top of each other, inside out in parts. The volume is the integral of both winding numbers'
 * product, which may be negative: then there is no contact. */
static void test_random_surfaces_on_a_grid(void **state) {
    (void)state;
    uint64_t rng = 9;
    const ct_scene_settings settings = stage_exact();
    struct shape kinds[] = {shape_tetrahedron(1), shape_box(1, 1, 1), shape_icosphere(1, 0), shape_icosphere(1, 1),
                            shape_torus(1, 0.4, 5, 4)};
    int contacts = 0, signs[2] = {0, 0};
    double worst = 0, worst_bound = 0;
    for (int i = 0; i < 3000; i++) {
        struct shape *a = &kinds[shape_random(&rng) % 5], *b = &kinds[shape_random(&rng) % 5];
        struct shape moved[2] = {shape_copy(a), shape_copy(b)};
        struct stage stage = stage_open(
            engine, &settings, (struct placed[]){{a, NULL, CT_BODY_DEFORMABLE}, {b, NULL, CT_BODY_DEFORMABLE}}, 2);
        const uint64_t grid = 2 + (uint64_t)i % 4;
        ct_update updates[2];
        for (int body = 0; body < 2; body++) {
            for (size_t k = 0; k < 3 * (size_t)moved[body].n_vertices; k++)
                moved[body].positions[k] = (float)(shape_random(&rng) % grid);
            updates[body] = move_vertices(&moved[body], stage.body[body]);
        }
        ct_result *result = stage_step(&stage, updates, 2, CT_WANT_ALL);
        const struct overlap expected = overlap_find((const struct shape *[]){&moved[0], &moved[1]}, NULL, 0);
        signs[expected.volume > 0] += fabsl(expected.volume) > 1e-12L;
        const bool is_inverted = shape_volume(&moved[0]) < -1e-9 || shape_volume(&moved[1]) < -1e-9;
        if (expected.volume > 1e-9L && !is_inverted) {
            const ct_contact *c = only_contact(result);
            const double error = (double)fabsl(c->volume - expected.volume);
            assert_true(error <= c->error_bound + 1e-15);
            for (int k = 0; k < 3; k++) assert_true(c->generalized_gradient[0][k] == -c->generalized_gradient[1][k]);
            worst = fmax(worst, error);
            worst_bound = fmax(worst_bound, c->error_bound);
            contacts++;
        } else {
            assert_int_equal(result->n_contacts, 0);
        }
        ct_result_free(&result);
        stage_close(&stage);
        for (int body = 0; body < 2; body++) shape_free(&moved[body]);
    }
    print_message("%d contacts, %d volumes above 0, %d below; volumes off by at most %.1e, bounds at most %.1e\n",
                  contacts, signs[1], signs[0], worst, worst_bound);
    assert_true(contacts > 300 && worst_bound < 1e-7);
    for (int i = 0; i < 5; i++) shape_free(&kinds[i]);
}

/* Needles and slivers: shapes pulled to 1e-4 to 1e4 of their size along one axis. */
static void test_needles(void **state) {
    (void)state;
    uint64_t rng = 10;
    struct errors errors = {0};
    for (int i = 0; i < 100; i++) {
        struct shape shape[2];
        double pose[2][12];
        for (int body = 0; body < 2; body++) {
            shape[body] = shape_of_kind((int)(shape_random(&rng) % KINDS), &rng);
            const double pull = pow(10, shape_uniform(&rng, -4, 0));
            const uint64_t axis = shape_random(&rng) % 3;
            for (uint32_t v = 0; v < shape[body].n_vertices; v++) {
                float *x = &shape[body].positions[3 * (size_t)v + axis];
                *x = (float)(pull * (double)*x);
            }
            shape_pose_random(&rng, i % 2 ? 0.1 : 0.001, pose[body]);
        }
        check_pair(&shape[0], pose[0], &shape[1], pose[1], 1e-6, &errors);
        shape_free(&shape[0]);
        shape_free(&shape[1]);
    }
    print_errors("needles", &errors);
    assert_true(errors.contacts > 60);
}

/* A small body half in the face of a large one: up to 10^5 times as large, and 100 m from the origin of either. */
static void test_extreme_sizes(void **state) {
    (void)state;
    uint64_t rng = 11;
    for (int power = 0; power <= 5; power++) {
        struct errors errors = {0};
        const double size = pow(10, power);
        for (int i = 0; i < 10; i++) {
            struct shape floor = i % 2 ? shape_box(size, size, size) : shape_cube(size, 8);
            struct shape body = shape_of_kind(i % KINDS, &rng);
            double on_top[12], turn[12], pose[12];
            shape_pose_random(&rng, 0.2, on_top);
            on_top[11] += size / 2;
            on_top[3] += 0.1 * size;
            shape_pose_random(&rng, 100, turn);
            compose(turn, on_top, pose);
            check_pair(&floor, turn, &body, pose, 1e-10 * size, &errors);
            shape_free(&floor);
            shape_free(&body);
        }
        print_message("%.0e: ", size);
        print_errors("extreme sizes", &errors);
        assert_int_equal(errors.contacts, 10);
        assert_true(errors.volume < 1e-10 * size * size);
        /* Triangles' rounding is bounded by their own size: 100 times as much, unless volumes count from a point in
         * their planes. */
        assert_true(errors.bound < 1e-8 * size);
    }
}

/* Both bodies moved together, far from the origin. The poses' translations have a rounding of their own there. */
static void test_far_from_the_origin(void **state) {
    (void)state;
    uint64_t rng = 12;
    struct errors errors = {0};
    for (int i = 0; i < 60; i++) {
        struct shape a = shape_of_kind(i % KINDS, &rng), b = shape_of_kind((i / KINDS + 4) % KINDS, &rng);
        double pose[2][12];
        for (int body = 0; body < 2; body++) shape_pose_random(&rng, 0.3, pose[body]);
        for (int k = 0; k < 3; k++) {
            const double by = shape_uniform(&rng, -1, 1) * pow(10, 1 + i % 6);
            for (int body = 0; body < 2; body++) pose[body][4 * k + 3] += by;
        }
        check_pair(&a, pose[0], &b, pose[1], 1e-7, &errors);
        shape_free(&a);
        shape_free(&b);
    }
    print_errors("far from the origin", &errors);
    assert_true(errors.contacts > 50);
}

/* ---- trees of several levels ---- */

static void test_large_meshes(void **state) {
    (void)state;
    uint64_t rng = 13;
    struct errors errors = {0};
    struct shape large[] = {shape_icosphere(1, 5), shape_blob(1, 5, 0.5, 4), shape_torus(0.9, 0.3, 160, 80),
                            shape_bolt(0.8, 0.15, 0.2, 8, 60, 24), shape_cube(1.5, 30)};
    struct shape small[] = {shape_box(1, 1, 1), shape_tetrahedron(2), shape_box(3, 3, 0.01)};
    for (int i = 0; i < 15; i++) {
        double pose[2][12];
        for (int body = 0; body < 2; body++) shape_pose_random(&rng, 0.5, pose[body]);
        check_pair(&large[i % 5], pose[0], &small[i / 5], pose[1], 1e-8, &errors);
    }
    print_errors("large meshes", &errors);
    assert_int_equal(errors.contacts, 15);
    assert_true(errors.volume < 1e-9);
    for (int i = 0; i < 5; i++) shape_free(&large[i]);
    for (int i = 0; i < 3; i++) shape_free(&small[i]);
}

/* ---- differences ---- */

/* The volume with one coordinate of one vertex moved by h. */
static double moved_volume(struct stage *stage, struct shape *shape, int body, uint32_t vertex, int axis, float h) {
    float *x = &shape->positions[3 * (size_t)vertex + (size_t)axis];
    const float before = *x;
    *x += h;
    const ct_update update = move_vertices(shape, stage->body[body]);
    ct_result *result = stage_step(stage, &update, 1, 0);
    const double volume = only_contact(result)->volume;
    ct_result_free(&result);
    *x = before;
    const ct_update back = move_vertices(shape, stage->body[body]);
    result = stage_step(stage, &back, 1, 0);
    ct_result_free(&result);
    return volume;
}

/* The gradient against central differences of the volume, of two steps, so that the error of the fourth order is left
 * between kinks. */
static void test_differences(void **state) {
    (void)state;
    uint64_t rng = 14;
    const ct_scene_settings settings = stage_exact();
    double worst = 0;
    int n = 0;
    for (int i = 0; i < 24; i++) {
        struct shape shape[2] = {shape_of_kind(i % KINDS, &rng), shape_of_kind((3 * i + 2) % KINDS, &rng)};
        double pose[12];
        shape_pose_random(&rng, 0.3, pose);
        shape_transform(&shape[1], pose);
        for (int body = 0; body < 2; body++) /* so that x + h is a float */
            for (size_t k = 0; k < 3 * (size_t)shape[body].n_vertices; k++)
                shape[body].positions[k] = floorf(shape[body].positions[k] * 0x1p20f) * 0x1p-20f;
        struct stage stage = stage_open(
            engine, &settings,
            (struct placed[]){{&shape[0], NULL, CT_BODY_DEFORMABLE}, {&shape[1], NULL, CT_BODY_DEFORMABLE}}, 2);
        ct_result *result = stage_step(&stage, NULL, 0, CT_WANT_GRADIENT);
        for (int body = 0; body < 2 && result->n_contacts; body++) {
            const ct_contact *c = result->contacts;
            double *g = dense_gradient(result, c, body, shape[body].n_vertices);
            for (int probe = 0; probe < 6; probe++) {
                const uint32_t v = c->count[body] && probe
                                       ? result->vertices[c->first[body] + shape_random(&rng) % c->count[body]]
                                       : (uint32_t)(shape_random(&rng) % shape[body].n_vertices);
                const int axis = (int)(shape_random(&rng) % 3);
                const float h = 0x1p-14f;
                double slope[2];
                for (int k = 0; k < 2; k++)
                    slope[k] = (moved_volume(&stage, &shape[body], body, v, axis, (float)(k + 1) * h) -
                                moved_volume(&stage, &shape[body], body, v, axis, -(float)(k + 1) * h)) /
                               (2 * (k + 1) * (double)h);
                const double error = fabs((4 * slope[0] - slope[1]) / 3 - g[3 * (size_t)v + (size_t)axis]);
                worst = fmax(worst, error);
                n++;
            }
            free(g);
        }
        ct_result_free(&result);
        stage_close(&stage);
        for (int body = 0; body < 2; body++) shape_free(&shape[body]);
    }
    print_message("%d derivatives, off by at most %.1e m^2\n", n, worst);
    assert_true(n > 200 && worst < 2e-7);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_pairs),
        cmocka_unit_test(test_cubes_at_quarters),
        cmocka_unit_test(test_turned_cubes),
        cmocka_unit_test(test_apart),
        cmocka_unit_test(test_nested),
        cmocka_unit_test(test_identical_bodies),
        cmocka_unit_test(test_shallow_corner_has_a_normal),
        cmocka_unit_test(test_at_the_limit_of_poses),
        cmocka_unit_test(test_nearly_coincident_bodies),
        cmocka_unit_test(test_edges_on_a_face),
        cmocka_unit_test(test_stack),
        cmocka_unit_test(test_lattices_of_cubes),
        cmocka_unit_test(test_self_overlap),
        cmocka_unit_test(test_inverted_region),
        cmocka_unit_test(test_deep_between_corners),
        cmocka_unit_test(test_random_surfaces_on_a_grid),
        cmocka_unit_test(test_needles),
        cmocka_unit_test(test_extreme_sizes),
        cmocka_unit_test(test_far_from_the_origin),
        cmocka_unit_test(test_large_meshes),
        cmocka_unit_test(test_differences),
    };
    return cmocka_run_group_tests_name("the method exact", tests, setup, teardown);
}

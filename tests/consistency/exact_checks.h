/* exact_checks.h - for tests of the method `exact`: steps of two bodies, what holds of every contact, the comparison
 * with brute force in extended precision, and random bodies. */
#ifndef EXACT_CHECKS_H
#define EXACT_CHECKS_H

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

static inline ct_result *run(const struct placed *bodies, int n) {
    const ct_scene_settings settings = stage_exact();
    return stage_once(engine, &settings, bodies, n, CT_WANT_ALL);
}

static inline ct_result *run_pair(const struct shape *a, const double *pose_a, const struct shape *b,
                                  const double *pose_b) {
    return run((struct placed[]){{a, pose_a, CT_BODY_RIGID, 0, NULL}, {b, pose_b, CT_BODY_RIGID, 0, NULL}}, 2);
}

static inline const ct_contact *only_contact(const ct_result *result) {
    assert_int_equal(result->n_contacts, 1);
    return result->contacts;
}

static inline void shift(double pose[12], double x, double y, double z) {
    shape_pose_identity(pose);
    pose[3] = x, pose[7] = y, pose[11] = z;
}

static inline void compose(const double a[12], const double b[12], double out[12]) {
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 4; j++) {
            out[4 * i + j] = j == 3 ? a[4 * i + 3] : 0;
            for (int k = 0; k < 3; k++) out[4 * i + j] += a[4 * i + k] * b[4 * k + j];
        }
}

/* Bodies of about 1 m whose coordinates lie on the lattice: what is left is the rounding of sums. */
static inline void assert_volume(const ct_contact *c, double expected) {
    assert_true(fabs(c->volume - expected) <= c->error_bound);
    assert_true(c->error_bound <= 2e-11);
}

/* Moves the vertices of a deformable body, and keeps the shape in step. */
static inline ct_update move_vertices(struct shape *shape, uint32_t body) {
    return (ct_update){.body = body,
                       .kind = CT_UPDATE_POSITIONS,
                       .positions = shape->positions,
                       .dtype = CT_F32,
                       .count = shape->n_vertices};
}

static inline void append(struct shape *to, const struct shape *part, double x, double y, double z) {
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

/* ---- what holds of every contact ---- */

/* dV/dx of a part at every vertex. */
static inline double *dense_gradient(const ct_result *result, const ct_contact *c, int part, uint32_t n_vertices) {
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

static inline void assert_sane(const ct_result *result, const ct_contact *c) {
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

static inline void transform_point(const double *pose, const float *p, double out[3]) {
    for (int k = 0; k < 3; k++)
        out[k] = pose ? pose[4 * k] * (double)p[0] + pose[4 * k + 1] * (double)p[1] + pose[4 * k + 2] * (double)p[2] +
                            pose[4 * k + 3]
                      : (double)p[k];
}

static inline double size_of(const struct shape *shape) {
    double reach = 0;
    for (size_t i = 0; i < 3 * (size_t)shape->n_vertices; i++) reach = fmax(reach, fabs((double)shape->positions[i]));
    return 2 * reach;
}

/* Compares the contact of two bodies with brute force. gradient_tolerance: relative to the sum of the gradient's sizes;
 * 0: the surfaces coincide, so that the gradient is not compared. */
static inline void check_pair(const struct shape *a, const double *pose_a, const struct shape *b, const double *pose_b,
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
     * for it. Of a body more than a thousand times as large as the other one, the gradient is off by more. */
    const long double off = fabsl(trace / 3 - c->volume), large = fmaxl(size_of(a), size_of(b));
    const long double part = 1e-10L * fmaxl(1, large / fminl(size_of(a), size_of(b)) / 1000);
    const long double allowed = c->error_bound + part * (c->volume + size * large);
    if (off > allowed) fail_msg("volume %.17g, from the gradient off by %.3Lg of %.3Lg", c->volume, off, allowed);
    if (worst > gradient_tolerance * size)
        fail_msg("gradient off by %.3g of %.3g (volume %.3g)", worst, size, c->volume);
    errors->gradient = fmax(errors->gradient, worst / size);
    ct_result_free(&result);
    overlap_free(&expected);
}

static inline void print_errors(const char *name, const struct errors *errors) {
    print_message("%-20s %4d pairs, %4d in contact; relative errors: volume %.1e (bound %.1e), gradient %.1e\n", name,
                  errors->pairs, errors->contacts, errors->volume, errors->bound, errors->gradient);
}

enum { KINDS = 9 };

static inline struct shape shape_of_kind(int kind, uint64_t *rng) {
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

#endif

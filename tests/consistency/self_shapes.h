/* self_shapes.h - shapes that overlap themselves, what holds of every contact of a body with itself, and gradients of
 * whole bodies, for tests of such contacts. */
#ifndef SELF_SHAPES_H
#define SELF_SHAPES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/scenes/stage.h"

/* dV/dx of every vertex, [n_vertices][3]: the sum over both parts of a contact with itself, or over both bodies of a
 * pair whose second body's vertices follow the first's. */
static inline double *dense_gradient(const ct_result *r, uint32_t n_vertices, uint32_t second) {
    double *dense = calloc(3 * (size_t)n_vertices, sizeof *dense);
    assert_non_null(dense);
    const ct_contact *c = r->contacts;
    for (int part = 0; part < 2; part++)
        for (uint64_t e = c->first[part]; e < c->first[part] + c->count[part]; e++)
            for (int k = 0; k < 3; k++)
                dense[3 * (r->vertices[e] + (part && c->body[0] != c->body[1] ? second : 0)) + (size_t)k] +=
                    r->gradient[3 * e + (uint64_t)k];
    return dense;
}

/* What holds of the only contact of a body with itself, of a step with all entries. */
static inline void check_contact_with_itself(const ct_result *r, uint32_t n_vertices) {
    assert_int_equal(r->n_contacts, 1);
    const ct_contact *c = r->contacts;
    assert_int_equal(c->body[0], c->body[1]);
    assert_int_equal(c->index, 0);
    const double *g0 = c->generalized_gradient[0], *g1 = c->generalized_gradient[1];
    for (int k = 0; k < 3; k++) assert_true(g0[k] + g1[k] == 0); /* Newton's third law, exactly */
    uint8_t *seen = calloc(n_vertices, 1);
    assert_non_null(seen);
    double area = 0, largest = 0;
    for (int part = 0; part < 2; part++)
        for (uint64_t e = c->first[part]; e < c->first[part] + c->count[part]; e++) {
            assert_false(seen[r->vertices[e]]); /* each vertex is in one part */
            seen[r->vertices[e]] = 1;
            assert_true(e == c->first[part] || r->vertices[e] > r->vertices[e - 1]);
            area += part ? r->weights[e] : 0;
            for (int k = 0; k < 3; k++)
                assert_true(r->forces[3 * e + (uint64_t)k] == -c->volume * r->gradient[3 * e + (uint64_t)k]);
        }
    free(seen);
    assert_float_equal(area, c->area, 1e-9 * (1 + area));
    for (int w = 0; w < 3; w++)
        if (fabs(c->normal[w]) > fabs(largest)) largest = c->normal[w];
    assert_true(largest >= 0);
}

static inline struct shape random_shell(uint64_t *rng) {
    const uint64_t seed = shape_random(rng);
    switch (seed % 4) {
    case 0:
        return shape_torus(0.8, 0.35, 20, 12);
    case 1:
        return shape_blob(1, 2 + (int)(seed / 4 % 3), 0.5, seed);
    case 2:
        return shape_bolt(0.9, 0.2, 0.4, 2, 24, 8);
    default:
        return shape_cube(1.5, 3);
    }
}

/* Two shells in one mesh, the second turned and moved. */
static inline struct shape random_shells(uint64_t *rng) {
    struct shape a = random_shell(rng), b = random_shell(rng);
    double pose[12];
    shape_pose_random(rng, 0.6, pose);
    shape_transform(&b, pose);
    struct shape both = shape_merge(&a, &b);
    shape_free(&a);
    shape_free(&b);
    return both;
}

/* Vertices thrown about: a tangle in which triangles also cross others that they share a vertex with, and parts are
 * inside out. step: 0, or of the grid that vertices are moved to, so that they meet others, edges and faces. */
static inline struct shape make_tangle(int level, double noise, double step, uint64_t seed) {
    struct shape shape = shape_icosphere(1, level);
    for (size_t i = 0; i < 3 * (size_t)shape.n_vertices; i++) {
        double x = (double)shape.positions[i] + noise * shape_uniform(&seed, -1, 1);
        if (step > 0) x = step * nearbyint(x / step);
        shape.positions[i] = (float)x;
    }
    return shape;
}

/* An outer cone around an inner one whose tip is in the same place; is_joined: both tips are one vertex. */
static inline struct shape make_tips(int is_joined) {
    struct shape outer = shape_tetrahedron(1), inner = shape_tetrahedron(0.5);
    shape_translate(&inner, 0.0625, 0.09375, 0.125);
    struct shape both = shape_merge(&outer, &inner);
    memcpy(both.positions + 12, both.positions, 12);
    for (uint32_t i = outer.n_triangles * 3; is_joined && i < both.n_triangles * 3; i++)
        if (both.triangles[i] == 4) both.triangles[i] = 0;
    shape_free(&outer), shape_free(&inner);
    return both;
}

/* A tapered prism over a limacon, a curve that turns twice: it encloses its inner loop twice. The caps are fans about a
 * point inside that loop. */
static inline struct shape make_limacon(uint32_t around, uint32_t along) {
    const uint32_t n_vertices = around * (along + 1) + 2, n_triangles = 2 * around * (along + 1);
    struct shape shape = {calloc(n_vertices, 12), n_vertices, calloc(n_triangles, 12), 0};
    assert_true(shape.positions && shape.triangles);
    for (uint32_t k = 0; k <= along; k++)
        for (uint32_t i = 0; i < around; i++) {
            double turn[12];
            shape_pose_axis((double[]){0, 0, 1}, (double)i / around, (double[]){0, 0, 0}, turn);
            const double radius = 0.5 + turn[0], size = 1 - 0.25 * k / along;
            float *p = shape.positions + 3 * (size_t)(k * around + i);
            p[0] = (float)(size * (radius * turn[0] - 0.25)), p[1] = (float)(size * radius * turn[4]);
            p[2] = (float)(1.0 * k / along - 0.5 + 0.1 * turn[0]);
        }
    for (uint32_t top = 0; top < 2; top++) {
        shape.positions[3 * (size_t)(n_vertices - 2 + top) + 2] = top ? 0.5F : -0.5F;
        for (uint32_t i = 0; i < around; i++) {
            const uint32_t first = top * along * around, a = first + i, b = first + (i + 1) % around;
            uint32_t *t = shape.triangles + 3 * (size_t)shape.n_triangles++;
            t[0] = n_vertices - 2 + top, t[1] = top ? a : b, t[2] = top ? b : a;
        }
    }
    for (uint32_t k = 0; k < along; k++)
        for (uint32_t i = 0; i < around; i++) {
            const uint32_t j = (i + 1) % around, a = k * around + i, b = k * around + j, c = a + around, d = b + around;
            uint32_t *t = shape.triangles + 3 * (size_t)shape.n_triangles;
            memcpy(t, (uint32_t[]){a, b, d, a, d, c}, 24);
            shape.n_triangles += 2;
        }
    return shape;
}

/* A bar bent to a ring whose ends overlap, the left one 1/16 m higher in y and z, by 1/4 x 7/16 x 15/16 m^3. */
static inline struct shape make_ring(void) {
    static const float outline[][2] = {{-2, -1},        {2, -1},        {2, 1},        {-0.125F, 1},
                                       {-0.125F, 0.5F}, {1.5F, 0.5F},   {1.5F, -0.5F}, {-1.5F, -0.5F},
                                       {-1.5F, 0.5F},   {0.125F, 0.5F}, {0.125F, 1},   {-2, 1}};
    enum { N = 12 };
    static const uint8_t quads[][4] = {{0, 1, 6, 7}, {1, 2, 5, 6}, {2, 3, 4, 5}, {0, 7, 8, 11}, {8, 9, 10, 11}};
    float positions[2 * N][3];
    uint32_t triangles[2 * N + 20][3], n = 0;
    for (int i = 0; i < N; i++)
        for (int top = 0; top < 2; top++) {
            float *p = positions[2 * i + top];
            const float higher = i >= 8 ? 0x1p-4F : 0;
            p[0] = outline[i][0], p[1] = outline[i][1] + higher, p[2] = (top ? 0.5F : -0.5F) + higher;
        }
    for (uint32_t i = 0; i < N; i++) {
        const uint32_t j = (i + 1) % N;
        memcpy(triangles[n++], (uint32_t[]){2 * i, 2 * j, 2 * j + 1}, 12);
        memcpy(triangles[n++], (uint32_t[]){2 * i, 2 * j + 1, 2 * i + 1}, 12);
    }
    for (int q = 0; q < 5; q++)
        for (int half = 0; half < 2; half++) {
            const uint32_t a = quads[q][0], b = quads[q][1 + half], c = quads[q][2 + half];
            memcpy(triangles[n++], (uint32_t[]){2 * a + 1, 2 * b + 1, 2 * c + 1}, 12);
            memcpy(triangles[n++], (uint32_t[]){2 * a, 2 * c, 2 * b}, 12);
        }
    struct shape shape = {malloc(sizeof positions), 2 * N, malloc(n * sizeof *triangles), n};
    assert_true(shape.positions && shape.triangles);
    memcpy(shape.positions, positions, sizeof positions);
    memcpy(shape.triangles, triangles, n * sizeof *triangles);
    return shape;
}

/* The contact of a shape with itself has the same bits whatever the order of triangles and vertices. */
static inline void check_orders(ct_engine *engine, const ct_scene_settings *settings, const struct shape *shape,
                                uint32_t want, uint64_t *rng) {
    ct_result *plain =
        stage_once(engine, settings, (struct placed[]){{shape, NULL, CT_BODY_RIGID, .self_contact = 1}}, 1, want);
    assert_int_equal(plain->n_contacts, 1);
    for (int round = 0; round < 4; round++) {
        struct shape other = shape_copy(shape);
        shape_shuffle(&other, rng);
        ct_result *r =
            stage_once(engine, settings, (struct placed[]){{&other, NULL, CT_BODY_RIGID, .self_contact = 1}}, 1, want);
        assert_int_equal(r->n_contacts, 1);
        const ct_contact *c = plain->contacts, *d = r->contacts;
        assert_memory_equal(&c->volume, &d->volume, sizeof c->volume);
        assert_memory_equal(&c->error_bound, &d->error_bound, sizeof c->error_bound);
        assert_memory_equal(c->normal, d->normal, sizeof c->normal);
        assert_memory_equal(c->center, d->center, sizeof c->center);
        assert_memory_equal(&c->area, &d->area, sizeof c->area);
        assert_memory_equal(c->generalized_gradient, d->generalized_gradient, sizeof c->generalized_gradient);
        assert_memory_equal(c->count, d->count, sizeof c->count);
        ct_result_free(&r);
        shape_free(&other);
    }
    ct_result_free(&plain);
}

#endif

/* self_shapes.h - shapes that overlap themselves, and gradients of whole bodies, for tests of contacts of a body with
 * itself. */
#ifndef SELF_SHAPES_H
#define SELF_SHAPES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
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

#endif

/* shapes.c - building blocks of shapes, flat-faced shapes, and operations on shapes. */
#include "tests/scenes/shapes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/scenes/build.h"

void *shape_alloc(uint64_t count, uint64_t size) {
    void *memory = calloc(count ? count : 1, size);
    if (!memory) {
        fprintf(stderr, "shapes: no memory for %llu x %llu bytes\n", (unsigned long long)count,
                (unsigned long long)size);
        abort();
    }
    return memory;
}

struct shape shape_begin(uint64_t n_vertices, uint64_t n_triangles) {
    struct shape shape = {0};
    shape.positions = shape_alloc(n_vertices, 3 * sizeof(float));
    shape.triangles = shape_alloc(n_triangles, 3 * sizeof(uint32_t));
    return shape;
}

uint32_t shape_add_vertex(struct shape *shape, double x, double y, double z) {
    float *to = shape->positions + 3 * (size_t)shape->n_vertices;
    to[0] = (float)x, to[1] = (float)y, to[2] = (float)z;
    return shape->n_vertices++;
}

void shape_add_triangle(struct shape *shape, uint32_t a, uint32_t b, uint32_t c) {
    uint32_t *to = shape->triangles + 3 * (size_t)shape->n_triangles++;
    to[0] = a, to[1] = b, to[2] = c;
}

void shape_add_quad(struct shape *shape, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    shape_add_triangle(shape, a, b, c);
    shape_add_triangle(shape, a, c, d);
}

void shape_free(struct shape *shape) {
    free(shape->positions);
    free(shape->triangles);
    memset(shape, 0, sizeof *shape);
}

struct shape shape_copy(const struct shape *shape) {
    struct shape copy = shape_begin(shape->n_vertices, shape->n_triangles);
    copy.n_vertices = shape->n_vertices;
    copy.n_triangles = shape->n_triangles;
    memcpy(copy.positions, shape->positions, 12 * (size_t)shape->n_vertices);
    memcpy(copy.triangles, shape->triangles, 12 * (size_t)shape->n_triangles);
    return copy;
}

struct shape shape_merge(const struct shape *a, const struct shape *b) {
    struct shape both = shape_begin((uint64_t)a->n_vertices + b->n_vertices, (uint64_t)a->n_triangles + b->n_triangles);
    both.n_vertices = a->n_vertices + b->n_vertices;
    both.n_triangles = a->n_triangles + b->n_triangles;
    memcpy(both.positions, a->positions, 12 * (size_t)a->n_vertices);
    memcpy(both.positions + 3 * (size_t)a->n_vertices, b->positions, 12 * (size_t)b->n_vertices);
    memcpy(both.triangles, a->triangles, 12 * (size_t)a->n_triangles);
    uint32_t *to = both.triangles + 3 * (size_t)a->n_triangles;
    for (size_t k = 0; k < 3 * (size_t)b->n_triangles; k++) to[k] = b->triangles[k] + a->n_vertices;
    return both;
}

ct_mesh *shape_to_mesh(const struct shape *shape, ct_error *error) {
    ct_mesh *mesh;
    ct_mesh_create(shape->positions, CT_F32, shape->n_vertices, shape->triangles, shape->n_triangles, NULL, &mesh,
                   error);
    return mesh;
}

struct shape shape_box(double sx, double sy, double sz) {
    struct shape shape = shape_cube(2, 1);
    for (uint32_t v = 0; v < shape.n_vertices; v++) {
        float *p = shape.positions + 3 * (size_t)v;
        p[0] = (float)(p[0] * sx / 2), p[1] = (float)(p[1] * sy / 2), p[2] = (float)(p[2] * sz / 2);
    }
    return shape;
}

/* The six faces as grids over a lattice of (n+1)^3 points, of which those on the surface become vertices. */
struct shape shape_cube(double side, int n) {
    uint64_t row = (uint64_t)n + 1, squares = (uint64_t)n * (uint64_t)n;
    struct shape shape = shape_begin(6 * squares + 2, 12 * squares);
    uint32_t *index = shape_alloc(row * row * row, sizeof *index); /* vertex + 1 */
    for (int axis = 0; axis < 3; axis++)
        for (int end = 0; end < 2; end++)
            for (int i = 0; i < n; i++)
                for (int j = 0; j < n; j++) {
                    uint32_t corner[4];
                    for (int c = 0; c < 4; c++) {
                        int at[3];
                        at[axis] = end ? n : 0;
                        at[(axis + 1) % 3] = i + (c == 1 || c == 2);
                        at[(axis + 2) % 3] = j + (c >= 2);
                        uint32_t *known = &index[((uint64_t)at[2] * row + (uint64_t)at[1]) * row + (uint64_t)at[0]];
                        if (!*known)
                            *known =
                                shape_add_vertex(&shape, side * (2 * at[0] - n) / (2 * n),
                                                 side * (2 * at[1] - n) / (2 * n), side * (2 * at[2] - n) / (2 * n)) +
                                1;
                        corner[c] = *known - 1;
                    }
                    if (end)
                        shape_add_quad(&shape, corner[0], corner[1], corner[2], corner[3]);
                    else
                        shape_add_quad(&shape, corner[3], corner[2], corner[1], corner[0]);
                }
    free(index);
    return shape;
}

struct shape shape_l_prism(double size, double height) {
    static const double outline[6][2] = {{-0.5, -0.5}, {0.5, -0.5}, {0.5, 0}, {0, 0}, {0, 0.5}, {-0.5, 0.5}};
    static const uint32_t cap[4][3] = {{0, 1, 3}, {1, 2, 3}, {0, 3, 5}, {3, 4, 5}};
    struct shape shape = shape_begin(12, 20);
    for (int top = 0; top < 2; top++)
        for (int i = 0; i < 6; i++)
            shape_add_vertex(&shape, size * outline[i][0], size * outline[i][1], height * (top - 0.5));
    for (uint32_t i = 0; i < 6; i++) shape_add_quad(&shape, i, (i + 1) % 6, (i + 1) % 6 + 6, i + 6);
    for (int i = 0; i < 4; i++) {
        shape_add_triangle(&shape, cap[i][0] + 6, cap[i][1] + 6, cap[i][2] + 6);
        shape_add_triangle(&shape, cap[i][2], cap[i][1], cap[i][0]);
    }
    return shape;
}

struct shape shape_tetrahedron(double size) {
    struct shape shape = shape_begin(4, 4);
    shape_add_vertex(&shape, 0, 0, 0);
    shape_add_vertex(&shape, size, 0, 0);
    shape_add_vertex(&shape, 0, size, 0);
    shape_add_vertex(&shape, 0, 0, size);
    shape_add_triangle(&shape, 0, 2, 1);
    shape_add_triangle(&shape, 0, 1, 3);
    shape_add_triangle(&shape, 0, 3, 2);
    shape_add_triangle(&shape, 1, 2, 3);
    return shape;
}

void shape_translate(struct shape *shape, double x, double y, double z) {
    double pose[12];
    shape_pose_identity(pose);
    pose[3] = x, pose[7] = y, pose[11] = z;
    shape_transform(shape, pose);
}

void shape_transform(struct shape *shape, const double pose[12]) {
    for (uint32_t v = 0; v < shape->n_vertices; v++) {
        float *p = shape->positions + 3 * (size_t)v;
        const double x = (double)p[0], y = (double)p[1], z = (double)p[2];
        for (int k = 0; k < 3; k++)
            p[k] = (float)(pose[4 * k] * x + pose[4 * k + 1] * y + pose[4 * k + 2] * z + pose[4 * k + 3]);
    }
}

double shape_volume(const struct shape *shape) {
    const float *origin =
        shape->positions; /* a point nearby, so that distance from the world's origin costs no digits */
    double sum = 0;
    for (uint32_t t = 0; t < shape->n_triangles; t++) {
        double p[3][3];
        for (int c = 0; c < 3; c++)
            for (int k = 0; k < 3; k++)
                p[c][k] =
                    (double)shape->positions[3 * (size_t)shape->triangles[3 * (size_t)t + (size_t)c] + (size_t)k] -
                    (double)origin[k];
        sum += p[0][0] * (p[1][1] * p[2][2] - p[1][2] * p[2][1]) + p[0][1] * (p[1][2] * p[2][0] - p[1][0] * p[2][2]) +
               p[0][2] * (p[1][0] * p[2][1] - p[1][1] * p[2][0]);
    }
    return sum / 6;
}

void shape_shuffle(struct shape *shape, uint64_t *rng) {
    struct shape old = shape_copy(shape);
    uint32_t *to = shape_alloc(shape->n_vertices, sizeof *to);
    for (uint32_t v = 0; v < shape->n_vertices; v++) {
        uint32_t k = (uint32_t)(shape_random(rng) % (v + 1));
        to[v] = to[k];
        to[k] = v;
    }
    for (uint32_t v = 0; v < shape->n_vertices; v++)
        memcpy(shape->positions + 3 * (size_t)to[v], old.positions + 3 * (size_t)v, 12);
    for (uint32_t t = 0; t < shape->n_triangles; t++) {
        uint32_t k = (uint32_t)(shape_random(rng) % (t + 1)), turn = (uint32_t)(shape_random(rng) % 3);
        uint32_t *here = shape->triangles + 3 * (size_t)t, *there = shape->triangles + 3 * (size_t)k;
        memcpy(here, there, 12);
        for (uint32_t c = 0; c < 3; c++) there[c] = to[old.triangles[3 * (size_t)t + (c + turn) % 3]];
    }
    free(to);
    shape_free(&old);
}

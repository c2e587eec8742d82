/* hostile_parts.c - parts of hostile shapes. */
#include "tests/scenes/hostile_parts.h"

#include <math.h>
#include <stdlib.h>

#include "tests/scenes/build.h"

static void cross(const double a[3], const double b[3], double to[3]) {
    for (int k = 0; k < 3; k++) to[k] = a[(k + 1) % 3] * b[(k + 2) % 3] - a[(k + 2) % 3] * b[(k + 1) % 3];
}

static void normalise(double v[3]) {
    const double length = sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
    for (int k = 0; k < 3; k++) v[k] /= length;
}

void vectors_across(const double along[3], double u[3], double w[3]) {
    /* Off every axis and diagonal, so that nothing is parallel to it that shapes are made along. */
    static const double aside[3] = {0.3, -0.71, 0.2};
    cross(along, aside, u);
    normalise(u);
    cross(along, u, w);
    normalise(w);
}

void add_tetrahedron_of(struct shape *shape, const uint32_t v[4]) {
    const float *p[4];
    double edge[3][3], normal[3];
    for (int c = 0; c < 4; c++) p[c] = shape->positions + 3 * (size_t)v[c];
    for (int c = 0; c < 3; c++)
        for (int k = 0; k < 3; k++) edge[c][k] = (double)p[c + 1][k] - (double)p[0][k];
    cross(edge[0], edge[1], normal);
    const bool is_turned = normal[0] * edge[2][0] + normal[1] * edge[2][1] + normal[2] * edge[2][2] < 0;
    const uint32_t b = is_turned ? v[2] : v[1], c = is_turned ? v[1] : v[2];
    shape_add_triangle(shape, v[0], c, b);
    shape_add_triangle(shape, v[0], b, v[3]);
    shape_add_triangle(shape, b, c, v[3]);
    shape_add_triangle(shape, c, v[0], v[3]);
}

void add_tetrahedron(struct shape *shape, const double corners[4][3]) {
    uint32_t v[4];
    for (int c = 0; c < 4; c++) v[c] = shape_add_vertex(shape, corners[c][0], corners[c][1], corners[c][2]);
    add_tetrahedron_of(shape, v);
}

void add_box(struct shape *shape, const double lo[3], const double hi[3], bool is_inverted) {
    static const uint32_t faces[6][4] = {{0, 2, 3, 1}, {4, 5, 7, 6}, {0, 1, 5, 4},
                                         {2, 6, 7, 3}, {0, 4, 6, 2}, {1, 3, 7, 5}};
    const uint32_t first = shape->n_vertices;
    for (int c = 0; c < 8; c++)
        shape_add_vertex(shape, c & 1 ? hi[0] : lo[0], c & 2 ? hi[1] : lo[1], c & 4 ? hi[2] : lo[2]);
    for (int f = 0; f < 6; f++) {
        const uint32_t *v = faces[f];
        shape_add_quad(shape, first + v[0], first + v[is_inverted ? 3 : 1], first + v[2],
                       first + v[is_inverted ? 1 : 3]);
    }
}

/* Rises with the angle of (x, y) from -pi to pi. */
static double order_around(double x, double y) {
    const double slope = 1 - x / (fabs(x) + fabs(y));
    return y < 0 ? -slope : slope;
}

/* Adds the convex polygon of those vertices that lie furthest along a direction. */
static void add_face(struct shape *shape, uint32_t first, const double vertices[PERMUTOHEDRON_VERTICES][3],
                     const double normal[3], double height) {
    double u[3], w[3], angle[PERMUTOHEDRON_VERTICES];
    uint32_t ring[PERMUTOHEDRON_VERTICES], n = 0;
    vectors_across(normal, u, w);
    for (uint32_t v = 0; v < PERMUTOHEDRON_VERTICES; v++) {
        double along[3] = {0};
        for (int k = 0; k < 3; k++)
            along[0] += vertices[v][k] * normal[k], along[1] += vertices[v][k] * u[k],
                along[2] += vertices[v][k] * w[k];
        if (fabs(along[0] - height) > 1e-9) continue;
        uint32_t at = n++;
        const double a = order_around(along[1], along[2]);
        for (; at > 0 && angle[at - 1] > a; at--) angle[at] = angle[at - 1], ring[at] = ring[at - 1];
        angle[at] = a, ring[at] = v;
    }
    for (uint32_t i = 1; i + 1 < n; i++)
        shape_add_triangle(shape, first + ring[0], first + ring[i], first + ring[i + 1]);
}

void add_permutohedron(struct shape *shape, const double center[3], double width) {
    /* All permutations of (0, +-1, +-2), of which a cell of the lattice is 4 wide. */
    double vertices[PERMUTOHEDRON_VERTICES][3];
    uint32_t n = 0;
    for (int zero = 0; zero < 3; zero++)
        for (int order = 0; order < 2; order++)
            for (int sign = 0; sign < 4; sign++, n++) {
                const int one = (zero + 1 + order) % 3, two = (zero + 2 - order) % 3;
                vertices[n][zero] = 0;
                vertices[n][one] = sign & 1 ? 1 : -1;
                vertices[n][two] = sign & 2 ? 2 : -2;
            }
    const uint32_t first = shape->n_vertices;
    for (uint32_t v = 0; v < n; v++)
        shape_add_vertex(shape, center[0] + width / 4 * vertices[v][0], center[1] + width / 4 * vertices[v][1],
                         center[2] + width / 4 * vertices[v][2]);
    for (int axis = 0; axis < 3; axis++)
        for (int end = -1; end <= 1; end += 2) {
            double normal[3] = {0};
            normal[axis] = end;
            add_face(shape, first, vertices, normal, 2);
        }
    for (int octant = 0; octant < 8; octant++)
        add_face(shape, first, vertices,
                 (const double[3]){octant & 1 ? 1 : -1, octant & 2 ? 1 : -1, octant & 4 ? 1 : -1}, 3);
}

void close_tube(struct shape *shape, uint32_t n, uint32_t around, bool is_ring) {
    for (uint32_t i = 0; i + !is_ring < n; i++)
        for (uint32_t j = 0; j < around; j++) {
            const uint32_t next = (i + 1) % n, k = (j + 1) % around;
            shape_add_quad(shape, i * around + j, i * around + k, next * around + k, next * around + j);
        }
    for (uint32_t j = 1; j + 1 < around && !is_ring; j++) {
        const uint32_t last = (n - 1) * around;
        shape_add_triangle(shape, 0, j + 1, j);
        shape_add_triangle(shape, last, last + j, last + j + 1);
    }
}

void turn_inside_out(struct shape *shape) {
    for (uint32_t t = 0; t < shape->n_triangles; t++) {
        uint32_t *c = shape->triangles + 3 * (size_t)t, first = c[0];
        c[0] = c[1], c[1] = first;
    }
}

/* ---- Menger's sponge ---- */

static bool is_in_sponge(int64_t x, int64_t y, int64_t z, int64_t side) {
    if (x < 0 || y < 0 || z < 0 || x >= side || y >= side || z >= side) return false;
    for (; side > 1; side /= 3, x /= 3, y /= 3, z /= 3)
        if ((x % 3 == 1) + (y % 3 == 1) + (z % 3 == 1) > 1) return false;
    return true;
}

static int64_t side_of(int level) {
    int64_t side = 1;
    for (int i = 0; i < level; i++) side *= 3;
    return side;
}

/* Of 2 * 20^level + 4 * 8^level squares. */
uint32_t sponge_triangles(int level) {
    uint32_t parts = 1, squares = 1;
    for (int i = 0; i < level; i++) parts *= 20, squares *= 8;
    return 2 * (2 * parts + 4 * squares);
}

/* The edges of its surface have two faces each: cells that share an edge alone would need both neighbours empty, which
 * no pair of digits gives. */
struct shape make_menger_sponge(int level) {
    const int64_t side = side_of(level), row = side + 1;
    const uint32_t most = sponge_triangles(level);
    struct shape shape = shape_begin(2 * (uint64_t)most, most);
    uint32_t *index = shape_alloc((uint64_t)(row * row * row), sizeof *index); /* vertex + 1 */
    for (int64_t z = 0; z < side; z++)
        for (int64_t y = 0; y < side; y++)
            for (int64_t x = 0; x < side; x++) {
                if (!is_in_sponge(x, y, z, side)) continue;
                const int64_t at[3] = {x, y, z};
                for (int axis = 0; axis < 3; axis++)
                    for (int end = 0; end < 2; end++) {
                        int64_t to[3] = {x, y, z};
                        to[axis] += end ? 1 : -1;
                        if (is_in_sponge(to[0], to[1], to[2], side)) continue;
                        uint32_t corner[4];
                        for (int c = 0; c < 4; c++) {
                            int64_t p[3];
                            p[axis] = at[axis] + end;
                            p[(axis + 1) % 3] = at[(axis + 1) % 3] + (c == 1 || c == 2);
                            p[(axis + 2) % 3] = at[(axis + 2) % 3] + (c >= 2);
                            uint32_t *known = &index[(p[2] * row + p[1]) * row + p[0]];
                            if (!*known)
                                *known = 1 + shape_add_vertex(&shape, (double)p[0] / (double)side - 0.5,
                                                              (double)p[1] / (double)side - 0.5,
                                                              (double)p[2] / (double)side - 0.5);
                            corner[c] = *known - 1;
                        }
                        if (end)
                            shape_add_quad(&shape, corner[0], corner[1], corner[2], corner[3]);
                        else
                            shape_add_quad(&shape, corner[3], corner[2], corner[1], corner[0]);
                    }
            }
    free(index);
    return shape;
}

/* round.c - icosphere, blob, torus and cylinder. */
#include <math.h>
#include <stdlib.h>

#include "tests/scenes/build.h"

/* Midpoints of edges already split, by open addressing. */
struct midpoints {
    uint64_t *keys; /* 0: free */
    uint32_t *vertices;
    uint64_t mask;
};

struct sphere {
    double *points; /* [n][3], unit */
    uint32_t n;
    uint32_t *triangles;
    uint32_t n_triangles;
};

static uint32_t add_point(struct sphere *sphere, double x, double y, double z) {
    double length = sqrt(x * x + y * y + z * z), *to = sphere->points + 3 * (size_t)sphere->n;
    to[0] = x / length, to[1] = y / length, to[2] = z / length;
    return sphere->n++;
}

static uint32_t midpoint(struct sphere *sphere, struct midpoints *known, uint32_t a, uint32_t b) {
    uint64_t key = ((uint64_t)(a < b ? a : b) << 32 | (a < b ? b : a)) + 1;
    uint64_t slot = key * 0x9e3779b97f4a7c15u >> 20 & known->mask;
    while (known->keys[slot] && known->keys[slot] != key) slot = (slot + 1) & known->mask;
    if (!known->keys[slot]) {
        const double *p = sphere->points + 3 * (size_t)a, *q = sphere->points + 3 * (size_t)b;
        known->keys[slot] = key;
        known->vertices[slot] = add_point(sphere, p[0] + q[0], p[1] + q[1], p[2] + q[2]);
    }
    return known->vertices[slot];
}

static struct sphere unit_sphere(int level) {
    static const uint32_t faces[20][3] = {{0, 11, 5}, {0, 5, 1},  {0, 1, 7},   {0, 7, 10}, {0, 10, 11},
                                          {1, 5, 9},  {5, 11, 4}, {11, 10, 2}, {10, 7, 6}, {7, 1, 8},
                                          {3, 9, 4},  {3, 4, 2},  {3, 2, 6},   {3, 6, 8},  {3, 8, 9},
                                          {4, 9, 5},  {2, 4, 11}, {6, 2, 10},  {8, 6, 7},  {9, 8, 1}};
    const double g = (1 + sqrt(5.0)) / 2;
    const double corners[12][3] = {{-1, g, 0},  {1, g, 0},  {-1, -g, 0}, {1, -g, 0}, {0, -1, g},  {0, 1, g},
                                   {0, -1, -g}, {0, 1, -g}, {g, 0, -1},  {g, 0, 1},  {-g, 0, -1}, {-g, 0, 1}};
    struct sphere sphere = {0};
    uint64_t n_triangles = 20ull << 2 * level;
    sphere.points = shape_alloc(n_triangles / 2 + 2, 3 * sizeof(double));
    for (int i = 0; i < 12; i++) add_point(&sphere, corners[i][0], corners[i][1], corners[i][2]);
    sphere.triangles = shape_alloc(n_triangles, 3 * sizeof(uint32_t));
    for (int i = 0; i < 20; i++)
        for (int c = 0; c < 3; c++) sphere.triangles[3 * i + c] = faces[i][c];
    sphere.n_triangles = 20;
    for (int l = 0; l < level; l++) {
        struct midpoints known = {0};
        for (known.mask = 64; known.mask < 4 * (uint64_t)sphere.n_triangles;) known.mask *= 2;
        known.keys = shape_alloc(known.mask, sizeof *known.keys);
        known.vertices = shape_alloc(known.mask, sizeof *known.vertices);
        known.mask--;
        for (uint32_t t = sphere.n_triangles;
             t-- > 0;) { /* from the end: a triangle's four children overwrite only triangles already subdivided */
            uint32_t *from = sphere.triangles + 3 * (size_t)t, *to = sphere.triangles + 12 * (size_t)t;
            uint32_t a = from[0], b = from[1], c = from[2];
            uint32_t ab = midpoint(&sphere, &known, a, b), bc = midpoint(&sphere, &known, b, c);
            uint32_t ca = midpoint(&sphere, &known, c, a);
            const uint32_t four[12] = {a, ab, ca, b, bc, ab, c, ca, bc, ab, bc, ca};
            for (int i = 0; i < 12; i++) to[i] = four[i];
        }
        sphere.n_triangles *= 4;
        free(known.keys);
        free(known.vertices);
    }
    return sphere;
}

static double lattice_noise(int64_t x, int64_t y, int64_t z, uint64_t seed) { /* -1..1 */
    uint64_t state = seed ^ (uint64_t)x * 0x8da6b343 ^ (uint64_t)y * 0xd8163841 ^ (uint64_t)z * 0xcb1ab31f;
    shape_random(&state);
    return shape_uniform(&state, -1, 1);
}

/* Value noise with quintic interpolation: smooth, -1..1. */
static double noise(const double p[3], double frequency, uint64_t seed) {
    int64_t cell[3];
    double f[3];
    for (int k = 0; k < 3; k++) {
        double x = p[k] * frequency + 64.5, below = floor(x), t = x - below;
        cell[k] = (int64_t)below;
        f[k] = t * t * t * (t * (t * 6 - 15) + 10);
    }
    double sum = 0;
    for (int c = 0; c < 8; c++) {
        double weight = 1;
        for (int k = 0; k < 3; k++) weight *= c >> k & 1 ? f[k] : 1 - f[k];
        sum += weight * lattice_noise(cell[0] + (c & 1), cell[1] + (c >> 1 & 1), cell[2] + (c >> 2 & 1), seed);
    }
    return sum;
}

static struct shape displaced_sphere(double radius, int level, double bumps, uint64_t seed) {
    struct sphere sphere = unit_sphere(level);
    struct shape shape = shape_begin(sphere.n, sphere.n_triangles);
    for (uint32_t v = 0; v < sphere.n; v++) {
        const double *p = sphere.points + 3 * (size_t)v;
        double r = radius;
        if (bumps != 0)
            r *=
                1 + bumps * (0.6 * noise(p, 1.7, seed) + 0.3 * noise(p, 3.9, seed + 1) + 0.1 * noise(p, 9.1, seed + 2));
        shape_add_vertex(&shape, r * p[0], r * p[1], r * p[2]);
    }
    for (uint32_t t = 0; t < sphere.n_triangles; t++) {
        const uint32_t *c = sphere.triangles + 3 * (size_t)t;
        shape_add_triangle(&shape, c[0], c[1], c[2]);
    }
    free(sphere.points);
    free(sphere.triangles);
    return shape;
}

struct shape shape_icosphere(double radius, int level) {
    return displaced_sphere(radius, level, 0, 0);
}

struct shape shape_blob(double radius, int level, double bumps, uint64_t seed) {
    return displaced_sphere(radius, level, bumps, seed);
}

struct shape shape_torus(double R, double r, int n, int m) {
    struct shape shape = shape_begin((uint64_t)n * (uint64_t)m, 2ull * (uint64_t)n * (uint64_t)m);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++) {
            double ca, sa, cb, sb;
            shape_turn((double)i / n, &ca, &sa);
            shape_turn((double)j / m, &cb, &sb);
            shape_add_vertex(&shape, (R + r * cb) * ca, (R + r * cb) * sa, r * sb);
        }
    for (uint32_t i = 0; i < (uint32_t)n; i++)
        for (uint32_t j = 0; j < (uint32_t)m; j++) {
            uint32_t next_i = (i + 1) % (uint32_t)n * (uint32_t)m, next_j = (j + 1) % (uint32_t)m;
            shape_add_quad(&shape, i * (uint32_t)m + j, next_i + j, next_i + next_j, i * (uint32_t)m + next_j);
        }
    return shape;
}

struct shape shape_cylinder(double r, double height, int n) {
    struct shape shape = shape_begin(2ull * (uint64_t)n + 2, 4ull * (uint64_t)n);
    for (int top = 0; top < 2; top++)
        for (int i = 0; i < n; i++) {
            double c, s;
            shape_turn((double)i / n, &c, &s);
            shape_add_vertex(&shape, r * c, r * s, height * (top - 0.5));
        }
    uint32_t bottom = shape_add_vertex(&shape, 0, 0, -height / 2), top = shape_add_vertex(&shape, 0, 0, height / 2);
    for (uint32_t i = 0, N = (uint32_t)n; i < N; i++) {
        uint32_t next = (i + 1) % N;
        shape_add_quad(&shape, i, next, next + N, i + N);
        shape_add_triangle(&shape, bottom, next, i);
        shape_add_triangle(&shape, top, i + N, next + N);
    }
    return shape;
}

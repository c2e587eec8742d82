/* patch_shapes.h - shapes of several parts, whose intersections have several pieces: for tests of patches. */
#ifndef CONSISTENCY_PATCH_SHAPES_H
#define CONSISTENCY_PATCH_SHAPES_H

#include "tests/scenes/build.h"

static inline void append(struct shape *to, const struct shape *from, double x, double y, double z, int is_inverted) {
    struct shape sum = shape_begin(to->n_vertices + from->n_vertices, to->n_triangles + from->n_triangles);
    const struct shape *part[2] = {to, from};
    for (int p = 0; p < 2; p++) {
        const uint32_t first = sum.n_vertices;
        for (uint32_t v = 0; v < part[p]->n_vertices; v++) {
            const float *at = part[p]->positions + 3 * (size_t)v;
            shape_add_vertex(&sum, (double)at[0] + (p ? x : 0), (double)at[1] + (p ? y : 0),
                             (double)at[2] + (p ? z : 0));
        }
        for (uint32_t t = 0; t < part[p]->n_triangles; t++) {
            const uint32_t *c = part[p]->triangles + 3 * (size_t)t;
            const int turned = p && is_inverted;
            shape_add_triangle(&sum, first + c[0], first + c[turned ? 2 : 1], first + c[turned ? 1 : 2]);
        }
    }
    shape_free(to);
    *to = sum;
}

static inline void append_box(struct shape *to, const double lo[3], const double hi[3], int is_inverted) {
    struct shape box = shape_box(hi[0] - lo[0], hi[1] - lo[1], hi[2] - lo[2]);
    append(to, &box, (lo[0] + hi[0]) / 2, (lo[1] + hi[1]) / 2, (lo[2] + hi[2]) / 2, is_inverted);
    shape_free(&box);
}

static inline struct shape box_between(const double lo[3], const double hi[3]) {
    struct shape shape = {0};
    append_box(&shape, lo, hi, 0);
    return shape;
}

/* A comb along x, one connected surface: a back below z = 0 and n teeth up to z = 1, each 1/2 wide and 1 apart, all
 * from y = 0 to y = 1. */
static inline struct shape comb(int n) {
    const uint32_t outline = 4 * (uint32_t)n;
    struct shape s = shape_begin(2 * outline + 2 * 2 * (uint32_t)n, 100 * (uint64_t)n);
    /* Columns at x = 0, 1/2, 1, ...; each has a vertex at z = -1 and one at z = 0, and the teeth have them at z = 1. */
    const uint32_t columns = 2 * (uint32_t)n;
    uint32_t low[2][128] = {{0}}, middle[2][128] = {{0}}, high[2][128] = {{0}};
    for (uint32_t y = 0; y < 2; y++)
        for (uint32_t i = 0; i < columns; i++) {
            low[y][i] = shape_add_vertex(&s, i / 2.0, y, -1);
            middle[y][i] = shape_add_vertex(&s, i / 2.0, y, 0);
            high[y][i] = shape_add_vertex(&s, i / 2.0, y, 1);
        }
    for (uint32_t i = 0; i + 1 < columns; i++) {
        shape_add_quad(&s, low[0][i], low[0][i + 1], middle[0][i + 1], middle[0][i]);
        shape_add_quad(&s, low[1][i + 1], low[1][i], middle[1][i], middle[1][i + 1]);
        shape_add_quad(&s, low[1][i], low[1][i + 1], low[0][i + 1], low[0][i]);
        if (i % 2) { /* between two teeth */
            shape_add_quad(&s, middle[0][i], middle[0][i + 1], middle[1][i + 1], middle[1][i]);
            continue;
        }
        shape_add_quad(&s, middle[0][i], middle[0][i + 1], high[0][i + 1], high[0][i]);
        shape_add_quad(&s, middle[1][i + 1], middle[1][i], high[1][i], high[1][i + 1]);
        shape_add_quad(&s, high[0][i], high[0][i + 1], high[1][i + 1], high[1][i]);
        shape_add_quad(&s, middle[1][i], middle[0][i], high[0][i], high[1][i]);
        shape_add_quad(&s, middle[0][i + 1], middle[1][i + 1], high[1][i + 1], high[0][i + 1]);
    }
    shape_add_quad(&s, low[1][0], low[0][0], middle[0][0], middle[1][0]);
    shape_add_quad(&s, low[0][columns - 1], low[1][columns - 1], middle[1][columns - 1], middle[0][columns - 1]);
    return s;
}

#endif

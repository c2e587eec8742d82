/* open_surfaces.h - heightfields, and meshes of open surfaces, for consistency tests. */
#ifndef CONSISTENCY_OPEN_SURFACES_H
#define CONSISTENCY_OPEN_SURFACES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "tests/scenes/stage.h"

/* A heightfield over the square of this side around the origin, of n x n squares, facing up. */
typedef double height_fn(double x, double y);

static struct shape heightfield(height_fn *height, double side, uint32_t n) {
    struct shape s = {.n_vertices = (n + 1) * (n + 1), .n_triangles = 2 * n * n};
    s.positions = malloc(12 * (size_t)s.n_vertices);
    s.triangles = malloc(12 * (size_t)s.n_triangles);
    assert_true(s.positions && s.triangles);
    for (uint32_t j = 0; j <= n; j++)
        for (uint32_t i = 0; i <= n; i++) {
            const double x = side * ((double)i / n - 0.5), y = side * ((double)j / n - 0.5);
            float *p = s.positions + 3 * (size_t)(j * (n + 1) + i);
            p[0] = (float)x, p[1] = (float)y, p[2] = (float)height(x, y);
        }
    for (uint32_t j = 0; j < n; j++)
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t a = j * (n + 1) + i, b = a + 1, c = a + n + 1, d = c + 1;
            memcpy(s.triangles + 6 * (size_t)(j * n + i), (uint32_t[]){a, b, d, a, d, c}, 24);
        }
    return s;
}

static ct_status make_open(const struct shape *s, const double direction[3], ct_mesh **out, ct_error *error) {
    ct_mesh_options options;
    ct_mesh_options_init(&options);
    memcpy(options.open_direction, direction, sizeof options.open_direction);
    memset(error, 0, sizeof *error);
    return ct_mesh_create_with(s->positions, CT_F32, s->n_vertices, s->triangles, s->n_triangles, &options, out, NULL,
                               error);
}

#endif

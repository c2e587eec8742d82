/* thread.c - a bolt and a matching nut. */
#include <math.h>

#include "tests/scenes/build.h"

/* 0 at the root, 1 at the crest: a cosine cut off above and below, so that flanks are steep and crests nearly flat. */
static double profile(double phase) {
    double c, s;
    shape_turn(phase, &c, &s);
    double x = 0.5 + 0.8 * c;
    x = x < 0 ? 0 : x > 1 ? 1 : x;
    return x * x * (3 - 2 * x);
}

/* q + 1 rings of n vertices on a threaded surface, from below upward, then the quads between them, facing the axis or
 * away from it. The first ring starts at vertex 0. */
static void add_thread(struct shape *shape, double root, double depth, double pitch, int n, int m, int q, bool inward) {
    for (int j = 0; j <= q; j++)
        for (int i = 0; i < n; i++) {
            double c, s, turns = (double)(2 * j - q) / (2 * m), around = (double)i / n;
            double r = root + depth * profile(turns - around);
            shape_turn(around, &c, &s);
            shape_add_vertex(shape, r * c, r * s, pitch * turns);
        }
    for (uint32_t j = 0, N = (uint32_t)n; j < (uint32_t)q; j++)
        for (uint32_t i = 0; i < N; i++) {
            uint32_t a = j * N + i, b = j * N + (i + 1) % N;
            if (inward)
                shape_add_quad(shape, b, a, a + N, b + N);
            else
                shape_add_quad(shape, a, b, b + N, a + N);
        }
}

struct shape shape_bolt(double r, double depth, double pitch, int turns, int n, int m) {
    int q = turns * m;
    uint64_t N = (uint64_t)n, Q = (uint64_t)q;
    struct shape shape = shape_begin(N * (Q + 1) + 2, 2 * N * (Q + 1));
    add_thread(&shape, r - depth, depth, pitch, n, m, q, false);
    uint32_t bottom = shape_add_vertex(&shape, 0, 0, -0.5 * pitch * turns);
    uint32_t top = shape_add_vertex(&shape, 0, 0, 0.5 * pitch * turns);
    for (uint32_t i = 0, last = (uint32_t)(N * Q); i < (uint32_t)n; i++) {
        uint32_t next = (i + 1) % (uint32_t)n;
        shape_add_triangle(&shape, bottom, next, i);
        shape_add_triangle(&shape, top, last + i, last + next);
    }
    return shape;
}

struct shape shape_nut(double r, double depth, double pitch, int turns, int n, int m, double gap, double across_flats) {
    int q = turns * m;
    uint64_t N = (uint64_t)n, Q = (uint64_t)q;
    struct shape shape = shape_begin(N * (Q + 3), 2 * N * (Q + 3));
    add_thread(&shape, r - depth + gap, depth, pitch, n, m, q, true);
    for (int top = 0; top < 2; top++)
        for (int i = 0; i < n; i++) {
            double c, s, c_flat, s_flat, around = (double)i / n;
            double from_flat = around - floor(around * 6 + 1e-9) / 6 - 1.0 / 12; /* the middle of this flat: 0 */
            shape_turn(around, &c, &s);
            shape_turn(from_flat, &c_flat, &s_flat);
            double radius = across_flats / 2 / c_flat;
            shape_add_vertex(&shape, radius * c, radius * s, pitch * turns * (top - 0.5));
        }
    uint32_t inner_top = (uint32_t)(N * Q), outer = (uint32_t)(N * (Q + 1)), outer_top = outer + (uint32_t)n;
    for (uint32_t i = 0; i < (uint32_t)n; i++) {
        uint32_t next = (i + 1) % (uint32_t)n;
        shape_add_quad(&shape, outer + i, outer + next, outer_top + next, outer_top + i);
        shape_add_quad(&shape, inner_top + next, inner_top + i, outer_top + i, outer_top + next);
        shape_add_quad(&shape, i, next, outer + next, outer + i);
    }
    return shape;
}

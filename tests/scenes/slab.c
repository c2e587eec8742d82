/* slab.c - a wavy slab: a heightfield closed by sides and a flat bottom. */
#include "tests/scenes/build.h"

/* Sine of a full turn's fraction. */
static double sine_of(double turns) {
    double cosine, sine;
    shape_turn(turns, &cosine, &sine);
    return sine;
}

double shape_slab_top(double side, double wave, int waves, double x, double y) {
    return wave * sine_of(waves * x / side) * sine_of(waves * y / side);
}

/* Vertices of the top are numbered row by row along x; those of the bottom follow in the same order. */
struct shape shape_slab(double side, double thickness, double wave, int waves, int n) {
    const uint32_t N = (uint32_t)n, row = N + 1, bottom = row * row;
    const uint64_t squares = (uint64_t)N * N;
    struct shape shape = shape_begin(2 * (uint64_t)bottom, 4 * squares + 8 * (uint64_t)N);
    for (int is_bottom = 0; is_bottom < 2; is_bottom++)
        for (int j = 0; j <= n; j++)
            for (int i = 0; i <= n; i++) {
                double x = side * (2 * i - n) / (2 * n), y = side * (2 * j - n) / (2 * n);
                shape_add_vertex(&shape, x, y, is_bottom ? -thickness : shape_slab_top(side, wave, waves, x, y));
            }
    for (uint32_t j = 0; j < N; j++)
        for (uint32_t i = 0; i < N; i++) {
            uint32_t a = j * row + i, b = a + 1, c = b + row, d = a + row;
            shape_add_quad(&shape, a, b, c, d);
            shape_add_quad(&shape, bottom + d, bottom + c, bottom + b, bottom + a);
        }
    for (uint32_t i = 0; i < N; i++) {
        uint32_t front = i, back = N * row + i, left = i * row, right = left + N;
        shape_add_quad(&shape, bottom + front, bottom + front + 1, front + 1, front);
        shape_add_quad(&shape, bottom + back + 1, bottom + back, back, back + 1);
        shape_add_quad(&shape, bottom + left + row, bottom + left, left, left + row);
        shape_add_quad(&shape, bottom + right, bottom + right + row, right + row, right);
    }
    return shape;
}

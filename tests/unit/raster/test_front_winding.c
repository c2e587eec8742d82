/* test_front_winding.c - initial winding numbers from the loops of what lies in front, against counting: every sample,
 * both directions, corners on samples and on each other. */
#include "gpu/methods/ldi/front_winding.h"
#include "tests/unit/raster/cast.h"

static int32_t between(uint64_t *rng, int64_t lo, int64_t hi) {
    return (int32_t)(lo + (int64_t)(shape_random(rng) % (uint64_t)(hi - lo + 1)));
}

/* Corners anywhere around the window, or where many coincide with samples, edges and the window's begin. */
static void scatter(uint64_t *rng, const ct_window *window, struct cast_body *body, int kind) {
    for (uint32_t v = 0; v < body->shape.n_vertices; v++)
        for (int k = 0; k < 3; k++) {
            const ct_lattice *a = &window->axis[k];
            const int32_t half = 1 << (a->shift - 1), end = 2 * half * a->n;
            const double x = (double)body->shape.positions[3 * v + (uint32_t)k];
            body->coords[v][k] = kind == 0   ? half * between(rng, -2, 2 * a->n + 2)
                                 : kind == 1 ? between(rng, -end, 2 * end)
                                             : (int32_t)((x * 0.7 + 0.5) * end);
        }
}

/* Minus the times that triangles in front cover the sample, clockwise ones negative. */
static int32_t counted(const ct_window *window, const struct cast_body *body, int w, int32_t column, int32_t row) {
    const ct_tile tile = ct_uniform_tile(window, w);
    int32_t winding = 0;
    for (uint32_t t = 0; t < body->shape.n_triangles; t++) {
        const uint32_t *k = body->shape.triangles + 3 * (size_t)t;
        const int32_t *q[3] = {body->coords[k[0]], body->coords[k[1]], body->coords[k[2]]};
        ct_triangle_setup s;
        if (ct_max3(q[0][w], q[1][w], q[2][w]) >= window->axis[w].lo) continue;
        if (ct_make_setup(&s, q[0], q[1], q[2], ct_view_u(w), ct_view_v(w), w, ct_tile_u(&tile, column),
                          ct_tile_v(&tile, row), tile.shift_u, tile.shift_v) &&
            ct_covers(&s, s.edge[0], s.edge[1], s.edge[2]))
            winding -= s.ccw;
    }
    return winding;
}

static void test_as_counted(void **state) {
    (void)state;
    uint64_t rng = 51;
    uint64_t samples = 0, inside = 0, larger = 0;
    for (int round = 0; round < 300; round++) {
        int32_t n[3], shift[3];
        for (int k = 0; k < 3; k++) {
            n[k] = between(&rng, 1, 12);
            shift[k] = between(&rng, 1, 20);
        }
        ct_window window = cast_window(n, shift);
        for (int k = 0; k < 3; k++) window.axis[k].lo = between(&rng, 0, n[k]) << shift[k];
        struct cast_body body = cast_body_of(round % 3 == 0   ? shape_torus(0.7, 0.25, 9, 6)
                                             : round % 3 == 1 ? shape_icosphere(1, 1)
                                                              : shape_cube(1, 2));
        scatter(&rng, &window, &body, round / 3 % 3);
        const ct_triangle_run all = {0, body.shape.n_triangles};
        for (int w = 0; w < 3; w++) {
            const ct_tile tile = ct_uniform_tile(&window, w);
            int32_t *by_u = malloc((size_t)tile.n_u * (size_t)tile.n_v * sizeof *by_u);
            int32_t *by_v = malloc((size_t)tile.n_u * (size_t)tile.n_v * sizeof *by_v);
            ct_front_loops loops = {(const ct_coords *)body.coords, body.shape.triangles, &all, 1, true};
            ct_count_front_winding(&loops, &window, w, by_u);
            loops.along_u = false;
            ct_count_front_winding(&loops, &window, w, by_v);
            for (int32_t row = 0; row < tile.n_v; row++)
                for (int32_t column = 0; column < tile.n_u; column++) {
                    const int32_t expected = counted(&window, &body, w, column, row);
                    assert_int_equal(by_u[row * tile.n_u + column], expected);
                    assert_int_equal(by_v[row * tile.n_u + column], expected);
                    samples++;
                    inside += expected != 0;
                    larger += expected > 1 || expected < 0;
                }
            free(by_u);
            free(by_v);
        }
        cast_body_free(&body);
    }
    print_message("%llu samples, %llu with a winding number, %llu beyond 0 and 1\n", (unsigned long long)samples,
                  (unsigned long long)inside, (unsigned long long)larger);
    assert_true(inside > samples / 20 && larger > 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_as_counted)};
    return cmocka_run_group_tests_name("front_winding", tests, NULL, NULL);
}

/* test_tile_kinks.c - what the kernel computes of four edges or faces at a time against the same of one, bit for bit.
 */
#ifndef CT_SIMD
#define CT_SIMD test
#endif
#include "gpu/methods/ebpi/list_cpu.simd.c" /* NOLINT(bugprone-suspicious-include): what it keeps to itself is tested */
#include "gpu/methods/ebpi/tile_cpu.simd.c" /* NOLINT(bugprone-suspicious-include) */

#include "tests/scenes/shapes.h"
#include "tests/unit/unit.h"

/* A slope: often level, and often the same as another one's. */
static double random_slope(uint64_t *rng) {
    static const double some[] = {0, 0.5, -0.5, 1e-7, 300};
    const uint64_t kind = shape_random(rng) % 8;
    return kind < 5 ? some[kind] : shape_uniform(rng, -3, 3);
}

/* Errors of four edges. Shorter and longer ones than the tile's sides, along both axes; narrow faces; coplanar ones. */
static void test_errors(void **state) {
    (void)state;
    uint64_t rng = 1;
    int n_some = 0, n_none = 0;
    for (int i = 0; i < 40000; i++) {
        struct tile_faces t = {.width = 1 << shape_random(&rng) % 20, .height = 1 << shape_random(&rng) % 20};
        struct sides4 sides[2];
        ct_ebpi_side side[4][2];
        ct_v4d lu, lv;
        for (int l = 0; l < 4; l++) {
            lu[l] = shape_random(&rng) % 4 ? shape_uniform(&rng, 0, t.width) : 0;
            lv[l] = shape_random(&rng) % 4 ? shape_uniform(&rng, 0, t.height) : 0;
            for (int b = 0; b < 2; b++) {
                const double su = random_slope(&rng), sv = random_slope(&rng), up = shape_random(&rng) % 2 ? 1 : -1;
                const double depth = (double)(shape_random(&rng) % (1 << 20));
                sides[b].su[l] = su;
                sides[b].sv[l] = sv;
                sides[b].depth[l] = depth;
                sides[b].is_up[l] = up > 0 ? -1 : 0;
                side[l][b] = (ct_ebpi_side){{-up * su, -up * sv, up}, depth, false};
            }
        }
        ct_v4d drop, narrow;
        const ct_v4d errors = find_errors(&t, sides, lu, lv, &drop, &narrow);
        for (int l = 0; l < 4; l++) {
            const double error = ct_ebpi_edge_error(side[l], lu[l], lv[l], t.width, t.height);
            assert_true(errors[l] == error);
            double one_drop, one_narrow;
            if (error > 0) {
                assert_true(ct_ebpi_edge_steps(side[l], lu[l], lv[l], t.width, t.height, &one_drop, &one_narrow));
                assert_true(drop[l] == one_drop && narrow[l] == one_narrow);
            }
            n_some += error > 0;
            n_none += error == 0;
        }
    }
    assert_true(n_some > 50000 && n_none > 2000);
}

/* What four edges add to a polynomial, and how far they run inside a tile, as measure_k.h has it of one. */
static void test_single_edges(void **state) {
    (void)state;
    uint64_t rng = 4;
    int n_clipped = 0;
    for (int i = 0; i < 20000; i++) {
        ct_ebpi_polynomial four = {{0}, 0, 0}, one = {{0}, 0, 0};
        const int shift = (int)(shape_random(&rng) % 20);
        struct tile_faces t = {.width = 1 << shift,
                               .height = 1 << shape_random(&rng) % 20,
                               .rect = {-(1 << shift), 1 << shift, 0, 1 << shape_random(&rng) % 20},
                               .polynomial = &four};
        ct_v4i a[2], b[2];
        ct_v4d length[2], drop, narrow;
        const int64_t n = 1 + (int64_t)(shape_random(&rng) % 4);
        for (int l = 0; l < 4; l++)
            for (int k = 0; k < 2; k++) {
                a[k][l] = (int32_t)(shape_random(&rng) % (4u << shift)) - (2 << shift);
                b[k][l] =
                    shape_random(&rng) % 5 ? (int32_t)(shape_random(&rng) % (4u << shift)) - (2 << shift) : a[k][l];
                drop[l] = shape_random(&rng) % 4 ? shape_uniform(&rng, 0, 1e6) : 0;
                narrow[l] = shape_random(&rng) % 4 ? shape_uniform(&rng, 0, 1e3) : 0;
            }
        clip_edges(&t, a, b, length);
        const ct_v4d x = length[0] * (1 / t.width), y = length[1] * (1 / t.height);
        add_terms(&t, (ct_v4l){0, 1, 2, 3} < n, x, y, drop, narrow);
        add_lanes(&t);
        for (int l = 0; l < 4; l++) {
            const int32_t from[2] = {a[0][l], a[1][l]}, to[2] = {b[0][l], b[1][l]};
            double run[2];
            ct_ebpi_clip_edge(&t.rect, from, to, run);
            assert_true(run[0] == length[0][l] && run[1] == length[1][l]);
            n_clipped += run[0] > 0 && run[0] < fabs((double)to[0] - from[0]);
            if (l < n) ct_ebpi_add_edge_terms(&one, x[l], y[l], drop[l], narrow[l]);
        }
        assert_memory_equal(&four, &one, sizeof one);
    }
    assert_true(n_clipped > 1000);
}

static void test_whole_part(void **state) {
    (void)state;
    uint64_t rng = 2;
    for (int i = 0; i < 100000; i++) {
        ct_v4d x;
        for (int l = 0; l < 4; l++) {
            const double whole = (double)(shape_random(&rng) >> (14 + shape_random(&rng) % 50));
            x[l] = whole + (shape_random(&rng) % 2 ? shape_uniform(&rng, 0, 1) : 0);
        }
        const ct_v4l found = whole_part(x);
        for (int l = 0; l < 4; l++) assert_true(found[l] == (int64_t)x[l]);
        const ct_v4d near = x * 0x1p-20 * (i % 2 ? 1 : -1);
        const ct_v4i down = round_down(near), up = round_up(near);
        for (int l = 0; l < 4; l++) assert_true(down[l] == (int32_t)floor(near[l]) && up[l] == (int32_t)ceil(near[l]));
    }
}

/* Layers against intervals that are joined one by one. */
static void test_layers(void **state) {
    (void)state;
    enum { FACES = 40, DEPTHS = 200 };
    uint64_t rng = 3;
    for (int i = 0; i < 5000; i++) {
        int32_t lo[FACES], hi[FACES], crossing[FACES];
        ct_layer memory[FACES + 1];
        ct_layers layers = {memory, 0};
        const uint32_t n = 1 + (uint32_t)(shape_random(&rng) % FACES);
        struct tile_faces t = {.lo = lo, .hi = hi, .crossing = crossing};
        int sum[DEPTHS + 20] = {0}; /* crossings of faces that begin at each half depth */
        bool is_held[2 * DEPTHS + 40] = {0};
        for (uint32_t f = 0; f < n; f++) {
            lo[f] = (int32_t)(shape_random(&rng) % DEPTHS);
            hi[f] = lo[f] + (int32_t)(shape_random(&rng) % (i % 2 ? 4 : 20));
            crossing[f] = (int32_t)(shape_random(&rng) % 3) - 1;
            sum[lo[f]] += crossing[f];
            for (int32_t d = 2 * lo[f]; d <= 2 * hi[f]; d++) is_held[d] = true;
        }
        find_layers(&t, 0, n, &layers);
        uint32_t k = 0;
        for (int32_t d = 0; d < 2 * DEPTHS + 38; d++) {
            if (!is_held[d]) continue;
            int crossings = 0;
            const int32_t from = d;
            for (; is_held[d + 1]; d++) crossings += d % 2 ? 0 : sum[d / 2];
            crossings += d % 2 ? 0 : sum[d / 2];
            assert_true(k < layers.n && from % 2 == 0 && d % 2 == 0);
            assert_int_equal(layers.of[k].lo, from / 2);
            assert_int_equal(layers.of[k].hi, d / 2);
            assert_int_equal(layers.of[k++].crossings, crossings);
        }
        assert_int_equal(k, layers.n);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_single_edges),
        cmocka_unit_test(test_whole_part),
        cmocka_unit_test(test_layers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

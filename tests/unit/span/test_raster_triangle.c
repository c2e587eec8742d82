/* A triangle on a bin as the large-triangle path has it, against the definitions: coverage, depth, sums. */
#include <math.h>

#include "gpu/methods/ldi/raster_triangle.h"
#include "tests/scenes/shapes.h"
#include "tests/unit/unit.h"

static int32_t between(uint64_t *rng, int64_t lo, int64_t hi) {
    return (int32_t)(lo + (int64_t)(shape_random(rng) % (uint64_t)(hi - lo + 1)));
}

/* Corners anywhere; on samples and between; two few units apart; or all of them few units from a sample along one axis,
 * which makes faces that are all but edge-on. */
static void any_corners(uint64_t *rng, const ct_lattice axis[3], int32_t q[3][3]) {
    int kind = between(rng, 0, 4), flat = between(rng, 0, 2);
    for (int k = 0; k < 3; k++) {
        int64_t half = (int64_t)1 << (axis[k].shift - 1), n = axis[k].n;
        for (int c = 0; c < 3; c++) {
            if (kind == 1)
                q[c][k] = (int32_t)(half * between(rng, -2, 2 * n + 2));
            else if (kind == 2 && c == 2)
                q[c][k] = q[1][k] + between(rng, -3, 3);
            else if (kind == 3 && k == flat)
                q[c][k] = (c ? q[0][k] : (int32_t)(half * (2 * between(rng, 0, n - 1) + 1))) + between(rng, -2, 2);
            else
                q[c][k] = between(rng, -2 * half * n, 4 * half * n);
        }
    }
}

/* The error of `depth`: its distance along the ray from the plane through the corners. */
static double depth_error(const ct_triangle_setup *s, int64_t e1, int64_t e2, double depth) {
    __int128 area = (__int128)s->edge[0] + s->edge[1] + s->edge[2];
    __int128 rise = (__int128)e1 * (int64_t)s->dz1 + (__int128)e2 * (int64_t)s->dz2, whole = rise / area;
    return fabs(depth - s->z0 - (double)whole - (double)(rise - whole * area) / (double)area);
}

/* Any of the samples that it covers of four rows, which are few: bits. */
static void check_rows(const struct raster_triangle *p, int32_t row, int32_t column, ct_v4u which) {
    const ct_triangle_setup *s = &p->setup;
    int64_t n = 0, depth = 0, l1 = 0, l2 = 0;
    struct bound_sums whole = {0}, half = {0};
    int64_t half1 = 0, half2 = 0;
    sum_rows(&whole, p, row, column, which, 0);
    sum_rows(&half, p, row, column, which, 1);
    for (int r = 0; r < ROWS_AT_ONCE; r++)
        for (int b = 0; b < 64; b++) {
            if (!(which[r] >> b & 1)) continue;
            const int32_t i = column + b, j = row + r;
            ct_fragment f = ct_fragment_at(s, (double)(s->edge[1] + i * s->step_u[1] + j * s->step_v[1]),
                                           (double)(s->edge[2] + i * s->step_u[2] + j * s->step_v[2]), 0);
            n++;
            depth += ct_fragment_depth(f.key) - s->z0;
            l1 += (int32_t)f.l1;
            l2 += (int32_t)f.l2;
            half1 += (int32_t)f.l1 >> 1;
            half2 += (int32_t)f.l2 >> 1;
        }
    assert_int_equal(whole.n, n);
    assert_int_equal(bound_sum(whole.n, whole.depth, 0), depth);
    assert_int_equal(bound_sum(whole.n, whole.l1, 0), l1);
    assert_int_equal(bound_sum(whole.n, whole.l2, 0), l2);
    assert_int_equal(half.n, n);
    assert_int_equal(bound_sum(half.n, half.l1, 1), half1);
    assert_int_equal(bound_sum(half.n, half.l2, 1), half2);
}

static void test_as_defined(void **state) {
    (void)state;
    uint64_t rng = 41, covered = 0, placed = 0, unknown = 0, inexact = 0;
    double worst = 0;
    for (int round = 0; round < 6000; round++) {
        ct_lattice axis[3];
        int32_t q[3][3];
        const int fine = between(&rng, 0, 1);
        for (int k = 0; k < 3; k++) {
            int32_t shift = fine ? between(&rng, 16, 21) : between(&rng, 1, 21);
            axis[k] = (ct_lattice){.shift = shift, .n = between(&rng, 1, 40)};
        }
        any_corners(&rng, axis, q);
        if (round % 16 == 0) /* as far as coordinates go */
            for (int c = 0; c < 3; c++)
                for (int k = 0; k < 3; k++) q[c][k] = between(&rng, -(1 << 28), 1 << 28);
        const int32_t *const corners[3] = {q[0], q[1], q[2]};
        int w = between(&rng, 0, 2);
        const ct_lattice *lu = &axis[ct_view_u(w)], *lv = &axis[ct_view_v(w)];
        const ct_window window = {{axis[0], axis[1], axis[2]}};
        const ct_tile tile = ct_uniform_tile(&window, w);
        const ct_binned_tile of = {.tile = tile, .view = w};
        int32_t first_row = between(&rng, 0, lv->n - 1), rows = between(&rng, 1, lv->n - first_row);
        int32_t first_column = between(&rng, 0, 1) ? 0 : between(&rng, 0, lu->n - 1), columns = lu->n - first_column;
        const ct_bin bin = {&of, first_column, first_row, columns, rows};
        struct raster_triangle p;
        enum setup_result result = setup_raster_triangle(&p, corners, &bin);
        inexact += result == SETUP_NOT_EXACT;
        placed += result == SETUP_OK;
        ct_triangle_setup any;
        if (result == SETUP_NOT_EXACT || !setup_in_bin(&any, corners, &bin, 0, 0)) continue;
        if (result == SETUP_OK) unknown += isnan(p.depth.at);
        ct_v4i begin = {0}, end = {0};
        ct_v4u covered_here = {0};
        const int32_t column = between(&rng, 0, 3) ? 0 : between(&rng, 0, columns - 1);
        for (int32_t row = 0; row < rows; row++) {
            const int r = row % ROWS_AT_ONCE;
            if (result == SETUP_OK && r == 0) cover_rows(&p, row, &begin, &end);
            for (int32_t i = 0; i < columns; i++) {
                int64_t e[3];
                for (int k = 0; k < 3; k++) e[k] = any.edge[k] + i * any.step_u[k] + row * any.step_v[k];
                bool covers = ct_covers(&any, e[0], e[1], e[2]);
                assert_int_equal(i >= begin[r] && i < end[r], covers);
                if (!covers) continue;
                covered++;
                if (i >= column) covered_here[r] |= (uint64_t)1 << (i - column);
                if (isnan(p.depth.at)) continue;
                double error = depth_error(&any, e[1], e[2], p.depth.at + row * p.depth.dv + i * p.depth.du);
                if (error > worst) worst = error;
            }
            if (result != SETUP_OK || (r + 1 < ROWS_AT_ONCE && row + 1 < rows)) continue;
            check_rows(&p, row - r, column, covered_here);
            const uint64_t some = shape_random(&rng);
            check_rows(&p, row - r, column, covered_here & (ct_v4u){some, ~some, ~(uint64_t)0, some << 1});
            covered_here = (ct_v4u){0};
        }
    }
    print_message("%llu placed, %llu samples, depth within %.3g; %llu of unknown depth, %llu not exact\n",
                  (unsigned long long)placed, (unsigned long long)covered, worst, (unsigned long long)unknown,
                  (unsigned long long)inexact);
    assert_true(worst <= 0.125);
    assert_true(covered > 50000 && unknown > 20 && inexact > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_as_defined)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

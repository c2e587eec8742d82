/* test_tile_size.c - error bound polynomials against the errors of their edges, and tile sizes against a search of all
 * sizes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/methods/ebpi/tile_bound.h"
#include "tests/scenes/shapes.h"
#include "tests/unit/unit.h"

static const double SCALE = 1 << CT_EBPI_DEPTH_BITS;
static const ct_ebpi_cut MOST = {14, 14};

static ct_ebpi_side random_side(uint64_t *rng, double steepest, double depth) {
    const double u = shape_uniform(rng, -steepest, steepest), v = shape_uniform(rng, -steepest, steepest);
    return (ct_ebpi_side){{u, v, shape_random(rng) % 2 ? 1 : -1}, depth, false};
}

/* Terms of an edge. False: it adds nothing. */
static bool find_terms(const ct_ebpi_side side[2], double lu, double lv, double w, double h,
                       double term[CT_EBPI_TERMS]) {
    double drop, narrow, sum = 0;
    if (!ct_ebpi_edge_steps(side, lu, lv, w, h, &drop, &narrow)) return false;
    ct_ebpi_spread_terms(lu / w, lv / h, drop, narrow, term);
    for (int k = 0; k < CT_EBPI_TERMS; k++) sum += term[k];
    return sum > 0;
}

static void add_edge(ct_ebpi_polynomial *to, const ct_ebpi_side side[2], double lu, double lv, double w, double h) {
    double term[CT_EBPI_TERMS];
    if (find_terms(side, lu, lv, w, h, term)) ct_ebpi_add_terms(to, term, lu / w, lv / h);
}

/* A pixel of w x h lattice units with edges between faces as slanted as depths of about 10^4 units make them. */
static ct_ebpi_polynomial random_polynomial(uint64_t *rng, double w, double h, int n_edges) {
    ct_ebpi_polynomial polynomial = {{0}, 0, 0};
    for (int i = 0; i < n_edges; i++) {
        ct_ebpi_side side[2] = {random_side(rng, 3, 1e9), random_side(rng, 3, 1e9)};
        if (shape_random(rng) % 3 == 0) {
            side[0].is_steep = true;
            side[0].depth = shape_uniform(rng, 1, w);
        }
        const double lu = shape_uniform(rng, 0, w), lv = shape_random(rng) % 4 ? shape_uniform(rng, 0, h) : 0;
        add_edge(&polynomial, side, lu, lv, w, h);
    }
    return polynomial;
}

/* The polynomial of one edge is the sum over the pixel's tiles of the error that ct_ebpi_edge_error has in each, as
 * long as the edge runs along the same axis and no face becomes narrow. */
static void test_terms(void **state) {
    (void)state;
    uint64_t rng = 4;
    int n = 0;
    for (int i = 0; i < 2000; i++) {
        const double w = 4096, h = 1 << (10 + shape_random(&rng) % 4);
        const bool is_steep = shape_random(&rng) % 2;
        ct_ebpi_side side[2] = {random_side(&rng, 2, 1e9), random_side(&rng, 2, 1e9)};
        if (is_steep) side[0] = (ct_ebpi_side){{1, shape_uniform(&rng, -1, 1), 0}, shape_uniform(&rng, 1, 1e4), true};
        const double lu = shape_uniform(&rng, 0, w), lv = shape_uniform(&rng, 0, h);
        const double p = shape_uniform(&rng, 0.1, 1), q = shape_uniform(&rng, 0.1, 1);
        double term[CT_EBPI_TERMS], sum = 0;
        if ((lv * w * p >= lu * h * q) != (lv * w >= lu * h)) continue;
        const double error = ct_ebpi_edge_error(side, lu, lv, w * p, h * q) * p * q;
        if (!find_terms(side, lu, lv, w, h, term)) continue;
        const double power[] = {p * p, q * q, p * q, q * q * q / p, p * p * p / q, q, p};
        for (int k = 0; k < CT_EBPI_TERMS; k++) sum += term[k] * power[k];
        assert_float_equal(sum > 0 ? sum : 0, error, 1e-9 * (error + 1));
        ct_ebpi_polynomial polynomial = {{0}, 0, 0};
        ct_ebpi_add_terms(&polynomial, term, lu / w, lv / h);
        assert_float_equal(ct_ebpi_evaluate(&polynomial, p, q) / SCALE, error, 1e-3 + 1e-9 * error);
        n += error > 0;
    }
    assert_true(n > 1000);
}

/* Halved sides give what the parts give. */
static void test_cuts(void **state) {
    (void)state;
    uint64_t rng = 6;
    for (int i = 0; i < 500; i++) {
        const ct_ebpi_polynomial of = random_polynomial(&rng, 4096, 2048, 3);
        const ct_ebpi_cut cut = {(uint8_t)(shape_random(&rng) % 8), (uint8_t)(shape_random(&rng) % 8)};
        const double error = ct_ebpi_evaluate(&of, ldexp(1, -cut.u), ldexp(1, -cut.v));
        assert_float_equal(ct_ebpi_evaluate_cut(&of, cut), error, 1e-12 * error);
    }
}

/* Equations 10 and 11: within the tolerance, of the ratio asked for unless a side is the pixel's, and with the largest
 * area of that ratio. */
static void test_sizes(void **state) {
    (void)state;
    uint64_t rng = 8;
    int n_cut = 0, n_at_side = 0;
    for (int i = 0; i < 2000; i++) {
        const ct_ebpi_polynomial of = random_polynomial(&rng, 4096, 4096, 1 + (int)(shape_random(&rng) % 6));
        const double whole = ct_ebpi_evaluate(&of, 1, 1);
        const double tolerance = whole * pow(10, shape_uniform(&rng, -4, 0.3)) + 1;
        double p, q;
        ct_ebpi_tile_size(&of, tolerance, &p, &q);
        assert_true(p > 0 && p <= 1 && q > 0 && q <= 1);
        if (whole <= tolerance) {
            assert_true(p == 1 && q == 1);
            continue;
        }
        n_cut++;
        assert_true(ct_ebpi_evaluate(&of, p, q) <= tolerance);
        const double ratio = (double)of.along_u / (double)of.along_v;
        if (p < 1 && q < 1) {
            assert_float_equal(p / q, ratio, 1e-9 * ratio);
            assert_true(ct_ebpi_evaluate(&of, fmin(1.02 * p, 1), fmin(1.02 * q, 1)) > 0.99 * tolerance);
        } else {
            n_at_side++;
            assert_true(p < 1 ? ratio <= 1.0001 * p : ratio * q >= 0.9999);
        }
    }
    assert_true(n_cut > 1000 && n_at_side > 20);
}

/* For a single edge along an axis the best tiles are as long as the pixel and narrow, and their width has a closed
 * form, with which Newton's result is compared. */
static void test_one_edge(void **state) {
    (void)state;
    const double w = 4096;
    const ct_ebpi_side wall[2] = {{{0, 0, 1}, 1e9, false}, {{1, 0, 0}, 1000, true}};
    double term[CT_EBPI_TERMS], p, q;
    assert_true(find_terms(wall, 0, w, w, w, term));
    ct_ebpi_polynomial of = {{0}, 0, 0};
    ct_ebpi_add_terms(&of, term, 0, 1);
    /* half the step in the tiles that it crosses, the part p of all */
    ct_ebpi_tile_size(&of, 500 * SCALE / 20, &p, &q);
    assert_float_equal(p, 1.0 / 20, 0.02 / 20);
    assert_true(p <= 1.0 / 20 && q == 1);
    const ct_ebpi_cut cut = ct_ebpi_cut_to(&of, 500 * SCALE / 20, MOST);
    assert_true(cut.u == 5 && cut.v == 0);
    double error = ct_ebpi_evaluate_cut(&of, (ct_ebpi_cut){0, 0});
    const ct_ebpi_cut more = ct_ebpi_cut_more(&of, (ct_ebpi_cut){0, 0}, (ct_ebpi_cut){1, 1}, &error);
    assert_true(more.u == 1 && more.v == 0);
    assert_float_equal(error, 250 * SCALE, 1);
    assert_true(ct_ebpi_cut_more(&of, more, (ct_ebpi_cut){0, 1}, &error).v == 1); /* the only one it may */
}

/* Cuts are within the tolerance, and none that leaves out a halving is. In the mean they are no more than twice the
 * fewest of all cuts: where steps of the depth and slopes lie together, the paper's ratio is not the best one. */
static void test_cut_to(void **state) {
    (void)state;
    uint64_t rng = 9;
    double halvings = 0; /* more than needed */
    for (int i = 0; i < 1000; i++) {
        const ct_ebpi_polynomial of = random_polynomial(&rng, 4096, 4096, 1 + (int)(shape_random(&rng) % 6));
        const double tolerance = ct_ebpi_evaluate(&of, 1, 1) * pow(10, shape_uniform(&rng, -3, 0.3)) + 1;
        const ct_ebpi_cut cut = ct_ebpi_cut_to(&of, tolerance, MOST);
        assert_true(ct_ebpi_evaluate_cut(&of, cut) <= tolerance);
        if (cut.u) assert_true(ct_ebpi_evaluate_cut(&of, (ct_ebpi_cut){(uint8_t)(cut.u - 1), cut.v}) > tolerance);
        if (cut.v) assert_true(ct_ebpi_evaluate_cut(&of, (ct_ebpi_cut){cut.u, (uint8_t)(cut.v - 1)}) > tolerance);
        int best = 2 * MOST.u;
        for (uint8_t u = 0; u <= MOST.u; u++)
            for (uint8_t v = 0; v <= MOST.v && u + v < best; v++)
                if (ct_ebpi_evaluate_cut(&of, (ct_ebpi_cut){u, v}) <= tolerance) best = u + v;
        halvings += (cut.u + cut.v - best) / 1000.0;
    }
    print_message("%.2f halvings more than in the best cuts\n", halvings);
    assert_true(halvings <= 1);
    /* A cut that may go no further stays where it is. */
    const ct_ebpi_polynomial of = random_polynomial(&rng, 4096, 4096, 6);
    const ct_ebpi_cut cut = ct_ebpi_cut_to(&of, 1, (ct_ebpi_cut){2, 1});
    assert_true(cut.u == 2 && cut.v == 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_terms),    cmocka_unit_test(test_cuts),   cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_one_edge), cmocka_unit_test(test_cut_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

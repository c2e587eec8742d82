/* test_predicates.c - the method `exact`: signs of determinants against arithmetic of any length, also at the largest
 * coordinates; ties against bodies that really move by a little; and every two triangles that cross have one start and
 * one end, which are those of the bodies moved by a little. */
#include "gpu/methods/exact/predicates_k.h"

#include <math.h>
#include <string.h>

#include "gpu/methods/exact/segment_k.h"
#include "tests/scenes/shapes.h"
#include "tests/unit/exact/big.h"
#include "tests/unit/unit.h"

struct point {
    double as_double[3];
    int64_t as_integer[3];
};

static struct point point_of(int64_t x, int64_t y, int64_t z) {
    return (struct point){{(double)x, (double)y, (double)z}, {x, y, z}};
}

static int64_t random_below(uint64_t *rng, int64_t limit) { /* -limit .. limit */
    return (int64_t)(shape_random(rng) % (uint64_t)(2 * limit + 1)) - limit;
}

static struct point random_point(uint64_t *rng, int64_t limit) {
    const int64_t x = random_below(rng, limit), y = random_below(rng, limit), z = random_below(rng, limit);
    return point_of(x, y, z);
}

static struct big orientation(const struct point p[4]) {
    return big_orientation(p[0].as_integer, p[1].as_integer, p[2].as_integer, p[3].as_integer);
}

/* ---- signs ---- */

static void assert_value(double value, double error, struct big exact) {
    const long double real = big_to_real(exact);
    assert_true(fabsl((long double)value - real) <= (long double)error + 0x1p-60L * fabsl(real));
}

/* The predicates of four points, in both roles. */
static void check_four(const struct point p[4]) {
    const struct big exact = orientation(p);
    const double *a = p[0].as_double, *b = p[1].as_double, *c = p[2].as_double, *d = p[3].as_double;
    const ct_int128 det = ct_orientation(a, b, c, d);
    assert_int_equal(ct_sign_of(det), exact.sign);
    assert_value(ct_int128_to_double(det), fabs(ct_int128_to_double(det)) * 0x1p-51, exact);
    for (int moved = -1; moved <= 1; moved += 2) {
        const ct_signed_value side = ct_exact_side(d, a, b, c, moved), edges = ct_exact_edges(a, b, c, d, moved);
        assert_int_equal(side.is_tie, exact.sign == 0);
        assert_int_equal(edges.is_tie, exact.sign == 0);
        assert_value(side.value, side.error, exact);
        assert_value(edges.value, edges.error, exact);
        if (exact.sign) {
            assert_int_equal(side.sign, exact.sign);
            assert_int_equal(edges.sign, exact.sign);
        }
        /* Turning a triangle or an edge around turns the sign; swapping the edges, and with them who moves, does not.
         */
        assert_int_equal(ct_exact_side(d, b, a, c, moved).sign, -side.sign);
        assert_int_equal(ct_exact_side(d, b, c, a, moved).sign, side.sign);
        assert_int_equal(ct_exact_edges(b, a, c, d, moved).sign, -edges.sign);
        assert_int_equal(ct_exact_edges(c, d, a, b, -moved).sign, edges.sign);
        assert_int_equal(ct_exact_side(d, a, b, c, -moved).sign, exact.sign ? side.sign : -side.sign);
    }
}

static void test_signs_of_random_points(void **state) {
    (void)state;
    static const int bits[] = {1, 2, 10, 25, 38, 39};
    uint64_t rng = 1;
    for (int i = 0; i < 60000; i++) {
        struct point p[4];
        const int64_t limit = ((int64_t)1 << bits[i % 6]) - 1;
        for (int k = 0; k < 4; k++) p[k] = random_point(&rng, limit);
        check_four(p);
    }
    for (int i = 0; i < 4096; i++) { /* the corners of the lattice: the largest determinants */
        struct point p[4];
        const int64_t limit = ((int64_t)1 << 39) - 1;
        for (int k = 0; k < 4; k++)
            p[k] = point_of(i >> (3 * k) & 1 ? limit : -limit, i >> (3 * k + 1) & 1 ? limit : -limit,
                            i >> (3 * k + 2) & 1 ? limit : -limit);
        check_four(p);
    }
}

/* Four points in a plane, across the whole lattice, or one of them a unit off. */
static void flatten(uint64_t *rng, struct point p[4], bool is_off) {
    const int64_t steps = 1 << (shape_random(rng) % 19), limit = ((int64_t)1 << 38) / (2 * steps + 1);
    const struct point origin = random_point(rng, ((int64_t)1 << 38) - 4), u = random_point(rng, limit / 2),
                       v = random_point(rng, limit / 2);
    for (int k = 0; k < 4; k++) {
        const int64_t i = random_below(rng, steps), j = random_below(rng, steps);
        int64_t x[3];
        for (int axis = 0; axis < 3; axis++)
            x[axis] = origin.as_integer[axis] + i * u.as_integer[axis] + j * v.as_integer[axis];
        p[k] = point_of(x[0], x[1], x[2]);
    }
    if (!is_off) return;
    const int k = (int)(shape_random(rng) % 4);
    int64_t x[3];
    memcpy(x, p[k].as_integer, sizeof x);
    x[shape_random(rng) % 3] += shape_random(rng) % 2 ? 1 : -1;
    p[k] = point_of(x[0], x[1], x[2]);
}

static void test_signs_of_flat_points(void **state) {
    (void)state;
    uint64_t rng = 2;
    int ties = 0;
    for (int i = 0; i < 60000; i++) {
        struct point p[4];
        flatten(&rng, p, i % 2);
        ties += orientation(p).sign == 0;
        check_four(p);
    }
    assert_true(ties >= 30000 && ties < 40000);
}

/* Bodies that really move: coordinates times 2^36, and offsets e = 2^-12, e^2, e^3 of that. Coordinates are so small
 * that all coefficients of e are below 2^12. */
static void test_ties_are_those_of_bodies_that_move(void **state) {
    (void)state;
    uint64_t rng = 3;
    for (int i = 0; i < 60000; i++) {
        const int64_t limit = 1 + i % 8;
        struct point p[4], q[4];
        for (int k = 0; k < 4; k++) p[k] = random_point(&rng, limit);
        if (i % 5 == 0) p[3] = p[shape_random(&rng) % 3];
        for (int role = 0; role < 2; role++) /* 0: point 3 and the triangle of the others; 1: edges 0 1 and 2 3 */
            for (int moved = -1; moved <= 1; moved += 2) {
                for (int k = 0; k < 4; k++) {
                    const bool is_second = role ? k >= 2 : k == 3, moves = is_second == (moved > 0);
                    const int64_t *x = p[k].as_integer, one = (int64_t)1 << 36;
                    q[k] = point_of(x[0] * one + moves * ((int64_t)1 << 24), x[1] * one + moves * ((int64_t)1 << 12),
                                    x[2] * one + moves);
                }
                const double *a = p[0].as_double, *b = p[1].as_double, *c = p[2].as_double, *d = p[3].as_double;
                const ct_signed_value s = role ? ct_exact_edges(a, b, c, d, moved) : ct_exact_side(d, a, b, c, moved);
                assert_int_equal(s.sign, orientation(q).sign);
            }
    }
}

/* ---- the filter ---- */

struct triangle {
    struct point corner[3];
};

static void corners_of(const struct triangle *t, const double *p[3]) {
    for (int k = 0; k < 3; k++) p[k] = t->corner[k].as_double;
}

static ct_normal normal_of(const struct triangle *t) {
    double u[3], v[3];
    for (int k = 0; k < 3; k++) {
        u[k] = t->corner[1].as_double[k] - t->corner[0].as_double[k];
        v[k] = t->corner[2].as_double[k] - t->corner[0].as_double[k];
    }
    return ct_normal_of(u, v);
}

struct crossing {
    ct_plane_sides sides[2];
    ct_triangle_share share[2];
    int found, has_ties;
};

static struct crossing cross(const struct triangle *a, const struct triangle *b, int moved) {
    struct crossing c = {.has_ties = 0};
    const double *p[3], *q[3];
    corners_of(a, p);
    corners_of(b, q);
    double left_out;
    const ct_normal normal_a = normal_of(a), normal_b = normal_of(b);
    ct_find_sides(p, q, &normal_b, -moved, &c.sides[0], &c.has_ties);
    ct_find_sides(q, p, &normal_a, moved, &c.sides[1], &c.has_ties);
    ct_edge_signs signs;
    ct_find_edge_signs(p, q, &c.sides[0], &c.sides[1], moved, &signs, &c.has_ties);
    c.found = ct_finish_crossing(c.sides, &signs, (const double[]){ct_size1(&normal_a), ct_size1(&normal_b)}, c.share,
                                 &left_out);
    return c;
}

/* Values in doubles lie within their bounds of the exact ones, and signs are exact, for triangles that are nearly
 * coplanar and as large as the lattice. */
static void test_filter(void **state) {
    (void)state;
    uint64_t rng = 4;
    for (int i = 0; i < 20000; i++) {
        struct triangle t[2];
        struct point p[4], q[4];
        flatten(&rng, p, i % 2);
        flatten(&rng, q, i % 4 < 2);
        if (i % 3 == 0)
            for (int k = 0; k < 4; k++) q[k] = random_point(&rng, ((int64_t)1 << 39) - 1);
        t[0] = (struct triangle){{p[0], p[1], p[2]}};
        t[1] = (struct triangle){{p[3], q[0], q[1]}};
        const double *corner[2][3];
        corners_of(&t[0], corner[0]);
        corners_of(&t[1], corner[1]);
        const struct crossing c = cross(&t[0], &t[1], 1);
        assert_int_not_equal(c.found, CT_TRIANGLES_INCONSISTENT);
        for (int s = 0; s < 2; s++)
            for (int k = 0; k < 3; k++) {
                const struct point *u = t[1 - s].corner;
                const struct big exact = orientation((struct point[]){u[0], u[1], u[2], t[s].corner[k]});
                if (exact.sign) assert_int_equal(c.sides[s].sign[k], exact.sign);
                assert_value(c.sides[s].value[k], c.sides[s].error[k], exact);
            }
        ct_edge_signs e;
        int has_ties = 0;
        ct_find_edge_signs(corner[0], corner[1], &c.sides[0], &c.sides[1], 1, &e, &has_ties);
        for (int k = 0; k < 3; k++)
            for (int j = 0; j < 3; j++) {
                const struct point *a = t[0].corner, *b = t[1].corner;
                const int k1 = (k + 1) % 3, j1 = (j + 1) % 3;
                const struct big exact = orientation((struct point[]){a[k], a[k1], b[j], b[j1]});
                assert_value(e.value[k][j], e.error[k][j], exact);
                const bool is_needed =
                    c.sides[0].sign[k] != c.sides[0].sign[k1] || c.sides[1].sign[j] != c.sides[1].sign[j1];
                if (is_needed && exact.sign) assert_int_equal(e.sign[k][j], exact.sign);
            }
    }
}

/* ---- pairs of triangles ---- */

/* Triangles whose bodies really moved: coordinates times 2^18, offsets e = 2^-6. Good for coordinates from 0 to 2,
 * whose coefficients are 8 at most. */
struct moved_triangle {
    int64_t corner[3][3];
};

static struct moved_triangle move(const struct triangle *t, bool moves) {
    struct moved_triangle m;
    for (int k = 0; k < 3; k++)
        for (int axis = 0; axis < 3; axis++)
            m.corner[k][axis] = t->corner[k].as_integer[axis] * (1 << 18) + moves * (1 << (12 - 6 * axis));
    return m;
}

static int sign_of_four(const int64_t *a, const int64_t *b, const int64_t *c, const int64_t *d) {
    int64_t u[3], v[3], w[3];
    for (int k = 0; k < 3; k++) u[k] = b[k] - a[k], v[k] = c[k] - a[k], w[k] = d[k] - a[k];
    const int64_t det =
        u[0] * (v[1] * w[2] - v[2] * w[1]) - u[1] * (v[0] * w[2] - v[2] * w[0]) + u[2] * (v[0] * w[1] - v[1] * w[0]);
    return (det > 0) - (det < 0);
}

/* What edge i of t does to u: +1 it goes in, -1 it comes out, 0 it misses. */
static int pierce(const struct moved_triangle *t, int i, const struct moved_triangle *u) {
    const int64_t *p = t->corner[i], *q = t->corner[(i + 1) % 3];
    const int from = sign_of_four(u->corner[0], u->corner[1], u->corner[2], p),
              to = sign_of_four(u->corner[0], u->corner[1], u->corner[2], q);
    if (from * to >= 0) return 0;
    for (int j = 0; j < 3; j++)
        if (sign_of_four(p, q, u->corner[j], u->corner[(j + 1) % 3]) != sign_of_four(p, q, u->corner[0], u->corner[1]))
            return 0;
    return from > 0 ? 1 : -1;
}

static void check_pair(const struct triangle t[2], int moved, uint64_t *n_crossing, uint64_t *n_ties) {
    const struct crossing c = cross(&t[0], &t[1], moved), swapped = cross(&t[1], &t[0], -moved);
    const struct moved_triangle m[2] = {move(&t[0], moved < 0), move(&t[1], moved > 0)};
    int starts = 0, ends = 0;
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < 3; i++) {
            const int jump = pierce(&m[s], i, &m[1 - s]);
            starts += jump == (s ? 1 : -1);
            ends += jump == (s ? -1 : 1);
            if (c.found == CT_TRIANGLES_CROSS) assert_int_equal(c.share[s].jump[i], jump);
            if (swapped.found == CT_TRIANGLES_CROSS) assert_int_equal(swapped.share[1 - s].jump[i], jump);
        }
    assert_true(starts == ends && starts <= 1);
    assert_int_equal(c.found == CT_TRIANGLES_CROSS, starts);
    assert_int_equal(c.found, swapped.found);
    assert_int_not_equal(c.found, CT_TRIANGLES_INCONSISTENT);
    for (int s = 0; s < 2 && starts; s++)
        for (int k = 0; k < CT_INTEGRALS; k++) {
            assert_true(fabs(c.share[s].integrals.of[k]) <= 1);
            assert_float_equal(c.share[s].integrals.of[k], swapped.share[1 - s].integrals.of[k], 1e-13);
        }
    *n_crossing += (uint64_t)starts;
    *n_ties += (uint64_t)c.has_ties;
}

static struct point grid_point(uint64_t number) {
    return point_of((int64_t)(number % 3), (int64_t)(number / 3 % 3), (int64_t)(number / 9 % 3));
}

/* Flat triangles too. */
static void test_triangles_on_a_grid(void **state) {
    (void)state;
    uint64_t rng = 5, n_crossing = 0, n_ties = 0;
    const int rounds = 300000;
    for (int i = 0; i < rounds; i++) {
        struct triangle t[2];
        for (int s = 0; s < 2; s++)
            for (int k = 0; k < 3; k++) t[s].corner[k] = grid_point(shape_random(&rng) % 27);
        for (int moved = -1; moved <= 1; moved += 2) check_pair(t, moved, &n_crossing, &n_ties);
    }
    print_message("%d pairs, moved both ways: %llu cross, %llu have ties\n", rounds, (unsigned long long)n_crossing,
                  (unsigned long long)n_ties);
    assert_true(n_crossing > 100000 && n_ties > 400000);
}

/* All pairs of triangles with corners among those of a cube, flat ones included. */
static void test_all_triangles_of_a_cube(void **state) {
    (void)state;
    uint64_t n_crossing = 0, n_ties = 0;
    for (uint32_t i = 0; i < 1 << 18; i++) {
        struct triangle t[2];
        for (uint32_t k = 0; k < 6; k++) {
            const uint32_t corner = i >> (3 * k) & 7;
            t[k / 3].corner[k % 3] = point_of(corner & 1, corner >> 1 & 1, corner >> 2);
        }
        check_pair(t, 1, &n_crossing, &n_ties);
    }
    assert_true(n_crossing > 10000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_signs_of_random_points),
        cmocka_unit_test(test_signs_of_flat_points),
        cmocka_unit_test(test_ties_are_those_of_bodies_that_move),
        cmocka_unit_test(test_filter),
        cmocka_unit_test(test_triangles_on_a_grid),
        cmocka_unit_test(test_all_triangles_of_a_cube),
    };
    return cmocka_run_group_tests_name("exact predicates", tests, NULL, NULL);
}

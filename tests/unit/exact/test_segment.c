/* test_segment.c - the integrals that segments and edges add to a triangle, against integrals over polygons: of
 * polygons given as such, of triangles cut by a line, and of triangles cut by tetrahedra. */
#include "gpu/methods/exact/segment_k.h"

#include <math.h>
#include <string.h>

#include "tests/scenes/shapes.h"
#include "tests/unit/unit.h"

struct polygon {
    double p[16][2];
    int n;
};

/* By the rule of the edges' midpoints, which is exact for polynomials of degree 2, over a fan of triangles. */
static ct_integrals integrate(const struct polygon *polygon) {
    ct_integrals sum = {{0}};
    for (int i = 1; i + 1 < polygon->n; i++) {
        const double *corner[3] = {polygon->p[0], polygon->p[i], polygon->p[i + 1]};
        const double area = ((corner[1][0] - corner[0][0]) * (corner[2][1] - corner[0][1]) -
                             (corner[1][1] - corner[0][1]) * (corner[2][0] - corner[0][0])) /
                            2;
        for (int k = 0; k < 3; k++) {
            const double x = (corner[k][0] + corner[(k + 1) % 3][0]) / 2,
                         y = (corner[k][1] + corner[(k + 1) % 3][1]) / 2;
            const double f[CT_INTEGRALS] = {1, x, y, x * x, x * y, y * y};
            for (int j = 0; j < CT_INTEGRALS; j++) sum.of[j] += area / 3 * f[j];
        }
    }
    return sum;
}

static void assert_integrals(const ct_integrals *a, const ct_integrals *b, double tolerance) {
    for (int i = 0; i < CT_INTEGRALS; i++) assert_float_equal(a->of[i], b->of[i], tolerance);
}

static void test_polygons(void **state) {
    (void)state;
    uint64_t rng = 1;
    for (int i = 0; i < 2000; i++) {
        struct polygon polygon = {.n = 3 + i % 10};
        ct_integrals sum = {{0}};
        for (int k = 0; k < polygon.n; k++)
            for (int j = 0; j < 2; j++) polygon.p[k][j] = shape_uniform(&rng, -1, 1);
        for (int k = 0; k < polygon.n; k++) ct_add_segment(&sum, polygon.p[k], polygon.p[(k + 1) % polygon.n]);
        const ct_integrals expected = integrate(&polygon);
        assert_integrals(&sum, &expected, 1e-14);
        /* Backwards they cancel. */
        for (int k = 0; k < polygon.n; k++) ct_add_segment(&sum, polygon.p[(k + 1) % polygon.n], polygon.p[k]);
        const ct_integrals none = {{0}};
        assert_integrals(&sum, &none, 1e-14);
    }
}

/* Keeps the part of a convex polygon where a x + b y <= c. */
static void cut(struct polygon *polygon, double a, double b, double c) {
    struct polygon kept = {.n = 0};
    for (int i = 0; i < polygon->n; i++) {
        const double *p = polygon->p[i], *q = polygon->p[(i + 1) % polygon->n];
        const double at_p = a * p[0] + b * p[1] - c, at_q = a * q[0] + b * q[1] - c;
        if (at_p <= 0) memcpy(kept.p[kept.n++], p, sizeof *kept.p);
        if ((at_p <= 0) == (at_q <= 0)) continue;
        const double t = at_p / (at_p - at_q);
        for (int k = 0; k < 2; k++) kept.p[kept.n][k] = p[k] + t * (q[k] - p[k]);
        kept.n++;
    }
    *polygon = kept;
}

/* A line across the triangle: its segment with the kept side on its left, and what it does to the edge 1 -> 2. */
static void test_lines(void **state) {
    (void)state;
    uint64_t rng = 2;
    int n_cut = 0;
    for (int i = 0; i < 2000; i++) {
        const double a = shape_uniform(&rng, -1, 1), b = shape_uniform(&rng, -1, 1), c = shape_uniform(&rng, -0.5, 0.5);
        static const double corner[3][2] = {{0, 0}, {1, 0}, {0, 1}};
        struct polygon kept = {.p = {{0, 0}, {1, 0}, {0, 1}}, .n = 3};
        cut(&kept, a, b, c);
        double at[3], end[2][2];
        int n_ends = 0;
        for (int k = 0; k < 3; k++) at[k] = a * corner[k][0] + b * corner[k][1] - c;
        ct_integrals sum = ct_whole_integrals(at[1] <= 0);
        for (int k = 0; k < 3; k++) {
            const int next = (k + 1) % 3;
            if ((at[k] <= 0) == (at[next] <= 0)) continue;
            const double t = at[k] / (at[k] - at[next]);
            /* Along the border, counter-clockwise, the segment starts where the kept side ends. */
            double *p = end[at[k] <= 0 ? 0 : 1];
            for (int j = 0; j < 2; j++) p[j] = corner[k][j] + t * (corner[next][j] - corner[k][j]);
            if (k == 1) ct_add_edge(&sum, t, at[2] <= 0 ? 1 : -1);
            n_ends++;
        }
        if (n_ends) ct_add_segment(&sum, end[0], end[1]);
        const ct_integrals expected = integrate(&kept);
        assert_integrals(&sum, &expected, 1e-14);
        n_cut += n_ends > 0;
    }
    assert_true(n_cut > 500);
}

/* ---- triangles and tetrahedra ---- */

static double orientation(const double *a, const double *b, const double *c, const double *d) {
    return (double)ct_orientation(a, b, c, d);
}

/* The part of a triangle inside a tetrahedron whose faces look outwards, in barycentric coordinates. */
static struct polygon cut_by_faces(const double t[3][3], const double face[4][3][3]) {
    struct polygon polygon = {.p = {{0, 0}, {1, 0}, {0, 1}}, .n = 3};
    for (int f = 0; f < 4 && polygon.n; f++) {
        double at[3], size = 0;
        for (int k = 0; k < 3; k++) {
            at[k] = orientation(face[f][0], face[f][1], face[f][2], t[k]);
            size = fmax(size, fabs(at[k]));
        }
        for (int k = 0; k < 3 && size > 0; k++) at[k] /= size;
        cut(&polygon, at[1] - at[0], at[2] - at[0], -at[0]);
    }
    return polygon;
}

static ct_normal normal_of(const double *const p[3]) {
    double u[3], v[3];
    for (int k = 0; k < 3; k++) u[k] = p[1][k] - p[0][k], v[k] = p[2][k] - p[0][k];
    return ct_normal_of(u, v);
}

/* Sums what the four faces add to the triangle, and the faces' winding number at its corner 1. */
static ct_integrals sum_crossings(const double t[3][3], const double face[4][3][3], double *error) {
    const double *p[3] = {t[0], t[1], t[2]};
    const ct_normal normal = normal_of(p);
    int is_inside = 1;
    for (int f = 0; f < 4; f++) is_inside &= orientation(face[f][0], face[f][1], face[f][2], t[1]) < 0;
    ct_integrals sum = ct_whole_integrals(is_inside);
    *error = 0;
    int jump[3] = {0, 0, 0};
    for (int f = 0; f < 4; f++) {
        const double *q[3] = {face[f][0], face[f][1], face[f][2]};
        const ct_normal normal_f = normal_of(q);
        ct_plane_sides sides[2];
        ct_triangle_share share[2];
        double left_out;
        int has_ties = 0;
        ct_find_sides(p, q, &normal_f, -1, &sides[0], &has_ties);
        ct_find_sides(q, p, &normal, 1, &sides[1], &has_ties);
        if (ct_is_one_sided(&sides[0]) || ct_is_one_sided(&sides[1])) continue;
        ct_edge_signs signs;
        ct_find_edge_signs(p, q, &sides[0], &sides[1], 1, &signs, &has_ties);
        const double normals[2] = {ct_size1(&normal), ct_size1(&normal_f)};
        if (ct_finish_crossing(sides, &signs, normals, share, &left_out) != CT_TRIANGLES_CROSS) continue;
        for (int i = 0; i < CT_INTEGRALS; i++) sum.of[i] += share[0].integrals.of[i];
        *error += share[0].rounding / ct_size1(&normal);
        for (int k = 0; k < 3; k++) jump[k] += share[0].jump[k];
    }
    assert_int_equal(jump[0] + jump[1] + jump[2], 0);
    return sum;
}

static void test_triangles_in_tetrahedra(void **state) {
    (void)state;
    static const int corner_of[4][3] = {{0, 2, 1}, {0, 1, 3}, {0, 3, 2}, {1, 2, 3}};
    uint64_t rng = 3;
    int n_cut = 0;
    double worst = 0;
    for (int i = 0; i < 20000; i++) {
        const double size = ldexp(1, 8 + i % 30);
        double t[3][3], corner[4][3], face[4][3][3];
        for (int k = 0; k < 3; k++)
            for (int j = 0; j < 3; j++) t[k][j] = nearbyint(shape_uniform(&rng, -size, size));
        for (int k = 0; k < 4; k++)
            for (int j = 0; j < 3; j++) corner[k][j] = nearbyint(shape_uniform(&rng, -size, size));
        if (i % 4 == 0) /* two of them parallel to within a unit or so */
            for (int k = 0; k < 3; k++)
                for (int j = 0; j < 3; j++) corner[k][j] = t[k][j] + (double)(shape_random(&rng) % 3) - 1;
        const int is_turned = orientation(corner[0], corner[1], corner[2], corner[3]) < 0;
        for (int f = 0; f < 4; f++)
            for (int k = 0; k < 3; k++)
                memcpy(face[f][k], corner[corner_of[f][is_turned ? 2 - k : k]], sizeof face[f][k]);
        const struct polygon inside = cut_by_faces(t, (const double(*)[3][3])face);
        const ct_integrals expected = integrate(&inside);
        double error;
        const ct_integrals sum = sum_crossings(t, (const double(*)[3][3])face, &error);
        n_cut += inside.n > 3;
        for (int k = 0; k < CT_INTEGRALS; k++) {
            const double off = fabs(sum.of[k] - expected.of[k]);
            if (i % 4) assert_true(off <= 1e-9); /* else the reference itself is at a loss: it cuts by doubles */
            if (i % 4) worst = fmax(worst, off);
        }
        assert_true(error <= 1e-6);
    }
    print_message("%d cut triangles, integrals off by at most %.1e\n", n_cut, worst);
    assert_true(n_cut > 3000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_polygons),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_triangles_in_tetrahedra),
    };
    return cmocka_run_group_tests_name("segments of exact", tests, NULL, NULL);
}

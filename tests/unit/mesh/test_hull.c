/* test_hull.c - convex hulls: no vertex is outside, by integers; what is degenerate, and what is refused. */
#include "tests/unit/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/include/contact.h"
#include "gpu/mesh/build/hull.h"
#include "tests/scenes/shapes.h"

__extension__ typedef __int128 int128;

/* Coordinates are whole numbers below 2^20 here, so that a determinant fits in 128 bits. */
static int side_of(const float *a, const float *b, const float *c, const float *d) {
    int64_t u[3], v[3], w[3];
    for (int k = 0; k < 3; k++) {
        u[k] = (int64_t)b[k] - (int64_t)a[k];
        v[k] = (int64_t)c[k] - (int64_t)a[k];
        w[k] = (int64_t)d[k] - (int64_t)a[k];
    }
    int128 sum = 0;
    for (int i = 0; i < 3; i++) {
        const int j = (i + 1) % 3, k = (i + 2) % 3;
        sum += (int128)w[i] * (u[j] * v[k] - u[k] * v[j]);
    }
    return (sum > 0) - (sum < 0);
}

static ct_status take(const struct shape *s, ct_mesh **out, ct_error *error) {
    ct_mesh_options options;
    ct_mesh_options_init(&options);
    options.closing = CT_CLOSING_HULL;
    memset(error, 0, sizeof *error);
    return ct_mesh_create_with(s->positions, CT_F32, s->n_vertices, s->triangles, s->n_triangles, &options, out, NULL,
                               error);
}

/* The hull is closed, has all vertices in their order, and is the mesh that its own triangles make. */
static ct_mesh_info must_take(const struct shape *s, ct_mesh **out) {
    ct_mesh *mesh, *again;
    ct_error error;
    ct_mesh_info info, other;
    if (take(s, &mesh, &error) != CT_OK) fail_msg("%s: %s", error.field, error.message);
    ct_mesh_get_info(mesh, &info);
    assert_int_equal(info.vertices, s->n_vertices);
    assert_int_equal(info.shells, 1);
    if (ct_mesh_create(s->positions, CT_F32, info.vertices, ct_mesh_triangles(mesh), info.triangles, NULL, &again,
                       &error) != CT_OK)
        fail_msg("%s: %s", error.field, error.message);
    ct_mesh_get_info(again, &other);
    assert_string_equal(info.hash, other.hash);
    ct_mesh_release(&again);
    if (out)
        *out = mesh;
    else
        ct_mesh_release(&mesh);
    return info;
}

static void check_convex(const struct shape *s) {
    ct_mesh *mesh;
    const ct_mesh_info info = must_take(s, &mesh);
    const uint32_t *triangles = ct_mesh_triangles(mesh);
    bool *is_used = calloc(s->n_vertices, sizeof *is_used);
    uint64_t n_used = 0;
    for (size_t t = 0; t < info.triangles; t++) {
        const float *p[3];
        for (int c = 0; c < 3; c++) {
            const uint32_t v = triangles[3 * t + (size_t)c];
            p[c] = s->positions + 3 * (size_t)v;
            n_used += !is_used[v];
            is_used[v] = true;
        }
        for (uint32_t v = 0; v < s->n_vertices; v++)
            assert_true(side_of(p[0], p[1], p[2], s->positions + 3 * (size_t)v) <= 0);
    }
    assert_int_equal(info.triangles, 2 * n_used - 4); /* Euler: a sphere */
    free(is_used);
    ct_mesh_release(&mesh);
}

/* Vertices in triangles that are no surface: each of three random ones. */
static struct shape make_cloud(uint32_t n, uint64_t *rng) {
    struct shape s = {malloc(12 * (size_t)n), n, malloc(12 * (size_t)n), n};
    for (uint32_t t = 0; t < n; t++) {
        s.triangles[3 * (size_t)t] = t;
        for (size_t c = 1; c < 3; c++) s.triangles[3 * (size_t)t + c] = (uint32_t)(shape_random(rng) % n);
    }
    return s;
}

enum { BALL, SPHERE, GRID, CUBE_FACES, NEARLY_FLAT, SLANTED_SHEETS, CIRCLE_TWICE, KINDS };

static void put_point(int kind, uint64_t *rng, float *p) {
    double x[3], size = 0;
    for (int k = 0; k < 3; k++) x[k] = shape_uniform(rng, -1, 1), size += x[k] * x[k];
    size = sqrt(size);
    for (int k = 0; k < 3; k++) {
        if (kind == BALL) p[k] = (float)rint(x[k] * 1e5);
        if (kind == SPHERE) p[k] = (float)rint(x[k] / size * 1e6);
        if (kind == GRID) p[k] = (float)rint(x[k] * 2);
        if (kind == CUBE_FACES) p[k] = (float)rint(x[k] * 8);
        if (kind == NEARLY_FLAT) p[k] = (float)rint(k == 2 ? x[k] : x[k] * 1e6);
        if (kind == CIRCLE_TWICE) p[k] = (float)rint(k == 2 ? x[k] : x[k] / hypot(x[0], x[1]) * 1e6);
    }
    if (kind == CUBE_FACES) p[shape_random(rng) % 3] = shape_random(rng) % 2 ? 8 : -8;
    if (kind == SLANTED_SHEETS) { /* two planes, none along an axis */
        p[0] = (float)rint(x[0] * 1000), p[1] = (float)rint(x[1] * 1000);
        p[2] = 3 * p[0] - 7 * p[1] + (shape_random(rng) % 2 ? 1 : 0);
    }
}

static void test_no_vertex_is_outside(void **state) {
    (void)state;
    uint64_t rng = 7;
    for (int kind = 0; kind < KINDS; kind++)
        for (uint32_t n = 8; n <= 512; n *= 4)
            for (int round = 0; round < 4; round++) {
                struct shape s = make_cloud(n, &rng);
                bool is_solid = false;
                while (!is_solid) { /* of a few points of a grid all may lie in a plane */
                    for (uint32_t v = 0; v < n; v++) put_point(kind, &rng, s.positions + 3 * (size_t)v);
                    for (uint32_t i = 0; i < 200 && !is_solid; i++) {
                        const float *p[4];
                        for (int k = 0; k < 4; k++) p[k] = s.positions + 3 * (shape_random(&rng) % n);
                        is_solid = side_of(p[0], p[1], p[2], p[3]) != 0;
                    }
                }
                check_convex(&s);
                shape_free(&s);
            }
}

static void test_known_hulls(void **state) {
    (void)state;
    struct shape s = shape_l_prism(2, 1);
    assert_float_equal(must_take(&s, NULL).volume, 7.0 / 8 * 4, 1e-6); /* the corner that is missing is half filled */
    shape_free(&s);

    s = shape_box(1, 2, 3); /* a soup: one face is gone, another turned over, a third twice */
    s.n_triangles -= 1;
    const uint32_t corner = s.triangles[0];
    s.triangles[0] = s.triangles[1], s.triangles[1] = corner;
    memcpy(s.triangles + 3, s.triangles + 6, 12);
    const ct_mesh_info box = must_take(&s, NULL);
    assert_float_equal(box.volume, 6, 1e-6);
    assert_int_equal(box.triangles, 12);
    shape_free(&s);

    s = shape_icosphere(1, 3); /* convex already, but for rounding of faces */
    const double volume = shape_volume(&s);
    const ct_mesh_info ball = must_take(&s, NULL);
    assert_true(ball.volume >= volume * (1 - 1e-9) && ball.volume < volume * (1 + 1e-6));
    assert_int_equal(ball.triangles, s.n_triangles);
    shape_free(&s);
}

/* A vertex that no triangle uses is not of the surface, however far away. */
static void test_strays_do_not_count(void **state) {
    (void)state;
    struct shape s = shape_box(1, 1, 1);
    s.positions = realloc(s.positions, 12 * (size_t)(s.n_vertices + 1));
    for (int k = 0; k < 3; k++) s.positions[3 * s.n_vertices + (uint32_t)k] = 1e9f;
    s.n_vertices++;
    assert_float_equal(must_take(&s, NULL).volume, 1, 1e-6);
    shape_free(&s);
}

static void test_exact_sides(void **state) {
    (void)state;
    uint64_t rng = 3;
    int counts[3] = {0};
    for (int i = 0; i < 20000; i++) {
        float p[4][3];
        for (int v = 0; v < 3; v++)
            for (int k = 0; k < 3; k++) p[v][k] = (float)rint(shape_uniform(&rng, -1e4, 1e4));
        for (int k = 0; k < 3; k++) /* in the plane, or next to it */
            p[3][k] = p[0][k] + 3 * (p[1][k] - p[0][k]) - 2 * (p[2][k] - p[0][k]) +
                      (float)(k == i % 3 ? i % 5 / 4 * (i % 2 ? 1 : -1) : 0);
        const int expected = side_of(p[0], p[1], p[2], p[3]);
        assert_int_equal(ct_side_of_plane(p[0], p[1], p[2], p[3]), expected);
        counts[expected + 1]++;
    }
    assert_true(counts[0] > 1000 && counts[1] > 1000 && counts[2] > 1000);
    /* Where doubles give 0 or the wrong sign: a tiny triangle far away, and numbers of all sizes. */
    const float a[3] = {0, 0, 0}, b[3] = {1, 0x1p-100f, 0}, c[3] = {1, 0x1p-100f, 0x1p-120f};
    const float above[3] = {0x1p100f, 1, 0}, below[3] = {0x1p100f, 0x1.fffffep-1f, 0},
                outside[3] = {0x1p100f, 0x1.000002p0f, 0};
    assert_int_equal(ct_side_of_plane(a, b, c, above), 0);
    assert_int_equal(ct_side_of_plane(a, b, c, below), 1);
    assert_int_equal(ct_side_of_plane(a, b, c, outside), -1);
    assert_true(ct_are_on_line(a, b, above) && !ct_are_on_line(a, b, below));
}

static void assert_refused(const struct shape *s, const char *said) {
    ct_mesh *mesh = NULL;
    ct_error error;
    assert_int_equal(take(s, &mesh, &error), CT_INVALID_MESH);
    if (!strstr(error.message, said)) fail_msg("%s", error.message);
    assert_null(mesh);
}

static void test_refused(void **state) {
    (void)state;
    struct shape s = shape_box(1, 1, 1);
    for (uint32_t v = 0; v < s.n_vertices; v++)
        s.positions[3 * v + 2] = 3 * s.positions[3 * v] - s.positions[3 * v + 1];
    assert_refused(&s, "in a plane");
    for (uint32_t v = 0; v < s.n_vertices; v++) s.positions[3 * v + 1] = s.positions[3 * v + 2] = s.positions[3 * v];
    assert_refused(&s, "on a line");
    memset(s.positions, 0, 12 * (size_t)s.n_vertices);
    assert_refused(&s, "at one point");
    s.triangles[5] = 8;
    assert_refused(&s, "triangle");
    s.n_triangles = 0;
    assert_refused(&s, "empty");
    shape_free(&s);
}

static void test_options(void **state) {
    (void)state;
    struct shape s = shape_box(1, 1, 1);
    ct_mesh *mesh = NULL;
    ct_error error;
    ct_mesh_options options;
    for (int i = 0; i < 3; i++) {
        static const char *const SAID[3] = {"leave out repair", "leave out open_direction", "none of ct_closing"};
        ct_mesh_options_init(&options);
        memset(&error, 0, sizeof error);
        options.closing = i == 2 ? (ct_closing)7 : CT_CLOSING_HULL;
        options.repair = i == 0;
        options.open_direction[2] = i == 1;
        assert_int_equal(ct_mesh_create_with(s.positions, CT_F32, s.n_vertices, s.triangles, s.n_triangles, &options,
                                             &mesh, NULL, &error),
                         CT_INVALID_ARGUMENT);
        assert_string_equal(error.field, "closing");
        if (!strstr(error.message, SAID[i])) fail_msg("%s", error.message);
    }
    shape_free(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_vertex_is_outside),
        cmocka_unit_test(test_known_hulls),
        cmocka_unit_test(test_strays_do_not_count),
        cmocka_unit_test(test_exact_sides),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_options),
    };
    return cmocka_run_group_tests_name("convex hulls", tests, NULL, NULL);
}

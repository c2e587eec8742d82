/* test_wrap.c - wraps: closed with two triangles at each edge, nowhere through themselves, as far from the surface as the
 * answer says and as large as they should be; what is refused. */
#include "tests/unit/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/include/contact.h"
#include "tests/scenes/shapes.h"

static ct_status take(const struct shape *s, double resolution, ct_mesh **out, ct_mesh_changes *changes,
                      ct_error *error) {
    ct_mesh_options options;
    ct_mesh_options_init(&options);
    options.closing = CT_CLOSING_WRAP;
    options.resolution = resolution;
    memset(error, 0, sizeof *error);
    return ct_mesh_create_with(s->positions, CT_F32, s->n_vertices, s->triangles, s->n_triangles, &options, out,
                               changes, error);
}

/* ---- points and triangles ---- */

static void load(const float *positions, const uint32_t *triangle, double p[3][3]) {
    for (int c = 0; c < 3; c++)
        for (int k = 0; k < 3; k++) p[c][k] = (double)positions[3 * (size_t)triangle[c] + (size_t)k];
}

static double dot(const double a[3], const double b[3]) {
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static void minus(const double a[3], const double b[3], double out[3]) {
    for (int k = 0; k < 3; k++) out[k] = a[k] - b[k];
}

static void cross(const double a[3], const double b[3], double out[3]) {
    for (int k = 0; k < 3; k++) out[k] = a[(k + 1) % 3] * b[(k + 2) % 3] - a[(k + 2) % 3] * b[(k + 1) % 3];
}

/* By thirds: the distance to a convex set is convex along each side, and between the sides. */
static double distance_to(double t[3][3], const double p[3]) {
    double best = INFINITY, lo = 0, hi = 1;
    for (int i = 0; i < 25; i++) {
        double at[2], value[2];
        for (int e = 0; e < 2; e++) {
            at[e] = e ? hi - (hi - lo) / 3 : lo + (hi - lo) / 3;
            double a[3], b[3], ab[3], ap[3];
            for (int k = 0; k < 3; k++) {
                a[k] = t[0][k] + at[e] * (t[1][k] - t[0][k]);
                b[k] = t[0][k] + at[e] * (t[2][k] - t[0][k]);
            }
            minus(b, a, ab), minus(p, a, ap);
            const double size = dot(ab, ab), s = size > 0 ? fmin(fmax(dot(ab, ap) / size, 0), 1) : 0;
            double way[3];
            for (int k = 0; k < 3; k++) way[k] = ap[k] - s * ab[k];
            value[e] = dot(way, way);
            best = fmin(best, value[e]);
        }
        if (value[0] < value[1])
            hi = at[1];
        else
            lo = at[0];
    }
    return sqrt(best);
}

static double distance_to_shape(const float *positions, const uint32_t *triangles, size_t n, const double p[3]) {
    double least = INFINITY, t[3][3];
    for (size_t i = 0; i < n; i++) {
        load(positions, triangles + 3 * i, t);
        double lo = 0; /* to the triangle's box */
        for (int k = 0; k < 3; k++) {
            const double a = fmin(fmin(t[0][k], t[1][k]), t[2][k]), b = fmax(fmax(t[0][k], t[1][k]), t[2][k]);
            const double off = fmax(fmax(a - p[k], p[k] - b), 0);
            lo += off * off;
        }
        if (lo < least * least) least = fmin(least, distance_to(t, p));
    }
    return least;
}

static double winding_number(const float *positions, const uint32_t *triangles, size_t n, const double p[3]) {
    double sum = 0, t[3][3], c[3];
    for (size_t i = 0; i < n; i++) {
        load(positions, triangles + 3 * i, t);
        double size[3];
        for (int k = 0; k < 3; k++) minus(t[k], p, t[k]), size[k] = sqrt(dot(t[k], t[k]));
        cross(t[1], t[2], c);
        sum += atan2(dot(t[0], c), size[0] * size[1] * size[2] + dot(t[0], t[1]) * size[2] + dot(t[1], t[2]) * size[0] +
                                       dot(t[2], t[0]) * size[1]);
    }
    return sum / 6.283185307179586;
}

/* Whether the segment passes through the inside of the triangle. */
static bool passes(const double a[3], const double b[3], double t[3][3]) {
    double e[3], f[3], n[3], way[3], from[3], v[3];
    minus(t[1], t[0], e), minus(t[2], t[0], f), cross(e, f, n);
    minus(b, a, way), minus(a, t[0], from);
    const double slope = dot(n, way);
    if (fabs(slope) < 1e-14) return false;
    const double at = -dot(n, from) / slope;
    if (!(at > 1e-9 && at < 1 - 1e-9)) return false;
    for (int i = 0; i < 3; i++) {
        double edge[3], p[3];
        minus(t[(i + 1) % 3], t[i], edge);
        for (int k = 0; k < 3; k++) p[k] = a[k] + at * way[k] - t[i][k];
        cross(edge, p, v);
        if (!(dot(v, n) > 1e-9 * dot(n, n))) return false;
    }
    return true;
}

/* ---- what holds of every wrap ---- */

static int compare_edges(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Each edge of a triangle is once another's, the other way round. */
static void assert_manifold(const uint32_t *triangles, size_t n) {
    uint64_t *edges = malloc(3 * n * sizeof *edges), *back = malloc(3 * n * sizeof *back);
    assert_non_null(edges);
    assert_non_null(back);
    for (size_t i = 0; i < 3 * n; i++) {
        const uint64_t a = triangles[i], b = triangles[i / 3 * 3 + (i + 1) % 3];
        edges[i] = a << 32 | b;
        back[i] = b << 32 | a;
    }
    qsort(edges, 3 * n, sizeof *edges, compare_edges);
    qsort(back, 3 * n, sizeof *back, compare_edges);
    for (size_t i = 0; i < 3 * n; i++) {
        assert_true(edges[i] == back[i]);
        assert_true(!i || edges[i] != edges[i - 1]);
    }
    free(edges), free(back);
}

static void assert_simple(const float *positions, const uint32_t *triangles, size_t n) {
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            double a[3][3], b[3][3];
            const uint32_t *s = triangles + 3 * i, *t = triangles + 3 * j;
            if (i == j) continue;
            load(positions, s, a), load(positions, t, b);
            bool is_apart = false;
            for (int k = 0; k < 3; k++)
                is_apart = is_apart || fmin(fmin(a[0][k], a[1][k]), a[2][k]) > fmax(fmax(b[0][k], b[1][k]), b[2][k]) ||
                           fmin(fmin(b[0][k], b[1][k]), b[2][k]) > fmax(fmax(a[0][k], a[1][k]), a[2][k]);
            for (int c = 0; c < 3 && !is_apart; c++) {
                const uint32_t u = s[c], v = s[(c + 1) % 3];
                const bool shares = u == t[0] || u == t[1] || u == t[2] || v == t[0] || v == t[1] || v == t[2];
                if (!shares && passes(a[c], a[(c + 1) % 3], b)) fail_msg("triangles %zu and %zu cross", i, j);
            }
        }
}

static void random_point(double t[3][3], uint64_t *rng, double p[3]) {
    double a = shape_uniform(rng, 0, 1), b = shape_uniform(rng, 0, 1);
    if (a + b > 1) a = 1 - a, b = 1 - b;
    for (int k = 0; k < 3; k++) p[k] = t[0][k] + a * (t[1][k] - t[0][k]) + b * (t[2][k] - t[0][k]);
}

/* The wrap's points by sampling: none is further than the deviation, and some nearly as far. No point given is outside by
 * more than a resolution. */
static void assert_near(const struct shape *s, double resolution, const ct_mesh *mesh, double deviation) {
    ct_mesh_info info;
    ct_mesh_get_info(mesh, &info);
    const float *positions = ct_mesh_positions(mesh);
    const uint32_t *triangles = ct_mesh_triangles(mesh);
    double furthest = 0, t[3][3], p[3];
    uint64_t rng = 3;
    const size_t step = info.triangles / 150 + 1;
    for (size_t i = 0; i < info.triangles; i += step)
        for (int j = 0; j < 4; j++) {
            load(positions, triangles + 3 * i, t);
            if (j)
                random_point(t, &rng, p);
            else
                memcpy(p, t[0], sizeof p);
            furthest = fmax(furthest, distance_to_shape(s->positions, s->triangles, s->n_triangles, p));
        }
    if (!(furthest <= deviation)) fail_msg("%g m from the surface, said %g", furthest, deviation);
    if (step == 1 && !(deviation <= 1.5 * furthest + 0.1 * resolution))
        fail_msg("said %g, but %g m", deviation, furthest);
    for (int i = 0; i < 25; i++) {
        load(s->positions, s->triangles + 3 * (shape_random(&rng) % s->n_triangles), t);
        random_point(t, &rng, p);
        if (winding_number(positions, triangles, info.triangles, p) > 0.5) continue;
        const double out = distance_to_shape(positions, triangles, info.triangles, p);
        if (!(out <= resolution)) fail_msg("(%g, %g, %g) is %g m outside", p[0], p[1], p[2], out);
    }
}

/* The caller releases the mesh. */
static ct_mesh_info must_wrap(const struct shape *s, double resolution, ct_mesh **out) {
    ct_error error;
    ct_mesh_info info;
    ct_mesh_changes changes;
    if (take(s, resolution, out, &changes, &error) != CT_OK) fail_msg("%s: %s", error.field, error.message);
    ct_mesh_get_info(*out, &info);
    assert_manifold(ct_mesh_triangles(*out), info.triangles);
    assert_near(s, resolution, *out, changes.deviation);
    return info;
}

/* Volume within what a layer of `most` resolutions on its surface has. */
static ct_mesh_info wraps_to(const struct shape *s, double resolution, double volume, double most) {
    ct_mesh *mesh;
    const ct_mesh_info info = must_wrap(s, resolution, &mesh);
    ct_mesh_release(&mesh);
    if (!(fabs(info.volume - volume) <= most * resolution * info.area))
        fail_msg("volume %g, expected %g within %g", info.volume, volume, most * resolution * info.area);
    return info;
}

/* ---- tests ---- */

/* A surface that needs no wrap is hardly changed by one. */
static void test_closed(void **state) {
    (void)state;
    double pose[12];
    uint64_t rng = 11;
    struct shape shapes[4] = {shape_box(1, 1.5, 0.7), shape_torus(1, 0.4, 40, 20), shape_blob(1, 3, 0.2, 2),
                              shape_l_prism(1, 1)};
    for (int i = 0; i < 4; i++)
        for (int turned = 0; turned < 2; turned++) {
            if (turned) shape_pose_random(&rng, 1, pose), shape_transform(&shapes[i], pose);
            const ct_mesh_info info = wraps_to(&shapes[i], 0.1, shape_volume(&shapes[i]), 0.06);
            assert_int_equal(info.shells, 1);
        }
    for (int i = 0; i < 4; i++) shape_free(&shapes[i]);
}

/* Flat parts need few triangles. */
static void test_few_triangles(void **state) {
    (void)state;
    struct shape box = shape_box(1, 1, 1);
    ct_mesh *mesh;
    const ct_mesh_info info = must_wrap(&box, 0.02, &mesh);
    assert_true(info.triangles < 6000); /* of some 120,000 of the tetrahedra */
    ct_mesh_release(&mesh);
    shape_free(&box);
}

/* Shells in one another and across, and any of them inside out. */
static void test_shells(void **state) {
    (void)state;
    struct shape a = shape_box(1, 1, 1), b = shape_box(1, 1, 1), c = shape_icosphere(0.2, 3);
    shape_translate(&b, 0.5, 0.25, 0.125);
    shape_translate(&c, 0.3, 0.4, 0.5);
    for (uint32_t t = 0; t < c.n_triangles; t++) {
        const uint32_t first = c.triangles[3 * t];
        c.triangles[3 * t] = c.triangles[3 * t + 1], c.triangles[3 * t + 1] = first;
    }
    struct shape two = shape_merge(&a, &b), all = shape_merge(&two, &c);
    for (int i = 0; i < 2; i++) {
        const ct_mesh_info info = wraps_to(&all, 0.04, 2 - 0.5 * 0.75 * 0.875, 0.06);
        assert_int_equal(info.shells, 1);
        for (uint32_t t = 0; t < all.n_triangles && !i; t += 3) { /* some turned over: directions do not matter */
            const uint32_t first = all.triangles[3 * t];
            all.triangles[3 * t] = all.triangles[3 * t + 1], all.triangles[3 * t + 1] = first;
        }
    }
    shape_free(&a), shape_free(&b), shape_free(&c), shape_free(&two), shape_free(&all);
}

static void drop(struct shape *s, uint32_t t) {
    memmove(s->triangles + 3 * t, s->triangles + 3 * (t + 1), (s->n_triangles - t - 1) * 3 * sizeof *s->triangles);
    s->n_triangles--;
}

/* Small holes close; a box without a lid becomes its walls, of 1.8 resolutions. */
static void test_open(void **state) {
    (void)state;
    struct shape box = shape_cube(1, 12);
    for (uint32_t t = 5; t < box.n_triangles; t += 40) drop(&box, t);
    wraps_to(&box, 0.05, 1, 0.06);
    shape_free(&box);
    box = shape_box(1, 1, 1);
    uint32_t n = 0;
    for (uint32_t t = 0; t < box.n_triangles; t++) {
        bool is_lid = true;
        for (int c = 0; c < 3; c++) is_lid = is_lid && box.positions[3 * box.triangles[3 * t + (uint32_t)c] + 2] > 0.4f;
        if (!is_lid) memmove(box.triangles + 3 * n++, box.triangles + 3 * t, 3 * sizeof *box.triangles);
    }
    assert_int_equal(n, 10);
    box.n_triangles = n;
    ct_mesh *mesh;
    const ct_mesh_info info = must_wrap(&box, 0.03, &mesh);
    assert_true(info.volume > 5 * 1.5 * 0.03 && info.volume < 5 * 2.1 * 0.03);
    ct_mesh_release(&mesh);
    shape_free(&box);
}

/* A plane with holes, and one whose triangles are needles; a single triangle; a wire. */
static void test_sheets(void **state) {
    (void)state;
    struct shape plate = shape_cube(2, 24);
    uint32_t n = 0;
    for (uint32_t t = 0; t < plate.n_triangles; t++) { /* its top, without some squares */
        bool is_top = true;
        double middle[2] = {0, 0};
        for (uint32_t c = 0; c < 3; c++) {
            const float *p = plate.positions + 3 * plate.triangles[3 * t + c];
            is_top = is_top && p[2] == 1;
            for (int k = 0; k < 2; k++) middle[k] += (double)p[k] / 3;
        }
        const bool is_hole = fabs(middle[0]) < 0.5 && fabs(middle[1]) < 0.5;
        if (is_top && !is_hole)
            memmove(plate.triangles + 3 * n++, plate.triangles + 3 * t, 3 * sizeof *plate.triangles);
    }
    plate.n_triangles = n;
    const double pose_axis[3] = {0.3, -0.5, 0.8}, at[3] = {0.1, 0.2, 0.3};
    double pose[12];
    for (int turned = 0; turned < 2; turned++) {
        ct_mesh *mesh;
        const ct_mesh_info info = must_wrap(&plate, 0.05, &mesh);
        assert_int_equal(info.shells, 1);
        assert_true(info.volume > 3 * 1.5 * 0.05 && info.volume < 3 * 2.3 * 0.05);
        ct_mesh_release(&mesh);
        shape_pose_axis(pose_axis, 0.13, at, pose);
        shape_transform(&plate, pose);
    }
    plate.n_triangles = 1;
    ct_mesh *mesh;
    must_wrap(&plate, 0.01, &mesh);
    ct_mesh_release(&mesh);
    plate.triangles[2] = plate.triangles[0];
    must_wrap(&plate, 0.01, &mesh);
    ct_mesh_release(&mesh);
    shape_free(&plate);
}

static void test_soups(void **state) {
    (void)state;
    uint64_t rng = 29;
    for (int round = 0; round < 6; round++) {
        float positions[90];
        uint32_t triangles[90];
        for (int i = 0; i < 90; i++)
            positions[i] = (float)shape_uniform(&rng, -1, 1), triangles[i] = (uint32_t)(shape_random(&rng) % 30);
        if (round % 3 == 1)
            for (int i = 0; i < 90; i++) positions[i] = rintf(4 * positions[i]) / 4; /* much of it coincides */
        struct shape soup = {positions, 30, triangles, (uint32_t)(round % 3 == 2 ? 3 : 20)};
        ct_mesh *mesh;
        const ct_mesh_info info = must_wrap(&soup, 0.2, &mesh);
        assert_simple(ct_mesh_positions(mesh), ct_mesh_triangles(mesh), info.triangles);
        ct_mesh *again;
        ct_error error = {0};
        assert_int_equal(ct_mesh_create(ct_mesh_positions(mesh), CT_F32, info.vertices, ct_mesh_triangles(mesh),
                                        info.triangles, NULL, &again, &error),
                         CT_OK);
        ct_mesh_release(&again);
        ct_mesh_release(&mesh);
    }
}

/* Doubles keep their origin; the default resolution is of the diagonal. */
static void test_far_away(void **state) {
    (void)state;
    struct shape box = shape_box(1, 1, 1);
    double positions[24];
    for (int i = 0; i < 24; i++) positions[i] = (double)box.positions[i] + (i % 3 == 1 ? 5411932.678 : 448262.237);
    ct_mesh_options options;
    ct_mesh_options_init(&options);
    options.closing = CT_CLOSING_WRAP;
    ct_mesh *mesh;
    ct_error error = {0};
    ct_mesh_changes changes;
    assert_int_equal(
        ct_mesh_create_with(positions, CT_F64, 8, box.triangles, box.n_triangles, &options, &mesh, &changes, &error),
        CT_OK);
    ct_mesh_info info;
    ct_mesh_get_info(mesh, &info);
    assert_int_equal(info.dtype, CT_F64);
    assert_true(fabs(info.volume - 1) < 6 * 0.05 * 0.0174 && fabs(info.lo[1] - 5411932.178) < 0.002);
    ct_mesh_release(&mesh);
    shape_free(&box);
}

static void refuse(const struct shape *s, double resolution, ct_closing closing, ct_status status, const char *said) {
    ct_mesh_options options;
    ct_mesh_options_init(&options);
    options.closing = closing;
    options.resolution = resolution;
    ct_mesh *mesh;
    ct_error error = {0};
    assert_int_equal(ct_mesh_create_with(s->positions, CT_F32, s->n_vertices, s->triangles, s->n_triangles, &options,
                                         &mesh, NULL, &error),
                     status);
    assert_null(mesh);
    if (!strstr(error.message, said)) fail_msg("\"%s\" does not say \"%s\"", error.message, said);
    assert_string_equal(error.field, strstr(said, "one point") ? "positions" : "resolution");
}

static void test_refused(void **state) {
    (void)state;
    struct shape box = shape_box(1, 1, 1);
    refuse(&box, -1, CT_CLOSING_WRAP, CT_OUT_OF_RANGE, "0 or more");
    refuse(&box, 1e308, CT_CLOSING_WRAP, CT_OUT_OF_RANGE, "at most 1e+30");
    refuse(&box, 1e31, CT_CLOSING_WRAP, CT_OUT_OF_RANGE, "at most 1e+30");
    refuse(&box, NAN, CT_CLOSING_WRAP, CT_NON_FINITE, "finite");
    refuse(&box, 0.1, CT_CLOSING_HULL, CT_INVALID_ARGUMENT, "no wrap is asked for");
    refuse(&box, 5e-4, CT_CLOSING_WRAP, CT_LIMIT_EXCEEDED, "at most 512 are allowed: give a larger resolution");
    refuse(&box, 1e-5, CT_CLOSING_WRAP, CT_OUT_OF_RANGE, "too fine for float32");
    shape_translate(&box, 1e4, 0, 0);
    refuse(&box, 0.01, CT_CLOSING_WRAP, CT_OUT_OF_RANGE, "too fine for float32");
    for (uint32_t i = 0; i < 24; i++) box.positions[i] = 1;
    refuse(&box, 0, CT_CLOSING_WRAP, CT_INVALID_MESH, "one point");
    shape_free(&box);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_closed),   cmocka_unit_test(test_few_triangles), cmocka_unit_test(test_shells),
        cmocka_unit_test(test_open),     cmocka_unit_test(test_sheets),        cmocka_unit_test(test_soups),
        cmocka_unit_test(test_far_away), cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests_name("wraps", tests, NULL, NULL);
}

/* test_polygons.c - faces of more than three corners: prisms over polygons of all kinds against closed forms. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/include/contact.h"
#include "tests/scenes/shapes.h"

typedef struct polygon {
    double (*at)[2]; /* [n], counter-clockwise */
    uint32_t n;
} polygon;

static double area_of(const polygon *p) {
    double twice = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        const double *a = p->at[i], *b = p->at[(i + 1) % p->n];
        twice += a[0] * b[1] - a[1] * b[0];
    }
    return twice / 2;
}

static double length_of(const polygon *p) {
    double length = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        const double *a = p->at[i], *b = p->at[(i + 1) % p->n];
        length += hypot(b[0] - a[0], b[1] - a[1]);
    }
    return length;
}

/* ---- files of prisms ---- */

static void put_corner(FILE *file, ct_mesh_format format, uint32_t v) {
    fprintf(file, " %u", v + (format == CT_FORMAT_OBJ));
}

static void begin_face(FILE *file, ct_mesh_format format, uint32_t n) {
    if (format == CT_FORMAT_OBJ)
        fprintf(file, "\nf");
    else
        fprintf(file, "\n%u", n);
}

/* A prism of height 1 over the polygon, whose caps start with corner `start`, turned about (1, 1, 1) by `angle`. */
static char *write_prism(const polygon *p, ct_mesh_format format, uint32_t start, double angle, double lift) {
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    assert_non_null(file);
    const uint32_t n = p->n;
    if (format == CT_FORMAT_OFF) fprintf(file, "OFF\n%u %u 0\n", 2 * n, n + 2);
    if (format == CT_FORMAT_PLY)
        fprintf(file,
                "ply\nformat ascii 1.0\nelement vertex %u\nproperty float x\nproperty float y\nproperty float z\n"
                "element face %u\nproperty list uint int vertex_indices\nend_header\n",
                2 * n, n + 2);
    const double c = cos(angle), s = sin(angle) / sqrt(3), d = (1 - c) / 3;
    for (uint32_t i = 0; i < 2 * n; i++) {
        const double x = p->at[i % n][0], y = p->at[i % n][1], z = i < n ? 0 : i == n ? 1 + lift : 1;
        fprintf(file, "%s%.9g %.9g %.9g\n", format == CT_FORMAT_OBJ ? "v " : "", c * x + s * (z - y) + d * (x + y + z),
                c * y + s * (x - z) + d * (x + y + z), c * z + s * (y - x) + d * (x + y + z));
    }
    begin_face(file, format, n);
    for (uint32_t i = 0; i < n; i++) put_corner(file, format, (start + n - i) % n);
    begin_face(file, format, n);
    for (uint32_t i = 0; i < n; i++) put_corner(file, format, n + (start + i) % n);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t next = (i + 1) % n;
        begin_face(file, format, 4);
        put_corner(file, format, i), put_corner(file, format, next);
        put_corner(file, format, n + next), put_corner(file, format, n + i);
    }
    fprintf(file, "\n");
    fclose(file);
    return text;
}

static ct_mesh_info read_prism(const polygon *p, ct_mesh_format format, uint32_t start, double angle, double lift,
                               ct_mesh_changes *changes) {
    char *text = write_prism(p, format, start, angle, lift);
    ct_mesh_options with;
    ct_mesh_options_init(&with);
    ct_mesh *mesh;
    ct_error error = {0};
    if (ct_mesh_read_with(text, strlen(text), CT_FORMAT_AUTO, &with, &mesh, changes, &error) != CT_OK)
        fail_msg("%u corners from %u at %g: %s", p->n, start, angle, error.message);
    free(text);
    ct_mesh_info info;
    ct_mesh_get_info(mesh, &info);
    ct_mesh_release(&mesh);
    assert_int_equal(info.triangles, 4 * p->n - 4);
    return info;
}

static void check_prism(const polygon *p, ct_mesh_format format, uint32_t start, double angle) {
    ct_mesh_changes changes;
    const ct_mesh_info info = read_prism(p, format, start, angle, 0, &changes);
    const double area = area_of(p), sides = length_of(p);
    if (fabs(info.volume - area) > 1e-5 * (area + sides) ||
        fabs(info.area - 2 * area - sides) > 1e-5 * (2 * area + sides))
        fail_msg("%u corners from %u at %g: volume %.9g for %.9g, area %.9g for %.9g", p->n, start, angle, info.volume,
                 area, info.area, 2 * area + sides);
    assert_int_equal(changes.uneven_polygons, 0);
    assert_false(changes.is_changed);
}

static void check_everywhere(const polygon *p) {
    for (int format = CT_FORMAT_OBJ; format <= CT_FORMAT_PLY; format++)
        for (uint32_t start = 0; start < p->n; start += 1 + p->n / 8) {
            check_prism(p, (ct_mesh_format)format, start, 0);
            check_prism(p, (ct_mesh_format)format, start, 0.7);
        }
}

/* ---- tests ---- */

static void test_concave(void **state) {
    (void)state;
    polygon u = {(double[][2]){{0, 0}, {3, 0}, {3, 3}, {2, 3}, {2, 1}, {1, 1}, {1, 3}, {0, 3}}, 8};
    check_everywhere(&u);
    polygon dart = {(double[][2]){{0, 0}, {2, -1}, {1, 0}, {2, 1}}, 4};
    check_everywhere(&dart);
    polygon comb = {malloc(64 * sizeof *comb.at), 64};
    for (uint32_t i = 0; i < 32; i++) {
        comb.at[i][0] = i / 2 + i % 2 * 0.5, comb.at[i][1] = 0;
        comb.at[63 - i][0] = comb.at[i][0], comb.at[63 - i][1] = i % 4 == 1 || i % 4 == 2 ? 5 : 0.125;
    }
    check_everywhere(&comb);
    free(comb.at);
}

static void test_corners_on_a_line(void **state) {
    (void)state;
    polygon square = {(double[][2]){{0, 0}, {0.25, 0}, {0.5, 0}, {1, 0}, {1, 0.3}, {1, 1}, {0.1, 1}, {0, 1}, {0, 0.5}},
                      9};
    check_everywhere(&square);
    polygon l = {(double[][2]){{0, 0}, {1, 0}, {2, 0}, {2, 0.5}, {1, 0.5}, {0.5, 0.5}, {0.5, 1}, {0.5, 2}, {0, 2}}, 9};
    check_everywhere(&l);
}

/* A cut leads from the outline to the hole and back along the same edge. */
static void test_hole(void **state) {
    (void)state;
    polygon ring = {(double[][2]){{0, 0}, {4, 0}, {4, 4}, {0, 4}, {0, 0}, {1, 1}, {1, 3}, {3, 3}, {3, 1}, {1, 1}}, 10};
    for (uint32_t start = 0; start < ring.n; start++) {
        char *text = write_prism(&ring, CT_FORMAT_OBJ, start, 0.3, 0);
        ct_mesh_options options;
        ct_mesh_options_init(&options);
        ct_mesh *mesh;
        ct_error error = {0};
        if (ct_mesh_read_with(text, strlen(text), CT_FORMAT_OBJ, &options, &mesh, NULL, &error) != CT_OK)
            fail_msg("%s", error.message);
        free(text);
        ct_mesh_info info;
        ct_mesh_get_info(mesh, &info);
        ct_mesh_release(&mesh);
        /* The prism's walls have the cut's twice, in both directions. */
        assert_true(fabs(info.volume - 12) < 1e-4 && fabs(info.area - 2 * 12 - 16 - 8 - 2 * sqrt(2)) < 1e-4);
    }
}

static void test_random_stars(void **state) {
    (void)state;
    uint64_t rng = 7;
    for (uint32_t n = 4; n < 700; n += 1 + n / 3) {
        polygon star = {malloc(n * sizeof *star.at), n};
        assert_non_null(star.at);
        for (uint32_t i = 0; i < n; i++) {
            const double r = 0.2 + (double)(shape_random(&rng) % 1000) / 1000, t = 2 * M_PI * i / n;
            star.at[i][0] = (double)(float)(r * cos(t)), star.at[i][1] = (double)(float)(r * sin(t));
        }
        check_prism(&star, CT_FORMAT_OBJ, n / 2, 0);
        check_prism(&star, CT_FORMAT_OFF, n / 3, 1.1);
        free(star.at);
    }
}

/* A square cap with one corner lifted has two cuts; its own triangle's area tells which is less. */
static void test_uneven(void **state) {
    (void)state;
    polygon kite = {(double[][2]){{0, 0}, {1, 0}, {3, 3}, {0, 1}}, 4};
    double least = INFINITY;
    for (int cut = 0; cut < 2; cut++) { /* 0: along the diagonal from the lifted corner */
        double sum = 0;
        for (int t = 0; t < 2; t++) {
            const int i[3] = {cut, cut + 1 + t, (cut + 2 + t) % 4};
            double p[3][3], n[3];
            for (int c = 0; c < 3; c++)
                p[c][0] = kite.at[i[c]][0], p[c][1] = kite.at[i[c]][1], p[c][2] = i[c] == 0 ? 1.5 : 1;
            for (int k = 0; k < 3; k++) {
                const int a = (k + 1) % 3, b = (k + 2) % 3;
                n[k] = (p[1][a] - p[0][a]) * (p[2][b] - p[0][b]) - (p[1][b] - p[0][b]) * (p[2][a] - p[0][a]);
            }
            sum += sqrt(n[0] * n[0] + n[1] * n[1] + n[2] * n[2]) / 2;
        }
        least = fmin(least, sum);
    }
    const double walls = length_of(&kite) + 0.25 + 0.25;
    for (uint32_t start = 0; start < 4; start++) {
        ct_mesh_changes changes;
        const ct_mesh_info info = read_prism(&kite, CT_FORMAT_PLY, start, 0, 0.5, &changes);
        assert_int_equal(changes.uneven_polygons, 1);
        assert_true(changes.unevenness > 0.02 && changes.unevenness < 0.5);
        assert_true(fabs(info.area - area_of(&kite) - walls - least) < 1e-6);
    }
    /* U with one corner 1 mm higher: next to the flat one's volume and area, and no triangle across the notch */
    polygon u = {(double[][2]){{0, 0}, {3, 0}, {3, 3}, {2, 3}, {2, 1}, {1, 1}, {1, 3}, {0, 3}}, 8};
    for (uint32_t start = 0; start < 8; start++) {
        ct_mesh_changes changes;
        const ct_mesh_info info = read_prism(&u, CT_FORMAT_OBJ, start, 0, 1e-3, &changes);
        assert_true(fabs(info.volume - 7) < 2e-3 && fabs(info.area - 30) < 4e-3);
    }
}

/* The OBJ file with each face written a second time, backwards, from its corner `start` on. With own_corners its vertices are
 * written again, too. The caller frees it. */
static char *add_backs(const char *text, uint32_t n_vertices, uint32_t start, bool own_corners) {
    char *both = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&both, &size);
    assert_non_null(file);
    fprintf(file, "%s", text);
    for (const char *line = text; own_corners && *line == 'v'; line = strchr(line, '\n') + 1)
        fprintf(file, "%.*s\n", (int)strcspn(line, "\n"), line);
    for (const char *line = strchr(text, 'f'); line; line = strchr(line + 1, 'f')) {
        uint32_t corners[128], n = 0;
        char *at = (char *)(uintptr_t)line + 1;
        for (char *end; n < 128; at = end) {
            corners[n] = (uint32_t)strtoul(at, &end, 10);
            if (end == at) break;
            n++;
        }
        fprintf(file, "f");
        for (uint32_t i = 0; i < n; i++)
            fprintf(file, " %u", corners[(start + n - i) % n] + (own_corners ? n_vertices : 0));
        fprintf(file, "\n");
    }
    fclose(file);
    return both;
}

/* Faces for both sides, as some programs write them: a repair keeps one, wherever the other one begins. */
static void test_both_sides(void **state) {
    (void)state;
    const polygon bases[] = {
        {(double[][2]){{0, 0}, {1, 0}, {1, 1}, {0, 1}}, 4},
        {(double[][2]){{0, 0}, {2, -1}, {1, 0}, {2, 1}}, 4},
        {(double[][2]){{0, 0}, {2, 0}, {3, 1}, {2, 2}, {1, 2}, {0, 1}}, 6},
        {(double[][2]){{0, 0}, {3, 0}, {3, 3}, {2, 3}, {2, 1}, {1, 1}, {1, 3}, {0, 3}}, 8},
    };
    for (size_t i = 0; i < sizeof bases / sizeof *bases; i++)
        for (uint32_t start = 0; start < 2 * bases[i].n; start++) {
            const bool own_corners = start >= bases[i].n;
            const double lift = i == 2 && start % 2 ? 0.25 : 0; /* a cap that is not flat */
            char *text = write_prism(&bases[i], CT_FORMAT_OBJ, 0, 0.7, lift),
                 *both = add_backs(text, 2 * bases[i].n, start % bases[i].n, own_corners);
            const double volume = read_prism(&bases[i], CT_FORMAT_OBJ, 0, 0.7, lift, NULL).volume;
            ct_mesh_options with;
            ct_mesh_options_init(&with);
            with.repair = true;
            ct_mesh_changes changes;
            ct_mesh *mesh;
            ct_error error = {0};
            if (ct_mesh_read_with(both, strlen(both), CT_FORMAT_OBJ, &with, &mesh, &changes, &error) != CT_OK)
                fail_msg("base %zu from %u: %s", i, start, error.message);
            ct_mesh_info info;
            ct_mesh_get_info(mesh, &info);
            ct_mesh_release(&mesh);
            free(text), free(both);
            assert_int_equal(info.triangles, 4 * bases[i].n - 4);
            assert_int_equal(changes.of[CT_CHANGE_DUPLICATE].count, 4 * bases[i].n - 4);
            assert_float_equal(info.volume, volume, 1e-6);
        }
}

static void refuse(const polygon *p) {
    char *text = write_prism(p, CT_FORMAT_OBJ, 0, 0, 0);
    ct_mesh *mesh;
    ct_error error = {0};
    assert_int_equal(ct_mesh_read(text, strlen(text), CT_FORMAT_OBJ, NULL, &mesh, &error), CT_INVALID_MESH);
    free(text);
    if (!strstr(error.message, "crosses itself")) fail_msg("%s", error.message);
}

static void test_crossing(void **state) {
    (void)state;
    enum { N = 40 };
    polygon eight = {malloc(N * sizeof *eight.at), N};
    assert_non_null(eight.at);
    for (uint32_t i = 0; i < N; i++) {
        const double t = 2 * M_PI * (i + 0.5) / N;
        eight.at[i][0] = sin(t) * (1.3 + sin(t)), eight.at[i][1] = sin(2 * t);
    }
    refuse(&eight);
    free(eight.at);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_concave),  cmocka_unit_test(test_corners_on_a_line),
        cmocka_unit_test(test_hole),     cmocka_unit_test(test_random_stars),
        cmocka_unit_test(test_uneven),   cmocka_unit_test(test_both_sides),
        cmocka_unit_test(test_crossing),
    };
    return cmocka_run_group_tests_name("polygons", tests, NULL, NULL);
}

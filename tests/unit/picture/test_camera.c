/* test_camera.c - the camera frames all framed points as closely as possible, from any direction, eye or target. */
#include <math.h>
#include <string.h>

#include "gpu/picture/picture.h"
#include "tests/scenes/shapes.h"
#include "tests/unit/unit.h"

#define assert_near(a, b, tolerance) assert_true(fabs((a) - (b)) <= (tolerance))

enum { POINTS = 40 };

/* Projects p to normalised device coordinates of the part of the picture. */
static void project(const ct_camera *camera, const uint32_t size[2], const uint32_t part[4], const double p[3],
                    double out[3]) {
    float m[16];
    double h[4];
    ct_camera_matrix(camera, size, part, m);
    for (int r = 0; r < 4; r++) {
        h[r] = m[12 + r];
        for (int c = 0; c < 3; c++) h[r] += m[4 * c + r] * (p[c] - camera->origin[c]);
    }
    for (int i = 0; i < 3; i++) out[i] = h[i] / h[3];
}

static void random_points(uint64_t *rng, double (*points)[3]) {
    double middle[3], reach = pow(10, shape_uniform(rng, -3, 3));
    for (int i = 0; i < 3; i++) middle[i] = reach * shape_uniform(rng, -20, 20);
    for (int k = 0; k < POINTS; k++)
        for (int i = 0; i < 3; i++) points[k][i] = middle[i] + reach * shape_uniform(rng, -1, 1) * (i == 1 ? 0.2 : 1);
}

static ct_camera fit_to(const ct_snapshot_options *options, double (*points)[3], int n) {
    ct_camera_fit fit;
    ct_camera_fit_begin(&fit, options);
    for (int k = 0; k < n; k++) ct_camera_fit_add_framed(&fit, points[k]);
    return ct_camera_fit_end(&fit);
}

static double dot(const double a[3], const double b[3]) {
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static void assert_orthonormal(const ct_camera *c) {
    const double *axes[3] = {c->right, c->up, c->back};
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) assert_near(dot(axes[i], axes[k]), i == k, 1e-12);
    /* right-handed */
    assert_near(c->right[0] * (c->up[1] * c->back[2] - c->up[2] * c->back[1]) +
                    c->right[1] * (c->up[2] * c->back[0] - c->up[0] * c->back[2]) +
                    c->right[2] * (c->up[0] * c->back[1] - c->up[1] * c->back[0]),
                1, 1e-12);
}

/* Of whatever size: no length of a metre is in it. */
static void scenes_of_any_size_look_alike(void **state) {
    (void)state;
    const uint32_t size[2] = {960, 720}, whole[4] = {0, 0, 960, 720};
    ct_snapshot_options o;
    ct_snapshot_options_init(&o);
    uint64_t rng = 9;
    double points[POINTS][3], scaled[POINTS][3];
    random_points(&rng, points);
    const ct_camera camera = fit_to(&o, points, POINTS);
    for (int e = -100; e <= 100; e += 25) {
        for (int k = 0; k < POINTS; k++)
            for (int i = 0; i < 3; i++) scaled[k][i] = ldexp(points[k][i], e);
        const ct_camera other = fit_to(&o, scaled, POINTS);
        assert_near(ldexp(other.pixel, -e), camera.pixel, 1e-9 * camera.pixel);
        for (int k = 0; k < POINTS; k++) {
            double a[3], b[3];
            project(&camera, size, whole, points[k], a);
            project(&other, size, whole, scaled[k], b);
            for (int i = 0; i < 3; i++) assert_near(a[i], b[i], 1e-4);
        }
    }
}

static void a_far_backdrop_cuts_nothing_off(void **state) {
    (void)state;
    ct_snapshot_options o;
    ct_snapshot_options_init(&o);
    for (int e = 0; e < 12; e++) {
        ct_camera_fit fit;
        ct_camera_fit_begin(&fit, &o);
        for (int k = 0; k < 8; k++) ct_camera_fit_add_framed(&fit, (double[3]){k & 1, k >> 1 & 1, k >> 2});
        ct_camera_fit_add_drawn(&fit, (double[3]){0, 0, -pow(10, e)});
        const ct_camera camera = ct_camera_fit_end(&fit);
        for (int k = 0; k < 8; k++) {
            const double to[3] = {camera.eye[0] - (k & 1), camera.eye[1] - (k >> 1 & 1), camera.eye[2] - (k >> 2)};
            assert_true(dot(to, camera.back) >= camera.near && dot(to, camera.back) <= camera.far);
        }
    }
}

static void everything_is_framed_closely(void **state) {
    (void)state;
    uint64_t rng = 7;
    for (int round = 0; round < 300; round++) {
        ct_snapshot_options o;
        double points[POINTS][3], most = 0;
        ct_snapshot_options_init(&o);
        o.width = 16 + (uint32_t)shape_uniform(&rng, 0, 2000);
        o.height = 16 + (uint32_t)shape_uniform(&rng, 0, 2000);
        o.azimuth = shape_uniform(&rng, -360, 360);
        o.elevation = round % 10 ? shape_uniform(&rng, -90, 90) : 90;
        o.field_of_view = shape_uniform(&rng, 5, 120);
        for (int i = 0; i < 3; i++) o.up[i] = shape_uniform(&rng, -1, 1);
        random_points(&rng, points);
        ct_camera c = fit_to(&o, points, POINTS);
        assert_orthonormal(&c);
        const uint32_t size[2] = {o.width, o.height}, whole[4] = {0, 0, o.width, o.height};
        double edge[4] = {1, -1, 1, -1};
        for (int k = 0; k < POINTS; k++) {
            double at[3];
            project(&c, size, whole, points[k], at);
            for (int i = 0; i < 3; i++) assert_true(fabs(at[i]) <= 1);
            for (int i = 0; i < 2; i++) {
                most = fmax(most, fabs(at[i]));
                edge[2 * i] = fmin(edge[2 * i], at[i]);
                edge[2 * i + 1] = fmax(edge[2 * i + 1], at[i]);
            }
        }
        /* The nearest possible eye, with the points centred. With a wider view the eye is farther away, because it
         * keeps a distance from the points. */
        if (o.field_of_view > 60) continue;
        assert_true(most > 0.9 && most < 0.96);
        assert_true(fmin(fabs(edge[0] + edge[1]), fabs(edge[2] + edge[3])) < 1e-3);
    }
}

static void angles(void **state) {
    (void)state;
    static const struct {
        double azimuth, elevation, up[3], back[3], above[3];
    } cases[] = {
        {0, 0, {0, 0, 1}, {1, 0, 0}, {0, 0, 1}},   {90, 0, {0, 0, 2}, {0, 1, 0}, {0, 0, 1}},
        {0, 90, {0, 0, 1}, {0, 0, 1}, {0, 0, 0}},  {-90, 0, {0, 0, -1}, {0, 1, 0}, {0, 0, -1}},
        {0, 0, {0, 1, 0}, {1, 0, 0}, {0, 1, 0}},   {0, 0, {5, 0, 0}, {0, 1, 0}, {1, 0, 0}},
        {90, 0, {0, 1, 0}, {0, 0, -1}, {0, 1, 0}},
    };
    double point[1][3] = {{1, 2, 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ct_snapshot_options o;
        ct_snapshot_options_init(&o);
        o.azimuth = cases[i].azimuth;
        o.elevation = cases[i].elevation;
        memcpy(o.up, cases[i].up, sizeof o.up);
        ct_camera c = fit_to(&o, point, 1);
        assert_orthonormal(&c);
        bool told = dot(cases[i].above, cases[i].above) > 0; /* else any is right */
        for (int k = 0; k < 3; k++) {
            assert_near(c.back[k], cases[i].back[k], 1e-12);
            if (told) assert_near(c.up[k], cases[i].above[k], 1e-12);
        }
    }
}

static void eye_and_target(void **state) {
    (void)state;
    uint64_t rng = 11;
    for (int round = 0; round < 100; round++) {
        ct_snapshot_options o;
        double points[POINTS][3], at[3];
        ct_snapshot_options_init(&o);
        random_points(&rng, points);
        o.has_eye = true;
        o.has_target = round % 2;
        for (int i = 0; i < 3; i++) {
            o.eye[i] = points[0][i] + shape_uniform(&rng, -3, 3) * fabs(points[1][i] - points[0][i]);
            o.target[i] = points[2][i];
        }
        ct_camera c = fit_to(&o, points, POINTS);
        assert_orthonormal(&c);
        assert_memory_equal(c.eye, o.eye, sizeof c.eye);
        assert_true(c.near > 0 && c.far > c.near);
        const uint32_t size[2] = {o.width, o.height}, whole[4] = {0, 0, o.width, o.height};
        const double middle[3] = {c.origin[0], c.origin[1], c.origin[2]};
        project(&c, size, whole, middle, at); /* the origin is the target, rounded to float */
        assert_true(fabs(at[0]) < 1e-2 && fabs(at[1]) < 1e-2);
    }
}

static void zoom_comes_closer(void **state) {
    (void)state;
    ct_snapshot_options o;
    double corners[2][3] = {{-1, -1, -1}, {1, 1, 1}}, distance[2];
    ct_snapshot_options_init(&o);
    for (int i = 0; i < 2; i++) {
        o.zoom = 1 + i;
        ct_camera c = fit_to(&o, corners, 2);
        distance[i] = dot(c.eye, c.back);
    }
    assert_near(distance[0], 2 * distance[1], 1e-9);
}

static void a_target_is_in_the_middle(void **state) {
    (void)state;
    ct_snapshot_options o;
    double corners[2][3] = {{-1, -1, -1}, {1, 1, 1}}, at[3];
    ct_snapshot_options_init(&o);
    o.has_target = true;
    memcpy(o.target, corners[1], sizeof o.target);
    ct_camera c = fit_to(&o, corners, 2);
    const uint32_t size[2] = {o.width, o.height}, whole[4] = {0, 0, o.width, o.height};
    project(&c, size, whole, corners[1], at);
    assert_true(fabs(at[0]) < 1e-6 && fabs(at[1]) < 1e-6);
    project(&c, size, whole, corners[0], at);
    assert_true(fabs(at[0]) <= 1 && fabs(at[1]) <= 1);
}

static void nothing_and_a_point(void **state) {
    (void)state;
    ct_snapshot_options o;
    double point[1][3] = {{1e6, 0, 0}}, at[3];
    ct_snapshot_options_init(&o);
    for (int n = 0; n < 2; n++) {
        ct_camera c = fit_to(&o, point, n);
        assert_orthonormal(&c);
        assert_true(c.near > 0 && c.far > c.near && c.pixel > 0);
        const uint32_t size[2] = {o.width, o.height}, whole[4] = {0, 0, o.width, o.height};
        project(&c, size, whole, n ? point[0] : (const double[3]){0, 0, 0}, at);
        for (int i = 0; i < 3; i++) assert_true(fabs(at[i]) <= 1);
    }
}

/* A part's window over -1..1 is the same picture, larger. */
static void parts_fit_together(void **state) {
    (void)state;
    ct_snapshot_options o;
    double points[POINTS][3];
    uint64_t rng = 3;
    ct_snapshot_options_init(&o);
    random_points(&rng, points);
    ct_camera c = fit_to(&o, points, POINTS);
    const uint32_t size[2] = {o.width, o.height}, whole[4] = {0, 0, o.width, o.height}, part[4] = {100, 40, 356, 600};
    for (int k = 0; k < POINTS; k++) {
        double all[3], some[3];
        project(&c, size, whole, points[k], all);
        project(&c, size, part, points[k], some);
        double x = (all[0] + 1) / 2 * size[0], y = (1 - all[1]) / 2 * size[1];
        double in_part_x = part[0] + (some[0] + 1) / 2 * (part[2] - part[0]);
        double in_part_y = part[1] + (1 - some[1]) / 2 * (part[3] - part[1]);
        assert_near(x, in_part_x, 0.01);
        assert_near(y, in_part_y, 0.01);
        assert_near(all[2], some[2], 1e-6);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scenes_of_any_size_look_alike),
        cmocka_unit_test(a_far_backdrop_cuts_nothing_off),
        cmocka_unit_test(everything_is_framed_closely),
        cmocka_unit_test(angles),
        cmocka_unit_test(eye_and_target),
        cmocka_unit_test(zoom_comes_closer),
        cmocka_unit_test(a_target_is_in_the_middle),
        cmocka_unit_test(nothing_and_a_point),
        cmocka_unit_test(parts_fit_together),
    };
    return cmocka_run_group_tests_name("camera", tests, NULL, NULL);
}

/* test_inverted.c - ct_contact.inverted_volume: the volume in which a body is inside out, against closed forms and the
 * method exact, which counts it negatively; with the fast paths and without, on any instruction set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/consistency/engine.h"

/* A deformable body, some of whose vertices are mirrored once it is placed. */
struct mirrored {
    struct shape shape;
    uint32_t first, end; /* the vertices that are mirrored: x := 2 center - x */
    double center;
};

static ct_result *step_mirrored(ct_engine *with, const ct_scene_settings *settings, const struct mirrored *body,
                                const struct placed *other, int is_self, uint32_t want) {
    const struct placed self = {&body->shape, NULL, CT_BODY_DEFORMABLE, is_self};
    const struct placed bodies[] = {self, other ? *other : self};
    struct stage stage = stage_open(with, settings, bodies, other ? 2 : 1);
    const size_t n = 3 * (size_t)body->shape.n_vertices;
    float *moved = malloc(n * sizeof *moved);
    assert_non_null(moved);
    memcpy(moved, body->shape.positions, n * sizeof *moved);
    for (uint32_t v = body->first; v < body->end; v++) moved[3 * v] = (float)(2 * body->center - (double)moved[3 * v]);
    const ct_update update = {.body = stage.body[0],
                              .kind = CT_UPDATE_POSITIONS,
                              .positions = moved,
                              .dtype = CT_F32,
                              .count = body->shape.n_vertices};
    ct_result *result = stage_step(&stage, &update, 1, want);
    free(moved);
    stage_close(&stage);
    return result;
}

/* The second of two shapes, moved by x, is the mirrored part. */
static struct mirrored mirror_second(struct shape first, struct shape second, double x) {
    shape_translate(&second, x, 0, 0);
    struct mirrored m = {shape_merge(&first, &second), first.n_vertices, first.n_vertices + second.n_vertices, x};
    shape_free(&first), shape_free(&second);
    return m;
}

static ct_scene_settings with_cells(ct_scene_settings settings) {
    settings.method = CT_METHOD_LDI;
    settings.cell_size = 0.4;
    return settings;
}

/* Two boxes, the second inside out, and in each a smaller one, whole or as cubes of many triangles. */
static void test_boxes(void **state) {
    (void)state;
    for (int fine = 0; fine < 4; fine++) {
        struct mirrored boxes = fine & 1 ? mirror_second(shape_cube(1, 12), shape_cube(1, 12), 3)
                                         : mirror_second(shape_box(1, 1, 1), shape_box(1, 1, 1), 3);
        struct shape a = fine & 2 ? shape_cube(0.5, 9) : shape_box(0.5, 0.5, 0.5), b = shape_box(0.25, 0.25, 0.25);
        shape_translate(&b, 3, 0, 0);
        struct shape probes = shape_merge(&a, &b);
        const struct placed probe = {&probes, NULL, 0, 0};
        const ct_scene_settings settings[] = {stage_pixel(1.0 / 64), with_cells(stage_pixel(1.0 / 64)), stage_exact()};
        for (int m = 0; m < 3; m++) {
            ct_result *r = step_mirrored(engine, &settings[m], &boxes, &probe, 0, CT_WANT_ALL);
            assert_int_equal(r->n_contacts, 1);
            if (m == 2) {
                assert_true(isnan(r->contacts->inverted_volume));
            } else {
                assert_float_equal(r->contacts->volume, 0.125, 1e-9);
                assert_float_equal(r->contacts->inverted_volume, 0x1p-6, 1e-9);
            }
            for (uint64_t c = 0; c < r->n_cells; c++) assert_true(isnan(r->cells[c].inverted_volume));
            assert_true(m != 1 || r->n_cells > 0);
            ct_result_free(&r);
        }
        shape_free(&a), shape_free(&b), shape_free(&probes), shape_free(&boxes.shape);
    }
}

/* The inverted box surrounds the window, so that rays enter it with a winding number of -1, or its part of the window:
 * they meet it before or behind. */
static void test_surrounded_window(void **state) {
    (void)state;
    for (int axis = 0; axis < 3; axis++) {
        struct shape big = shape_box(axis == 0 ? 8 : 2, axis == 1 ? 8 : 2, axis == 2 ? 8 : 2);
        struct mirrored boxes = mirror_second(shape_box(9, 9, 9), big, 20);
        /* A probe with one arm in the box that is right side out and one in the other. */
        struct shape a = shape_box(1, 1, 1), b = shape_icosphere(0.5, 2);
        shape_translate(&b, 20, 0, 0);
        struct shape probes = shape_merge(&a, &b);
        const struct placed probe = {&probes, NULL, 0, 0};
        const ct_scene_settings settings = stage_pixel(1.0 / 64);
        ct_result *r = step_mirrored(engine, &settings, &boxes, &probe, 0, CT_WANT_FRAME);
        const double expected = shape_volume(&b);
        assert_float_equal(r->contacts->volume, 1, 1e-6);
        assert_float_equal(r->contacts->inverted_volume, expected, 0.005 * expected);
        ct_result_free(&r);
        shape_free(&a), shape_free(&b), shape_free(&probes), shape_free(&boxes.shape);
    }
}

/* A body with itself: two boxes overlap, a third lies elsewhere, inside out. */
static void test_self(void **state) {
    (void)state;
    struct shape a = shape_box(1, 1, 1), b = shape_box(1, 1, 1);
    shape_translate(&b, 0.5, 0, 0);
    struct mirrored boxes = mirror_second(shape_merge(&a, &b), shape_box(0.5, 0.5, 0.5), 3);
    const ct_scene_settings settings = stage_pixel(1.0 / 64);
    ct_result *r = step_mirrored(engine, &settings, &boxes, NULL, 1, CT_WANT_ALL);
    assert_int_equal(r->n_contacts, 1);
    assert_float_equal(r->contacts->volume, 0.5, 1e-9);
    assert_float_equal(r->contacts->inverted_volume, 0.125, 1e-9);
    ct_result_free(&r);
    shape_free(&a), shape_free(&b), shape_free(&boxes.shape);
}

/* Random bodies, most of them folded so that they are inside out in places. exact counts those negatively and what is
 * covered twice twice, so bodies are convex before they are folded: then LDI's volume less the inverted one is exact's.
 */
static void test_against_exact(void **state) {
    (void)state;
    uint64_t rng = 11;
    int n_inverted = 0;
    ct_engine *plain = stage_engine(1, "base");
    for (int round = 0; round < 60; round++) {
        struct mirrored body = round % 3 ? mirror_second(shape_icosphere(1, round % 3), shape_icosphere(0.7, 2), 1.8)
                                         : mirror_second(shape_box(2, 2, 2), shape_box(1, 2, 1), 1.8);
        struct shape other = round % 2 ? shape_box(3, 0.7, 0.9) : shape_icosphere(1.3, round % 4);
        double pose[12];
        shape_pose_random(&rng, 0.3, pose);
        pose[3] += 1.1;
        const struct placed probe = {&other, pose, 0, 0};
        const ct_scene_settings exact = stage_exact();
        const ct_scene_settings settings[] = {stage_resolution(96), stage_pixel(0.02)};
        ct_result *truth = step_mirrored(engine, &exact, &body, &probe, 0, CT_WANT_FRAME);
        for (int s = 0; s < 2; s++) {
            ct_result *r = step_mirrored(engine, &settings[s], &body, &probe, 0, CT_WANT_FRAME);
            ct_result *walked = step_mirrored(engine, &settings[s], &body, &probe, 0, CT_WANT_FRAME | CT_WANT_SPANS);
            ct_result *base = step_mirrored(plain, &settings[s], &body, &probe, 0, CT_WANT_FRAME);
            assert_true(r->n_contacts == walked->n_contacts && r->n_contacts == base->n_contacts);
            if (r->n_contacts && truth->n_contacts) {
                const ct_contact *c = r->contacts;
                assert_true(c->inverted_volume >= 0);
                assert_true(c->inverted_volume == walked->contacts->inverted_volume);
                assert_true(c->inverted_volume == base->contacts->inverted_volume);
                n_inverted += c->inverted_volume > 0.01;
                assert_float_equal(c->volume - c->inverted_volume, truth->contacts->volume,
                                   0.02 * (c->volume + c->inverted_volume));
            }
            ct_result_free(&r), ct_result_free(&walked), ct_result_free(&base);
        }
        ct_result_free(&truth);
        shape_free(&other), shape_free(&body.shape);
    }
    assert_true(n_inverted > 40);
    ct_engine_destroy(&plain);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_boxes),
        cmocka_unit_test(test_surrounded_window),
        cmocka_unit_test(test_self),
        cmocka_unit_test(test_against_exact),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

/* test_open.c - open surfaces that bound the volume behind them (ct_mesh_options.open_direction): against half-spaces,
 * closed slabs and bowls, by exact and by LDI; entries of the given vertices alone; what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/consistency/engine.h"
#include "tests/consistency/open_surfaces.h"

static double level(double x, double y) {
    (void)x, (void)y;
    return 0;
}
static double waves(double x, double y) {
    return shape_slab_top(4, 0.2, 3, x, y);
}

static const double down[3] = {0, 0, -3};

/* A step of a body of an open mesh, or of a half-space (NULL), and one of a shape. */
static ct_result *step_open(const ct_scene_settings *settings, ct_mesh *open, const double *pose,
                            const struct shape *other, const double *other_pose, uint32_t want) {
    ct_error error = {0};
    ct_scene *scene;
    ct_body_options options;
    uint32_t body;
    ct_body_options_init(&options);
    options.kind = open ? CT_BODY_RIGID : CT_BODY_HALF_SPACE;
    if (pose) memcpy(options.pose, pose, sizeof options.pose);
    if (ct_scene_create(engine, settings, &scene, &error) || ct_scene_add_body(scene, open, &options, &body, &error))
        fail_msg("%s", error.message);
    ct_mesh *mesh = shape_to_mesh(other, &error);
    ct_body_options_init(&options);
    options.kind = CT_BODY_RIGID;
    if (other_pose) memcpy(options.pose, other_pose, sizeof options.pose);
    if (!mesh || ct_scene_add_body(scene, mesh, &options, &body, &error)) fail_msg("%s", error.message);
    ct_step step = {.scene = scene, .want = want};
    ct_direction directions[2] = {{.body = 1, .index = 0, .twist = {1, 0.5, 0.25, 0.1, 0.2, 0.3}},
                                  {.body = 2, .index = 1, .twist = {0, 1, 0, 0, 0.5, 0}}};
    if (settings->method == CT_METHOD_EXACT && want & CT_WANT_GRADIENT) {
        step.directions = directions;
        step.n_directions = 2;
    }
    if (ct_engine_run(engine, &step, 1) != CT_OK) fail_msg("%s", step.error.message);
    ct_scene_destroy(&scene);
    ct_mesh_release(&mesh);
    return step.result;
}

static double volume_of(ct_result *result) {
    const double volume = result->n_contacts ? result->contacts->volume : 0;
    ct_result_free(&result);
    return volume;
}

static void test_ball_on_heightfields(void **state) {
    (void)state;
    const ct_scene_settings exact = stage_exact(), ldi = stage_pixel(0.02);
    const struct shape ball = shape_icosphere(1, 3);
    uint64_t rng = 3;
    for (int round = 0; round < 12; round++) {
        /* Turned and moved together, all is the same. */
        double pose[12], lift[12];
        shape_pose_random(&rng, 2, pose);
        const double above = -1.2 + 0.2 * round;
        shape_pose_identity(lift);
        memcpy(lift, pose, sizeof lift);
        for (int k = 0; k < 3; k++) lift[4 * k + 3] += above * pose[4 * k + 2];
        ct_mesh *open;
        ct_error error;
        struct shape flat = heightfield(level, 4, 1 + (uint32_t)round);
        if (make_open(&flat, down, &open, &error)) fail_msg("%s", error.message);
        const double truth = volume_of(step_open(&exact, NULL, pose, &ball, lift, CT_WANT_FRAME));
        assert_float_equal(volume_of(step_open(&exact, open, pose, &ball, lift, CT_WANT_FRAME)), truth, 1e-5);
        assert_float_equal(volume_of(step_open(&ldi, open, pose, &ball, lift, CT_WANT_FRAME)), truth,
                           0.01 * truth + 1e-4);
        if (above < 0.9) assert_true(truth > 0.001);
        ct_mesh_release(&open);
        shape_free(&flat);

        /* Waves: the top of a closed slab. */
        struct shape wavy = heightfield(waves, 4, 24), slab = shape_slab(4, 3, 0.2, 3, 24);
        float top = -10, slab_top = -10;
        for (uint32_t v = 0; v < wavy.n_vertices; v++) top = fmaxf(top, wavy.positions[3 * v + 2]);
        for (uint32_t v = 0; v < slab.n_vertices; v++) slab_top = fmaxf(slab_top, slab.positions[3 * v + 2]);
        shape_translate(&slab, 0, 0, (double)top - (double)slab_top);
        if (make_open(&wavy, down, &open, &error)) fail_msg("%s", error.message);
        ct_mesh *closed = shape_to_mesh(&slab, NULL);
        const double on_slab = volume_of(step_open(&exact, closed, pose, &ball, lift, CT_WANT_FRAME));
        assert_float_equal(volume_of(step_open(&exact, open, pose, &ball, lift, CT_WANT_FRAME)), on_slab, 1e-4);
        ct_mesh_release(&open), ct_mesh_release(&closed);
        shape_free(&wavy), shape_free(&slab);
    }
    shape_free(&(struct shape[]){ball}[0]);
}

/* Half a sphere from inside, opening upwards, with a level rim around it. */
static double dish(double x, double y) {
    const double r = hypot(x, y);
    return r < 1 ? -sqrt(1 - r * r) : 0;
}

static void test_cube_in_a_bowl(void **state) {
    (void)state;
    const ct_scene_settings exact = stage_exact(), ldi = stage_pixel(0.01);
    struct shape bowl = heightfield(dish, 3, 150), cube = shape_box(0.8, 0.8, 0.8);
    ct_mesh *open;
    ct_error error;
    if (make_open(&bowl, down, &open, &error)) fail_msg("%s", error.message);
    ct_mesh_info info;
    ct_mesh_get_info(open, &info);
    assert_int_equal(info.closing_vertices, 4 * 150);
    assert_int_equal(info.vertices, bowl.n_vertices + 4 * 150);
    for (uint32_t v = 0; v < info.closing_vertices; v++) assert_true(ct_mesh_rim(open)[v] < bowl.n_vertices);
    /* The part of the cube outside the unit ball, whose lower corners are at (0.4, 0.4, z): integrated on a grid. */
    for (int i = 0; i < 4; i++) {
        const double bottom = -1.2 + 0.1 * i;
        double pose[12], outside = 0;
        shape_pose_identity(pose);
        pose[11] = bottom + 0.4;
        enum { N = 2000 };
        for (int y = 0; y < N; y++)
            for (int x = 0; x < N; x++) {
                const double u = 0.8 * ((x + 0.5) / N - 0.5), v = 0.8 * ((y + 0.5) / N - 0.5);
                outside += fmax(0, dish(u, v) - bottom) * 0.64 / N / N;
            }
        assert_true(outside > 1e-3);
        assert_float_equal(volume_of(step_open(&exact, open, NULL, &cube, pose, 0)), outside, 0.02 * outside);
        assert_float_equal(volume_of(step_open(&ldi, open, NULL, &cube, pose, 0)), outside, 0.03 * outside);
    }
    ct_mesh_release(&open);
    shape_free(&bowl), shape_free(&cube);
}

/* Beside the rim a body meets a wall: what closing vertices have is added to the rim's, for all kinds of numbers. */
static void test_entries_have_given_vertices(void **state) {
    (void)state;
    const ct_scene_settings settings[] = {stage_exact(), stage_pixel(0.03)};
    struct shape field = heightfield(waves, 4, 8), box = shape_box(1, 1, 1.5);
    ct_mesh *open, *closed;
    ct_error error;
    if (make_open(&field, down, &open, &error)) fail_msg("%s", error.message);
    ct_mesh_info info, other;
    ct_mesh_get_info(open, &info);
    assert_int_equal(ct_mesh_create(ct_mesh_positions(open), CT_F32, info.vertices, ct_mesh_triangles(open),
                                    info.triangles, NULL, &closed, &error),
                     CT_OK);
    ct_mesh_get_info(closed, &other);
    assert_string_not_equal(info.hash, other.hash);
    const uint64_t n = info.vertices, given = n - info.closing_vertices;
    double pose[12];
    shape_pose_identity(pose);
    pose[3] = 1.9, pose[7] = 0.3, pose[11] = -0.2;
    for (int m = 0; m < 2; m++) {
        ct_result *r = step_open(&settings[m], open, NULL, &box, pose, CT_WANT_ALL);
        ct_result *whole = step_open(&settings[m], closed, NULL, &box, pose, CT_WANT_ALL);
        const ct_contact *c = r->contacts, *d = whole->contacts;
        assert_true(r->n_contacts == 1 && c->volume == d->volume);
        assert_memory_equal(c->generalized_gradient, d->generalized_gradient, sizeof c->generalized_gradient);
        double *expected = calloc(n, 7 * sizeof *expected), *got = calloc(n, 7 * sizeof *got), sum[3] = {0, 0, 0};
        assert_true(expected && got);
        uint64_t folded = 0;
        for (uint64_t e = d->first[0]; e < d->first[0] + d->count[0]; e++) {
            const uint32_t v = whole->vertices[e], to = v < given ? v : ct_mesh_rim(open)[v - given];
            folded += v >= given;
            for (uint64_t k = 0; k < 3; k++) expected[7 * to + k] += whole->gradient[3 * e + k];
            for (uint64_t k = 0; k < 3; k++) expected[7 * to + 3 + k] += whole->forces[3 * e + k];
            expected[7 * to + 6] += whole->weights[e];
        }
        assert_true(folded > 2);
        for (uint64_t e = c->first[0]; e < c->first[0] + c->count[0]; e++) {
            const uint32_t v = r->vertices[e];
            assert_true(v < given && (e == c->first[0] || v > r->vertices[e - 1]));
            for (uint64_t k = 0; k < 3; k++) sum[k] += got[7 * v + k] = r->gradient[3 * e + k];
            for (uint64_t k = 0; k < 3; k++) got[7 * v + 3 + k] = r->forces[3 * e + k];
            got[7 * v + 6] = r->weights[e];
        }
        for (uint64_t i = 0; i < 7 * n; i++) assert_float_equal(got[i], expected[i], 1e-12);
        for (int k = 0; k < 3; k++) assert_float_equal(sum[k], c->generalized_gradient[0][k], 1e-9);
        assert_int_equal(c->count[1], d->count[1]);
        assert_memory_equal(r->gradient + 3 * c->first[1], whole->gradient + 3 * d->first[1], 24 * c->count[1]);
        free(expected), free(got);
        if (m == 0) { /* products too */
            double total[2][6] = {{0}};
            assert_true(c->count_product[0] > 0 && c->count_product[0] < d->count_product[0]);
            for (int which = 0; which < 2; which++) {
                const ct_result *from = which ? whole : r;
                const ct_contact *of = which ? d : c;
                for (uint64_t e = 0; e < of->count_product[0]; e++) {
                    const uint64_t row = of->first_product[0] + e;
                    assert_true(which || from->product_vertices[row] < given);
                    for (uint64_t k = 0; k < 6; k++) total[which][k] += from->products[6 * row + k];
                }
            }
            for (int k = 0; k < 6; k++) assert_float_equal(total[0][k], total[1][k], 1e-9);
        }
        ct_result_free(&r), ct_result_free(&whole);
    }
    ct_mesh_release(&open), ct_mesh_release(&closed);
    shape_free(&field), shape_free(&box);
}

static double overhang(double x, double y) {
    (void)y;
    return x;
}

static void refused(const struct shape *s, const double direction[3], ct_status status, const char *why) {
    ct_mesh *mesh;
    ct_error error;
    assert_int_equal(make_open(s, direction, &mesh, &error), status);
    if (!strstr(error.message, why)) fail_msg("\"%s\" is not in: %s", why, error.message);
    assert_string_equal(error.field, "open_direction");
    assert_null(mesh);
}

static void test_refused(void **state) {
    (void)state;
    const double up[3] = {0, 0, 1}, aside[3] = {1, 0, 0}, none[3] = {NAN, 0, 0};
    struct shape flat = heightfield(level, 4, 4), slope = heightfield(overhang, 4, 4), box = shape_box(1, 1, 1),
                 wavy = heightfield(waves, 4, 24);
    refused(&flat, up, CT_INVALID_MESH, "faces along the open direction");
    refused(&flat, none, CT_NON_FINITE, "finite");
    refused(&flat, aside, CT_INVALID_MESH, "open direction");
    refused(&box, down, CT_INVALID_MESH, "has no rim");
    struct shape beside = shape_box(1, 1, 1);
    shape_translate(&beside, 3, 0, 0);
    struct shape boxes = shape_merge(&box, &beside);
    refused(&boxes, down, CT_INVALID_MESH, "has no rim"); /* its parts may not be open either */
    refused(&wavy, (double[]){0.999, 0, -0.04}, CT_INVALID_MESH, "hangs over");
    refused(&slope, (double[]){-1, 0, -0.9}, CT_INVALID_MESH, "faces along the open direction");
    /* Two parts, above one another. */
    struct shape other = heightfield(level, 2, 4);
    shape_translate(&other, 0, 0, 1);
    struct shape both = shape_merge(&flat, &other);
    refused(&both, down, CT_INVALID_MESH, "several parts");
    /* A ramp of two turns is over itself. */
    enum { TURN = 16, STEPS = 2 * TURN };
    struct shape ramp = {.n_vertices = 2 * (STEPS + 1), .n_triangles = 2 * STEPS};
    ramp.positions = malloc(12 * (size_t)ramp.n_vertices);
    ramp.triangles = malloc(12 * (size_t)ramp.n_triangles);
    assert_true(ramp.positions && ramp.triangles);
    for (uint32_t i = 0; i <= STEPS; i++)
        for (uint32_t k = 0; k < 2; k++) {
            const double a = 2 * M_PI * i / TURN, r = k ? 2 : 1;
            float *p = ramp.positions + 3 * (size_t)(2 * i + k);
            p[0] = (float)(r * cos(a)), p[1] = (float)(r * sin(a)), p[2] = (float)(0.1 * i);
        }
    for (uint32_t i = 0; i < STEPS; i++) {
        const uint32_t a = 2 * i;
        memcpy(ramp.triangles + 6 * (size_t)i, (uint32_t[]){a, a + 1, a + 3, a, a + 3, a + 2}, 24);
    }
    refused(&ramp, down, CT_INVALID_MESH, "the rim meets itself");
    ramp.n_triangles = TURN;
    ct_mesh *mesh;
    ct_error error;
    if (make_open(&ramp, down, &mesh, &error)) fail_msg("%s", error.message); /* half a turn less is not */

    ct_mesh_release(&mesh);
    /* Without the direction an open surface is refused as ever. */
    assert_null(shape_to_mesh(&flat, NULL));
    /* A repair fills no hole of one. */
    ct_mesh_options both_asked;
    ct_mesh_options_init(&both_asked);
    both_asked.repair = true;
    both_asked.open_direction[2] = -1;
    both_asked.max_hole = 1;
    assert_int_equal(ct_mesh_create_with(flat.positions, CT_F32, flat.n_vertices, flat.triangles, flat.n_triangles,
                                         &both_asked, &mesh, NULL, NULL),
                     CT_INVALID_ARGUMENT);
    both_asked.max_hole = 0;
    assert_int_equal(ct_mesh_create_with(flat.positions, CT_F32, flat.n_vertices, flat.triangles, flat.n_triangles,
                                         &both_asked, &mesh, NULL, NULL),
                     CT_OK);
    ct_mesh_release(&mesh);
    shape_free(&flat), shape_free(&slope), shape_free(&box), shape_free(&wavy), shape_free(&other), shape_free(&both);
    shape_free(&ramp), shape_free(&beside), shape_free(&boxes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ball_on_heightfields),
        cmocka_unit_test(test_cube_in_a_bowl),
        cmocka_unit_test(test_entries_have_given_vertices),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

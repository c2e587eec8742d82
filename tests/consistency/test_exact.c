/* test_exact.c - contacts whose volume and gradient are known in closed form: boxes, prisms, copies, nested and
 * touching bodies, near the origin and far from it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/consistency/engine.h"

static const uint32_t everything = CT_WANT_ALL | CT_WANT_SPANS;

/* Depths are rounded to 2^-26 of the bodies' reach or finer (view.h), at both ends of a ray. */
static const double rounding = 0x1p-25;

static void at(double x, double y, double z, double pose[12]) {
    shape_pose_identity(pose);
    pose[3] = x, pose[7] = y, pose[11] = z;
}

static const ct_contact *only_contact(const ct_result *result) {
    assert_int_equal(result->n_contacts, 1);
    return result->contacts;
}

/* Newton's third law: what one body's vertices add up to, the other's take away, to the last bit. */
static void assert_balanced(const ct_contact *c) {
    for (int k = 0; k < 3; k++) assert_true(c->generalized_gradient[0][k] == -c->generalized_gradient[1][k]);
}

static void assert_nothing(const struct placed *bodies, int n, const ct_scene_settings *settings, bool boxes_overlap) {
    ct_result *result = stage_once(engine, settings, bodies, n, everything);
    if (boxes_overlap) assert_true(result->pairs > 0);
    assert_int_equal(result->n_contacts, 0);
    assert_int_equal(result->n_entries, 0);
    assert_int_equal(result->n_spans, 0);
    ct_result_free(&result);
}

static void test_boxes(void **state) {
    (void)state;
    uint64_t rng = 1;
    for (int round = 0; round < 200; round++) {
        double size[2][3], center[2][3], pose[2][12], overlap[3], volume = 1, reach = 0;
        double origin = round % 4 == 3 ? 1e6 : 0; /* a rigid body's pose is double: distance must cost nothing */
        struct shape box[2];
        for (int b = 0; b < 2; b++) {
            for (int k = 0; k < 3; k++) {
                size[b][k] = (double)(float)shape_uniform(&rng, 0.5, 3);
                center[b][k] = origin + (b ? shape_uniform(&rng, -0.4, 0.4) : 0);
            }
            box[b] = shape_box(size[b][0], size[b][1], size[b][2]);
            at(center[b][0], center[b][1], center[b][2], pose[b]);
        }
        for (int k = 0; k < 3; k++) {
            double lo = fmax(center[0][k] - size[0][k] / 2, center[1][k] - size[1][k] / 2);
            double hi = fmin(center[0][k] + size[0][k] / 2, center[1][k] + size[1][k] / 2);
            overlap[k] = hi - lo;
            volume *= overlap[k];
            reach = fmax(reach, 4 / overlap[k]);
        }
        ct_scene_settings settings = stage_resolution(1u << round % 7);
        settings.resolution[1] += (uint32_t)(round % 3);
        const struct placed bodies[2] = {{&box[0], pose[0], 0}, {&box[1], pose[1], 0}};
        ct_result *result = stage_once(engine, &settings, bodies, 2, everything);
        const ct_contact *c = only_contact(result);
        double tolerance = volume * (reach * rounding + origin * 1e-15);
        assert_float_equal(c->volume, volume, tolerance);
        for (int w = 0; w < 3; w++) assert_float_equal(c->volumes[w], volume, tolerance);
        assert_balanced(c);
        for (int k = 0; k < 3; k++) {
            /* The overlap's two faces across k belong to A, to B, or one to each. */
            bool a_up = center[0][k] + size[0][k] / 2 < center[1][k] + size[1][k] / 2;
            bool a_down = center[0][k] - size[0][k] / 2 > center[1][k] - size[1][k] / 2;
            double face = volume / overlap[k];
            assert_float_equal(c->generalized_gradient[0][k], face * (a_up - a_down), face * (2e-9 + origin * 1e-15));
        }
        ct_result_free(&result);
        shape_free(&box[0]);
        shape_free(&box[1]);
    }
}

/* A world-anchored lattice whose pitch divides the boxes exactly: not even rounding is left. */
static void test_boxes_on_a_pixel_lattice(void **state) {
    (void)state;
    struct shape a = shape_box(2, 2, 2), b = shape_box(1, 1, 4);
    double crossing[12], flush[12];
    at(0.25, -0.25, 1.5, crossing); /* B comes in through A's top */
    at(0.25, -0.5, 1, flush);       /* B's bottom lies in A's, and B's side in A's side */
    for (int i = 0; i < 5; i++) {
        ct_scene_settings settings = stage_pixel(ldexp(0.25, -i));
        for (int rigid = 0; rigid < 2; rigid++) {
            ct_body_kind kind = rigid ? CT_BODY_RIGID : CT_BODY_DEFORMABLE;
            ct_result *result =
                stage_once(engine, &settings, (struct placed[]){{&a, NULL, kind}, {&b, crossing, kind}}, 2, everything);
            const ct_contact *c = only_contact(result);
            assert_true(c->volume == 1.5 && c->volumes[0] == 1.5 && c->volumes[1] == 1.5 && c->volumes[2] == 1.5);
            assert_true(c->error_estimate > 0 && c->error_estimate < 0.1 && isnan(c->error_bound));
            assert_balanced(c);
            /* Across z A's top and B's bottom; across x and y both faces are B's. */
            assert_true(c->generalized_gradient[0][0] == 0 && c->generalized_gradient[0][1] == 0 &&
                        c->generalized_gradient[0][2] == 1);
            assert_true(c->normal[0] == 0 && c->normal[1] == 0 && c->normal[2] == -1);
            assert_float_equal(c->area, 1, 1e-12);
            assert_float_equal(c->depth, 1.5, 1e-12);
            ct_result_free(&result);

            result =
                stage_once(engine, &settings, (struct placed[]){{&a, NULL, kind}, {&b, flush, kind}}, 2, everything);
            c = only_contact(result);
            assert_true(c->volume == 2);
            assert_balanced(c);
            /* Where faces coincide each body bears half: -2 / 2 across y; 1 and -1 / 2 across z. */
            assert_true(c->generalized_gradient[0][0] == 0 && c->generalized_gradient[0][1] == -1 &&
                        c->generalized_gradient[0][2] == 0.5);
            ct_result_free(&result);
        }
    }
    shape_free(&a);
    shape_free(&b);
}

static void test_disjoint_and_touching(void **state) {
    (void)state;
    struct shape cube = shape_cube(1, 3), l = shape_l_prism(2, 1), unit = shape_box(1, 1, 1),
                 ball = shape_icosphere(1, 3);
    const ct_scene_settings settings[3] = {stage_resolution(33), stage_pixel(0.0625), stage_pixel(0.07)};
    for (int s = 0; s < 3; s++)
        for (int axis = 0; axis < 3; axis++) {
            double pose[12], by[3] = {0.25, 0.25, 0.25};
            by[axis] = 1; /* stacked exactly */
            at(by[0], by[1], by[2], pose);
            assert_nothing((struct placed[]){{&cube, NULL, 0}, {&cube, pose, 0}}, 2, &settings[s], false);
            by[axis] = -3;
            at(by[0], by[1], by[2], pose);
            assert_nothing((struct placed[]){{&cube, NULL, 0}, {&cube, pose, 0}}, 2, &settings[s], false);
        }
    for (int s = 0; s < 3; s++) {
        double pose[12], corner[12];
        at(0.5, 0.5, 0, pose); /* the cube fills the L's notch: two faces coincide, and the boxes overlap whole */
        assert_nothing((struct placed[]){{&l, NULL, 0}, {&unit, pose, 0}}, 2, &settings[s], true);
        assert_nothing((struct placed[]){{&l, NULL, CT_BODY_DEFORMABLE}, {&unit, pose, CT_BODY_DEFORMABLE}}, 2,
                       &settings[s], true);
        at(1.1, 1.1, 1.1, corner); /* the ball's box reaches the cube's corner, the ball does not */
        assert_nothing((struct placed[]){{&ball, NULL, 0}, {&cube, corner, 0}}, 2, &settings[s], true);
    }
    shape_free(&cube);
    shape_free(&l);
    shape_free(&unit);
    shape_free(&ball);
}

/* Linked tori and a bolt in its nut: boxes overlap, windows are full of both surfaces, the bodies are apart. */
static void test_apart_but_interlocked(void **state) {
    (void)state;
    struct shape torus = shape_torus(1, 0.2, 64, 32), bolt = shape_bolt(1, 0.2, 0.4, 6, 48, 24);
    struct shape nut = shape_nut(1, 0.2, 0.4, 3, 48, 24, 0.06, 3);
    ct_scene_settings settings = stage_resolution(96);
    const double x[3] = {1, 0, 0}, z[3] = {0, 0, 1}, shift[3] = {1, 0, 0};
    double pose[12];
    shape_pose_axis(x, 0.25, shift, pose);
    assert_nothing((struct placed[]){{&torus, NULL, 0}, {&torus, pose, 0}}, 2, &settings, true);
    for (int i = 0; i < 4; i++) { /* along the thread it never touches */
        const double by[3] = {0, 0, 0.4 * i * 0.13};
        shape_pose_axis(z, i * 0.13, by, pose);
        assert_nothing((struct placed[]){{&bolt, NULL, 0}, {&nut, pose, 0}}, 2, &settings, true);
    }
    const double by[3] = {0, 0, 0.2}; /* half a turn off, flanks bite */
    shape_pose_axis(z, 0, by, pose);
    ct_result *result =
        stage_once(engine, &settings, (struct placed[]){{&bolt, NULL, 0}, {&nut, pose, 0}}, 2, everything);
    assert_true(only_contact(result)->volume > 0.05);
    ct_result_free(&result);
    shape_free(&torus);
    shape_free(&bolt);
    shape_free(&nut);
}

static void test_nested(void **state) {
    (void)state;
    uint64_t rng = 3;
    struct shape outer = shape_box(20, 20, 20);
    struct shape inner[] = {shape_torus(1, 0.3, 60, 40), shape_blob(1, 4, 0.5, 5),
                            shape_bolt(0.8, 0.2, 0.3, 5, 40, 20)};
    for (int i = 0; i < 12; i++) {
        const struct shape *body = &inner[i % 3];
        double pose[12];
        shape_pose_random(&rng, 5, pose);
        ct_scene_settings settings = stage_resolution(150);
        ct_result *result =
            stage_once(engine, &settings, (struct placed[]){{&outer, NULL, 0}, {body, pose, 0}}, 2, everything);
        const ct_contact *c = only_contact(result);
        double volume = shape_volume(body);
        assert_float_equal(c->volume, volume, 2e-3 * volume);
        assert_int_equal(c->count[0], 0); /* gradient on the inner body only, and it adds up to exactly nothing */
        assert_true(c->count[1] > body->n_vertices / 2);
        for (int b = 0; b < 2; b++)
            for (int k = 0; k < 3; k++) assert_true(c->generalized_gradient[b][k] == 0);
        for (int k = 0; k < 3; k++) assert_true(c->normal[k] == 0 && c->tangents[0][k] == 0);
        /* A ray that slips through a crack in the surface would leave a span that ends at the outer box. */
        for (uint64_t s = 0; s < result->n_spans; s++)
            for (int k = 0; k < 3; k++)
                assert_true(fabsf(result->spans[s].lower[k]) < 7.5f && fabsf(result->spans[s].upper[k]) < 7.5f);
        ct_result_free(&result);
    }
    for (int i = 0; i < 3; i++) shape_free(&inner[i]);
    shape_free(&outer);
}

/* Boxes one in the other, alternately solid and hollow, from the outermost on. */
static struct shape nested_shells(const double *sides, int n) {
    struct shape all = {calloc(24 * (size_t)n, sizeof(float)), 0, calloc(36 * (size_t)n, sizeof(uint32_t)), 0};
    assert_non_null(all.positions);
    assert_non_null(all.triangles);
    for (int i = 0; i < n; i++) {
        struct shape box = shape_box(sides[i], sides[i], sides[i]);
        memcpy(all.positions + 24 * i, box.positions, 24 * sizeof(float));
        for (int k = 0; k < 36; k += 3)
            for (int corner = 0; corner < 3; corner++) /* a hollow's surface faces inward */
                all.triangles[36 * i + k + (i % 2 ? 2 - corner : corner)] = box.triangles[k + corner] + 8 * (uint32_t)i;
        shape_free(&box);
    }
    all.n_vertices = 8 * (uint32_t)n;
    all.n_triangles = 12 * (uint32_t)n;
    return all;
}

/* A bar through solids within hollows within a solid, turned by quarters; all faces on the lattice, so all exact. */
static void test_shells(void **state) {
    (void)state;
    struct shape shells = nested_shells((double[]){8, 6, 4, 2, 1}, 5), bar = shape_box(0.5, 0.5, 20),
                 small = shape_box(0.5, 0.5, 0.5);
    ct_scene_settings settings = stage_pixel(0.125);
    for (int axis = 0; axis < 3; axis++)
        for (int quarter = 0; quarter < 4; quarter++) {
            const double about[3] = {axis == 0, axis == 1, axis == 2}, none[3] = {0};
            double pose[12], turned[12];
            shape_pose_axis(about, quarter * 0.25, none, pose);
            for (int k = 0; k < 12; k++) pose[k] = round(pose[k]);
            shape_pose_axis((double[]){1, 0, 0}, 0.25 * (quarter % 2), none, turned);
            for (int k = 0; k < 12; k++) turned[k] = round(turned[k]);
            ct_result *result =
                stage_once(engine, &settings, (struct placed[]){{&shells, pose, 0}, {&bar, turned, 0}}, 2, everything);
            const ct_contact *c = only_contact(result);
            /* Solid along the bar: from 4 to 3, 2 to 1 and 0.5 to -0.5, then as on the way in. */
            assert_true(c->volume == 0.25 * 5 && c->error_estimate < 0.02);
            assert_balanced(c);
            ct_result_free(&result);
        }
    double hollow[12], wall[12];
    at(0, 2.5, 0, hollow);
    at(1.5, 0, 3, wall); /* half of it in the hollow, half in the outermost wall */
    assert_nothing((struct placed[]){{&shells, NULL, 0}, {&small, hollow, 0}}, 2, &settings, true);
    ct_result *result =
        stage_once(engine, &settings, (struct placed[]){{&shells, NULL, 0}, {&small, wall, 0}}, 2, everything);
    const ct_contact *c = only_contact(result);
    assert_true(c->volume == 0.0625 && c->generalized_gradient[1][2] == 0.25 && c->normal[2] == 1);
    ct_result_free(&result);
    shape_free(&shells);
    shape_free(&bar);
    shape_free(&small);
}

/* A box standing on its edge, sunk by d into a plate: the intersection is a prism of cross-section d^2. */
static void test_prism(void **state) {
    (void)state;
    struct shape box = shape_box(1, 1, 1), plate = shape_box(8, 2, 4);
    const double z[3] = {0, 0, 1};
    for (int i = 0; i < 10; i++) {
        double d = 0.05 + 0.06 * i, pose[12];
        const double by[3] = {0.3, 1 - d + sqrt(0.5), 0.1};
        shape_pose_axis(z, 0.125, by, pose);
        uint32_t n = 20u + 7u * (uint32_t)i;
        ct_scene_settings settings = stage_resolution(n);
        ct_result *result =
            stage_once(engine, &settings, (struct placed[]){{&plate, NULL, 0}, {&box, pose, 0}}, 2, everything);
        const ct_contact *c = only_contact(result);
        /* The window is as wide as the box's diagonal. Along x the depth is linear over the window: exact. Along y it
         * has three kinks, each of which costs at most its change of slope times p^2 / 8. Along z each row of samples
         * is off by at most one. */
        double p = sqrt(2) / n;
        assert_float_equal(c->volumes[0], d * d, 1e-6 * d * d + 1e-8);
        assert_float_equal(c->volumes[1], d * d, p * p / 2 + 1e-8);
        assert_float_equal(c->volumes[2], d * d, p * d + 1e-8);
        assert_balanced(c);
        /* Lifting the plate deepens it by dV/dd = 2 d: an exact width, sampled to one pitch. */
        assert_float_equal(c->generalized_gradient[0][1], 2 * d, p + 1e-8);
        assert_float_equal(c->normal[1], -1, 0.02);
        ct_result_free(&result);
    }
    shape_free(&box);
    shape_free(&plate);
}

/* A body and its copy in the same place, then shifted: V = vol - eps * (area seen along the shift), to first order. */
static void test_copies(void **state) {
    (void)state;
    struct shape shapes[] = {shape_cube(1, 2), shape_icosphere(0.7, 3), shape_blob(0.8, 3, 0.4, 2)};
    for (int i = 0; i < 3; i++) {
        ct_scene_settings settings = stage_resolution(128);
        double volume = shape_volume(&shapes[i]), pose[12];
        ct_result *result = stage_once(engine, &settings,
                                       (struct placed[]){{&shapes[i], NULL, 0}, {&shapes[i], NULL, 0}}, 2, everything);
        const ct_contact *c = only_contact(result);
        assert_float_equal(c->volume, volume, 1e-3 * volume);
        for (int k = 0; k < 6; k++) /* neither copy is in front of the other: each bears half of both sides */
            assert_true(k >= 3 ? fabs(c->generalized_gradient[0][k]) < 1e-9 : c->generalized_gradient[0][k] == 0);
        assert_int_equal(c->count[0], c->count[1]);
        for (uint64_t v = 0; v < 3 * c->count[0]; v++)
            assert_true(result->gradient[3 * c->first[0] + v] == result->gradient[3 * c->first[1] + v]);
        ct_result_free(&result);
        for (int axis = 0; axis < 3; axis++) {
            double eps = 1.0 / 256, by[3] = {0, 0, 0}, seen = 0;
            by[axis] = eps;
            at(by[0], by[1], by[2], pose);
            if (i == 0)
                seen = 1; /* the convex ones' is half of their projected surface; the blob has no such formula */
            if (i == 1) seen = 3.14159265 * 0.49;
            result = stage_once(engine, &settings, (struct placed[]){{&shapes[i], NULL, 0}, {&shapes[i], pose, 0}}, 2,
                                everything);
            c = only_contact(result);
            if (i == 0) assert_float_equal(c->volume, volume - eps * seen, 1e-6);
            if (i == 1) assert_float_equal(c->volume, volume - eps * seen, 0.05 * eps + 1e-3 * volume);
            assert_true(c->volume < volume);
            assert_balanced(c);
            if (i == 0) assert_float_equal(c->generalized_gradient[0][axis], 1, 1e-8);
            if (i == 1) assert_float_equal(c->generalized_gradient[0][axis], seen, 0.02 * seen);
            ct_result_free(&result);
        }
        shape_free(&shapes[i]);
    }
}

/* Two unit spheres at distance d. An icosphere of level 6 lies within 2e-4 of its sphere's volume and area. */
static void test_lens(void **state) {
    (void)state;
    const double pi = 3.14159265358979;
    struct shape ball = shape_icosphere(1, 6);
    ct_scene_settings settings = stage_resolution(256);
    for (int i = 0; i < 6; i++) {
        double d = 0.3 + 0.25 * i, pose[12], length = 0;
        const double along[3] = {1, 2 - i, 0.5 * i};
        for (int k = 0; k < 3; k++) length += along[k] * along[k];
        length = sqrt(length);
        at(d * along[0] / length, d * along[1] / length, d * along[2] / length, pose);
        ct_result *result =
            stage_once(engine, &settings, (struct placed[]){{&ball, NULL, 0}, {&ball, pose, 0}}, 2, CT_WANT_FRAME);
        const ct_contact *c = only_contact(result);
        double volume = pi * (4 + d) * (2 - d) * (2 - d) / 12, slope = -pi * (4 - d * d) / 4;
        assert_float_equal(c->volume, volume, 1e-3 * volume + 1e-4);
        for (int k = 0; k < 3; k++) { /* moving B away shrinks it; the normal pushes A away from B */
            assert_float_equal(c->generalized_gradient[1][k], slope * along[k] / length, 5e-3);
            assert_float_equal(c->normal[k], -along[k] / length, 2e-3);
            assert_float_equal(c->center[k], d / 2 * along[k] / length, 2e-3);
        }
        /* Each side's surface passes the lens's disc once. */
        assert_float_equal(c->area, -slope, 0.01);
        ct_result_free(&result);
    }
    shape_free(&ball);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_boxes),
        cmocka_unit_test(test_boxes_on_a_pixel_lattice),
        cmocka_unit_test(test_disjoint_and_touching),
        cmocka_unit_test(test_apart_but_interlocked),
        cmocka_unit_test(test_nested),
        cmocka_unit_test(test_shells),
        cmocka_unit_test(test_prism),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_lens),
    };
    return cmocka_run_group_tests_name("exact contacts", tests, setup, teardown);
}

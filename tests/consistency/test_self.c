/* test_self.c - the contact of a body with itself: one mesh of two closed shells against the shells as a pair, surfaces
 * that cross themselves against brute force and differences, the two sides, and bits that must not change.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/consistency/engine.h"
#include "tests/consistency/scratch.h"
#include "tests/consistency/self_shapes.h"
#include "tests/scenes/overlap.h"

static const uint32_t everything = CT_WANT_ALL | CT_WANT_SPANS;

static ct_result *step_alone(ct_engine *on, const ct_scene_settings *settings, const struct shape *shape,
                             const double *pose, ct_body_kind kind) {
    return stage_once(on, settings, (struct placed[]){{shape, pose, kind, .self_contact = 1}}, 1, everything);
}

/* What holds of every contact of a body with itself. */
static void check_identities(const ct_result *r, uint32_t n_vertices) {
    check_contact_with_itself(r, n_vertices);
    const ct_contact *c = r->contacts;
    double along[3] = {0, 0, 0};
    for (uint64_t s = 0; s < r->n_spans; s++)
        along[r->spans[s].axis] += (double)(r->spans[s].upper[r->spans[s].axis] - r->spans[s].lower[r->spans[s].axis]);
    for (int w = 0; w < 3; w++) {
        const double ray = c->pitch[(w + 1) % 3] * c->pitch[(w + 2) % 3];
        assert_float_equal(along[w] * ray, c->volumes[w], 1e-5 * c->volumes[w] + 1e-9);
    }
}

/* ---- two shells in one mesh ---- */

struct differences {
    double volume, gradient, normal, center;
};

/* Two shells as one body against the same shells as a pair. */
static struct differences compare_with_pair(const struct shape *a, const struct shape *b,
                                            const ct_scene_settings *settings, bool to_the_bit) {
    struct shape both = shape_merge(a, b);
    ct_result *pair = stage_once(engine, settings, (struct placed[]){{a, NULL, 0}, {b, NULL, 0}}, 2, everything);
    ct_result *self = step_alone(engine, settings, &both, NULL, CT_BODY_RIGID);
    assert_int_equal(pair->n_contacts, 1);
    check_identities(self, both.n_vertices);
    const ct_contact *p = pair->contacts, *s = self->contacts;
    double *expected = dense_gradient(pair, both.n_vertices, a->n_vertices),
           *got = dense_gradient(self, both.n_vertices, 0);
    struct differences d = {0};
    for (int w = 0; w < 3; w++) d.volume = fmax(d.volume, fabs(s->volumes[w] / p->volumes[w] - 1));
    assert_float_equal(s->volume, p->volume, 1e-3 * p->volume); /* views weigh by their windows, which differ */
    double size = 0;
    for (size_t i = 0; i < 3 * (size_t)both.n_vertices; i++) {
        d.gradient += fabs(expected[i] - got[i]);
        size += fabs(expected[i]);
    }
    d.gradient /= size;
    double same = 0;
    for (int k = 0; k < 3; k++) same += s->normal[k] * p->normal[k];
    d.normal = 1 - fabs(same);
    for (int k = 0; k < 3; k++) d.center = fmax(d.center, fabs(s->center[k] - p->center[k]));
    if (to_the_bit) {
        assert_true(s->volume == p->volume && s->error_estimate == p->error_estimate);
        assert_memory_equal(s->volumes, p->volumes, sizeof s->volumes);
        assert_memory_equal(got, expected, 3 * (size_t)both.n_vertices * sizeof *got);
        assert_int_equal(self->n_spans, pair->n_spans);
        for (uint64_t i = 0; i < self->n_spans; i++) {
            assert_memory_equal(self->spans[i].lower, pair->spans[i].lower, 12);
            assert_memory_equal(self->spans[i].upper, pair->spans[i].upper, 12);
        }
    }
    free(expected), free(got);
    ct_result_free(&pair), ct_result_free(&self);
    shape_free(&both);
    return d;
}

/* Moves and stretches a shape to the box from -1 to 1 along each axis, exactly. */
static void fill_unit_box(struct shape *shape) {
    for (size_t k = 0; k < 3; k++) {
        float lo = shape->positions[k], hi = lo;
        for (size_t v = 0; v < shape->n_vertices; v++) {
            lo = fminf(lo, shape->positions[3 * v + k]);
            hi = fmaxf(hi, shape->positions[3 * v + k]);
        }
        for (size_t v = 0; v < shape->n_vertices; v++) {
            float *p = &shape->positions[3 * v + k];
            *p = *p == lo ? -1 : *p == hi ? 1 : 2 * (*p - lo) / (hi - lo) - 1;
        }
    }
}

/* Bodies that fill the same box have the same window as a pair and as one body. None of their faces coincide: there the
 * bodies of a pair share the gradient. */
static void test_same_windows_give_the_same_bits(void **state) {
    (void)state;
    struct shape shapes[] = {shape_torus(0.7, 0.3, 60, 30), shape_blob(1, 4, 0.5, 3), shape_blob(1, 3, 0.4, 8),
                             shape_icosphere(1, 4)};
    for (int i = 0; i < 4; i++) fill_unit_box(&shapes[i]);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < i; j++) {
            const ct_scene_settings settings = (i + j) % 2 ? stage_pixel(0.03) : stage_resolution(90);
            compare_with_pair(&shapes[i], &shapes[j], &settings, true);
        }
    for (int i = 0; i < 4; i++) shape_free(&shapes[i]);
}

/* On the same lattice, depths are rounded differently. Each of two convex shells is one side. */
static void test_shells_are_the_pair(void **state) {
    (void)state;
    uint64_t rng = 5;
    const ct_scene_settings settings = stage_pixel(0.03);
    for (int round = 0; round < 12; round++) {
        const bool convex = round % 3 != 0;
        struct shape a = convex ? shape_icosphere(1, 3) : shape_torus(0.7, 0.3, 40, 20);
        struct shape b = convex || round % 2 ? shape_cube(1.1, 4) : shape_blob(0.8, 3, 0.3, (uint64_t)round);
        double pose[12];
        shape_pose_random(&rng, 0.2, pose);
        shape_transform(&a, pose);
        shape_pose_random(&rng, 0.2, pose);
        pose[3] += 0.9;
        shape_transform(&b, pose);
        const struct differences d = compare_with_pair(&a, &b, &settings, false);
        assert_true(d.volume < 1e-7 && d.gradient < 1e-6);
        assert_true(!convex || (d.normal < 1e-9 && d.center < 1e-6));
        shape_free(&a), shape_free(&b);
    }
}

/* Closed forms, which a lattice of samples meets exactly; the sides of spans. */
static void test_boxes(void **state) {
    (void)state;
    struct shape a = shape_box(1, 1, 1), b = shape_box(1, 0.5, 0.75);
    shape_translate(&b, 0.75, 0.125, 0.0625);
    struct shape both = shape_merge(&a, &b);
    const ct_scene_settings settings = stage_pixel(0x1p-5);
    ct_result *r = step_alone(engine, &settings, &both, NULL, CT_BODY_RIGID);
    check_identities(r, both.n_vertices);
    const ct_contact *c = r->contacts;
    assert_float_equal(c->volume, 0.25 * 0.5 * 0.75, 1e-12);
    assert_float_equal(c->area, 0.5 * 0.75, 1e-9);
    assert_float_equal(c->depth, 0.25, 1e-9);
    assert_float_equal(c->normal[0], 1, 1e-9); /* part 0 is b, whose face at x = 0.25 is pushed along x */
    assert_float_equal(c->center[0], 0.375, 1e-9);
    for (uint64_t e = c->first[0]; e < c->first[0] + c->count[0]; e++) assert_true(r->vertices[e] >= a.n_vertices);
    for (uint64_t e = c->first[1]; e < c->first[1] + c->count[1]; e++) assert_true(r->vertices[e] < a.n_vertices);
    assert_true(r->n_spans > 0);
    for (uint64_t i = 0; i < r->n_spans; i++) { /* b bounds the overlap at both ends along y and z */
        const ct_span *span = &r->spans[i];
        assert_int_equal(span->lower_body, 0);
        if (span->axis == 0) assert_true(span->lower[0] == 0.25F && span->upper[0] == 0.5F);
    }
    ct_result_free(&r);
    shape_free(&a), shape_free(&b), shape_free(&both);
}

/* Three shells: where all three overlap, the volume counts once. */
static void test_three_shells(void **state) {
    (void)state;
    struct shape a = shape_box(1, 1, 1), b = shape_box(1, 1, 1), c = shape_box(1, 1, 1);
    shape_translate(&b, 0.5, 0, 0);
    shape_translate(&c, 0.25, 0, 0);
    struct shape ab = shape_merge(&a, &b), abc = shape_merge(&ab, &c);
    const ct_scene_settings settings = stage_pixel(0x1p-6);
    ct_result *r = step_alone(engine, &settings, &abc, NULL, CT_BODY_RIGID);
    check_identities(r, abc.n_vertices);
    assert_float_equal(r->contacts->volume, 1, 1e-12); /* a and c share [-0.25, 0.5], b and c [0, 0.75] */
    ct_result_free(&r);
    shape_free(&a), shape_free(&b), shape_free(&c), shape_free(&ab), shape_free(&abc);
}

/* A shell wholly inside another one: the volume is its own, and nothing pushes it to a side. */
static void test_nested_shell(void **state) {
    (void)state;
    struct shape outer = shape_icosphere(1, 3), inner = shape_icosphere(0.25, 2);
    shape_translate(&inner, 0.25, -0.125, 0.5);
    struct shape both = shape_merge(&outer, &inner);
    const ct_scene_settings settings = stage_pixel(0.01);
    ct_result *r = step_alone(engine, &settings, &both, NULL, CT_BODY_RIGID);
    check_identities(r, both.n_vertices);
    const ct_contact *c = r->contacts;
    assert_float_equal(c->volume, shape_volume(&inner), 2e-3 * shape_volume(&inner));
    assert_int_equal(c->count[0], inner.n_vertices);
    assert_int_equal(c->count[1], 0);
    for (uint64_t e = 0; e < c->count[0]; e++) assert_true(r->vertices[e] >= outer.n_vertices);
    for (int k = 0; k < 3; k++) assert_true(c->normal[k] == 0 && c->generalized_gradient[0][k] == 0);
    assert_true(c->area == 0 && c->depth == 0);
    ct_result_free(&r);
    shape_free(&outer), shape_free(&inner), shape_free(&both);
}

/* ---- surfaces that cross themselves ---- */

static struct shape limacon(void) {
    return make_limacon(60, 12);
}

/* The integral of the winding number's square less that of the number itself is twice the volume enclosed twice. */
static void test_limacon(void **state) {
    (void)state;
    struct shape shape = limacon();
    struct overlap squared = overlap_find((const struct shape *[]){&shape, &shape}, (const double *[]){NULL, NULL}, 0);
    const double twice = (double)(squared.volume - (long double)shape_volume(&shape)) / 2;
    overlap_free(&squared);
    uint64_t rng = 9;
    for (int round = 0; round < 6; round++) {
        double pose[12];
        shape_pose_random(&rng, 3, pose);
        const ct_scene_settings settings = round % 2 ? stage_pixel(0.02) : stage_resolution(128);
        ct_result *r = step_alone(engine, &settings, &shape, pose, round % 3 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE);
        check_identities(r, shape.n_vertices);
        assert_float_equal(r->contacts->volume, twice, 2e-3 * twice);
        assert_true(fabs(r->contacts->volume - twice) <= r->contacts->error_estimate);
        assert_true(r->contacts->count[0] > 0 && r->contacts->count[1] > 0); /* one surface that crosses itself */
        ct_result_free(&r);
    }
    shape_free(&shape);
}

/* The sides are the ends. */
static void test_ring_whose_ends_overlap(void **state) {
    (void)state;
    struct shape shape = make_ring();
    const ct_scene_settings settings = stage_pixel(0x1p-5);
    ct_result *r = step_alone(engine, &settings, &shape, NULL, CT_BODY_DEFORMABLE);
    check_identities(r, shape.n_vertices);
    const ct_contact *c = r->contacts;
    const double size[3] = {0.25, 0.4375, 0.9375};
    assert_float_equal(c->volume, size[0] * size[1] * size[2], 1e-12);
    /* Part 0 is the right end, outline points 1 to 6: the lower bound along x, the upper one along y and z. */
    const double force[3] = {-size[1] * size[2], size[2] * size[0], size[0] * size[1]};
    const double length = sqrt(force[0] * force[0] + force[1] * force[1] + force[2] * force[2]);
    for (int k = 0; k < 3; k++) {
        assert_float_equal(c->generalized_gradient[0][k], force[k], 1e-9);
        assert_float_equal(c->normal[k], -force[k] / length, 1e-9);
    }
    for (uint64_t e = c->first[0]; e < c->first[0] + c->count[0]; e++)
        assert_true(r->vertices[e] / 2 >= 1 && r->vertices[e] / 2 <= 6);
    ct_result_free(&r);
    shape_free(&shape);
}

/* Differences of a view's volume; see test_derivative.c. */
static void test_gradient_is_the_derivative(void **state) {
    (void)state;
    struct shape shape = limacon();
    uint64_t rng = 3;
    double pose[12], worst = 0, largest = 0;
    shape_pose_random(&rng, 0.3, pose);
    shape_transform(&shape, pose);
    const ct_scene_settings settings = stage_pixel(0.02);
    struct stage stage =
        stage_open(engine, &settings, (struct placed[]){{&shape, NULL, CT_BODY_DEFORMABLE, .self_contact = 1}}, 1);
    ct_result *r = stage_step(&stage, NULL, 0, CT_WANT_GRADIENT);
    for (int i = 0; i < 60; i++) {
        const ct_contact *c = r->contacts;
        const int part = i % 2;
        const uint64_t e = c->first[part] + shape_random(&rng) % c->count[part];
        const uint32_t v = r->vertices[e];
        const int w = i % 3;
        double volume[3];
        for (int side = 0; side < 3; side++) {
            double p[3];
            for (int k = 0; k < 3; k++) p[k] = (double)shape.positions[3 * (size_t)v + (size_t)k];
            p[w] += side < 2 ? (side ? 0x1p-13 : -0x1p-13) : 0;
            const ct_update update = {.body = stage.body[0],
                                      .kind = CT_UPDATE_INDEXED,
                                      .positions = p,
                                      .dtype = CT_F64,
                                      .count = 1,
                                      .indices = &v,
                                      .n_indices = 1};
            ct_result *moved = stage_step(&stage, &update, 1, 0);
            volume[side] = moved->contacts->volumes[w];
            ct_result_free(&moved);
        }
        const double slope = (volume[1] - volume[0]) / 0x1p-12, g = r->gradient[3 * e + (uint64_t)w];
        assert_float_equal(slope, g, 0.0004 / 2 + 2e-5); /* a span that is born or dies on one ray; depths' rounding
        // */
        worst += fabs(slope - g);
        largest += fabs(g);
    }
    print_message("mean |difference| / mean |gradient| = %.2e\n", worst / largest);
    assert_true(worst / largest < 5e-3);
    ct_result_free(&r);
    stage_close(&stage);
    shape_free(&shape);
}

/* ---- bits ---- */

static void test_bits_do_not_depend_on_threads_or_simd(void **state) {
    (void)state;
    struct shape a = make_limacon(300, 80), b = shape_blob(0.8, 5, 0.3, 2);
    shape_translate(&b, 1.2, 0.3, 0.2);
    struct shape both = shape_merge(&a, &b);
    for (int kind = CT_BODY_DEFORMABLE; kind <= CT_BODY_RIGID; kind++) {
        char first[33], hash[33];
        static const struct {
            uint32_t threads;
            const char *simd;
        } on[] = {{1, NULL}, {2, NULL}, {7, NULL}, {1, "base"}, {7, "base"}};
        for (int i = 0; i < 5; i++) {
            ct_engine *other = stage_engine(on[i].threads, on[i].simd);
            const ct_scene_settings settings = stage_resolution(200);
            for (int spans = 0; spans < 2; spans++) { /* a pair that keeps spans is not spread over threads */
                ct_result *r = stage_once(other, &settings,
                                          (struct placed[]){{&both, NULL, (ct_body_kind)kind, .self_contact = 1}}, 1,
                                          spans ? everything : CT_WANT_ALL);
                if (!spans) stage_hash(r, i ? hash : first);
                ct_result_free(&r);
            }
            if (i) assert_string_equal(hash, first);
            ct_engine_destroy(&other);
        }
    }
    shape_free(&a), shape_free(&b), shape_free(&both);
}

static void test_order_changes_nothing(void **state) {
    (void)state;
    uint64_t rng = 21;
    struct shape a = limacon(), b = shape_blob(0.8, 3, 0.3, 2);
    shape_translate(&b, 1.3, 0.3, 0.2);
    struct shape both = shape_merge(&a, &b);
    const ct_scene_settings settings = stage_pixel(0.03);
    check_orders(engine, &settings, &both, everything, &rng);
    shape_free(&a), shape_free(&b), shape_free(&both);
}

/* ---- beside other bodies ---- */

static void test_beside_other_bodies(void **state) {
    (void)state;
    struct shape folded = limacon(), ball = shape_icosphere(0.5, 3);
    const double aside[12] = {1, 0, 0, 1.2, 0, 1, 0, 0, 0, 0, 1, 0}, away[12] = {1, 0, 0, 9, 0, 1, 0, 0, 0, 0, 1, 0};
    const ct_scene_settings settings = stage_pixel(0.02);
    const struct placed bodies[] = {
        {&ball, aside, 0, .self_contact = 1}, {&folded, NULL, 0, .self_contact = 1}, {&folded, away, 0}};
    struct stage stage = stage_open(engine, &settings, bodies, 3);
    ct_body_info info;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ct_scene_body_info(stage.scene, stage.body[i], &info, NULL), CT_OK);
        assert_int_equal(info.self_contact, i < 2);
    }
    ct_result *r = stage_step(&stage, NULL, 0, CT_WANT_ALL);
    assert_int_equal(r->n_contacts, 2); /* the ball does not touch itself, and the third body was not asked */
    assert_int_equal(r->pairs, 3);
    assert_true(r->contacts[0].body[0] == 1 && r->contacts[0].body[1] == 2);
    assert_true(r->contacts[1].body[0] == 2 && r->contacts[1].body[1] == 2);
    ct_result *alone = stage_once(engine, &settings, &bodies[1], 1, CT_WANT_ALL);
    assert_true(alone->contacts->volume == r->contacts[1].volume);
    assert_memory_equal(alone->contacts->normal, r->contacts[1].normal, sizeof alone->contacts->normal);
    assert_memory_equal(r->gradient + 3 * r->contacts[1].first[0], alone->gradient, alone->n_entries * 24);

    /* The stiffness product of implicit integration: -k g (g . d), over both parts. */
    const size_t n = 3 * (size_t)folded.n_vertices;
    double *in = calloc(n, sizeof *in), *out = calloc(n, sizeof *out), along = 0;
    double *g = dense_gradient(alone, folded.n_vertices, 0);
    uint64_t rng = 8;
    for (size_t i = 0; i < n; i++) along += g[i] * (in[i] = shape_uniform(&rng, -1, 1));
    ct_contact_stiffness_product(alone, 0, 3, (const double *[]){in, in}, (double *[]){out, out});
    for (size_t i = 0; i < n; i++) assert_float_equal(out[i], -3 * along * g[i], 1e-15);
    free(in), free(out), free(g);
    ct_result_free(&alone), ct_result_free(&r);

    /* Without volume alone, and after the body is gone. */
    r = stage_step(&stage, NULL, 0, 0);
    assert_int_equal(r->n_contacts, 2);
    ct_result_free(&r);
    assert_int_equal(ct_scene_remove_body(stage.scene, stage.body[1], NULL), CT_OK);
    r = stage_step(&stage, NULL, 0, CT_WANT_ALL);
    assert_int_equal(r->n_contacts, 0);
    ct_result_free(&r);
    stage_close(&stage);
    shape_free(&folded), shape_free(&ball);
}

/* Sides need scratch memory; a step that does not get it fails, and the next one is right. */
static void test_out_of_memory(void **state) {
    (void)state;
    struct shape folded = make_limacon(200, 150);
    const ct_scene_settings settings = stage_resolution(64);
    ct_result *whole = step_alone(engine, &settings, &folded, NULL, CT_BODY_RIGID);
    char expected[33];
    stage_hash(whole, expected);
    ct_result_free(&whole);
    const struct scratch_limits limits = {.first = 1 << 20, .more = 1 << 17, .n_steps = 1};
    check_scratch_limits(engine, &limits, "bodies 1 and 1 need more working memory", &settings,
                         &(struct placed){&folded, NULL, 0, .self_contact = 1}, 1, everything, expected);
    shape_free(&folded);
}

/* ---- refusals ---- */

static void test_methods_without_it_refuse_it(void **state) {
    (void)state;
    struct shape folded = limacon();
    ct_error error = {0};
    ct_mesh *mesh = shape_to_mesh(&folded, &error);
    ct_scene_settings voxels = stage_voxtree(0, 0), ldi = stage_resolution(16);
    struct stage stage = stage_open(engine, &voxels, NULL, 0);
    ct_body_options options;
    ct_body_options_init(&options);
    options.kind = CT_BODY_RIGID;
    assert_false(options.self_contact);
    options.self_contact = true;
    uint32_t body = 0;
    assert_int_equal(ct_scene_add_body(stage.scene, mesh, &options, &body, &error), CT_UNSUPPORTED);
    assert_string_equal(error.field, "self_contact");
    assert_non_null(
        strstr(error.message, "method \"voxtree\" on backend \"cpu\" finds no contact of a body with itself"));
    assert_int_equal(ct_scene_body_count(stage.scene), 0);
    assert_int_equal(ct_scene_configure(stage.scene, &ldi, NULL), CT_OK);
    assert_int_equal(ct_scene_add_body(stage.scene, mesh, &options, &body, NULL), CT_OK);
    error = (ct_error){0};
    assert_int_equal(ct_scene_configure(stage.scene, &voxels, &error), CT_UNSUPPORTED);
    assert_string_equal(error.field, "self_contact");
    ct_scene_settings settings;
    ct_scene_get_running(stage.scene, &settings);
    assert_int_equal(settings.method, CT_METHOD_LDI);
    assert_int_equal(ct_scene_remove_body(stage.scene, body, NULL), CT_OK);
    assert_int_equal(ct_scene_configure(stage.scene, &voxels, NULL), CT_OK);
    stage_close(&stage);
    ct_mesh_release(&mesh);
    shape_free(&folded);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_windows_give_the_same_bits),
        cmocka_unit_test(test_shells_are_the_pair),
        cmocka_unit_test(test_boxes),
        cmocka_unit_test(test_three_shells),
        cmocka_unit_test(test_nested_shell),
        cmocka_unit_test(test_limacon),
        cmocka_unit_test(test_ring_whose_ends_overlap),
        cmocka_unit_test(test_gradient_is_the_derivative),
        cmocka_unit_test(test_bits_do_not_depend_on_threads_or_simd),
        cmocka_unit_test(test_order_changes_nothing),
        cmocka_unit_test(test_beside_other_bodies),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_methods_without_it_refuse_it),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

/* test_self_exact.c - the contact of a body with itself by the method `exact`: shells in one mesh against the shells as
 * a pair, surfaces that cross themselves, also at their own vertices, against brute force and differences, ties, the
 * two sides, and bits that must not change. */
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

#ifdef __SANITIZE_THREAD__ /* is there for races, and slow */
enum { FEWER = 8 };
#else
enum { FEWER = 1 };
#endif

static ct_result *step_alone(ct_engine *on, const struct shape *shape, const double *pose, ct_body_kind kind) {
    const ct_scene_settings settings = stage_exact();
    return stage_once(on, &settings, (struct placed[]){{shape, pose, kind, .self_contact = 1}}, 1,
                      CT_WANT_GRADIENT | CT_WANT_FRICTION | CT_WANT_FORCES);
}

/* The integral of w (w - 1) / 2, in extended precision. */
static double find_truth(const struct shape *shape) {
    struct overlap squared = overlap_find((const struct shape *[]){shape, shape}, (const double *[]){NULL, NULL}, 0);
    const double truth = (double)(squared.volume - (long double)shape_volume(shape)) / 2;
    overlap_free(&squared);
    return truth;
}

/* What holds of every contact of a body with itself. */
static void check_identities(const ct_result *r, uint32_t n_vertices) {
    check_contact_with_itself(r, n_vertices);
    const ct_contact *c = r->contacts;
    assert_true(c->volume > 0 && c->error_bound > 0 && c->error_bound < c->volume);
    assert_true(c->error_estimate == c->error_bound);
    const double *g0 = c->generalized_gradient[0], *g1 = c->generalized_gradient[1];
    double sum[3] = {0, 0, 0}, size = 0;
    for (uint64_t i = 0; i < 3 * r->n_entries; i++) {
        sum[i % 3] += r->gradient[i];
        size += fabs(r->gradient[i]);
    }
    for (int k = 0; k < 3; k++) assert_float_equal(sum[k], 0, 1e-13 * size);
    for (int k = 3; k < 6; k++) assert_float_equal(g0[k], -g1[k], 1e-9 * (1 + size));
}

/* ---- two shells in one mesh ---- */

/* Two shells as one body against the same shells as a pair. */
static void compare_with_pair(const struct shape *a, const struct shape *b, double tolerance) {
    struct shape both = shape_merge(a, b);
    const ct_scene_settings settings = stage_exact();
    ct_result *pair =
        stage_once(engine, &settings, (struct placed[]){{a, NULL, CT_BODY_DEFORMABLE}, {b, NULL, CT_BODY_DEFORMABLE}},
                   2, CT_WANT_GRADIENT | CT_WANT_FRICTION);
    ct_result *self = step_alone(engine, &both, NULL, CT_BODY_DEFORMABLE);
    assert_int_equal(pair->n_contacts, 1);
    check_identities(self, both.n_vertices);
    const ct_contact *p = pair->contacts, *s = self->contacts;
    assert_true(fabs(p->volume - s->volume) <= p->error_bound + s->error_bound);
    assert_float_equal(s->volume, p->volume, tolerance * p->volume);
    double *expected = dense_gradient(pair, both.n_vertices, a->n_vertices),
           *got = dense_gradient(self, both.n_vertices, 0);
    double difference = 0, size = 0;
    for (size_t i = 0; i < 3 * (size_t)both.n_vertices; i++) {
        difference += fabs(expected[i] - got[i]);
        size += fabs(expected[i]);
    }
    assert_true(difference <= 1e-8 * size);
    for (int k = 0; k < 3; k++) assert_float_equal(s->center[k], p->center[k], 1e-6);
    assert_int_equal(s->max_winding, p->max_winding);
    free(expected), free(got);
    ct_result_free(&pair), ct_result_free(&self);
    shape_free(&both);
}

static void test_shells_are_the_pair(void **state) {
    (void)state;
    uint64_t rng = 5;
    for (int round = 0; round < 30 / FEWER; round++) {
        struct shape a = round % 3 ? shape_icosphere(1, 3) : shape_torus(0.7, 0.3, 40, 20);
        struct shape b = round % 2 ? shape_cube(1.1, 4) : shape_blob(0.8, 3, 0.3, (uint64_t)round);
        double pose[12];
        shape_pose_random(&rng, 0.2, pose);
        shape_transform(&a, pose);
        shape_pose_random(&rng, 0.2, pose);
        pose[3] += 0.9;
        shape_transform(&b, pose);
        compare_with_pair(&a, &b, 1e-8);
        shape_free(&a), shape_free(&b);
    }
}

/* Faces, edges and vertices coincide: the gradient is the mean of both perturbations, as it is of a pair. */
static void test_ties(void **state) {
    (void)state;
    static const double shifts[][3] = {{0.5, 0, 0},     {0.5, 0.5, 0},     {0.5, 0.5, 0.5}, {0, 0, 0},
                                       {0.25, 0.25, 0}, {0.75, 0.5, 0.25}, {0.5, -0.25, 0}};
    for (size_t i = 0; i < sizeof shifts / sizeof *shifts; i++)
        for (int n = 1; n <= 4; n++) {
            struct shape a = shape_cube(1, n), b = i % 2 ? shape_cube(1, 3) : shape_cube(1, n);
            shape_translate(&b, shifts[i][0], shifts[i][1], shifts[i][2]);
            compare_with_pair(&a, &b, 1e-9);
            shape_free(&a), shape_free(&b);
        }
    struct shape l = shape_l_prism(1, 1), m = shape_l_prism(1, 1);
    shape_translate(&m, 0.5, 0.25, 0);
    compare_with_pair(&l, &m, 1e-9);
    shape_free(&l), shape_free(&m);
}

/* Closed forms, and the sides. */
static void test_boxes(void **state) {
    (void)state;
    struct shape a = shape_box(1, 1, 1), b = shape_box(1, 0.5, 0.75);
    shape_translate(&b, 0.75, 0.125, 0.0625);
    struct shape both = shape_merge(&a, &b);
    ct_result *r = step_alone(engine, &both, NULL, CT_BODY_RIGID);
    check_identities(r, both.n_vertices);
    const ct_contact *c = r->contacts;
    assert_float_equal(c->volume, 0.25 * 0.5 * 0.75, 1e-11);
    assert_float_equal(c->area, 0.5 * 0.75, 1e-9);
    assert_float_equal(c->depth, 0.25, 1e-9);
    assert_float_equal(c->normal[0], 1, 1e-9); /* part 0 is b, whose face at x = 0.25 is pushed along x */
    assert_float_equal(c->center[0], 0.375, 1e-9);
    assert_float_equal(c->side_center[0][0], 0.25, 1e-9);
    assert_float_equal(c->side_center[1][0], 0.5, 1e-9);
    for (uint64_t e = c->first[0]; e < c->first[0] + c->count[0]; e++) assert_true(r->vertices[e] >= a.n_vertices);
    for (uint64_t e = c->first[1]; e < c->first[1] + c->count[1]; e++) assert_true(r->vertices[e] < a.n_vertices);
    ct_result_free(&r);
    shape_free(&a), shape_free(&b), shape_free(&both);
}

/* Each two layers count: three shells have the volume of their three pairs. */
static void test_three_shells(void **state) {
    (void)state;
    struct shape a = shape_box(1, 1, 1), b = shape_box(1, 1, 1), c = shape_box(1, 1, 1);
    shape_translate(&b, 0.5, 0, 0);
    shape_translate(&c, 0.25, 0, 0);
    struct shape ab = shape_merge(&a, &b), abc = shape_merge(&ab, &c);
    ct_result *r = step_alone(engine, &abc, NULL, CT_BODY_RIGID);
    check_identities(r, abc.n_vertices);
    assert_float_equal(r->contacts->volume, 0.5 + 0.75 + 0.75, 1e-10);
    assert_float_equal(find_truth(&abc), 2, 1e-12);
    assert_int_equal(r->contacts->max_winding, 2);
    ct_result_free(&r);
    shape_free(&a), shape_free(&b), shape_free(&c), shape_free(&ab), shape_free(&abc);
}

/* A shell wholly inside another one: the volume is its own, and nothing pushes it to a side. */
static void test_nested_shell(void **state) {
    (void)state;
    struct shape outer = shape_icosphere(1, 3), inner = shape_icosphere(0.25, 2);
    shape_translate(&inner, 0.25, -0.125, 0.5);
    struct shape both = shape_merge(&outer, &inner);
    ct_result *r = step_alone(engine, &both, NULL, CT_BODY_RIGID);
    check_identities(r, both.n_vertices);
    const ct_contact *c = r->contacts;
    assert_float_equal(c->volume, shape_volume(&inner), 1e-9 * shape_volume(&inner));
    assert_int_equal(c->count[0], inner.n_vertices);
    assert_int_equal(c->count[1], 0);
    for (uint64_t e = 0; e < c->count[0]; e++) assert_true(r->vertices[e] >= outer.n_vertices);
    for (int k = 0; k < 3; k++) assert_true(c->normal[k] == 0 && c->generalized_gradient[0][k] == 0);
    assert_true(c->area == 0 && c->depth == 0);
    ct_result_free(&r);
    shape_free(&outer), shape_free(&inner), shape_free(&both);
}

/* Nothing overlaps: no contact, however the surface is bent. */
static void test_no_contact(void **state) {
    (void)state;
    struct shape shapes[] = {shape_cube(1, 5),    shape_torus(1, 0.3, 40, 20),    shape_bolt(0.5, 0.1, 0.2, 3, 24, 8),
                             shape_l_prism(1, 1), shape_slab(1, 0.2, 0.1, 3, 20), shape_tetrahedron(1)};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        ct_result *r = step_alone(engine, &shapes[i], NULL, i % 2 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE);
        assert_int_equal(r->n_contacts, 0);
        assert_int_equal(r->pairs, 1);
        ct_result_free(&r);
        shape_free(&shapes[i]);
    }
}

/* ---- surfaces that cross themselves ---- */

static void check_volume(const struct shape *shape, ct_body_kind kind) {
    ct_result *r = step_alone(engine, shape, NULL, kind);
    const double truth = find_truth(shape);
    check_identities(r, shape->n_vertices);
    assert_true(fabs(r->contacts->volume - truth) <= r->contacts->error_bound + 1e-15);
    ct_result_free(&r);
}

static void test_limacon(void **state) {
    (void)state;
    struct shape shape = make_limacon(60, 12);
    uint64_t rng = 9;
    for (int round = 0; round < 2; round++) {
        struct shape turned = shape_copy(&shape);
        double pose[12];
        shape_pose_random(&rng, 3, pose);
        if (round) shape_transform(&turned, pose);
        check_volume(&turned, round ? CT_BODY_DEFORMABLE : CT_BODY_RIGID);
        shape_free(&turned);
    }
    shape_free(&shape);
}

static void test_ring_whose_ends_overlap(void **state) {
    (void)state;
    struct shape shape = make_ring();
    ct_result *r = step_alone(engine, &shape, NULL, CT_BODY_DEFORMABLE);
    check_identities(r, shape.n_vertices);
    const ct_contact *c = r->contacts;
    const double size[3] = {0.25, 0.4375, 0.9375};
    assert_float_equal(c->volume, size[0] * size[1] * size[2], 1e-11);
    /* Part 0 is the right end, outline points 1 to 6: the lower bound along x, the upper one along y and z. */
    const double force[3] = {-size[1] * size[2], size[2] * size[0], size[0] * size[1]};
    for (int k = 0; k < 3; k++) assert_float_equal(c->generalized_gradient[0][k], force[k], 1e-9);
    for (uint64_t e = c->first[0]; e < c->first[0] + c->count[0]; e++)
        assert_true(r->vertices[e] / 2 >= 1 && r->vertices[e] / 2 <= 6);
    ct_result_free(&r);
    shape_free(&shape);
}

static void test_tangles(void **state) {
    (void)state;
    int n = 0;
    for (uint64_t seed = 1; seed <= 40 / FEWER; seed++) {
        struct shape shape = make_tangle(1 + (int)(seed % 2), seed % 3 ? 0.4 : 0.8, 0, seed);
        if (shape_volume(&shape) > 0 && find_truth(&shape) > 1e-9) {
            check_volume(&shape, CT_BODY_RIGID);
            n++;
        }
        shape_free(&shape);
    }
    assert_true(n > 30 / FEWER - 2);
}

/* The same on a coarse grid: vertices meet vertices, edges and faces of the same surface, triangles have no area. */
static void test_tangles_with_ties(void **state) {
    (void)state;
    int n = 0;
    for (uint64_t seed = 1; seed <= 60 / FEWER; seed++) {
        struct shape shape = make_tangle(1 + (int)(seed % 2), 0.5, seed % 2 ? 0.25 : 0.5, seed);
        const double truth = find_truth(&shape);
        if (shape_volume(&shape) > 0.01 && truth > 1e-9) {
            check_volume(&shape, CT_BODY_RIGID);
            n++;
        }
        shape_free(&shape);
    }
    assert_true(n > 30 / FEWER - 2);
}

/* What is outside of the one is inside the other. */
static void test_shared_tips(void **state) {
    (void)state;
    struct shape outer = shape_tetrahedron(1), apart = make_tips(0), joined = make_tips(1);
    const double truth = find_truth(&apart);
    check_volume(&apart, CT_BODY_RIGID);
    ct_result *r = step_alone(engine, &joined, NULL, CT_BODY_RIGID);
    check_identities(r, joined.n_vertices);
    assert_float_equal(r->contacts->volume, truth, 1e-11);
    assert_float_equal(truth, shape_volume(&joined) - shape_volume(&outer), 1e-11);
    ct_result_free(&r);
    shape_free(&outer), shape_free(&apart), shape_free(&joined);
}

/* Differences of the volume. */
static void check_derivative(const struct shape *shape, uint64_t seed, double step, double tolerance) {
    const ct_scene_settings settings = stage_exact();
    struct stage stage =
        stage_open(engine, &settings, (struct placed[]){{shape, NULL, CT_BODY_DEFORMABLE, .self_contact = 1}}, 1);
    ct_result *r = stage_step(&stage, NULL, 0, CT_WANT_GRADIENT);
    double *gradient = dense_gradient(r, shape->n_vertices, 0), largest = 0;
    for (size_t i = 0; i < 3 * (size_t)shape->n_vertices; i++) largest = fmax(largest, fabs(gradient[i]));
    const uint64_t n = r->n_entries;
    for (int i = 0; i < 30 / FEWER; i++) {
        const uint32_t v = r->vertices[shape_random(&seed) % n];
        const size_t k = (size_t)(i % 3);
        double volume[2];
        for (int side = 0; side < 3; side++) {
            double p[3];
            for (size_t j = 0; j < 3; j++) p[j] = (double)shape->positions[3 * (size_t)v + j];
            p[k] += side < 2 ? (side ? step : -step) : 0;
            const ct_update update = {.body = stage.body[0],
                                      .kind = CT_UPDATE_INDEXED,
                                      .positions = p,
                                      .dtype = CT_F64,
                                      .count = 1,
                                      .indices = &v,
                                      .n_indices = 1};
            ct_result *moved = stage_step(&stage, &update, 1, 0);
            if (side < 2) volume[side] = moved->contacts->volume;
            ct_result_free(&moved);
        }
        assert_float_equal((volume[1] - volume[0]) / (2 * step), gradient[3 * (size_t)v + k], tolerance * largest);
    }
    free(gradient);
    ct_result_free(&r);
    stage_close(&stage);
}

static void test_gradient_is_the_derivative(void **state) {
    (void)state;
    struct shape shape = make_limacon(60, 12);
    check_derivative(&shape, 3, 0x1p-12, 1e-3);
    shape_free(&shape);
    for (uint64_t seed = 1; seed < 4; seed++) {
        struct shape tangle = make_tangle(2, 0.3, 0, seed);
        check_derivative(&tangle, seed, 0x1p-14, 1e-3);
        shape_free(&tangle);
    }
}

/* ---- second derivatives and inertia ---- */

/* A step with inertia and the product with d, [n_vertices][3], of body 0. */
static ct_result *step_along(struct stage *stage, const double *d, uint32_t n_vertices) {
    const ct_direction direction = {.body = stage->body[0], .values = d, .dtype = CT_F64, .count = n_vertices};
    ct_step step = {
        .scene = stage->scene, .want = CT_WANT_GRADIENT | CT_WANT_INERTIA, .directions = &direction, .n_directions = 1};
    if (ct_engine_run(stage->engine, &step, 1)) fail_msg("%s", step.error.message);
    return step.result;
}

static double *dense_product(const ct_result *r, uint32_t n_vertices, uint32_t second) {
    double *dense = calloc(3 * (size_t)n_vertices, sizeof *dense);
    assert_non_null(dense);
    const ct_contact *c = r->contacts;
    for (int part = 0; part < 2; part++)
        for (uint64_t e = c->first_product[part]; e < c->first_product[part] + c->count_product[part]; e++)
            for (int k = 0; k < 3; k++)
                dense[3 * (r->product_vertices[e] + (part && c->body[0] != c->body[1] ? second : 0)) + (size_t)k] +=
                    r->products[3 * e + (uint64_t)k];
    return dense;
}

static struct stage open_deformable(const struct shape *shape) {
    const ct_scene_settings settings = stage_exact();
    return stage_open(engine, &settings, (struct placed[]){{shape, NULL, CT_BODY_DEFORMABLE, .self_contact = 1}}, 1);
}

static double *random_direction(uint32_t n_vertices, uint64_t *rng) {
    double *d = calloc(3 * (size_t)n_vertices, sizeof *d);
    assert_non_null(d);
    for (size_t i = 0; i < 3 * (size_t)n_vertices; i++) d[i] = shape_uniform(rng, -1, 1);
    return d;
}

/* Products are differences of the gradient, and symmetric: d . H e = e . H d. */
static void check_products(const struct shape *shape, uint64_t seed, double step, double tolerance) {
    const size_t n = 3 * (size_t)shape->n_vertices;
    double *d = random_direction(shape->n_vertices, &seed), *e = random_direction(shape->n_vertices, &seed);
    struct stage stage = open_deformable(shape);
    ct_result *along_d = step_along(&stage, d, shape->n_vertices), *along_e = step_along(&stage, e, shape->n_vertices);
    double *hd = dense_product(along_d, shape->n_vertices, 0), *he = dense_product(along_e, shape->n_vertices, 0);
    double *gradient[2], dhe = 0, ehd = 0, size = 0, difference = 0;
    for (int side = 0; side < 2; side++) {
        double *p = calloc(n, sizeof *p);
        assert_non_null(p);
        for (size_t i = 0; i < n; i++) p[i] = (double)shape->positions[i] + (side ? step : -step) * d[i];
        const ct_update update = {.body = stage.body[0],
                                  .kind = CT_UPDATE_POSITIONS,
                                  .positions = p,
                                  .dtype = CT_F64,
                                  .count = shape->n_vertices};
        ct_result *moved = stage_step(&stage, &update, 1, CT_WANT_GRADIENT);
        gradient[side] = dense_gradient(moved, shape->n_vertices, 0);
        ct_result_free(&moved);
        free(p);
    }
    for (size_t i = 0; i < n; i++) {
        dhe += d[i] * he[i];
        ehd += e[i] * hd[i];
        size += fabs(hd[i]);
        difference += fabs((gradient[1][i] - gradient[0][i]) / (2 * step) - hd[i]);
    }
    assert_float_equal(dhe, ehd, 1e-9 * size);
    assert_true(size > 0 && difference <= tolerance * size);
    free(gradient[0]), free(gradient[1]), free(hd), free(he), free(d), free(e);
    ct_result_free(&along_d), ct_result_free(&along_e);
    stage_close(&stage);
}

static void test_products_are_differences(void **state) {
    (void)state;
    struct shape shape = make_limacon(30, 6);
    uint64_t rng = 4;
    double pose[12];
    shape_pose_random(&rng, 0.3, pose);
    shape_transform(&shape, pose);
    check_products(&shape, 5, 0x1p-16, 0.01);
    shape_free(&shape);
    for (uint64_t seed = 1; seed <= 5 / FEWER + 1; seed++) {
        struct shape tangle = make_tangle(2, 0.3, 0, seed);
        check_products(&tangle, seed, 0x1p-18, 0.02);
        shape_free(&tangle);
    }
}

/* Of two shells, products and inertia are those of the pair. */
static void test_second_is_the_pairs(void **state) {
    (void)state;
    for (int round = 0; round < 3; round++) {
        struct shape a = round ? shape_cube(1, 3) : shape_icosphere(1, 3), b = shape_cube(1, 2 + round);
        shape_translate(&b, 0.5, round == 2 ? 0 : 0.25, round == 2 ? 0 : 0.125);
        struct shape both = shape_merge(&a, &b);
        uint64_t rng = 12;
        double *d = random_direction(both.n_vertices, &rng), *of_b = d + 3 * (size_t)a.n_vertices;
        struct stage self = open_deformable(&both);
        const ct_scene_settings settings = stage_exact();
        struct stage pair = stage_open(
            engine, &settings, (struct placed[]){{&a, NULL, CT_BODY_DEFORMABLE}, {&b, NULL, CT_BODY_DEFORMABLE}}, 2);
        const ct_direction directions[] = {
            {.body = pair.body[0], .values = d, .dtype = CT_F64, .count = a.n_vertices},
            {.body = pair.body[1], .values = of_b, .dtype = CT_F64, .count = b.n_vertices}};
        ct_step step = {.scene = pair.scene, .want = CT_WANT_INERTIA, .directions = directions, .n_directions = 2};
        if (ct_engine_run(engine, &step, 1)) fail_msg("%s", step.error.message);
        ct_result *r = step_along(&self, d, both.n_vertices);
        double *expected = dense_product(step.result, both.n_vertices, a.n_vertices),
               *got = dense_product(r, both.n_vertices, 0), size = 0;
        for (size_t i = 0; i < 3 * (size_t)both.n_vertices; i++) size = fmax(size, fabs(expected[i]));
        assert_true(size > 0);
        for (size_t i = 0; i < 3 * (size_t)both.n_vertices; i++) assert_float_equal(got[i], expected[i], 1e-8 * size);
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++)
                assert_float_equal(r->contacts->inertia[i][j], step.result->contacts->inertia[i][j],
                                   1e-9 * step.result->contacts->inertia[0][0]);
        free(expected), free(got), free(d);
        ct_result_free(&r), ct_result_free(&step.result);
        stage_close(&self), stage_close(&pair);
        shape_free(&a), shape_free(&b), shape_free(&both);
    }
}

/* ---- bits ---- */

static void test_bits_do_not_depend_on_threads_or_simd(void **state) {
    (void)state;
    struct shape a = make_limacon(120, 40), b = shape_cube(1, 8), c = make_tangle(3, 0.2, 0.125, 7);
    shape_translate(&b, 1.25, 0.25, 0.25);
    shape_translate(&c, 1.5, 0.25, 0.25);
    struct shape ab = shape_merge(&a, &b), all = shape_merge(&ab, &c);
    for (int kind = CT_BODY_DEFORMABLE; kind <= CT_BODY_RIGID; kind++) {
        char first[33], hash[33];
        static const struct {
            uint32_t threads;
            const char *simd;
        } on[] = {{1, NULL}, {2, NULL}, {7, NULL}, {1, "base"}, {7, "base"}};
        for (int i = 0; i < 5; i++) {
            ct_engine *other = stage_engine(on[i].threads, on[i].simd);
            ct_result *r = step_alone(other, &all, NULL, (ct_body_kind)kind);
            check_identities(r, all.n_vertices);
            stage_hash(r, i ? hash : first);
            ct_result_free(&r);
            if (i) assert_string_equal(hash, first);
            ct_engine_destroy(&other);
        }
    }
    shape_free(&a), shape_free(&b), shape_free(&c), shape_free(&ab), shape_free(&all);
}

static void test_order_changes_nothing(void **state) {
    (void)state;
    uint64_t rng = 21;
    struct shape a = make_limacon(60, 12), b = shape_blob(0.8, 3, 0.3, 2);
    shape_translate(&b, 1.3, 0.3, 0.2);
    struct shape both = shape_merge(&a, &b);
    const ct_scene_settings settings = stage_exact();
    check_orders(engine, &settings, &both, CT_WANT_GRADIENT | CT_WANT_FRICTION | CT_WANT_FORCES, &rng);
    shape_free(&a), shape_free(&b), shape_free(&both);
}

/* ---- beside other bodies ---- */

static void test_beside_other_bodies(void **state) {
    (void)state;
    struct shape folded = make_limacon(60, 12), ball = shape_icosphere(0.5, 3);
    const double aside[12] = {1, 0, 0, 1.2, 0, 1, 0, 0, 0, 0, 1, 0}, away[12] = {1, 0, 0, 9, 0, 1, 0, 0, 0, 0, 1, 0};
    ct_scene_settings settings = stage_exact();
    const struct placed bodies[] = {
        {&ball, aside, 0, .self_contact = 1}, {&folded, NULL, 0, .self_contact = 1}, {&folded, away, 0}};
    settings.method = CT_METHOD_AUTO;
    settings.max_points = 4;
    struct stage stage = stage_open(engine, &settings, bodies, 3);
    ct_result *r = stage_step(&stage, NULL, 0, CT_WANT_GRADIENT);
    assert_int_equal(r->method, CT_METHOD_EXACT);
    assert_int_equal(r->n_contacts, 2); /* the ball does not touch itself, and the third body was not asked */
    assert_int_equal(r->pairs, 3);
    assert_true(r->contacts[0].body[0] == 1 && r->contacts[0].body[1] == 2);
    assert_true(r->contacts[1].body[0] == 2 && r->contacts[1].body[1] == 2);
    assert_true(r->contacts[1].n_points > 0);
    ct_result *alone = stage_once(engine, &settings, &bodies[1], 1, CT_WANT_GRADIENT);
    assert_true(alone->contacts->volume == r->contacts[1].volume);
    assert_memory_equal(alone->contacts->normal, r->contacts[1].normal, sizeof alone->contacts->normal);
    assert_memory_equal(r->gradient + 3 * r->contacts[1].first[0], alone->gradient, alone->n_entries * 24);
    ct_result_free(&alone), ct_result_free(&r);
    r = stage_step(&stage, NULL, 0, 0); /* volumes alone */
    assert_int_equal(r->n_contacts, 2);
    ct_result_free(&r);
    stage_close(&stage);
    shape_free(&folded), shape_free(&ball);
}

/* The sampled answer of a fine lattice is the same contact. */
static void test_like_ldi(void **state) {
    (void)state;
    struct shape shape = make_limacon(60, 12);
    const ct_scene_settings ldi = stage_resolution(400);
    ct_result *r = step_alone(engine, &shape, NULL, CT_BODY_RIGID),
              *sampled = stage_once(engine, &ldi, (struct placed[]){{&shape, NULL, 0, .self_contact = 1}}, 1,
                                    CT_WANT_GRADIENT);
    const ct_contact *c = r->contacts, *s = sampled->contacts;
    assert_true(fabs(c->volume - s->volume) <= s->error_estimate + c->error_bound);
    assert_float_equal(c->area, s->area, 0.01 * s->area);
    for (int k = 0; k < 3; k++) assert_float_equal(c->normal[k], s->normal[k], 0.01);
    ct_result_free(&r), ct_result_free(&sampled);
    shape_free(&shape);
}

/* Another mesh, a fold that opens, a step without memory. */
static void test_from_step_to_step(void **state) {
    (void)state;
    struct shape folded = make_limacon(60, 12), ball = shape_icosphere(0.5, 3);
    const ct_scene_settings settings = stage_exact();
    struct stage stage =
        stage_open(engine, &settings, (struct placed[]){{&ball, NULL, CT_BODY_DEFORMABLE, .self_contact = 1}}, 1);
    ct_result *r = stage_step(&stage, NULL, 0, CT_WANT_ALL & ~CT_WANT_INERTIA);
    assert_int_equal(r->n_contacts, 0);
    ct_result_free(&r);
    ct_mesh *mesh = shape_to_mesh(&folded, NULL);
    assert_int_equal(ct_scene_replace_mesh(stage.scene, stage.body[0], mesh, NULL), CT_OK);
    ct_mesh_release(&mesh);
    r = stage_step(&stage, NULL, 0, CT_WANT_GRADIENT);
    check_volume(&folded, CT_BODY_DEFORMABLE);
    assert_int_equal(r->n_contacts, 1);
    ct_result_free(&r);
    stage_close(&stage);
    shape_free(&folded), shape_free(&ball);
}

static void test_out_of_memory(void **state) {
    (void)state;
    struct shape folded = make_limacon(100, 50);
    const ct_scene_settings settings = stage_exact();
    ct_result *whole = step_alone(engine, &folded, NULL, CT_BODY_RIGID);
    char expected[33];
    stage_hash(whole, expected);
    ct_result_free(&whole);
    const struct scratch_limits limits = {.first = 1 << 20, .more = 1 << 19, .n_steps = 1};
    check_scratch_limits(engine, &limits, "working memory", &settings,
                         &(struct placed){&folded, NULL, 0, .self_contact = 1}, 1,
                         CT_WANT_GRADIENT | CT_WANT_FRICTION | CT_WANT_FORCES, expected);
    shape_free(&folded);
}

/* ---- refusals ---- */

static void expect(const ct_error *error, ct_status status, const char *field, const char *part) {
    assert_int_equal(error->status, status);
    assert_string_equal(error->field, field);
    assert_non_null(strstr(error->message, part));
}

static void test_refusals(void **state) {
    (void)state;
    struct shape folded = make_limacon(20, 4);
    ct_error error = {0};
    ct_mesh *mesh = shape_to_mesh(&folded, &error);
    ct_scene_settings settings = stage_exact(), patches = settings;
    patches.patches = true;
    struct stage stage = stage_open(engine, &patches, NULL, 0);
    ct_body_options options;
    ct_body_options_init(&options);
    options.self_contact = true;
    uint32_t body = 0;
    assert_int_equal(ct_scene_add_body(stage.scene, mesh, &options, &body, &error), CT_UNSUPPORTED);
    expect(&error, CT_UNSUPPORTED, "self_contact", "not divided into patches");
    assert_int_equal(ct_scene_configure(stage.scene, &settings, NULL), CT_OK);
    assert_int_equal(ct_scene_add_body(stage.scene, mesh, &options, &body, NULL), CT_OK);
    error = (ct_error){0};
    assert_int_equal(ct_scene_configure(stage.scene, &patches, &error), CT_UNSUPPORTED);
    expect(&error, CT_UNSUPPORTED, "self_contact", "not divided into patches");

    ct_body_options plane = options;
    plane.kind = CT_BODY_HALF_SPACE;
    error = (ct_error){0};
    assert_int_equal(ct_scene_add_body(stage.scene, NULL, &plane, &body, &error), CT_INVALID_ARGUMENT);
    expect(&error, CT_INVALID_ARGUMENT, "self_contact", "a half-space has no contact with itself");
    stage_close(&stage);
    ct_mesh_release(&mesh);
    shape_free(&folded);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shells_are_the_pair),
        cmocka_unit_test(test_ties),
        cmocka_unit_test(test_boxes),
        cmocka_unit_test(test_three_shells),
        cmocka_unit_test(test_nested_shell),
        cmocka_unit_test(test_no_contact),
        cmocka_unit_test(test_limacon),
        cmocka_unit_test(test_ring_whose_ends_overlap),
        cmocka_unit_test(test_tangles),
        cmocka_unit_test(test_tangles_with_ties),
        cmocka_unit_test(test_shared_tips),
        cmocka_unit_test(test_gradient_is_the_derivative),
        cmocka_unit_test(test_products_are_differences),
        cmocka_unit_test(test_second_is_the_pairs),
        cmocka_unit_test(test_bits_do_not_depend_on_threads_or_simd),
        cmocka_unit_test(test_order_changes_nothing),
        cmocka_unit_test(test_beside_other_bodies),
        cmocka_unit_test(test_like_ldi),
        cmocka_unit_test(test_from_step_to_step),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

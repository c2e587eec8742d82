/* test_patches.c - the method `exact` with patches: one contact for each connected piece of the intersection, against
 * closed forms, and against the contact without patches, to which they add up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/consistency/engine.h"
#include "tests/consistency/patch_shapes.h"

#ifdef __SANITIZE_THREAD__ /* is there for races, and slow */
enum { FEWEST_THREADS = 2 };
#else
enum { FEWEST_THREADS = 1 };
#endif

/* ---- steps ---- */

static ct_result *run_on(ct_engine *on, const struct shape *a, const double *pose_a, const struct shape *b,
                         const double *pose_b, bool patches) {
    ct_scene_settings settings = stage_exact();
    settings.patches = patches;
    return stage_once(on, &settings, (struct placed[]){{a, pose_a, CT_BODY_RIGID}, {b, pose_b, CT_BODY_RIGID}}, 2,
                      CT_WANT_ALL);
}

/* Adds a contact's gradient of a part to sum, [vertices][3]. */
static void add_gradient(const ct_result *r, const ct_contact *c, int part, double *sum) {
    for (uint64_t e = c->first[part]; e < c->first[part] + c->count[part]; e++)
        for (uint64_t k = 0; k < 3; k++) sum[3 * (uint64_t)r->vertices[e] + k] += r->gradient[3 * e + k];
}

/* What holds of each patch, and of their sums. */
static void check_patches(const ct_result *r, const ct_result *whole, const struct shape *const shapes[2]) {
    const ct_contact *pair = whole->contacts;
    double volume = 0, size = 0, wrench[2][6] = {{0}};
    assert_int_equal(whole->n_contacts, 1);
    double *sum[2], *expected[2];
    for (int b = 0; b < 2; b++) {
        sum[b] = shape_alloc(3 * (uint64_t)shapes[b]->n_vertices, sizeof **sum);
        expected[b] = shape_alloc(3 * (uint64_t)shapes[b]->n_vertices, sizeof **sum);
        add_gradient(whole, pair, b, expected[b]);
        for (uint64_t e = 0; e < 3 * pair->count[b]; e++) size += fabs(whole->gradient[3 * pair->first[b] + e]);
    }
    for (size_t i = 0; i < r->n_contacts; i++) {
        const ct_contact *c = &r->contacts[i];
        assert_int_equal(c->index, i);
        assert_true(c->volume > c->error_bound && c->error_bound > 0);
        if (i) assert_true(c->volume <= r->contacts[i - 1].volume);
        volume += c->volume;
        for (int k = 0; k < 3; k++) assert_true(c->generalized_gradient[0][k] == -c->generalized_gradient[1][k]);
        for (int b = 0; b < 2; b++) {
            add_gradient(r, c, b, sum[b]);
            for (int k = 0; k < 6; k++) wrench[b][k] += c->generalized_gradient[b][k];
        }
    }
    assert_float_equal(volume, pair->volume, 1e-12 * pair->volume + pair->error_bound);
    for (int b = 0; b < 2; b++) {
        for (size_t k = 0; k < 3 * (size_t)shapes[b]->n_vertices; k++)
            assert_float_equal(sum[b][k], expected[b][k], 1e-12 * size);
        for (int k = 0; k < 6; k++) assert_float_equal(wrench[b][k], pair->generalized_gradient[b][k], 1e-11 * size);
        free(sum[b]);
        free(expected[b]);
    }
}

/* Runs a pair with patches, which add up to the contact without, in either order of bodies and with either order of
 * vertices and triangles. The caller frees the result. */
static ct_result *find_patches(const struct shape *a, const double *pose_a, const struct shape *b,
                               const double *pose_b) {
    const struct shape *shapes[2] = {a, b};
    ct_result *r = run_on(engine, a, pose_a, b, pose_b, true), *whole = run_on(engine, a, pose_a, b, pose_b, false);
    check_patches(r, whole, shapes);
    ct_result_free(&whole);
    uint64_t rng = 7;
    struct shape other[2] = {shape_copy(a), shape_copy(b)};
    for (int k = 0; k < 2; k++) shape_shuffle(&other[k], &rng);
    ct_result *swapped = run_on(engine, &other[1], pose_b, &other[0], pose_a, true);
    assert_int_equal(swapped->n_contacts, r->n_contacts);
    for (size_t i = 0; i < r->n_contacts; i++) {
        const ct_contact *x = &r->contacts[i], *y = &swapped->contacts[i];
        assert_memory_equal(&x->volume, &y->volume, sizeof x->volume);
        assert_memory_equal(x->center, y->center, sizeof x->center);
        assert_memory_equal(&x->area, &y->area, sizeof x->area);
        for (int p = 0; p < 2; p++) {
            assert_int_equal(x->count[p], y->count[1 - p]);
            assert_memory_equal(x->generalized_gradient[p], y->generalized_gradient[1 - p],
                                sizeof x->generalized_gradient[p]);
        }
    }
    ct_result_free(&swapped);
    for (int k = 0; k < 2; k++) shape_free(&other[k]);
    return r;
}

static void expect_volumes(const ct_result *r, const double *volumes, size_t n) {
    assert_int_equal(r->n_contacts, n);
    for (size_t i = 0; i < n; i++)
        assert_float_equal(r->contacts[i].volume, volumes[i], r->contacts[i].error_bound + 1e-14);
}

static void expect_patches(const struct shape *a, const struct shape *b, const double *volumes, size_t n) {
    ct_result *r = find_patches(a, NULL, b, NULL);
    expect_volumes(r, volumes, n);
    ct_result_free(&r);
}

/* ---- cases ---- */

/* The teeth of a comb in a slab, at all depths at which faces coincide or not, and with the slab's faces as two large
 * triangles, many small ones, or aside. */
static void test_comb(void **state) {
    (void)state;
    for (int n = 1; n <= 12; n += n < 3 ? 1 : 9)
        for (int turn = 0; turn < 3; turn++) {
            struct shape teeth = comb(n);
            struct shape slab =
                turn ? box_between((const double[]){-1, -1 + 0.25 * turn, 0.75}, (const double[]){20, 3, 2})
                     : box_between((const double[]){0, 0, 0.75}, (const double[]){n - 0.5, 1, 1});
            double volumes[16];
            for (int i = 0; i < n; i++) volumes[i] = 0.125;
            ct_result *r = find_patches(&teeth, NULL, &slab, NULL);
            expect_volumes(r, volumes, (size_t)n);
            uint32_t found = 0; /* by tooth */
            for (int i = 0; i < n; i++) {
                const ct_contact *c = &r->contacts[i];
                found |= 1u << (int)c->center[0];
                assert_float_equal(c->center[0], floor(c->center[0]) + 0.25, 1e-9);
                assert_float_equal(c->center[2], 0.875, 1e-9);
                assert_float_equal(c->generalized_gradient[0][2], turn ? 0.5 : 0.25, 1e-9);
            }
            assert_int_equal(found, (1u << n) - 1);
            ct_result_free(&r);
            shape_free(&teeth);
            shape_free(&slab);
        }
}

/* The comb's back as well: teeth and back together are one piece. */
static void test_one_piece(void **state) {
    (void)state;
    struct shape teeth = comb(3), block = box_between((const double[]){-1, 0.25, -0.5}, (const double[]){9, 0.75, 9});
    ct_result *with = find_patches(&teeth, NULL, &block, NULL),
              *without = run_on(engine, &teeth, NULL, &block, NULL, false);
    char hash[2][33];
    expect_volumes(with, (const double[]){0.5 * 2.5 * 0.5 + 3 * 0.5 * 0.5}, 1);
    stage_hash(with, hash[0]);
    stage_hash(without, hash[1]);
    assert_string_equal(hash[0], hash[1]);
    ct_result_free(&with);
    ct_result_free(&without);
    shape_free(&teeth);
    shape_free(&block);
}

/* A ring stands in a plate, through which it goes twice; the plate's faces are two triangles or many. */
static void test_torus_through_plate(void **state) {
    (void)state;
    struct shape ring = shape_torus(1, 0.3, 48, 24);
    double pose[12];
    for (int fine = 0; fine < 2; fine++)
        for (int i = 0; i < 4; i++) {
            struct shape plate = shape_cube(4, fine ? 16 : 1);
            for (uint32_t v = 0; v < plate.n_vertices; v++) plate.positions[3 * (size_t)v + 2] *= 0.05F;
            const double up[3] = {0.01 * i, 0.02, 0.1 * i};
            shape_pose_axis((const double[]){1, 0, 0}, i < 3 ? 0.25 : 0.23, up, pose);
            ct_result *r = find_patches(&ring, pose, &plate, NULL);
            assert_int_equal(r->n_contacts, 2);
            for (int c = 0; c < 2; c++) assert_true(fabs(r->contacts[c].center[0]) > 0.8);
            assert_true(r->contacts[0].center[0] * r->contacts[1].center[0] < 0);
            ct_result_free(&r);
            shape_free(&plate);
        }
    shape_free(&ring);
}

/* Boxes wholly inside another one, and one that reaches out of it. */
static void test_nested(void **state) {
    (void)state;
    struct shape inside = {0}, outside = shape_cube(10, 3);
    append_box(&inside, (const double[]){-4, -4, -4}, (const double[]){-3, -3, -2}, 0);
    append_box(&inside, (const double[]){0, 0, 0}, (const double[]){1, 1, 1}, 0);
    append_box(&inside, (const double[]){3, 3, 3}, (const double[]){4, 4, 7}, 0);
    append_box(&inside, (const double[]){20, 3, 3}, (const double[]){21, 4, 7}, 0);
    expect_patches(&inside, &outside, (const double[]){2, 2, 1}, 3);
    shape_free(&inside);
    shape_free(&outside);
}

static void test_identical_bodies(void **state) {
    (void)state;
    struct shape two = {0}, ball = shape_icosphere(1, 3), comb3 = comb(3);
    append_box(&two, (const double[]){0, 0, 0}, (const double[]){1, 1, 2}, 0);
    append_box(&two, (const double[]){3, 0, 0}, (const double[]){4, 1, 1}, 0);
    append_box(&two, (const double[]){0, 3, 0}, (const double[]){4, 4, 1}, 0);
    expect_patches(&two, &two, (const double[]){4, 2, 1}, 3);
    expect_patches(&ball, &ball, (const double[]){shape_volume(&ball)}, 1);
    expect_patches(&comb3, &comb3, (const double[]){shape_volume(&comb3)}, 1);
    shape_free(&two);
    shape_free(&ball);
    shape_free(&comb3);
}

/* Pieces that share a face, an edge or a corner are two; what only touches is none. */
static void test_touching(void **state) {
    (void)state;
    static const double second[3][3] = {{1, 0, 0}, {1, 1, 0}, {1, 1, 1}};
    for (int i = 0; i < 3; i++)
        for (int fine = 0; fine < 2; fine++) {
            struct shape two = {0}, slab = shape_cube(10, fine ? 20 : 1);
            const double *lo = second[i], hi[3] = {lo[0] + 1, lo[1] + 1, lo[2] + 1};
            append_box(&two, (const double[]){0, 0, 0}, (const double[]){1, 1, 1}, 0);
            append_box(&two, lo, hi, 0);
            shape_translate(&slab, 0, 0, 5.5);
            if (i < 2)
                expect_patches(&two, &slab, (const double[]){0.5, 0.5}, 2);
            else
                expect_patches(&two, &slab, (const double[]){1, 0.5}, 2);
            shape_free(&two);
            shape_free(&slab);
        }
    /* A third body part that lies on the slab's face without a volume. */
    struct shape bodies = {0}, slab = box_between((const double[]){-5, -5, -1}, (const double[]){5, 5, 0});
    append_box(&bodies, (const double[]){0, 0, -0.5}, (const double[]){1, 1, 1}, 0);
    append_box(&bodies, (const double[]){2, 0, -0.25}, (const double[]){3, 1, 1}, 0);
    append_box(&bodies, (const double[]){-2, 0, 0}, (const double[]){-1, 1, 1}, 0);
    ct_result *r = run_on(engine, &bodies, NULL, &slab, NULL, true);
    expect_volumes(r, (const double[]){0.5, 0.25}, 2);
    for (int c = 0; c < 2; c++) assert_float_equal(r->contacts[c].generalized_gradient[0][2], -1, 1e-12);
    ct_result_free(&r);
    shape_free(&bodies);
    shape_free(&slab);
}

/* Two cavities in a hollow box, all of it in a larger one; the same cut by a half; a box in a cavity is a piece. */
static void test_cavities(void **state) {
    (void)state;
    struct shape hollow = {0}, around = shape_cube(20, 2),
                 cut = box_between((const double[]){-9, -9, -9}, (const double[]){9, 9, 2});
    append_box(&hollow, (const double[]){-4, -4, -4}, (const double[]){4, 4, 4}, 0);
    append_box(&hollow, (const double[]){-3, -3, -3}, (const double[]){-1, 3, 3}, 1);
    append_box(&hollow, (const double[]){1, -3, -3}, (const double[]){3, 3, 1}, 1);
    expect_patches(&hollow, &around, (const double[]){512 - 72 - 48}, 1);
    expect_patches(&hollow, &cut, (const double[]){384 - 60 - 48}, 1);
    append_box(&hollow, (const double[]){-2.5, -2.5, -2.5}, (const double[]){-2, 1, 1}, 0);
    expect_patches(&hollow, &around, (const double[]){512 - 72 - 48, 0.5 * 3.5 * 3.5}, 2);
    expect_patches(&hollow, &cut, (const double[]){384 - 60 - 48, 0.5 * 3.5 * 3.5}, 2);
    expect_patches(&hollow, &hollow, (const double[]){512 - 72 - 48, 0.5 * 3.5 * 3.5}, 2);
    /* Both walls of one body in the wall of another: four bars would meet in none; nested shells are one ring each. */
    shape_free(&hollow);
    shape_free(&around);
    shape_free(&cut);
}

/* A pipe through one large triangle: the part of the triangle is a ring, whose two curves no edge connects. With a pin
 * inside, that is another piece. */
static void test_rings(void **state) {
    (void)state;
    for (int n = 1; n < 8; n += 6) {
        struct shape pipe = {0}, block = shape_cube(40, n);
        append_box(&pipe, (const double[]){-6, -10, -1}, (const double[]){-2, -6, 30}, 0);
        append_box(&pipe, (const double[]){-5, -9, 0}, (const double[]){-3, -7, 29}, 1);
        append_box(&pipe, (const double[]){-4.5, -8.5, 1}, (const double[]){-3.5, -7.5, 28}, 0);
        append_box(&pipe, (const double[]){-4.25, -8.25, 2}, (const double[]){-3.75, -7.75, 27}, 1);
        append_box(&pipe, (const double[]){1, 9, 3}, (const double[]){2, 10, 28}, 0);
        const double outer = 16 * 21 - 4 * 20, inner = 19 - 0.25 * 18;
        expect_patches(&pipe, &block, (const double[]){outer, 17, inner}, 3);
        shape_free(&pipe);
        shape_free(&block);
    }
}

/* Disjoint blobs in one mesh against a third body, each also by itself. */
static void test_against_components(void **state) {
    (void)state;
    uint64_t rng = 11;
    int most = 0;
    for (int i = 0; i < 40; i++) {
        struct shape all = {0}, alone[6], other = i % 2 ? shape_blob(2.5, 4, 0.2, 5) : shape_box(6, 5, 0.3);
        double pose[12], volumes[6];
        int n = 0;
        for (int k = 0; k < 6; k++) {
            alone[k] = k % 3 == 0 ? shape_blob(0.5, 3, 0.3, shape_random(&rng)) : shape_icosphere(0.5, k % 3 + 1);
            shape_translate(&alone[k], 1.25 * (k % 3) - 1.25, 1.25 * (k / 3) - 0.5, shape_uniform(&rng, -0.5, 0.5));
            append(&all, &alone[k], 0, 0, 0, 0);
        }
        shape_pose_random(&rng, 0.3, pose);
        for (int k = 0; k < 6; k++) {
            ct_result *r = run_on(engine, &alone[k], NULL, &other, pose, true);
            for (size_t c = 0; c < r->n_contacts; c++) {
                int at = n++;
                assert_true(n <= 6);
                for (; at > 0 && volumes[at - 1] < r->contacts[c].volume; at--) volumes[at] = volumes[at - 1];
                volumes[at] = r->contacts[c].volume;
            }
            ct_result_free(&r);
            shape_free(&alone[k]);
        }
        if (n) {
            ct_result *r = find_patches(&all, NULL, &other, pose);
            assert_int_equal(r->n_contacts, n);
            for (int c = 0; c < n; c++)
                assert_float_equal(r->contacts[c].volume, volumes[c], 4 * r->contacts[c].error_bound);
            ct_result_free(&r);
        }
        if (n > most) most = n;
        shape_free(&all);
        shape_free(&other);
    }
    assert_true(most >= 5);
}

/* Products with the second derivative and inertia add up, too. */
static void test_second_derivatives(void **state) {
    (void)state;
    struct shape teeth = comb(5), slab = shape_cube(12, 3);
    double pose[12];
    shape_pose_axis((const double[]){1, 0.2, 0.1}, 0.02, (const double[]){3, 0.5, 6.6}, pose);
    ct_result *results[2];
    struct stage stages[2];
    for (int patches = 0; patches < 2; patches++) {
        ct_scene_settings settings = stage_exact();
        settings.patches = patches;
        stages[patches] = stage_open(engine, &settings,
                                     (struct placed[]){{&teeth, NULL, CT_BODY_RIGID}, {&slab, pose, CT_BODY_RIGID}}, 2);
        ct_direction directions[3] = {
            {.body = stages[patches].body[0], .index = 0, .twist = {0.3, 1, -2, 0.5, 1, 0.25}},
            {.body = stages[patches].body[1], .index = 0, .twist = {1, 0, 1, -1, 2, 0.5}},
            {.body = stages[patches].body[1], .index = 1, .twist = {0, 0, 1, 1, 0, 0}}};
        ct_step step = {.scene = stages[patches].scene,
                        .want = CT_WANT_ALL | CT_WANT_INERTIA,
                        .directions = directions,
                        .n_directions = 3};
        assert_int_equal(ct_engine_run(engine, &step, 1), CT_OK);
        results[patches] = step.result;
    }
    const ct_result *r = results[1], *whole = results[0];
    assert_int_equal(r->n_contacts, 5);
    double sum[24] = {0}, size = 0, inertia[3][3] = {{0}}, trace = 0;
    double *products = shape_alloc(3 * 2 * (uint64_t)(teeth.n_vertices + slab.n_vertices), sizeof *products);
    for (int pass = 0; pass < 2; pass++) {
        const ct_result *from = pass ? whole : r;
        for (size_t c = 0; c < from->n_contacts; c++) {
            const ct_contact *contact = &from->contacts[c];
            for (int i = 0; i < 24; i++) sum[i] += (pass ? -1 : 1) * from->generalized_product[24 * c + (size_t)i];
            for (int i = 0; i < 24 && pass; i++) size = fmax(size, fabs(from->generalized_product[i]));
            for (int b = 0; b < 2; b++)
                for (uint64_t e = contact->first_product[b]; e < contact->first_product[b] + contact->count_product[b];
                     e++) {
                    const uint64_t row = from->product_vertices[e] + (b ? teeth.n_vertices : 0);
                    for (uint64_t k = 0; k < 6; k++)
                        products[6 * row + k] += (pass ? -1 : 1) * from->products[6 * e + k];
                }
            double at[3], square = 0; /* moved to the pair's centre */
            for (int k = 0; k < 3; k++) {
                at[k] = contact->center[k] - whole->contacts->center[k];
                square += at[k] * at[k];
            }
            for (int i = 0; i < 3; i++)
                for (int k = 0; k < 3; k++)
                    inertia[i][k] += (pass ? -1 : 1) *
                                     (contact->inertia[i][k] + contact->volume * ((i == k) * square - at[i] * at[k]));
            if (pass) trace = contact->inertia[0][0] + contact->inertia[1][1] + contact->inertia[2][2];
        }
    }
    assert_true(size > 1 && trace > 0);
    for (int i = 0; i < 24; i++) assert_float_equal(sum[i], 0, 1e-10 * size);
    for (uint64_t i = 0; i < 6 * (uint64_t)(teeth.n_vertices + slab.n_vertices); i++)
        assert_float_equal(products[i], 0, 1e-10 * size);
    for (int i = 0; i < 9; i++) assert_float_equal(inertia[i / 3][i % 3], 0, 1e-9 * trace);
    free(products);
    for (int i = 0; i < 2; i++) {
        ct_result_free(&results[i]);
        stage_close(&stages[i]);
    }
    shape_free(&teeth);
    shape_free(&slab);
}

/* ---- bits ---- */

static void test_bits(void **state) {
    (void)state;
    struct shape teeth = comb(9), bolt = shape_bolt(1, 0.2, 0.4, 4, 48, 24), slab = shape_cube(8, 12);
    double pose[2][12];
    shape_pose_axis((const double[]){1, 0.2, 0.1}, 0.03, (const double[]){4, 0, 4.5}, pose[0]);
    shape_pose_axis((const double[]){0, 1, 0}, 0.25, (const double[]){0, 0, 4.85}, pose[1]);
    const struct shape *a[3] = {&teeth, &bolt, &teeth};
    const double *pose_a[3] = {NULL, pose[1], NULL}, *pose_b[3] = {pose[0], NULL, NULL};
    const struct shape *b[3] = {&slab, &slab, &teeth};
    static const char *const paths[] = {"base", "auto"};
    for (int i = 0; i < 3; i++) {
        char expected[33] = "";
        for (uint32_t threads = 1; threads <= 7; threads += threads == 1 ? 1 : 5)
            for (int path = 0; path < 2; path++) {
                ct_engine *on = stage_engine(threads, paths[path]);
                ct_result *r = run_on(on, a[i], pose_a[i], b[i], pose_b[i], true);
                char hash[33];
                if (i < 2) assert_true(r->n_contacts > 3);
                stage_hash(r, hash);
                if (!*expected) memcpy(expected, hash, sizeof hash);
                assert_string_equal(hash, expected);
                ct_result_free(&r);
                ct_engine_destroy(&on);
            }
    }
    shape_free(&teeth);
    shape_free(&bolt);
    shape_free(&slab);
}

/* ---- memory ---- */

/* A bolt in a slab, twice: with products with the second derivative, which need memory for one piece after the other,
 * and a little higher without. */
struct two_pairs {
    struct shape bolt, slab;
    double pose[2][12];
    char expected[2][33];
};

enum { PRODUCTS = 6 };

static ct_status step_pair(ct_engine *on, int which, const struct stage *stage, ct_result **result) {
    ct_direction directions[PRODUCTS];
    for (uint32_t k = 0; k < PRODUCTS; k++) {
        directions[k] = (ct_direction){.body = stage->body[0], .index = k};
        directions[k].twist[k] = 1;
    }
    ct_step step = {.scene = stage->scene, .want = CT_WANT_ALL};
    if (which == 0) {
        step.directions = directions;
        step.n_directions = PRODUCTS;
    }
    const ct_status status = ct_engine_run(on, &step, 1);
    if (status) assert_null(step.result);
    *result = step.result;
    return status;
}

static struct stage open_pair(ct_engine *on, const struct two_pairs *pairs, int which) {
    ct_scene_settings settings = stage_exact();
    settings.patches = true;
    return stage_open(on, &settings,
                      (struct placed[]){{&pairs->bolt, pairs->pose[which], CT_BODY_RIGID}, {&pairs->slab}}, 2);
}

/* Steps both pairs, one after the other, on an engine that may use so many bytes. An answer that is given has to be
 * whole, also after a pair that ran out of memory: gradients that threads add to must be zero again by then. Returns
 * whether the first pair was answered. */
static bool run_with_little(size_t bytes, uint32_t threads, const struct two_pairs *pairs, int *only_first_failed) {
    ct_engine_options options;
    ct_engine *small = NULL;
    bool has_passed[2] = {false, false};
    ct_engine_options_init(&options);
    options.backend = "cpu";
    options.threads = threads;
    options.max_scratch_bytes = bytes;
    assert_int_equal(ct_engine_create(&options, &small, NULL), CT_OK);
    struct stage stages[2] = {open_pair(small, pairs, 0), open_pair(small, pairs, 1)};
    for (int which = 0; which < 2; which++) {
        ct_result *result;
        const ct_status status = step_pair(small, which, &stages[which], &result);
        has_passed[which] = status == CT_OK;
        if (status) assert_int_equal(status, CT_OUT_OF_MEMORY);
        char hash[33];
        if (!status) stage_hash(result, hash);
        if (!status) assert_string_equal(hash, pairs->expected[which]);
        ct_result_free(&result);
    }
    for (int i = 0; i < 2; i++) stage_close(&stages[i]);
    ct_engine_destroy(&small);
    *only_first_failed += has_passed[1] && !has_passed[0];
    return has_passed[0];
}

/* Fails at one allocation after the other: in the search for pieces, and while the first, the second, .. is made. */
static void test_out_of_memory(void **state) {
    (void)state;
    struct two_pairs pairs = {.bolt = shape_bolt(1, 0.2, 0.4, 4, 24, 12), .slab = shape_cube(8, 12)};
    for (int i = 0; i < 2; i++) { /* with most of its thread in the slab, and with the crests */
        shape_pose_axis((const double[]){0, 1, 0}, 0.25, (const double[]){0, 0, i ? 4.97 : 4.85}, pairs.pose[i]);
        struct stage stage = open_pair(engine, &pairs, i);
        ct_result *result;
        assert_int_equal(step_pair(engine, i, &stage, &result), CT_OK);
        assert_true(result->n_contacts > 3);
        stage_hash(result, pairs.expected[i]);
        ct_result_free(&result);
        stage_close(&stage);
    }
    for (uint32_t threads = FEWEST_THREADS; threads < 3; threads++) {
        int failed = 0;
        for (size_t bytes = 256 << 10; !run_with_little(bytes, threads, &pairs, &failed);) bytes += bytes / 64;
        assert_true(failed > 3);
    }
    shape_free(&pairs.bolt);
    shape_free(&pairs.slab);
}

/* ---- settings ---- */

static void test_refusals(void **state) {
    (void)state;
    ct_scene_settings settings;
    ct_scene *scene;
    ct_error error = {0};
    ct_scene_settings_init(&settings);
    assert_false(settings.patches);
    settings.patches = true;
    assert_int_equal(ct_scene_create(engine, &settings, &scene, &error), CT_OK); /* AUTO runs exact */
    ct_scene_settings running;
    ct_scene_get_running(scene, &running);
    assert_int_equal(running.method, CT_METHOD_EXACT);
    settings.method = CT_METHOD_LDI;
    assert_int_equal(ct_scene_configure(scene, &settings, &error), CT_INVALID_ARGUMENT);
    assert_string_equal(error.field, "patches");
    assert_non_null(strstr(error.message, "ldi"));
    memset(&error, 0, sizeof error);
    settings.method = CT_METHOD_AUTO;
    settings.pixel_size = 0.1;
    assert_int_equal(ct_scene_configure(scene, &settings, &error), CT_INVALID_ARGUMENT);
    assert_string_equal(error.field, "patches");
    ct_scene_destroy(&scene);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_comb),
        cmocka_unit_test(test_one_piece),
        cmocka_unit_test(test_torus_through_plate),
        cmocka_unit_test(test_nested),
        cmocka_unit_test(test_identical_bodies),
        cmocka_unit_test(test_touching),
        cmocka_unit_test(test_cavities),
        cmocka_unit_test(test_rings),
        cmocka_unit_test(test_against_components),
        cmocka_unit_test(test_second_derivatives),
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

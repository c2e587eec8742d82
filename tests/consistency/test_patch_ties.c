/* test_patch_ties.c - the method `exact` with patches where edges and faces of both bodies coincide: bodies of boxes,
 * of which each overlap of two boxes is a patch, against closed forms. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "tests/consistency/engine.h"
#include "tests/consistency/patch_shapes.h"

/* ---- bodies of boxes ---- */

enum { BOXES = 8 };

/* Disjoint boxes, which do not touch each other. */
struct boxes {
    double lo[BOXES][3], hi[BOXES][3];
    struct shape shape;
};

static struct boxes boxes_at(const double lo[BOXES][3], const double hi[BOXES][3], const double by[3]) {
    struct boxes boxes = {0};
    for (int i = 0; i < BOXES; i++) {
        for (int k = 0; k < 3; k++) {
            boxes.lo[i][k] = lo[i][k] + by[k];
            boxes.hi[i][k] = hi[i][k] + by[k];
        }
        append_box(&boxes.shape, boxes.lo[i], boxes.hi[i], 0);
    }
    return boxes;
}

/* A box whose faces are n x n squares. */
static struct shape fine_box(const double lo[3], const double hi[3], int n) {
    struct shape box = shape_cube(1, n);
    for (uint32_t v = 0; v < box.n_vertices; v++)
        for (int k = 0; k < 3; k++) {
            float *x = &box.positions[3 * (size_t)v + (size_t)k];
            *x = (float)(lo[k] + ((double)*x + 0.5) * (hi[k] - lo[k]));
        }
    return box;
}

static int random_below(uint64_t *rng, int n) {
    return (int)(shape_random(rng) % (uint64_t)n);
}

/* Boxes with corners on a grid of quarters, and faces of one, four or sixteen squares. */
static struct boxes random_boxes(uint64_t *rng) {
    struct boxes boxes = {0};
    int by[3];
    for (int k = 0; k < 3; k++) by[k] = random_below(rng, 4);
    for (int i = 0; i < BOXES; i++) {
        for (int k = 0; k < 3; k++) {
            const int lo = random_below(rng, 2), hi = 2 + random_below(rng, 2);
            boxes.lo[i][k] = 0.25 * (by[k] + 4 * (i >> k & 1) + lo);
            boxes.hi[i][k] = 0.25 * (by[k] + 4 * (i >> k & 1) + hi);
        }
        struct shape box = fine_box(boxes.lo[i], boxes.hi[i], 1 << random_below(rng, 3));
        append(&boxes.shape, &box, 0, 0, 0, 0);
        shape_free(&box);
    }
    return boxes;
}

/* ---- closed forms ---- */

/* The overlap of box i of a with box j of b. */
struct overlap {
    double volume, center[3];
    double gradient[3]; /* dV/d(translation of b): where faces coincide, the mean of both one-sided ones */
};

static struct overlap overlap_of(const struct boxes *a, int i, const struct boxes *b, int j) {
    struct overlap o = {.volume = 1};
    double length[3], slope[3];
    for (int k = 0; k < 3; k++) {
        const double lo = fmax(a->lo[i][k], b->lo[j][k]), hi = fmin(a->hi[i][k], b->hi[j][k]);
        if (hi <= lo) return (struct overlap){0};
        length[k] = hi - lo;
        o.center[k] = (lo + hi) / 2;
        o.volume *= length[k];
        slope[k] = ((b->hi[j][k] < a->hi[i][k]) + (b->hi[j][k] <= a->hi[i][k]) - (b->lo[j][k] > a->lo[i][k]) -
                    (b->lo[j][k] >= a->lo[i][k])) /
                   2.0;
    }
    for (int k = 0; k < 3; k++) o.gradient[k] = slope[k] * length[(k + 1) % 3] * length[(k + 2) % 3];
    return o;
}

static const ct_contact *find_at(const ct_result *r, const double center[3]) {
    const ct_contact *best = NULL;
    double least = INFINITY;
    for (size_t i = 0; i < r->n_contacts; i++) {
        double distance = 0;
        for (int k = 0; k < 3; k++) distance = fmax(distance, fabs(r->contacts[i].center[k] - center[k]));
        if (distance >= least) continue;
        least = distance;
        best = &r->contacts[i];
    }
    assert_true(least < 1e-9);
    return best;
}

/* Each overlap is a patch, and there are no others; their volumes are the pair's. Returns how many there are. */
static size_t check(const struct boxes *a, const struct boxes *b, const ct_result *r, const ct_result *whole) {
    size_t n = 0;
    double volume = 0;
    for (int i = 0; i < BOXES; i++)
        for (int j = 0; j < BOXES; j++) n += overlap_of(a, i, b, j).volume > 0;
    assert_int_equal(r->n_contacts, n);
    for (size_t c = 0; c < n; c++) volume += r->contacts[c].volume;
    assert_float_equal(volume, n ? whole->contacts->volume : 0, 1e-12);
    for (int i = 0; i < BOXES; i++)
        for (int j = 0; j < BOXES; j++) {
            const struct overlap o = overlap_of(a, i, b, j);
            if (o.volume == 0) continue;
            const ct_contact *c = find_at(r, o.center);
            assert_float_equal(c->volume, o.volume, c->error_bound + 1e-14);
            for (int k = 0; k < 3; k++) {
                assert_float_equal(c->generalized_gradient[1][k], o.gradient[k], 1e-9);
                assert_float_equal(c->generalized_gradient[0][k], -o.gradient[k], 1e-9);
            }
        }
    return n;
}

static ct_result *run(const struct shape *a, const struct shape *b, bool patches) {
    ct_scene_settings settings = stage_exact();
    settings.patches = patches;
    return stage_once(engine, &settings, (struct placed[]){{a, NULL, CT_BODY_RIGID}, {b, NULL, CT_BODY_RIGID}}, 2,
                      CT_WANT_ALL);
}

/* In both orders of the bodies, and with vertices and triangles in other orders. */
static size_t check_orders(struct boxes *a, struct boxes *b, uint64_t *rng) {
    size_t n = 0;
    for (int order = 0; order < 4; order++) {
        if (order == 2) {
            shape_shuffle(&a->shape, rng);
            shape_shuffle(&b->shape, rng);
        }
        const struct boxes *first = order % 2 ? b : a, *second = order % 2 ? a : b;
        ct_result *r = run(&first->shape, &second->shape, true), *whole = run(&first->shape, &second->shape, false);
        n = check(first, second, r, whole);
        ct_result_free(&r);
        ct_result_free(&whole);
    }
    return n;
}

/* ---- cases ---- */

/* Eight cubes in each body, moved in quarters of an edge, so that there are ties of every kind that parallel boxes
 * have. */
static void test_lattices(void **state) {
    (void)state;
    static const double none[3], shifts[] = {-1, -0.5, -0.25, 0, 0.25, 0.5, 1};
    enum { SHIFTS = sizeof shifts / sizeof *shifts };
    double lo[BOXES][3], hi[BOXES][3];
    uint64_t rng = 3;
    for (int i = 0; i < BOXES; i++)
        for (int k = 0; k < 3; k++) {
            lo[i][k] = 1.5 * (i >> k & 1);
            hi[i][k] = lo[i][k] + 1;
        }
    for (int i = 0; i < SHIFTS * SHIFTS * SHIFTS; i++) {
        double by[3];
        bool is_near = true;
        for (int k = 0, j = i; k < 3; k++, j /= SHIFTS) {
            by[k] = shifts[j % SHIFTS];
            is_near = is_near && fabs(by[k]) <= 0.5;
        }
        struct boxes a = boxes_at(lo, hi, none), b = boxes_at(lo, hi, by);
        const size_t n = check_orders(&a, &b, &rng);
        if (is_near) assert_int_equal(n, BOXES);
        shape_free(&a.shape);
        shape_free(&b.shape);
    }
}

static void test_random_boxes(void **state) {
    (void)state;
    uint64_t rng = 17;
    size_t total = 0;
    for (int i = 0; i < 60; i++) {
        struct boxes a = random_boxes(&rng), b = random_boxes(&rng);
        total += check_orders(&a, &b, &rng);
        shape_free(&a.shape);
        shape_free(&b.shape);
    }
    assert_true(total > 80);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lattices),
        cmocka_unit_test(test_random_boxes),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

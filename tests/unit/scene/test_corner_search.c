/* test_corner_search.c - what bounds the columns of a rectangle, against columns in it; and searches among corners,
 * against looking at all of them. */
#include <math.h>
#include <stdlib.h>

#include "gpu/after/corner_search.h"
#include "tests/scenes/stage.h"
#include "tests/unit/unit.h"

/* A contact of two bodies, and its columns. */
struct contact {
    struct stage stage;
    ct_result *result;
    ct_surfaces surfaces;
    ct_columns columns;
};

static ct_engine *engine;

static bool open_contact(struct contact *c, const struct placed *bodies, int n) {
    ct_scene_settings settings = stage_exact();
    c->stage = stage_open(engine, &settings, bodies, n);
    c->result = stage_step(&c->stage, NULL, 0, CT_WANT_FRAME | CT_WANT_FRICTION);
    if (c->result->n_contacts != 1 || !(c->result->contacts[0].area > 0)) return false;
    assert_true(ct_surfaces_open(&c->surfaces, c->stage.scene));
    ct_error error = {0};
    assert_int_equal(ct_columns_open(&c->columns, &c->surfaces, c->result, &c->result->contacts[0], false, &error),
                     CT_OK);
    return true;
}

static void close_contact(struct contact *c, bool is_open) {
    if (is_open) ct_columns_close(&c->columns);
    if (is_open) ct_surfaces_close(&c->surfaces);
    ct_result_free(&c->result);
    stage_close(&c->stage);
}

/* Pairs of round, angular and hollow bodies, a body on a half-space, and a body with itself, placed at random. */
static bool open_random(struct contact *c, int kind, uint64_t *rng) {
    struct shape shapes[] = {shape_blob(0.5, 3, 0.4, 3), shape_torus(0.4, 0.15, 40, 20), shape_cube(0.7, 3),
                             shape_blob(0.4, 4, 0.3, 9)};
    struct shape other = shape_copy(&shapes[0]);
    shape_translate(&other, 0.3, 0.1, 0);
    struct shape both = shape_merge(&shapes[1], &other);
    double pose[2][12];
    for (int k = 0; k < 2; k++) shape_pose_random(rng, 0.3, pose[k]);
    const struct placed bodies[2] = {{&shapes[kind % 4], pose[0], 0, 0},
                                     {kind % 5 == 4 ? NULL : &shapes[(kind + 1) % 4], pose[1], 0, 0}};
    const struct placed one = {&both, pose[0], CT_BODY_DEFORMABLE, 1};
    const bool is_open = kind % 6 == 5 ? open_contact(c, &one, 1) : open_contact(c, bodies, 2);
    for (int k = 0; k < 4; k++) shape_free(&shapes[k]);
    shape_free(&other);
    shape_free(&both);
    return is_open;
}

static double length_at(ct_columns *c, const double at[2]) {
    ct_column_span span;
    assert_true(ct_columns_gather(c, at, 0));
    assert_true(ct_columns_cast(c, at, &span));
    return span.hi - span.lo;
}

/* No column in a rectangle is longer or shorter than its bounds, and those of a small one are near each other. */
static void test_bounds(void **state) {
    (void)state;
    uint64_t rng = 3;
    int tight = 0, rectangles = 0;
    for (int kind = 0; kind < 30; kind++) {
        struct contact c = {0};
        const bool is_open = open_random(&c, kind, &rng);
        for (int round = 0; is_open && round < 60; round++) {
            const double *lo = c.columns.lo, *hi = c.columns.hi, part = pow(2, -(round % 10));
            double from[2], to[2];
            for (int k = 0; k < 2; k++) {
                from[k] = shape_uniform(&rng, lo[k] - 0.1 * (hi[k] - lo[k]), hi[k]);
                to[k] = from[k] + part * shape_uniform(&rng, 0, 1) * (hi[k] - lo[k]);
            }
            ct_column_bounds bounds;
            assert_true(ct_columns_bound(&c.columns, from, to, &bounds));
            assert_true(bounds.least <= bounds.most);
            for (int i = 0; i < 20; i++) {
                const double at[2] = {shape_uniform(&rng, from[0], to[0]), shape_uniform(&rng, from[1], to[1])};
                const double length = length_at(&c.columns, at);
                if (length > bounds.most + 1e-9 || length < bounds.least - 1e-9)
                    fail_msg("kind %d: %g is not in %g .. %g", kind, length, bounds.least, bounds.most);
            }
            rectangles += bounds.most > 0;
            tight += bounds.most > 0 && bounds.least > 0.8 * bounds.most;
        }
        close_contact(&c, is_open);
    }
    assert_true(rectangles > 300 && tight > rectangles / 10);
}

/* ---- queries ---- */

static double one(const void *of, const double at[2]) {
    (void)of;
    (void)at;
    return 1;
}

static double from_place(const void *of, const double at[2]) {
    const double *place = of;
    return hypot(at[0] - place[0], at[1] - place[1]);
}

static double along(const void *of, const double at[2]) {
    const double *direction = of;
    return at[0] * direction[0] + at[1] * direction[1];
}

static double value_of(const ct_corner_query *q, const ct_corner *corner) {
    return q->key(q->of, corner->at) * (q->per_depth > 0 ? corner->depth * q->per_depth : 1);
}

/* A search of the tree finds what looking at all corners finds, and measures far fewer. */
static void test_queries(void **state) {
    (void)state;
    uint64_t rng = 8;
    size_t all_corners = 0, all_measured = 0, found = 0;
    for (int kind = 0; kind < 30; kind++) {
        struct contact c = {0};
        const bool is_open = open_random(&c, kind, &rng);
        if (is_open) {
            const double depth = c.result->contacts[0].depth;
            const double place[2] = {shape_uniform(&rng, -0.2, 0.2), shape_uniform(&rng, -0.2, 0.2)};
            ct_corner_search tree, all;
            assert_true(ct_corner_search_open(&tree, &c.columns, depth));
            assert_true(ct_corner_search_open(&all, &c.columns, depth));
            assert_true(ct_corner_search_measure_some(&all));
            for (size_t i = 0; i < all.n; i++) assert_int_equal(all.all[i].state, CT_CORNER_MEASURED);
            const ct_corner_query queries[] = {
                {.key = one, .per_depth = 1},
                {.key = from_place, .of = place, .per_depth = 2},
                {.key = from_place, .of = place, .per_depth = 1, .slack = 0.05},
                {.key = from_place, .of = place, .least_depth = 0.5 * depth},
                {.key = along, .of = place, .beat = -INFINITY},
                {.key = from_place, .of = place, .per_depth = 1, .beat = 1e6},
            };
            for (size_t q = 0; q < sizeof queries / sizeof *queries; q++) {
                ct_corner best[2];
                const ct_corner_found is_found = ct_corner_search_best(&all, &queries[q], &best[1]);
                assert_int_equal(ct_corner_search_best(&tree, &queries[q], &best[0]), is_found);
                if (is_found != CT_CORNER_FOUND) continue;
                const double value = value_of(&queries[q], &best[1]);
                if (queries[q].per_depth > 0 || queries[q].least_depth > 0)
                    assert_int_equal(best[0].state, CT_CORNER_MEASURED);
                assert_true(value_of(&queries[q], &best[0]) <= value);
                assert_true(value_of(&queries[q], &best[0]) >= value / (1 + queries[q].slack) - 1e-15);
                if (!(queries[q].slack > 0)) assert_memory_equal(best[0].at, best[1].at, sizeof best[0].at);
                found++;
            }
            all_corners += tree.n;
            for (size_t i = 0; i < tree.n; i++) all_measured += tree.all[i].state != CT_CORNER_UNKNOWN;
            ct_corner_search_close(&tree);
            ct_corner_search_close(&all);
        }
        close_contact(&c, is_open);
    }
    assert_true(found > 100);
    assert_true(all_measured < all_corners / 4);
}

static int open_engine(void **state) {
    (void)state;
    engine = stage_engine(1, NULL);
    return 0;
}

static int close_engine(void **state) {
    (void)state;
    ct_engine_destroy(&engine);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_queries),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}

/* test_columns.c - the points of contacts of bodies pressed flat, whose triangles lie over one another: positions and
 * depths as all triangles give them, one by one, and no more comparisons than the bound; the tree that finds clusters.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/after/columns.h"
#include "gpu/after/points.h"
#include "tests/scenes/stage.h"
#include "tests/unit/unit.h"

enum { COLUMN_TRIANGLES = 1 << 16 };

/* ---- the tree ---- */

static ct_column_box random_box(uint64_t *rng) {
    ct_column_box box;
    const double size = pow(10, shape_uniform(rng, -3, 0));
    for (int k = 0; k < 3; k++) {
        const double middle = shape_uniform(rng, -1, 1), half = size * shape_uniform(rng, 0, 1);
        box.lo[k] = middle - half;
        box.hi[k] = middle + half;
    }
    return box;
}

/* How far apart the boxes are, along the axis where that is most; below 0: they meet. */
static double gap_of(const ct_column_box *a, const ct_column_box *b) {
    double gap = -INFINITY;
    for (int k = 0; k < 3; k++) gap = fmax(gap, fmax(a->lo[k] - b->hi[k], b->lo[k] - a->hi[k]));
    return gap;
}

/* Finds what comparing all boxes finds, but for boxes that are apart by less than floats tell, in order. */
static void test_tree(void **state) {
    (void)state;
    uint64_t rng = 11;
    for (size_t n = 0; n < 1000; n = 2 * n + 1) {
        ct_column_tree tree = {0};
        ct_column_box *boxes = malloc((n + 1) * sizeof *boxes);
        for (size_t i = 0; i < n; i++) boxes[i] = random_box(&rng);
        assert_true(ct_column_tree_make(&tree, boxes, n));
        for (int round = 0; round < 20; round++) {
            ct_column_box box = random_box(&rng);
            if (round % 2) {
                box.lo[2] = -INFINITY;
                box.hi[2] = INFINITY;
            }
            ct_column_search search = ct_column_tree_find(&tree, &box);
            size_t next = 0;
            for (uint32_t found; ct_column_search_next(&search, &found); next = found + 1) {
                assert_in_range(found, next, n - 1);
                assert_true(gap_of(&boxes[found], &box) < 1e-6);
                for (; next < found; next++) assert_true(gap_of(&boxes[next], &box) > 0);
            }
            for (; next < n; next++) assert_true(gap_of(&boxes[next], &box) > 0);
            assert_true(search.visits <= 2 * n + 4 * CT_COLUMN_LEVELS);
        }
        ct_column_tree_free(&tree);
        free(boxes);
    }
}

static void test_spread(void **state) {
    (void)state;
    for (size_t n = 1; n < 300; n++) {
        bool was[300] = {false};
        size_t found = 0;
        for (size_t k = 0; k < ct_spread_end(n); k++) {
            const size_t i = ct_spread(k, n);
            if (i >= n) continue;
            assert_false(was[i]);
            was[i] = true;
            found++;
        }
        assert_int_equal(found, n);
    }
}

/* ---- points ---- */

struct hit {
    double w;
    int step, side;
};

static int by_w(const void *a, const void *b) {
    const struct hit *p = a, *q = b;
    if (p->w != q->w) return p->w < q->w ? -1 : 1;
    return (p->step > q->step) - (p->step < q->step);
}

/* The longest stretch inside both bodies along the contact's normal, through all of their triangles. */
static ct_column_span cast_through_all(const ct_columns *c, const struct shape bodies[2], double u, double v,
                                       struct hit *hits) {
    size_t n = 0;
    for (int s = 0; s < 2; s++)
        for (uint64_t t = 0; t < bodies[s].n_triangles; t++) {
            double p[3][3], area[3];
            for (int i = 0; i < 3; i++) {
                const float *x = bodies[s].positions + 3 * (size_t)bodies[s].triangles[3 * t + (size_t)i];
                for (int k = 0; k < 3; k++) {
                    p[i][k] = 0;
                    for (int j = 0; j < 3; j++) p[i][k] += c->axis[k][j] * ((double)x[j] - c->center[j]);
                }
            }
            for (int i = 0; i < 3; i++) {
                const double *a = p[(i + 1) % 3], *b = p[(i + 2) % 3];
                area[i] = (a[0] - u) * (b[1] - v) - (a[1] - v) * (b[0] - u);
            }
            const bool is_left = area[0] > 0;
            if ((area[1] > 0) != is_left || (area[2] > 0) != is_left) continue;
            assert_true(n < COLUMN_TRIANGLES);
            hits[n++] = (struct hit){(area[0] * p[0][2] + area[1] * p[1][2] + area[2] * p[2][2]) /
                                         (area[0] + area[1] + area[2]),
                                     is_left ? -1 : 1, s};
        }
    qsort(hits, n, sizeof *hits, by_w);
    ct_column_span best = {0, 0};
    int winding[2] = {0, 0};
    double began = 0;
    bool was_inside = false;
    for (size_t i = 0; i < n; i++) {
        winding[hits[i].side] += hits[i].step;
        const bool is_inside = winding[0] > 0 && winding[1] > 0;
        if (is_inside && !was_inside) began = hits[i].w;
        if (!is_inside && was_inside && hits[i].w - began > best.hi - best.lo)
            best = (ct_column_span){began, hits[i].w};
        was_inside = is_inside;
    }
    return best;
}

/* The point's middle and depth are those of the column that it is on. */
static void check_point(const ct_columns *c, const struct shape bodies[2], const ct_point *point) {
    struct hit *hits = malloc(COLUMN_TRIANGLES * sizeof *hits);
    double at[3] = {0, 0, 0};
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < 3; i++) at[k] += c->axis[k][i] * (point->position[i] - c->center[i]);
    const ct_column_span span = cast_through_all(c, bodies, at[0], at[1], hits);
    const double off = fabs(span.hi - span.lo - point->depth) + fabs(0.5 * (span.lo + span.hi) - at[2]);
    if (!(off <= 1e-6 * point->depth)) fail_msg("off by %g of %g", off, point->depth);
    free(hits);
}

/* A ball whose vertices lie anywhere in a plate, so that each triangle covers many others, in a block. Few triangles
 * are measured throughout; of 20,480 no more than the bound allows. */
static void press_flat(int level, bool is_bounded) {
    ct_engine *engine = stage_engine(1, NULL);
    struct shape ball = shape_icosphere(0.5, level), bodies[2] = {shape_box(2, 2, 1), shape_copy(&ball)};
    shape_translate(&bodies[0], 0, 0, -0.5);
    uint64_t rng = 5;
    for (uint64_t i = 0; i < 3 * bodies[1].n_vertices; i++) {
        float *x = &bodies[1].positions[i];
        *x = i % 3 == 2 ? *x * 1e-3f : (float)shape_uniform(&rng, -0.5, 0.5);
    }
    const struct placed placed[] = {{&bodies[0], NULL, 0, 0}, {&ball, NULL, CT_BODY_DEFORMABLE, 0}};
    ct_scene_settings settings = stage_resolution(8);
    struct stage stage = stage_open(engine, &settings, placed, 2);
    const ct_update update = {.body = stage.body[1],
                              .kind = CT_UPDATE_POSITIONS,
                              .positions = bodies[1].positions,
                              .dtype = CT_F32,
                              .count = ball.n_vertices};
    ct_result *r = stage_step(&stage, &update, 1, CT_WANT_FRAME | CT_WANT_FRICTION);
    assert_int_equal(r->n_contacts, 1);
    ct_error error = {0};
    uint64_t visits = 0;
    stage.scene->settings.max_points = 8;
    assert_int_equal(ct_result_add_points(stage.scene, r, &visits, &error), CT_OK);
    assert_true(r->n_points > 0);

    ct_surfaces surfaces;
    ct_columns columns;
    assert_true(ct_surfaces_open(&surfaces, stage.scene));
    assert_int_equal(ct_columns_open(&columns, &surfaces, r, &r->contacts[0], false, &error), CT_OK);
    for (uint64_t i = 0; i < r->n_points; i++) check_point(&columns, bodies, &r->points[i]);
    /* What is begun with visits to spare is ended: a corner's columns, or a triangle's crossings. */
    const uint64_t n = bodies[0].n_triangles + bodies[1].n_triangles;
    assert_in_range(columns.bound, 4096 * (n - n / 8), 4096 * n + (1 << 22));
    if (is_bounded) assert_true(visits > columns.bound); /* or the case would be none */
    if (!is_bounded) assert_true(visits < columns.bound);
    assert_true(visits <= 4 * columns.bound + 16 * 32 * n);
    ct_columns_close(&columns);
    ct_surfaces_close(&surfaces);
    ct_result_free(&r);
    stage_close(&stage);
    shape_free(&ball);
    for (int k = 0; k < 2; k++) shape_free(&bodies[k]);
    ct_engine_destroy(&engine);
}

static void test_small_flat_body(void **state) {
    (void)state;
    press_flat(2, false);
}

static void test_large_flat_body(void **state) {
    (void)state;
    if (UNIT_RACES_ONLY) skip(); /* one thread, and all of its work is counted */
    press_flat(5, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tree),
        cmocka_unit_test(test_spread),
        cmocka_unit_test(test_small_flat_body),
        cmocka_unit_test(test_large_flat_body),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

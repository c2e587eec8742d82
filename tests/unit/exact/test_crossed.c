/* test_crossed.c - sums over a cluster's crossings: the list is sorted, also where it is long or has the same crossing
 * twice, and the sums are those that additions one after the other give. */
#include <stdlib.h>
#include <string.h>

#include "gpu/methods/exact/exact_cpu.h"
#include "tests/scenes/shapes.h"
#include "tests/unit/unit.h"

enum { CLUSTER = 3, MOST = 1000 };

static ct_crossing make_crossing(uint64_t *rng, uint32_t n_triangles, uint32_t n_others) {
    ct_crossing c = {.triangle = CLUSTER * CT_CLUSTER_TRIANGLES + (uint32_t)(shape_random(rng) % n_triangles),
                     .other = UINT32_MAX - (uint32_t)(shape_random(rng) % n_others)};
    for (int i = 0; i < CT_INTEGRALS; i++) c.share.integrals.of[i] = shape_uniform(rng, -1, 1);
    c.share.near_area = shape_uniform(rng, 0, 1);
    c.share.rounding = shape_uniform(rng, 0, 1e-9);
    for (int k = 0; k < 3; k++) c.share.jump[k] = (signed char)(shape_random(rng) % 3 - 1);
    for (int k = 0; k < 3; k++) c.turn[k] = (signed char)(shape_random(rng) % 5 - 2);
    return c;
}

/* Equal ones stay in their order, which is that of their places. */
static int compare(const void *a, const void *b) {
    const ct_crossing *x = *(ct_crossing *const *)a, *y = *(ct_crossing *const *)b;
    if (x->triangle != y->triangle) return x->triangle < y->triangle ? -1 : 1;
    if (x->other != y->other) return x->other < y->other ? -1 : 1;
    return x < y ? -1 : x > y;
}

static void add(ct_crossed_triangle *sum, const ct_crossing *c) {
    for (int i = 0; i < CT_INTEGRALS; i++) sum->integrals.of[i] += c->share.integrals.of[i];
    sum->near_area += c->share.near_area;
    sum->rounding += c->share.rounding;
    for (int k = 0; k < 3; k++) sum->jump[k] += c->share.jump[k];
    for (int k = 0; k < 3; k++) sum->turn[k] += c->turn[k];
}

static void check_sums(const ct_crossed_cluster *crossed, ct_crossing *const *list, size_t n) {
    uint32_t n_crossed = 0;
    for (size_t i = 0; i < n; n_crossed++) {
        const uint32_t triangle = list[i]->triangle;
        ct_crossed_triangle sum = {.triangle = triangle - CLUSTER * CT_CLUSTER_TRIANGLES};
        for (; i < n && list[i]->triangle == triangle; i++) add(&sum, list[i]);
        assert_true(n_crossed < crossed->n);
        assert_int_equal(crossed->number[sum.triangle], n_crossed + 1);
        const ct_crossed_triangle *found = &crossed->triangles[n_crossed];
        assert_int_equal(found->triangle, sum.triangle);
        assert_memory_equal(&found->integrals, &sum.integrals, sizeof sum.integrals);
        assert_true(found->near_area == sum.near_area && found->rounding == sum.rounding);
        assert_memory_equal(found->jump, sum.jump, sizeof sum.jump);
        assert_memory_equal(found->turn, sum.turn, sizeof sum.turn);
    }
    assert_int_equal(crossed->n, n_crossed);
    uint32_t numbered = 0;
    for (uint32_t t = 0; t < CT_CLUSTER_TRIANGLES; t++) numbered += crossed->number[t] != 0;
    assert_int_equal(numbered, n_crossed);
}

/* n crossings of so many triangles with so many others. */
static void check(uint64_t *rng, size_t n, uint32_t n_triangles, uint32_t n_others) {
    static ct_crossing crossings[MOST];
    static ct_crossed_triangle triangles[CT_CLUSTER_TRIANGLES];
    ct_crossing *list[MOST], *expected[MOST];
    ct_crossed_cluster crossed = {.triangles = triangles};
    memset(triangles, 0xff, sizeof triangles); /* what memory may hold: not a number */
    for (size_t i = 0; i < n; i++) {
        crossings[i] = make_crossing(rng, n_triangles, n_others);
        list[i] = expected[i] = &crossings[i];
    }
    qsort(expected, n, sizeof *expected, compare);
    ct_sum_crossings(CLUSTER, list, n, &crossed);
    for (size_t i = 0; i < n; i++) assert_ptr_equal(list[i], expected[i]);
    check_sums(&crossed, list, n);
}

static void test_lists(void **state) {
    (void)state;
    static const size_t lengths[] = {1, 2, 3, 17, 60, 128, 254, 255};
    uint64_t rng = 5;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        check(&rng, lengths[i], 1, 1000); /* one triangle in all of them */
        check(&rng, lengths[i], 5, 3);    /* the same crossing many times */
        for (int round = 0; round < 20; round++) check(&rng, lengths[i], CT_CLUSTER_TRIANGLES, 1u << 31);
    }
}

/* Too long for keys of 64 bits with a place of eight. Only different crossings: their order is the only one. */
static void test_long_lists(void **state) {
    (void)state;
    uint64_t rng = 6;
    for (size_t n = 256; n <= MOST; n += 124) check(&rng, n, CT_CLUSTER_TRIANGLES, 1u << 31);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lists), cmocka_unit_test(test_long_lists)};
    return cmocka_run_group_tests_name("crossed", tests, NULL, NULL);
}

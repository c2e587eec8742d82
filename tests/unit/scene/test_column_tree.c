/* test_column_tree.c - the tree that finds the faces over a contact. */
#include <math.h>
#include <stdlib.h>

#include "gpu/after/column_tree.h"
#include "tests/scenes/shapes.h"
#include "tests/unit/unit.h"

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
    ct_column_tree tree = {0};
    for (size_t n = 0; n < 1000; n = 2 * n + 1) {
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
        free(boxes);
    }
    ct_column_tree_free(&tree);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

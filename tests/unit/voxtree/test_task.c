/* test_task.c - how much of a time budget is kept for a batch's answers, and how the factor of it is learned. */
#include "gpu/methods/voxtree/task.h"

#include "tests/unit/unit.h"

/* Some time is kept in any case, and more for each pair, contact and pair of groups. */
static void time_grows_with_the_load(void **state) {
    (void)state;
    const ct_voxel_answer_load none = {0};
    const ct_voxel_answer_load loads[3][2] = {{{.n_pairs = 1}, {.n_pairs = 1000}},
                                              {{.n_contacts = 1}, {.n_contacts = 1000}},
                                              {{.n_groups = 1}, {.n_groups = 1000}}};
    const double start = ct_voxel_answer_seconds(&none);
    assert_true(start > 0 && start < 40e-6);
    for (int i = 0; i < 3; i++) {
        const double once = ct_voxel_answer_seconds(&loads[i][0]) - start;
        assert_true(once > 0);
        assert_float_equal(ct_voxel_answer_seconds(&loads[i][1]) - start, 1000 * once, 1e-9);
    }
}

static double learned(double factor, int n, double took, int every, double interrupted) {
    for (int i = 1; i <= n; i++) factor = ct_voxel_learn_answer_factor(factor, i % every ? took : interrupted);
    return factor;
}

/* It comes to what batches take, from above and from below, whatever one in a hundred takes. */
static void factor_follows_most_batches(void **state) {
    (void)state;
    static const double starts[] = {0.25, 4, 64};
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 3; k++) {
            const double factor = learned(starts[k], 6000, 3, 100, i ? 1000 : 0);
            assert_true(factor > 2.9 && factor < 4.5);
        }
    const double once = ct_voxel_learn_answer_factor(1, 1e6);
    assert_true(once < 1.5 && learned(once, 200, 0.5, 1000, 0.5) < 1);
    assert_true(learned(1, 1000, 1e9, 2000, 0) < 100 && learned(1, 100000, 0, 200000, 0) > 0.1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(time_grows_with_the_load),
                                       cmocka_unit_test(factor_follows_most_batches)};
    return cmocka_run_group_tests_name("task", tests, NULL, NULL);
}

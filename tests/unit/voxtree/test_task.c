/* test_task.c - how much of a time budget is kept for a batch's answers. */
#include "gpu/voxtree/task.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(time_grows_with_the_load)};
    return cmocka_run_group_tests_name("task", tests, NULL, NULL);
}

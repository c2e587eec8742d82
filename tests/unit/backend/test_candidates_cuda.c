/* test_candidates_cuda.c - the CUDA stages with several contact candidates per pair and with a body's pair with itself,
 * on a GPU or on the shim. */
#include "tests/unit/unit.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

bool candidates_found_device(void);
bool candidates_are_right(void);

static void test_candidates(void **state) {
    (void)state;
    if (!candidates_found_device()) {
        printf("SKIPPED: this build's kernels need a GPU, and there is none\n");
        skip();
    }
    static const char *const orders[] = {"0", "85"};
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        setenv("CT_SHIM_ORDER", orders[i], 1);
        assert_true(candidates_are_right());
    }
    unsetenv("CT_SHIM_ORDER");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_candidates)};
    return cmocka_run_group_tests_name("candidates", tests, NULL, NULL);
}

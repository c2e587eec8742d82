/* test_array.c - growing arrays: what is kept, amortised growth, and sizes that no memory has. */
#include "tests/unit/unit.h"

#include <stdint.h>
#include <stdlib.h>

#include "gpu/base/array.h"

static void test_elements_survive_growth(void **state) {
    (void)state;
    double *items = NULL;
    size_t capacity = 0, grown = 0;
    enum { N = 10000 };
    for (size_t n = 0; n < N; n++) {
        const size_t before = capacity;
        assert_true(ct_array_grow(&items, &capacity, n + 1));
        assert_true(capacity > n);
        grown += capacity != before;
        items[n] = (double)n;
    }
    for (size_t n = 0; n < N; n++) assert_true(items[n] == (double)n);
    assert_true(grown < 20);
    assert_true(ct_array_grow(&items, &capacity, 5));
    assert_true(capacity >= N);
    free(items);
}

static void test_what_no_memory_has(void **state) {
    (void)state;
    uint64_t *items = NULL;
    size_t capacity = 0;
    assert_true(ct_array_grow(&items, &capacity, 3));
    items[2] = 7;
    uint64_t *const before = items;
    const size_t room = capacity;
    assert_false(ct_array_grow(&items, &capacity, SIZE_MAX / 2));
    assert_ptr_equal(items, before);
    assert_int_equal(capacity, room);
    assert_int_equal(items[2], 7);
    free(items);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elements_survive_growth),
        cmocka_unit_test(test_what_no_memory_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

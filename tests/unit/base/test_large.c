/* test_large.c - sorting, copying and filling what is large: right, and ended when the thread's work is cancelled. */
#include "gpu/base/large.h"

#include <stdlib.h>

#include "tests/scenes/shapes.h"
#include "tests/unit/unit.h"

struct row {
    uint32_t key, number;
    char rest[16];
};

static int by_key(const void *a, const void *b) {
    const struct row *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

static void rows_are_sorted(void **state) {
    (void)state;
    static const size_t sizes[] = {8, 16, 20, 24};
    uint64_t rng = 4;
    for (size_t n = 0; n < 5000; n = n * 2 + 1 + n % 3)
        for (int s = 0; s < 4; s++) {
            char *rows = malloc(n * sizes[s] + 1);
            for (size_t i = 0; i < n; i++) {
                const struct row row = {(uint32_t)(shape_random(&rng) % (n / 2 + 1)), (uint32_t)i, {(char)i}};
                memcpy(rows + i * sizes[s], &row, sizes[s]);
            }
            assert_true(ct_sort_rows(rows, n, sizes[s], by_key));
            uint64_t sum = 0;
            for (size_t i = 0; i < n; i++) {
                struct row row = {0};
                memcpy(&row, rows + i * sizes[s], sizes[s]);
                if (sizes[s] > 8) assert_int_equal(row.rest[0], (char)row.number);
                if (i) assert_true(by_key(rows + (i - 1) * sizes[s], rows + i * sizes[s]) < 0);
                sum += row.number;
            }
            assert_int_equal(sum, n ? n * (n - 1) / 2 : 0);
            free(rows);
        }
}

static void cancelled_work_ends(void **state) {
    (void)state;
    enum { N = 10000 };
    struct row *rows = calloc(N, sizeof *rows), *copy = calloc(N, sizeof *rows);
    ct_cancel cancel;
    ct_cancel_init(&cancel, 0);
    ct_cancel *before = ct_cancel_scope(&cancel);
    assert_true(ct_sort_rows(rows, N, sizeof *rows, by_key));
    assert_true(ct_copy_large(copy, rows, N * sizeof *rows) && ct_fill_large(copy, 1, N * sizeof *rows));
    ct_cancel_request(&cancel, CT_CANCEL_CALLER);
    assert_false(ct_sort_rows(rows, N, sizeof *rows, by_key));
    assert_false(ct_copy_large(copy, rows, N * sizeof *rows));
    assert_false(ct_fill_large(copy, 0, N * sizeof *rows));
    assert_int_equal(copy[0].key, 0x01010101);
    ct_cancel_scope(before);
    free(rows);
    free(copy);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_are_sorted), cmocka_unit_test(cancelled_work_ends)};
    return cmocka_run_group_tests_name("large arrays", tests, NULL, NULL);
}

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
            assert_true(ct_sort_large(rows, n, sizes[s], by_key));
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
    enum { N = 100000 };
    struct row *rows = calloc(N, sizeof *rows), *copy = calloc(N, sizeof *rows);
    ct_cancel cancel;
    ct_cancel_init(&cancel, 0);
    ct_cancel *before = ct_cancel_scope(&cancel);
    assert_true(ct_sort_large(rows, N, sizeof *rows, by_key));
    assert_true(ct_copy_large(copy, rows, N * sizeof *rows) && ct_fill_large(copy, 1, N * sizeof *rows));
    ct_cancel_request(&cancel, CT_CANCEL_CALLER);
    assert_false(ct_sort_large(rows, N, sizeof *rows, by_key));
    assert_false(ct_copy_large(copy, rows, N * sizeof *rows));
    assert_false(ct_fill_large(copy, 0, N * sizeof *rows));
    assert_int_equal(copy[N - 1].key, 0x01010101);
    ct_cancel_scope(before);
    free(rows);
    free(copy);
}

/* Wherever it is cancelled, it says so. */
static void sorts_are_cancelled_at_any_poll(void **state) {
    (void)state;
    enum { N = 100000 };
    int n_cancelled = 0;
    struct row *rows = calloc(N, sizeof *rows);
    for (uint64_t poll = 1;; poll += 1 + poll / 2, n_cancelled++) {
        uint64_t rng = poll;
        for (uint32_t i = 0; i < N; i++) rows[i] = (struct row){(uint32_t)shape_random(&rng), i, {0}};
        ct_cancel cancel;
        ct_cancel_init(&cancel, 0);
        cancel.at_poll = poll;
        ct_cancel *before = ct_cancel_scope(&cancel);
        const bool is_sorted = ct_sort_large(rows, N, sizeof *rows, by_key);
        ct_cancel_scope(before);
        if (is_sorted) break;
        assert_int_equal(ct_cancel_reason(&cancel), CT_CANCEL_CALLER);
    }
    assert_true(n_cancelled >= 8);
    free(rows);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_are_sorted), cmocka_unit_test(cancelled_work_ends),
                                       cmocka_unit_test(sorts_are_cancelled_at_any_poll)};
    return cmocka_run_group_tests_name("large arrays", tests, NULL, NULL);
}

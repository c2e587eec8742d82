/* test_sort.c - sorting as qsort does, and sorts that are cancelled. */
#include <stdlib.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/base/sort.h"
#include "tests/scenes/shapes.h"
#include "tests/unit/unit.h"

struct item {
    uint32_t key, index;
    uint64_t rest;
};

static int by_key(const void *a, const void *b) {
    const struct item *p = a, *q = b;
    return p->key < q->key ? -1 : p->key > q->key;
}

static struct item *make_items(size_t n, uint32_t n_keys) {
    uint64_t rng = n;
    struct item *items = malloc((n + 1) * sizeof *items);
    assert_non_null(items);
    for (size_t i = 0; i < n; i++)
        items[i] = (struct item){(uint32_t)(shape_random(&rng) % n_keys), (uint32_t)i, i * i};
    return items;
}

static void test_order(void **state) {
    (void)state;
    const size_t sizes[] = {0, 1, 2, 100, 4096, 4097, 12288, 100000};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (uint32_t n_keys = 1; n_keys < 2000000000; n_keys *= 1000) {
            struct item *items = make_items(sizes[s], n_keys);
            uint64_t sum = 0;
            assert_true(ct_sort(items, sizes[s], sizeof *items, by_key));
            for (size_t i = 0; i < sizes[s]; i++) {
                assert_true(items[i].rest == (uint64_t)items[i].index * items[i].index);
                if (i > 0) assert_true(items[i - 1].key <= items[i].key);
                sum += items[i].index;
            }
            assert_true(sum == sizes[s] * (sizes[s] - (sizes[s] > 0)) / 2); /* each is there once */
            free(items);
        }
}

static void test_cancelled(void **state) {
    (void)state;
    enum { N = 100000 };
    int n_cancelled = 0;
    for (uint64_t poll = 1;; poll += 1 + poll / 2, n_cancelled++) {
        struct item *items = make_items(N, N);
        ct_cancel cancel;
        ct_cancel_init(&cancel, 0);
        cancel.at_poll = poll;
        ct_cancel *const before = ct_cancel_scope(&cancel);
        const bool is_sorted = ct_sort(items, N, sizeof *items, by_key);
        ct_cancel_scope(before);
        free(items);
        if (is_sorted) break;
        assert_int_equal(ct_cancel_reason(&cancel), CT_CANCEL_CALLER);
    }
    assert_true(n_cancelled >= 8);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_order), cmocka_unit_test(test_cancelled)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_scratch.c - buffers: the budget's counts, failures that change nothing, kept and zeroed bytes. */
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/base/scratch.h"

static void fill(ct_buffer *buffer) {
    for (size_t i = 0; i < buffer->capacity; i++) ((unsigned char *)buffer->data)[i] = (unsigned char)(i % 251 + 1);
}

static void assert_filled(const ct_buffer *buffer, size_t n) {
    for (size_t i = 0; i < n; i++) assert_int_equal(((unsigned char *)buffer->data)[i], i % 251 + 1);
}

static void test_books(void **state) {
    (void)state;
    ct_budget budget = {0};
    ct_buffer a = {0}, b = {0};
    size_t held = 0, peak = 0;
    for (size_t bytes = 1; bytes < 100000; bytes = bytes * 3 + 1) {
        size_t a_before = a.capacity, b_before = b.capacity;
        assert_true(ct_buffer_reserve(&a, &budget, bytes, 0, false));
        if (held + a.capacity > peak && a.capacity != a_before) peak = held + a.capacity; /* old and new for a moment */
        held += a.capacity - a_before;
        assert_true(ct_buffer_reserve(&b, &budget, 2 * bytes, 0, false));
        if (held + b.capacity > peak && b.capacity != b_before) peak = held + b.capacity;
        held += b.capacity - b_before;
        assert_true(a.capacity >= bytes && b.capacity >= 2 * bytes);
        assert_int_equal((uintptr_t)a.data % 64, 0);
        assert_int_equal(budget.used, a.capacity + b.capacity);
        assert_int_equal(budget.used, held);
        assert_int_equal(budget.peak, peak);
    }
    ct_buffer_free(&a, &budget);
    assert_null(a.data);
    assert_int_equal(a.capacity, 0);
    assert_int_equal(budget.used, b.capacity);
    ct_buffer_free(&a, &budget); /* twice is harmless */
    ct_buffer_free(&b, &budget);
    assert_int_equal(budget.used, 0);
    assert_int_equal(budget.peak, peak);
}

static void test_enough_is_left_alone(void **state) {
    (void)state;
    ct_budget budget = {0};
    ct_buffer a = {0};
    assert_true(ct_buffer_reserve(&a, &budget, 0, 0, true));
    assert_null(a.data);
    assert_true(ct_buffer_reserve(&a, &budget, 1000, 0, false));
    fill(&a);
    void *data = a.data;
    size_t capacity = a.capacity;
    assert_true(ct_buffer_reserve(&a, &budget, capacity, 0, true)); /* zero means: if it has to be replaced */
    assert_ptr_equal(a.data, data);
    assert_filled(&a, capacity);
    assert_true(ct_buffer_reserve(&a, &budget, capacity + 1, 0, false));
    assert_true(a.capacity > capacity);
    ct_buffer_free(&a, &budget);
}

static void test_kept_and_zero(void **state) {
    (void)state;
    ct_budget budget = {0};
    const size_t kept[] = {0, 1, 63, 500};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        for (int zero = 0; zero < 2; zero++) {
            ct_buffer a = {0};
            assert_true(ct_buffer_reserve(&a, &budget, 500, 0, false));
            fill(&a);
            assert_true(ct_buffer_reserve(&a, &budget, 5000, kept[i], zero));
            assert_filled(&a, kept[i]);
            if (zero)
                for (size_t k = kept[i]; k < a.capacity; k++) assert_int_equal(((char *)a.data)[k], 0);
            ct_buffer_free(&a, &budget);
        }
    assert_int_equal(budget.used, 0);
}

static void test_limit(void **state) {
    (void)state;
    ct_budget budget = {.limit = 4096};
    ct_buffer a = {0}, b = {0};
    assert_true(ct_buffer_reserve(&a, &budget, 1000, 0, false));
    fill(&a);
    ct_buffer before = a;
    size_t used = budget.used, peak = budget.peak;
    assert_false(ct_buffer_reserve(&a, &budget, 4000, before.capacity, false));
    assert_ptr_equal(a.data, before.data);
    assert_int_equal(a.capacity, before.capacity);
    assert_filled(&a, a.capacity);
    assert_int_equal(budget.used, used);
    assert_int_equal(budget.peak, peak); /* a failed reservation does not raise the peak */
    assert_false(ct_buffer_reserve(&b, &budget, SIZE_MAX, 0, false));
    assert_false(ct_buffer_reserve(&b, &budget, SIZE_MAX / 2 + 2, 0, false));
    assert_null(b.data);
    assert_int_equal(budget.used, used);
    /* Where the room to grow does not fit, the bare need does. */
    size_t left = budget.limit - used;
    assert_true(ct_buffer_reserve(&b, &budget, left / 64 * 64, 0, false));
    assert_int_equal(budget.used, used + left / 64 * 64);
    assert_true(budget.peak <= budget.limit);
    ct_buffer_free(&a, &budget);
    ct_buffer_free(&b, &budget);
    assert_int_equal(budget.used, 0);
}

/* Sizes around those from which on memory is asked for in huge pages. */
static void test_large(void **state) {
    (void)state;
    const size_t huge = (size_t)1 << 21, sizes[] = {0, 1, 64, huge - 1, huge, huge + 1, 5 * huge / 2};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *data = ct_scratch_new(sizes[i]);
        assert_non_null(data);
        assert_int_equal((uintptr_t)data % 64, 0);
        memset(data, 7, sizes[i]);
        if (sizes[i]) assert_int_equal(data[0] + data[sizes[i] - 1], 14);
        free(data);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_books), cmocka_unit_test(test_enough_is_left_alone),
                                       cmocka_unit_test(test_kept_and_zero), cmocka_unit_test(test_limit),
                                       cmocka_unit_test(test_large)};
    return cmocka_run_group_tests_name("scratch", tests, NULL, NULL);
}

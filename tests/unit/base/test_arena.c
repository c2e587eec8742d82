/* test_arena.c - arenas: alignment, growth, what a reset keeps, an exhausted budget, and bytes counted and released. */
#include "tests/unit/unit.h"

#include <string.h>

#include "gpu/base/arena.h"

/* Of `bytes` bytes, all with the value `fill`. */
struct allocation {
    unsigned char *data;
    size_t bytes;
    unsigned char fill;
};

static struct allocation allocate(ct_arena *arena, ct_budget *budget, size_t bytes, unsigned char fill) {
    struct allocation a = {ct_arena_alloc(arena, budget, bytes), bytes, fill};
    if (a.data) memset(a.data, fill, bytes);
    return a;
}

static void assert_intact(const struct allocation *a) {
    for (size_t i = 0; i < a->bytes; i++) assert_int_equal(a->data[i], a->fill);
}

static void test_alignment_and_growth(void **state) {
    (void)state;
    enum { N = 200 };
    ct_budget budget = {0};
    ct_arena arena = {0};
    struct allocation all[N];
    size_t total = 0;
    for (size_t i = 0; i < N; i++) {
        all[i] = allocate(&arena, &budget, 1 + i * i, (unsigned char)i);
        assert_non_null(all[i].data);
        assert_int_equal((uintptr_t)all[i].data % 64, 0);
        total += all[i].bytes;
        assert_true(budget.used >= total);
    }
    for (size_t i = 0; i < N; i++) assert_intact(&all[i]); /* allocations do not overlap, and growth moves none */
    ct_arena_free(&arena, &budget);
    assert_int_equal(budget.used, 0);
    assert_true(budget.peak >= total);
}

static void test_reset_keeps_one_block_for_everything(void **state) {
    (void)state;
    ct_budget budget = {0};
    ct_arena arena = {0};
    ct_arena_reset(&arena, &budget); /* of an empty arena */
    assert_int_equal(budget.used, 0);
    const size_t sizes[] = {100, 20000, 5, 300000, 70000};
    enum { N = sizeof sizes / sizeof *sizes };
    for (int k = 0; k < N; k++) assert_non_null(ct_arena_alloc(&arena, &budget, sizes[k]));
    ct_arena_reset(&arena, &budget);
    const size_t kept = budget.used;
    assert_true(kept >= 100 + 20000 + 5 + 300000 + 70000);
    for (int round = 0; round < 3; round++) { /* the same allocations fit the kept block, in any order */
        for (int k = 0; k < N; k++) assert_non_null(ct_arena_alloc(&arena, &budget, sizes[(k + round) % N]));
        assert_int_equal(budget.used, kept);
        ct_arena_reset(&arena, &budget);
        assert_int_equal(budget.used, kept);
    }
    ct_arena_free(&arena, &budget);
    assert_int_equal(budget.used, 0);
}

static void test_budget_exhausted(void **state) {
    (void)state;
    ct_budget budget = {.limit = 100000};
    ct_arena arena = {0};
    struct allocation small = allocate(&arena, &budget, 1000, 1), large = allocate(&arena, &budget, 50000, 2);
    assert_non_null(small.data);
    assert_non_null(large.data);
    const size_t used = budget.used;
    assert_null(ct_arena_alloc(&arena, &budget, 100000));
    assert_null(ct_arena_alloc(&arena, &budget, SIZE_MAX));
    assert_int_equal(budget.used, used); /* a failure counts nothing */
    /* Twice the last block exceeds the budget, so the next block is as large as the allocation. */
    struct allocation last = allocate(&arena, &budget, 20000, 3);
    assert_non_null(last.data);
    assert_true(budget.used - used < 20000 + 200);
    assert_true(budget.used <= budget.limit);
    assert_intact(&small);
    assert_intact(&large);
    ct_arena_free(&arena, &budget);
    assert_int_equal(budget.used, 0);
}

static void test_free_and_use_again(void **state) {
    (void)state;
    ct_budget budget = {0};
    ct_arena arena = {0};
    for (int round = 0; round < 2; round++) {
        assert_non_null(ct_arena_alloc(&arena, &budget, 0));
        assert_non_null(ct_arena_alloc(&arena, &budget, 40000));
        assert_true(budget.used > 40000);
        ct_arena_free(&arena, &budget);
        assert_int_equal(budget.used, 0);
        assert_null(arena.blocks);
        ct_arena_free(&arena, &budget); /* of an empty arena */
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alignment_and_growth), cmocka_unit_test(test_reset_keeps_one_block_for_everything),
        cmocka_unit_test(test_budget_exhausted), cmocka_unit_test(test_free_and_use_again)};
    return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}

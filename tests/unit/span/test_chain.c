/* test_chain.c - sorting a ray's linked list of fragments in place: all lengths, many ties, any initial order. */
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/methods/ldi/chain_k.h"
#include "tests/scenes/shapes.h"

enum { MOST = 3000 };

static int in_order(const void *a, const void *b) {
    const ct_fragment *x = a, *y = b;
    return ct_fragment_before(x, y) ? -1 : ct_fragment_before(y, x);
}

/* n fragments of a ray among those of others, keys below `keys`. */
static void sort_one(uint64_t *rng, uint32_t n, uint32_t keys) {
    static ct_fragment fragments[2 * MOST + 2], expected[MOST];
    static uint32_t next[2 * MOST + 2];
    uint32_t head = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = 2 * i + (uint32_t)shape_random(rng) % 2;
        fragments[at] = (ct_fragment){.key = (uint32_t)shape_random(rng) % keys,
                                      .l1 = (uint32_t)shape_random(rng) % 3,
                                      .l2 = (uint32_t)shape_random(rng) % 2,
                                      .tag = i};
        expected[i] = fragments[at];
        next[at] = head;
        head = at + 1;
    }
    if (n) qsort(expected, n, sizeof *expected, in_order);
    uint32_t link = ct_chain_sort(fragments, next, head);
    for (uint32_t i = 0; i < n; i++, link = next[link - 1]) {
        assert_true(link > 0);
        assert_same_bytes(&fragments[link - 1], &expected[i], sizeof *expected);
    }
    assert_int_equal(link, 0);
}

static void test_all_lengths(void **state) {
    (void)state;
    uint64_t rng = 4;
    for (uint32_t n = 0; n < 140; n++)
        for (uint32_t keys = 1; keys < 2000; keys = 12 * keys + 1) sort_one(&rng, n, keys);
    sort_one(&rng, MOST, 5);
    sort_one(&rng, MOST, UINT32_MAX);
    sort_one(&rng, 2048, 100000);
    sort_one(&rng, 2049, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_lengths)};
    return cmocka_run_group_tests_name("chains", tests, NULL, NULL);
}

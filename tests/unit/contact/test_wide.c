/* test_wide.c - the conversion of 128-bit sums to double, against the compiler's own. */
#include "tests/unit/unit.h"

#include "gpu/contact/frame_k.h"
#include "tests/scenes/shapes.h"

static void check(ct_wide x) {
    assert_true(ct_wide_to_double(x) == (double)x);
    assert_true(ct_wide_to_double(-x) == -(double)x);
}

static void test_random(void **state) {
    (void)state;
    uint64_t rng = 1;
    for (int i = 0; i < 100000; i++) {
        unsigned __int128 bits = (unsigned __int128)shape_random(&rng) << 64 | shape_random(&rng);
        bits >>= 1 + shape_random(&rng) % 127;
        if (i % 3 == 0) bits &= ~(unsigned __int128)0 << shape_random(&rng) % 100; /* ties */
        if (i % 7 == 0) bits |= 1;
        check((ct_wide)bits);
    }
}

/* Around every power of two and the halves between two doubles. */
static void test_edges(void **state) {
    (void)state;
    for (int k = 0; k < 126; k++)
        for (int d = -3; d <= 3; d++) {
            check(((ct_wide)1 << k) + d);
            if (k >= 54) check(((ct_wide)1 << k) + ((ct_wide)1 << (k - 53)) + d);
            if (k >= 54) check(((ct_wide)1 << k) + ((ct_wide)3 << (k - 53)) + d);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random), cmocka_unit_test(test_edges)};
    return cmocka_run_group_tests_name("wide sums", tests, NULL, NULL);
}

/* Shares of principals: both rules, weights, and what happens at the edges. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/guard/shares.h"

static identity who(uint32_t principal, uint32_t weight, uint32_t others) {
    return (identity){.principal = principal, .weight = weight, .others_weight = others};
}

/* Takes one at a time until refused. Returns how many there are then. */
static uint64_t fill(shares *shares, identity one, bool (*allow)(const struct shares *, const identity *, uint64_t)) {
    assert_true(shares_know(shares, &one));
    while (allow(shares, &one, 1)) shares_take(shares, one.principal, 1);
    return one.principal ? shares_used(shares, one.principal) : shares->used;
}

static void the_only_principal_has_all(void **state) {
    (void)state;
    shares shares;
    shares_init(&shares, 100);
    assert_int_equal(fill(&shares, who(1, 1, 0), shares_allow), 100);
    shares_give(&shares, 1, 100);
    assert_int_equal(fill(&shares, who(1, 1, 0), shares_allow_held), 100);
    assert_int_equal(shares_most(&shares, &(identity){.principal = 1}), 100);
    shares_free(&shares);
    shares_init(&shares, 100);
    assert_int_equal(fill(&shares, who(0, 0, 0), shares_allow), 100);
    shares_free(&shares);
}

static void a_flood_leaves_half(void **state) {
    (void)state;
    shares shares;
    shares_init(&shares, 100);
    assert_int_equal(fill(&shares, who(1, 1, 1), shares_allow), 50);
    assert_int_equal(fill(&shares, who(2, 1, 1), shares_allow), 50);
    identity third = who(3, 1, 1);
    assert_true(shares_know(&shares, &third));
    assert_false(shares_allow(&shares, &third, 1)); /* full: the first two must give back */
    shares_give(&shares, 1, 20);
    assert_int_equal(shares_part(&shares, &third), 33);
    assert_false(shares_allow(&shares, &(identity){.principal = 1, .others_weight = 1}, 21)); /* above the limit */
    assert_int_equal(fill(&shares, third, shares_allow), 20);
    assert_int_equal(shares.n_busy, 3);
    shares_give(&shares, 1, 30);
    shares_give(&shares, 2, 50);
    shares_give(&shares, 3, 20);
    assert_int_equal(shares.n_busy, 0);
    assert_int_equal(shares.busy_weight, 0);
    assert_int_equal(shares.used, 0);
    shares_free(&shares);
}

static void weights_divide_the_limit(void **state) {
    (void)state;
    shares shares;
    shares_init(&shares, 1000);
    identity light = who(1, 1, 3), heavy = who(2, 3, 1);
    assert_true(shares_know(&shares, &light) && shares_know(&shares, &heavy));
    shares_take(&shares, 1, 1);
    shares_take(&shares, 2, 1);
    assert_int_equal(fill(&shares, heavy, shares_allow), 750);
    assert_int_equal(fill(&shares, light, shares_allow), 250);
    /* A weight that changes while any is used counts from the next request on. */
    light.weight = 3;
    assert_true(shares_know(&shares, &light));
    assert_int_equal(shares_part(&shares, &light), 500);
    shares_give(&shares, 1, 250);
    shares_give(&shares, 2, 750);
    assert_int_equal(shares.busy_weight, 0);
    shares_free(&shares);
}

static void one_large_request_fits_alone(void **state) {
    (void)state;
    shares shares;
    shares_init(&shares, 100);
    identity a = who(1, 1, 9);
    assert_true(shares_know(&shares, &a));
    assert_true(shares_allow(&shares, &a, 100));
    assert_false(shares_allow(&shares, &a, 101));
    shares_take(&shares, 1, 80);
    assert_false(shares_allow(&shares, &a, 1));
    shares_free(&shares);
}

/* Three principals of weights 1, 1, 2: 125, 125 and 250 of 1000 are kept, 500 are first come, first served. */
static void what_is_kept_is_always_there(void **state) {
    (void)state;
    shares shares;
    shares_init(&shares, 1000);
    identity a = who(1, 1, 3), b = who(2, 1, 3), c = who(3, 2, 2);
    assert_int_equal(fill(&shares, a, shares_allow_held), 625);
    assert_int_equal(shares_most(&shares, &a), 625);
    assert_true(shares_exceeds_kept(&shares, 1));
    assert_int_equal(fill(&shares, b, shares_allow_held), 125);
    assert_false(shares_exceeds_kept(&shares, 2));
    assert_int_equal(fill(&shares, c, shares_allow_held), 250);
    assert_int_equal(shares.used, 1000);
    shares_give(&shares, 1, 100);
    assert_int_equal(fill(&shares, b, shares_allow_held), 225);
    assert_false(shares_allow_held(&shares, &(identity){.principal = 0}, 1));
    shares_free(&shares);
}

static void use_without_principal_takes_none_of_what_is_kept(void **state) {
    (void)state;
    shares shares;
    shares_init(&shares, 100);
    identity a = who(1, 1, 1);
    shares_take(&shares, 0, 50);
    assert_int_equal(fill(&shares, a, shares_allow_held), 25);
    shares_free(&shares);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_only_principal_has_all),
        cmocka_unit_test(a_flood_leaves_half),
        cmocka_unit_test(weights_divide_the_limit),
        cmocka_unit_test(one_large_request_fits_alone),
        cmocka_unit_test(what_is_kept_is_always_there),
        cmocka_unit_test(use_without_principal_takes_none_of_what_is_kept),
    };
    return cmocka_run_group_tests_name("shares", tests, NULL, NULL);
}

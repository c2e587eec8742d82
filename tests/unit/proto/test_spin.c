/* test_spin.c - how long waits spin: never beyond the bound, and not while they are long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proto/spin.h"

enum { BOUND_US = 300, BOUND = BOUND_US * 1000, QUICK = BOUND, LONG = BOUND + 1 };

static wire_spin new_spin(void) {
    wire_spin spin;
    wire_spin_init(&spin, BOUND_US);
    return spin;
}

static void quick_waits_go_on_spinning(void **state) {
    (void)state;
    wire_spin spin = new_spin();
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(wire_spin_begin(&spin), BOUND);
        wire_spin_end(&spin, QUICK);
    }
}

/* How many of n waits spin that each take so long. */
static int spinning(wire_spin *spin, int n, uint64_t waited_ns) {
    int spun = 0;
    for (int i = 0; i < n; i++) {
        spun += wire_spin_begin(spin) > 0;
        wire_spin_end(spin, waited_ns);
    }
    return spun;
}

static void long_waits_stop_it_but_for_a_try_now_and_then(void **state) {
    (void)state;
    wire_spin spin = new_spin();
    spinning(&spin, 100, QUICK);
    assert_in_range(spinning(&spin, 2000, LONG), 8, 12);
    assert_in_range(spinning(&spin, 10000, LONG), 5, 10); /* 1,024 waits lie between two tries */
}

static void one_long_wait_among_quick_ones_costs_one_more(void **state) {
    (void)state;
    wire_spin spin = new_spin();
    for (int i = 0; i < 100; i++) {
        assert_int_equal(spinning(&spin, 1, LONG), 1);
        assert_int_equal(spinning(&spin, 10, QUICK), 9);
    }
}

static void a_quick_wait_begins_it_again(void **state) {
    (void)state;
    wire_spin spin = new_spin();
    spinning(&spin, 3000, LONG);
    spinning(&spin, 1025, QUICK); /* the next try is among these */
    assert_int_equal(spinning(&spin, 100, QUICK), 100);
}

/* Where many want the cores, waits that sleep are short, and those that spin are long. */
static void quick_waits_asleep_are_no_reason_to_spin(void **state) {
    (void)state;
    wire_spin spin = new_spin();
    int spun = 0;
    for (int i = 0; i < 10000; i++) {
        bool spins = wire_spin_begin(&spin) > 0;
        spun += spins;
        wire_spin_end(&spin, spins ? LONG : QUICK);
    }
    assert_in_range(spun, 10, 30);
}

/* n waits of which those that spin and those that sleep take so long each; how many spin. */
static int spinning_among(wire_spin *spin, int n, uint64_t spun_ns, uint64_t slept_ns) {
    int spun = 0;
    for (int i = 0; i < n; i++) {
        bool spins = wire_spin_begin(spin) > 0;
        spun += spins;
        wire_spin_end(spin, spins ? spun_ns : slept_ns);
    }
    return spun;
}

/* Others want the cores, but not so much that waits that spin would take longer than the bound. */
static void waits_longer_than_those_asleep_are_in_vain(void **state) {
    (void)state;
    wire_spin spin = new_spin();
    spinning_among(&spin, 2, LONG, BOUND / 10); /* so that one sleeps */
    assert_in_range(spinning_among(&spin, 10000, BOUND - 1, BOUND / 10), 10, 30);
}

/* Both sides sleep, and each is slow because the other one does. */
static void waits_asleep_that_are_slow_lead_out_of_it(void **state) {
    (void)state;
    wire_spin spin = new_spin();
    spinning(&spin, 3000, LONG);
    spinning_among(&spin, 1025, BOUND - 1, 2 * BOUND); /* the next try is among these */
    assert_int_equal(spinning_among(&spin, 100, BOUND - 1, 2 * BOUND), 100);
}

static void never_where_told_so(void **state) {
    (void)state;
    wire_spin spin;
    wire_spin_init(&spin, 0);
    for (int i = 0; i < 200; i++) {
        assert_int_equal(wire_spin_begin(&spin), 0);
        wire_spin_end(&spin, 0);
    }
}

static void on_one_core_as_on_many(void **state) {
    (void)state;
    wire_spin spin;
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && !CPU_COUNT(&one); i++)
        if (CPU_ISSET(i, &before)) CPU_SET(i, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    wire_spin_init(&spin, BOUND_US);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_int_equal(wire_spin_begin(&spin), BOUND);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quick_waits_go_on_spinning),
        cmocka_unit_test(long_waits_stop_it_but_for_a_try_now_and_then),
        cmocka_unit_test(one_long_wait_among_quick_ones_costs_one_more),
        cmocka_unit_test(a_quick_wait_begins_it_again),
        cmocka_unit_test(quick_waits_asleep_are_no_reason_to_spin),
        cmocka_unit_test(waits_longer_than_those_asleep_are_in_vain),
        cmocka_unit_test(waits_asleep_that_are_slow_lead_out_of_it),
        cmocka_unit_test(never_where_told_so),
        cmocka_unit_test(on_one_core_as_on_many),
    };
    return cmocka_run_group_tests_name("spin", tests, NULL, NULL);
}

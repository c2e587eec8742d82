/* test_waiting.c - what the C client does while it waits for an answer: it looks for it awake where answers are quick,
 * sleeps where they are not or where it was told to, ends in time either way, and does nothing between calls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <time.h>

#include "client_c/contactd.h"
#include "proto/spin.h"
#include "tests/unit/client_c/fake_server.h"

static double seconds_of(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static contactd_client *connect_to(const fake_server *server, uint32_t spin_us) {
    contactd_options options;
    contactd_options_init(&options);
    options.server = server->endpoint;
    options.spin_us = spin_us;
    contactd_client *client;
    contactd_error error;
    if (contactd_connect(&options, &client, &error)) fail_msg("%s: %s", error.field, error.message);
    return client;
}

static int set_up(void **state) {
    return (*state = fake_start()) ? 0 : -1;
}
static int tear_down(void **state) {
    fake_stop(*state);
    return 0;
}

/* Processor time of this thread over n pings that each take ms, as a share of the time that passed. */
static double busy_share(contactd_client *client, fake_server *server, int n, int ms) {
    for (int i = 0; i < 10; i++) assert_int_equal(contactd_ping(client, NULL), CONTACTD_OK);
    atomic_store(&server->slow_ms, ms);
    double began = seconds_of(CLOCK_MONOTONIC), cpu = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    for (int i = 0; i < n; i++) assert_int_equal(contactd_ping(client, NULL), CONTACTD_OK);
    cpu = seconds_of(CLOCK_THREAD_CPUTIME_ID) - cpu;
    atomic_store(&server->slow_ms, 0);
    return cpu / (seconds_of(CLOCK_MONOTONIC) - began);
}

static void answers_within_the_bound_are_waited_for_awake(void **state) {
    wire_spin cores;
    wire_spin_init(&cores, 1);
    if (!cores.bound_ns) skip(); /* one core */
    contactd_client *client = connect_to(*state, 1000000);
    contactd_client *asleep = connect_to(*state, 0);
    /* It is nearly all of the time but where others keep the cores from us, so it is set against one that sleeps. */
    bool awake = false;
    for (int i = 0; i < 20 && !awake; i++)
        awake = busy_share(client, *state, 20, 5) > 3 * busy_share(asleep, *state, 20, 5);
    assert_true(awake);
    contactd_close(&client);
    contactd_close(&asleep);
}

static void longer_answers_are_slept_for(void **state) {
    contactd_client *client = connect_to(*state, 2000);
    /* Awake, 2 of 10 ms would be a fifth. */
    assert_true(busy_share(client, *state, 40, 10) < 0.08);
    contactd_close(&client);
}

static void told_to_it_sleeps_at_once(void **state) {
    contactd_client *client = connect_to(*state, 0);
    assert_true(busy_share(client, *state, 20, 5) < 0.1);
    contactd_close(&client);
}

static void a_call_ends_in_time_awake_or_asleep(void **state) {
    enum { TIMEOUT_MS = 30 };
    fake_server *server = *state;
    const uint32_t spins[] = {0, 500, 1000000};
    for (int k = 0; k < 3; k++) {
        contactd_client *client = connect_to(server, spins[k]);
        for (int i = 0; i < 10; i++) assert_int_equal(contactd_ping(client, NULL), CONTACTD_OK);
        assert_int_equal(contactd_set_timeout(client, TIMEOUT_MS), CONTACTD_OK);
        atomic_store(&server->silent, true);
        const double allowed = spins[k] > TIMEOUT_MS * 1000 ? 900e-6 : 5e-3; /* asleep it counts in ms */
        double least = 1;
        for (int i = 0; i < 40 && least > allowed; i++) { /* others may keep the cores from us: the best of a few */
            double began = seconds_of(CLOCK_MONOTONIC);
            assert_int_equal(contactd_ping(client, NULL), CONTACTD_DEADLINE_EXCEEDED);
            double took = seconds_of(CLOCK_MONOTONIC) - began;
            assert_true(took >= TIMEOUT_MS * 1e-3);
            least = fmin(least, took - TIMEOUT_MS * 1e-3);
        }
        assert_true(least <= allowed);
        atomic_store(&server->silent, false);
        contactd_close(&client);
    }
}

static void between_calls_nothing_runs(void **state) {
    contactd_client *client = connect_to(*state, 1000000);
    for (int i = 0; i < 20; i++) assert_int_equal(contactd_ping(client, NULL), CONTACTD_OK);
    double cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID); /* ZeroMQ's threads and the server here included */
    nanosleep(&(struct timespec){1, 0}, NULL);
    assert_true(seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu < 0.05);
    contactd_close(&client);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(answers_within_the_bound_are_waited_for_awake),
        TEST(longer_answers_are_slept_for),
        TEST(told_to_it_sleeps_at_once),
        TEST(a_call_ends_in_time_awake_or_asleep),
        TEST(between_calls_nothing_runs),
    };
    return cmocka_run_group_tests_name("waiting", tests, NULL, NULL);
}

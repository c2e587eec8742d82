/* test_waiting.c - what the C client does while it waits for an answer: it looks for it awake where answers are quick,
 * sleeps where they are not or where it was told to, ends in time either way, and does nothing between calls.
 *
 * What it does is counted, not timed, since times tell more of how busy the machine is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <math.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "client_c/client.h"
#include "tests/unit/client_c/fake_server.h"

/* ---- what a thread does, seen: these functions stand before the C library's and ZeroMQ's ---- */

static _Thread_local struct {
    unsigned yields, sleeps; /* turns given away; receives that would wait */
    /* The server answers only once this many of the one or of the other are seen; 0: never for that. */
    unsigned enough_yields, enough_sleeps;
    atomic_bool *held;
    /* Time of the thread's own, in which nothing but what it does takes time, and no message comes while it sleeps. */
    bool own_time;
    uint64_t now_ns;
    /* From the socket's monitor the thread learns that the connection was lost, and at a later look that it is back. */
    void *monitor;
    unsigned looks;
    bool is_lost;
    unsigned sent, sent_while_lost; /* frames */
} seen;

static void let_the_server_answer(unsigned n, unsigned enough) {
    if (seen.held && n == enough) atomic_store(seen.held, false);
}

int sched_yield(void) {
    let_the_server_answer(++seen.yields, seen.enough_yields);
    seen.now_ns += 10000;
    return seen.own_time ? 0 : (int)syscall(SYS_sched_yield);
}

static int tell(zmq_msg_t *message, uint16_t event) {
    zmq_msg_close(message);
    zmq_msg_init_size(message, sizeof event + sizeof(uint32_t));
    memset(zmq_msg_data(message), 0, sizeof event + sizeof(uint32_t));
    memcpy(zmq_msg_data(message), &event, sizeof event);
    return (int)zmq_msg_size(message);
}

static int (*real_send)(zmq_msg_t *, void *, int);
int zmq_msg_send(zmq_msg_t *message, void *socket, int flags) {
    seen.sent++;
    seen.sent_while_lost += seen.is_lost;
    return real_send(message, socket, flags);
}

static int (*real_receive)(zmq_msg_t *, void *, int);
int zmq_msg_recv(zmq_msg_t *message, void *socket, int flags) {
    if (seen.monitor && socket == seen.monitor) {
        seen.looks++;
        if (seen.looks == 1 || seen.looks == 7) {
            seen.is_lost = seen.looks == 1;
            return tell(message, seen.is_lost ? ZMQ_EVENT_DISCONNECTED : ZMQ_EVENT_HANDSHAKE_SUCCEEDED);
        }
    }
    if (flags & ZMQ_DONTWAIT) return real_receive(message, socket, flags);
    let_the_server_answer(++seen.sleeps, seen.enough_sleeps);
    int timeout_ms;
    if (!seen.own_time || zmq_getsockopt(socket, ZMQ_RCVTIMEO, &timeout_ms, &(size_t){sizeof timeout_ms}))
        return real_receive(message, socket, flags);
    if (timeout_ms < 0) fail_msg("the client sleeps without an end");
    seen.now_ns += (uint64_t)timeout_ms * 1000000u;
    errno = EAGAIN;
    return -1;
}

int clock_gettime(clockid_t clock, struct timespec *t) {
    if (!seen.own_time) return (int)syscall(SYS_clock_gettime, clock, t);
    seen.now_ns += 100;
    *t = (struct timespec){(time_t)(seen.now_ns / 1000000000u), (long)(seen.now_ns % 1000000000u)};
    return 0;
}

/* ---- */

static contactd_client *connect_to(const fake_server *server, uint32_t spin_us) {
    contactd_options options;
    contactd_options_init(&options);
    options.server = server->endpoint;
    options.spin_us = spin_us;
    options.timeout_ms = 60000;
    contactd_client *client;
    contactd_error error;
    if (contactd_connect(&options, &client, &error)) fail_msg("%s: %s", error.field, error.message);
    return client;
}

static int set_up(void **state) {
    memset(&seen, 0, sizeof seen);
    return (*state = fake_start()) ? 0 : -1;
}
static int tear_down(void **state) {
    memset(&seen, 0, sizeof seen);
    fake_stop(*state);
    return 0;
}

/* A ping that is answered once the client gave so many turns away, or once it slept so many times. */
static void ping_held(contactd_client *client, fake_server *server, unsigned yields, unsigned sleeps) {
    seen.yields = seen.sleeps = 0;
    seen.enough_yields = yields;
    seen.enough_sleeps = sleeps;
    seen.held = &server->held;
    atomic_store(&server->held, true);
    assert_int_equal(contactd_ping(client, NULL), CONTACTD_OK);
}

static void answers_within_the_bound_are_waited_for_awake(void **state) {
    contactd_client *client = connect_to(*state, UINT32_MAX); /* more than an hour: no machine is that busy */
    for (int i = 0; i < 20; i++) {
        ping_held(client, *state, 3, 0);
        assert_true(seen.yields >= 3);
        assert_int_equal(seen.sleeps, 0);
    }
    contactd_close(&client);
}

/* Every answer comes when the client has fallen asleep. It waits awake for the bound first, but after the first such
 * wait in vain not for 1, then for 2, 4, 8 and 16 waits. */
static void longer_answers_are_slept_for(void **state) {
    enum { BOUND_US = 500, WAITS = 40 };
    contactd_client *client = connect_to(*state, BOUND_US);
    wire_spin_init(&client->spin, BOUND_US); /* whatever it learnt from the answer to its greeting */
    for (int i = 0, awake = 0, pause = 1; i < WAITS; i++) {
        ping_held(client, *state, 0, 1);
        assert_true(seen.sleeps > 0);
        if (i == awake) {
            assert_true(seen.yields > 0);
            awake = i + 1 + pause;
            pause *= 2;
        } else {
            assert_int_equal(seen.yields, 0);
        }
    }
    contactd_close(&client);
}

static void told_to_it_sleeps_at_once(void **state) {
    contactd_client *client = connect_to(*state, 0);
    for (int i = 0; i < 20; i++) {
        ping_held(client, *state, 0, 1);
        assert_true(seen.sleeps > 0);
        assert_int_equal(seen.yields, 0);
    }
    contactd_close(&client);
}

/* In the client's own time: asleep it counts in ms, awake to its last look. */
static void a_call_ends_in_time_awake_or_asleep(void **state) {
    enum { TIMEOUT_MS = 30 };
    fake_server *server = *state;
    const uint32_t spins[] = {0, 500, 1000000};
    for (int k = 0; k < 3; k++) {
        contactd_client *client = connect_to(server, spins[k]);
        const bool awake = client->spin.bound_ns > TIMEOUT_MS * 1000000u;
        wire_spin_init(&client->spin, spins[k]);
        assert_int_equal(contactd_set_timeout(client, TIMEOUT_MS), CONTACTD_OK);
        atomic_store(&server->silent, true);
        for (int i = 0; i < 5; i++) {
            seen.own_time = true;
            uint64_t began = seen.now_ns;
            contactd_code code = contactd_ping(client, NULL);
            uint64_t took_us = (seen.now_ns - began) / 1000u;
            seen.own_time = false;
            assert_int_equal(code, CONTACTD_DEADLINE_EXCEEDED);
            assert_in_range(took_us, TIMEOUT_MS * 1000, TIMEOUT_MS * 1000 + (awake ? 20 : 1050));
        }
        atomic_store(&server->silent, false);
        contactd_close(&client);
    }
}

static void the_zmq_thread_is_batch_while_the_client_spins(void **state) {
    contactd_client *client = connect_to(*state, UINT32_MAX);
    const int32_t thread = client->zmq_thread.id; /* registered when the Hello was sent */
    char path[64], name[32] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/comm", (int)thread);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(name, sizeof name, file));
    fclose(file);
    assert_memory_equal(name, "ZMQbg/IO", 8);
    for (int i = 0; i < 3; i++) {
        wire_spin_init(&client->spin, UINT32_MAX);
        ping_held(client, *state, 3, 0);
        assert_int_equal(sched_getscheduler(thread), SCHED_BATCH);
        wire_spin_init(&client->spin, 0);
        ping_held(client, *state, 0, 1);
        assert_int_equal(sched_getscheduler(thread), SCHED_OTHER);
    }
    contactd_close(&client);
    client = connect_to(*state, 0);
    for (int i = 0; i < 3; i++) ping_held(client, *state, 0, 1);
    assert_int_equal(sched_getscheduler(client->zmq_thread.id), SCHED_OTHER);
    contactd_close(&client);
}

/* The caller's own time stands still but for what he takes. */
static void nor_does_it_for_a_caller_who_computes(void **state) {
    contactd_client *client = connect_to(*state, UINT32_MAX);
    const int32_t thread = client->zmq_thread.id;
    contactd_ticket ticket;
    for (int i = 0; i < 3; i++) {
        ping_held(client, *state, 3, 0);
        seen.own_time = true;
        client->left_ns = seen.now_ns;
        seen.now_ns += 50000;                                    /* as long as it takes to hand over steps */
        contactd_step_submit(client, 0, NULL, 0, NULL, &ticket); /* refused, but submitted in earnest */
        assert_int_equal(sched_getscheduler(thread), SCHED_BATCH);
        seen.now_ns += 1000000;
        contactd_step_submit(client, 0, NULL, 0, NULL, &ticket);
        assert_int_equal(sched_getscheduler(thread), SCHED_OTHER);
        seen.own_time = false;
    }
    contactd_close(&client);
}

/* ZeroMQ tells of a lost connection before it takes the connection's pipe away. What is sent into that pipe is lost,
 * and would not be sent again, as the loss was known. */
static void nothing_is_sent_into_a_lost_connection(void **state) {
    contactd_client *client = connect_to(*state, 0);
    assert_int_equal(contactd_ping(client, NULL), CONTACTD_OK);
    seen.sent = 0;
    seen.monitor = client->monitor;
    assert_int_equal(contactd_ping(client, NULL), CONTACTD_OK);
    assert_true(seen.looks >= 7 && seen.sent > 0);
    assert_int_equal(seen.sent_while_lost, 0);
    seen.monitor = NULL;
    contactd_close(&client);
}

static double seconds_of(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void between_calls_nothing_runs(void **state) {
    contactd_client *client = connect_to(*state, UINT32_MAX);
    for (int i = 0; i < 20; i++) assert_int_equal(contactd_ping(client, NULL), CONTACTD_OK);
    /* The process, with ZeroMQ's threads and the server, uses next to nothing of some while; what runs on uses all it
     * can get of every one. */
    double least = 1;
    for (int i = 0; i < 20 && least > 0.1; i++) {
        double began = seconds_of(CLOCK_MONOTONIC), cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
        nanosleep(&(struct timespec){0, 300000000}, NULL);
        cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu;
        least = fmin(least, cpu / (seconds_of(CLOCK_MONOTONIC) - began));
    }
    assert_true(least <= 0.1);
    contactd_close(&client);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void) {
    void *found = dlsym(RTLD_NEXT, "zmq_msg_recv");
    if (!found) return 1;
    memcpy(&real_receive, &found, sizeof real_receive);
    found = dlsym(RTLD_NEXT, "zmq_msg_send");
    if (!found) return 1;
    memcpy(&real_send, &found, sizeof real_send);
    const struct CMUnitTest tests[] = {
        TEST(answers_within_the_bound_are_waited_for_awake),
        TEST(longer_answers_are_slept_for),
        TEST(told_to_it_sleeps_at_once),
        TEST(a_call_ends_in_time_awake_or_asleep),
        TEST(the_zmq_thread_is_batch_while_the_client_spins),
        TEST(nor_does_it_for_a_caller_who_computes),
        TEST(nothing_is_sent_into_a_lost_connection),
        TEST(between_calls_nothing_runs),
    };
    return cmocka_run_group_tests_name("waiting", tests, NULL, NULL);
}

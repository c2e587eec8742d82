/* Units of server/http/listen.h and watch.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/base/clock.h"
#include "server/http/listen.h"
#include "server/http/watch.h"

/* Whether a port that was listened on can be listened on again at once. */
static bool can_listen_again(void) {
    listener first, second;
    server_error error = {0};
    assert_true(listener_open(&first, "127.0.0.1:0", &error));
    close(first.fd);
    if (!listener_open(&second, first.address, &error)) return false;
    close(second.fd);
    return true;
}

static void listens(void **state) {
    (void)state;
    listener first, second;
    server_error error = {0};
    assert_true(listener_open(&first, "127.0.0.1:0", &error));
    assert_true(first.loopback && !first.ipv6);
    assert_int_equal(strncmp(first.address, "127.0.0.1:", 10), 0);
    assert_string_not_equal(first.address, "127.0.0.1:0");
    assert_false(listener_open(&second, first.address, &error)); /* the port is taken */
    assert_int_equal(error.code, CONTACTD_CONFLICT);
    assert_non_null(strstr(error.message, first.address));
    close(first.fd);
    /* Between two calls another process may get the port from the system, so there are more tries. */
    assert_true(can_listen_again() || can_listen_again() || can_listen_again());
    error = (server_error){0};
    assert_true(listener_open(&first, "0.0.0.0:0", &error));
    assert_false(first.loopback);
    close(first.fd);
}

static void refuses_addresses(void **state) {
    (void)state;
    static const char *const bad[] = {
        "",      "localhost",    ":80",    "127.0.0.1:",    "127.0.0.1:x", "127.0.0.1:65536", "::1:80",     "[::1:80",
        "[]:80", "127.0.0.1:-1", "a:b:80", "127.0.0.1: 80", "[::1]",       "256.0.0.1:0",     "1.2.3.4.5:0"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        listener listener;
        server_error error = {0};
        if (listener_open(&listener, bad[i], &error)) fail_msg("\"%s\" was taken", bad[i]);
        assert_int_equal(error.code, CONTACTD_INVALID_ARGUMENT);
        assert_string_equal(error.field, "http");
        assert_non_null(strstr(error.message, "--http"));
    }
}

static void cuts_who_is_late(void **state) {
    (void)state;
    int late[2], patient[2];
    char byte;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, late), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, patient), 0);
    watch *watch = watch_start(8);
    assert_non_null(watch);
    watched *a = watch_add(watch, late[0]), *b = watch_add(watch, patient[0]);
    assert_true(a && b);
    watch_set(a, 1000000);
    watch_clear(b);
    assert_int_equal(read(late[1], &byte, 1), 0); /* blocks until it is cut */
    assert_int_equal(recv(patient[1], &byte, 1, MSG_DONTWAIT), -1);
    watch_remove(watch, a);
    watch_remove(watch, b);
    watch_stop(&watch);
    assert_null(watch);
    for (int i = 0; i < 2; i++) close(late[i]), close(patient[i]);
    assert_true(watch_transfer_ns(10 * WATCH_BYTES_PER_S) == WATCH_GRACE_NS + UINT64_C(10000000000));
}

#define SECOND_NS UINT64_C(1000000000)

/* What could not be served, as the process did not run, is not late. */
static void excuses_who_waited_for_a_stopped_process(void **state) {
    (void)state;
    int ends[2];
    char byte;
    const pid_t self = getpid();
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    watch *watch = watch_start(8);
    assert_non_null(watch);
    watched *a = watch_add(watch, ends[0]);
    watch_begin(a, WATCH_RECEIVING, 3 * SECOND_NS);
    const uint64_t since = a->since_ns;
    const pid_t child = fork();
    if (child == 0) {
        kill(self, SIGSTOP);
        usleep(4500000);
        kill(self, SIGCONT);
        _exit(0);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
    for (int i = 0; i < 6000 && a->since_ns == since; i++) usleep(10000); /* it looks once a second */
    assert_int_equal(recv(ends[1], &byte, 1, MSG_DONTWAIT), -1);
    assert_true(a->since_ns >= since + 4 * SECOND_NS);
    watch_note_received(a, 0);
    assert_true(a->deadline_ns == a->since_ns + WATCH_GRACE_NS);
    watch_set(a, 1000000);
    assert_int_equal(read(ends[1], &byte, 1), 0); /* blocks until it is cut */
    watch_remove(watch, a);
    watch_stop(&watch);
    close(ends[0]), close(ends[1]);
}

/* Of many, the one without a request for the longest, then the one that has been sending one for the longest. */
static void cuts_who_sends_nothing_when_crowded(void **state) {
    (void)state;
    enum { N = 6 };
    int ends[N][2];
    watched *connections[N];
    char byte;
    watch *watch = watch_start(3);
    for (int i = 0; i < N; i++) assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends[i]), 0);
    for (int i = 0; i < 3; i++) connections[i] = watch_add(watch, ends[i][0]);
    watch_begin(connections[0], WATCH_ANSWERING, WATCH_GRACE_NS);
    watch_begin(connections[1], WATCH_RECEIVING, WATCH_GRACE_NS);
    assert_false(watch_is_crowded(watch));
    connections[3] = watch_add(watch, ends[3][0]);
    assert_int_equal(recv(ends[2][1], &byte, 1, MSG_DONTWAIT), 0);
    watch_begin(connections[3], WATCH_ANSWERING, WATCH_GRACE_NS);
    connections[4] = watch_add(watch, ends[4][0]);
    assert_int_equal(recv(ends[1][1], &byte, 1, MSG_DONTWAIT), 0);
    watch_begin(connections[4], WATCH_ANSWERING, WATCH_GRACE_NS);
    assert_false(watch_is_crowded(watch));
    connections[5] = watch_add(watch, ends[5][0]); /* all others wait for answers: none is cut */
    assert_true(watch_is_crowded(watch));
    for (int i = 3; i < N; i++) assert_int_equal(recv(ends[i][1], &byte, 1, MSG_DONTWAIT), -1);
    assert_int_equal(recv(ends[0][1], &byte, 1, MSG_DONTWAIT), -1);
    watch_remove(watch, connections[0]);
    assert_false(watch_is_crowded(watch));
    for (int i = 1; i < N; i++) watch_remove(watch, connections[i]);
    watch_stop(&watch);
    for (int i = 0; i < N; i++) close(ends[i][0]), close(ends[i][1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(listens),
        cmocka_unit_test(refuses_addresses),
        cmocka_unit_test(cuts_who_is_late),
        cmocka_unit_test(excuses_who_waited_for_a_stopped_process),
        cmocka_unit_test(cuts_who_sends_nothing_when_crowded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* /healthz: fine while the I/O thread goes round its loop, 503 when it hangs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/clock.h"
#include "server/http/handlers.h"

/* Of an I/O thread that was last seen so many seconds ago. */
static int status_after(double silence_s, problem *p) {
    _Atomic uint64_t seen = clock_ns() - (uint64_t)(silence_s * 1e9);
    const service service = {.io_seen_ns = &seen};
    const http_request request = {.match = {.route = ROUTE_HEALTH, .method = HTTP_GET}, .query = ""};
    http_answer answer = {0};
    bool ok = handler_run(&service, &request, &answer, p);
    free(answer.data);
    return ok ? answer.status : problem_status(p);
}

static void notices_a_hung_io_thread(void **state) {
    (void)state;
    problem p = {0};
    assert_int_equal(status_after(0, &p), 200);
    assert_int_equal(status_after(SERVICE_IO_SILENCE_S / 2.0, &p), 200);
    assert_int_equal(p.code, CONTACTD_OK);
    assert_int_equal(status_after(SERVICE_IO_SILENCE_S + 7, &p), 503);
    const char *said = strstr(p.detail, "has not gone round its loop for ");
    double silence_s;
    assert_non_null(said);
    assert_int_equal(sscanf(said, "has not gone round its loop for %lf s", &silence_s), 1);
    assert_true(silence_s >= SERVICE_IO_SILENCE_S + 7 && silence_s < 3600);
}

static void a_thread_not_yet_started_is_no_failure(void **state) {
    (void)state;
    _Atomic uint64_t seen = 0;
    service service = {.io_seen_ns = &seen};
    assert_true(service_io_silence(&service) == 0);
    service.io_seen_ns = NULL;
    assert_true(service_io_silence(&service) == 0);
}

/* A limit that others fill for now is told apart from one that the request exceeds by itself. */
static void limits_that_time_will_mend_are_503(void **state) {
    (void)state;
    problem p = {.code = CONTACTD_LIMIT_EXCEEDED};
    assert_int_equal(problem_status(&p), 422);
    assert_int_equal(problem_retry_after(&p), 0);
    p.retry_after_ms = 1500;
    assert_int_equal(problem_status(&p), 503);
    assert_int_equal(problem_retry_after(&p), 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(notices_a_hung_io_thread),
        cmocka_unit_test(a_thread_not_yet_started_is_no_failure),
        cmocka_unit_test(limits_that_time_will_mend_are_503),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

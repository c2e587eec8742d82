/* The helper threads: every job runs once, a full queue says so, the end waits for what was taken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>
#include <pthread.h>

#include "server/stream/jobs.h"

static void count(void *argument) {
    atomic_fetch_add((atomic_int *)argument, 1);
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static atomic_int at_gate;

static void pass_gate(void *argument) {
    atomic_fetch_add(&at_gate, 1);
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    count(argument);
}

static void test_every_job_runs_once(void **state) {
    (void)state;
    atomic_int n = 0;
    jobs *jobs = jobs_start(3, 8);
    assert_non_null(jobs);
    int added = 0;
    while (added < 1000) {
        if (jobs_add(jobs, count, &n)) {
            added++;
        } else {
            usleep(100);
        }
    }
    jobs_stop(&jobs);
    assert_null(jobs);
    assert_int_equal(n, 1000);
}

static void test_full_queue(void **state) {
    (void)state;
    atomic_int n = 0;
    atomic_store(&at_gate, 0);
    pthread_mutex_lock(&gate);
    jobs *jobs = jobs_start(2, 3);
    for (int i = 0; i < 2; i++) assert_true(jobs_add(jobs, pass_gate, &n));
    while (atomic_load(&at_gate) < 2) usleep(100); /* both threads are held up */
    for (int i = 0; i < 3; i++) assert_true(jobs_add(jobs, count, &n));
    assert_false(jobs_add(jobs, count, &n));
    assert_int_equal(n, 0);
    pthread_mutex_unlock(&gate);
    jobs_stop(&jobs);
    assert_int_equal(n, 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_job_runs_once),
        cmocka_unit_test(test_full_queue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

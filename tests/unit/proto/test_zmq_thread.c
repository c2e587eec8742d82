/* test_zmq_thread.c - when the policy of the ZeroMQ thread changes, and when it is not changed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <sys/resource.h>

#include "proto/zmq_thread.h"

struct fixture {
    wire_zmq_thread zmq_thread;
    pthread_t thread;
    sem_t here, end;
};

static void *carry(void *argument) {
    struct fixture *f = argument;
    wire_zmq_thread_register(&f->zmq_thread);
    sem_post(&f->here);
    while (sem_wait(&f->end)) {
    }
    return NULL;
}

static int set_up(void **state) {
    static struct fixture f;
    memset(&f, 0, sizeof f);
    sem_init(&f.here, 0, 0);
    sem_init(&f.end, 0, 0);
    *state = &f;
    if (pthread_create(&f.thread, NULL, carry, &f)) return -1;
    while (sem_wait(&f.here)) {
    }
    return 0;
}

static int end(struct fixture *f) {
    sem_post(&f->end);
    return pthread_join(f->thread, NULL);
}

static int tear_down(void **state) {
    return end(*state);
}

static void set_policy(int32_t thread, int policy) {
    assert_int_equal(sched_setscheduler(thread, policy, &(struct sched_param){0}), 0);
}

static void the_policy_is_set_and_reset(void **state) {
    struct fixture *f = *state;
    const int32_t thread = f->zmq_thread.id;
    assert_int_not_equal(thread, gettid());
    const int own = getpriority(PRIO_PROCESS, (id_t)thread), priority = own < 19 ? own + 1 : own;
    assert_int_equal(setpriority(PRIO_PROCESS, (id_t)thread, priority), 0); /* one may only go down */
    for (int i = 0; i < 3; i++) {
        wire_zmq_thread_set_batch(&f->zmq_thread, true);
        assert_int_equal(sched_getscheduler(thread), SCHED_BATCH);
        assert_int_equal(getpriority(PRIO_PROCESS, (id_t)thread), priority);
        wire_zmq_thread_set_batch(&f->zmq_thread, false);
        assert_int_equal(sched_getscheduler(thread), SCHED_OTHER);
        assert_int_equal(getpriority(PRIO_PROCESS, (id_t)thread), priority);
    }
}

/* A repeated request makes no system call, so a policy that someone else set in between stays. */
static void a_repeated_request_does_nothing(void **state) {
    struct fixture *f = *state;
    const int32_t thread = f->zmq_thread.id;
    wire_zmq_thread_set_batch(&f->zmq_thread, true);
    set_policy(thread, SCHED_OTHER);
    wire_zmq_thread_set_batch(&f->zmq_thread, true);
    assert_int_equal(sched_getscheduler(thread), SCHED_OTHER);
}

static void another_policy_is_not_changed(void **state) {
    struct fixture *f = *state;
    const int32_t thread = f->zmq_thread.id;
    set_policy(thread, SCHED_BATCH); /* by someone else, so it is not taken back */
    wire_zmq_thread_set_batch(&f->zmq_thread, true);
    assert_int_equal(f->zmq_thread.id, 0);
    wire_zmq_thread_set_batch(&f->zmq_thread, false);
    assert_int_equal(sched_getscheduler(thread), SCHED_BATCH);
    set_policy(thread, SCHED_OTHER);
    wire_zmq_thread_set_batch(&f->zmq_thread, true); /* and from then on none is set */
    assert_int_equal(sched_getscheduler(thread), SCHED_OTHER);
}

static void nor_one_that_was_set_in_between(void **state) {
    struct fixture *f = *state;
    const int32_t thread = f->zmq_thread.id;
    wire_zmq_thread_set_batch(&f->zmq_thread, true);
    set_policy(thread, SCHED_IDLE);
    wire_zmq_thread_set_batch(&f->zmq_thread, false);
    assert_int_equal(sched_getscheduler(thread), SCHED_IDLE);
    assert_false(f->zmq_thread.is_batch);
    assert_int_equal(f->zmq_thread.id, 0);
}

static void the_callers_own_thread_is_not_changed(void **state) {
    (void)state;
    wire_zmq_thread zmq = {0};
    wire_zmq_thread_register(&zmq);
    wire_zmq_thread_set_batch(&zmq, true);
    assert_int_equal(sched_getscheduler(0), SCHED_OTHER);
    assert_int_equal(zmq.id, 0);
}

static void an_unknown_or_ended_thread_is_ignored(void **state) {
    (void)state;
    wire_zmq_thread zmq = {0};
    wire_zmq_thread_set_batch(&zmq, true);
    assert_false(zmq.is_batch); /* so the next call tries again */
    zmq.id = INT32_MAX;
    wire_zmq_thread_set_batch(&zmq, true);
    assert_false(zmq.is_batch);
    assert_int_equal(zmq.id, 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(the_policy_is_set_and_reset),           TEST(a_repeated_request_does_nothing),
        TEST(another_policy_is_not_changed),         TEST(nor_one_that_was_set_in_between),
        TEST(the_callers_own_thread_is_not_changed), TEST(an_unknown_or_ended_thread_is_ignored),
    };
    return cmocka_run_group_tests_name("zmq_thread", tests, NULL, NULL);
}

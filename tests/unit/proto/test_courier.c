/* test_courier.c - the thread that carries messages: when it gives way, and whom it is left alone for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <sys/resource.h>

#include "proto/courier.h"

struct fixture {
    wire_courier courier;
    pthread_t thread;
    sem_t here, end;
};

static void *carry(void *argument) {
    struct fixture *f = argument;
    wire_courier_is_here(&f->courier);
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

static void it_gives_way_and_no_longer(void **state) {
    struct fixture *f = *state;
    const int32_t thread = f->courier.thread;
    assert_int_not_equal(thread, gettid());
    const int own = getpriority(PRIO_PROCESS, (id_t)thread), priority = own < 19 ? own + 1 : own;
    assert_int_equal(setpriority(PRIO_PROCESS, (id_t)thread, priority), 0); /* one may only go down */
    for (int i = 0; i < 3; i++) {
        wire_courier_give_way(&f->courier, true);
        assert_int_equal(sched_getscheduler(thread), SCHED_BATCH);
        assert_int_equal(getpriority(PRIO_PROCESS, (id_t)thread), priority);
        wire_courier_give_way(&f->courier, false);
        assert_int_equal(sched_getscheduler(thread), SCHED_OTHER);
        assert_int_equal(getpriority(PRIO_PROCESS, (id_t)thread), priority);
    }
}

/* Only a change costs a call of the kernel: what another one changes in between stays. */
static void to_ask_again_does_nothing(void **state) {
    struct fixture *f = *state;
    const int32_t thread = f->courier.thread;
    wire_courier_give_way(&f->courier, true);
    set_policy(thread, SCHED_OTHER);
    wire_courier_give_way(&f->courier, true);
    assert_int_equal(sched_getscheduler(thread), SCHED_OTHER);
}

static void another_policy_is_left_alone(void **state) {
    struct fixture *f = *state;
    const int32_t thread = f->courier.thread;
    set_policy(thread, SCHED_BATCH); /* by someone else, so it is not taken back */
    wire_courier_give_way(&f->courier, true);
    assert_int_equal(f->courier.thread, 0);
    wire_courier_give_way(&f->courier, false);
    assert_int_equal(sched_getscheduler(thread), SCHED_BATCH);
    set_policy(thread, SCHED_OTHER);
    wire_courier_give_way(&f->courier, true); /* and from then on none is set */
    assert_int_equal(sched_getscheduler(thread), SCHED_OTHER);
}

static void so_is_one_that_was_given_meanwhile(void **state) {
    struct fixture *f = *state;
    const int32_t thread = f->courier.thread;
    wire_courier_give_way(&f->courier, true);
    set_policy(thread, SCHED_IDLE);
    wire_courier_give_way(&f->courier, false);
    assert_int_equal(sched_getscheduler(thread), SCHED_IDLE);
    assert_false(f->courier.gives_way);
    assert_int_equal(f->courier.thread, 0);
}

static void the_caller_itself_is_none(void **state) {
    (void)state;
    wire_courier courier = {0};
    wire_courier_is_here(&courier);
    wire_courier_give_way(&courier, true);
    assert_int_equal(sched_getscheduler(0), SCHED_OTHER);
    assert_int_equal(courier.thread, 0);
}

static void unknown_or_gone_it_is_no_matter(void **state) {
    (void)state;
    wire_courier courier = {0};
    wire_courier_give_way(&courier, true);
    assert_false(courier.gives_way); /* so that it will be asked to when it is known */
    courier.thread = INT32_MAX;
    wire_courier_give_way(&courier, true);
    assert_false(courier.gives_way);
    assert_int_equal(courier.thread, 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(it_gives_way_and_no_longer),   TEST(to_ask_again_does_nothing),
        TEST(another_policy_is_left_alone), TEST(so_is_one_that_was_given_meanwhile),
        TEST(the_caller_itself_is_none),    TEST(unknown_or_gone_it_is_no_matter),
    };
    return cmocka_run_group_tests_name("courier", tests, NULL, NULL);
}

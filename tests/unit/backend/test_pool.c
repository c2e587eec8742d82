/* test_pool.c - the thread pool: every task is executed once, each thread has its own worker index, and all tasks are
 * done when a run returns. Results are plain memory, so run it under ThreadSanitizer too. */
#include "tests/unit/unit.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpu/device/pool.h"

enum { MAX_TASKS = 3000, MAX_WORKERS = 8 };

struct work {
    uint32_t times[MAX_TASKS];        /* plain: a task that ran twice at once is a race */
    uint64_t per_worker[MAX_WORKERS]; /* plain: as scratch is used */
    uint32_t threads;
    uint64_t offset;
};

static void count(void *context, uint32_t i, uint32_t worker) {
    struct work *work = context;
    work->times[i]++;
    if (worker < work->threads) work->per_worker[worker] += i + work->offset;
}

static void run_and_check(ct_pool *pool, struct work *work, uint32_t n) {
    memset(work->times, 0, sizeof work->times);
    memset(work->per_worker, 0, sizeof work->per_worker);
    work->offset = n;
    ct_pool_run(pool, n, count, work);
    uint64_t sum = 0, expected = 0;
    for (uint32_t i = 0; i < MAX_TASKS; i++) {
        assert_int_equal(work->times[i], i < n);
        if (i < n) expected += i + n;
    }
    for (uint32_t w = 0; w < MAX_WORKERS; w++) sum += work->per_worker[w];
    assert_int_equal(sum, expected); /* else a worker's index was out of range */
}

static void test_every_task_once(void **state) {
    (void)state;
    static struct work work;
    for (uint32_t threads = 1; threads <= MAX_WORKERS; threads++) {
        ct_pool *pool = NULL;
        ct_error error = {0};
        assert_int_equal(ct_pool_create(threads, false, &pool, &error), CT_OK);
        work.threads = threads;
        const uint32_t sizes[] = {0, 1, 2, 3, threads, threads + 1, 100, MAX_TASKS};
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) run_and_check(pool, &work, sizes[s]);
        for (uint32_t run = 0; run < 200; run++) run_and_check(pool, &work, run % 17);
        ct_pool_destroy(&pool);
        assert_null(pool);
        ct_pool_destroy(&pool);
    }
}

static void test_without_a_pool(void **state) {
    (void)state;
    static struct work work = {.threads = 1};
    run_and_check(NULL, &work, 50);
    assert_int_equal(work.per_worker[0], 50 * 49 / 2 + 50 * 50);
}

/* A run must not return while another thread executes one of its tasks; all writes of its tasks are visible afterwards.
 */
static void slow(void *context, uint32_t i, uint32_t worker) {
    (void)worker;
    struct timespec nap = {0, 200000};
    nanosleep(&nap, NULL);
    ((uint64_t *)context)[i] = i + 1;
}

static void test_waits_for_all(void **state) {
    (void)state;
    ct_pool *pool = NULL;
    assert_int_equal(ct_pool_create(4, false, &pool, NULL), CT_OK);
    for (int run = 0; run < 30; run++) {
        uint64_t done[7] = {0}; /* on the stack: gone by the next run */
        ct_pool_run(pool, 7, slow, done);
        for (uint64_t i = 0; i < 7; i++) assert_int_equal(done[i], i + 1);
    }
    ct_pool_destroy(&pool);
}

/* Several tasks overlap in time, else the pool is no pool: each of the first waits for a second to come. */
struct meeting {
    atomic_int here, most;
};

static void meet(void *context, uint32_t i, uint32_t worker) {
    (void)i, (void)worker;
    struct meeting *m = context;
    int here = atomic_fetch_add(&m->here, 1) + 1, most = atomic_load(&m->most);
    while (here > most && !atomic_compare_exchange_weak(&m->most, &most, here)) {
    }
    const struct timespec nap = {0, 1000000};
    for (int ms = 0; ms < 20000 && atomic_load(&m->most) < 2; ms++) nanosleep(&nap, NULL);
    nanosleep(&nap, NULL);
    atomic_fetch_sub(&m->here, 1);
}

static void test_tasks_overlap(void **state) {
    (void)state;
    ct_pool *pool = NULL;
    assert_int_equal(ct_pool_create(3, false, &pool, NULL), CT_OK);
    struct meeting m = {0};
    ct_pool_run(pool, 6, meet, &m);
    assert_true(atomic_load(&m.most) >= 2);
    assert_true(atomic_load(&m.most) <= 3);
    ct_pool_destroy(&pool);
}

/* Callers at the same time, more than there are lanes: each gets all of its own tasks done, with indices of its own. */
struct caller {
    ct_pool *pool;
    struct work work;
};

static void *call(void *argument) {
    struct caller *caller = argument;
    for (uint32_t run = 0; run < 300; run++) run_and_check(caller->pool, &caller->work, run % 40);
    return NULL;
}

static void test_callers_share(void **state) {
    (void)state;
    enum { CALLERS = CT_MAX_CONCURRENT_BATCHES + 1 };
    static struct caller callers[CALLERS];
    pthread_t threads[CALLERS];
    ct_pool *pool = NULL;
    assert_int_equal(ct_pool_create(3, false, &pool, NULL), CT_OK);
    for (int i = 0; i < CALLERS; i++) {
        callers[i] = (struct caller){.pool = pool, .work = {.threads = 3}};
        pthread_create(&threads[i], NULL, call, &callers[i]);
    }
    for (int i = 0; i < CALLERS; i++) pthread_join(threads[i], NULL);
    ct_pool_destroy(&pool);
}

/* One caller's run ends while another's has all the threads there are: they meet in the middle of it. */
struct gate {
    atomic_bool inside, open;
};

static void pass_gate(void *context, uint32_t i, uint32_t worker) {
    (void)worker;
    struct gate *gate = context;
    if (i == 0) atomic_store(&gate->inside, true);
    while (!atomic_load(&gate->open)) sched_yield();
}

struct gated {
    ct_pool *pool;
    struct gate gate;
};

static void *run_gated(void *argument) {
    struct gated *gated = argument;
    ct_pool_run(gated->pool, 6, pass_gate, &gated->gate);
    return NULL;
}

static void test_a_busy_pool_delays_no_caller(void **state) {
    (void)state;
    static struct work work = {.threads = 3};
    static struct gated gated;
    pthread_t thread;
    assert_int_equal(ct_pool_create(3, false, &gated.pool, NULL), CT_OK);
    pthread_create(&thread, NULL, run_gated, &gated);
    while (!atomic_load(&gated.gate.inside)) sched_yield();
    run_and_check(gated.pool, &work, 100);
    atomic_store(&gated.gate.open, true);
    pthread_join(thread, NULL);
    ct_pool_destroy(&gated.pool);
}

static void test_idle_pools_come_and_go(void **state) {
    (void)state;
    for (int i = 0; i < 50; i++) {
        ct_pool *pool = NULL;
        assert_int_equal(ct_pool_create(4, false, &pool, NULL), CT_OK);
        ct_pool_destroy(&pool);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_task_once),       cmocka_unit_test(test_without_a_pool),
        cmocka_unit_test(test_waits_for_all),         cmocka_unit_test(test_tasks_overlap),
        cmocka_unit_test(test_callers_share),         cmocka_unit_test(test_a_busy_pool_delays_no_caller),
        cmocka_unit_test(test_idle_pools_come_and_go)};
    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}

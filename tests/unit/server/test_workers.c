/* The service's workers: every work runs once, kinds do not delay each other, principals share the threads by weight,
 * and a full or closed pool says so. Works stop at a gate, so that nothing hangs on how fast anything is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>
#include <sched.h>
#include <semaphore.h>

#include "gpu/base/cancel.h"
#include "server/core/workers.h"

typedef struct task {
    work work; /* first */
    sem_t *gate;
    atomic_uint *begun, *done;
    unsigned place; /* in the order in which the tasks began, from 1 */
} task;

static void run(work *work) {
    task *task = (struct task *)work;
    task->place = atomic_fetch_add(task->begun, 1) + 1;
    while (task->gate && sem_wait(task->gate)) {
    }
    atomic_fetch_add(task->done, 1);
}

static void wait_for(const atomic_uint *count, unsigned n) {
    while (atomic_load(count) < n) usleep(200);
}

static const identity none = {0};
static const identity alone = {.principal = 1, .weight = 1};
static const identity flood = {.principal = 1, .weight = 1, .others_weight = 1};
static const identity neighbour = {.principal = 2, .weight = 1, .others_weight = 1};
static const identity heavy = {.principal = 2, .weight = 3, .others_weight = 1};

/* Of every kind, but few pictures, which have a short queue. */
static work_kind kind_of(int i) {
    work_kind kind = (work_kind)(i % WORK_KINDS);
    return kind == WORK_PICTURES && i >= WORKERS_PICTURES ? WORK_SCENES : kind;
}

static void every_work_runs_once(void **state) {
    (void)state;
    enum { N = WORKERS_QUEUE };
    static task tasks[N];
    atomic_uint begun = 0, done = 0;
    workers *workers = workers_start(0);
    assert_non_null(workers);
    for (int i = 0; i < N; i++) {
        tasks[i] = (task){{.run = run}, NULL, &begun, &done, 0};
        assert_int_equal(workers_add(workers, kind_of(i), &none, &tasks[i].work), WORKERS_QUEUED);
    }
    workers_drain(workers);
    assert_int_equal(atomic_load(&done), N);
    task late = {{.run = run}, NULL, &begun, &done, 0};
    assert_int_equal(workers_add(workers, WORK_MESHES, &none, &late.work), WORKERS_CLOSED);
    workers_stop(&workers);
    assert_null(workers);
    assert_int_equal(atomic_load(&done), N);
}

static void kinds_do_not_delay_each_other(void **state) {
    (void)state;
    enum { N = 20 };
    static task slow[N];
    task quick[WORK_KINDS];
    sem_t gate;
    atomic_uint begun = 0, slow_done = 0, quick_done = 0;
    sem_init(&gate, 0, 0);
    workers *workers = workers_start(0);
    for (int i = 0; i < N; i++) {
        slow[i] = (task){{.run = run}, &gate, &begun, &slow_done, 0};
        assert_int_equal(workers_add(workers, WORK_MESHES, &none, &slow[i].work), WORKERS_QUEUED);
    }
    for (int kind = WORK_MESHES + 1; kind < WORK_KINDS; kind++) {
        quick[kind] = (task){{.run = run}, NULL, &begun, &quick_done, 0};
        assert_int_equal(workers_add(workers, (work_kind)kind, &none, &quick[kind].work), WORKERS_QUEUED);
    }
    wait_for(&quick_done, WORK_KINDS - 1);
    assert_int_equal(atomic_load(&slow_done), 0);
    for (int i = 0; i < N; i++) sem_post(&gate);
    workers_stop(&workers); /* waits for all of them */
    assert_int_equal(atomic_load(&slow_done), N);
    sem_destroy(&gate);
}

/* On the only thread of WORK_SCENES. Places of the neighbour's three works behind a flood of 30. */
static void run_beside_flood(const identity *who, unsigned places[3]) {
    enum { N = 30 };
    static task tasks[N];
    task others[3];
    sem_t gate;
    atomic_uint begun = 0, done = 0;
    sem_init(&gate, 0, 0);
    workers *workers = workers_start(0);
    for (int i = 0; i < N; i++) {
        tasks[i] = (task){{.run = run}, &gate, &begun, &done, 0};
        assert_int_equal(workers_add(workers, WORK_SCENES, &flood, &tasks[i].work), WORKERS_QUEUED);
    }
    wait_for(&begun, 1); /* the first holds the thread at the gate */
    for (int i = 0; i < 3; i++) {
        others[i] = (task){{.run = run}, &gate, &begun, &done, 0};
        assert_int_equal(workers_add(workers, WORK_SCENES, who, &others[i].work), WORKERS_QUEUED);
    }
    for (int i = 0; i < N + 3; i++) sem_post(&gate);
    workers_stop(&workers);
    for (int i = 0; i < 3; i++) places[i] = others[i].place;
    for (int i = 1; i < N; i++) assert_true(tasks[i].place > tasks[i - 1].place); /* its own order stays */
    sem_destroy(&gate);
}

static void a_flood_lets_others_in(void **state) {
    (void)state;
    unsigned places[3];
    run_beside_flood(&neighbour, places); /* F, F N, F N, F N: equal tags in the order in which they came */
    assert_int_equal(places[0], 3);
    assert_int_equal(places[1], 5);
    assert_int_equal(places[2], 7);
    run_beside_flood(&heavy, places); /* three of its works have tags up to that of the flood's second one */
    assert_int_equal(places[0], 2);
    assert_int_equal(places[1], 3);
    assert_in_range(places[2], 4, 5);
}

static void one_of_several_principals_leaves_a_thread(void **state) {
    (void)state;
    enum { N = 6 };
    task tasks[N], other;
    sem_t gate;
    atomic_uint begun = 0, done = 0, other_begun = 0, other_done = 0;
    sem_init(&gate, 0, 0);
    workers *workers = workers_start(0);
    for (int i = 0; i < N; i++) {
        tasks[i] = (task){{.run = run}, &gate, &begun, &done, 0};
        assert_int_equal(workers_add(workers, WORK_MESHES, &flood, &tasks[i].work), WORKERS_QUEUED);
    }
    wait_for(&begun, 1);
    other = (task){{.run = run}, NULL, &other_begun, &other_done, 0};
    assert_int_equal(workers_add(workers, WORK_MESHES, &neighbour, &other.work), WORKERS_QUEUED);
    wait_for(&other_done, 1); /* though the flood's all wait at the gate */
    assert_int_equal(atomic_load(&done), 0);
    assert_int_equal(atomic_load(&begun), 1);
    for (int i = 0; i < N; i++) sem_post(&gate);
    workers_stop(&workers);
    assert_int_equal(atomic_load(&done), N);
    sem_destroy(&gate);
}

static void the_only_principal_has_all_threads(void **state) {
    (void)state;
    task tasks[2];
    sem_t gate;
    atomic_uint begun = 0, done = 0;
    sem_init(&gate, 0, 0);
    workers *workers = workers_start(0);
    for (int i = 0; i < 2; i++) {
        tasks[i] = (task){{.run = run}, &gate, &begun, &done, 0};
        assert_int_equal(workers_add(workers, WORK_MESHES, &alone, &tasks[i].work), WORKERS_QUEUED);
    }
    wait_for(&begun, 2);
    for (int i = 0; i < 2; i++) sem_post(&gate);
    workers_stop(&workers);
    sem_destroy(&gate);
}

static void a_full_queue_says_so(void **state) {
    (void)state;
    static task tasks[WORKERS_QUEUE + 2];
    sem_t gate;
    atomic_uint begun = 0, done = 0;
    int n = 0;
    sem_init(&gate, 0, 0);
    workers *workers = workers_start(0);
    for (int i = 0; i < WORKERS_QUEUE + 2; i++) tasks[i] = (task){{.run = run}, &gate, &begun, &done, 0};
    assert_int_equal(workers_add(workers, WORK_SCENES, &flood, &tasks[n++].work), WORKERS_QUEUED);
    wait_for(&begun, 1); /* on the only thread, so that none of the others leaves the queue */
    for (int i = 0; i < WORKERS_QUEUE / 2; i++)
        assert_int_equal(workers_add(workers, WORK_SCENES, &flood, &tasks[n++].work), WORKERS_QUEUED);
    assert_int_equal(workers_add(workers, WORK_SCENES, &flood, &tasks[n].work), WORKERS_FULL); /* half of it */
    for (int i = 0; i < WORKERS_QUEUE / 2; i++)
        assert_int_equal(workers_add(workers, WORK_SCENES, &neighbour, &tasks[n++].work), WORKERS_QUEUED);
    assert_int_equal(workers_add(workers, WORK_SCENES, &none, &tasks[n].work), WORKERS_FULL);
    for (int i = 0; i < n; i++) sem_post(&gate);
    workers_stop(&workers);
    assert_int_equal(atomic_load(&done), n);
    sem_destroy(&gate);
}

/* Addresses are told apart like principals, and pictures wait in a short queue. */
static void addresses_share_the_pictures(void **state) {
    (void)state;
    enum { N = WORKERS_PICTURES / 2 + 2, OTHERS = WORKERS_PICTURES / 2 }; /* two run */
    const identity here = {.origin = 7}, there = {.origin = 8};
    static task tasks[N], others[WORKERS_PICTURES];
    task surplus;
    sem_t first_gate, gate; /* one thread stays with the first task, so that the other takes all in their order */
    atomic_uint begun = 0, done = 0;
    sem_init(&first_gate, 0, 0);
    sem_init(&gate, 0, 0);
    workers *workers = workers_start(0);
    for (int i = 0; i < N; i++) {
        tasks[i] = (task){{.run = run}, i ? &gate : &first_gate, &begun, &done, 0};
        assert_true(workers_have_room(workers, WORK_PICTURES, &here));
        assert_int_equal(workers_add(workers, WORK_PICTURES, &here, &tasks[i].work), WORKERS_QUEUED);
        if (i < 2) wait_for(&begun, (unsigned)i + 1);
    }
    surplus = (task){{.run = run}, &gate, &begun, &done, 0};
    assert_false(workers_have_room(workers, WORK_PICTURES, &here));
    assert_int_equal(workers_add(workers, WORK_PICTURES, &here, &surplus.work), WORKERS_FULL);
    for (int i = 0; i < OTHERS; i++) {
        others[i] = (task){{.run = run}, &gate, &begun, &done, 0};
        assert_int_equal(workers_add(workers, WORK_PICTURES, &there, &others[i].work), WORKERS_QUEUED);
    }
    assert_false(workers_have_room(workers, WORK_PICTURES, &there));
    assert_true(workers_have_room(workers, WORK_MESHES, &there));
    for (int i = 1; i < N + OTHERS; i++) sem_post(&gate);
    wait_for(&done, N + OTHERS - 1);
    sem_post(&first_gate);
    workers_stop(&workers);
    assert_in_range(others[0].place, 3, 6); /* not behind all of the first address */
    sem_destroy(&first_gate);
    sem_destroy(&gate);
}

typedef struct computation {
    work work;
    atomic_bool *begun;
    bool ended;
} computation;

/* As the engine does: polls until it is told to end. */
static void compute(work *work) {
    computation *self = (computation *)work;
    atomic_store(self->begun, true);
    while (!ct_is_cancelled()) sched_yield();
    self->ended = true;
}

static void works_end_at_their_limit_and_at_the_end(void **state) {
    (void)state;
    for (int is_limited = 0; is_limited < 2; is_limited++) {
        atomic_bool begun = false;
        workers *workers = workers_start(is_limited ? 0.05 : 0);
        computation first = {.work.run = compute, .begun = &begun}, second = first;
        assert_int_equal(workers_add(workers, WORK_SCENES, &none, &first.work), WORKERS_QUEUED);
        assert_int_equal(workers_add(workers, WORK_SCENES, &none, &second.work), WORKERS_QUEUED);
        while (!atomic_load(&begun)) sched_yield();
        if (is_limited)
            workers_drain(workers);
        else
            workers_drain_within(workers, 1);
        workers_stop(&workers);
        assert_true(first.ended);
        assert_true(second.ended);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_work_runs_once),
        cmocka_unit_test(kinds_do_not_delay_each_other),
        cmocka_unit_test(a_flood_lets_others_in),
        cmocka_unit_test(one_of_several_principals_leaves_a_thread),
        cmocka_unit_test(the_only_principal_has_all_threads),
        cmocka_unit_test(addresses_share_the_pictures),
        cmocka_unit_test(works_end_at_their_limit_and_at_the_end),
        cmocka_unit_test(a_full_queue_says_so),
    };
    return cmocka_run_group_tests_name("workers", tests, NULL, NULL);
}

/* steps.h - a world (world.h) whose workers sleep until they are kicked, and what became of the commands that it was
 * handed: for the scheduler's tests. Commands are handed in without waking the workers, so that what is queued is
 * known. */
#ifndef SCHEDULE_STEPS_H
#define SCHEDULE_STEPS_H

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "tests/unit/server/schedule/world.h"

enum { QUEUE = 24, IN_FLIGHT = 8 };

/* Waits until the workers sleep, which they then do until they are kicked. */
static inline void settle(world *world) {
    for (bool busy = true; busy;) {
        scheduler *scheduler = world->scheduler;
        pthread_mutex_lock(&scheduler->lock);
        busy = !scheduler_is_idle(scheduler);
        /* A worker that has not started yet would find steps before it is woken. */
        for (uint32_t i = 0; i < scheduler->n_lanes; i++) {
            const lane *lane = &scheduler->lanes[i];
            for (uint32_t r = 0; r < lane->n_runners; r++) busy |= lane->runners[r].asleep_until == 0;
        }
        pthread_mutex_unlock(&scheduler->lock);
        if (busy) sched_yield();
    }
}

static inline int setup(void **state) {
    world *world = world_new();
    world_start(world, QUEUE, IN_FLIGHT, 0);
    *state = world;
    /* Something to run shows that the worker is there. */
    command open = {.kind = COMMAND_OPEN};
    assert_true(scheduler_execute(world->scheduler, &open));
    command close = {.kind = COMMAND_CLOSE, .scene = open.out.scene.handle};
    assert_true(scheduler_execute(world->scheduler, &close));
    settle(world);
    return 0;
}

static inline int teardown(void **state) {
    world_free(*state);
    return 0;
}

/* Once the workers sleep again. */
static inline uint32_t add_settled_box(world *world, uint64_t session, uint64_t scene, double shift) {
    uint32_t body = add_box(world, session, scene, shift);
    settle(world);
    return body;
}

/* What became of commands, in the order in which they were done. */
static pthread_mutex_t done_lock = PTHREAD_MUTEX_INITIALIZER;
static command *done[256];
static int n_done;
static pthread_t done_by; /* the last of them */

static inline void note_done(command *command) {
    pthread_mutex_lock(&done_lock);
    done_by = pthread_self();
    done[n_done++] = command;
    pthread_mutex_unlock(&done_lock);
}

static inline void wait_for(world *world, int n) {
    for (int i = 0; i < 60000; i++) {
        pthread_mutex_lock(&done_lock);
        int now = n_done;
        pthread_mutex_unlock(&done_lock);
        if (now >= n) {
            settle(world);
            return;
        }
        usleep(1000);
    }
    fail_msg("%d of %d commands were done within a minute", n_done, n);
}

static inline submit_outcome step(world *world, command *command, uint64_t session, uint64_t scene, uint64_t number) {
    *command = (struct command){.kind = COMMAND_STEP, .session = session, .scene = scene, .done = note_done};
    command->in.step.sequence = number;
    return scheduler_submit(world->scheduler, command);
}

static inline void forget(command *commands, int n) {
    for (int i = 0; i < n; i++) step_answer_release(&commands[i].out.step.answer);
    n_done = 0;
}

/* Of one that is answered: done is called for it as for a step. */
static inline void repeat_step(world *world, command *command, uint64_t session, uint64_t scene, uint64_t number) {
    int before = n_done;
    assert_int_equal(step(world, command, session, scene, number), SUBMIT_QUEUED);
    scheduler_kick(world->scheduler);
    wait_for(world, before + 1);
    assert_true(command->out.step.cached);
}

#define WITH_WORLD(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

#endif

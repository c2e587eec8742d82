/* Steps that the scheduler does not compute: BUSY, too late, or of a scene that was closed. */
#include <stdio.h>
#include <string.h>

#include "server/base/clock.h"
#include "tests/unit/server/schedule/steps.h"

static void test_busy(void **state) {
    world *world = *state;
    uint64_t sessions[4], scenes[4];
    command steps[4][IN_FLIGHT], extra;
    for (int s = 0; s < 4; s++) {
        sessions[s] = open_session(world);
        scenes[s] = open_scene(world, sessions[s], 8);
    }
    for (int i = 0; i < IN_FLIGHT; i++) {
        assert_int_equal(step(world, &steps[0][i], sessions[0], scenes[0], i + 1), SUBMIT_QUEUED);
    }
    /* One session's share; another scene of it makes no difference. */
    uint64_t other = open_scene(world, sessions[0], 8);
    assert_int_equal(step(world, &extra, sessions[0], other, 1), SUBMIT_REFUSED);
    assert_int_equal(extra.error.code, CONTACTD_BUSY);
    assert_true(extra.error.retry_after_ms > 0);
    /* The one behind a refused one is refused as well, not called out of order. */
    assert_int_equal(step(world, &extra, sessions[0], other, 2), SUBMIT_REFUSED);
    assert_int_equal(extra.error.code, CONTACTD_BUSY);
    /* The queue's capacity. */
    for (int s = 1; s < 3; s++) {
        for (int i = 0; i < IN_FLIGHT; i++) {
            assert_int_equal(step(world, &steps[s][i], sessions[s], scenes[s], i + 1), SUBMIT_QUEUED);
        }
    }
    assert_int_equal(step(world, &extra, sessions[3], scenes[3], 1), SUBMIT_REFUSED);
    assert_int_equal(extra.error.code, CONTACTD_BUSY);
    assert_non_null(strstr(extra.error.message, "24"));
    assert_int_equal(metrics_counter_value(world->metrics, METRICS_BUSY), 3);
    scheduler_kick(world->scheduler);
    wait_for(world, 24);
    forget(steps[0], 24);
    /* The refused numbers are still theirs. */
    assert_int_equal(step(world, &extra, sessions[3], scenes[3], 1), SUBMIT_QUEUED);
    scheduler_kick(world->scheduler);
    wait_for(world, 1);
    forget(&extra, 1);
}

/* A new step whose answer would not fit into what its client may leave unread is BUSY, and so are those behind it; a
 * repeat is answered whatever its size. */
static void test_answers_that_have_no_room(void **state) {
    world *world = *state;
    uint64_t session = open_session(world), scene = open_scene(world, session, 8);
    command first, second, repeat;
    assert_int_equal(step(world, &first, session, scene, 1), SUBMIT_QUEUED);
    assert_true(first.expected_bytes >= sizeof(ct_result)); /* of an empty scene */
    scheduler_kick(world->scheduler);
    wait_for(world, 1);
    uint64_t bytes = step_answer_bytes(first.out.step.answer);
    second = (command){.kind = COMMAND_STEP, .session = session, .scene = scene, .done = note_done};
    second.in.step.sequence = 2;
    second.in.step.answer_room = bytes - 1;
    assert_int_equal(scheduler_submit(world->scheduler, &second), SUBMIT_REFUSED);
    assert_int_equal(second.error.code, CONTACTD_BUSY);
    assert_non_null(strstr(second.error.message, "--unread-per-client"));
    second.in.step.sequence = 3;
    second.in.step.answer_room = bytes;
    assert_int_equal(scheduler_submit(world->scheduler, &second), SUBMIT_REFUSED);
    assert_int_equal(second.error.code, CONTACTD_BUSY);
    repeat = second;
    repeat.in.step.sequence = 1;
    repeat.in.step.answer_room = 1;
    assert_int_equal(scheduler_submit(world->scheduler, &repeat), SUBMIT_QUEUED);
    second.in.step.sequence = 2;
    assert_int_equal(scheduler_submit(world->scheduler, &second), SUBMIT_QUEUED);
    assert_int_equal(second.expected_bytes, bytes);
    scheduler_kick(world->scheduler);
    wait_for(world, 3);
    forget(&first, 1);
    forget(&second, 1);
    forget(&repeat, 1);
}

static void test_deadline(void **state) {
    world *world = *state;
    uint64_t session = open_session(world), scene = open_scene(world, session, 8);
    command late = {.kind = COMMAND_STEP, .session = session, .scene = scene, .done = note_done}, next, repeat;
    late.in.step.sequence = 1;
    late.deadline_ns = clock_ns() + 1000000;
    assert_int_equal(scheduler_submit(world->scheduler, &late), SUBMIT_QUEUED);
    assert_int_equal(step(world, &next, session, scene, 2), SUBMIT_QUEUED);
    usleep(3000);
    scheduler_kick(world->scheduler);
    wait_for(world, 2);
    assert_int_equal(late.error.code, CONTACTD_DEADLINE_EXCEEDED);
    assert_int_equal(next.error.code, CONTACTD_OK);
    assert_int_equal(metrics_counter_value(world->metrics, METRICS_STEPS), 1);
    assert_int_equal(metrics_counter_value(world->metrics, METRICS_DEADLINES), 1);
    repeat_step(world, &repeat, session, scene, 1);
    assert_int_equal(repeat.error.code, CONTACTD_DEADLINE_EXCEEDED);
    step_answer_release(&repeat.out.step.answer);
    step_answer_release(&late.out.step.answer);
    forget(&next, 1);
}

/* A deadline that passed before the step was submitted, while its message waited to be received. */
static void test_deadline_before_submission(void **state) {
    world *world = *state;
    uint64_t session = open_session(world), scene = open_scene(world, session, 8);
    command late = {.kind = COMMAND_STEP, .session = session, .scene = scene, .done = note_done};
    late.in.step.sequence = 1;
    late.received_ns = clock_ns() - 5000000;
    late.deadline_ns = late.received_ns + 2000000;
    assert_int_equal(scheduler_submit(world->scheduler, &late), SUBMIT_QUEUED);
    scheduler_kick(world->scheduler);
    wait_for(world, 1);
    assert_int_equal(late.error.code, CONTACTD_DEADLINE_EXCEEDED);
    double waited, deadline;
    assert_int_equal(sscanf(late.error.message, "it waited for %lf ms, its deadline was %lf ms", &waited, &deadline),
                     2);
    assert_true(waited >= 5 && waited < 60000);
    assert_true(deadline == 2);
    forget(&late, 1);
}

/* Closing a scene is never BUSY, and frees the places of what waits for the scene. */
static void test_closing_frees_places(void **state) {
    world *world = *state;
    uint64_t session = open_session(world), scene = open_scene(world, session, 8),
             other = open_scene(world, session, 8);
    command steps[IN_FLIGHT], repeat, extra, close = {.kind = COMMAND_CLOSE, .session = session, .scene = scene};
    for (int i = 0; i < IN_FLIGHT; i++) {
        assert_int_equal(step(world, &steps[i], session, scene, i + 1), SUBMIT_QUEUED);
    }
    assert_int_equal(step(world, &repeat, session, scene, 2), SUBMIT_QUEUED); /* takes the place of the second */
    assert_int_equal(step(world, &extra, session, other, 1), SUBMIT_REFUSED);
    close.done = note_done;
    assert_int_equal(scheduler_submit(world->scheduler, &close), SUBMIT_QUEUED);
    assert_int_equal(n_done, IN_FLIGHT + 1);
    for (int i = 0; i < IN_FLIGHT; i++) {
        if (steps[i].superseded) continue;
        assert_int_equal(steps[i].error.code, CONTACTD_STALE_HANDLE);
        assert_null(steps[i].out.step.answer);
    }
    assert_true(steps[1].superseded);
    assert_int_equal(repeat.error.code, CONTACTD_STALE_HANDLE);
    assert_int_equal(step(world, &extra, session, other, 1), SUBMIT_QUEUED);
    scheduler_kick(world->scheduler);
    wait_for(world, IN_FLIGHT + 3);
    assert_int_equal(close.error.code, CONTACTD_OK);
    assert_int_equal(metrics_counter_value(world->metrics, METRICS_STEPS), 1);
    forget(&extra, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_WORLD(test_busy),
        WITH_WORLD(test_answers_that_have_no_room),
        WITH_WORLD(test_deadline),
        WITH_WORLD(test_deadline_before_submission),
        WITH_WORLD(test_closing_frees_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Steps of the scheduler: answered in order and once, and repeats of them with the same answer. */
#include <string.h>

#include "tests/unit/server/schedule/steps.h"

/* One more than the box's own vertices: never valid. */
static const float positions[9][3];

static void test_steps_and_numbers(void **state) {
    world *world = *state;
    uint64_t session = open_session(world), scene = open_scene(world, session, 8);
    add_settled_box(world, session, scene, 0);
    add_settled_box(world, session, scene, 0.5);
    command steps[6];
    for (int i = 0; i < 5; i++) assert_int_equal(step(world, &steps[i], session, scene, i + 1), SUBMIT_QUEUED);
    scheduler_kick(world->scheduler);
    wait_for(world, 5);
    for (int i = 0; i < 5; i++) {
        assert_ptr_equal(done[i], &steps[i]);
        const ct_result *result = step_answer_result(steps[i].out.step.answer);
        assert_non_null(result);
        assert_int_equal(result->n_contacts, 1);
        assert_true(result->contacts[0].volume > 0.1249 && result->contacts[0].volume < 0.1251);
    }
    /* A repeat is answered from what is kept, with the very same answer. */
    repeat_step(world, &steps[5], session, scene, 3);
    assert_true(steps[5].out.step.cached);
    assert_ptr_equal(steps[5].out.step.answer, steps[2].out.step.answer);
    assert_int_equal(metrics_counter_value(world->metrics, METRICS_STEPS), 5);
    assert_int_equal(metrics_counter_value(world->metrics, METRICS_STEPS_CACHED), 1);
    forget(steps, 6);

    command odd;
    assert_int_equal(step(world, &odd, session, scene, 0), SUBMIT_REFUSED);
    assert_int_equal(odd.error.code, CONTACTD_INVALID_ARGUMENT);
    assert_int_equal(step(world, &odd, session, scene, 8), SUBMIT_REFUSED);
    assert_int_equal(odd.error.code, CONTACTD_CONFLICT);
    assert_non_null(strstr(odd.error.message, "expected 6, got 8"));
    for (int i = 0; i < IN_FLIGHT; i++) {
        assert_int_equal(step(world, &odd, session, scene, 6 + i), SUBMIT_QUEUED);
        scheduler_run_inline(world->scheduler);
        wait_for(world, i + 1);
        step_answer_release(&odd.out.step.answer);
    }
    assert_int_equal(step(world, &odd, session, scene, 5), SUBMIT_REFUSED);
    assert_int_equal(odd.error.code, CONTACTD_CONFLICT);
    assert_non_null(strstr(odd.error.message, "no longer kept (kept: 6 to 13)"));
    scene_record record;
    assert_true(registry_scene(world->registry, scene, &record, &odd.error));
    assert_int_equal(record.steps, 13);
    assert_int_equal(record.sequence, 13);
    assert_int_equal(record.contacts, 1);
    n_done = 0;
}

static void test_failed_step_uses_its_number_up(void **state) {
    world *world = *state;
    uint64_t session = open_session(world), scene = open_scene(world, session, 8);
    uint32_t body = add_settled_box(world, session, scene, 0);
    ct_update wrong = {.body = body, .kind = CT_UPDATE_POSITIONS, .positions = positions, .dtype = CT_F32, .count = 9};
    command steps[3], repeat;
    for (int i = 0; i < 3; i++) {
        steps[i] = (command){.kind = COMMAND_STEP, .session = session, .scene = scene, .done = note_done};
        steps[i].in.step.sequence = i + 1;
        steps[i].in.step.updates = &wrong;
        steps[i].in.step.n_updates = i == 1;
        assert_int_equal(scheduler_submit(world->scheduler, &steps[i]), SUBMIT_QUEUED);
    }
    scheduler_kick(world->scheduler);
    wait_for(world, 3);
    assert_int_equal(steps[0].error.code, CONTACTD_OK);
    assert_true(steps[1].error.code == CONTACTD_WRONG_LENGTH || steps[1].error.code == CONTACTD_INVALID_ARGUMENT);
    assert_int_equal(steps[2].error.code, CONTACTD_OK);
    repeat_step(world, &repeat, session, scene, 2);
    assert_int_equal(repeat.error.code, steps[1].error.code);
    assert_string_equal(repeat.error.message, steps[1].error.message);
    step_answer_release(&repeat.out.step.answer);
    forget(steps, 3);
}

static void test_repeat_in_flight_takes_over(void **state) {
    world *world = *state;
    uint64_t session = open_session(world), scene = open_scene(world, session, 8);
    command first, second, third;
    assert_int_equal(step(world, &first, session, scene, 1), SUBMIT_QUEUED);
    assert_int_equal(step(world, &second, session, scene, 1), SUBMIT_QUEUED);
    assert_int_equal(step(world, &third, session, scene, 1), SUBMIT_QUEUED);
    assert_int_equal(n_done, 1); /* the second is out at once: the third took its place */
    assert_true(second.superseded);
    scheduler_run_inline(world->scheduler);
    wait_for(world, 3);
    assert_true(first.superseded);
    assert_null(first.out.step.answer);
    assert_false(third.superseded);
    assert_non_null(step_answer_result(third.out.step.answer));
    assert_false(third.out.step.cached);
    assert_int_equal(metrics_counter_value(world->metrics, METRICS_STEPS), 1);
    forget(&third, 1);
}

/* A repeat of an answered step waits in the scene's queue and counts as a step in flight. Of several the newest is
 * answered, and none is BUSY: clients take BUSY for a number that was not used. */
static void test_repeats_wait_their_turn(void **state) {
    world *world = *state;
    uint64_t session = open_session(world), scene = open_scene(world, session, 8);
    command steps[IN_FLIGHT], repeats[3], extra;
    for (int i = 0; i < 2; i++) assert_int_equal(step(world, &steps[i], session, scene, i + 1), SUBMIT_QUEUED);
    scheduler_kick(world->scheduler);
    wait_for(world, 2);
    n_done = 0;
    for (int i = 2; i < IN_FLIGHT; i++) assert_int_equal(step(world, &steps[i], session, scene, i + 1), SUBMIT_QUEUED);
    for (int i = 0; i < 3; i++) {
        repeats[i] = (command){.kind = COMMAND_STEP, .session = session, .scene = scene, .done = note_done};
        repeats[i].in.step.sequence = 1;
        repeats[i].deadline_ns = 1; /* the answer is there, so no deadline matters */
        assert_int_equal(scheduler_submit(world->scheduler, &repeats[i]), SUBMIT_QUEUED);
    }
    assert_int_equal(n_done, 1); /* the second is out: the third took its place */
    assert_int_equal(step(world, &extra, session, scene, 2), SUBMIT_QUEUED);
    command refused;
    assert_int_equal(step(world, &refused, session, scene, IN_FLIGHT + 1), SUBMIT_REFUSED);
    assert_int_equal(refused.error.code, CONTACTD_BUSY);
    scheduler_kick(world->scheduler);
    wait_for(world, IN_FLIGHT - 2 + 3 + 1);
    assert_true(repeats[0].superseded && repeats[1].superseded && !repeats[2].superseded);
    assert_true(repeats[2].out.step.cached);
    assert_ptr_equal(repeats[2].out.step.answer, steps[0].out.step.answer);
    assert_ptr_equal(extra.out.step.answer, steps[1].out.step.answer);
    assert_null(repeats[0].out.step.answer);
    assert_int_equal(metrics_counter_value(world->metrics, METRICS_STEPS), IN_FLIGHT);
    forget(&repeats[2], 1);
    forget(&extra, 1);
    forget(steps, IN_FLIGHT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_WORLD(test_steps_and_numbers),
        WITH_WORLD(test_failed_step_uses_its_number_up),
        WITH_WORLD(test_repeat_in_flight_takes_over),
        WITH_WORLD(test_repeats_wait_their_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

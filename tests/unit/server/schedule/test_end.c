/* The scheduler as a whole: ready, used by many threads, drained, stopped. */
#include <string.h>

#include "tests/unit/server/schedule/steps.h"

static void test_ready(void **state) {
    world *world = *state;
    char reason[256] = "";
    assert_true(scheduler_ready(world->scheduler, reason, sizeof reason));
    assert_string_equal(reason, "");
    /* Asked for one backend while another runs: not ready, and the reason names both. */
    scheduler_options options = {world->engine, "cuda", QUEUE, IN_FLIGHT, 0};
    server_error error = {0};
    scheduler *other = scheduler_start(&options, world->registry, world->metrics, &error);
    assert_non_null(other);
    assert_false(scheduler_ready(other, reason, sizeof reason));
    assert_non_null(strstr(reason, "cuda"));
    assert_non_null(strstr(reason, "cpu"));
    scheduler_stop(&other);
}

static void *execute(void *argument) {
    world *world = argument;
    uint64_t scene = open_scene(world, SESSION_NONE, 8);
    for (int i = 0; i < 50; i++) {
        add_settled_box(world, SESSION_NONE, scene, i * 0.01);
        command step = {.kind = COMMAND_STEP, .scene = scene};
        assert_true(scheduler_execute(world->scheduler, &step));
        step_answer_release(&step.out.step.answer);
    }
    command close = {.kind = COMMAND_CLOSE, .scene = scene};
    assert_true(scheduler_execute(world->scheduler, &close));
    return NULL;
}

static void test_many_threads(void **state) {
    pthread_t threads[4];
    world *world = *state;
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, execute, world);
    for (int i = 0; i < 300; i++) {
        scheduler_run_inline(world->scheduler);
        scene_record *records;
        size_t n;
        assert_true(registry_list_scenes(world->registry, &records, &n, NULL));
        free(records);
        usleep(100);
    }
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    assert_int_equal(metrics_counter_value(world->metrics, METRICS_STEPS), 200);
}

static void test_drain(void **state) {
    world *world = *state;
    uint64_t session = open_session(world), scene = open_scene(world, session, 8);
    command steps[3], late;
    for (int i = 0; i < 3; i++) assert_int_equal(step(world, &steps[i], session, scene, i + 1), SUBMIT_QUEUED);
    assert_true(scheduler_drain(world->scheduler, 60000));
    assert_int_equal(n_done, 3);
    assert_int_equal(steps[2].error.code, CONTACTD_OK);
    assert_int_equal(step(world, &late, session, scene, 4), SUBMIT_REFUSED);
    assert_int_equal(late.error.code, CONTACTD_SHUTTING_DOWN);
    char reason[64];
    assert_false(scheduler_ready(world->scheduler, reason, sizeof reason));
    forget(steps, 3);
}

static void test_what_is_queued_at_the_end_is_refused(void **state) {
    world *world = *state;
    uint64_t session = open_session(world), scene = open_scene(world, session, 8);
    command steps[3];
    for (int i = 0; i < 2; i++) assert_int_equal(step(world, &steps[i], session, scene, i + 1), SUBMIT_QUEUED);
    assert_int_equal(step(world, &steps[2], session, scene, 2), SUBMIT_QUEUED); /* takes the second one's place */
    scheduler_stop(&world->scheduler);
    assert_null(world->scheduler);
    assert_int_equal(n_done, 3);
    assert_int_equal(steps[0].error.code, CONTACTD_SHUTTING_DOWN);
    assert_true(steps[1].superseded);
    assert_int_equal(steps[2].error.code, CONTACTD_SHUTTING_DOWN);
    n_done = 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_WORLD(test_ready),
        WITH_WORLD(test_many_threads),
        WITH_WORLD(test_drain),
        WITH_WORLD(test_what_is_queued_at_the_end_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

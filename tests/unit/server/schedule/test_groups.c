/* Groups of steps: one place for all, refused as a whole or scene by scene, repeated and taken over. */
#include <string.h>

#include "tests/unit/server/schedule/steps.h"

enum { SCENES = 6 };

typedef struct group {
    command_group group;
    command steps[SCENES];
} group;

static void open_scenes(world *world, uint64_t session, uint64_t scenes[SCENES]) {
    for (int i = 0; i < SCENES; i++) {
        scenes[i] = open_scene(world, session, 8);
        add_settled_box(world, session, scenes[i], 0);
        add_settled_box(world, session, scenes[i], 0.25 + 0.05 * i);
    }
}

static bool submit(world *world, group *g, uint64_t session, const uint64_t *scenes, uint64_t number,
                   server_error *error) {
    memset(g, 0, sizeof *g);
    for (int i = 0; i < SCENES; i++) {
        g->steps[i] = (command){.kind = COMMAND_STEP, .session = session, .scene = scenes[i], .done = note_done};
        g->steps[i].in.step.sequence = number;
        g->steps[i].group = &g->group;
    }
    *error = (server_error){0};
    return scheduler_submit_group(world->scheduler, &g->group, g->steps, SCENES, error);
}

static uint32_t depth(world *world) {
    scheduler_facts facts;
    scheduler_get_facts(world->scheduler, &facts);
    return facts.queue_depth;
}

static void test_one_place_for_all(void **state) {
    world *world = *state;
    uint64_t session = open_session(world), scenes[SCENES];
    static group first, second;
    server_error error;
    open_scenes(world, session, scenes);
    assert_true(submit(world, &first, session, scenes, 1, &error));
    assert_int_equal(depth(world), 1);
    assert_true(submit(world, &second, session, scenes, 2, &error));
    assert_int_equal(depth(world), 2);
    scheduler_kick(world->scheduler);
    wait_for(world, 2 * SCENES);
    assert_int_equal(depth(world), 0);
    for (int i = 0; i < SCENES; i++) {
        const ct_result *result = step_answer_result(first.steps[i].out.step.answer);
        assert_non_null(result);
        assert_int_equal(result->n_contacts, 1);
    }
    forget(first.steps, SCENES);
    forget(second.steps, SCENES);
    assert_true(submit(world, &first, session, scenes, 2, &error)); /* a repeat */
    scheduler_kick(world->scheduler);
    wait_for(world, SCENES);
    for (int i = 0; i < SCENES; i++) assert_true(first.steps[i].out.step.cached);
    assert_int_equal(metrics_counter_value(world->metrics, METRICS_STEPS), 2 * SCENES);
    forget(first.steps, SCENES);
}

/* BUSY is for all of them, and uses no number up. */
static void test_busy_as_a_whole(void **state) {
    world *world = *state;
    uint64_t session = open_session(world), scenes[SCENES];
    static group groups[IN_FLIGHT + 1];
    server_error error;
    open_scenes(world, session, scenes);
    for (int i = 0; i < IN_FLIGHT; i++)
        assert_true(submit(world, &groups[i], session, scenes, 1 + (uint64_t)i, &error));
    group *one_more = &groups[IN_FLIGHT];
    assert_false(submit(world, one_more, session, scenes, IN_FLIGHT + 1, &error));
    assert_int_equal(error.code, CONTACTD_BUSY);
    assert_true(error.retry_after_ms > 0);
    assert_int_equal(n_done, 0);
    scheduler_kick(world->scheduler);
    wait_for(world, IN_FLIGHT * SCENES);
    for (int i = 0; i < IN_FLIGHT; i++) forget(groups[i].steps, SCENES);
    memset(one_more, 0, sizeof *one_more);
    for (int i = 0; i < SCENES; i++) {
        one_more->steps[i] = (command){.kind = COMMAND_STEP, .session = session, .scene = scenes[i], .done = note_done};
        one_more->steps[i].in.step.sequence = IN_FLIGHT + 1;
        one_more->steps[i].group = &one_more->group;
    }
    one_more->group.answer_room = 1; /* byte: no room for the answer */
    assert_false(scheduler_submit_group(world->scheduler, &one_more->group, one_more->steps, SCENES, &error));
    assert_non_null(strstr(error.message, "--unread-per-client"));
    assert_true(submit(world, one_more, session, scenes, IN_FLIGHT + 1, &error));
    scheduler_kick(world->scheduler);
    wait_for(world, SCENES);
    for (int i = 0; i < SCENES; i++) assert_non_null(step_answer_result(one_more->steps[i].out.step.answer));
    forget(one_more->steps, SCENES);
}

/* A scene that is gone, one of another client, one with another number, and one closed while its step waits. */
static void test_each_fails_alone(void **state) {
    world *world = *state;
    uint64_t session = open_session(world), other = open_session(world), scenes[SCENES];
    static group g;
    server_error error;
    open_scenes(world, session, scenes);
    command close = {.kind = COMMAND_CLOSE, .session = session, .scene = scenes[0]};
    assert_true(scheduler_execute(world->scheduler, &close));
    const uint64_t others = open_scene(world, other, 8);
    uint64_t asked[SCENES];
    memcpy(asked, scenes, sizeof asked);
    asked[1] = others;
    settle(world);
    assert_true(submit(world, &g, session, asked, 1, &error));
    assert_int_equal(n_done, 2); /* at once */
    assert_int_equal(g.steps[0].error.code, CONTACTD_STALE_HANDLE);
    assert_int_equal(g.steps[1].error.code, CONTACTD_FORBIDDEN);
    close = (command){.kind = COMMAND_CLOSE, .session = session, .scene = scenes[2]};
    assert_true(scheduler_execute(world->scheduler, &close));
    wait_for(world, SCENES);
    for (int i = 0; i < 2; i++) assert_null(g.steps[i].out.step.answer);
    for (int i = 3; i < SCENES; i++) assert_non_null(step_answer_result(g.steps[i].out.step.answer));
    forget(g.steps, SCENES);
    assert_true(submit(world, &g, session, scenes, 7, &error));
    assert_int_equal(n_done, SCENES);
    assert_int_equal(g.steps[SCENES - 1].error.code, CONTACTD_CONFLICT);
    assert_int_equal(depth(world), 0);
    n_done = 0;
}

/* A client that came back asks again while the first message waits: it alone is answered. */
static void test_a_repeat_takes_over(void **state) {
    world *world = *state;
    uint64_t session = open_session(world), scenes[SCENES];
    static group first, again;
    server_error error;
    open_scenes(world, session, scenes);
    assert_true(submit(world, &first, session, scenes, 1, &error));
    assert_true(submit(world, &again, session, scenes, 1, &error));
    scheduler_kick(world->scheduler);
    wait_for(world, 2 * SCENES);
    for (int i = 0; i < SCENES; i++) {
        assert_true(first.steps[i].superseded);
        assert_null(first.steps[i].out.step.answer);
        assert_non_null(step_answer_result(again.steps[i].out.step.answer));
    }
    assert_int_equal(metrics_counter_value(world->metrics, METRICS_STEPS), SCENES);
    assert_int_equal(depth(world), 0);
    forget(again.steps, SCENES);
}

static void test_roles_and_sessions(void **state) {
    world *world = *state;
    uint64_t session = open_session(world), scenes[SCENES];
    static group g;
    server_error error;
    open_scenes(world, session, scenes);
    assert_false(submit(world, &g, session + 12345, scenes, 1, &error));
    assert_int_equal(error.code, CONTACTD_STATE_LOST);
    memset(&g, 0, sizeof g);
    for (int i = 0; i < SCENES; i++) {
        g.steps[i] = (command){.kind = COMMAND_STEP, .session = session, .scene = scenes[i], .done = note_done};
        g.steps[i].who.role = ROLE_OPERATOR;
        g.steps[i].who.principal = 1;
        g.steps[i].group = &g.group;
    }
    error = (server_error){0};
    assert_false(scheduler_submit_group(world->scheduler, &g.group, g.steps, SCENES, &error));
    assert_int_equal(error.code, CONTACTD_FORBIDDEN);
    assert_int_equal(n_done, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_WORLD(test_one_place_for_all),   WITH_WORLD(test_busy_as_a_whole),    WITH_WORLD(test_each_fails_alone),
        WITH_WORLD(test_a_repeat_takes_over), WITH_WORLD(test_roles_and_sessions),
    };
    return cmocka_run_group_tests_name("groups of steps", tests, NULL, NULL);
}

/* Copies of scenes and resets: what they count for, and who may. world_free finds what is left over. */
#include <string.h>

#include "tests/unit/server/schedule/steps.h"

static uint64_t copy(world *world, uint64_t session, uint64_t scene, contactd_code expected) {
    command copy = {.kind = COMMAND_COPY, .session = session, .scene = scene};
    copy.in.copy.key = 77;
    scheduler_execute(world->scheduler, &copy);
    assert_int_equal(copy.error.code, expected);
    if (expected) return 0;
    assert_int_equal(copy.out.scene.key, 77);
    assert_int_equal(copy.out.scene.bodies, 2);
    assert_true(copy.out.scene.bytes > 0 && copy.out.scene.owner == session && copy.out.scene.handle != scene);
    return copy.out.scene.handle;
}

static void test_copy_uses_meshes(void **state) {
    world *world = *state;
    const uint64_t session = open_session(world), scene = open_scene(world, session, 8);
    add_box(world, session, scene, 0);
    const uint32_t second = add_box(world, session, scene, 0.3);
    const uint64_t made = copy(world, session, scene, CONTACTD_OK);
    registry_totals totals;
    registry_get_totals(world->registry, &totals);
    assert_int_equal(totals.bodies, 4);
    command close = {.kind = COMMAND_CLOSE, .session = session, .scene = scene};
    assert_true(scheduler_execute(world->scheduler, &close));
    server_error error = {0};
    assert_false(registry_remove_mesh(world->registry, world->box, NULL, &error)); /* the copy has it */
    assert_int_equal(error.code, CONTACTD_CONFLICT);
    command remove = {.kind = COMMAND_REMOVE_BODY, .session = session, .scene = made};
    remove.in.remove_body.body = second; /* of the same number */
    assert_true(scheduler_execute(world->scheduler, &remove));
    close = (command){.kind = COMMAND_CLOSE, .session = session, .scene = made};
    assert_true(scheduler_execute(world->scheduler, &close));
    assert_true(registry_remove_mesh(world->registry, world->box, NULL, &error));
}

static void test_reset(void **state) {
    world *world = *state;
    const uint64_t session = open_session(world), scene = open_scene(world, session, 8);
    const uint32_t body = add_box(world, session, scene, 0.25);
    command step = {.kind = COMMAND_STEP, .session = session, .scene = scene};
    const ct_update away = {.body = body, .kind = CT_UPDATE_POSE, .pose = {1, 0, 0, 9, 0, 1, 0, 9, 0, 0, 1, 9}};
    step.in.step.sequence = 1;
    step.in.step.updates = &away;
    step.in.step.n_updates = 1;
    assert_true(scheduler_execute(world->scheduler, &step));
    step_answer_release(&step.out.step.answer);
    for (int reset = 0; reset < 2; reset++) {
        command back = {.kind = COMMAND_RESET, .session = session, .scene = scene};
        if (reset) assert_true(scheduler_execute(world->scheduler, &back));
        command list = {.kind = COMMAND_LIST_BODIES, .session = session, .scene = scene};
        assert_true(scheduler_execute(world->scheduler, &list));
        assert_true(list.out.bodies.items[0].pose[3] == (reset ? 0.25 : 9));
        free(list.out.bodies.items);
    }
}

static void test_access(void **state) {
    world *world = *state;
    const uint64_t mine = open_session(world), yours = open_session(world), scene = open_scene(world, mine, 8);
    copy(world, yours, scene, CONTACTD_FORBIDDEN);
    copy(world, mine, 999, CONTACTD_NOT_FOUND);
    command reset = {.kind = COMMAND_RESET, .session = yours, .scene = scene};
    assert_false(scheduler_execute(world->scheduler, &reset));
    assert_int_equal(reset.error.code, CONTACTD_FORBIDDEN);
    const command_kind kinds[] = {COMMAND_RESET, COMMAND_COPY};
    for (int i = 0; i < 2; i++) {
        command operators = {
            .kind = kinds[i], .scene = scene, .who = {.principal = 1, .role = ROLE_OPERATOR, .name = "o"}};
        assert_false(scheduler_execute(world->scheduler, &operators));
        assert_int_equal(operators.error.code, CONTACTD_FORBIDDEN);
        assert_non_null(command_name(kinds[i]));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_WORLD(test_copy_uses_meshes),
        WITH_WORLD(test_reset),
        WITH_WORLD(test_access),
    };
    return cmocka_run_group_tests_name("copies", tests, NULL, NULL);
}

/* Who may do what with a scene: owners, roles, leases. */
#include "server/base/clock.h"
#include "tests/unit/server/schedule/steps.h"

static void test_owners(void **state) {
    world *world = *state;
    uint64_t mine = open_session(world), yours = open_session(world), scene = open_scene(world, mine, 8);
    command other;
    assert_int_equal(step(world, &other, yours, scene, 1), SUBMIT_REFUSED);
    assert_int_equal(other.error.code, CONTACTD_FORBIDDEN);
    other = (command){.kind = COMMAND_CLOSE, .session = yours, .scene = scene};
    assert_false(scheduler_execute(world->scheduler, &other));
    assert_int_equal(other.error.code, CONTACTD_FORBIDDEN);
    other = (command){.kind = COMMAND_CONFIGURE, .session = yours, .scene = scene};
    other.in.configure.settings = (ct_settings_change){CT_GIVEN(CT_SETTING_RESOLUTION), {.resolution = {16, 16, 16}}};
    assert_true(scheduler_execute(world->scheduler, &other));
    assert_int_equal(other.out.scene.settings.resolution[2], 16);

    /* A scene opened over HTTP belongs to the first session that steps it. */
    uint64_t found = open_scene(world, SESSION_NONE, 8);
    scene_record record;
    assert_true(registry_scene(world->registry, found, &record, &other.error));
    assert_int_equal(record.owner, SESSION_NONE);
    assert_int_equal(step(world, &other, yours, found, 1), SUBMIT_QUEUED);
    scheduler_kick(world->scheduler);
    wait_for(world, 1);
    forget(&other, 1);
    assert_true(registry_scene(world->registry, found, &record, &other.error));
    assert_int_equal(record.owner, yours);
    assert_string_equal(record.owner_name, "test");
    assert_int_equal(step(world, &other, mine, found, 1), SUBMIT_REFUSED);
    assert_int_equal(other.error.code, CONTACTD_FORBIDDEN);

    other = (command){.kind = COMMAND_CLOSE, .session = SESSION_NONE, .scene = scene};
    assert_true(scheduler_execute(world->scheduler, &other));
    assert_int_equal(step(world, &other, mine, scene, 1), SUBMIT_REFUSED);
    assert_int_equal(other.error.code, CONTACTD_STALE_HANDLE);
    assert_int_equal(step(world, &other, mine, 999, 1), SUBMIT_REFUSED);
    assert_int_equal(other.error.code, CONTACTD_NOT_FOUND);
    assert_int_equal(step(world, &other, 12345, found, 2), SUBMIT_REFUSED);
    assert_int_equal(other.error.code, CONTACTD_STATE_LOST);
}

/* A simulator uses its principal's own scenes and meshes, an operator looks and configures. */
static void test_roles(void **state) {
    world *world = *state;
    const identity mine = {.principal = 1, .role = ROLE_SIMULATOR, .name = "mine"},
                   other = {.principal = 2, .role = ROLE_SIMULATOR, .name = "other"},
                   looker = {.principal = 3, .role = ROLE_OPERATOR, .name = "looker"},
                   admin = {.principal = 4, .role = ROLE_ADMIN, .name = "admin"};
    register_box(world, &mine);
    command open = {.kind = COMMAND_OPEN, .who = mine};
    assert_true(scheduler_execute(world->scheduler, &open));
    uint64_t scene = open.out.scene.handle;
    static const command_kind kinds[] = {COMMAND_CONFIGURE,   COMMAND_LIST_BODIES, COMMAND_ADD_BODY,     COMMAND_STEP,
                                         COMMAND_REMOVE_BODY, COMMAND_OPEN,        COMMAND_REPLACE_MESH, COMMAND_CLOSE};
    const struct {
        const identity *who;
        const char *may; /* of each kind: +, - forbidden, 0 not found, as if it were not there */
    } rows[] = {{&other, "00000+00"}, {&looker, "++------"}, {&admin, "++++++++"}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            command command = {.kind = kinds[k], .scene = scene, .who = *rows[r].who};
            if (kinds[k] == COMMAND_ADD_BODY) {
                command.in.add_body.mesh = world->box;
                ct_body_options_init(&command.in.add_body.options);
            }
            scheduler_execute(world->scheduler, &command);
            bool forbidden = command.error.code == CONTACTD_FORBIDDEN;
            bool is_hidden = command.error.code == CONTACTD_NOT_FOUND && strcmp(command.error.field, "scene") == 0;
            if (forbidden != (rows[r].may[k] == '-') || is_hidden != (rows[r].may[k] == '0'))
                fail_msg("%s, command %d: %s", rows[r].who->name, kinds[k], command.error.message);
            if (kinds[k] == COMMAND_STEP) step_answer_release(&command.out.step.answer);
            if (kinds[k] == COMMAND_LIST_BODIES) free(command.out.bodies.items);
        }
    }
    /* In a scene of its own, another's mesh is not there for a simulator. */
    command second = {.kind = COMMAND_OPEN, .who = other};
    assert_true(scheduler_execute(world->scheduler, &second));
    command add = {.kind = COMMAND_ADD_BODY, .scene = second.out.scene.handle, .who = other};
    add.in.add_body.mesh = world->box;
    ct_body_options_init(&add.in.add_body.options);
    assert_false(scheduler_execute(world->scheduler, &add));
    assert_int_equal(add.error.code, CONTACTD_NOT_FOUND);
    register_box(world, &other);
    assert_true(scheduler_execute(world->scheduler, &add));
}

static void test_lease(void **state) {
    world *world = *state;
    session_record session;
    server_error error = {0};
    bool had_left;
    assert_true(registry_open_session(world->registry, "short", 20000, &session, &error));
    uint64_t scene = open_scene(world, session.token, 8);
    add_settled_box(world, session.token, scene, 0);
    scheduler_reap(world->scheduler, clock_ns());
    assert_true(registry_touch_session(world->registry, session.token, PRINCIPAL_NONE, &had_left, &error));
    struct session *silent = session_acquire(world->registry, session.token, &error);
    atomic_store(&silent->heard_ns, 0); /* as long ago as the clock can tell */
    session_release(&silent);
    scheduler_reap(world->scheduler, clock_ns());
    assert_false(registry_touch_session(world->registry, session.token, PRINCIPAL_NONE, &had_left, &error));
    assert_int_equal(error.code, CONTACTD_STATE_LOST);
    registry_totals totals;
    for (int i = 0; i < 60000; i++) {
        registry_get_totals(world->registry, &totals);
        if (totals.scenes == 0) break;
        usleep(1000);
    }
    assert_int_equal(totals.scenes, 0);
    assert_int_equal(totals.bodies, 0);
    error = (server_error){0};
    assert_true(registry_remove_mesh(world->registry, world->box, NULL, &error)); /* nothing uses it any more */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_WORLD(test_owners),
        WITH_WORLD(test_roles),
        WITH_WORLD(test_lease),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

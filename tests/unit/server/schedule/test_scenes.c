/* What a scene is and has: settings, bodies, snapshots. */
#include <string.h>

#include "tests/unit/server/schedule/steps.h"

static void test_settings_are_checked(void **state) {
    world *world = *state;
    uint64_t scene = open_scene(world, SESSION_NONE, 8);
    for (uint32_t resolution = 0; resolution <= 1000000; resolution += 1000000) {
        command command = {.kind = COMMAND_CONFIGURE, .scene = scene};
        command.in.configure.settings =
            (ct_settings_change){CT_GIVEN(CT_SETTING_RESOLUTION), {.resolution = {resolution, resolution, resolution}}};
        assert_false(scheduler_execute(world->scheduler, &command));
        assert_int_equal(command.error.code, CONTACTD_OUT_OF_RANGE);
        assert_string_equal(command.error.field, "resolution");
    }
    scene_record record;
    assert_true(registry_scene(world->registry, scene, &record, NULL));
    assert_int_equal(record.settings.resolution[0], 8);
}

/* A patch to an open scene, and what the scene has afterwards. */
static scene_record patched(world *world, uint64_t scene, ct_settings_change patch) {
    command command = {.kind = COMMAND_CONFIGURE, .scene = scene};
    command.in.configure.settings = patch;
    if (!scheduler_execute(world->scheduler, &command)) fail_msg("%s", command.error.message);
    return command.out.scene;
}

/* Who names a resolution or a pixel size, and no method, gets LDI. Who names AUTO drops both. */
static void test_sampling_chooses_the_method(void **state) {
    world *world = *state;
    const ct_method chosen = ct_engine_auto_method(world->engine);
    command open = {.kind = COMMAND_OPEN};
    assert_true(scheduler_execute(world->scheduler, &open));
    scene_record record = open.out.scene;
    const uint64_t scene = record.handle;
    assert_int_equal(record.settings.method, CT_METHOD_AUTO);
    assert_int_equal(record.settings.resolution[0], 0);
    assert_int_equal(record.running.method, chosen);

    record = patched(world, scene,
                     (ct_settings_change){CT_GIVEN(CT_SETTING_PIXEL_SIZE), {.pixel_size = 0}}); /* names none */
    assert_int_equal(record.settings.method, CT_METHOD_AUTO);
    record = patched(world, scene, (ct_settings_change){CT_GIVEN(CT_SETTING_RESOLUTION), {.resolution = {8, 9, 10}}});
    assert_int_equal(record.settings.method, CT_METHOD_LDI);
    assert_int_equal(record.running.method, CT_METHOD_LDI);
    assert_int_equal(record.running.resolution[2], 10);
    record = patched(world, scene, (ct_settings_change){CT_GIVEN(CT_SETTING_STIFFNESS), {.stiffness = 5}});
    assert_int_equal(record.settings.method, CT_METHOD_LDI);

    record = patched(world, scene, (ct_settings_change){CT_GIVEN(CT_SETTING_METHOD), {.method = CT_METHOD_AUTO}});
    assert_int_equal(record.settings.resolution[2], 0);
    assert_true(record.settings.stiffness == 5);
    assert_int_equal(record.running.method, chosen);
    record = patched(world, scene, (ct_settings_change){CT_GIVEN(CT_SETTING_PIXEL_SIZE), {.pixel_size = 0.5}});
    assert_int_equal(record.running.method, CT_METHOD_LDI);
    assert_int_equal(record.running.resolution[0], CT_DEFAULT_RESOLUTION);

    record = patched(world, scene, (ct_settings_change){CT_GIVEN(CT_SETTING_METHOD), {.method = CT_METHOD_EXACT}});
    assert_int_equal(record.running.method, CT_METHOD_EXACT);
    assert_true(record.settings.pixel_size == 0 && record.settings.resolution[0] == 0);
    record = patched(world, scene, (ct_settings_change){CT_GIVEN(CT_SETTING_RESOLUTION), {.resolution = {4, 4, 4}}});
    assert_int_equal(record.settings.method, CT_METHOD_LDI);

    record = patched(world, scene,
                     (ct_settings_change){CT_GIVEN(CT_SETTING_METHOD) | CT_GIVEN(CT_SETTING_RESOLUTION),
                                          {.method = CT_METHOD_AUTO, .resolution = {16, 16, 16}}});
    assert_int_equal(record.settings.method, CT_METHOD_AUTO);
    assert_true(record.settings.pixel_size == 0);
    assert_int_equal(record.running.method, CT_METHOD_LDI);
    assert_int_equal(record.running.resolution[0], 16);
    command refused = {.kind = COMMAND_CONFIGURE, .scene = scene};
    refused.in.configure.settings = (ct_settings_change){CT_GIVEN(CT_SETTING_METHOD) | CT_GIVEN(CT_SETTING_RESOLUTION),
                                                         {.method = CT_METHOD_EXACT, .resolution = {16, 16, 16}}};
    assert_false(scheduler_execute(world->scheduler, &refused));
    assert_int_equal(refused.error.code, CONTACTD_INVALID_ARGUMENT);
    assert_string_equal(refused.error.field, "resolution");
}

static void test_bodies(void **state) {
    world *world = *state;
    uint64_t scene = open_scene(world, SESSION_NONE, 8);
    uint32_t a = add_settled_box(world, SESSION_NONE, scene, 0), b = add_settled_box(world, SESSION_NONE, scene, 2);
    command list = {.kind = COMMAND_LIST_BODIES, .scene = scene};
    assert_true(scheduler_execute(world->scheduler, &list));
    assert_int_equal(list.out.bodies.n, 2);
    assert_int_equal(list.out.bodies.items[0].body, a);
    assert_int_equal(list.out.bodies.items[1].mesh, world->box);
    assert_true(list.out.bodies.items[1].pose[3] == 2);
    free(list.out.bodies.items);
    server_error error = {0};
    assert_false(registry_remove_mesh(world->registry, world->box, NULL, &error));
    assert_int_equal(error.code, CONTACTD_CONFLICT);
    command replace = {.kind = COMMAND_REPLACE_MESH, .scene = scene};
    replace.in.replace_mesh.body = a;
    replace.in.replace_mesh.mesh = world->box;
    assert_true(scheduler_execute(world->scheduler, &replace)); /* by itself: it is still used twice */
    replace.in.replace_mesh.body = 99;
    assert_false(scheduler_execute(world->scheduler, &replace));
    assert_int_equal(replace.error.code, CONTACTD_NOT_FOUND);
    replace.in.replace_mesh.mesh = 0;
    assert_false(scheduler_execute(world->scheduler, &replace));
    assert_int_equal(replace.error.code, CONTACTD_INVALID_ARGUMENT);
    command remove = {.kind = COMMAND_REMOVE_BODY, .scene = scene};
    remove.in.remove_body.body = a;
    assert_true(scheduler_execute(world->scheduler, &remove));
    assert_false(scheduler_execute(world->scheduler, &remove));
    assert_int_equal(remove.error.code, CONTACTD_NOT_FOUND);
    remove.in.remove_body.body = b;
    assert_true(scheduler_execute(world->scheduler, &remove));
    error = (server_error){0};
    assert_true(registry_remove_mesh(world->registry, world->box, NULL, &error));
    command add = {.kind = COMMAND_ADD_BODY, .scene = scene};
    add.in.add_body.mesh = world->box;
    ct_body_options_init(&add.in.add_body.options);
    assert_false(scheduler_execute(world->scheduler, &add));
    assert_int_equal(add.error.code, CONTACTD_STALE_HANDLE);
}

/* Every session may take a snapshot, in the order of the scene's commands; but the I/O thread does not run it. */
static void test_snapshots(void **state) {
    world *world = *state;
    uint64_t mine = open_session(world), scene = open_scene(world, mine, 8);
    add_settled_box(world, mine, scene, 0);
    uint32_t moved = add_settled_box(world, mine, scene, 0.5);
    command first = {.kind = COMMAND_SNAPSHOT, .session = open_session(world), .scene = scene, .done = note_done},
            second;
    ct_snapshot_options_init(&first.in.snapshot.options);
    second = first;
    second.in.snapshot.options.contact[0] = moved;
    second.in.snapshot.options.contact[1] = 999;
    assert_int_equal(scheduler_submit(world->scheduler, &first), SUBMIT_QUEUED);
    scheduler_run_inline(world->scheduler);
    wait_for(world, 1);
    assert_false(pthread_equal(done_by, pthread_self()));
    assert_ptr_equal(done[0], &first);
    assert_int_equal(first.error.code, CONTACTD_OK);
    assert_non_null(first.out.snapshot);
    ct_snapshot_free(&first.out.snapshot);
    assert_int_equal(scheduler_submit(world->scheduler, &second), SUBMIT_QUEUED);
    scheduler_kick(world->scheduler);
    wait_for(world, 2);
    assert_int_equal(second.error.code, CONTACTD_NOT_FOUND);
    assert_non_null(strstr(second.error.message, "body 999"));
    assert_null(second.out.snapshot);
    forget(&first, 0);
    scene_record record;
    assert_true(registry_scene(world->registry, scene, &record, &first.error));
    assert_int_equal(record.steps, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_WORLD(test_settings_are_checked),
        WITH_WORLD(test_sampling_chooses_the_method),
        WITH_WORLD(test_bodies),
        WITH_WORLD(test_snapshots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

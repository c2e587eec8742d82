/* What sessions and principals get of the queue, of scenes and their memory, and of the workers' time. */
#include <string.h>

#include "server/base/clock.h"
#include "tests/unit/server/schedule/steps.h"

/* The last quarter of the queue is for sessions that have less than their share of it. */
static void test_shares_of_the_queue(void **state) {
    world *world = *state;
    world_free(world);
    world = *state = world_new();
    world_start(world, 16, 16, 0);
    settle(world);
    uint64_t many = open_session(world), few = open_session(world);
    uint64_t of_many = open_scene(world, many, 8), of_few = open_scene(world, few, 8);
    command steps[16], others[4], extra;
    for (int i = 0; i < 12; i++) assert_int_equal(step(world, &steps[i], many, of_many, i + 1), SUBMIT_QUEUED);
    assert_int_equal(step(world, &extra, many, of_many, 13), SUBMIT_REFUSED);
    assert_int_equal(extra.error.code, CONTACTD_BUSY);
    for (int i = 0; i < 4; i++) assert_int_equal(step(world, &others[i], few, of_few, i + 1), SUBMIT_QUEUED);
    assert_int_equal(step(world, &extra, few, of_few, 5), SUBMIT_REFUSED);
    scheduler_kick(world->scheduler);
    wait_for(world, 16);
    assert_int_equal(world->scheduler->n_busy_sessions, 0);
    forget(steps, 12);
    forget(others, 4);
}

/* However many sessions a principal opens, the other half of the queue is for others. */
static void test_shares_of_principals(void **state) {
    enum { SESSIONS = 4 };
    world *world = *state;
    world_free(world);
    world = *state = world_new();
    world_start(world, 16, 16, 0);
    settle(world);
    uint64_t sessions[SESSIONS + 1], scenes[SESSIONS + 1];
    for (int i = 0; i <= SESSIONS; i++) {
        sessions[i] = open_session(world);
        command open = {.kind = COMMAND_OPEN, .session = sessions[i]};
        open.who = (identity){
            .principal = i < SESSIONS ? 1 : 2, .role = ROLE_SIMULATOR, .name = "someone", .others_weight = 1};
        open.in.open.settings = (ct_settings_change){CT_GIVEN(CT_SETTING_RESOLUTION), {.resolution = {8, 8, 8}}};
        assert_true(scheduler_execute(world->scheduler, &open));
        scenes[i] = open.out.scene.handle;
    }
    command steps[16];
    for (int i = 0; i < 16; i++) {
        int who = i < 8 ? i % SESSIONS : SESSIONS;
        uint64_t number = i < 8 ? i / SESSIONS + 1 : i - 8 + 1;
        steps[i] = (command){.kind = COMMAND_STEP, .session = sessions[who], .scene = scenes[who], .done = note_done};
        steps[i].who = (identity){
            .principal = who < SESSIONS ? 1 : 2, .role = ROLE_SIMULATOR, .name = "someone", .others_weight = 1};
        steps[i].in.step.sequence = number;
        if (i == 8) { /* the flood goes on, and finds its half full */
            for (int k = 0; k < SESSIONS; k++) {
                command extra = steps[k];
                extra.in.step.sequence = 3;
                assert_int_equal(scheduler_submit(world->scheduler, &extra), SUBMIT_REFUSED);
                assert_int_equal(extra.error.code, CONTACTD_BUSY);
                assert_non_null(strstr(extra.error.message, "commands of someone wait"));
            }
        }
        assert_int_equal(scheduler_submit(world->scheduler, &steps[i]), SUBMIT_QUEUED);
    }
    scheduler_kick(world->scheduler);
    wait_for(world, 16);
    assert_int_equal(world->scheduler->shares.n_busy, 0);
    assert_int_equal(shares_used(&world->scheduler->shares, 1), 0);
    for (int i = 0; i < 16; i++) assert_int_equal(steps[i].error.code, CONTACTD_OK);
    forget(steps, 16);
}

/* Half of the scenes is divided among the listed principals, the other half is first come, first served. */
static void test_shares_of_scenes(void **state) {
    world *world = *state;
    const uint32_t limit = world->registry->limits.max_scenes;
    const identity flood = {.principal = 1, .role = ROLE_SIMULATOR, .name = "flood", .others_weight = 1},
                   quiet = {.principal = 2, .role = ROLE_SIMULATOR, .name = "quiet", .others_weight = 1};
    command open = {.kind = COMMAND_OPEN, .who = flood};
    uint64_t last = 0;
    uint32_t n = 0;
    for (; scheduler_execute(world->scheduler, &open); n++) {
        last = open.out.scene.handle;
        open = (command){.kind = COMMAND_OPEN, .who = flood};
    }
    assert_int_equal(n, limit - limit / 2 + limit / 4);
    assert_int_equal(open.error.code, CONTACTD_LIMIT_EXCEEDED);
    assert_non_null(strstr(open.error.message, "scenes of flood are open; its share of --max-scenes"));
    assert_true(server_error_may_retry(&open.error));
    for (uint32_t i = 0; i < limit / 4; i++) {
        open = (command){.kind = COMMAND_OPEN, .who = quiet};
        assert_true(scheduler_execute(world->scheduler, &open));
    }
    command close = {.kind = COMMAND_CLOSE, .scene = last, .who = flood};
    assert_true(scheduler_execute(world->scheduler, &close));
    open = (command){.kind = COMMAND_OPEN, .who = flood};
    assert_true(scheduler_execute(world->scheduler, &open));
}

static bool open_from(world *world, uint32_t origin, command *open) {
    *open = (command){.kind = COMMAND_OPEN, .who = {.origin = origin}};
    return scheduler_execute(world->scheduler, open);
}

/* Scenes opened over HTTP without principal: an eighth for an address, half for all, the rest is the stream's. */
static void test_shares_of_addresses(void **state) {
    world *world = *state;
    const uint32_t limit = world->registry->limits.max_scenes = 160;
    registry *registry = world->registry;
    registry->n_scenes.limit = limit;
    command open, first;
    assert_true(open_from(world, 1, &first));
    for (uint32_t i = 1; i < limit / 8; i++) assert_true(open_from(world, 1, &open));
    assert_false(open_from(world, 1, &open));
    assert_int_equal(open.error.code, CONTACTD_LIMIT_EXCEEDED);
    assert_non_null(strstr(open.error.message, "from this address"));
    assert_true(server_error_may_retry(&open.error));
    for (uint32_t origin = 2; origin <= 4; origin++)
        for (uint32_t i = 0; i < limit / 8; i++) assert_true(open_from(world, origin, &open));
    assert_false(open_from(world, 5, &open));
    assert_non_null(strstr(open.error.message, "half of --max-scenes"));
    /* A client of the stream opens the rest, and takes one that was opened over HTTP, which makes room for another. */
    uint64_t session = open_session(world);
    for (uint32_t i = 0; i < limit / 2 - 1; i++) open_scene(world, session, 8);
    assert_int_equal(registry->n_strays, limit / 2);
    add_settled_box(world, session, first.out.scene.handle, 0);
    assert_int_equal(registry->n_strays, limit / 2 - 1);
    assert_true(open_from(world, 1, &open));
    command close = {.kind = COMMAND_CLOSE, .scene = open.out.scene.handle};
    assert_true(scheduler_execute(world->scheduler, &close));
    assert_int_equal(registry->n_strays, limit / 2 - 1);
    assert_int_equal(registry->strays_of[1], limit / 8 - 1);
}

/* One that was never stepped lives for 5 minutes, whatever its time to live. */
static void test_life_without_steps(void **state) {
    world *world = *state;
    const uint64_t unstepped_ns = REGISTRY_UNSTEPPED_S * UINT64_C(1000000000), second_ns = 1000000000;
    command opens[4];
    static const uint32_t ttl_s[] = {0, 3600, 3600, 10};
    for (int i = 0; i < 4; i++) {
        opens[i] = (command){.kind = COMMAND_OPEN, .who = {.origin = i == 2 ? 0 : 7}};
        opens[i].in.open.ttl_s = ttl_s[i];
        assert_true(scheduler_execute(world->scheduler, &opens[i]));
    }
    uint64_t expired[8], now = clock_ns();
    assert_int_equal(registry_expired_scenes(world->registry, now + 12 * second_ns, expired, 8), 1);
    assert_int_equal(expired[0], opens[3].out.scene.handle);
    assert_int_equal(registry_expired_scenes(world->registry, now + unstepped_ns - second_ns, expired, 8), 1);
    assert_int_equal(registry_expired_scenes(world->registry, now + unstepped_ns + second_ns, expired, 8), 3);
    command step = {.kind = COMMAND_STEP, .scene = opens[1].out.scene.handle};
    assert_true(scheduler_execute(world->scheduler, &step));
    step_answer_release(&step.out.step.answer);
    now = clock_ns();
    assert_int_equal(registry_expired_scenes(world->registry, now + unstepped_ns + second_ns, expired, 8), 2);
    assert_int_equal(registry_expired_scenes(world->registry, now + 3601 * second_ns, expired, 8), 4);
}

/* Bodies count for the principal that opened the scene, also where an admin adds them. */
static void test_shares_of_scene_memory(void **state) {
    world *world = *state;
    const identity owner = {.principal = 1, .role = ROLE_SIMULATOR, .name = "owner", .others_weight = 1},
                   admin = {.principal = 2, .role = ROLE_ADMIN, .name = "admin", .others_weight = 1};
    command open = {.kind = COMMAND_OPEN, .who = owner};
    assert_true(scheduler_execute(world->scheduler, &open));
    command add = {.kind = COMMAND_ADD_BODY, .scene = open.out.scene.handle, .who = admin};
    add.in.add_body.mesh = world->box;
    ct_body_options_init(&add.in.add_body.options);
    assert_true(scheduler_execute(world->scheduler, &add));
    shares *bytes = &world->registry->scene_bytes;
    assert_true(shares_used(bytes, 1) > 0);
    assert_int_equal(shares_used(bytes, 1), bytes->used);
    assert_int_equal(shares_used(bytes, 2), 0);
    bytes->limit = 2 * bytes->used; /* now the owner has more than its quarter, and the other half but for one body */
    server_error error = {0};
    assert_false(registry_has_scene_room(world->registry, bytes->used, &owner, "scene 1", &error));
    assert_int_equal(error.code, CONTACTD_LIMIT_EXCEEDED);
    assert_non_null(strstr(error.message, "scenes of owner hold"));
    assert_non_null(strstr(error.message, "--principals"));
    command close = {.kind = COMMAND_CLOSE, .scene = open.out.scene.handle, .who = owner};
    assert_true(scheduler_execute(world->scheduler, &close));
    assert_int_equal(bytes->used, 0);
}

/* One with many scenes and one with a single one: the single one is not at the end. */
static void test_sessions_take_turns(void **state) {
    world *world = *state;
    uint64_t many = open_session(world), one = open_session(world);
    uint64_t scenes[6];
    command steps[7];
    for (int i = 0; i < 6; i++) {
        scenes[i] = open_scene(world, many, 8);
        assert_int_equal(step(world, &steps[i], many, scenes[i], 1), SUBMIT_QUEUED);
    }
    assert_int_equal(step(world, &steps[6], one, open_scene(world, one, 8), 1), SUBMIT_QUEUED);
    scheduler_kick(world->scheduler);
    wait_for(world, 7);
    assert_ptr_equal(done[0], &steps[0]);
    assert_ptr_equal(done[1], &steps[6]);
    forget(steps, 7);
}

/* Principals by fair queueing, however many sessions they have; a weight counts. */
static void test_principals_take_turns_by_weight(void **state) {
    world *world = *state;
    enum { FLOOD = 4, NEIGHBOUR = 3, N = FLOOD + NEIGHBOUR };
    const identity whose[2] = {
        {.principal = 1, .role = ROLE_SIMULATOR, .name = "flood", .weight = 1, .others_weight = 2},
        {.principal = 2, .role = ROLE_SIMULATOR, .name = "neighbour", .weight = 2, .others_weight = 1}};
    command steps[N];
    for (int i = 0; i < N; i++) {
        const identity *who = &whose[i >= FLOOD];
        uint64_t session = open_session(world);
        registry_bind_session(world->registry, session, who->principal);
        command open = {.kind = COMMAND_OPEN, .session = session, .who = *who};
        open.in.open.settings = (ct_settings_change){CT_GIVEN(CT_SETTING_RESOLUTION), {.resolution = {8, 8, 8}}};
        assert_true(scheduler_execute(world->scheduler, &open));
        steps[i] = (command){.kind = COMMAND_STEP, .session = session, .scene = open.out.scene.handle, .who = *who};
        steps[i].done = note_done;
        steps[i].in.step.sequence = 1;
        assert_int_equal(scheduler_submit(world->scheduler, &steps[i]), SUBMIT_QUEUED);
    }
    scheduler_kick(world->scheduler);
    wait_for(world, N);
    /* All steps are expected to cost c. The flood has had c, then 2 c; the neighbour c/2, c, 3/2 c. */
    static const int order[N] = {0, 4, 5, 1, 6, 2, 3};
    for (int i = 0; i < N; i++) assert_ptr_equal(done[i], &steps[order[i]]);
    assert_true(world->scheduler->is_shared);
    forget(steps, N);
}

/* A small step does not wait for another principal's larger ones in its own batch. */
static void test_principals_do_not_lengthen_each_others_batches(void **state) {
    world *world = *state;
    enum { FLOOD = 5, N = 1 + FLOOD };
    const identity whose[2] = {
        {.principal = 1, .role = ROLE_SIMULATOR, .name = "neighbour", .weight = 1, .others_weight = 1},
        {.principal = 2, .role = ROLE_SIMULATOR, .name = "flood", .weight = 1, .others_weight = 1}};
    command steps[N];
    for (int i = 0; i < N; i++) {
        const identity *who = &whose[i > 0];
        const uint32_t rays = i ? 64 : 8; /* by their cost, all six would share a batch */
        uint64_t session = open_session(world);
        registry_bind_session(world->registry, session, who->principal);
        command open = {.kind = COMMAND_OPEN, .session = session, .who = *who};
        open.in.open.settings =
            (ct_settings_change){CT_GIVEN(CT_SETTING_RESOLUTION), {.resolution = {rays, rays, rays}}};
        assert_true(scheduler_execute(world->scheduler, &open));
        steps[i] = (command){.kind = COMMAND_STEP, .session = session, .scene = open.out.scene.handle, .who = *who};
        steps[i].done = note_done;
        steps[i].in.step.sequence = 1;
        assert_int_equal(scheduler_submit(world->scheduler, &steps[i]), SUBMIT_QUEUED);
    }
    scheduler_kick(world->scheduler);
    wait_for(world, N);
    scheduler_facts facts;
    scheduler_get_facts(world->scheduler, &facts);
    assert_ptr_equal(done[0], &steps[0]);
    assert_int_equal(facts.lanes[SCHEDULE_SMALL].steps, N);
    assert_int_equal(facts.lanes[SCHEDULE_SMALL].batches, 2);
    forget(steps, N);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_WORLD(test_shares_of_the_queue),
        WITH_WORLD(test_shares_of_principals),
        WITH_WORLD(test_shares_of_scenes),
        WITH_WORLD(test_shares_of_addresses),
        WITH_WORLD(test_life_without_steps),
        WITH_WORLD(test_shares_of_scene_memory),
        WITH_WORLD(test_sessions_take_turns),
        WITH_WORLD(test_principals_take_turns_by_weight),
        WITH_WORLD(test_principals_do_not_lengthen_each_others_batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

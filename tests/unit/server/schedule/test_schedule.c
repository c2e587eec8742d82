/* The scheduler over the real engine: order, repeats, BUSY, deadlines, owners, fairness, leases, the end. Commands are
 * handed in without waking the worker, so that what is queued is known. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "server/clock.h"
#include "tests/unit/server/schedule/world.h"

enum { QUEUE = 24, IN_FLIGHT = 8 };

/* One more than the box's own vertices: never valid. */
static const float positions[9][3];

/* Waits until the workers sleep, which they then do until they are kicked. */
static void settle(world *world) {
    for (bool busy = true; busy;) {
        scheduler *scheduler = world->scheduler;
        pthread_mutex_lock(&scheduler->lock);
        busy = !scheduler_is_idle(scheduler);
        /* A worker that has not started yet would find steps before it is woken. */
        for (uint32_t i = 0; i < scheduler->n_runners; i++) busy |= scheduler->runners[i].asleep_until == 0;
        pthread_mutex_unlock(&scheduler->lock);
        if (busy) sched_yield();
    }
}

static int setup(void **state) {
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

static int teardown(void **state) {
    world_free(*state);
    return 0;
}

/* Once the workers sleep again. */
static uint32_t add_settled_box(world *world, uint64_t session, uint64_t scene, double shift) {
    uint32_t body = add_box(world, session, scene, shift);
    settle(world);
    return body;
}

/* What became of commands, in the order in which they were done. */
static pthread_mutex_t done_lock = PTHREAD_MUTEX_INITIALIZER;
static command *done[256];
static int n_done;
static pthread_t done_by; /* the last of them */

static void note_done(command *command) {
    pthread_mutex_lock(&done_lock);
    done_by = pthread_self();
    done[n_done++] = command;
    pthread_mutex_unlock(&done_lock);
}

static void wait_for(world *world, int n) {
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

static submit_outcome step(world *world, command *command, uint64_t session, uint64_t scene, uint64_t number) {
    *command = (struct command){.kind = COMMAND_STEP, .session = session, .scene = scene, .done = note_done};
    command->in.step.sequence = number;
    return scheduler_submit(world->scheduler, command);
}

static void forget(command *commands, int n) {
    for (int i = 0; i < n; i++) step_answer_release(&commands[i].out.step.answer);
    n_done = 0;
}

/* Of one that is answered: done is called for it as for a step. */
static void repeat_step(world *world, command *command, uint64_t session, uint64_t scene, uint64_t number) {
    int before = n_done;
    assert_int_equal(step(world, command, session, scene, number), SUBMIT_QUEUED);
    scheduler_kick(world->scheduler);
    wait_for(world, before + 1);
    assert_true(command->out.step.cached);
}

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
        open.in.open.settings = (scene_patch){.has_resolution = true, .resolution = {8, 8, 8}};
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

/* A simulator uses its principal's own scenes and meshes, an operator looks and configures. */
static void test_roles(void **state) {
    world *world = *state;
    const identity mine = {.principal = 1, .role = ROLE_SIMULATOR, .name = "mine"},
                   other = {.principal = 2, .role = ROLE_SIMULATOR, .name = "other"},
                   looker = {.principal = 3, .role = ROLE_OPERATOR, .name = "looker"},
                   admin = {.principal = 4, .role = ROLE_ADMIN, .name = "admin"};
    server_error error = {0};
    assert_true(registry_own_mesh(world->registry, world->box, &mine, &error));
    command open = {.kind = COMMAND_OPEN, .who = mine};
    assert_true(scheduler_execute(world->scheduler, &open));
    uint64_t scene = open.out.scene.handle;
    static const command_kind kinds[] = {COMMAND_CONFIGURE,   COMMAND_LIST_BODIES, COMMAND_ADD_BODY,     COMMAND_STEP,
                                         COMMAND_REMOVE_BODY, COMMAND_OPEN,        COMMAND_REPLACE_MESH, COMMAND_CLOSE};
    const struct {
        const identity *who;
        const char *may; /* of each kind, + or - */
    } rows[] = {{&other, "-----+--"}, {&looker, "++------"}, {&admin, "++++++++"}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            command command = {.kind = kinds[k], .scene = scene, .who = *rows[r].who};
            if (kinds[k] == COMMAND_ADD_BODY) {
                command.in.add_body.mesh = world->box;
                ct_body_options_init(&command.in.add_body.options);
            }
            scheduler_execute(world->scheduler, &command);
            bool forbidden = command.error.code == CONTACTD_FORBIDDEN;
            if (forbidden != (rows[r].may[k] == '-'))
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
    assert_int_equal(add.error.code, CONTACTD_FORBIDDEN);
    assert_true(registry_own_mesh(world->registry, world->box, &other, &error));
    assert_true(scheduler_execute(world->scheduler, &add));
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
    other.in.configure.settings = (scene_patch){.has_resolution = true, .resolution = {16, 16, 16}};
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

static void test_settings_are_checked(void **state) {
    world *world = *state;
    uint64_t scene = open_scene(world, SESSION_NONE, 8);
    for (uint32_t resolution = 0; resolution <= 1000000; resolution += 1000000) {
        command command = {.kind = COMMAND_CONFIGURE, .scene = scene};
        command.in.configure.settings =
            (scene_patch){.has_resolution = true, .resolution = {resolution, resolution, resolution}};
        assert_false(scheduler_execute(world->scheduler, &command));
        assert_int_equal(command.error.code, CONTACTD_OUT_OF_RANGE);
        assert_string_equal(command.error.field, "resolution");
    }
    scene_record record;
    assert_true(registry_scene(world->registry, scene, &record, NULL));
    assert_int_equal(record.settings.resolution[0], 8);
}

/* A patch to an open scene, and what the scene has afterwards. */
static scene_record patched(world *world, uint64_t scene, scene_patch patch) {
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

    record = patched(world, scene, (scene_patch){.has_pixel_size = true, .pixel_size = 0}); /* names none */
    assert_int_equal(record.settings.method, CT_METHOD_AUTO);
    record = patched(world, scene, (scene_patch){.has_resolution = true, .resolution = {8, 9, 10}});
    assert_int_equal(record.settings.method, CT_METHOD_LDI);
    assert_int_equal(record.running.method, CT_METHOD_LDI);
    assert_int_equal(record.running.resolution[2], 10);
    record = patched(world, scene, (scene_patch){.has_stiffness = true, .stiffness = 5});
    assert_int_equal(record.settings.method, CT_METHOD_LDI);

    record = patched(world, scene, (scene_patch){.has_method = true, .method = CT_METHOD_AUTO});
    assert_int_equal(record.settings.resolution[2], 0);
    assert_true(record.settings.stiffness == 5);
    assert_int_equal(record.running.method, chosen);
    record = patched(world, scene, (scene_patch){.has_pixel_size = true, .pixel_size = 0.5});
    assert_int_equal(record.running.method, CT_METHOD_LDI);
    assert_int_equal(record.running.resolution[0], CT_DEFAULT_RESOLUTION);

    record = patched(world, scene, (scene_patch){.has_method = true, .method = CT_METHOD_EXACT});
    assert_int_equal(record.running.method, CT_METHOD_EXACT);
    assert_true(record.settings.pixel_size == 0 && record.settings.resolution[0] == 0);
    record = patched(world, scene, (scene_patch){.has_resolution = true, .resolution = {4, 4, 4}});
    assert_int_equal(record.settings.method, CT_METHOD_LDI);

    record = patched(world, scene,
                     (scene_patch){.has_method = true, /* both in one request */
                                   .method = CT_METHOD_AUTO,
                                   .has_resolution = true,
                                   .resolution = {16, 16, 16}});
    assert_int_equal(record.settings.method, CT_METHOD_AUTO);
    assert_true(record.settings.pixel_size == 0);
    assert_int_equal(record.running.method, CT_METHOD_LDI);
    assert_int_equal(record.running.resolution[0], 16);
    command refused = {.kind = COMMAND_CONFIGURE, .scene = scene};
    refused.in.configure.settings = (scene_patch){
        .has_method = true, .method = CT_METHOD_EXACT, .has_resolution = true, .resolution = {16, 16, 16}};
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
        open.in.open.settings = (scene_patch){.has_resolution = true, .resolution = {8, 8, 8}};
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
        open.in.open.settings = (scene_patch){.has_resolution = true, .resolution = {rays, rays, rays}};
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

static void test_lease(void **state) {
    world *world = *state;
    session_record session;
    server_error error = {0};
    assert_true(registry_open_session(world->registry, "short", 20000, &session, &error));
    uint64_t scene = open_scene(world, session.token, 8);
    add_settled_box(world, session.token, scene, 0);
    scheduler_reap(world->scheduler);
    assert_true(registry_touch_session(world->registry, session.token, &error));
    struct session *silent = session_acquire(world->registry, session.token, &error);
    atomic_store(&silent->heard_ns, 0); /* as long ago as the clock can tell */
    session_release(&silent);
    scheduler_reap(world->scheduler);
    assert_false(registry_touch_session(world->registry, session.token, &error));
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

#define WITH_WORLD(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_WORLD(test_steps_and_numbers),
        WITH_WORLD(test_failed_step_uses_its_number_up),
        WITH_WORLD(test_repeat_in_flight_takes_over),
        WITH_WORLD(test_busy),
        WITH_WORLD(test_deadline),
        WITH_WORLD(test_repeats_wait_their_turn),
        WITH_WORLD(test_answers_that_have_no_room),
        WITH_WORLD(test_shares_of_the_queue),
        WITH_WORLD(test_shares_of_principals),
        WITH_WORLD(test_shares_of_scenes),
        WITH_WORLD(test_shares_of_scene_memory),
        WITH_WORLD(test_roles),
        WITH_WORLD(test_closing_frees_places),
        WITH_WORLD(test_deadline_before_submission),
        WITH_WORLD(test_snapshots),
        WITH_WORLD(test_owners),
        WITH_WORLD(test_settings_are_checked),
        WITH_WORLD(test_sampling_chooses_the_method),
        WITH_WORLD(test_bodies),
        WITH_WORLD(test_sessions_take_turns),
        WITH_WORLD(test_principals_take_turns_by_weight),
        WITH_WORLD(test_principals_do_not_lengthen_each_others_batches),
        WITH_WORLD(test_lease),
        WITH_WORLD(test_many_threads),
        WITH_WORLD(test_drain),
        WITH_WORLD(test_what_is_queued_at_the_end_is_refused),
        WITH_WORLD(test_ready),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

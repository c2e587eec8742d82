/* The scheduler's lanes: what is large, that a small step never waits for it, which batches run side by side, and the
 * window in which steps wait for others. A backend with a gate holds large steps in the middle of the engine, so that
 * nothing hangs on how fast anything is. */
#include <string.h>
#include <unistd.h>

#include "server/base/clock.h"
#include "tests/unit/server/schedule/world.h"

enum { IN_FLIGHT = 16, LARGE = 700, SMALL = 8, NAP_US = 1000, PATIENCE = 60000 };

#define STEP_SECONDS 20e-6

/* ---- the gate: batches with a scene of LARGE rays across stop in it while it is shut ---- */

static ct_method_run *real_run;
static atomic_bool shut; /* on the first device */
static ct_device *first_device;
static atomic_int inside, most_inside, passed;

static bool is_large(const ct_step *step) {
    return step->scene->settings.resolution[0] == LARGE;
}

/* Whatever a sanitizer or a busy machine made of it, a step took STEP_SECONDS: what is short runs on the I/O thread. */
static void tell_short(ct_result *result) {
    if (!result) return;
    for (int p = 0; p < CT_PHASES; p++) result->seconds[p] = STEP_SECONDS / CT_PHASES;
}

static void gated_run(ct_device *device, ct_step *steps, size_t n_steps) {
    bool large = false;
    for (size_t i = 0; i < n_steps; i++) large = large || is_large(&steps[i]);
    if (large && device == first_device) {
        int now = atomic_fetch_add(&inside, 1) + 1;
        if (now > atomic_load(&most_inside)) atomic_store(&most_inside, now);
        while (atomic_load(&shut)) usleep(NAP_US);
        atomic_fetch_sub(&inside, 1);
        atomic_fetch_add(&passed, 1);
    }
    real_run(device, steps, n_steps);
    for (size_t i = 0; i < n_steps; i++) tell_short(steps[i].result);
}

/* ---- set-up ---- */

static uint64_t window_us;
static size_t n_devices = 1;

static int setup(void **state) {
    world *world = world_new();
    const ct_backend *backend = world->engine->backend;
    real_run = world->engine->run[0];
    world->engine->run[0] = gated_run;
    first_device = world->engine->devices[0].device;
    ct_engine_options options;
    ct_engine_options_init(&options);
    options.threads = 2;
    while (world->engine->n_devices < n_devices) {
        ct_engine_device *site = &world->engine->devices[world->engine->n_devices++];
        assert_int_equal(backend->create(&options, 0, &site->device, NULL), CT_OK);
    }
    shut = false;
    inside = most_inside = passed = 0;
    world_start(world, 64, IN_FLIGHT, window_us);
    *state = world;
    return 0;
}

static int setup_with_window(void **state) {
    window_us = UINT64_C(3600000000);
    int rc = setup(state);
    window_us = 0;
    return rc;
}

static int setup_two_devices(void **state) {
    n_devices = 2;
    int rc = setup(state);
    n_devices = 1;
    return rc;
}

static int teardown(void **state) {
    atomic_store(&shut, false);
    world_free(*state);
    return 0;
}

/* Two boxes that overlap. */
static uint64_t open_boxes(world *world, uint64_t session, uint32_t resolution) {
    uint64_t scene = open_scene(world, session, resolution);
    for (int i = 0; i < 2; i++) add_box(world, session, scene, 0.5 * i);
    return scene;
}

/* ---- steps ---- */

static atomic_int n_done;
static pthread_mutex_t done_lock = PTHREAD_MUTEX_INITIALIZER;

/* With a lock, so that whoever has seen the count can wait for the place. */
static void note_done(command *command) {
    pthread_mutex_lock(&done_lock);
    atomic_store((atomic_int *)command->context, atomic_fetch_add(&n_done, 1) + 1);
    pthread_mutex_unlock(&done_lock);
}

typedef struct asked {
    command command;
    atomic_int place; /* in the order in which they were done, from 1; 0: not yet */
} asked;

static void ask(world *world, asked *asked, uint64_t session, uint64_t scene, uint64_t number) {
    memset(asked, 0, sizeof *asked);
    asked->command = (command){.kind = COMMAND_STEP, .session = session, .scene = scene, .done = note_done};
    asked->command.context = &asked->place;
    asked->command.in.step.sequence = number;
    assert_int_equal(scheduler_submit(world->scheduler, &asked->command), SUBMIT_QUEUED);
}

static void wait_until(const atomic_int *value, int at_least, const char *what) {
    for (int i = 0; i < PATIENCE && atomic_load((atomic_int *)(uintptr_t)value) < at_least; i++) usleep(NAP_US);
    if (atomic_load((atomic_int *)(uintptr_t)value) < at_least) fail_msg("%s never came", what);
    pthread_mutex_lock(&done_lock); /* until what was counted is noted */
    pthread_mutex_unlock(&done_lock);
}

static void check_and_forget(asked *asked, int n) {
    for (int i = 0; i < n; i++) {
        const ct_result *result = step_answer_result(asked[i].command.out.step.answer);
        assert_non_null(result);
        assert_int_equal(result->n_contacts, 1);
        assert_true(result->contacts[0].volume > 0.124 && result->contacts[0].volume < 0.126);
        step_answer_release(&asked[i].command.out.step.answer);
    }
    n_done = 0;
}

static uint64_t steps_in(world *world, schedule_lane lane) {
    return metrics_counter_value(world->metrics, lane == SCHEDULE_LARGE ? METRICS_LARGE_STEPS : METRICS_SMALL_STEPS);
}

/* Puts a large step into the middle of the engine, where it stays until the gate opens. */
static void hold_large(world *world, asked *asked, uint64_t session, uint64_t scene) {
    atomic_store(&shut, true);
    ask(world, asked, session, scene, 1);
    scheduler_kick(world->scheduler);
    wait_until(&inside, 1, "the large step");
}

/* ---- tests ---- */

/* By the small lane's thread, by the I/O thread, of other clients, and of the very client that has the large step. */
static void test_small_steps_pass_a_large_one(void **state) {
    world *world = *state;
    uint64_t one = open_session(world), other = open_session(world);
    uint64_t large = open_boxes(world, one, LARGE), mine = open_boxes(world, one, SMALL),
             theirs = open_boxes(world, other, SMALL);
    asked held, small[8];
    hold_large(world, &held, one, large);
    for (int i = 0; i < 4; i++) ask(world, &small[i], i % 2 ? one : other, i % 2 ? mine : theirs, 1 + i / 2);
    scheduler_kick(world->scheduler);
    wait_until(&n_done, 4, "four small steps beside a large one");
    for (int i = 4; i < 8; i++) {
        ask(world, &small[i], i % 2 ? one : other, i % 2 ? mine : theirs, 1 + i / 2);
        scheduler_run_inline(world->scheduler);
        wait_until(&n_done, i + 1, "a small step beside a large one");
    }
    assert_int_equal(held.place, 0); /* it is still in the engine */
    assert_int_equal(inside, 1);
    assert_int_equal(steps_in(world, SCHEDULE_SMALL), 8);
    assert_int_equal(steps_in(world, SCHEDULE_LARGE), 0);
    scheduler_facts facts;
    scheduler_get_facts(world->scheduler, &facts);
    assert_int_equal(facts.lanes[SCHEDULE_LARGE].busy, 1);
    assert_int_equal(facts.queue_depth, 1);
    for (int i = 2; i < 8; i++) assert_true(small[i].place > small[i - 2].place); /* each scene's in order */
    atomic_store(&shut, false);
    wait_until(&n_done, 9, "the large step's answer");
    assert_int_equal(held.place, 9);
    assert_int_equal(steps_in(world, SCHEDULE_LARGE), 1);
    check_and_forget(small, 8);
    check_and_forget(&held, 1);
}

/* Another client's large step begins beside one that takes long, the same client's waits for it. */
static void test_large_steps_share(void **state) {
    world *world = *state;
    uint64_t one = open_session(world), other = open_session(world);
    uint64_t scenes[3] = {open_boxes(world, one, LARGE), open_boxes(world, one, LARGE),
                          open_boxes(world, other, LARGE)};
    asked held, mine, theirs;
    hold_large(world, &held, one, scenes[0]);
    ask(world, &mine, one, scenes[1], 1);
    ask(world, &theirs, other, scenes[2], 1);
    scheduler_kick(world->scheduler);
    wait_until(&inside, 2, "another client's large step");
    asked small;
    ask(world, &small, other, open_boxes(world, other, SMALL), 1);
    scheduler_kick(world->scheduler);
    wait_until(&n_done, 1, "the small step");
    assert_int_equal(small.place, 1);
    assert_int_equal(inside, 2);
    scheduler_facts facts;
    scheduler_get_facts(world->scheduler, &facts);
    assert_int_equal(facts.lanes[SCHEDULE_LARGE].busy, 2);
    atomic_store(&shut, false);
    wait_until(&n_done, 4, "the large steps");
    assert_true(mine.place > held.place);
    assert_int_equal(most_inside, 2);
    check_and_forget(&small, 1);
    check_and_forget(&held, 1);
    check_and_forget(&mine, 1);
    check_and_forget(&theirs, 1);
}

/* Clients by the dozen get no more batches at a time than there are runners, and those that wait are all served. */
static void test_large_steps_of_many(void **state) {
    enum { MANY = LARGE_RUNNERS + 2 };
    world *world = *state;
    asked steps[MANY];
    uint64_t sessions[MANY], scenes[MANY];
    for (int i = 0; i < MANY; i++) {
        sessions[i] = open_session(world);
        scenes[i] = open_boxes(world, sessions[i], LARGE);
    }
    hold_large(world, &steps[0], sessions[0], scenes[0]);
    for (int i = 1; i < MANY; i++) ask(world, &steps[i], sessions[i], scenes[i], 1);
    scheduler_kick(world->scheduler);
    wait_until(&inside, LARGE_RUNNERS, "a step on each runner");
    assert_int_equal(n_done, 0);
    atomic_store(&shut, false);
    wait_until(&n_done, MANY, "the large steps");
    assert_int_equal(most_inside, LARGE_RUNNERS);
    check_and_forget(steps, MANY);
}

/* A small scene that becomes a large one: its step comes right behind the change, and was queued as small. */
static void test_change_before_a_step(void **state) {
    world *world = *state;
    uint64_t session = open_session(world), scene = open_boxes(world, session, SMALL);
    asked before, after, small, configured;
    ask(world, &before, session, scene, 1);
    scheduler_run_inline(world->scheduler);
    wait_until(&n_done, 1, "the first step");
    check_and_forget(&before, 1);
    assert_int_equal(steps_in(world, SCHEDULE_SMALL), 1);

    atomic_store(&shut, true);
    memset(&configured, 0, sizeof configured);
    configured.command = (command){.kind = COMMAND_CONFIGURE, .session = session, .scene = scene, .done = note_done};
    configured.command.context = &configured.place;
    configured.command.in.configure.settings =
        (ct_settings_change){CT_GIVEN(CT_SETTING_RESOLUTION), {.resolution = {LARGE, LARGE, LARGE}}};
    assert_int_equal(scheduler_submit(world->scheduler, &configured.command), SUBMIT_QUEUED);
    ask(world, &after, session, scene, 2);
    scheduler_kick(world->scheduler);
    wait_until(&inside, 1, "the step that became large");
    ask(world, &small, session, open_boxes(world, session, SMALL), 1);
    scheduler_run_inline(world->scheduler);
    wait_until(&small.place, 1, "the small step beside it");
    assert_int_equal(configured.place, 1);
    assert_int_equal(after.place, 0);
    atomic_store(&shut, false);
    wait_until(&after.place, 1, "the large step's answer");
    assert_int_equal(steps_in(world, SCHEDULE_LARGE), 1);
    assert_int_equal(steps_in(world, SCHEDULE_SMALL), 2);
    check_and_forget(&after, 1);
    check_and_forget(&small, 1);
}

/* In which lane a new scene's step is put after steps that are said to have taken so long. */
static schedule_lane lane_after(world *world, uint32_t resolution, const double *ms, int n) {
    uint64_t session = open_session(world), handle = open_boxes(world, session, resolution);
    scene *scene = scene_acquire(world->registry, handle, NULL);
    step_answer *answer = step_answer_new(1);
    command said = {.kind = COMMAND_STEP, .answer = answer, .lane = SCHEDULE_SMALL};
    for (bool idle = false; !idle;) { /* a scene that runs is in no queue */
        pthread_mutex_lock(&world->scheduler->lock);
        idle = scheduler_is_idle(world->scheduler);
        pthread_mutex_unlock(&world->scheduler->lock);
    }
    pthread_mutex_lock(&world->scheduler->lock);
    for (int i = 0; i < n; i++) {
        answer->cost_s = 1e-3 * ms[i];
        scheduler_note_cost(scene, &said);
    }
    pthread_mutex_unlock(&world->scheduler->lock);
    step_answer_release(&answer);
    asked step;
    ask(world, &step, session, handle, 1);
    pthread_mutex_lock(&world->scheduler->lock);
    uint32_t lane = scene->lane;
    pthread_mutex_unlock(&world->scheduler->lock);
    scheduler_kick(world->scheduler);
    wait_until(&n_done, 1, "the step");
    check_and_forget(&step, 1);
    scene_release(&scene);
    return world->scheduler->lanes[lane].kind;
}

static void test_costs_tell_the_lane(void **state) {
    world *world = *state;
    static const double quick[] = {1, 1}, outlier[] = {1, 1, 90, 1}, slow[] = {1, 1, 90, 90}, endless[] = {9e5, 9e5};
    double calm[40] = {90, 90};
    for (int i = 2; i < 40; i++) calm[i] = 1;
    assert_int_equal(lane_after(world, LARGE, NULL, 0), SCHEDULE_LARGE); /* by what is in it */
    assert_int_equal(lane_after(world, LARGE, quick, 2), SCHEDULE_SMALL);
    assert_int_equal(lane_after(world, LARGE, outlier, 4), SCHEDULE_SMALL); /* others took its core */
    assert_int_equal(lane_after(world, LARGE, slow, 4), SCHEDULE_LARGE);
    assert_int_equal(lane_after(world, LARGE, slow, 3), SCHEDULE_SMALL);
    assert_int_equal(lane_after(world, LARGE, calm, 4), SCHEDULE_LARGE);
    assert_int_equal(lane_after(world, LARGE, calm, 40), SCHEDULE_SMALL);
    assert_int_equal(lane_after(world, SMALL, endless, 2), SCHEDULE_LARGE); /* whatever is in it */
    assert_int_equal(lane_after(world, SMALL, endless, 1), SCHEDULE_LARGE);
}

/* The lane in which a change of settings is queued, for a scene that the scheduler takes to have `triangles`. */
static schedule_lane lane_of_change(world *world, ct_settings_change settings, uint64_t triangles) {
    const uint64_t session = open_session(world), handle = open_boxes(world, session, SMALL);
    scene *scene = scene_acquire(world->registry, handle, NULL);
    asked change = {.command = {.kind = COMMAND_CONFIGURE, .session = session, .scene = handle, .done = note_done}};
    change.command.context = &change.place;
    change.command.in.configure.settings = settings;
    for (bool idle = false; !idle;) { /* a scene that runs is in no queue */
        pthread_mutex_lock(&world->scheduler->lock);
        idle = scheduler_is_idle(world->scheduler);
        pthread_mutex_unlock(&world->scheduler->lock);
    }
    pthread_mutex_lock(&world->scheduler->lock);
    const uint64_t own = scene->triangles;
    scene->triangles = triangles;
    pthread_mutex_unlock(&world->scheduler->lock);
    assert_int_equal(scheduler_submit(world->scheduler, &change.command), SUBMIT_QUEUED);
    pthread_mutex_lock(&world->scheduler->lock);
    const uint32_t lane = scene->lane;
    scene->triangles = own;
    pthread_mutex_unlock(&world->scheduler->lock);
    scheduler_kick(world->scheduler);
    wait_until(&change.place, 1, "the change");
    atomic_store(&n_done, 0);
    assert_int_equal(change.command.error.code, CONTACTD_OK);
    scene_release(&scene);
    return world->scheduler->lanes[lane].kind;
}

/* A method that derives much from each mesh does so beside small steps. */
static void test_preparation_is_large(void **state) {
    world *world = *state;
    const ct_settings_change exact = {CT_GIVEN(CT_SETTING_METHOD), {.method = CT_METHOD_EXACT}},
                             voxtree = {CT_GIVEN(CT_SETTING_METHOD), {.method = CT_METHOD_VOXTREE}},
                             rays = {CT_GIVEN(CT_SETTING_RESOLUTION), {.resolution = {9, 9, 9}}};
    assert_int_equal(lane_of_change(world, exact, 24), SCHEDULE_SMALL);
    assert_int_equal(lane_of_change(world, exact, 1000000), SCHEDULE_LARGE);
    assert_int_equal(lane_of_change(world, voxtree, 24), SCHEDULE_SMALL);
    assert_int_equal(lane_of_change(world, voxtree, 100000), SCHEDULE_LARGE);
    assert_int_equal(lane_of_change(world, rays, 1000000), SCHEDULE_SMALL);
}

static void ask_configure(world *world, asked *asked, uint64_t session, uint64_t scene, uint32_t n) {
    memset(asked, 0, sizeof *asked);
    asked->command = (command){.kind = COMMAND_CONFIGURE, .session = session, .scene = scene, .done = note_done};
    asked->command.context = &asked->place;
    asked->command.in.configure.settings =
        (ct_settings_change){CT_GIVEN(CT_SETTING_RESOLUTION), {.resolution = {n, n, n}}};
    assert_int_equal(scheduler_submit(world->scheduler, &asked->command), SUBMIT_QUEUED);
}

/* A step that came when its scene was still in the small lane is counted where it runs. */
static void test_depth_is_where_commands_run(void **state) {
    world *world = *state;
    uint64_t session = open_session(world), scene = open_boxes(world, session, SMALL);
    asked change, step;
    ask_configure(world, &change, session, scene, LARGE);
    hold_large(world, &step, session, scene);
    scheduler_facts facts;
    scheduler_get_facts(world->scheduler, &facts);
    assert_int_equal(facts.lanes[SCHEDULE_LARGE].depth, 1);
    assert_int_equal(facts.lanes[SCHEDULE_SMALL].depth, 0);
    atomic_store(&shut, false);
    wait_until(&n_done, 2, "the step's answer");
    check_and_forget(&step, 1);
}

/* Scenes go from one lane to the other and back as they change, answers in order. */
static void test_lanes_alternate(void **state) {
    enum { ROUNDS = 6 };
    world *world = *state;
    uint64_t session = open_session(world), scene = open_boxes(world, session, SMALL);
    asked steps[ROUNDS], changes[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        ask_configure(world, &changes[i], session, scene, i % 2 ? LARGE : SMALL);
        ask(world, &steps[i], session, scene, (uint64_t)i + 1);
    }
    scheduler_kick(world->scheduler);
    wait_until(&n_done, 2 * ROUNDS, "the last step");
    for (int i = 0; i < ROUNDS; i++) {
        assert_int_equal(changes[i].place, 2 * i + 1);
        assert_int_equal(steps[i].place, 2 * i + 2);
    }
    assert_int_equal(steps_in(world, SCHEDULE_LARGE), ROUNDS / 2);
    assert_int_equal(steps_in(world, SCHEDULE_SMALL), ROUNDS / 2);
    check_and_forget(steps, ROUNDS);
}

/* Opens the gate once the end has begun. */
static void *open_at_the_end(void *argument) {
    scheduler *scheduler = argument;
    for (bool ending = false; !ending; usleep(NAP_US)) {
        pthread_mutex_lock(&scheduler->lock);
        ending = scheduler->ending;
        pthread_mutex_unlock(&scheduler->lock);
    }
    atomic_store(&shut, false);
    return NULL;
}

/* Leaves a large step in the engine and another one queued, and a thread that opens the gate at the end. */
static pthread_t begin_end(world *world, asked *held, asked *queued) {
    uint64_t session = open_session(world), large = open_boxes(world, session, LARGE);
    pthread_t thread;
    hold_large(world, held, session, large);
    ask(world, queued, session, large, 2);
    assert_int_equal(pthread_create(&thread, NULL, open_at_the_end, world->scheduler), 0);
    return thread;
}

static void check_end(const asked *held, const asked *queued) {
    assert_int_equal(held->place, 1);
    assert_int_equal(held->command.error.code, CONTACTD_SHUTTING_DOWN); /* the engine ended it */
    assert_null(held->command.out.step.answer);
    assert_int_equal(queued->place, 2);
    assert_int_equal(queued->command.error.code, CONTACTD_SHUTTING_DOWN);
    assert_int_equal(passed, 1);
    n_done = 0;
}

/* A drain whose time is over waits another second for what is in the engine. That suffices unless others keep the
 * cores; then what is queued behind it is refused at the end. */
static void test_drain_in_the_middle(void **state) {
    world *world = *state;
    asked held, queued;
    pthread_t thread = begin_end(world, &held, &queued);
    assert_false(scheduler_drain(world->scheduler, 0));
    pthread_join(thread, NULL);
    wait_until(&held.place, 1, "the step in the engine");
    scheduler_facts facts;
    scheduler_get_facts(world->scheduler, &facts);
    const uint32_t left = queued.place == 0;
    assert_int_equal(facts.queue_depth, left);
    assert_int_equal(facts.lanes[SCHEDULE_LARGE].depth, left);
    assert_int_equal(facts.lanes[SCHEDULE_SMALL].depth, 0);
    scheduler_stop(&world->scheduler);
    check_end(&held, &queued);
}

/* The end waits for what is in the engine for as long as it takes, and refuses what is not. */
static void test_end_in_the_middle(void **state) {
    world *world = *state;
    asked held, queued;
    pthread_t thread = begin_end(world, &held, &queued);
    scheduler_stop(&world->scheduler); /* frees it once the gate is open: the thread looks at it no longer */
    pthread_join(thread, NULL);
    check_end(&held, &queued);
}

/* Steps wait for each other, and the end of the window is the end of waiting: here, that the server drains. */
static void test_window(void **state) {
    world *world = *state;
    uint64_t sessions[3], scenes[3];
    asked steps[3];
    for (int i = 0; i < 3; i++) {
        sessions[i] = open_session(world);
        scenes[i] = open_boxes(world, sessions[i], SMALL);
    }
    for (int i = 0; i < 3; i++) {
        ask(world, &steps[i], sessions[i], scenes[i], 1);
        scheduler_run_inline(world->scheduler);
        scheduler_kick(world->scheduler);
    }
    usleep(20 * NAP_US);
    assert_int_equal(n_done, 0);
    assert_true(scheduler_drain(world->scheduler, 60000));
    assert_int_equal(n_done, 3);
    scheduler_facts facts;
    scheduler_get_facts(world->scheduler, &facts);
    assert_int_equal(facts.lanes[SCHEDULE_SMALL].batches, 1);
    assert_int_equal(facts.lanes[SCHEDULE_SMALL].steps, 3);
    check_and_forget(steps, 3);
}

/* What need not wait takes along what does. */
static void test_window_ends_with_a_control(void **state) {
    world *world = *state;
    uint64_t session = open_session(world), scene = open_boxes(world, session, SMALL),
             other = open_boxes(world, session, SMALL);
    asked step;
    ask(world, &step, session, scene, 1);
    command list = {.kind = COMMAND_LIST_BODIES, .scene = other};
    assert_true(scheduler_execute(world->scheduler, &list));
    free(list.out.bodies.items);
    wait_until(&n_done, 1, "the step");
    check_and_forget(&step, 1);
}

/* Each device has lanes of its own: one's large step waits for none of the other's. */
static void test_devices_side_by_side(void **state) {
    world *world = *state;
    uint64_t session = open_session(world), scenes[4];
    asked held, others[4];
    for (int i = 0; i < 2; i++) scenes[i] = open_boxes(world, session, LARGE);
    for (int i = 2; i < 4; i++) scenes[i] = open_boxes(world, session, SMALL);
    assert_int_equal(world->scheduler->n_lanes, 2 * SCHEDULE_LANES);
    hold_large(world, &held, session, scenes[0]); /* a new scene goes to the device with least on it */
    for (int i = 1; i < 4; i++) ask(world, &others[i], session, scenes[i], 1);
    scheduler_kick(world->scheduler);
    wait_until(&n_done, 3, "the others");
    assert_int_equal(held.place, 0);
    for (uint32_t i = 0; i < 2 * SCHEDULE_LANES; i++)
        assert_int_equal(world->scheduler->lanes[i].steps, i != SCHEDULE_LARGE);
    atomic_store(&shut, false);
    wait_until(&n_done, 4, "the held one");
    check_and_forget(&others[1], 3);
    check_and_forget(&held, 1);
}

#define WITH_WORLD(test)  cmocka_unit_test_setup_teardown(test, setup, teardown)
#define WITH_WINDOW(test) cmocka_unit_test_setup_teardown(test, setup_with_window, teardown)

/* ---- what the I/O thread may run ---- */

static void count_inline(command *command) {
    atomic_fetch_add((atomic_int *)command->context, 1);
}

/* What tell_short() does not reach, such as an interrupted sum of points. */
static void forget_interruptions(world *world, uint64_t handle) {
    scene *scene = scene_acquire(world->registry, handle, NULL);
    if (!scene) return; /* closed */
    pthread_mutex_lock(&world->scheduler->lock);
    if (scene->cost_s > STEP_SECONDS) scene->cost_s = STEP_SECONDS;
    pthread_mutex_unlock(&world->scheduler->lock);
    scene_release(&scene);
}

/* A command that is queued while the small lane looks busy, so that no thread takes it. show: of a snapshot, 0: what is
 * shown by default. *cost_s: what it is expected to cost. */
static bool may_run_inline_at_cost(world *world, uint64_t session, uint64_t scene, command_kind kind, uint32_t show,
                                   double *cost_s) {
    scheduler *scheduler = world->scheduler;
    lane *lane = &scheduler->lanes[SCHEDULE_SMALL];
    runner *runner = &lane->runners[0];
    atomic_int n = 0;
    command command = {.kind = kind, .session = session, .scene = scene, .done = count_inline, .context = &n};
    scene_record record;
    assert_true(registry_scene(world->registry, scene, &record, NULL));
    if (kind == COMMAND_STEP) command.in.step.sequence = record.sequence + 1;
    if (kind == COMMAND_SNAPSHOT) ct_snapshot_options_init(&command.in.snapshot.options);
    if (show) command.in.snapshot.options.show = show;
    if (kind == COMMAND_ADD_BODY) {
        command.in.add_body.mesh = world->box;
        ct_body_options_init(&command.in.add_body.options);
    }
    for (bool is_free = false; !is_free;) { /* it may be probing */
        pthread_mutex_lock(&scheduler->lock);
        is_free = !runner->busy;
        runner->busy = true;
        pthread_mutex_unlock(&scheduler->lock);
        if (!is_free) usleep(NAP_US);
    }
    assert_int_equal(scheduler_submit(scheduler, &command), SUBMIT_QUEUED);
    pthread_mutex_lock(&scheduler->lock);
    bool may = scheduler_may_run_inline(lane);
    *cost_s = lane->queued_s;
    runner->busy = false;
    pthread_mutex_unlock(&scheduler->lock);
    scheduler_kick(scheduler);
    while (!atomic_load(&n)) usleep(NAP_US);
    forget_interruptions(world, scene);
    assert_int_equal(command.error.code, CONTACTD_OK);
    if (kind == COMMAND_SNAPSHOT) ct_snapshot_free(&command.out.snapshot);
    if (kind == COMMAND_STEP) step_answer_release(&command.out.step.answer);
    return may;
}

static bool may_run_inline(world *world, uint64_t session, uint64_t scene, command_kind kind) {
    double cost_s;
    return may_run_inline_at_cost(world, session, scene, kind, 0, &cost_s);
}

/* What the scene's method finds takes a step of its own, and films of contacts look at every triangle. */
static void marks_in_a_snapshot_have_their_price(void **state) {
    world *world = *state;
    uint64_t session = open_session(world), scene = open_boxes(world, session, SMALL);
    static const uint32_t shows[] = {CT_SHOW_DEFAULT, CT_SHOW_DEFAULT | CT_SHOW_GRADIENTS,
                                     CT_SHOW_DEFAULT | CT_SHOW_CONTACTS};
    double cost_s[3], step_s;
    assert_false(may_run_inline_at_cost(world, session, scene, COMMAND_STEP, 0, &step_s)); /* it is the first */
    for (int i = 0; i < 3; i++)
        assert_false(may_run_inline_at_cost(world, session, scene, COMMAND_SNAPSHOT, shows[i], &cost_s[i]));
    assert_true(cost_s[1] > cost_s[0]);
    assert_true(cost_s[2] > cost_s[1] + 5e-6); /* 24 triangles */
}

/* Small steps that were measured; none that is its scene's first or follows a change, no snapshot, nor what makes
 * something of meshes or frees what a scene holds. */
static void the_io_thread_runs_what_is_short(void **state) {
    world *world = *state;
    uint64_t session = open_session(world), scene = open_boxes(world, session, SMALL);
    assert_false(may_run_inline(world, session, scene, COMMAND_STEP));
    assert_true(may_run_inline(world, session, scene, COMMAND_STEP));
    assert_true(may_run_inline(world, session, scene, COMMAND_STEP));
    assert_false(may_run_inline(world, session, scene, COMMAND_CONFIGURE));
    assert_false(may_run_inline(world, session, scene, COMMAND_STEP));
    assert_true(may_run_inline(world, session, scene, COMMAND_STEP));
    assert_false(may_run_inline(world, session, scene, COMMAND_SNAPSHOT));
    assert_false(may_run_inline(world, session, scene, COMMAND_ADD_BODY));
    assert_false(may_run_inline(world, session, scene, COMMAND_CLOSE));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_WORLD(test_small_steps_pass_a_large_one),
        WITH_WORLD(test_large_steps_share),
        WITH_WORLD(test_large_steps_of_many),
        WITH_WORLD(test_change_before_a_step),
        WITH_WORLD(test_costs_tell_the_lane),
        WITH_WORLD(test_preparation_is_large),
        WITH_WORLD(test_depth_is_where_commands_run),
        WITH_WORLD(test_lanes_alternate),
        WITH_WORLD(test_drain_in_the_middle),
        WITH_WORLD(test_end_in_the_middle),
        cmocka_unit_test_setup_teardown(test_devices_side_by_side, setup_two_devices, teardown),
        WITH_WINDOW(test_window),
        WITH_WINDOW(test_window_ends_with_a_control),
        cmocka_unit_test_setup_teardown(marks_in_a_snapshot_have_their_price, setup, teardown),
        cmocka_unit_test_setup_teardown(the_io_thread_runs_what_is_short, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

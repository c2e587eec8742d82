/* What ends a command while it runs: limits, deadlines, its scene's end, its client's, the server's, and preemption. A
 * backend with a gate holds steps until they are cancelled, so that nothing hangs on how fast anything is. */
#include <string.h>

#include "gpu/base/cancel.h"
#include "server/base/clock.h"
#include "server/base/pauses.h"
#include "tests/unit/server/schedule/steps.h"

enum { SLOW = 24, QUICK = 8, NAP_US = 500, PATIENCE = 120000, MS = 1000000 };

/* ---- the gate: steps of scenes of SLOW rays across stay in it while it is shut, unless they are cancelled ---- */

static ct_method_run *real_run;
static atomic_bool shut;
static atomic_bool opens; /* after a step was cancelled in it */
static atomic_int inside, cancelled;

static void stay(ct_step *step) {
    const ct_working before = ct_work_for(step->cancel, 0, 0);
    ct_enter_phase("waiting at the gate");
    atomic_fetch_add(&inside, 1);
    while (atomic_load(&shut) && !ct_is_cancelled()) usleep(NAP_US);
    if (ct_is_cancelled()) {
        atomic_fetch_add(&cancelled, 1);
        if (atomic_load(&opens)) atomic_store(&shut, false);
    }
    atomic_fetch_sub(&inside, 1);
    ct_work_back(before);
}

static void gated_run(ct_device *device, ct_step *steps, size_t n_steps) {
    for (size_t i = 0; i < n_steps; i++)
        if (steps[i].scene->settings.resolution[0] == SLOW) stay(&steps[i]);
    real_run(device, steps, n_steps);
}

static int setup_gate(void **state) {
    world *world = world_new();
    real_run = world->engine->run[0];
    world->engine->run[0] = gated_run;
    atomic_store(&shut, false);
    atomic_store(&opens, false);
    inside = cancelled = 0;
    n_done = 0;
    world_start(world, QUEUE, IN_FLIGHT, 0);
    *state = world;
    return 0;
}

static int teardown_gate(void **state) {
    atomic_store(&shut, false);
    world_free(*state);
    return 0;
}

/* ---- help ---- */

static uint64_t open_boxes(world *world, uint64_t session, uint32_t resolution) {
    uint64_t scene = open_scene(world, session, resolution);
    for (int i = 0; i < 2; i++) add_box(world, session, scene, 0.5 * i);
    return scene;
}

static void set_limit(world *world, uint64_t ns) {
    pthread_mutex_lock(&world->scheduler->lock);
    world->scheduler->max_step_ns = ns;
    pthread_mutex_unlock(&world->scheduler->lock);
}

static void set_preemption(world *world, preemption preemption) {
    pthread_mutex_lock(&world->scheduler->lock);
    world->scheduler->preemption = preemption;
    pthread_mutex_unlock(&world->scheduler->lock);
}

static uint64_t counted(world *world, metrics_counter counter) {
    return metrics_counter_value(world->metrics, counter);
}

static void wait_until(const atomic_int *value, int at_least) {
    for (int i = 0; i < PATIENCE && atomic_load((atomic_int *)(uintptr_t)value) < at_least; i++) usleep(NAP_US);
    assert_true(atomic_load((atomic_int *)(uintptr_t)value) >= at_least);
}

static void await_done(int n) {
    for (int i = 0; i < PATIENCE; i++) {
        pthread_mutex_lock(&done_lock);
        int now = n_done;
        pthread_mutex_unlock(&done_lock);
        if (now >= n) return;
        usleep(NAP_US);
    }
    fail_msg("%d of %d commands were done", n_done, n);
}

static void start_step(world *world, command *command, uint64_t session, uint64_t scene, uint64_t number) {
    assert_int_equal(step(world, command, session, scene, number), SUBMIT_QUEUED);
    scheduler_kick(world->scheduler);
}

/* A step that is in the gate when this returns. */
static void hold_step(world *world, command *command, uint64_t session, uint64_t scene, uint64_t number) {
    atomic_store(&shut, true);
    start_step(world, command, session, scene, number);
    wait_until(&inside, 1);
}

static double volume_of(const command *command) {
    const ct_result *result = step_answer_result(command->out.step.answer);
    assert_non_null(result);
    assert_int_equal(result->n_contacts, 1);
    return result->contacts[0].volume;
}

/* The next step of the scene has the bits of one that nothing disturbed. */
static void expect_good_step(world *world, uint64_t session, uint64_t scene, uint64_t number) {
    command good, other;
    atomic_store(&shut, false);
    n_done = 0;
    start_step(world, &good, session, scene, number);
    await_done(1);
    start_step(world, &other, session, open_boxes(world, session, SLOW), 1);
    await_done(2);
    assert_true(volume_of(&good) == volume_of(&other));
    forget((command[]){good, other}, 2);
}

static void expect_error(const command *command, contactd_code code, const char *said) {
    assert_int_equal(command->error.code, code);
    if (!strstr(command->error.message, said)) fail_msg("\"%s\" is not in: %s", said, command->error.message);
}

/* ---- limits and deadlines ---- */

static void test_limit(void **state) {
    world *world = *state;
    uint64_t session = open_session(world), scene = open_boxes(world, session, SLOW);
    command late, again;
    set_limit(world, 20 * MS);
    atomic_store(&shut, true);
    start_step(world, &late, session, scene, 1);
    await_done(1);
    expect_error(&late, CONTACTD_TIME_LIMIT, "0.02 s (--max-step-time)");
    expect_error(&late, CONTACTD_TIME_LIMIT, "cancelled while waiting at the gate");
    assert_string_equal(late.error.field, "max_step_time");
    assert_non_null(late.out.step.answer);
    assert_int_equal(counted(world, METRICS_CANCELLED_LIMIT), 1);
    /* Its number is used up, and its answer kept. */
    start_step(world, &again, session, scene, 1);
    await_done(2);
    assert_true(again.out.step.cached);
    expect_error(&again, CONTACTD_TIME_LIMIT, "--max-step-time");
    assert_int_equal(cancelled, 1);
    forget((command[]){late, again}, 2);
    set_limit(world, 0);
    expect_good_step(world, session, scene, 2);
}

static void be_stopped(void) {
    pauses_look(clock_ns() - UINT64_C(5000) * MS);
    pauses_look(clock_ns());
    pauses_rest();
}

/* A step during which the process was stopped runs once more, with all of its time, and then ends at its limit. */
static void test_limit_of_a_process_that_was_stopped(void **state) {
    world *world = *state;
    uint64_t session = open_session(world), scene = open_boxes(world, session, SLOW);
    command good, late;
    be_stopped(); /* before any of this */
    set_limit(world, 1000 * MS);
    atomic_store(&opens, true);
    hold_step(world, &good, session, scene, 1);
    be_stopped();
    await_done(1);
    assert_true(volume_of(&good) > 0);
    assert_int_equal(cancelled, 1);
    assert_int_equal(counted(world, METRICS_CANCELLED_LIMIT), 0);
    atomic_store(&opens, false);
    hold_step(world, &late, session, scene, 2);
    be_stopped();
    await_done(2);
    expect_error(&late, CONTACTD_TIME_LIMIT, "1 s (--max-step-time)");
    assert_int_equal(cancelled, 3);
    assert_int_equal(counted(world, METRICS_CANCELLED_LIMIT), 1);
    forget((command[]){good, late}, 2);
    set_limit(world, 0);
    expect_good_step(world, session, scene, 3);
}

/* A thread that looks late was stopped. A late look counts before it comes, and not at all while the thread rests. */
static void test_pauses(void **state) {
    (void)state;
    const uint64_t second = UINT64_C(1000) * MS, at = clock_ns() + 3600 * second;
    pauses_look(at);
    assert_false(pauses_were(at - second, at + second));
    assert_true(pauses_were(at - second, at + 2 * second));
    assert_true(pauses_were(at + second, at + 4 * second));
    assert_false(pauses_were(at + second, at + 2 * second)); /* it began in between */
    pauses_look(at + second);
    assert_false(pauses_were(at, at + 2 * second));
    pauses_rest();
    assert_false(pauses_were(at, at + 9 * second));
    pauses_look(at + 9 * second);
    assert_false(pauses_were(at, at + 9 * second));
    pauses_look(at + 19 * second);
    assert_true(pauses_were(at + 18 * second, at + 20 * second));
    assert_false(pauses_were(at + 19 * second, at + 20 * second));
    pauses_rest();
}

static void test_limit_of_the_scene(void **state) {
    world *world = *state;
    uint64_t session = open_session(world), scene = open_boxes(world, session, SLOW);
    set_limit(world, UINT64_C(3600) * 1000 * MS);
    command configure = {.kind = COMMAND_CONFIGURE, .session = session, .scene = scene};
    configure.in.configure.settings = (ct_settings_change){CT_GIVEN(CT_SETTING_MAX_STEP_TIME), {.max_step_time = 7200}};
    assert_true(scheduler_execute(world->scheduler, &configure));
    assert_true(configure.out.scene.settings.max_step_time == 3600); /* lowered */
    configure.in.configure.settings.to.max_step_time = 0.02;
    assert_true(scheduler_execute(world->scheduler, &configure));
    assert_true(configure.out.scene.settings.max_step_time == 0.02);
    command open = {.kind = COMMAND_OPEN, .session = session};
    open.in.open.settings = (ct_settings_change){CT_GIVEN(CT_SETTING_MAX_STEP_TIME), {.max_step_time = 1e300}};
    assert_true(scheduler_execute(world->scheduler, &open));
    assert_true(open.out.scene.settings.max_step_time == 3600);
    command late;
    atomic_store(&shut, true);
    start_step(world, &late, session, scene, 1);
    await_done(1);
    expect_error(&late, CONTACTD_TIME_LIMIT, "(max_step_time of the scene)");
    forget(&late, 1);
}

static void test_limit_of_the_principal(void **state) {
    world *world = *state;
    uint64_t session = open_session(world), scene = open_boxes(world, session, SLOW);
    set_limit(world, UINT64_C(3600) * 1000 * MS);
    command late = {.kind = COMMAND_STEP, .session = session, .scene = scene, .done = note_done};
    late.in.step.sequence = 1;
    late.who.max_step_ms = 20;
    atomic_store(&shut, true);
    assert_int_equal(scheduler_submit(world->scheduler, &late), SUBMIT_QUEUED);
    scheduler_kick(world->scheduler);
    await_done(1);
    expect_error(&late, CONTACTD_TIME_LIMIT, "(max_step_time of the principal)");
    forget(&late, 1);
}

static void test_deadline(void **state) {
    world *world = *state;
    uint64_t session = open_session(world), scene = open_boxes(world, session, SLOW);
    command late = {.kind = COMMAND_STEP, .session = session, .scene = scene, .done = note_done};
    late.in.step.sequence = 1;
    atomic_store(&shut, true);
    set_limit(world, UINT64_C(3600) * 1000 * MS);
    late.deadline_ns = clock_ns() + UINT64_C(400) * MS; /* it may not pass before the step runs */
    assert_int_equal(scheduler_submit(world->scheduler, &late), SUBMIT_QUEUED);
    scheduler_kick(world->scheduler);
    await_done(1);
    if (cancelled) {
        expect_error(&late, CONTACTD_DEADLINE_EXCEEDED, "cancelled while waiting at the gate");
        assert_int_equal(counted(world, METRICS_CANCELLED_DEADLINE), 1);
    }
    assert_int_equal(counted(world, METRICS_DEADLINES), 1);
    forget(&late, 1);
    set_limit(world, 0);
    expect_good_step(world, session, scene, 2);
}

/* ---- its scene, its client, the server ---- */

static void test_close(void **state) {
    world *world = *state;
    uint64_t session = open_session(world), scene = open_boxes(world, session, SLOW);
    command running, behind, close = {.kind = COMMAND_CLOSE, .session = session, .scene = scene, .done = note_done};
    hold_step(world, &running, session, scene, 1);
    assert_int_equal(step(world, &behind, session, scene, 2), SUBMIT_QUEUED);
    assert_int_equal(scheduler_submit(world->scheduler, &close), SUBMIT_QUEUED);
    await_done(3);
    assert_ptr_equal(done[0], &behind);
    assert_ptr_equal(done[1], &running);
    assert_ptr_equal(done[2], &close);
    expect_error(&behind, CONTACTD_STALE_HANDLE, "before this ran");
    expect_error(&running, CONTACTD_STALE_HANDLE, "while this ran");
    assert_int_equal(close.error.code, CONTACTD_OK);
    assert_int_equal(counted(world, METRICS_CANCELLED_CLOSED), 1);
    forget(&running, 1);
}

/* Closing one scene does not wait for another one's long step. */
static void test_close_of_a_waiting_scene(void **state) {
    world *world = *state;
    uint64_t session = open_session(world), scene = open_boxes(world, session, SLOW),
             other = open_boxes(world, session, 700);
    command running, waiting, close = {.kind = COMMAND_CLOSE, .session = session, .scene = other, .done = note_done};
    set_preemption(world, (preemption){.small_ns = MS});
    hold_step(world, &running, session, scene, 1);
    while (counted(world, METRICS_PREEMPTED) == 0) usleep(NAP_US);
    wait_until(&inside, 1); /* in the large lane now */
    start_step(world, &waiting, session, other, 1);
    assert_int_equal(scheduler_submit(world->scheduler, &close), SUBMIT_QUEUED);
    scheduler_kick(world->scheduler);
    await_done(2);
    assert_ptr_equal(done[1], &close);
    assert_int_equal(close.error.code, CONTACTD_OK);
    atomic_store(&shut, false);
    await_done(3);
    forget(&running, 1);
}

/* The client's connection ends, and comes back: its step runs again, and has the answer that it would have had. */
static void test_client_comes_back(void **state) {
    world *world = *state;
    uint64_t session = open_session(world), scene = open_boxes(world, session, SLOW);
    command running, behind;
    hold_step(world, &running, session, scene, 1);
    assert_int_equal(step(world, &behind, session, scene, 2), SUBMIT_QUEUED);
    scheduler_leave_session(world->scheduler, session);
    wait_until(&cancelled, 1);
    settle(world);
    assert_int_equal(n_done, 0); /* held */
    assert_int_equal(counted(world, METRICS_CANCELLED_CLIENT), 1);
    scheduler_kick(world->scheduler);
    command list = {.kind = COMMAND_LIST_BODIES, .scene = scene}; /* who looks does not wait for a client */
    assert_true(scheduler_execute(world->scheduler, &list));
    assert_int_equal(list.out.bodies.n, 2);
    free(list.out.bodies.items);
    assert_int_equal(n_done, 0);
    atomic_store(&shut, false);
    bool had_left = false;
    assert_true(registry_touch_session(world->registry, session, PRINCIPAL_NONE, &had_left, NULL));
    assert_true(had_left);
    scheduler_return_session(world->scheduler, session);
    await_done(2);
    assert_ptr_equal(done[0], &running);
    assert_ptr_equal(done[1], &behind);
    assert_true(volume_of(&running) == volume_of(&behind));
    forget((command[]){running, behind}, 2);
    expect_good_step(world, session, scene, 3);
}

/* What a client asks for while it counts as gone is held as well: a message may be received after its connection's end.
 */
static void test_client_stays_away(void **state) {
    world *world = *state;
    session_record record;
    assert_true(registry_open_session(world->registry, "short", 100, &record, NULL));
    uint64_t session = record.token, scene = open_boxes(world, session, SLOW);
    command held;
    settle(world);
    scheduler_leave_session(world->scheduler, session);
    start_step(world, &held, session, scene, 1);
    settle(world);
    assert_int_equal(n_done, 0);
    scene_record found;
    for (int i = 0; i < PATIENCE && registry_scene(world->registry, scene, &found, NULL); i++) {
        scheduler_reap(world->scheduler, clock_ns()); /* its lease is over soon */
        usleep(NAP_US);
    }
    await_done(1);
    expect_error(&held, CONTACTD_STALE_HANDLE, "closed");
    n_done = 0;
}

/* A drain does not wait for clients that are not there, and ends what runs when its time is over. */
static void test_drain(void **state) {
    world *world = *state;
    uint64_t away = open_session(world), here = open_session(world);
    uint64_t scene = open_boxes(world, away, QUICK), slow = open_boxes(world, here, SLOW);
    command held, running;
    settle(world);
    scheduler_leave_session(world->scheduler, away);
    assert_int_equal(step(world, &held, away, scene, 1), SUBMIT_QUEUED);
    hold_step(world, &running, here, slow, 1);
    assert_false(scheduler_drain(world->scheduler, 1));
    await_done(2);
    assert_ptr_equal(done[0], &held);
    expect_error(&held, CONTACTD_SHUTTING_DOWN, "before this ran");
    expect_error(&running, CONTACTD_SHUTTING_DOWN, "while this ran");
    assert_null(running.out.step.answer); /* a number that was not used, for a client that goes elsewhere */
    assert_int_equal(counted(world, METRICS_CANCELLED_SHUTDOWN), 1);
    n_done = 0;
}

/* ---- preemption ---- */

/* A step that takes longer than a small one runs once more, in the large lane, and to its end. Those in the same batch
 * are answered. */
static void test_preempted_on_the_lane(void **state) {
    world *world = *state;
    uint64_t session = open_session(world), other = open_session(world);
    uint64_t slow = open_boxes(world, session, SLOW), quick = open_boxes(world, other, QUICK);
    command steps[2];
    settle(world);
    set_preemption(world, (preemption){.small_ns = MS});
    atomic_store(&opens, true);
    atomic_store(&shut, true);
    assert_int_equal(step(world, &steps[0], session, slow, 1), SUBMIT_QUEUED);
    start_step(world, &steps[1], other, quick, 1);
    await_done(2);
    assert_true(counted(world, METRICS_PREEMPTED) >= 1);
    assert_true(counted(world, METRICS_LARGE_STEPS) >= 1);
    assert_int_equal(counted(world, METRICS_STEPS), 2);
    volume_of(&steps[0]);
    volume_of(&steps[1]);
    scene_record record;
    assert_true(registry_scene(world->registry, slow, &record, NULL));
    assert_int_equal(record.failed, 0);
    forget(steps, 2);
    set_preemption(world, (preemption){0});
    /* The client's next new scene does not interrupt the small lane; another client's runs in it. */
    command mine, theirs = {.kind = COMMAND_STEP, .scene = open_boxes(world, SESSION_NONE, QUICK)};
    uint64_t fresh = open_boxes(world, session, QUICK), large = counted(world, METRICS_LARGE_STEPS);
    start_step(world, &mine, session, fresh, 1);
    await_done(1);
    assert_int_equal(counted(world, METRICS_LARGE_STEPS), large + 1);
    assert_true(scheduler_execute(world->scheduler, &theirs));
    assert_int_equal(counted(world, METRICS_LARGE_STEPS), large + 1);
    step_answer_release(&theirs.out.step.answer);
    forget(&mine, 1);
    expect_good_step(world, session, slow, 2);
}

/* The I/O thread gets back what takes longer than it may. */
static void test_preempted_on_the_io_thread(void **state) {
    world *world = *state;
    uint64_t session = open_session(world), slow = open_boxes(world, session, SLOW);
    command first, held;
    start_step(world, &first, session, slow, 1);
    await_done(1);
    settle(world);
    scene *scene = scene_acquire(world->registry, slow, NULL);
    pthread_mutex_lock(&world->scheduler->lock);
    scene->cost_s = scene->last_cost_s = 50e-6; /* short enough, however slow the machine is */
    pthread_mutex_unlock(&world->scheduler->lock);
    scene_release(&scene);
    set_preemption(world, (preemption){.inline_ns = MS});
    atomic_store(&shut, true);
    assert_int_equal(step(world, &held, session, slow, 2), SUBMIT_QUEUED);
    scheduler_run_inline(world->scheduler); /* the gate is shut: it returns because of the preemption */
    assert_int_equal(counted(world, METRICS_PREEMPTED), 1);
    wait_until(&inside, 1); /* in the large lane, where it is not preempted */
    assert_int_equal(n_done, 1);
    atomic_store(&shut, false);
    await_done(2);
    assert_true(volume_of(&first) == volume_of(&held));
    assert_int_equal(counted(world, METRICS_PREEMPTED), 1);
    assert_int_equal(counted(world, METRICS_LARGE_STEPS), 1);
    forget((command[]){first, held}, 2);
}

/* Its scene counts as large from then on, until quick steps show otherwise. */
static void test_preempted_scene_is_large(void **state) {
    world *world = *state;
    uint64_t session = open_session(world), handle = open_boxes(world, session, SLOW);
    scene *scene = scene_acquire(world->registry, handle, NULL);
    step_answer *answer = step_answer_new(1);
    command said = {.kind = COMMAND_STEP, .answer = answer};
    settle(world);
    pthread_mutex_lock(&world->scheduler->lock);
    answer->cost_s = 50e-6;
    scheduler_note_cost(scene, &said);
    answer->cost_s = 1;
    scheduler_note_cost(scene, &said); /* once: others may have taken its core */
    assert_true(scene->cost_s < 1e-3);
    answer->cost_s = 50e-6;
    scheduler_note_cost(scene, &said);
    answer->cost_s = 1;
    said.is_preempted = true;
    scheduler_note_cost(scene, &said);
    assert_true(scene->cost_s == 1);
    pthread_mutex_unlock(&world->scheduler->lock);
    step_answer_release(&answer);
    scene_release(&scene);
}

/* ---- what is seen ---- */

static void test_running_is_listed(void **state) {
    world *world = *state;
    uint64_t session = open_session(world), scene = open_boxes(world, session, SLOW);
    command held;
    running_command *items;
    size_t n;
    assert_true(scheduler_list_running(world->scheduler, 0, &items, &n));
    assert_int_equal(n, 0);
    free(items);
    hold_step(world, &held, session, scene, 1);
    const char *phase = "";
    for (int i = 0; i < PATIENCE && strcmp(phase, "waiting at the gate") != 0; i++, usleep(NAP_US)) {
        assert_true(scheduler_list_running(world->scheduler, 0, &items, &n));
        assert_int_equal(n, 1);
        assert_true(items[0].scene == scene);
        assert_int_equal(items[0].kind, COMMAND_STEP);
        assert_string_equal(items[0].client, "test");
        assert_true(items[0].seconds > 0);
        phase = items[0].phase;
        free(items);
    }
    assert_string_equal(phase, "waiting at the gate");
    assert_true(scheduler_list_running(world->scheduler, 1e9, &items, &n));
    assert_int_equal(n, 0);
    free(items);
    assert_true(scheduler_longest_running(world->scheduler) > 0);
    atomic_store(&shut, false);
    await_done(1);
    forget(&held, 1);
}

#define WITH_GATE(test) cmocka_unit_test_setup_teardown(test, setup_gate, teardown_gate)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_GATE(test_limit),
        WITH_GATE(test_limit_of_a_process_that_was_stopped),
        WITH_GATE(test_limit_of_the_scene),
        WITH_GATE(test_limit_of_the_principal),
        WITH_GATE(test_deadline),
        WITH_GATE(test_close),
        WITH_GATE(test_close_of_a_waiting_scene),
        WITH_GATE(test_client_comes_back),
        WITH_GATE(test_client_stays_away),
        WITH_GATE(test_drain),
        WITH_GATE(test_preempted_on_the_lane),
        WITH_GATE(test_preempted_on_the_io_thread),
        WITH_GATE(test_preempted_scene_is_large),
        WITH_GATE(test_running_is_listed),
        cmocka_unit_test(test_pauses), /* the last one: it is of the future */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

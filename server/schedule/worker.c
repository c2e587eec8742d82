/* worker.c - runs a batch on the engine and completes its commands. A runner's batches run on its own thread, or on the
 * I/O thread where that is quicker (scheduler_run_inline); runner->busy allows one at a time. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "server/base/clock.h"
#include "server/base/log.h"
#include "server/schedule/internal.h"

enum {
    PROBE_EVERY_S = 15,
    BACKGROUND_NICE = 10, /* a tenth of the processor time of a thread of nice 0 beside it */
};
/* After this time a batch of the large lane has another one beside it: twice what batches are meant to take. */
#define GRACE_NS UINT64_C(8000000)
/* For so long after a preemption the client's scenes that were not measured count as large. */
#define DOUBT_NS UINT64_C(10000000000)

/* ---- running; without the lock ---- */

/* What a scene's commands behind one that did not end have to share, as they may build on it. */
static void share_fate(const command *with, command *command) {
    command->fate = with->fate;
    server_copy(&command->error, &with->error);
}

/* Whether the command may run: its scene, its client or the server may have gone since it was taken. */
static bool may_begin(runner *runner, command *command) {
    if (ct_cancel_reason(&command->cancel) == CT_CANCEL_NONE) return true;
    command_end_early(runner->lane->scheduler, command, "not begun");
    return false;
}

static void note_end(command *command) {
    const uint64_t began_ns = atomic_exchange(&command->began_ns, 0);
    if (atomic_load(&command->is_logged)) running_log_end(command, 1e-9 * (double)(clock_ns() - began_ns));
}

/* Everything but steps and CLOSE. */
static void run_control(runner *runner, command *command) {
    scheduler *scheduler = runner->lane->scheduler;
    if (!may_begin(runner, command)) return;
    command_begin(runner, command, clock_ns());
    ct_cancel *before = ct_cancel_scope(&command->cancel);
    command_run(scheduler, command);
    ct_cancel_scope(before);
    if (command->error.code == CONTACTD_TIME_LIMIT) {
        const server_error cause = command->error;
        command_end_early(scheduler, command, cause.message);
    }
    note_end(command);
}

/* All but the result and the error, which the engine sets: texts are large. */
static void fill_step(const runner *runner, command *command, ct_step *to) {
    to->scene = command->target->engine;
    to->updates = command->in.step.updates;
    to->n_updates = command->in.step.n_updates;
    to->want = command->in.step.want;
    to->time_budget = command->in.step.time_budget_s;
    to->tolerance = command->in.step.tolerance;
    to->directions = command->in.step.directions;
    to->n_directions = command->in.step.n_directions;
    to->velocities = command->in.step.velocities;
    to->n_velocities = command->in.step.n_velocities;
    to->viscosity = command->in.step.viscosity;
    to->cancel = &command->cancel;
    to->in_background = runner->lane->kind == SCHEDULE_LARGE;
}

static void run_steps(runner *runner) {
    uint64_t begin = clock_ns();
    for (size_t i = 0; i < runner->n_steps; i++) {
        command *command = runner->stepping[i];
        command_begin(runner, command, begin);
        command->answer->queue_s = (double)(begin - command->submitted_ns) * 1e-9;
        fill_step(runner, command, &runner->engine_steps[i]);
    }
    ct_engine_run(runner->lane->scheduler->engine, runner->engine_steps, runner->n_steps);
}

static uint64_t result_bytes(const ct_result *result) {
    uint64_t per_entry = sizeof(uint32_t) + (result->gradient ? 24 : 0) + (result->weights ? 8 : 0) +
                         (result->forces ? 24 : 0) + (result->friction_forces ? 24 : 0);
    return sizeof *result + (result->n_contacts + result->n_cells) * sizeof(ct_contact) +
           result->n_entries * per_entry + result->n_spans * sizeof(ct_span) + result->n_points * sizeof(ct_point) +
           result->n_progress * sizeof(ct_pair_progress) + result->n_separations * sizeof(ct_separation) +
           result->n_ended_ids * sizeof *result->ended_ids + result->n_warnings * sizeof(ct_warning) +
           result->n_polygons * (sizeof(ct_surface_polygon) + sizeof(uint32_t)) +
           result->n_polygon_vertices * sizeof(ct_surface_vertex) +
           result->n_products * (sizeof(uint32_t) + 24ull * result->n_directions) +
           result->n_contacts * 96ull * result->n_directions;
}

static double count_step(metrics_steps *counted, const step_answer *answer) {
    const ct_result *result = answer->result;
    double sum = 0;
    metrics_observe(&counted->phases[METRICS_PHASE_QUEUE], answer->queue_s);
    metrics_observe(&counted->wall[METRICS_PHASE_QUEUE], answer->queue_s);
    for (unsigned p = 0; p < CT_PHASES; p++) {
        metrics_observe(&counted->phases[METRICS_PHASE_ENGINE + p], result->seconds[p]);
        metrics_observe(&counted->wall[METRICS_PHASE_ENGINE + p], result->wall_seconds[p]);
        sum += result->seconds[p];
    }
    counted->steps++;
    counted->contacts += result->n_contacts;
    counted->rays += result->rays;
    counted->fragments += result->fragments;
    return sum;
}

/* Appends the server's option to the engine's message, which names only the need and the limit. */
static void name_limit(const scheduler *scheduler, size_t device, server_error *error) {
    if (error->code != CONTACTD_OUT_OF_MEMORY) return;
    ct_engine_facts facts;
    ct_engine_get_facts(scheduler->engine, device, &facts);
    uint64_t limit = facts.memory_budget ? facts.memory_budget : scheduler->scratch_bytes;
    size_t length = strlen(error->message);
    snprintf(error->message + length, sizeof error->message - length,
             " (%" PRIu64 " bytes of scratch memory are in use; the limit is %" PRIu64 ", %s)", facts.scratch_bytes,
             limit, facts.memory_budget ? "--gpu-memory" : "--scratch-memory");
}

/* Makes the step's answer of the engine's result or error. */
static void take_answer(runner *runner, command *command, const ct_step *step) {
    scheduler *scheduler = runner->lane->scheduler;
    step_answer *answer = command->answer;
    if (step) {
        answer->result = step->result;
        if (!answer->result) {
            char object[96];
            command_object(command, object);
            server_fail_engine(&answer->error, object, &step->error);
            name_limit(scheduler, command->target->device, &answer->error);
        }
    } else {
        server_copy(&answer->error, &command->error);
    }
    const scene_record *record = &command->target->record; /* the settings are written by the runner alone */
    answer->settings = record->settings;
    answer->revision = record->revision;
    answer->bytes = sizeof *answer + (answer->result ? result_bytes(answer->result) : 0);
    server_copy(&command->error, &answer->error);
    /* What was cancelled took as long as it ran, on one thread at least. */
    answer->cost_s = answer->result ? count_step(&runner->counted, answer) : step ? 0 : command->ran_s;
    if (answer->result) scheduler_note_warnings(scheduler, command->target, answer->result);
}

/* Those of the commands that end and have an answer now. */
static void note_steps(const runner *runner, command *const *commands, size_t n) {
    for (size_t at = 0; at < n;) {
        scene_step steps[SCENES_AT_ONCE];
        step_answer *answers[SCENES_AT_ONCE];
        uint64_t counts[SCENES_AT_ONCE];
        size_t some = 0;
        for (; at < n && some < SCENES_AT_ONCE; at++) {
            const command *command = commands[at];
            if (command->fate != COMMAND_ENDS) continue;
            step_answer *answer = answers[some] = command->answer;
            steps[some++] = (scene_step){command->target,           answer->result,        answer->queue_s,
                                         command->in.step.sequence, command->submitted_ns, runner->ended_ns};
        }
        scenes_note_steps(runner->lane->scheduler->registry, steps, some, counts);
        for (size_t i = 0; i < some; i++) answers[i]->steps = counts[i];
    }
}

/* Of one that does not run. */
static void take_failure(runner *runner, command *command) {
    take_answer(runner, command, NULL);
    note_steps(runner, &command, 1);
}

/* A step that was cancelled ends as if memory had run out, where it is not told apart. */
static bool was_cancelled(const command *command, const ct_step *step) {
    if (step->error.status == CT_CANCELLED) return true;
    return step->error.status == CT_OUT_OF_MEMORY && ct_cancel_reason(&command->cancel) != CT_CANCEL_NONE;
}

static void take_outcome(runner *runner, command *command, const ct_step *step) {
    scheduler *scheduler = runner->lane->scheduler;
    if (was_cancelled(command, step)) {
        command_end_early(scheduler, command, step->error.message);
        if (command->fate == COMMAND_ENDS) take_answer(runner, command, NULL);
    } else {
        take_answer(runner, command, step);
    }
    note_end(command);
}

/* Returns how many steps ran to their end. */
static size_t count_steps(runner *runner) {
    metrics *metrics = runner->lane->scheduler->metrics;
    const bool is_large = runner->lane->kind == SCHEDULE_LARGE;
    uint32_t principal = 0;
    size_t n_ended = 0, n_of_principal = 0;
    for (size_t i = 0; i < runner->n_steps; i++) {
        const command *command = runner->stepping[i];
        if (command->fate != COMMAND_ENDS) continue;
        metrics_observe(&runner->counted.latencies, (double)(runner->ended_ns - command->received_ns) * 1e-9);
        if (n_of_principal && principal != command->who.principal) {
            metrics_count_principal(metrics, principal, n_of_principal);
            n_of_principal = 0;
        }
        principal = command->who.principal;
        n_of_principal++;
        n_ended++;
    }
    metrics_add_steps(metrics, is_large, &runner->counted);
    if (!n_ended) return 0;
    metrics_count_principal(metrics, principal, n_of_principal);
    metrics_count_batch(metrics, is_large, n_ended);
    return n_ended;
}

/* Returns how many steps ran to their end. */
static size_t run_taken(runner *runner) {
    const command *stopped = NULL; /* the last that did not end, of its scene */
    runner->n_steps = 0;
    runner->ended_ns = runner->begin_ns; /* of those that do not run */
    for (command *command = runner->first_taken; command; command = command->next) {
        if (stopped && command->target == stopped->target) {
            share_fate(stopped, command);
            continue;
        }
        if (command->is_repeat) continue; /* its answer is kept already */
        if (command->error.code != CONTACTD_OK) {
            if (command->kind == COMMAND_STEP) take_failure(runner, command);
        } else if (command->kind == COMMAND_STEP) {
            if (may_begin(runner, command))
                runner->stepping[runner->n_steps++] = command;
            else if (command->fate == COMMAND_ENDS)
                take_failure(runner, command);
        } else if (command->kind != COMMAND_CLOSE) { /* see end_command */
            run_control(runner, command);
        }
        if (command->fate != COMMAND_ENDS) stopped = command;
    }
    if (!runner->n_steps) return 0;
    run_steps(runner);
    runner->ended_ns = clock_ns();
    for (size_t i = 0; i < runner->n_steps; i++) take_outcome(runner, runner->stepping[i], &runner->engine_steps[i]);
    note_steps(runner, runner->stepping, runner->n_steps);
    return count_steps(runner);
}

/* Marks the device as not ready if it failed for good. Runs before any answer with the error goes out, so that a client
 * that then asks for readiness is told the truth. */
static void note_loss(runner *runner) {
    const lane *lane = runner->lane;
    scheduler *scheduler = lane->scheduler;
    char reason[sizeof lane->ready_reason];
    if (!probe_lost(scheduler->engine, lane->device, reason, sizeof reason)) return;
    pthread_mutex_lock(&scheduler->lock);
    struct lane *small = &scheduler->lanes[lane->device * SCHEDULE_LANES + SCHEDULE_SMALL];
    small->ready = false;
    memcpy(small->ready_reason, reason, sizeof reason);
    bool was_reported = scheduler->lost;
    scheduler->lost = true;
    pthread_mutex_unlock(&scheduler->lock);
    if (was_reported) return;
    log_error("schedule", "%s", reason);
    if (scheduler->on_lost) scheduler->on_lost(scheduler->context);
}

/* ---- ending ---- */

/* With the lock held: the numbers and the counts. */
static void end_command(scheduler *scheduler, command *command) {
    scene *scene = command->target;
    if (command->kind == COMMAND_STEP) {
        if (!command->is_repeat) scene->stepping = NULL;
        struct command *asker = command->follower ? command->follower : command;
        asker->out.step.answer = step_answer_retain(command->answer);
        asker->out.step.cached = command->is_repeat;
        server_copy(&asker->error, &command->answer->error);
        if (command->asker == scheduler->anonymous_session)
            sequence_keep_unnumbered(&scene->sequence, registry_kept_answers(scheduler->registry), command->answer);
        else if (!command->is_repeat)
            sequence_keep(&scene->sequence, &command->asker->window, command->answer);
    } else if (command->kind == COMMAND_LIST_BODIES && command->error.code == CONTACTD_OK) {
        if (command->in.list_bodies.with_answer) command->out.bodies.answer = sequence_last(&scene->sequence);
    } else if (command->kind == COMMAND_CLOSE) {
        if (command->error.code == CONTACTD_OK) {
            sequence_clear(&scene->sequence, registry_kept_answers(scheduler->registry));
        } else {
            scene->closing = false; /* its deadline passed: the scene stays */
        }
    }
    scheduler_note_cost(scene, command);
    scheduler_uncount(scheduler, command);
}

/* Without the lock. The command may be gone afterwards. */
static void complete_command(scheduler *scheduler, command *command) {
    struct command *follower = command->follower;
    if (command->kind == COMMAND_CLOSE && command->error.code == CONTACTD_OK) command_run(scheduler, command);
    command_release_objects(command);
    command->done(command);
    if (follower) {
        command_release_objects(follower);
        follower->done(follower);
    }
}

/* ---- what ended, and what waits again ---- */

typedef struct endings {
    command *ended, **last_ended;
    command *refused, **last_refused;
    uint32_t n;
    const scene *scene; /* of the last command that waits again */
    command **at;       /* where the next one of it goes */
} endings;

static void append(command ***last, command *command) {
    command->next = NULL;
    **last = command;
    *last = &command->next;
}

/* To the head of its scene's queue, behind those of the same batch. */
static void put_back(endings *endings, command *command) {
    scene *scene = command->target;
    if (endings->scene != scene) endings->at = &scene->first;
    endings->scene = scene;
    if (scene->stepping == command) scene->stepping = NULL;
    if (command->is_preempted) scene->runs_for->doubted_until_ns = clock_ns() + DOUBT_NS;
    command->next = *endings->at;
    *endings->at = command;
    if (!command->next) scene->last = command;
    endings->at = &command->next;
}

static void refuse_at_end(scheduler *scheduler, endings *endings, command *command) {
    if (command->target->stepping == command) command->target->stepping = NULL;
    scheduler_uncount(scheduler, command);
    append(&endings->last_refused, command);
}

/* With the lock held. */
static void end_batch(runner *runner, endings *endings) {
    scheduler *scheduler = runner->lane->scheduler;
    *endings = (struct endings){.last_ended = &endings->ended, .last_refused = &endings->refused};
    for (command *command = runner->first_taken, *next; command; command = next) {
        next = command->next;
        const bool waits = command->fate == COMMAND_WAITS_AGAIN;
        if (waits && command->target->closing) {
            char object[96];
            command_object(command, object);
            server_clear(&command->error);
            server_fail(&command->error, CONTACTD_STALE_HANDLE, object, "scene",
                        "the scene was closed before this ran");
        }
        if (command->fate == COMMAND_ENDS) {
            end_command(scheduler, command);
            append(&endings->last_ended, command);
            endings->n++;
        } else if (waits && !command->target->closing) {
            put_back(endings, command);
        } else {
            refuse_at_end(scheduler, endings, command);
        }
    }
}

/* When a further batch of the lane may begin; UINT64_MAX: there is nothing to run, or no runner is free. In the large
 * lane a further one begins beside one that takes long: at once if that was to be expected. So steps that are not much
 * longer than a batch run one after the other, which answers the first of them sooner. */
static uint64_t batch_due_ns(lane *lane) {
    const scheduler *scheduler = lane->scheduler;
    if (!lane->n_sessions) return UINT64_MAX;
    bool waits = lane->waiting_since_ns && scheduler->window_ns && lane->kind == SCHEDULE_SMALL && !scheduler->draining;
    uint64_t due = waits ? lane->waiting_since_ns + scheduler->window_ns : 0;
    uint32_t n_busy = 0;
    for (uint32_t i = 0; i < lane->n_runners; i++) {
        const runner *runner = &lane->runners[i];
        if (!runner->busy) continue;
        n_busy++;
        if (!runner->is_long && runner->begin_ns + GRACE_NS > due) due = runner->begin_ns + GRACE_NS;
    }
    return n_busy < lane->n_runners && scheduler_has_batch(lane) ? due : UINT64_MAX;
}

void scheduler_wake(lane *lane) {
    const uint64_t due = batch_due_ns(lane);
    runner *sleeping = NULL;
    if (due == UINT64_MAX) return;
    for (uint32_t i = 0; i < lane->n_runners; i++) {
        runner *runner = &lane->runners[i];
        if (runner->busy) continue;
        if (runner->asleep_until <= due) return; /* it will look in time */
        if (!sleeping) sleeping = runner;
    }
    if (!sleeping) return;
    sleeping->asleep_until = 0;
    pthread_cond_signal(&sleeping->wake);
}

/* Clears `running` of the batch's scenes, only after their answers were handed over, so that answers keep their order.
 * Releases the references taken in run_batch. Returns commands that nobody may run any more. With the lock held. */
static command *release_scenes(runner *runner) {
    scheduler *scheduler = runner->lane->scheduler;
    command *held = NULL, **last = &held;
    for (size_t i = 0; i < runner->n_scenes; i++) {
        scene *scene = runner->scenes[i];
        scene->running = false;
        scene->runner = NULL;
        scene->runs_for = NULL;
        if (scene->first) {
            lane *next = scheduler_make_ready(scheduler, scene);
            if (next && next != runner->lane) scheduler_wake(next);
            if (!next && scheduler->draining) *last = scheduler_take_waiting(scheduler, scene);
            while (*last) last = &(*last)->next;
        }
        scene_release(&runner->scenes[i]);
    }
    return held;
}

bool scheduler_is_idle(const scheduler *scheduler) {
    for (uint32_t i = 0; i < scheduler->n_lanes; i++) {
        for (uint32_t r = 0; r < scheduler->lanes[i].n_runners; r++) {
            if (scheduler->lanes[i].runners[r].busy) return false;
        }
    }
    return true;
}

static void begin_batch(runner *runner, bool is_inline) {
    scheduler_fill_batch(runner);
    runner->busy = runner->is_running = true;
    runner_set_preemption(runner, is_inline);
    scheduler_wake(runner->lane); /* there may be a batch for another runner */
}

/* Hands over the answers. Without the lock. */
static void complete_batch(scheduler *scheduler, const endings *endings) {
    for (command *command = endings->ended, *next; command; command = next) {
        next = command->next;
        complete_command(scheduler, command);
    }
    scheduler_refuse(endings->refused, NULL);
}

/* Runs one batch. Called and left with the lock held, the runner not busy. */
static void run_batch(runner *runner, bool is_inline) {
    lane *lane = runner->lane;
    scheduler *scheduler = lane->scheduler;
    begin_batch(runner, is_inline);
    pthread_mutex_unlock(&scheduler->lock);

    const size_t n_steps = run_taken(runner);
    for (command *command = runner->first_taken; command; command = command->next) {
        if (command->error.code != CONTACTD_DEVICE_ERROR) continue;
        note_loss(runner);
        break;
    }
    double seconds = (double)(clock_ns() - runner->begin_ns) * 1e-9;

    pthread_mutex_lock(&scheduler->lock);
    endings endings;
    runner->is_running = false;
    /* Completing releases the commands' references to the scenes, which release_scenes still needs. */
    for (size_t i = 0; i < runner->n_scenes; i++) atomic_fetch_add(&runner->scenes[i]->references, 1);
    end_batch(runner, &endings);
    double rate = endings.n / (seconds + 1e-6);
    if (endings.n) lane->rate = lane->rate > 0 ? 0.9 * lane->rate + 0.1 * rate : rate;
    if (n_steps) lane->batches++;
    lane->steps += n_steps;
    pthread_mutex_unlock(&scheduler->lock);

    complete_batch(scheduler, &endings);

    pthread_mutex_lock(&scheduler->lock);
    scheduler_settle_batch(runner, seconds);
    command *held = release_scenes(runner);
    if (held) {
        pthread_mutex_unlock(&scheduler->lock);
        scheduler_refuse_at_end(held);
        pthread_mutex_lock(&scheduler->lock);
    }
    runner->busy = false;
    if (scheduler->draining) pthread_cond_broadcast(&scheduler->idle);
}

/* ---- threads ---- */

/* Runs a readiness step instead of a batch, on the device's small lane. With the lock held. */
static void probe(runner *runner) {
    lane *lane = runner->lane;
    scheduler *scheduler = lane->scheduler;
    char reason[sizeof lane->ready_reason];
    runner->busy = true;
    pthread_mutex_unlock(&scheduler->lock);
    bool ready = probe_run(scheduler->engine, lane->device, scheduler->backend, reason, sizeof reason);
    if (!ready) note_loss(runner);
    pthread_mutex_lock(&scheduler->lock);
    runner->busy = false;
    if (ready != lane->ready) {
        log_line(ready ? LOG_LEVEL_INFO : LOG_LEVEL_ERROR, "schedule", "%s%s",
                 ready ? "ready again" : "not ready: ", reason);
    }
    lane->ready = ready;
    memcpy(lane->ready_reason, reason, sizeof reason);
    lane->probed_ns = clock_ns();
    if (scheduler->draining) pthread_cond_broadcast(&scheduler->idle);
}

static struct timespec timespec_of(uint64_t ns) {
    return (struct timespec){(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
}

/* Only small lanes probe, so that a huge step does not delay it. */
static uint64_t probe_due_ns(const lane *lane) {
    return lane->kind == SCHEDULE_SMALL ? lane->probed_ns + PROBE_EVERY_S * UINT64_C(1000000000) : UINT64_MAX;
}

/* Threads of large steps yield to those of small ones and to the I/O thread: on Linux a thread has a nice value of its
 * own. It is only a preference, so a failure does not matter. */
static void lower_priority(void) {
    setpriority(PRIO_PROCESS, (id_t)gettid(), BACKGROUND_NICE);
}

void *scheduler_worker(void *argument) {
    runner *runner = argument;
    lane *lane = runner->lane;
    scheduler *scheduler = lane->scheduler;
    if (lane->kind == SCHEDULE_LARGE) lower_priority();
    pthread_mutex_lock(&scheduler->lock);
    while (!scheduler->ending) {
        uint64_t now = clock_ns(), probe_ns = probe_due_ns(lane), batch_ns = batch_due_ns(lane);
        uint64_t until_ns = probe_ns < batch_ns ? probe_ns : batch_ns;
        if (runner->busy || until_ns == UINT64_MAX) {
            runner->asleep_until = UINT64_MAX;
            pthread_cond_wait(&runner->wake, &scheduler->lock);
            runner->asleep_until = 0;
        } else if (now < until_ns) {
            struct timespec until = timespec_of(until_ns);
            runner->asleep_until = until_ns;
            pthread_cond_timedwait(&runner->wake, &scheduler->lock, &until);
            runner->asleep_until = 0;
        } else if (now >= probe_ns) {
            probe(runner);
        } else {
            run_batch(runner, false);
        }
    }
    pthread_mutex_unlock(&scheduler->lock);
    return NULL;
}

void scheduler_run_inline(scheduler *scheduler) {
    pthread_mutex_lock(&scheduler->lock);
    for (uint32_t i = 0; i < scheduler->n_lanes && !scheduler->ending; i++) {
        lane *lane = &scheduler->lanes[i];
        if (!lane->n_sessions) continue;
        bool due = lane->kind == SCHEDULE_SMALL && batch_due_ns(lane) <= clock_ns();
        if (due && scheduler_may_run_inline(lane)) run_batch(&lane->runners[0], true);
        scheduler_wake(lane);
    }
    pthread_mutex_unlock(&scheduler->lock);
}

/* worker.c - runs a batch on the engine and completes its commands. A runner's batches run on its own thread, or on the
 * I/O thread where that is quicker (scheduler_run_inline); runner->busy allows one at a time. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "server/clock.h"
#include "server/log.h"
#include "server/schedule/internal.h"

enum { PROBE_EVERY_S = 15 };

/* ---- running; without the lock ---- */

static void run_steps(runner *runner) {
    uint64_t begin = clock_ns();
    for (size_t i = 0; i < runner->n_steps; i++) {
        command *command = runner->stepping[i];
        command->answer->queue_s = (double)(begin - command->submitted_ns) * 1e-9;
        runner->engine_steps[i] = (ct_step){
            .scene = command->target->engine,
            .updates = command->in.step.updates,
            .n_updates = command->in.step.n_updates,
            .want = command->in.step.want,
            .time_budget = command->in.step.time_budget_s,
            .tolerance = command->in.step.tolerance,
            .directions = command->in.step.directions,
            .n_directions = command->in.step.n_directions,
            .velocities = command->in.step.velocities,
            .n_velocities = command->in.step.n_velocities,
            .viscosity = command->in.step.viscosity,
        };
    }
    ct_engine_run(runner->scheduler->engine, runner->engine_steps, runner->n_steps);
}

static uint64_t result_bytes(const ct_result *result) {
    uint64_t per_entry = sizeof(uint32_t) + (result->gradient ? 24 : 0) + (result->weights ? 8 : 0) +
                         (result->forces ? 24 : 0) + (result->friction_forces ? 24 : 0);
    return sizeof *result + (result->n_contacts + result->n_cells) * sizeof(ct_contact) +
           result->n_entries * per_entry + result->n_spans * sizeof(ct_span) + result->n_points * sizeof(ct_point) +
           result->n_progress * sizeof(ct_pair_progress) + result->n_separations * sizeof(ct_separation) +
           result->n_warnings * sizeof(ct_warning) +
           result->n_products * (sizeof(uint32_t) + 24ull * result->n_directions) +
           result->n_contacts * 96ull * result->n_directions;
}

static double count_step(metrics *metrics, const step_answer *answer) {
    const ct_result *result = answer->result;
    double sum = 0;
    metrics_observe(metrics, METRICS_PHASE_QUEUE, answer->queue_s, answer->queue_s);
    for (unsigned p = 0; p < CT_PHASES; p++) {
        metrics_observe(metrics, METRICS_PHASE_ENGINE + p, result->seconds[p], result->wall_seconds[p]);
        sum += result->seconds[p];
    }
    metrics_add(metrics, METRICS_STEPS, 1);
    metrics_add(metrics, METRICS_CONTACTS, result->n_contacts);
    metrics_add(metrics, METRICS_RAYS, result->rays);
    metrics_add(metrics, METRICS_FRAGMENTS, result->fragments);
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
static void take_answer(scheduler *scheduler, command *command, const ct_step *step) {
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
        answer->error = command->error;
    }
    const scene_record *record = &command->target->record; /* the settings are written by the runner alone */
    answer->settings = record->settings;
    answer->revision = record->revision;
    answer->bytes = sizeof *answer + (answer->result ? result_bytes(answer->result) : 0);
    command->error = answer->error;
    double cost = answer->result ? count_step(scheduler->metrics, answer) : 0;
    if (answer->result) scheduler_note_warnings(scheduler, command->target, answer->result);
    scene_note_step(scheduler->registry, command->target, answer->result, answer->queue_s, command->in.step.sequence,
                    command->submitted_ns);
    answer->cost_s = cost;
}

static void run_taken(runner *runner) {
    scheduler *scheduler = runner->scheduler;
    runner->n_steps = 0;
    for (command *command = runner->first_taken; command; command = command->next) {
        if (command->is_repeat) continue; /* its answer is kept already */
        if (command->error.code != CONTACTD_OK) {
            if (command->kind == COMMAND_STEP) take_answer(scheduler, command, NULL);
        } else if (command->kind == COMMAND_STEP) {
            runner->stepping[runner->n_steps++] = command;
        } else if (command->kind != COMMAND_CLOSE) { /* see end_command */
            command_run(scheduler, command);
        }
    }
    if (!runner->n_steps) return;
    run_steps(runner);
    for (size_t i = 0; i < runner->n_steps; i++) {
        take_answer(scheduler, runner->stepping[i], &runner->engine_steps[i]);
    }
    uint64_t now = clock_ns();
    for (size_t i = 0; i < runner->n_steps; i++) {
        double seconds = (double)(now - runner->stepping[i]->received_ns) * 1e-9;
        metrics_observe_latency(scheduler->metrics, runner->lane == SCHEDULE_LARGE, seconds);
    }
    metrics_count_batch(scheduler->metrics, runner->lane == SCHEDULE_LARGE, runner->n_steps);
}

/* Marks the device as not ready if it failed for good. Runs before any answer with the error goes out, so that a client
 * that then asks for readiness is told the truth. */
static void note_loss(runner *runner) {
    scheduler *scheduler = runner->scheduler;
    char reason[sizeof runner->ready_reason];
    if (!probe_lost(scheduler->engine, runner->device, reason, sizeof reason)) return;
    pthread_mutex_lock(&scheduler->lock);
    struct runner *small = &scheduler->runners[runner->device * SCHEDULE_LANES + SCHEDULE_SMALL];
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
        asker->error = command->answer->error;
        if (command->asker != scheduler->anonymous_session && !command->is_repeat) {
            sequence_keep(&scene->sequence, &command->asker->window, command->answer);
        }
    } else if (command->kind == COMMAND_CLOSE) {
        if (command->error.code == CONTACTD_OK) {
            sequence_clear(&scene->sequence, registry_kept_answers(scheduler->registry));
        } else {
            scene->closing = false; /* its deadline passed: the scene stays */
        }
    }
    scheduler_note_cost(scheduler, scene, command);
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

/* When a batch of what is queued may run. */
static uint64_t batch_due_ns(const runner *runner) {
    const scheduler *scheduler = runner->scheduler;
    if (!runner->n_sessions) return UINT64_MAX;
    bool waits =
        runner->waiting_since_ns && scheduler->window_ns && runner->lane == SCHEDULE_SMALL && !scheduler->draining;
    return waits ? runner->waiting_since_ns + scheduler->window_ns : 0;
}

void scheduler_wake(runner *runner) {
    if (runner->busy || batch_due_ns(runner) >= runner->asleep_until) return;
    runner->asleep_until = 0;
    pthread_cond_signal(&runner->wake);
}

/* Clears `running` of the batch's scenes, only after their answers were handed over, so that answers keep their order.
 * Releases the references taken in run_batch. With the lock held. */
static void release_scenes(runner *runner) {
    for (size_t i = 0; i < runner->n_scenes; i++) {
        scene *scene = runner->scenes[i];
        scene->running = false;
        if (scene->first) {
            struct runner *next = scheduler_make_ready(runner->scheduler, scene);
            if (next != runner) scheduler_wake(next);
        }
        scene_release(&runner->scenes[i]);
    }
}

bool scheduler_is_idle(const scheduler *scheduler) {
    for (uint32_t i = 0; i < scheduler->n_runners; i++) {
        if (scheduler->runners[i].busy) return false;
    }
    return true;
}

/* Runs one batch. Called and left with the lock held, the runner not busy. */
static void run_batch(runner *runner) {
    scheduler *scheduler = runner->scheduler;
    runner->busy = true;
    scheduler_fill_batch(runner);
    pthread_mutex_unlock(&scheduler->lock);

    uint64_t begin = clock_ns();
    run_taken(runner);
    for (command *command = runner->first_taken; command; command = command->next) {
        if (command->error.code != CONTACTD_DEVICE_ERROR) continue;
        note_loss(runner);
        break;
    }
    double seconds = (double)(clock_ns() - begin) * 1e-9;

    pthread_mutex_lock(&scheduler->lock);
    uint32_t n = 0;
    for (command *command = runner->first_taken; command; command = command->next, n++) {
        end_command(scheduler, command);
    }
    double rate = n / (seconds + 1e-6);
    if (n) runner->rate = runner->rate > 0 ? 0.9 * runner->rate + 0.1 * rate : rate;
    if (runner->n_steps) runner->batches++;
    runner->steps += runner->n_steps;
    /* complete_command releases the commands' references to the scenes, which release_scenes still needs. */
    for (size_t i = 0; i < runner->n_scenes; i++) atomic_fetch_add(&runner->scenes[i]->references, 1);
    pthread_mutex_unlock(&scheduler->lock);

    for (command *command = runner->first_taken, *next; command; command = next) {
        next = command->next;
        complete_command(scheduler, command);
    }

    pthread_mutex_lock(&scheduler->lock);
    release_scenes(runner);
    runner->busy = false;
    if (scheduler->draining) pthread_cond_broadcast(&scheduler->idle);
}

/* ---- threads ---- */

/* Runs a readiness step instead of a batch, on the device's small lane. With the lock held. */
static void probe(runner *runner) {
    scheduler *scheduler = runner->scheduler;
    char reason[sizeof runner->ready_reason];
    runner->busy = true;
    pthread_mutex_unlock(&scheduler->lock);
    bool ready = probe_run(scheduler->engine, runner->device, scheduler->backend, reason, sizeof reason);
    if (!ready) note_loss(runner);
    pthread_mutex_lock(&scheduler->lock);
    runner->busy = false;
    if (ready != runner->ready) {
        log_line(ready ? LOG_LEVEL_INFO : LOG_LEVEL_ERROR, "schedule", "%s%s",
                 ready ? "ready again" : "not ready: ", reason);
    }
    runner->ready = ready;
    memcpy(runner->ready_reason, reason, sizeof reason);
    runner->probed_ns = clock_ns();
    if (scheduler->draining) pthread_cond_broadcast(&scheduler->idle);
}

static struct timespec timespec_of(uint64_t ns) {
    return (struct timespec){(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
}

/* Only small lanes probe, so that a huge step does not delay it. */
static uint64_t probe_due_ns(const runner *runner) {
    return runner->lane == SCHEDULE_SMALL ? runner->probed_ns + PROBE_EVERY_S * UINT64_C(1000000000) : UINT64_MAX;
}

void *scheduler_worker(void *argument) {
    runner *runner = argument;
    scheduler *scheduler = runner->scheduler;
    pthread_mutex_lock(&scheduler->lock);
    while (!scheduler->ending) {
        uint64_t now = clock_ns(), probe_ns = probe_due_ns(runner), batch_ns = batch_due_ns(runner);
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
            run_batch(runner);
        }
    }
    pthread_mutex_unlock(&scheduler->lock);
    return NULL;
}

void scheduler_run_inline(scheduler *scheduler) {
    pthread_mutex_lock(&scheduler->lock);
    for (uint32_t i = 0; i < scheduler->n_runners && !scheduler->ending; i++) {
        runner *runner = &scheduler->runners[i];
        if (!runner->n_sessions || runner->busy) continue;
        bool due = batch_due_ns(runner) <= clock_ns();
        if (due && runner->lane == SCHEDULE_SMALL && scheduler_may_run_inline(runner)) run_batch(runner);
        scheduler_wake(runner);
    }
    pthread_mutex_unlock(&scheduler->lock);
}

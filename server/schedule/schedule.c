/* schedule.c - which commands are admitted, refused, or answered at once; start, drain and stop. */
#include "server/schedule/schedule.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/clock.h"
#include "server/base/log.h"
#include "server/schedule/internal.h"

/* That running batches get after the end of a drain. */
#define LAST_BATCH_MS UINT64_C(1000)
/* What of a batch is not done when it has run so much longer than was expected goes to the large lane: on the I/O
 * thread, which receives nothing meanwhile; on the small lane's thread, so that a small step waits 10 ms at most; in
 * the large lane, where a batch holds several scenes whose steps were measured. */
#define INLINE_NS UINT64_C(2000000)
#define SMALL_NS  UINT64_C(6000000)
#define LARGE_NS  UINT64_C(50000000)
/* A year: the threads must have ended before what they use is freed. */
#define FOREVER_MS UINT64_C(31536000000)
/* Wall time that a batch is meant to end in, where it holds more than one step. */
#define BATCH_SECONDS 4e-3
/* The same where several principals are listed: one that comes waits for the batch that runs. 0.5 ms is ten times what
 * a batch costs beside its steps. */
#define SHARED_BATCH_SECONDS 0.25e-3
/* Rough speed of a device with memory of its own, in cores. Used only to estimate costs. */
#define ACCELERATOR 50.0

/* ---- start ---- */

static void init_condition(pthread_cond_t *condition) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

/* False: no memory. */
static bool init_lane(scheduler *scheduler, uint32_t index) {
    lane *lane = &scheduler->lanes[index];
    ct_engine_facts facts;
    lane->scheduler = scheduler;
    lane->index = index;
    lane->device = index / SCHEDULE_LANES;
    lane->kind = (schedule_lane)(index % SCHEDULE_LANES);
    ct_engine_get_facts(scheduler->engine, lane->device, &facts);
    lane->threads = facts.threads ? facts.threads : 1;
    lane->batch_s = BATCH_SECONDS * lane->threads;
    lane->shared_s = SHARED_BATCH_SECONDS * lane->threads;
    lane->speed = facts.memory_budget ? ACCELERATOR : 1;
    lane->batch_steps = facts.memory_budget ? BATCH_STEPS : CPU_BATCH_STEPS;
    const uint32_t n = lane->kind == SCHEDULE_LARGE ? LARGE_RUNNERS : 1;
    lane->runners = calloc(n, sizeof *lane->runners);
    if (!lane->runners) return false;
    lane->n_runners = n;
    for (uint32_t i = 0; i < n; i++) {
        lane->runners[i].lane = lane;
        init_condition(&lane->runners[i].wake);
    }
    if (lane->kind != SCHEDULE_SMALL) return true;
    lane->ready =
        probe_run(scheduler->engine, lane->device, scheduler->backend, lane->ready_reason, sizeof lane->ready_reason);
    lane->probed_ns = clock_ns();
    if (!lane->ready) log_error("schedule", "not ready: %s", lane->ready_reason);
    return true;
}

static bool start_threads(lane *lane) {
    for (uint32_t i = 0; i < lane->n_runners; i++) {
        runner *runner = &lane->runners[i];
        if (pthread_create(&runner->thread, NULL, scheduler_worker, runner) != 0) return false;
        runner->is_started = true;
    }
    return true;
}

/* With the lock held. */
static void wake_all(scheduler *scheduler) {
    for (uint32_t i = 0; i < scheduler->n_lanes; i++) {
        for (uint32_t r = 0; r < scheduler->lanes[i].n_runners; r++)
            pthread_cond_signal(&scheduler->lanes[i].runners[r].wake);
    }
}

/* Ends the runners' threads and frees what the scheduler has. */
static void dismantle(scheduler *scheduler) {
    pthread_mutex_lock(&scheduler->lock);
    scheduler->ending = true;
    wake_all(scheduler);
    pthread_mutex_unlock(&scheduler->lock);
    for (uint32_t i = 0; i < scheduler->n_lanes; i++) {
        lane *lane = &scheduler->lanes[i];
        for (uint32_t r = 0; r < lane->n_runners; r++) {
            if (lane->runners[r].is_started) pthread_join(lane->runners[r].thread, NULL);
        }
    }
    for (uint32_t i = 0; i < scheduler->n_lanes; i++) {
        lane *lane = &scheduler->lanes[i];
        for (uint32_t r = 0; r < lane->n_runners; r++) pthread_cond_destroy(&lane->runners[r].wake);
        free(lane->runners);
        free(lane->principals);
    }
    pthread_cond_destroy(&scheduler->idle);
    pthread_mutex_destroy(&scheduler->lock);
    shares_free(&scheduler->shares);
}

scheduler *scheduler_start(const scheduler_options *options, registry *registry, metrics *metrics,
                           server_error *error) {
    static_assert((int)LARGE_RUNNERS >= 1, "the engine runs a batch of small steps beside as many of large ones");
    uint32_t n_lanes = (uint32_t)ct_engine_device_count(options->engine) * SCHEDULE_LANES;
    scheduler *scheduler = calloc(1, sizeof *scheduler + n_lanes * sizeof scheduler->lanes[0]);
    if (!scheduler) {
        server_fail(error, CONTACTD_OUT_OF_MEMORY, "scheduler", "", "no memory for the scheduler");
        return NULL;
    }
    scheduler->engine = options->engine;
    scheduler->backend = options->backend;
    scheduler->capacity = options->queue;
    shares_init(&scheduler->shares, options->queue);
    scheduler->max_in_flight = options->max_in_flight;
    scheduler->scratch_bytes = options->scratch_bytes;
    scheduler->window_ns = options->batch_window_us * UINT64_C(1000);
    scheduler->max_step_ns = options->max_step_ms * UINT64_C(1000000);
    scheduler->preemption = (preemption){INLINE_NS, SMALL_NS, LARGE_NS};
    scheduler->on_lost = options->on_lost;
    scheduler->context = options->context;
    scheduler->registry = registry;
    scheduler->metrics = metrics;
    scheduler->n_lanes = n_lanes;
    pthread_mutex_init(&scheduler->lock, NULL);
    init_condition(&scheduler->idle);
    bool good = true;
    for (uint32_t i = 0; i < n_lanes && good; i++) good = init_lane(scheduler, i);
    good = good && scheduler_know_principal(scheduler, PRINCIPAL_NONE);
    registry_set_lanes(registry, n_lanes);
    scheduler->anonymous_session = session_new(registry);
    good = good && scheduler->anonymous_session;
    if (!good) server_fail(error, CONTACTD_OUT_OF_MEMORY, "scheduler", "", "no memory for the scheduler's queues");
    for (uint32_t i = 0; i < n_lanes && good; i++) good = start_threads(&scheduler->lanes[i]);
    if (good) return scheduler;
    server_fail(error, CONTACTD_OUT_OF_MEMORY, "scheduler", "", "a worker thread cannot be started");
    dismantle(scheduler);
    session_release(&scheduler->anonymous_session);
    free(scheduler);
    return NULL;
}

static void refuse_command(command *command, const server_error *error) {
    struct command *follower = command->follower, *asker = follower ? follower : command;
    asker->error = *error;
    command_release_objects(command);
    command->done(command);
    if (!follower) return;
    command_release_objects(follower);
    follower->done(follower);
}

void scheduler_refuse(command *first, const server_error *error) {
    for (command *command = first, *next; command; command = next) {
        const server_error own = command->error;
        next = command->next;
        refuse_command(command, error ? error : &own);
    }
}

void scheduler_refuse_at_end(command *first) {
    server_error error = {0};
    server_fail(&error, CONTACTD_SHUTTING_DOWN, "server", "", "the server ended before this ran");
    scheduler_refuse(first, &error);
}

void scheduler_uncount(scheduler *scheduler, command *command) {
    session *asker = command->asker;
    atomic_fetch_sub(&command->target->pending, 1);
    scheduler->lanes[command->lane].depth--;
    if (command->group && --command->group->unfinished > 0) return;
    if (command->kind == COMMAND_STEP) atomic_fetch_sub(&asker->in_flight, 1);
    if (atomic_fetch_sub(&asker->pending, 1) == 1) scheduler->n_busy_sessions--;
    shares_give(&scheduler->shares, command->who.principal, 1);
    scheduler->depth--;
}

/* Of an admitted command: its place in the queue, and of a group's the first takes one for all. */
static void count(scheduler *scheduler, command *command) {
    session *asker = command->asker;
    atomic_fetch_add(&command->target->pending, 1);
    if (command->group && command->group->unfinished++ > 0) return;
    if (command->kind == COMMAND_STEP) atomic_fetch_add(&asker->in_flight, 1);
    if (atomic_fetch_add(&asker->pending, 1) == 0) scheduler->n_busy_sessions++;
    shares_take(&scheduler->shares, command->who.principal, 1);
    scheduler->depth++;
}

static struct timespec time_in(uint64_t ms) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    time.tv_sec += (time_t)(ms / 1000);
    time.tv_nsec += (long)(ms % 1000) * 1000000;
    if (time.tv_nsec >= 1000000000) time.tv_sec++, time.tv_nsec -= 1000000000;
    return time;
}

/* Ends what runs, and answers what has not begun: after that or, where a device does not come back from its work, after
 * timeout_ms. With the lock held, draining set. */
static void refuse_queued(scheduler *scheduler, uint64_t timeout_ms) {
    struct timespec until = time_in(timeout_ms);
    scheduler->ending = true; /* no runner begins another batch */
    scheduler_cancel(scheduler, NULL, NULL, CANCEL_SHUTDOWN);
    for (int rc = 0; rc == 0 && !scheduler_is_idle(scheduler);)
        rc = pthread_cond_timedwait(&scheduler->idle, &scheduler->lock, &until);
    command *first = scheduler_empty_queues(scheduler);
    pthread_mutex_unlock(&scheduler->lock);
    scheduler_refuse_at_end(first);
    pthread_mutex_lock(&scheduler->lock);
}

bool scheduler_drain(scheduler *scheduler, uint64_t timeout_ms) {
    struct timespec until = time_in(timeout_ms);
    pthread_mutex_lock(&scheduler->lock);
    scheduler->draining = true;
    wake_all(scheduler);
    command *held = scheduler_take_held(scheduler); /* clients that are not there would keep the server */
    pthread_mutex_unlock(&scheduler->lock);
    scheduler_refuse_at_end(held);
    pthread_mutex_lock(&scheduler->lock);
    int rc = 0;
    while (rc == 0 && (scheduler->depth || !scheduler_is_idle(scheduler))) {
        rc = pthread_cond_timedwait(&scheduler->idle, &scheduler->lock, &until);
    }
    bool drained = !scheduler->depth && scheduler_is_idle(scheduler);
    if (!drained) refuse_queued(scheduler, LAST_BATCH_MS);
    pthread_mutex_unlock(&scheduler->lock);
    return drained;
}

void scheduler_stop(scheduler **scheduler) {
    struct scheduler *ending = *scheduler;
    if (!ending) return;
    pthread_mutex_lock(&ending->lock);
    ending->draining = true;
    refuse_queued(ending, FOREVER_MS);
    pthread_mutex_unlock(&ending->lock);
    dismantle(ending);

    uint64_t *handles;
    size_t n;
    if (registry_scenes_of(ending->registry, NULL, &handles, &n)) {
        for (size_t i = 0; i < n; i++) {
            scene *scene = scene_acquire(ending->registry, handles[i], NULL);
            if (!scene) continue;
            sequence_clear(&scene->sequence, registry_kept_answers(ending->registry));
            command_close_scene(ending, scene);
            scene_release(&scene);
        }
        free(handles);
    }
    session_release(&ending->anonymous_session);
    free(ending);
    *scheduler = NULL;
}

/* ---- admission; with the lock held ---- */

/* When the scene's last queue will be empty, at its measured rate. */
static uint32_t retry_hint_ms(const scheduler *scheduler, const scene *scene) {
    const lane *lane = &scheduler->lanes[scene->lane];
    if (!(lane->rate > 0)) return 10;
    double ms = ceil(1000.0 * lane->depth / lane->rate);
    return ms < 1 ? 1 : ms > 10000 ? 10000 : (uint32_t)ms;
}

/* Fails the command on its scene; returns false. */
__attribute__((format(printf, 4, 5))) static bool fail(command *command, contactd_code code, const char *field,
                                                       const char *format, ...) {
    char object[96], message[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    command_object(command, object);
    return server_fail(&command->error, code, object, field, "%s", message);
}

__attribute__((format(printf, 3, 4))) static submit_outcome busy(scheduler *scheduler, command *command,
                                                                 const char *format, ...) {
    char message[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    uint32_t hint = retry_hint_ms(scheduler, command->target);
    fail(command, CONTACTD_BUSY, "", "%s; try again in %" PRIu32 " ms", message, hint);
    command->error.retry_after_ms = hint;
    metrics_add(scheduler->metrics, METRICS_BUSY, 1);
    return SUBMIT_REFUSED;
}

/* Whether the role has commands of the kind, whatever scene they are for. */
static bool has_role(command *command) {
    bool looks =
        command->kind == COMMAND_CONFIGURE || command->kind == COMMAND_LIST_BODIES || command->kind == COMMAND_SNAPSHOT;
    if (command->internal || looks || role_simulates(command->who.role)) return true;
    return server_fail(&command->error, CONTACTD_FORBIDDEN, "principal", "role",
                       "%s has the role %s, which looks and configures; opening, changing, stepping and closing scenes "
                       "takes the role simulator or admin",
                       command->who.name, role_name(command->who.role));
}

static bool may_touch(const scheduler *scheduler, command *command) {
    const scene *scene = command->target;
    if (!role_operates(command->who.role) && scene->principal != command->who.principal)
        return registry_fail_scene(command->scene, &command->error);
    if (scene->closing) return fail(command, CONTACTD_STALE_HANDLE, "scene", "the scene was closed: open another one");
    bool owners_only =
        command->kind != COMMAND_CONFIGURE && command->kind != COMMAND_LIST_BODIES && command->kind != COMMAND_SNAPSHOT;
    if (owners_only && scene->owner && command->asker != scene->owner &&
        command->asker != scheduler->anonymous_session) {
        return fail(command, CONTACTD_FORBIDDEN, "scene",
                    "the scene belongs to another client (\"%s\"): open a scene of your own", scene->owner->client);
    }
    return true;
}

static command *in_flight_step(const scene *scene, uint64_t number) {
    command *running = scene->stepping;
    if (running && running->in.step.sequence == number) return running;
    for (command *command = scene->first; command; command = command->next) {
        if (command->kind == COMMAND_STEP && command->in.step.sequence == number) return command;
    }
    return NULL;
}

/* Replaces the step, or repeat, of the same number. Always false: the command is not queued by itself. */
static bool supersede(command *command, submit_outcome *outcome, struct command **displaced) {
    struct command *first = in_flight_step(command->target, command->in.step.sequence);
    *displaced = first->follower;
    if (*displaced) (*displaced)->superseded = true;
    first->superseded = true;
    first->follower = command;
    *outcome = SUBMIT_QUEUED;
    return false;
}

/* By the scene's last answer; before there is one, by the most that the scene can have: 60 bytes a vertex, of which
 * there are half as many as triangles, and 53 bytes a span. */
static uint64_t expected_answer_bytes(const scene *scene, const command *command) {
    const uint32_t want = command->in.step.want;
    uint64_t products = 0; /* at as many vertices as there are values of directions, at least */
    for (size_t i = 0; i < command->in.step.n_directions; i++)
        products += 24 * command->in.step.directions[i].count + 96;
    if (scene->sequence.newest_bytes) return scene->sequence.newest_bytes + products;
    const uint32_t *n = scene->record.settings.resolution;
    uint64_t rays = (uint64_t)n[0] * n[1] + (uint64_t)n[1] * n[2] + (uint64_t)n[2] * n[0];
    uint64_t entries = want & (CT_WANT_GRADIENT | CT_WANT_FRICTION | CT_WANT_FORCES) ? 30 * scene->triangles : 0;
    if (command->in.step.n_velocities) entries = 42 * scene->triangles; /* with weights and friction on each vertex */
    return sizeof(ct_result) + entries + (want & CT_WANT_SPANS ? 53 * rays : 0) + products;
}

/* Whether the client's unread answers leave room for the answer of a new step. */
static bool has_answer_room(scheduler *scheduler, command *command) {
    uint64_t room = command->in.step.answer_room;
    command->expected_bytes = expected_answer_bytes(command->target, command);
    if (room == 0 || command->expected_bytes <= room) return true;
    busy(scheduler, command,
         "its answer is expected to have %" PRIu64
         " bytes, and the answers that this client has not read leave room for "
         "%" PRIu64 " (--unread-per-client, --unread-memory): read them first",
         command->expected_bytes, room);
    return false;
}

/* A numbered step: true if it is to be queued, as the next one or as a repeat of one whose answer is kept (is_repeat);
 * else it was dealt with, and *outcome tells how. */
static bool should_queue_step(scheduler *scheduler, command *command, submit_outcome *outcome,
                              struct command **displaced) {
    sequence *sequence = &command->target->sequence;
    uint64_t number = command->in.step.sequence;
    step_answer *kept = NULL;
    *outcome = SUBMIT_REFUSED;
    if (number == 0) {
        return fail(command, CONTACTD_INVALID_ARGUMENT, "sequence",
                    "steps are numbered from 1; expected %" PRIu64 ", got 0", sequence->admitted + 1);
    }
    switch (sequence_judge(sequence, number, &kept)) {
    case SEQUENCE_NEW:
        sequence_receive(sequence, registry_kept_answers(scheduler->registry), command->in.step.received);
        return true;
    case SEQUENCE_KEPT:
        if (in_flight_step(command->target, number)) return supersede(command, outcome, displaced);
        step_answer_release(&command->answer);
        command->answer = step_answer_retain(kept);
        command->is_repeat = true;
        return true;
    case SEQUENCE_IN_FLIGHT:
        if (in_flight_step(command->target, number)) return supersede(command, outcome, displaced);
        return fail(command, CONTACTD_INTERNAL, "sequence", "step %" PRIu64 " is neither waiting nor answered", number);
    case SEQUENCE_FORGOTTEN:
        return fail(command, CONTACTD_CONFLICT, "sequence",
                    "step %" PRIu64 " was answered, and its answer is no longer kept (kept: %" PRIu64 " to %" PRIu64
                    "); the next step is %" PRIu64,
                    number, sequence->oldest ? sequence->oldest->number : sequence->answered, sequence->answered,
                    sequence->admitted + 1);
    case SEQUENCE_REFUSED:
        busy(scheduler, command, "step %" PRIu64 " before it found the queue full", sequence->admitted + 1);
        return false;
    case SEQUENCE_GAP:
        break;
    }
    return fail(command, CONTACTD_CONFLICT, "sequence",
                "sequence numbers rise by one: expected %" PRIu64 ", got %" PRIu64, sequence->admitted + 1, number);
}

/* Commands that a session may have when the queue is in its last quarter. */
static uint32_t fair_share(const scheduler *scheduler) {
    uint32_t n = scheduler->n_busy_sessions > 2 ? scheduler->n_busy_sessions : 2; /* room for one that may come */
    return scheduler->capacity / n;
}

/* Room to count the principal's commands. */
static bool knows_principal(scheduler *scheduler, command *command) {
    scheduler->is_shared = scheduler->is_shared || identity_has_others(&command->who);
    if (shares_know(&scheduler->shares, &command->who) && scheduler_know_principal(scheduler, command->who.principal))
        return true;
    return server_fail(&command->error, CONTACTD_OUT_OF_MEMORY, "queue", "", "no memory to count commands");
}

/* The principal's share, however many sessions it has. */
static bool has_principals_room(scheduler *scheduler, command *command) {
    const shares *shares = &scheduler->shares;
    const identity *who = &command->who;
    if (shares_allow(shares, who, 1)) return true;
    busy(scheduler, command,
         "%" PRIu64 " commands of %s wait, its share of the queue (--queue %" PRIu32 ") is %" PRIu64 ", and %" PRIu32
         " of all wait: send fewer at once, or give it more weight in --principals",
         shares_used(shares, who->principal), who->name, scheduler->capacity, shares_part(shares, who),
         scheduler->depth);
    return false;
}

static bool has_room(scheduler *scheduler, command *command) {
    session *asker = command->asker;
    bool step = command->kind == COMMAND_STEP;
    uint32_t steps = atomic_load(&asker->in_flight), others = atomic_load(&asker->pending) - steps;
    if (scheduler->depth >= scheduler->capacity) {
        busy(scheduler, command, "the queue holds %" PRIu32 " commands, which is its capacity", scheduler->depth);
        return false;
    }
    /* With principals the shares are by principal: opening many sessions must not make another's share smaller. */
    bool is_last_quarter = scheduler->depth >= scheduler->capacity - scheduler->capacity / 4;
    if (!command->who.principal && is_last_quarter && steps + others >= fair_share(scheduler)) {
        busy(scheduler, command,
             "%" PRIu32 " commands of this client wait, and the queue holds %" PRIu32 " of %" PRIu32, steps + others,
             scheduler->depth, scheduler->capacity);
        return false;
    }
    if (asker != scheduler->anonymous_session && (step ? steps : others) >= scheduler->max_in_flight) {
        busy(scheduler, command, "%" PRIu32 " %s of this client are in flight, which is the limit",
             step ? steps : others, step ? "steps" : "commands");
        return false;
    }
    return has_principals_room(scheduler, command);
}

/* Frees their places in the queue. A scene that is ready stays so. */
command *scheduler_take_waiting(scheduler *scheduler, scene *scene) {
    command *first = scene->first;
    scene->first = scene->last = NULL;
    for (command *command = first; command; command = command->next) scheduler_uncount(scheduler, command);
    return first;
}

static submit_outcome admit(scheduler *scheduler, command *command, struct command **displaced,
                            struct command **dropped) {
    scene *scene = command->target;
    bool numbered = command->kind == COMMAND_STEP && command->asker != scheduler->anonymous_session;
    submit_outcome outcome;
    if (!command->internal) {
        if (scheduler->draining) {
            server_fail(&command->error, CONTACTD_SHUTTING_DOWN, "server", "", "the server is shutting down");
            return SUBMIT_REFUSED;
        }
        if (!may_touch(scheduler, command) || !knows_principal(scheduler, command)) return SUBMIT_REFUSED;
        if (numbered && !should_queue_step(scheduler, command, &outcome, displaced)) return outcome;
        bool needs_room =
            command->kind != COMMAND_CLOSE && !command->is_repeat && !command->group; /* see may_admit_group */
        if (needs_room && !(has_room(scheduler, command) && (!numbered || has_answer_room(scheduler, command)))) {
            if (numbered) sequence_refuse(&scene->sequence, command->in.step.sequence);
            return SUBMIT_REFUSED;
        }
    } else if (scene->closing) {
        return SUBMIT_REFUSED;
    }
    if (!scene->owner && command->asker != scheduler->anonymous_session &&
        (command_brings_mesh(command) || command->kind == COMMAND_STEP)) {
        scene_adopt(scheduler->registry, scene, command->asker);
    }
    if (command->is_repeat) {
        metrics_add(scheduler->metrics, METRICS_STEPS_CACHED, 1);
    } else if (numbered) {
        sequence_admit(&scene->sequence, command->in.step.sequence);
    }
    if (command->kind == COMMAND_CLOSE) {
        scene->closing = true;
        *dropped = scheduler_take_waiting(scheduler, scene);
        if (scene->ready) scheduler_withdraw(scheduler, scene); /* the CLOSE waits for no other scene's long step */
        if (scene->running) scheduler_cancel(scheduler, scene, NULL, CANCEL_CLOSED);
    }
    count(scheduler, command);
    if (scene->first) {
        scene->last->next = command;
    } else {
        scene->first = command;
    }
    scene->last = command;
    if (!scene->running && !scene->ready) scheduler_make_ready(scheduler, scene);
    command->lane = scene->lane;
    scheduler->lanes[command->lane].depth++;
    return SUBMIT_QUEUED;
}

/* ---- submitting ---- */

static bool is_draining(scheduler *scheduler, command *command) {
    pthread_mutex_lock(&scheduler->lock);
    bool draining = scheduler->draining;
    pthread_mutex_unlock(&scheduler->lock);
    if (draining) server_fail(&command->error, CONTACTD_SHUTTING_DOWN, "server", "", "the server is shutting down");
    return draining;
}

static void begin_submission(command *command, uint64_t now) {
    server_clear(&command->error);
    memset(&command->out, 0, command->kind == COMMAND_STEP ? sizeof command->out.step : sizeof command->out);
    command->superseded = command->is_repeat = command->is_preempted = command->was_paused = false;
    atomic_store(&command->is_logged, false);
    command->next = command->follower = NULL;
    command->answer = NULL;
    command->expected_bytes = 0;
    command->submitted_ns = now;
    if (!command->received_ns) command->received_ns = now;
    command->triangles = 0;
}

submit_outcome scheduler_submit(scheduler *scheduler, command *command) {
    begin_submission(command, clock_ns());
    if (!has_role(command)) return SUBMIT_REFUSED;
    if (command_brings_mesh(command)) { /* an unknown mesh is an error when the command runs */
        mesh_record mesh;
        const uint64_t handle =
            command->kind == COMMAND_ADD_BODY ? command->in.add_body.mesh : command->in.replace_mesh.mesh;
        if (registry_find_mesh(scheduler->registry, handle, NULL, &command->who, &mesh, NULL, NULL))
            command->triangles = mesh.info.triangles;
    }
    if (command->kind == COMMAND_OPEN) {
        return !is_draining(scheduler, command) && command_open(scheduler, command) ? SUBMIT_DONE : SUBMIT_REFUSED;
    }
    command->asker = scheduler->anonymous_session;
    if (command->session != SESSION_NONE) {
        command->asker = session_acquire(scheduler->registry, command->session, &command->error);
        if (!command->asker) return SUBMIT_REFUSED;
    } else {
        atomic_fetch_add(&scheduler->anonymous_session->references, 1);
    }
    command->target = scene_acquire(scheduler->registry, command->scene, &command->error);
    submit_outcome outcome = SUBMIT_REFUSED;
    struct command *displaced = NULL, *dropped = NULL;
    if (command->target) {
        if (!command->internal) atomic_store(&command->target->asked_ns, command->submitted_ns);
        if (command->kind == COMMAND_STEP) command->answer = step_answer_new(command->in.step.sequence);
        if (command->kind == COMMAND_STEP && !command->answer) {
            server_fail(&command->error, CONTACTD_OUT_OF_MEMORY, "step", "", "no memory for an answer");
        } else {
            pthread_mutex_lock(&scheduler->lock);
            outcome = admit(scheduler, command, &displaced, &dropped);
            pthread_mutex_unlock(&scheduler->lock);
        }
    }
    if (displaced) {
        command_release_objects(displaced);
        displaced->done(displaced);
    }
    if (dropped) {
        server_error error = {0};
        server_fail(&error, CONTACTD_STALE_HANDLE, "scene", "", "the scene was closed before this ran");
        scheduler_refuse(dropped, &error);
    }
    /* A queued command may be done and freed by now: it must not be read again. */
    if (outcome != SUBMIT_QUEUED) command_release_objects(command);
    return outcome;
}

/* ---- groups ---- */

/* The scene and the place for the answer, or command->error says why not. */
static void prepare_member(scheduler *scheduler, command *command, scene *target, session *asker, uint64_t now) {
    begin_submission(command, now);
    command->asker = asker;
    command->target = target ? target : scene_acquire(scheduler->registry, command->scene, &command->error);
    if (!command->target) return;
    atomic_store_explicit(&command->target->asked_ns, now, memory_order_relaxed);
    command->answer = step_answer_new(command->in.step.sequence);
    if (!command->answer) server_fail(&command->error, CONTACTD_OUT_OF_MEMORY, "step", "", "no memory for an answer");
}

static void prepare_members(scheduler *scheduler, command *commands, size_t n, session *asker, uint64_t now) {
    uint64_t handles[SCENES_AT_ONCE];
    scene *scenes[SCENES_AT_ONCE];
    atomic_fetch_add_explicit(&asker->references, (unsigned)n, memory_order_relaxed);
    for (size_t at = 0; at < n; at += SCENES_AT_ONCE) {
        const size_t some = n - at < SCENES_AT_ONCE ? n - at : SCENES_AT_ONCE;
        for (size_t i = 0; i < some; i++) handles[i] = commands[at + i].scene;
        scenes_acquire(scheduler->registry, handles, some, scenes);
        for (size_t i = 0; i < some; i++) prepare_member(scheduler, &commands[at + i], scenes[i], asker, now);
    }
}

static bool is_new(const command *command) {
    step_answer *kept;
    const sequence_verdict verdict =
        command->target ? sequence_judge(&command->target->sequence, command->in.step.sequence, &kept) : SEQUENCE_GAP;
    return verdict == SEQUENCE_NEW || verdict == SEQUENCE_REFUSED;
}

/* With the lock held: whether there is room for all that is new, as one command would need it. first: a new one. */
static bool has_group_room(scheduler *scheduler, command *first, command_group *group, command *commands, size_t n) {
    if (!has_room(scheduler, first)) return false;
    for (size_t i = 0; i < n; i++) {
        if (!is_new(&commands[i])) continue;
        commands[i].expected_bytes = expected_answer_bytes(commands[i].target, &commands[i]);
        group->expected_bytes += commands[i].expected_bytes;
    }
    if (!group->answer_room || group->expected_bytes <= group->answer_room) return true;
    busy(scheduler, first,
         "the answer is expected to have %" PRIu64
         " bytes, and the answers that this client has not read leave room for "
         "%" PRIu64 " (--unread-per-client, --unread-memory): read them first",
         group->expected_bytes, group->answer_room);
    return false;
}

static bool may_admit_group(scheduler *scheduler, command_group *group, command *commands, size_t n,
                            server_error *error) {
    command *first = NULL;
    for (size_t i = 0; i < n && !first; i++) first = is_new(&commands[i]) ? &commands[i] : NULL;
    if (scheduler->draining)
        return server_fail(error, CONTACTD_SHUTTING_DOWN, "server", "", "the server is shutting down");
    if (!knows_principal(scheduler, &commands[0])) {
        *error = commands[0].error;
        return false;
    }
    if (!first || has_group_room(scheduler, first, group, commands, n)) return true;
    *error = first->error;
    for (size_t i = 0; i < n; i++) {
        if (is_new(&commands[i])) sequence_refuse(&commands[i].target->sequence, commands[i].in.step.sequence);
    }
    return false;
}

/* With the lock held. Those that are refused, and those that a repeat displaces, go into the list. */
static void admit_group(scheduler *scheduler, command *commands, size_t n, command **ended) {
    for (size_t i = 0; i < n; i++) {
        command *displaced = NULL, *dropped = NULL;
        const bool may_run = commands[i].error.code == CONTACTD_OK;
        const submit_outcome outcome = may_run ? admit(scheduler, &commands[i], &displaced, &dropped) : SUBMIT_REFUSED;
        command *const both[] = {outcome == SUBMIT_QUEUED ? NULL : &commands[i], displaced};
        for (int k = 0; k < 2; k++) {
            if (!both[k]) continue;
            both[k]->next = *ended;
            *ended = both[k];
        }
    }
}

bool scheduler_submit_group(scheduler *scheduler, command_group *group, command *commands, size_t n,
                            server_error *error) {
    const uint64_t now = clock_ns();
    group->expected_bytes = group->unfinished = 0;
    begin_submission(&commands[0], now);
    session *asker = NULL;
    if (!has_role(&commands[0]))
        *error = commands[0].error;
    else
        asker = session_acquire(scheduler->registry, commands[0].session, error);
    if (!asker) return false;
    prepare_members(scheduler, commands, n, asker, now);
    session_release(&asker);
    command *ended = NULL;
    pthread_mutex_lock(&scheduler->lock);
    const bool good = may_admit_group(scheduler, group, commands, n, error);
    if (good) admit_group(scheduler, commands, n, &ended);
    pthread_mutex_unlock(&scheduler->lock);
    if (!good) {
        for (size_t i = 0; i < n; i++) command_release_objects(&commands[i]);
        return false;
    }
    for (command *command = ended, *next; command; command = next) {
        next = command->next;
        command_release_objects(command);
        command->done(command);
    }
    return true;
}

void command_release_objects(command *command) {
    step_answer_release(&command->answer);
    if (command->target) scene_release(&command->target);
    session_release(&command->asker);
}

void scheduler_kick(scheduler *scheduler) {
    pthread_mutex_lock(&scheduler->lock);
    for (uint32_t i = 0; i < scheduler->n_lanes; i++) scheduler_wake(&scheduler->lanes[i]);
    pthread_mutex_unlock(&scheduler->lock);
}

typedef struct waiter {
    pthread_mutex_t lock;
    pthread_cond_t done;
    bool is_done;
} waiter;

static void wake_waiter(command *command) {
    waiter *waiter = command->context;
    pthread_mutex_lock(&waiter->lock);
    waiter->is_done = true;
    pthread_cond_signal(&waiter->done);
    pthread_mutex_unlock(&waiter->lock); /* after this the waiter may be freed */
}

bool scheduler_execute(scheduler *scheduler, command *command) {
    waiter waiter = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
    command->done = wake_waiter;
    command->context = &waiter;
    if (scheduler_submit(scheduler, command) == SUBMIT_QUEUED) {
        scheduler_kick(scheduler);
        pthread_mutex_lock(&waiter.lock);
        while (!waiter.is_done) pthread_cond_wait(&waiter.done, &waiter.lock);
        pthread_mutex_unlock(&waiter.lock);
    }
    pthread_cond_destroy(&waiter.done);
    pthread_mutex_destroy(&waiter.lock);
    return command->error.code == CONTACTD_OK;
}

/* ---- facts and the reaper ---- */

bool scheduler_ready(scheduler *scheduler, char *reason, size_t size) {
    const uint64_t stale_ns = UINT64_C(60000000000);
    pthread_mutex_lock(&scheduler->lock);
    bool ready = true;
    snprintf(reason, size, "%s", "");
    for (uint32_t i = SCHEDULE_SMALL; i < scheduler->n_lanes && ready; i += SCHEDULE_LANES) {
        const lane *lane = &scheduler->lanes[i];
        uint64_t age = clock_ns() - lane->probed_ns;
        ready = lane->ready && age <= stale_ns;
        if (!lane->ready) {
            snprintf(reason, size, "%s", lane->ready_reason);
        } else if (!ready) {
            snprintf(reason, size, "device %zu has not come back from its work for %.0f s", lane->device,
                     (double)age * 1e-9);
        }
    }
    if (ready && scheduler->draining) {
        snprintf(reason, size, "the server is shutting down");
        ready = false;
    }
    pthread_mutex_unlock(&scheduler->lock);
    return ready;
}

void scheduler_get_facts(scheduler *scheduler, scheduler_facts *out) {
    pthread_mutex_lock(&scheduler->lock);
    out->queue_depth = scheduler->depth;
    out->queue_capacity = scheduler->capacity;
    out->draining = scheduler->draining;
    double rate = 0;
    memset(out->lanes, 0, sizeof out->lanes);
    for (uint32_t i = 0; i < scheduler->n_lanes; i++) {
        const lane *lane = &scheduler->lanes[i];
        rate += lane->rate;
        lane_facts *facts = &out->lanes[lane->kind];
        facts->depth += lane->depth;
        for (uint32_t r = 0; r < lane->n_runners; r++) facts->busy += lane->runners[r].busy;
        facts->batches += lane->batches;
        facts->steps += lane->steps;
    }
    out->drain_per_s = (uint64_t)rate;
    pthread_mutex_unlock(&scheduler->lock);
}

static void free_command(command *command) {
    free(command);
}

/* Closes a scene whose client is gone, behind its queued commands. */
static void close_orphan(scheduler *scheduler, uint64_t handle) {
    command *command = calloc(1, sizeof *command);
    if (!command) {
        log_error("schedule", "no memory to close scene %" PRIu64 " of a client that is gone", handle);
        return;
    }
    command->kind = COMMAND_CLOSE;
    command->scene = handle;
    command->internal = true;
    command->done = free_command;
    if (scheduler_submit(scheduler, command) != SUBMIT_QUEUED) free(command);
}

#define EXPIRED_LINE_NS UINT64_C(60000000000)

/* In one line a minute, whoever opens and leaves scenes: the first one's number, and how many there were. */
static void note_expired(scheduler *scheduler, const uint64_t *scenes, size_t n) {
    const uint64_t now = clock_ns();
    if (n && !scheduler->n_expired) scheduler->first_expired = scenes[0];
    scheduler->n_expired += n;
    if (!scheduler->n_expired || now < scheduler->said_expired_ns + EXPIRED_LINE_NS) return;
    if (scheduler->n_expired == 1)
        log_info("schedule", "scene %" PRIu64 " has no owner and was not used for its time to live: closed",
                 scheduler->first_expired);
    else
        log_info("schedule",
                 "%" PRIu64
                 " scenes without owner were closed, each not used for its time to live; the first was scene "
                 "%" PRIu64,
                 scheduler->n_expired, scheduler->first_expired);
    scheduler->n_expired = 0;
    scheduler->said_expired_ns = now;
}

void scheduler_reap(scheduler *scheduler, uint64_t now_ns) {
    session *gone[32];
    size_t n_gone = registry_take_silent_sessions(scheduler->registry, now_ns, gone, 32);
    for (size_t i = 0; i < n_gone; i++) {
        uint64_t *handles;
        size_t n;
        if (registry_scenes_of(scheduler->registry, gone[i], &handles, &n)) {
            if (n) { /* a client that closed its scenes before it left is not logged */
                log_info("schedule", "client \"%s\" was silent for its lease of %" PRIu32 " ms: %zu scenes closed",
                         gone[i]->client, gone[i]->lease_ms, n);
            }
            for (size_t k = 0; k < n; k++) close_orphan(scheduler, handles[k]);
            free(handles);
        }
        session_release(&gone[i]);
    }
    uint64_t expired[32];
    size_t n_expired = registry_expired_scenes(scheduler->registry, now_ns, expired, 32);
    for (size_t i = 0; i < n_expired; i++) close_orphan(scheduler, expired[i]);
    note_expired(scheduler, expired, n_expired);
    if (n_gone || n_expired) scheduler_kick(scheduler);
    running_log_long(scheduler);
}

void scheduler_excuse_silence(scheduler *scheduler, uint64_t ns, uint64_t now_ns) {
    registry_excuse_silence(scheduler->registry, ns, now_ns);
}

/* runner_queue.c - the runners' queues: what a command is expected to cost, in which lane it belongs, and which scenes
 * the next batch takes. For the scheduler; all with its lock held. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "server/clock.h"
#include "server/schedule/internal.h"

enum {
    CONTROLS_AT_ONCE = 16, /* commands before a step that one batch runs of one scene */
    INLINE_SCENES = 4,
};

/* A step of more processor time than this is large. */
#define SMALL_SECONDS 4e-3
/* Batches of more processor time are not run on the I/O thread, which cannot receive meanwhile. A step of two boxes
 * waited 4 us when the I/O thread ran it, 20 to 50 us when the worker was woken (two cores, busy). */
#define INLINE_SECONDS 300e-6

/* ---- cost: processor time ---- */

/* What a pair costs EBPI, in rays of LDI: some thousand rays, whose tiles are measured. */
enum { ADAPTIVE_RAYS = 200000 };

/* Rough upper bound for one pair of bodies: no window is larger than the smaller body. 0 for a method without samples.
 */
static double rays_of(const scene *scene) {
    const ct_scene_settings *settings = &scene->record.running;
    if (settings->method == CT_METHOD_EBPI) return ADAPTIVE_RAYS;
    if (settings->pixel_size > 0) {
        double across = scene->size_m[1] / settings->pixel_size;
        return 3 * across * across;
    }
    const uint32_t *n = settings->resolution;
    return (double)n[0] * n[1] + (double)n[1] * n[2] + (double)n[2] * n[0];
}

/* An overestimate. */
static double estimate_by_size(const scene *scene, double speed) {
    double pairs = scene->n_uses > 2 ? (double)scene->n_uses - 1 : 1;
    return 30e-6 + (100e-9 * (double)scene->triangles + 5e-9 * rays_of(scene) * pairs) / speed;
}

/* Overestimated while the scene has not been stepped since its bodies or settings changed, so that no huge step runs
 * among small ones. Afterwards it is what was measured, but not much less than the scene's size suggests, as its bodies
 * may come close in the next step. */
static double cost_of_step(const scene *scene, double speed) {
    if (!(scene->cost_s > 0)) return estimate_by_size(scene, speed);
    double least = (10e-9 * (double)scene->triangles + 1e-9 * rays_of(scene)) / speed;
    return scene->cost_s > least ? scene->cost_s : least;
}

/* A step for its samples, a step for what the scene's method finds, and a copy, on the runner; it is drawn elsewhere.
 * Films of contacts look at all triangles, along their edges: 0.3 s of two bodies of 346,000 triangles each.
 * INLINE_SECONDS keeps all of them off the I/O thread. */
static double cost_of_snapshot(const scene *scene, const ct_snapshot_options *options, double speed) {
    const double step = cost_of_step(scene, speed), triangles = (double)scene->triangles;
    double cost = INLINE_SECONDS + step + 5e-9 * triangles +
                  15e-9 * (double)options->resolution * (double)options->resolution / speed;
    if (options->show & ~(uint32_t)CT_SHOW_DEFAULT) cost += step;
    if (options->show & CT_SHOW_CONTACTS) cost += 450e-9 * triangles;
    return cost;
}

/* For each triangle of a mesh, s: what a method derives from it when it first needs it, such as neighbours, trees over
 * clusters and voxel trees (measured on a body of 346,000 triangles, with margin). An overestimate: another body may
 * have had it made. */
static double preparation_of(ct_method method) {
    switch (method) {
    case CT_METHOD_AUTO: /* of a change: exact, where the backend has it */
    case CT_METHOD_EXACT:
        return 200e-9;
    case CT_METHOD_EBPI:
        return 20e-9;
    case CT_METHOD_VOXTREE:
        return 1e-6;
    default:
        return 0;
    }
}

/* A change of the method makes for all meshes at once what the new one needs. */
static double cost_of_change(const scene *scene, const scene_patch *settings, double speed) {
    double preparation = 0;
    if (settings->has_method) preparation = preparation_of(settings->method);
    if (settings->has_tolerance || settings->has_tolerance_rel)
        preparation = fmax(preparation, preparation_of(CT_METHOD_EBPI));
    if (settings->has_voxels) preparation = preparation_of(CT_METHOD_VOXTREE);
    return 1e-6 + preparation * (double)scene->triangles / speed;
}

static double cost_of_control(const scene *scene, const command *command, double speed) {
    if (command_brings_mesh(command))
        return 1e-6 + (5e-9 + preparation_of(scene->record.running.method) / speed) * (double)command->triangles;
    if (command->kind == COMMAND_CONFIGURE) return cost_of_change(scene, &command->in.configure.settings, speed);
    if (command->kind == COMMAND_CLOSE) return 1e-6 + 5e-9 * (double)scene->triangles;
    if (command->is_repeat) return 1e-6 + 1e-9 * (double)command->answer->bytes; /* to encode it */
    if (command->kind == COMMAND_SNAPSHOT) return cost_of_snapshot(scene, &command->in.snapshot.options, speed);
    return 1e-6;
}

static bool changes_cost(const command *command) {
    return command_brings_mesh(command) || command->kind == COMMAND_CONFIGURE;
}

typedef struct portion {
    int n; /* commands */
    bool has_step;
    double cost_s;
} portion;

/* The scene's commands that run next: up to and including the first step. A step behind a change of bodies or settings
 * runs in a later batch, as its cost is not known before the change. */
static portion next_portion(const scene *scene, double speed) {
    portion portion = {0, false, 0};
    bool changed = false;
    for (const command *command = scene->first; command && !portion.has_step && portion.n < CONTROLS_AT_ONCE;
         command = command->next) {
        bool step = command->kind == COMMAND_STEP && !command->is_repeat;
        if (step && changed) break;
        portion.has_step = step;
        changed = changed || changes_cost(command);
        portion.cost_s += step ? cost_of_step(scene, speed) : cost_of_control(scene, command, speed);
        portion.n++;
    }
    return portion;
}

/* A preempted step looks expensive. So the smaller of the last two measurements is used, and at most ten times the
 * estimate by the scene's size. */
static double clamped_cost(const scene *scene, double cost, double speed) {
    double most = 10 * estimate_by_size(scene, speed), previous = scene->last_cost_s > 0 ? scene->last_cost_s : most;
    if (cost > most) cost = most;
    return cost < previous ? cost : previous;
}

void scheduler_note_cost(scheduler *scheduler, scene *scene, const command *command) {
    double cost = command->kind == COMMAND_STEP && !command->is_repeat ? command->answer->cost_s : 0;
    if (cost > 0) {
        double now = clamped_cost(scene, cost, scheduler->runners[command->runner].speed);
        scene->cost_s = now > scene->cost_s ? now : 0.9 * scene->cost_s + 0.1 * now;
        scene->last_cost_s = cost;
    } else if (changes_cost(command)) {
        scene->cost_s = scene->last_cost_s = 0;
    }
}

/* ---- queues ---- */

static runner_queue *queue_of(const runner *runner, session *session) {
    return &session->runner_queues[runner->index];
}

static session *session_of(const scheduler *scheduler, const scene *scene) {
    return scene->owner ? scene->owner : scheduler->anonymous_session;
}

bool scheduler_know_principal(scheduler *scheduler, uint32_t principal) {
    for (uint32_t i = 0; i < scheduler->n_runners; i++) {
        runner *runner = &scheduler->runners[i];
        uint32_t n = principal + 1;
        if (n <= runner->n_principals) continue;
        principal_queue *grown = realloc(runner->principals, n * sizeof *grown);
        if (!grown) return false;
        memset(grown + runner->n_principals, 0, (n - runner->n_principals) * sizeof *grown);
        runner->principals = grown;
        runner->n_principals = n;
    }
    return true;
}

static void append_session(runner *runner, session *session) {
    runner_queue *queue = queue_of(runner, session);
    bool is_known = session->principal < runner->n_principals; /* else it has sent no command, and its scenes close */
    principal_queue *principal = &runner->principals[is_known ? session->principal : PRINCIPAL_NONE];
    queue->next = NULL;
    queue->is_listed = true;
    if (principal->first) {
        queue_of(runner, principal->last)->next = session;
    } else {
        principal->first = session;
        if (principal->time_s < runner->time_s) principal->time_s = runner->time_s;
    }
    principal->last = session;
    if (runner->n_sessions++ == 0) runner->waiting_since_ns = clock_ns();
}

/* Start-time fair queueing: the principal that has got the least processor time for its weight. One that comes gets no
 * more than the others for the time that it was away. NULL: no session waits. */
static principal_queue *pick_principal(runner *runner) {
    principal_queue *best = NULL;
    for (uint32_t i = 0; i < runner->n_principals && runner->n_sessions; i++) {
        principal_queue *principal = &runner->principals[i];
        if (principal->first && (!best || principal->time_s < best->time_s)) best = principal;
    }
    return best;
}

static void charge_principal(runner *runner, principal_queue *principal, double cost_s) {
    identity who = shares_identity(&runner->scheduler->shares, (uint32_t)(principal - runner->principals));
    runner->time_s = principal->time_s;
    principal->time_s += cost_s / identity_weight(&who);
}

runner *scheduler_make_ready(scheduler *scheduler, scene *scene) {
    runner *of_device = &scheduler->runners[scene->device * SCHEDULE_LANES];
    portion portion = next_portion(scene, of_device->speed);
    runner *runner = &of_device[portion.cost_s > SMALL_SECONDS ? SCHEDULE_LARGE : SCHEDULE_SMALL];
    session *session = session_of(scheduler, scene);
    runner_queue *queue = queue_of(runner, session);
    scene->runner = runner->index;
    scene->next_ready = NULL;
    scene->ready = true;
    if (queue->first) {
        queue->last->next_ready = scene;
    } else {
        queue->first = scene;
    }
    queue->last = scene;
    if (!queue->is_listed) append_session(runner, session);
    runner->queued_s += portion.cost_s;
    if (!portion.has_step || runner->queued_s > runner->batch_s)
        runner->waiting_since_ns = 0; /* run now: nothing to batch it with, or the batch is full */
    return runner;
}

static void drop_first_session(runner *runner, principal_queue *principal) {
    runner_queue *queue = queue_of(runner, principal->first);
    principal->first = queue->next;
    if (!principal->first) principal->last = NULL;
    queue->is_listed = false;
    runner->n_sessions--;
}

static scene *drop_first_scene(runner_queue *queue) {
    scene *scene = queue->first;
    queue->first = scene->next_ready;
    if (!queue->first) queue->last = NULL;
    scene->ready = false;
    return scene;
}

/* Negative where `to` is before `from`. */
static double milliseconds_between(uint64_t from, uint64_t to) {
    return (double)(int64_t)(to - from) * 1e-6;
}

static void fail_late(scheduler *scheduler, command *command, uint64_t now) {
    char object[96];
    command_object(command, object);
    server_fail(&command->error, CONTACTD_DEADLINE_EXCEEDED, object, "deadline_us",
                "it waited for %.3f ms, its deadline was %.3f ms after it came: nothing was computed or changed",
                milliseconds_between(command->received_ns, now),
                milliseconds_between(command->received_ns, command->deadline_ns));
    metrics_add(scheduler->metrics, METRICS_DEADLINES, 1);
}

/* A command that came while its scene ran was counted to that runner, and may run on another. */
static void count_where_it_runs(runner *runner, command *command) {
    struct runner *runners = runner->scheduler->runners;
    runners[command->runner].depth--;
    command->runner = runner->index;
    runners[command->runner].depth++;
}

/* Moves the scene's next n commands into the batch. */
static void take_scene(runner *runner, scene *scene, int n, uint64_t now) {
    scene->running = true;
    runner->scenes[runner->n_scenes++] = scene;
    while (n-- > 0) {
        command *command = scene->first;
        scene->first = command->next;
        if (!scene->first) scene->last = NULL;
        command->next = NULL;
        count_where_it_runs(runner, command);
        if (command->kind == COMMAND_STEP && !command->is_repeat) scene->stepping = command;
        if (command->deadline_ns && !command->is_repeat && now > command->deadline_ns)
            fail_late(runner->scheduler, command, now);
        if (runner->first_taken) {
            runner->last_taken->next = command;
        } else {
            runner->first_taken = command;
        }
        runner->last_taken = command;
    }
}

/* Processor time of the next batch. Small batches are shorter while a large one runs beside them on the same threads,
 * and all are where several principals are listed. */
static double batch_limit_s(const runner *runner) {
    const scheduler *scheduler = runner->scheduler;
    bool is_beside_large =
        runner->lane == SCHEDULE_SMALL && scheduler->runners[runner->device * SCHEDULE_LANES + SCHEDULE_LARGE].busy;
    double limit = scheduler->is_shared ? runner->shared_s : runner->batch_s;
    return is_beside_large && SMALL_SECONDS < limit ? SMALL_SECONDS : limit;
}

/* Principals by fair queueing, their sessions round robin, one scene each time, until the batch is full. A scene that
 * would make it too long is the first of the next batch, so a step longer than a batch runs alone. A batch is answered
 * when all of it has run, so other principals may add to the first one's steps at most the cost of these. */
void scheduler_fill_batch(runner *runner) {
    scheduler *scheduler = runner->scheduler;
    double cost = 0, limit = batch_limit_s(runner);
    const principal_queue *first = NULL;
    uint64_t now = clock_ns();
    runner->n_scenes = 0;
    runner->queued_s = 0;
    runner->first_taken = runner->last_taken = NULL;
    for (principal_queue *principal; runner->n_scenes < BATCH_STEPS && (principal = pick_principal(runner)) != NULL;) {
        session *session = principal->first;
        runner_queue *queue = queue_of(runner, session);
        scene *scene = queue->first;
        portion portion = next_portion(scene, runner->speed);
        if (first && principal != first && 2 * cost < limit) limit = 2 * cost;
        if (runner->lane == SCHEDULE_SMALL && portion.cost_s > SMALL_SECONDS) {
            /* It was queued here for small commands, and a large step came behind them. */
            drop_first_scene(queue);
            scheduler_wake(scheduler_make_ready(scheduler, scene));
        } else if (runner->n_scenes > 0 && cost + portion.cost_s > limit) {
            break;
        } else {
            if (!first) first = principal;
            drop_first_scene(queue);
            take_scene(runner, scene, portion.n, now);
            cost += portion.cost_s;
            charge_principal(runner, principal, portion.cost_s);
        }
        drop_first_session(runner, principal);
        if (queue->first) append_session(runner, session);
    }
    if (runner->n_sessions) runner->waiting_since_ns = 0; /* what is left has waited */
}

/* Counts the session's commands into *n and *cost. False: one of them is too long for the I/O thread. */
static bool is_short(const runner *runner, session *session, int *n, double *cost) {
    for (const scene *scene = queue_of(runner, session)->first; scene; scene = scene->next_ready) {
        if (++*n > INLINE_SCENES || command_brings_mesh(scene->first) || scene->first->kind == COMMAND_CLOSE)
            return false;
        *cost += next_portion(scene, runner->speed).cost_s;
        if (*cost > INLINE_SECONDS) return false;
    }
    return true;
}

bool scheduler_may_run_inline(const runner *runner) {
    double cost = 0;
    int n = 0;
    if (runner->n_sessions > INLINE_SCENES) return false;
    for (uint32_t i = 0; i < runner->n_principals; i++) {
        for (session *session = runner->principals[i].first; session; session = queue_of(runner, session)->next) {
            if (!is_short(runner, session, &n, &cost)) return false;
        }
    }
    return true;
}

static command **empty_session(runner_queue *queue, command **last) {
    while (queue->first) {
        scene *scene = drop_first_scene(queue);
        *last = scene->first;
        last = &scene->last->next;
        scene->first = scene->last = NULL;
    }
    return last;
}

command *scheduler_empty_queues(scheduler *scheduler) {
    command *first = NULL, **last = &first;
    for (uint32_t i = 0; i < scheduler->n_runners; i++) {
        runner *runner = &scheduler->runners[i];
        for (principal_queue *principal; (principal = pick_principal(runner)) != NULL;) {
            last = empty_session(queue_of(runner, principal->first), last);
            drop_first_session(runner, principal);
        }
    }
    return first;
}

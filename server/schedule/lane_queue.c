/* lane_queue.c - the lanes' queues: in which lane a scene's commands belong, and which scenes the next batch takes. For
 * the scheduler; all with its lock held. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/clock.h"
#include "server/schedule/internal.h"

enum {
    INLINE_SCENES = 4,
    /* Batches of the large lane that run at a time and hold scenes of one client, of commands without one (HTTP), and
     * of one listed principal: so none has all runners. */
    CLIENT_BATCHES = 1,
    ANONYMOUS_BATCHES = 2,
    PRINCIPAL_BATCHES = 2,
    /* A batch is long that is expected to take so many times as long as batches are filled to, by the clock 16 ms. */
    LONG_BATCHES = 4,
};

/* ---- queues ---- */

static lane_queue *queue_of(const lane *lane, session *session) {
    return &session->lane_queues[lane->index];
}

static session *session_of(const scheduler *scheduler, const scene *scene) {
    return scene->owner ? scene->owner : scheduler->anonymous_session;
}

bool scheduler_know_principal(scheduler *scheduler, uint32_t principal) {
    for (uint32_t i = 0; i < scheduler->n_lanes; i++) {
        lane *lane = &scheduler->lanes[i];
        uint32_t n = principal + 1;
        if (n <= lane->n_principals) continue;
        principal_queue *grown = realloc(lane->principals, n * sizeof *grown);
        if (!grown) return false;
        memset(grown + lane->n_principals, 0, (n - lane->n_principals) * sizeof *grown);
        lane->principals = grown;
        lane->n_principals = n;
    }
    return true;
}

static principal_queue *principal_of(const lane *lane, const session *session) {
    bool is_known = session->principal < lane->n_principals; /* else it has sent no command, and its scenes close */
    return &lane->principals[is_known ? session->principal : PRINCIPAL_NONE];
}

/* Whether as many batches of the large lane as may hold scenes of the session. */
static bool has_its_batches(const lane *lane, session *session) {
    if (lane->kind != SCHEDULE_LARGE) return false;
    const bool is_anonymous = session == lane->scheduler->anonymous_session;
    return queue_of(lane, session)->n_batches >= (is_anonymous ? ANONYMOUS_BATCHES : CLIENT_BATCHES);
}

/* Lists the session, unless it is listed already, waits for nothing in the lane, or must wait for its other batches. */
static void list_session(lane *lane, session *session) {
    lane_queue *queue = queue_of(lane, session);
    if (queue->is_listed || !queue->first || has_its_batches(lane, session)) return;
    principal_queue *principal = principal_of(lane, session);
    queue->next = NULL;
    queue->is_listed = true;
    if (principal->first) {
        queue_of(lane, principal->last)->next = session;
    } else {
        principal->first = session;
        if (principal->time_s < lane->time_s) principal->time_s = lane->time_s;
    }
    principal->last = session;
    if (lane->n_sessions++ == 0) lane->waiting_since_ns = clock_ns();
}

static void drop_first_session(lane *lane, principal_queue *principal) {
    lane_queue *queue = queue_of(lane, principal->first);
    principal->first = queue->next;
    if (!principal->first) principal->last = NULL;
    queue->is_listed = false;
    lane->n_sessions--;
}

static void unlist_session(lane *lane, session *session) {
    principal_queue *principal = principal_of(lane, session);
    if (!queue_of(lane, session)->is_listed) return;
    struct session *before = NULL;
    for (struct session *at = principal->first; at != session; at = queue_of(lane, at)->next) before = at;
    if (!before) {
        drop_first_session(lane, principal);
        return;
    }
    lane_queue *queue = queue_of(lane, session);
    queue_of(lane, before)->next = queue->next;
    if (principal->last == session) principal->last = before;
    queue->is_listed = false;
    lane->n_sessions--;
}

/* Start-time fair queueing: the principal that has got the least processor time for its weight. One that comes gets no
 * more than the others for the time that it was away. NULL: no session waits that may have a batch. */
static principal_queue *pick_principal(const lane *lane) {
    principal_queue *best = NULL;
    for (uint32_t i = 0; i < lane->n_principals && lane->n_sessions; i++) {
        principal_queue *principal = &lane->principals[i];
        if (!principal->first || (i != PRINCIPAL_NONE && principal->n_batches >= PRINCIPAL_BATCHES)) continue;
        if (!best || principal->time_s < best->time_s) best = principal;
    }
    return best;
}

bool scheduler_has_batch(lane *lane) {
    return pick_principal(lane) != NULL;
}

static void charge_principal(lane *lane, uint32_t principal, double cost_s) {
    identity who = shares_identity(&lane->scheduler->shares, principal);
    lane->principals[principal].time_s += cost_s / identity_weight(&who);
}

/* ---- scenes become ready ---- */

/* Lets the first command that is not held pass those that are. False: all are held. */
static bool pass_held(scene *scene) {
    command *before = NULL, *command = scene->first;
    for (; command && command_is_held(scene, command); command = command->next) before = command;
    if (!command) return false;
    if (!before) return true;
    before->next = command->next;
    if (scene->last == command) scene->last = before;
    command->next = scene->first;
    scene->first = command;
    return true;
}

/* Whether it is likely that the portion takes far longer than is estimated: a step of the client was preempted a moment
 * ago. So the small lane is not interrupted by each new scene of a client whose scenes take long. */
static bool is_doubtful(const session *session, const portion *portion) {
    return !portion->is_measured && session->doubted_until_ns && clock_ns() < session->doubted_until_ns;
}

lane *scheduler_make_ready(scheduler *scheduler, scene *scene) {
    if (!pass_held(scene)) return NULL;
    lane *of_device = &scheduler->lanes[scene->device * SCHEDULE_LANES];
    portion portion = scheduler_next_portion(scene, of_device->speed);
    session *session = session_of(scheduler, scene);
    bool is_large = portion.is_preempted || portion.cost_s > SMALL_SECONDS || is_doubtful(session, &portion);
    lane *lane = &of_device[is_large ? SCHEDULE_LARGE : SCHEDULE_SMALL];
    lane_queue *queue = queue_of(lane, session);
    scene->lane = lane->index;
    scene->next_ready = NULL;
    scene->ready = true;
    if (queue->first) {
        queue->last->next_ready = scene;
    } else {
        queue->first = scene;
    }
    queue->last = scene;
    list_session(lane, session);
    lane->queued_s += portion.cost_s;
    if (!portion.has_step || lane->queued_s > lane->batch_s)
        lane->waiting_since_ns = 0; /* run now: nothing to batch it with, or the batch is full */
    return lane;
}

static scene *drop_first_scene(lane_queue *queue) {
    scene *scene = queue->first;
    queue->first = scene->next_ready;
    if (!queue->first) queue->last = NULL;
    scene->ready = false;
    return scene;
}

/* False: it is not in the session's queue. */
static bool withdraw_from(lane *lane, session *session, scene *scene) {
    lane_queue *queue = queue_of(lane, session);
    struct scene *before = NULL, *at = queue->first;
    for (; at && at != scene; at = at->next_ready) before = at;
    if (!at) return false;
    *(before ? &before->next_ready : &queue->first) = scene->next_ready;
    if (queue->last == scene) queue->last = before;
    if (!queue->first) unlist_session(lane, session);
    scene->ready = false;
    return true;
}

void scheduler_withdraw(scheduler *scheduler, scene *scene) {
    lane *lane = &scheduler->lanes[scene->lane];
    /* A scene that was adopted while it was queued is in the queue of those without an owner. */
    if (!withdraw_from(lane, session_of(scheduler, scene), scene))
        withdraw_from(lane, scheduler->anonymous_session, scene);
}

void scheduler_requeue_session(scheduler *scheduler, session *session) {
    scene *first = NULL, **last = &first;
    for (uint32_t i = 0; i < scheduler->n_lanes; i++) {
        lane *lane = &scheduler->lanes[i];
        unlist_session(lane, session);
        for (lane_queue *queue = queue_of(lane, session); queue->first; last = &(*last)->next_ready) {
            *last = drop_first_scene(queue);
            (*last)->next_ready = NULL;
        }
    }
    for (scene *scene = first, *next; scene; scene = next) {
        next = scene->next_ready;
        scheduler_make_ready(scheduler, scene);
    }
}

/* ---- batches ---- */

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

/* A command that came while its scene ran was counted to that lane, and may run in another. */
static void count_where_it_runs(lane *lane, command *command) {
    struct lane *lanes = lane->scheduler->lanes;
    lanes[command->lane].depth--;
    command->lane = lane->index;
    lanes[command->lane].depth++;
}

/* Moves the scene's next n commands into the batch. */
static void take_scene(runner *runner, scene *scene, int n, uint64_t now) {
    scene->running = true;
    scene->runner = runner;
    scene->runs_for = session_of(runner->lane->scheduler, scene);
    runner->scenes[runner->n_scenes++] = scene;
    while (n-- > 0) {
        command *command = scene->first;
        scene->first = command->next;
        if (!scene->first) scene->last = NULL;
        command->next = NULL;
        count_where_it_runs(runner->lane, command);
        ct_cancel_init(&command->cancel, 0);
        command->cancel.outer = command->left;
        command->fate = COMMAND_ENDS;
        atomic_store(&command->began_ns, 0);
        if (command->kind == COMMAND_STEP && !command->is_repeat) scene->stepping = command;
        if (command->deadline_ns && !command->is_repeat && now > command->deadline_ns)
            fail_late(runner->lane->scheduler, command, now);
        if (runner->first_taken) {
            runner->last_taken->next = command;
        } else {
            runner->first_taken = command;
        }
        runner->last_taken = command;
    }
}

static bool runs_beside_large(const lane *lane) {
    const struct lane *large = &lane->scheduler->lanes[lane->device * SCHEDULE_LANES + SCHEDULE_LARGE];
    for (uint32_t i = 0; i < large->n_runners; i++) {
        if (large->runners[i].busy) return true;
    }
    return false;
}

/* Processor time of the next batch. Small batches are shorter while a large one runs beside them on the same threads,
 * and all are where several principals are listed. */
static double batch_limit_s(const lane *lane) {
    double limit = lane->scheduler->is_shared ? lane->shared_s : lane->batch_s;
    bool is_beside_large = lane->kind == SCHEDULE_SMALL && runs_beside_large(lane);
    return is_beside_large && SMALL_SECONDS < limit ? SMALL_SECONDS : limit;
}

/* Whether nothing else runs in the same batch, which is answered when all of it has run. */
static bool runs_alone(const lane *lane, const portion *portion) {
    return portion->is_preempted || (lane->kind == SCHEDULE_LARGE && !portion->is_measured);
}

/* Counts a batch of the large lane for the sessions and principals that have scenes in it, once for each. */
static void count_batch(runner *runner, bool begins) {
    lane *lane = runner->lane;
    if (lane->kind != SCHEDULE_LARGE) return;
    const uint64_t mark = ++lane->last_mark;
    for (size_t i = 0; i < runner->n_scenes; i++) {
        session *session = runner->scenes[i]->runs_for;
        lane_queue *queue = queue_of(lane, session);
        principal_queue *principal = principal_of(lane, session);
        if (queue->mark != mark) queue->n_batches += begins ? 1 : -1;
        if (principal->mark != mark) principal->n_batches += begins ? 1 : -1;
        queue->mark = principal->mark = mark;
        if (has_its_batches(lane, session)) {
            unlist_session(lane, session);
        } else {
            list_session(lane, session);
        }
    }
}

/* Principals by fair queueing, their sessions round robin, one scene each time, until the batch is full. A scene that
 * would make it too long is the first of the next batch, so a step longer than a batch runs alone. A batch is answered
 * when all of it has run, so other principals may add to the first one's steps at most the cost of these. */
void scheduler_fill_batch(runner *runner) {
    lane *lane = runner->lane;
    scheduler *scheduler = lane->scheduler;
    double cost = 0, limit = batch_limit_s(lane);
    const principal_queue *first = NULL;
    uint64_t now = clock_ns();
    bool is_alone = false;
    runner->begin_ns = now;
    runner->n_scenes = 0;
    runner->is_long = false;
    lane->queued_s = 0;
    runner->first_taken = runner->last_taken = NULL;
    for (principal_queue *principal;
         !is_alone && runner->n_scenes < lane->batch_steps && (principal = pick_principal(lane)) != NULL;) {
        session *session = principal->first;
        lane_queue *queue = queue_of(lane, session);
        scene *scene = queue->first;
        portion portion = scheduler_next_portion(scene, lane->speed);
        if (first && principal != first && 2 * cost < limit) limit = 2 * cost;
        if (lane->kind == SCHEDULE_SMALL && (portion.is_preempted || portion.cost_s > SMALL_SECONDS)) {
            /* It was queued here for small commands, and a large step came behind them. */
            drop_first_scene(queue);
            struct lane *other = scheduler_make_ready(scheduler, scene);
            if (other) scheduler_wake(other);
        } else if (runner->n_scenes > 0 && (runs_alone(lane, &portion) || cost + portion.cost_s > limit)) {
            break;
        } else {
            if (!first) first = principal;
            drop_first_scene(queue);
            take_scene(runner, scene, portion.n, now);
            cost += portion.cost_s;
            lane->time_s = principal->time_s;
            runner->charged = (uint32_t)(principal - lane->principals);
            charge_principal(lane, runner->charged, portion.cost_s);
            is_alone = runs_alone(lane, &portion);
            runner->is_long = runner->is_long || portion.is_preempted;
        }
        drop_first_session(lane, principal);
        list_session(lane, session);
    }
    runner->cost_s = cost;
    runner->is_long = runner->is_long || cost > LONG_BATCHES * lane->batch_s;
    count_batch(runner, true);
    if (lane->n_sessions) lane->waiting_since_ns = 0; /* what is left has waited */
}

void scheduler_settle_batch(runner *runner, double seconds) {
    /* What took longer than was expected counts for the time that it took, on one thread at least. */
    if (runner->n_scenes == 1 && seconds > runner->cost_s)
        charge_principal(runner->lane, runner->charged, seconds - runner->cost_s);
    count_batch(runner, false);
}

/* ---- the I/O thread ---- */

/* Counts the session's commands into *n and *cost. False: one of them may be too long for the I/O thread. */
static bool is_short(const lane *lane, session *session, int *n, double *cost) {
    for (const scene *scene = queue_of(lane, session)->first; scene; scene = scene->next_ready) {
        const portion portion = scheduler_next_portion(scene, lane->speed);
        if (++*n > INLINE_SCENES || !portion.is_measured || scene->first->kind == COMMAND_CLOSE) return false;
        *cost += portion.cost_s;
        if (*cost > INLINE_SECONDS) return false;
    }
    return true;
}

bool scheduler_may_run_inline(const lane *lane) {
    double cost = 0;
    int n = 0;
    if (lane->n_sessions > INLINE_SCENES) return false;
    for (uint32_t i = 0; i < lane->n_principals; i++) {
        for (session *session = lane->principals[i].first; session; session = queue_of(lane, session)->next) {
            if (!is_short(lane, session, &n, &cost)) return false;
        }
    }
    return true;
}

/* ---- the end ---- */

typedef struct emptied {
    scheduler *scheduler;
    command *first, **last;
} emptied;

static void empty_queues_of(scheduler *scheduler, session *session) {
    for (uint32_t i = 0; i < scheduler->n_lanes; i++) {
        lane *lane = &scheduler->lanes[i];
        unlist_session(lane, session);
        queue_of(lane, session)->first = queue_of(lane, session)->last = NULL;
    }
}

static void empty_scene(void *context, scene *scene) {
    emptied *emptied = context;
    empty_queues_of(emptied->scheduler, session_of(emptied->scheduler, scene));
    scene->ready = false;
    if (!scene->first || scene->running) return;
    *emptied->last = scheduler_take_waiting(emptied->scheduler, scene);
    while (*emptied->last) emptied->last = &(*emptied->last)->next;
}

/* All scenes are looked at, as those whose commands are held are in no queue. */
command *scheduler_empty_queues(scheduler *scheduler) {
    emptied emptied = {scheduler, NULL, &emptied.first};
    empty_queues_of(scheduler, scheduler->anonymous_session);
    registry_visit_scenes(scheduler->registry, empty_scene, &emptied);
    return emptied.first;
}

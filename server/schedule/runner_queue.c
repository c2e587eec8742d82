/* turns.c - what runs next: what a command will cost, in which lane that belongs, and whose turn it is there. For the
 * scheduler; all with its lock held. */
#include <inttypes.h>

#include "server/clock.h"
#include "server/schedule/internal.h"

enum {
    CONTROLS_AT_ONCE = 16, /* commands before a step that one scene gets done in one batch */
    HELP_SCENES = 4,
};

/* A step of more processor time than this is large. */
#define SMALL_SECONDS 4e-3
/* More than this the I/O thread does not do itself: it could not receive meanwhile. Two small boxes waited 4 us when it
 * ran them, 20 to 50 us when the worker had to be woken (two cores, busy). */
#define HELP_SECONDS 300e-6

/* ---- cost: processor time ---- */

/* At most, roughly, in a pair of bodies: no window is larger than the smaller body. 0 for a method without samples. */
static double rays_of(const scene *scene) {
    const ct_scene_settings *settings = &scene->record.running;
    if (settings->pixel_size > 0) {
        double across = scene->size_m[1] / settings->pixel_size;
        return 3 * across * across;
    }
    const uint32_t *n = settings->resolution;
    return (double)n[0] * n[1] + (double)n[1] * n[2] + (double)n[2] * n[0];
}

/* On the high side. */
static double guess(const scene *scene, double speed) {
    double pairs = scene->n_uses > 2 ? (double)scene->n_uses - 1 : 1;
    return 30e-6 + (100e-9 * (double)scene->triangles + 5e-9 * rays_of(scene) * pairs) / speed;
}

/* A scene that was not stepped since its bodies or settings changed is thought slow, so that no huge step slips in
 * among the small ones; one that was is never thought much faster than its size suggests, as its bodies may come close
 * in the next step. */
static double cost_of_step(const scene *scene, double speed) {
    if (!(scene->cost_s > 0)) return guess(scene, speed);
    double least = (10e-9 * (double)scene->triangles + 1e-9 * rays_of(scene)) / speed;
    return scene->cost_s > least ? scene->cost_s : least;
}

static double cost_of_control(const scene *scene, const command *command, double speed) {
    if (command->kind == COMMAND_ADD_BODY) return 1e-6 + 5e-9 * (double)command->triangles;
    if (command->kind == COMMAND_CLOSE) return 1e-6 + 5e-9 * (double)scene->triangles;
    if (command->is_repeat) return 1e-6 + 1e-9 * (double)command->answer->bytes; /* to encode it */
    if (command->kind == COMMAND_SNAPSHOT) { /* a step and a copy; never for the I/O thread */
        double resolution = command->in.snapshot.options.resolution;
        return HELP_SECONDS + cost_of_step(scene, speed) + 5e-9 * (double)scene->triangles +
               15e-9 * resolution * resolution / speed;
    }
    return 1e-6;
}

static bool changes_cost(const command *command) {
    return command->kind == COMMAND_ADD_BODY || command->kind == COMMAND_CONFIGURE;
}

typedef struct portion {
    int n; /* commands */
    bool has_step;
    double cost_s;
} portion;

/* What of the scene runs next: its commands up to and with the first step. But a step behind a change of bodies or
 * settings waits for another turn, as what it costs cannot be told before. */
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

/* A step that others kept from its core looks costly too: what counts is what two in a row came to, and no more than
 * the scene can possibly cost. */
static double believable(const scene *scene, double cost, double speed) {
    double most = 10 * guess(scene, speed), least = scene->last_cost_s > 0 ? scene->last_cost_s : most;
    if (cost > most) cost = most;
    return cost < least ? cost : least;
}

void scheduler_note_cost(scheduler *scheduler, scene *scene, const command *command) {
    double cost = command->kind == COMMAND_STEP && !command->is_repeat ? command->answer->cost_s : 0;
    if (cost > 0) {
        double now = believable(scene, cost, scheduler->runners[command->runner].speed);
        scene->cost_s = now > scene->cost_s ? now : 0.9 * scene->cost_s + 0.1 * now;
        scene->last_cost_s = cost;
    } else if (changes_cost(command)) {
        scene->cost_s = scene->last_cost_s = 0;
    }
}

/* ---- turns ---- */

static turn *turn_of(const runner *runner, session *session) {
    return &session->turns[runner->index];
}

static session *session_of(const scheduler *scheduler, const scene *scene) {
    return scene->owner ? scene->owner : scheduler->nobody;
}

static void append_turn(runner *runner, session *session) {
    turn *turn = turn_of(runner, session);
    turn->next = NULL;
    turn->waiting = true;
    if (runner->first_turn) {
        turn_of(runner, runner->last_turn)->next = session;
    } else {
        runner->first_turn = session;
        runner->since_ns = clock_ns();
    }
    runner->last_turn = session;
}

runner *scheduler_make_ready(scheduler *scheduler, scene *scene) {
    runner *of_device = &scheduler->runners[scene->device * SCHEDULE_LANES];
    portion portion = next_portion(scene, of_device->speed);
    runner *runner = &of_device[portion.cost_s > SMALL_SECONDS ? SCHEDULE_LARGE : SCHEDULE_SMALL];
    session *session = session_of(scheduler, scene);
    turn *turn = turn_of(runner, session);
    scene->runner = runner->index;
    scene->next_ready = NULL;
    scene->ready = true;
    if (turn->first) {
        turn->last->next_ready = scene;
    } else {
        turn->first = scene;
    }
    turn->last = scene;
    if (!turn->waiting) append_turn(runner, session);
    runner->queued_s += portion.cost_s;
    if (!portion.has_step || runner->queued_s > runner->batch_s) runner->since_ns = 0; /* it need not wait for more */
    return runner;
}

static void drop_first_turn(runner *runner) {
    turn *turn = turn_of(runner, runner->first_turn);
    runner->first_turn = turn->next;
    if (!runner->first_turn) runner->last_turn = NULL;
    turn->waiting = false;
}

static scene *drop_first_scene(turn *turn) {
    scene *scene = turn->first;
    turn->first = scene->next_ready;
    if (!turn->first) turn->last = NULL;
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

/* A command that came while its scene ran was counted in that lane, and may run in another. */
static void count_where_it_runs(runner *runner, command *command) {
    struct runner *runners = runner->scheduler->runners;
    runners[command->runner].depth--;
    command->runner = runner->index;
    runners[command->runner].depth++;
}

/* Moves the scene's next commands to those taken. */
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

/* The small lane has a device's threads to itself while the large one rests. */
static double room_of(const runner *runner) {
    const scheduler *scheduler = runner->scheduler;
    bool shared =
        runner->lane == SCHEDULE_SMALL && scheduler->runners[runner->device * SCHEDULE_LANES + SCHEDULE_LARGE].busy;
    return shared && SMALL_SECONDS < runner->batch_s ? SMALL_SECONDS : runner->batch_s;
}

/* Sessions in turn, one scene each time, until the batch is full. What would make it too long is the first of the next
 * one, so that what takes longer than a batch by itself runs alone. */
void scheduler_take(runner *runner) {
    scheduler *scheduler = runner->scheduler;
    double cost = 0, room = room_of(runner);
    uint64_t now = clock_ns();
    runner->n_scenes = 0;
    runner->queued_s = 0;
    runner->first_taken = runner->last_taken = NULL;
    while (runner->n_scenes < BATCH_STEPS && runner->first_turn) {
        session *session = runner->first_turn;
        turn *turn = turn_of(runner, session);
        scene *scene = turn->first;
        portion portion = next_portion(scene, runner->speed);
        if (runner->lane == SCHEDULE_SMALL && portion.cost_s > SMALL_SECONDS) {
            /* A large step came behind what it was put here for. */
            drop_first_scene(turn);
            scheduler_wake(scheduler_make_ready(scheduler, scene));
        } else if (runner->n_scenes > 0 && cost + portion.cost_s > room) {
            break;
        } else {
            drop_first_scene(turn);
            take_scene(runner, scene, portion.n, now);
            cost += portion.cost_s;
        }
        drop_first_turn(runner);
        if (turn->first) append_turn(runner, session);
    }
    if (runner->first_turn) runner->since_ns = 0; /* it has waited */
}

bool scheduler_is_little(const runner *runner) {
    double cost = 0;
    int n = 0;
    for (session *session = runner->first_turn; session; session = turn_of(runner, session)->next) {
        for (const scene *scene = turn_of(runner, session)->first; scene; scene = scene->next_ready) {
            if (++n > HELP_SCENES || scene->first->kind == COMMAND_ADD_BODY || scene->first->kind == COMMAND_CLOSE) {
                return false;
            }
            cost += next_portion(scene, runner->speed).cost_s;
            if (cost > HELP_SECONDS) return false;
        }
    }
    return true;
}

command *scheduler_empty_queues(scheduler *scheduler) {
    command *first = NULL, **last = &first;
    for (uint32_t i = 0; i < scheduler->n_runners; i++) {
        runner *runner = &scheduler->runners[i];
        while (runner->first_turn) {
            turn *turn = turn_of(runner, runner->first_turn);
            while (turn->first) {
                scene *scene = drop_first_scene(turn);
                *last = scene->first;
                last = &scene->last->next;
                scene->first = scene->last = NULL;
            }
            drop_first_turn(runner);
        }
    }
    return first;
}

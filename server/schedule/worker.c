/* worker.c - takes what is ready, runs it as one batch, answers. The runner is the worker thread, or the I/O thread
 * where that is quicker (scheduler_help); engine_busy sees to it that there is one at a time. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "server/clock.h"
#include "server/log.h"
#include "server/schedule/internal.h"

enum {
    CONTROLS_AT_ONCE = 16, /* commands before a step that one scene gets done in one batch */
    HELP_SCENES = 4,
    PROBE_EVERY_S = 15,
};
/* Two small boxes waited 4 us when the I/O thread ran them, 20 to 50 us when the worker had to be woken (two cores,
 * busy). More than this the I/O thread does not do itself: it could not receive meanwhile. */
#define HELP_SECONDS 300e-6

/* ---- taking; with the lock held ---- */

static void append_turn(scheduler *scheduler, session *session) {
    session->next_turn = NULL;
    session->has_turn = true;
    if (scheduler->first_turn) {
        scheduler->last_turn->next_turn = session;
    } else {
        scheduler->first_turn = session;
    }
    scheduler->last_turn = session;
}

void scheduler_make_ready(scheduler *scheduler, scene *scene) {
    session *session = scene->owner ? scene->owner : scheduler->nobody;
    scene->next_ready = NULL;
    scene->ready = true;
    if (session->first_ready) {
        session->last_ready->next_ready = scene;
    } else {
        session->first_ready = scene;
    }
    session->last_ready = scene;
    if (!session->has_turn) append_turn(scheduler, session);
}

/* The next scene of the session whose turn it is, which then goes behind the others. */
static scene *next_scene(scheduler *scheduler) {
    session *session = scheduler->first_turn;
    if (!session) return NULL;
    scheduler->first_turn = session->next_turn;
    if (!scheduler->first_turn) scheduler->last_turn = NULL;
    session->has_turn = false;
    scene *scene = session->first_ready;
    session->first_ready = scene->next_ready;
    if (!session->first_ready) session->last_ready = NULL;
    scene->ready = false;
    if (session->first_ready) append_turn(scheduler, session);
    return scene;
}

/* Processor time that a step of the scene takes: measured, or before its first step guessed from what is in it. */
static double cost_of(const scene *scene) {
    if (scene->cost_s > 0) return scene->cost_s;
    const uint32_t *resolution = scene->record.settings.resolution;
    double rays = (double)resolution[0] * resolution[1] * 3;
    return 30e-6 + 100e-9 * (double)scene->triangles + 5e-9 * rays;
}

static bool has_step(const scene *scene) {
    for (const command *command = scene->first; command; command = command->next) {
        if (command->kind == COMMAND_STEP) return true;
    }
    return false;
}

static void fail_late(scheduler *scheduler, command *command, uint64_t now) {
    char object[96];
    command_object(command, object);
    server_fail(&command->error, CONTACTD_DEADLINE_EXCEEDED, object, "deadline_us",
                "it waited for %.3f ms, its deadline was %.3f ms after it came: nothing was computed or changed",
                (double)(now - command->submitted_ns) * 1e-6,
                (double)(command->deadline_ns - command->submitted_ns) * 1e-6);
    metrics_add(scheduler->metrics, METRICS_DEADLINES, 1);
}

/* Moves the scene's commands up to and with its first step to those taken. */
static void take_scene(scheduler *scheduler, scene *scene, uint64_t now) {
    scene->running = true;
    scene->passed_over = false;
    scheduler->scenes[scheduler->n_scenes++] = scene;
    bool step = false;
    for (int n = 0; scene->first && !step && n < CONTROLS_AT_ONCE; n++) {
        command *command = scene->first;
        scene->first = command->next;
        if (!scene->first) scene->last = NULL;
        command->next = NULL;
        step = command->kind == COMMAND_STEP;
        if (step) scene->stepping = command;
        if (command->deadline_ns && now > command->deadline_ns) fail_late(scheduler, command, now);
        if (scheduler->first_taken) {
            scheduler->last_taken->next = command;
        } else {
            scheduler->first_taken = command;
        }
        scheduler->last_taken = command;
    }
}

/* Makes the scene the next one to be taken. */
static void make_ready_first(scheduler *scheduler, scene *scene) {
    session *session = scene->owner ? scene->owner : scheduler->nobody;
    scene->ready = true;
    scene->next_ready = session->first_ready;
    session->first_ready = scene;
    if (!session->last_ready) session->last_ready = scene;
    if (scheduler->first_turn == session) return;
    for (struct session *before = scheduler->first_turn; before; before = before->next_turn) {
        if (before->next_turn != session) continue;
        before->next_turn = session->next_turn;
        if (scheduler->last_turn == session) scheduler->last_turn = before;
        break;
    }
    session->has_turn = true;
    session->next_turn = scheduler->first_turn;
    scheduler->first_turn = session;
    if (!scheduler->last_turn) scheduler->last_turn = session;
}

/* Fills the batch, sessions in turn, until its steps are estimated to take BATCH_SECONDS. A large step, one that takes
 * longer than that by itself, runs alone. Where small ones wait too they go first, once: then it is the large one's
 * turn. So a small step waits for one large one at most, and a large one for one batch of small ones for each large
 * one. */
static void take(scheduler *scheduler) {
    enum { LARGE = 8 };
    scene *large[LARGE];
    size_t n_large = 0;
    uint64_t now = clock_ns();
    double cost = 0;
    scheduler->n_scenes = 0;
    scheduler->first_taken = scheduler->last_taken = NULL;
    while (scheduler->n_scenes < BATCH_STEPS && cost < scheduler->batch_s && n_large < LARGE) {
        scene *scene = next_scene(scheduler);
        if (!scene) break;
        double own = has_step(scene) ? cost_of(scene) : 0;
        bool is_large = own > scheduler->batch_s;
        if (is_large && !(scene->passed_over && scheduler->n_scenes == 0 && n_large == 0)) {
            large[n_large++] = scene;
            continue;
        }
        take_scene(scheduler, scene, now);
        cost += own;
    }
    if (n_large == 0) return;
    if (scheduler->n_scenes == 0) {
        take_scene(scheduler, large[0], now);
    } else {
        large[0]->passed_over = true;
        make_ready_first(scheduler, large[0]);
    }
    for (size_t i = 1; i < n_large; i++) scheduler_make_ready(scheduler, large[i]);
}

/* ---- running; without the lock ---- */

static void run_steps(scheduler *scheduler) {
    uint64_t begin = clock_ns();
    for (size_t i = 0; i < scheduler->n_steps; i++) {
        command *command = scheduler->stepping[i];
        command->answer->queue_s = (double)(begin - command->submitted_ns) * 1e-9;
        scheduler->steps[i] = (ct_step){
            .scene = command->target->engine,
            .updates = command->in.step.updates,
            .n_updates = command->in.step.n_updates,
            .want = command->in.step.want,
        };
    }
    ct_engine_run(scheduler->engine, scheduler->steps, scheduler->n_steps);
    metrics_add(scheduler->metrics, METRICS_BATCHES, 1);
}

static uint64_t result_bytes(const ct_result *result) {
    uint64_t per_entry =
        sizeof(uint32_t) + (result->gradient ? 24 : 0) + (result->weights ? 8 : 0) + (result->forces ? 24 : 0);
    return sizeof *result + result->n_contacts * sizeof(ct_contact) + result->n_entries * per_entry +
           result->n_spans * sizeof(ct_span);
}

static double count_step(metrics *metrics, const step_answer *answer) {
    const ct_result *result = answer->result;
    double sum = 0;
    metrics_observe(metrics, METRICS_PHASE_QUEUE, answer->queue_s);
    for (unsigned p = 0; p < CT_PHASES; p++) {
        metrics_observe(metrics, METRICS_PHASE_ENGINE + p, result->seconds[p]);
        sum += result->seconds[p];
    }
    metrics_add(metrics, METRICS_STEPS, 1);
    metrics_add(metrics, METRICS_CONTACTS, result->n_contacts);
    metrics_add(metrics, METRICS_RAYS, result->rays);
    metrics_add(metrics, METRICS_FRAGMENTS, result->fragments);
    return sum;
}

/* Turns what the engine left into the step's answer. */
static void take_answer(scheduler *scheduler, command *command, const ct_step *step) {
    step_answer *answer = command->answer;
    if (step) {
        answer->result = step->result;
        if (!answer->result) {
            char object[96];
            command_object(command, object);
            server_fail_engine(&answer->error, object, &step->error);
        }
    } else {
        answer->error = command->error;
    }
    answer->bytes = sizeof *answer + (answer->result ? result_bytes(answer->result) : 0);
    command->error = answer->error;
    double cost = answer->result ? count_step(scheduler->metrics, answer) : 0;
    scene_note_step(scheduler->registry, command->target, answer->result, answer->queue_s, command->in.step.sequence,
                    command->submitted_ns);
    answer->cost_s = cost;
}

static void run_taken(scheduler *scheduler) {
    scheduler->n_steps = 0;
    for (command *command = scheduler->first_taken; command; command = command->next) {
        if (command->error.code != CONTACTD_OK) {
            if (command->kind == COMMAND_STEP) take_answer(scheduler, command, NULL);
        } else if (command->kind == COMMAND_STEP) {
            scheduler->stepping[scheduler->n_steps++] = command;
        } else if (command->kind != COMMAND_CLOSE) { /* see end_command */
            command_run(scheduler, command);
        }
    }
    if (!scheduler->n_steps) return;
    run_steps(scheduler);
    for (size_t i = 0; i < scheduler->n_steps; i++) {
        take_answer(scheduler, scheduler->stepping[i], &scheduler->steps[i]);
    }
}

/* ---- ending ---- */

/* With the lock held: the numbers and the counts. */
static void end_command(scheduler *scheduler, command *command) {
    scene *scene = command->target;
    if (command->kind == COMMAND_STEP) {
        scene->stepping = NULL;
        struct command *asker = command->follower ? command->follower : command;
        asker->out.step.answer = step_answer_retain(command->answer);
        asker->error = command->answer->error;
        if (command->asker != scheduler->nobody) {
            sequence_keep(&scene->sequence, &command->asker->window, command->answer);
        }
        double cost = command->answer->cost_s;
        if (cost > 0) scene->cost_s = scene->cost_s > 0 ? 0.7 * scene->cost_s + 0.3 * cost : cost;
        atomic_fetch_sub(&command->asker->in_flight, 1);
    } else if (command->kind == COMMAND_CLOSE) {
        if (command->error.code == CONTACTD_OK) {
            sequence_clear(&scene->sequence);
        } else {
            scene->closing = false; /* its deadline had passed */
        }
    }
    atomic_fetch_sub(&command->asker->pending, 1);
    atomic_fetch_sub(&scene->pending, 1);
    scheduler->depth--;
}

/* Without the lock. The command may be gone afterwards. */
static void tell(scheduler *scheduler, command *command) {
    struct command *follower = command->follower;
    if (command->kind == COMMAND_CLOSE && command->error.code == CONTACTD_OK) command_run(scheduler, command);
    command_let_go(command);
    command->done(command);
    if (follower) {
        command_let_go(follower);
        follower->done(follower);
    }
}

/* Runs one batch. Called and left with the lock held, engine_busy not set. */
static void run_batch(scheduler *scheduler) {
    scheduler->engine_busy = true;
    take(scheduler);
    pthread_mutex_unlock(&scheduler->lock);

    uint64_t begin = clock_ns();
    run_taken(scheduler);
    double seconds = (double)(clock_ns() - begin) * 1e-9;

    pthread_mutex_lock(&scheduler->lock);
    uint32_t n = 0;
    for (command *command = scheduler->first_taken; command; command = command->next, n++) {
        end_command(scheduler, command);
    }
    double rate = n / (seconds + 1e-6);
    scheduler->rate = scheduler->rate > 0 ? 0.9 * scheduler->rate + 0.1 * rate : rate;
    /* The scenes run on (running is cleared) only after their answers are out, so that these keep their order. The
     * lists hold references to the scenes through these commands' own, so one more is taken of each. */
    for (size_t i = 0; i < scheduler->n_scenes; i++) atomic_fetch_add(&scheduler->scenes[i]->references, 1);
    pthread_mutex_unlock(&scheduler->lock);

    for (command *command = scheduler->first_taken, *next; command; command = next) {
        next = command->next;
        tell(scheduler, command);
    }

    pthread_mutex_lock(&scheduler->lock);
    for (size_t i = 0; i < scheduler->n_scenes; i++) {
        scheduler->scenes[i]->running = false;
        if (scheduler->scenes[i]->first) scheduler_make_ready(scheduler, scheduler->scenes[i]);
    }
    for (size_t i = 0; i < scheduler->n_scenes; i++) scene_release(&scheduler->scenes[i]);
    scheduler->engine_busy = false;
    if (scheduler->draining) pthread_cond_broadcast(&scheduler->idle);
}

/* ---- the two that run ---- */

static void probe(scheduler *scheduler) {
    char reason[sizeof scheduler->ready_reason];
    scheduler->engine_busy = true;
    pthread_mutex_unlock(&scheduler->lock);
    bool ready = probe_run(scheduler->engine, scheduler->backend, reason, sizeof reason);
    pthread_mutex_lock(&scheduler->lock);
    scheduler->engine_busy = false;
    if (ready != scheduler->ready) {
        log_line(ready ? LOG_LEVEL_INFO : LOG_LEVEL_ERROR, "schedule", "%s%s",
                 ready ? "ready again" : "not ready: ", reason);
    }
    scheduler->ready = ready;
    memcpy(scheduler->ready_reason, reason, sizeof reason);
    scheduler->probed_ns = clock_ns();
    if (scheduler->draining) pthread_cond_broadcast(&scheduler->idle);
}

void *scheduler_worker(void *argument) {
    scheduler *scheduler = argument;
    const uint64_t every_ns = PROBE_EVERY_S * UINT64_C(1000000000);
    pthread_mutex_lock(&scheduler->lock);
    while (!scheduler->ending) {
        if (!scheduler->engine_busy && clock_ns() - scheduler->probed_ns >= every_ns) {
            probe(scheduler);
        } else if (!scheduler->engine_busy && scheduler->first_turn) {
            run_batch(scheduler);
        } else {
            struct timespec until;
            clock_gettime(CLOCK_MONOTONIC, &until);
            until.tv_sec += PROBE_EVERY_S;
            pthread_cond_timedwait(&scheduler->wake, &scheduler->lock, &until);
        }
    }
    pthread_mutex_unlock(&scheduler->lock);
    return NULL;
}

static bool is_little(const scheduler *scheduler) {
    double cost = 0;
    int n = 0;
    for (const session *session = scheduler->first_turn; session; session = session->next_turn) {
        for (const scene *scene = session->first_ready; scene; scene = scene->next_ready) {
            if (++n > HELP_SCENES || scene->first->kind == COMMAND_ADD_BODY || scene->first->kind == COMMAND_CLOSE) {
                return false;
            }
            if (has_step(scene)) cost += cost_of(scene);
            if (cost > HELP_SECONDS) return false;
        }
    }
    return true;
}

void scheduler_help(scheduler *scheduler) {
    pthread_mutex_lock(&scheduler->lock);
    if (scheduler->first_turn && !scheduler->engine_busy && !scheduler->ending) {
        if (is_little(scheduler)) run_batch(scheduler);
        if (scheduler->first_turn) pthread_cond_signal(&scheduler->wake);
    }
    pthread_mutex_unlock(&scheduler->lock);
}

/* limits.c - until when a command may run, and what becomes of one that the engine ended early. For the scheduler. */
#include <math.h>
#include <stdio.h>

#include "server/base/clock.h"
#include "server/base/pauses.h"
#include "server/schedule/internal.h"

/* ---- until when ---- */

void runner_set_preemption(runner *runner, bool is_inline) {
    const lane *lane = runner->lane;
    const preemption *preemption = &lane->scheduler->preemption;
    uint64_t ns = is_inline ? preemption->inline_ns : preemption->small_ns;
    if (lane->kind == SCHEDULE_LARGE) ns = runner->n_scenes > 1 ? preemption->large_ns : 0;
    /* Twice what is expected, as other programs may take the processor. */
    const double expected_ns = 1e9 * runner->cost_s / lane->threads;
    runner->preempt_ns = ns ? runner->begin_ns + ns + (uint64_t)(2 * expected_ns) : 0;
}

static uint64_t least(uint64_t a, uint64_t b) {
    return a && (!b || a < b) ? a : b;
}

uint64_t scheduler_limit_ns(const scheduler *scheduler, const identity *who, const char **name) {
    *name = who->max_step_ms ? "max_step_time of the principal" : "--max-step-time";
    return who->max_step_ms ? who->max_step_ms * UINT64_C(1000000) : scheduler->max_step_ns;
}

static void find_limit(const scheduler *scheduler, command *command) {
    /* A year at most: settings may be any number. */
    const double of_scene_s = fmin(command->target->record.settings.max_step_time, 3e7);
    const uint64_t of_scene = (uint64_t)(1e9 * of_scene_s);
    command->limit_ns = scheduler_limit_ns(scheduler, &command->who, &command->limit_name);
    if (!(of_scene_s > 0) || (command->limit_ns && of_scene >= command->limit_ns)) return;
    command->limit_ns = of_scene ? of_scene : 1;
    command->limit_name = "max_step_time of the scene";
}

void command_begin(runner *runner, command *command, uint64_t now) {
    find_limit(runner->lane->scheduler, command);
    uint64_t until = command->limit_ns ? now + command->limit_ns : 0;
    command->bound = BOUND_LIMIT;
    if (least(command->deadline_ns, until) != until) {
        until = command->deadline_ns;
        command->bound = BOUND_DEADLINE;
    }
    if (!command->is_preempted && least(runner->preempt_ns, until) != until) {
        until = runner->preempt_ns;
        command->bound = BOUND_PREEMPTION;
    }
    command->cancel.until = 1e-9 * (double)until;
    atomic_store(&command->began_ns, now);
}

/* ---- what became of it ---- */

static void fail_at_limit(command *command, const char *object, const char *cause) {
    server_fail(&command->error, CONTACTD_TIME_LIMIT, object, "max_step_time",
                "after %.3g s, at its limit of %g s (%s), it was %s", command->ran_s, 1e-9 * (double)command->limit_ns,
                command->limit_name, cause);
}

static void fail_at_deadline(command *command, const char *object, const char *cause) {
    server_fail(&command->error, CONTACTD_DEADLINE_EXCEEDED, object, "deadline_us",
                "its deadline was %.3f ms after it came, and it ran for %.3f ms of that: it was %s",
                1e-6 * (double)(int64_t)(command->deadline_ns - command->received_ns), 1e3 * command->ran_s, cause);
}

static void end_at_time(scheduler *scheduler, command *command, uint64_t began_ns, uint64_t now_ns, const char *object,
                        const char *cause) {
    switch (command->bound) {
    case BOUND_LIMIT:
        if (!command->was_paused && pauses_were(began_ns, now_ns)) {
            command->was_paused = true;
            command->fate = COMMAND_WAITS_AGAIN;
            break;
        }
        metrics_add(scheduler->metrics, METRICS_CANCELLED_LIMIT, 1);
        fail_at_limit(command, object, cause);
        break;
    case BOUND_DEADLINE:
        metrics_add(scheduler->metrics, METRICS_CANCELLED_DEADLINE, 1);
        metrics_add(scheduler->metrics, METRICS_DEADLINES, 1);
        fail_at_deadline(command, object, cause);
        break;
    case BOUND_PREEMPTION:
        metrics_add(scheduler->metrics, METRICS_PREEMPTED, 1);
        command->is_preempted = true;
        command->fate = COMMAND_WAITS_AGAIN;
        break;
    }
}

void command_end_early(scheduler *scheduler, command *command, const char *cause) {
    char object[96];
    const uint64_t began_ns = atomic_load(&command->began_ns), now_ns = clock_ns();
    command_object(command, object);
    command->ran_s = began_ns ? 1e-9 * (double)(now_ns - began_ns) : 0;
    server_clear(&command->error);
    switch (ct_cancel_reason(&command->cancel)) {
    case CANCEL_CLOSED:
        metrics_add(scheduler->metrics, METRICS_CANCELLED_CLOSED, 1);
        server_fail(&command->error, CONTACTD_STALE_HANDLE, object, "scene", "the scene was closed while this ran");
        break;
    case CANCEL_AWAY:
        metrics_add(scheduler->metrics, METRICS_CANCELLED_CLIENT, 1);
        command->fate = COMMAND_WAITS_AGAIN;
        break;
    case CANCEL_LEFT:
        metrics_add(scheduler->metrics, METRICS_CANCELLED_CLIENT, 1);
        server_fail(&command->error, CONTACTD_STALE_HANDLE, object, "connection",
                    "the client closed its connection while this ran: nothing was changed");
        break;
    case CANCEL_TAKEN_BACK:
        metrics_add(scheduler->metrics, METRICS_CANCELLED_CLIENT, 1);
        server_fail(&command->error, CONTACTD_CANCELLED, object, "",
                    "its client took it back after it had run for %.3f ms: nothing was changed", 1e3 * command->ran_s);
        break;
    case CANCEL_SHUTDOWN:
        metrics_add(scheduler->metrics, METRICS_CANCELLED_SHUTDOWN, 1);
        command->fate = COMMAND_IS_REFUSED;
        server_fail(&command->error, CONTACTD_SHUTTING_DOWN, "server", "",
                    "the server ended while this ran: nothing was changed");
        break;
    default:
        end_at_time(scheduler, command, began_ns, now_ns, object, cause);
    }
}

static bool is_meant(const command *command, const scene *scene, const session *asker) {
    if (scene && command->target != scene) return false;
    return !asker || (command->asker == asker && command->target->owner == asker);
}

void scheduler_cancel(scheduler *scheduler, const scene *scene, const session *asker, uint32_t reason) {
    for (uint32_t i = 0; i < scheduler->n_lanes; i++) {
        for (uint32_t r = 0; r < scheduler->lanes[i].n_runners; r++) {
            const runner *runner = &scheduler->lanes[i].runners[r];
            for (command *command = runner->is_running ? runner->first_taken : NULL; command; command = command->next) {
                if (command->kind != COMMAND_CLOSE && is_meant(command, scene, asker))
                    ct_cancel_request(&command->cancel, reason);
            }
        }
    }
}

/* away.c - sessions whose connection has ended: what they asked for is held until they are heard again, or their lease
 * ends and their scenes are closed. A client that comes back so gets the answers that it would have got. */
#include "server/schedule/internal.h"

/* Commands of others on the scene are not held, and pass those that are. Nor is a CLOSE, as nobody waits for what would
 * come after it. */
bool command_is_held(const scene *scene, const command *command) {
    const session *owner = scene->owner;
    return owner && owner->is_away && command->asker == owner && command->kind != COMMAND_CLOSE;
}

typedef struct held {
    scheduler *scheduler;
    const session *owner; /* of the scenes; NULL: of all */
    command *first, **last;
} held;

static bool is_held(const held *held, const scene *scene) {
    return scene->first && !scene->running && !scene->ready && (!held->owner || scene->owner == held->owner);
}

static void take_held(void *context, scene *scene) {
    held *held = context;
    if (!is_held(held, scene)) return;
    *held->last = scheduler_take_waiting(held->scheduler, scene);
    while (*held->last) held->last = &(*held->last)->next;
}

static void release_held(void *context, scene *scene) {
    const held *held = context;
    if (is_held(held, scene)) scheduler_make_ready(held->scheduler, scene);
}

command *scheduler_take_held(scheduler *scheduler) {
    held held = {.scheduler = scheduler, .last = &held.first};
    registry_visit_scenes(scheduler->registry, take_held, &held);
    return held.first;
}

void scheduler_leave_session(scheduler *scheduler, uint64_t token) {
    registry_leave_session(scheduler->registry, token);
    session *session = session_acquire(scheduler->registry, token, NULL);
    if (!session) return;
    command *refused = NULL;
    pthread_mutex_lock(&scheduler->lock);
    if (!session->is_away) {
        session->is_away = true;
        scheduler_cancel(scheduler, NULL, session, scheduler->draining ? CANCEL_SHUTDOWN : CANCEL_AWAY);
        scheduler_requeue_session(scheduler, session);
        if (scheduler->draining) refused = scheduler_take_held(scheduler);
        if (refused) pthread_cond_broadcast(&scheduler->idle);
    }
    pthread_mutex_unlock(&scheduler->lock);
    scheduler_refuse_at_end(refused);
    session_release(&session);
}

void scheduler_return_session(scheduler *scheduler, uint64_t token) {
    session *session = session_acquire(scheduler->registry, token, NULL);
    if (!session) return;
    pthread_mutex_lock(&scheduler->lock);
    if (session->is_away) {
        session->is_away = false;
        held held = {.scheduler = scheduler, .owner = session};
        registry_visit_scenes(scheduler->registry, release_held, &held);
        for (uint32_t i = 0; i < scheduler->n_lanes; i++) scheduler_wake(&scheduler->lanes[i]);
    }
    pthread_mutex_unlock(&scheduler->lock);
    session_release(&session);
}

/* sessions.c - the clients that said Hello: random tokens, leases. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "server/base/clock.h"
#include "server/registry/internal.h"

#define LATELY_NS UINT64_C(1000000000)
/* Clients whose connection broke connect again within 1 s, and go on in the same session. */
#define COMES_BACK_NS UINT64_C(5000000000)
/* The answers kept for one session may take a quarter of --scene-memory, so that four leave each other's alone. */
#define SESSION_PART_OF_SCENE_MEMORY 4

bool registry_init_sessions(registry *registry) {
    uint32_t room = 16;
    while (room < 2 * (uint64_t)registry->limits.max_sessions) room *= 2;
    registry->sessions = calloc(room, sizeof(session *));
    registry->session_room = room;
    return registry->sessions != NULL;
}

/* Where the token is, or would be. Tokens are random, so they are their own hash. */
static uint32_t place_of(const registry *registry, uint64_t token) {
    uint32_t mask = registry->session_room - 1, at = (uint32_t)token & mask;
    while (registry->sessions[at] && registry->sessions[at]->token != token) at = (at + 1) & mask;
    return at;
}

/* Empties a place and closes the gap, so that no later search ends too early. */
static void take_out(registry *registry, uint32_t at) {
    uint32_t mask = registry->session_room - 1;
    registry->sessions[at] = NULL;
    registry->n_sessions--;
    for (uint32_t next = (at + 1) & mask; registry->sessions[next]; next = (next + 1) & mask) {
        session *moved = registry->sessions[next];
        registry->sessions[next] = NULL;
        registry->sessions[place_of(registry, moved->token)] = moved;
    }
}

void registry_set_lanes(registry *registry, uint32_t lanes) {
    registry->lanes = lanes;
}

session *session_new(registry *registry) {
    session *session = calloc(1, sizeof *session + registry->lanes * sizeof session->lane_queues[0]);
    if (!session) return NULL;
    atomic_init(&session->references, 1);
    answer_window_init(&session->window, registry->limits.max_in_flight,
                       registry->limits.scene_bytes / SESSION_PART_OF_SCENE_MEMORY, &registry->kept);
    return session;
}

void session_release(session **session) {
    struct session *gone = *session;
    *session = NULL;
    if (!gone || atomic_fetch_sub_explicit(&gone->references, 1, memory_order_acq_rel) != 1) return;
    free(gone);
}

static void fill_record(const session *session, uint64_t now_ns, session_record *out) {
    uint64_t heard = atomic_load(&session->heard_ns);
    out->token = session->token;
    out->number = session->number;
    memcpy(out->client, session->client, sizeof out->client);
    out->lease_ms = session->lease_ms;
    out->idle_s = now_ns > heard ? (double)(now_ns - heard) * 1e-9 : 0;
    out->is_connected = !session->left_ns;
    out->scenes = session->scenes;
    out->in_flight = atomic_load(&session->in_flight);
    out->principal = session->principal;
}

/* Makes room for one more: of the sessions that hold no scene and wait for nothing, the one unheard the longest goes.
 * So programs that come and go by the thousand do not use up the limit for as long as their leases last; one that lives
 * and is hit says Hello again. Not those heard just now, unless their connection has ended: they may be about to open a
 * scene. With the lock held. NULL: there is none such. */
static session *take_idle(registry *registry) {
    const uint64_t now = clock_ns();
    const uint64_t lately = now > LATELY_NS ? now - LATELY_NS : 0;
    uint64_t heard = UINT64_MAX;
    uint32_t found = UINT32_MAX;
    for (uint32_t at = 0; at < registry->session_room; at++) {
        const session *session = registry->sessions[at];
        if (!session || session->scenes || atomic_load(&session->pending)) continue;
        uint64_t then = atomic_load(&session->heard_ns);
        if ((then > lately && !session->left_ns) || then >= heard) continue;
        heard = then;
        found = at;
    }
    if (found == UINT32_MAX) return NULL;
    session *session = registry->sessions[found];
    take_out(registry, found);
    return session;
}

bool registry_open_session(registry *registry, const char *client, uint32_t lease_ms, session_record *out,
                           server_error *error) {
    session *session = session_new(registry);
    if (!session) return server_fail(error, CONTACTD_OUT_OF_MEMORY, "session", "", "no memory for a session");
    registry_copy_name(session->client, client);
    session->lease_ms = lease_ms && lease_ms < registry->limits.lease_ms ? lease_ms : registry->limits.lease_ms;
    uint64_t now = clock_ns();
    atomic_store(&session->heard_ns, now);

    bool good = true;
    struct session *gone = NULL;
    pthread_mutex_lock(&registry->lock);
    if (registry->n_sessions >= registry->limits.max_sessions && !(gone = take_idle(registry))) {
        good =
            server_fail(error, CONTACTD_LIMIT_EXCEEDED, "session", "",
                        "%" PRIu32 " clients are connected, which is the limit (--max-sessions)", registry->n_sessions);
        if (error) error->retry_after_ms = RETRY_AFTER_MS;
    }
    while (good && (session->token == 0 || registry->sessions[place_of(registry, session->token)])) {
        if (getrandom(&session->token, sizeof session->token, 0) != sizeof session->token) {
            good = server_fail(error, CONTACTD_INTERNAL, "session", "", "the system gives no random numbers");
        }
    }
    if (good) {
        registry->sessions[place_of(registry, session->token)] = session;
        registry->n_sessions++;
        session->number = ++registry->last_session;
        fill_record(session, now, out);
    }
    pthread_mutex_unlock(&registry->lock);
    if (gone) metrics_add(registry->metrics, METRICS_SESSIONS_REAPED, 1);
    session_release(&gone);
    if (!good) session_release(&session);
    if (good) metrics_add(registry->metrics, METRICS_SESSIONS_OPENED, 1);
    return good;
}

/* With the lock held. */
static session *find(const registry *registry, uint64_t token, server_error *error) {
    session *session = token ? registry->sessions[place_of(registry, token)] : NULL;
    if (!session) {
        server_fail(error, CONTACTD_STATE_LOST, "session", "session",
                    "the server knows no such session: it was silent for longer than its lease, or the server started "
                    "anew; say Hello, register meshes and open scenes again");
    }
    return session;
}

void registry_bind_session(registry *registry, uint64_t token, uint32_t principal) {
    pthread_mutex_lock(&registry->lock);
    session *session = find(registry, token, NULL);
    if (session) session->principal = principal;
    pthread_mutex_unlock(&registry->lock);
}

bool registry_touch_session(registry *registry, uint64_t token, uint32_t principal, bool *had_left,
                            server_error *error) {
    pthread_mutex_lock(&registry->lock);
    session *session = find(registry, token, NULL);
    if (session && session->principal != principal) session = NULL;
    if (session) atomic_store_explicit(&session->heard_ns, clock_ns(), memory_order_relaxed);
    *had_left = session && session->left_ns;
    if (session) session->left_ns = 0;
    if (!session) find(registry, 0, error);
    pthread_mutex_unlock(&registry->lock);
    return session != NULL;
}

void registry_leave_session(registry *registry, uint64_t token) {
    pthread_mutex_lock(&registry->lock);
    session *session = find(registry, token, NULL);
    if (session && !session->left_ns) session->left_ns = clock_ns();
    pthread_mutex_unlock(&registry->lock);
}

session *session_acquire(registry *registry, uint64_t token, server_error *error) {
    pthread_mutex_lock(&registry->lock);
    session *session = find(registry, token, error);
    if (session) atomic_fetch_add_explicit(&session->references, 1, memory_order_relaxed);
    pthread_mutex_unlock(&registry->lock);
    return session;
}

uint64_t registry_session_number(registry *registry, uint64_t token) {
    pthread_mutex_lock(&registry->lock);
    const session *session = find(registry, token, NULL);
    uint64_t number = session ? session->number : 0;
    pthread_mutex_unlock(&registry->lock);
    return number;
}

static int by_number(const void *a, const void *b) {
    const session_record *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

bool registry_list_sessions(registry *registry, session_record **out, size_t *n, server_error *error) {
    *out = NULL;
    *n = 0;
    uint64_t now = clock_ns();
    pthread_mutex_lock(&registry->lock);
    uint32_t count = registry->n_sessions;
    session_record *records = count ? malloc(count * sizeof *records) : NULL;
    for (uint32_t at = 0; records && at < registry->session_room; at++) {
        if (registry->sessions[at]) fill_record(registry->sessions[at], now, &records[(*n)++]);
    }
    pthread_mutex_unlock(&registry->lock);
    if (count && !records) {
        return server_fail(error, CONTACTD_OUT_OF_MEMORY, "sessions", "", "no memory for a list of %" PRIu32, count);
    }
    if (records) qsort(records, *n, sizeof *records, by_number);
    *out = records;
    return true;
}

static bool is_over(const session *session, uint64_t now_ns) {
    const uint64_t lease_ns = session->lease_ms * UINT64_C(1000000);
    const bool waits = atomic_load(&session->pending) > 0;
    if (session->left_ns && !session->scenes && !waits && session->left_ns + COMES_BACK_NS < now_ns) return true;
    return (session->left_ns || !waits) && atomic_load(&session->heard_ns) + lease_ns < now_ns;
}

size_t registry_take_silent_sessions(registry *registry, uint64_t now_ns, session **out, size_t room) {
    size_t n = 0;
    pthread_mutex_lock(&registry->lock);
    for (uint32_t at = 0; at < registry->session_room && n < room;) {
        session *session = registry->sessions[at];
        if (session && is_over(session, now_ns)) {
            take_out(registry, at); /* may move another one here: look at the same place again */
            out[n++] = session;
        } else {
            at++;
        }
    }
    pthread_mutex_unlock(&registry->lock);
    metrics_add(registry->metrics, METRICS_SESSIONS_REAPED, n);
    return n;
}

static void excuse(atomic_uint_fast64_t *heard_ns, uint64_t ns, uint64_t now_ns) {
    uint64_t then = atomic_load(heard_ns);
    while (!atomic_compare_exchange_weak(heard_ns, &then, clock_later(then, ns, now_ns))) continue;
}

void registry_excuse_silence(registry *registry, uint64_t ns, uint64_t now_ns) {
    uint32_t slot = 0;
    pthread_mutex_lock(&registry->lock);
    for (uint32_t at = 0; at < registry->session_room; at++) {
        session *session = registry->sessions[at];
        if (!session) continue;
        excuse(&session->heard_ns, ns, now_ns);
        if (session->left_ns) session->left_ns = clock_later(session->left_ns, ns, now_ns);
    }
    for (scene *scene; (scene = slots_next(&registry->scenes, &slot));) excuse(&scene->asked_ns, ns, now_ns);
    pthread_mutex_unlock(&registry->lock);
}

void registry_free_sessions(registry *registry) {
    for (uint32_t at = 0; at < registry->session_room; at++) session_release(&registry->sessions[at]);
    free(registry->sessions);
}

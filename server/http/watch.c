/* watch.c - see watch.h. */
#include "server/http/watch.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#include "server/base/clock.h"
#include "server/base/log.h"
#include "server/schedule/schedule.h"

struct watch {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stopping;
    watched *first;            /* the newest */
    uint32_t n_open, max_open; /* of those that are not cut */
    uint32_t n_left;           /* whose client may leave: those with `left` */
    uint64_t looked_ns;        /* the thread's, once it runs */
};

static void cut(watch *watch, watched *connection) {
    connection->cut = true;
    watch->n_open--;
    shutdown(connection->fd, SHUT_RDWR); /* libmicrohttpd sees the end and closes it */
}

static void cut_late(watch *watch, uint64_t now) {
    for (watched *c = watch->first; c; c = c->next) {
        uint64_t deadline = atomic_load_explicit(&c->deadline_ns, memory_order_relaxed);
        if (c->cut || deadline == 0 || now < deadline) continue;
        log_info("http", "cut a connection that took too long to send a request or to take an answer");
        cut(watch, c);
    }
}

/* Of all but the newest. */
static watched *longest_in(const watch *watch, watch_stage stage) {
    watched *longest = NULL;
    for (watched *c = watch->first->next; c; c = c->next) {
        if (!c->cut && atomic_load(&c->stage) == stage &&
            (!longest || atomic_load(&c->since_ns) < atomic_load(&longest->since_ns)))
            longest = c;
    }
    return longest;
}

static void cut_surplus(watch *watch) {
    if (watch->n_open <= watch->max_open) return;
    watched *victim = longest_in(watch, WATCH_NO_REQUEST);
    if (!victim) victim = longest_in(watch, WATCH_RECEIVING);
    if (!victim) return;
    log_debug("http", "cut a connection without a complete request, as %u are open", watch->n_open);
    cut(watch, victim);
}

/* Asks of a few connections at a time. */
static void end_for_those_who_left(watch *watch) {
    enum { AT_ONCE = 64 };
    struct pollfd fds[AT_ONCE];
    watched *of[AT_ONCE];
    for (watched *c = watch->first; c && watch->n_left;) {
        nfds_t n = 0;
        for (; c && n < AT_ONCE; c = c->next) {
            if (!c->left) continue;
            of[n] = c;
            fds[n++] = (struct pollfd){.fd = c->fd, .events = POLLRDHUP};
        }
        if (!n || poll(fds, n, 0) <= 0) continue;
        for (nfds_t i = 0; i < n; i++) {
            if (!fds[i].revents) continue;
            ct_cancel_request(of[i]->left, SCHEDULE_LEFT);
            of[i]->left = NULL;
            watch->n_left--;
        }
    }
}

static struct timespec after_ns(uint64_t ns) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    const uint64_t at = (uint64_t)t.tv_nsec + ns;
    return (struct timespec){t.tv_sec + (time_t)(at / 1000000000), (long)(at % 1000000000)};
}

/* Where the process was stopped, or this thread had no processor for long, connections could not be served meanwhile: it
 * counts for none. */
static void excuse(watch *watch, uint64_t ns, uint64_t now) {
    if (ns < WATCH_UNSERVED_NS) return;
    for (watched *c = watch->first; c; c = c->next) {
        uint64_t since = atomic_load(&c->since_ns), deadline = atomic_load(&c->deadline_ns);
        atomic_compare_exchange_strong(&c->since_ns, &since, clock_later(since, ns, now));
        if (deadline) atomic_compare_exchange_strong(&c->deadline_ns, &deadline, deadline + ns);
    }
}

static void *run(void *argument) {
    watch *watch = argument;
    uint64_t cut_at = 0;
    pthread_mutex_lock(&watch->lock);
    while (!watch->stopping) {
        const struct timespec until = after_ns(watch->n_left ? WATCH_LOOK_NS : UINT64_C(1000000000));
        pthread_cond_timedwait(&watch->wake, &watch->lock, &until);
        const uint64_t now = clock_ns();
        excuse(watch, now - watch->looked_ns, now);
        watch->looked_ns = now;
        end_for_those_who_left(watch);
        if (now < cut_at) continue;
        cut_late(watch, now);
        cut_at = now + UINT64_C(1000000000);
    }
    pthread_mutex_unlock(&watch->lock);
    return NULL;
}

watch *watch_start(uint32_t max_connections) {
    watch *watch = calloc(1, sizeof *watch);
    if (!watch) return NULL;
    watch->max_open = max_connections;
    watch->looked_ns = clock_ns();
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&watch->lock, NULL);
    pthread_cond_init(&watch->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    if (pthread_create(&watch->thread, NULL, run, watch) == 0) return watch;
    pthread_mutex_destroy(&watch->lock);
    pthread_cond_destroy(&watch->wake);
    free(watch);
    return NULL;
}

void watch_stop(watch **where) {
    watch *watch = *where;
    if (!watch) return;
    pthread_mutex_lock(&watch->lock);
    watch->stopping = true;
    pthread_cond_signal(&watch->wake);
    pthread_mutex_unlock(&watch->lock);
    pthread_join(watch->thread, NULL);
    pthread_mutex_destroy(&watch->lock);
    pthread_cond_destroy(&watch->wake);
    free(watch);
    *where = NULL;
}

watched *watch_add(watch *watch, int fd) {
    watched *connection = calloc(1, sizeof *connection);
    if (!connection) return NULL;
    connection->fd = fd;
    watch_begin(connection, WATCH_NO_REQUEST, WATCH_HEADER_NS);
    pthread_mutex_lock(&watch->lock);
    connection->next = watch->first;
    if (watch->first) watch->first->previous = connection;
    watch->first = connection;
    watch->n_open++;
    cut_surplus(watch);
    pthread_mutex_unlock(&watch->lock);
    return connection;
}

void watch_remove(watch *watch, watched *connection) {
    if (!connection) return;
    pthread_mutex_lock(&watch->lock);
    if (connection->previous)
        connection->previous->next = connection->next;
    else
        watch->first = connection->next;
    if (connection->next) connection->next->previous = connection->previous;
    watch->n_open -= !connection->cut;
    watch->n_left -= connection->left != NULL;
    pthread_mutex_unlock(&watch->lock);
    free(connection);
}

bool watch_is_crowded(watch *watch) {
    pthread_mutex_lock(&watch->lock);
    bool is_crowded = watch->n_open > watch->max_open;
    pthread_mutex_unlock(&watch->lock);
    return is_crowded;
}

void watch_leave(watch *watch, watched *connection, ct_cancel *left) {
    if (!connection) return;
    pthread_mutex_lock(&watch->lock);
    watch->n_left += (left != NULL) - (connection->left != NULL);
    connection->left = left;
    if (left && watch->n_left == 1) pthread_cond_signal(&watch->wake); /* which may sleep for a second */
    pthread_mutex_unlock(&watch->lock);
}

void watch_begin(watched *connection, watch_stage stage, uint64_t from_now_ns) {
    if (!connection) return;
    atomic_store(&connection->since_ns, clock_ns());
    atomic_store(&connection->stage, stage);
    watch_set(connection, from_now_ns);
}

void watch_set(watched *connection, uint64_t from_now_ns) {
    if (connection) atomic_store_explicit(&connection->deadline_ns, clock_ns() + from_now_ns, memory_order_relaxed);
}

void watch_clear(watched *connection) {
    if (connection) atomic_store_explicit(&connection->deadline_ns, 0, memory_order_relaxed);
}

void watch_note_received(watched *connection, uint64_t bytes) {
    if (!connection) return;
    const uint64_t until = atomic_load(&connection->since_ns) + watch_transfer_ns(bytes);
    atomic_store_explicit(&connection->deadline_ns, until, memory_order_relaxed);
}

uint64_t watch_transfer_ns(uint64_t bytes) {
    return WATCH_GRACE_NS + bytes / WATCH_BYTES_PER_S * UINT64_C(1000000000);
}

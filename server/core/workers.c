/* workers.c - see workers.h. */
#include "server/core/workers.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "server/base/clock.h"
#include "server/base/log.h"

enum { THREADS_MESHES = 2, THREADS_SCENES = 1, THREADS_COMMANDS = 4, THREADS_PICTURES = 2 };
enum { THREADS = THREADS_MESHES + THREADS_SCENES + THREADS_COMMANDS + THREADS_PICTURES };
static_assert((int)WORKERS_RUNNING == THREADS_MESHES + THREADS_PICTURES, "workers.h says how many can run at once");

enum { LOWER_NICE = 5 }; /* a third of the processor time of a thread of nice 0 beside it */

static const unsigned threads_of[WORK_KINDS] = {[WORK_MESHES] = THREADS_MESHES,
                                                [WORK_SCENES] = THREADS_SCENES,
                                                [WORK_COMMANDS] = THREADS_COMMANDS,
                                                [WORK_PICTURES] = THREADS_PICTURES};

typedef struct queue { /* of one kind */
    work *first;       /* in rising order of tag */
    unsigned n;
    double time; /* tag of the work that began last */
    pthread_cond_t wake;
} queue;

typedef struct thread {
    pthread_t id;
    workers *workers;
    work_kind kind;
    bool busy;
    uint32_t principal, origin; /* of the work that runs */
    double tag;
    ct_cancel cancel; /* of the work that runs */
    uint64_t began_ns;
    bool is_logged;
    char who[IDENTITY_NAME], name[64]; /* likewise */
} thread;

struct workers {
    pthread_mutex_t lock;
    pthread_cond_t idle; /* nothing waits, nothing runs */
    queue queues[WORK_KINDS];
    unsigned n_works;               /* waiting and running */
    bool closed, ending, cancelled; /* cancelled: what still runs is to end */
    double limit_s;                 /* [fixed] */
    unsigned n_threads;
    thread threads[THREADS];
};

/* ---- choosing; with the lock held ---- */

static unsigned running_of(const workers *workers, work_kind kind, uint32_t principal, uint32_t origin) {
    unsigned n = 0;
    for (unsigned i = 0; i < workers->n_threads; i++) {
        const thread *thread = &workers->threads[i];
        n += thread->busy && thread->kind == kind && thread->principal == principal && thread->origin == origin;
    }
    return n;
}

static bool is_of(const work *work, const identity *who) {
    return work->principal == who->principal && work->origin == who->origin;
}

/* Tag of the principal's next work: behind its last one, and not before what runs now. */
static double next_tag(const workers *workers, work_kind kind, const identity *who) {
    double last = workers->queues[kind].time;
    for (unsigned i = 0; i < workers->n_threads; i++) {
        const thread *thread = &workers->threads[i];
        bool is_own = thread->busy && thread->kind == kind && thread->principal == who->principal &&
                      thread->origin == who->origin;
        if (is_own && thread->tag > last) last = thread->tag;
    }
    for (const work *work = workers->queues[kind].first; work; work = work->next) {
        if (is_of(work, who) && work->tag > last) last = work->tag;
    }
    return last + 1.0 / identity_weight(who);
}

static unsigned waiting_of(const queue *queue, const identity *who) {
    unsigned n = 0;
    for (const work *work = queue->first; work; work = work->next) n += is_of(work, who);
    return n;
}

/* A principal, or an address, may fill half of the queue. */
static bool has_room(const workers *workers, work_kind kind, const identity *who) {
    const queue *queue = &workers->queues[kind];
    const unsigned most = kind == WORK_PICTURES ? WORKERS_PICTURES : WORKERS_QUEUE;
    if (queue->n >= most) return false;
    bool is_alone = !who->principal && !who->origin;
    return is_alone || queue->n < most / 2 || waiting_of(queue, who) < most / 2;
}

static void insert(queue *queue, work *work) {
    struct work **at = &queue->first;
    while (*at && (*at)->tag <= work->tag) at = &(*at)->next;
    work->next = *at;
    *at = work;
    queue->n++;
}

/* The first work that may run, or NULL. */
static work *take(workers *workers, work_kind kind) {
    queue *queue = &workers->queues[kind];
    unsigned limit = threads_of[kind] > 1 ? threads_of[kind] - 1 : 1;
    for (work **at = &queue->first; *at; at = &(*at)->next) {
        work *work = *at;
        if (work->is_limited && running_of(workers, kind, work->principal, work->origin) >= limit) continue;
        *at = work->next;
        queue->n--;
        if (work->tag > queue->time) queue->time = work->tag;
        return work;
    }
    return NULL;
}

/* ---- threads ---- */

static void run(workers *workers, thread *self, work *work) {
    self->busy = true;
    self->principal = work->principal;
    self->origin = work->origin;
    self->tag = work->tag;
    self->began_ns = clock_ns();
    self->is_logged = false;
    memcpy(self->who, work->who, sizeof self->who);
    snprintf(self->name, sizeof self->name, "%s", work->name ? work->name : "");
    ct_cancel_init(&self->cancel, workers->limit_s);
    self->cancel.outer = work->left;
    if (workers->cancelled) ct_cancel_request(&self->cancel, CT_CANCEL_CALLER);
    pthread_mutex_unlock(&workers->lock);
    ct_cancel_scope(&self->cancel);
    work->run(work);
    ct_cancel_scope(NULL);
    pthread_mutex_lock(&workers->lock);
    self->busy = false;
    workers->n_works--;
    /* A work of this principal may have waited for this thread, or all threads for the last work. */
    pthread_cond_broadcast(workers->n_works ? &workers->queues[self->kind].wake : &workers->idle);
}

/* Reading meshes and drawing keep a core busy for long. At a lower priority they do not delay the threads that compute
 * steps: on Linux a thread has a nice value of its own. It is only a preference, so a failure does not matter. */
static void lower_priority(void) {
    int nice = getpriority(PRIO_PROCESS, 0);
    setpriority(PRIO_PROCESS, (id_t)gettid(), nice + LOWER_NICE < 19 ? nice + LOWER_NICE : 19);
}

static void *work_thread(void *argument) {
    thread *self = argument;
    workers *workers = self->workers;
    if (self->kind == WORK_MESHES || self->kind == WORK_PICTURES) lower_priority();
    pthread_mutex_lock(&workers->lock);
    for (;;) {
        work *work = take(workers, self->kind);
        if (work) {
            run(workers, self, work);
        } else if (workers->ending) {
            break;
        } else {
            pthread_cond_wait(&workers->queues[self->kind].wake, &workers->lock);
        }
    }
    pthread_mutex_unlock(&workers->lock);
    return NULL;
}

static bool start_thread(workers *workers, work_kind kind) {
    thread *thread = &workers->threads[workers->n_threads];
    thread->workers = workers;
    thread->kind = kind;
    if (pthread_create(&thread->id, NULL, work_thread, thread) != 0) return false;
    pthread_mutex_lock(&workers->lock); /* the threads that run already read n_threads */
    workers->n_threads++;
    pthread_mutex_unlock(&workers->lock);
    return true;
}

workers *workers_start(double limit_s) {
    workers *workers = calloc(1, sizeof *workers);
    if (!workers) return NULL;
    workers->limit_s = limit_s;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&workers->lock, NULL);
    pthread_cond_init(&workers->idle, &attributes);
    pthread_condattr_destroy(&attributes);
    for (int kind = 0; kind < WORK_KINDS; kind++) pthread_cond_init(&workers->queues[kind].wake, NULL);
    for (int kind = 0; kind < WORK_KINDS; kind++) {
        for (unsigned i = 0; i < threads_of[kind]; i++) {
            if (start_thread(workers, (work_kind)kind)) continue;
            workers_stop(&workers);
            return NULL;
        }
    }
    return workers;
}

workers_outcome workers_add(workers *workers, work_kind kind, const identity *who, work *work) {
    queue *queue = &workers->queues[kind];
    pthread_mutex_lock(&workers->lock);
    workers_outcome outcome = workers->closed                 ? WORKERS_CLOSED
                              : !has_room(workers, kind, who) ? WORKERS_FULL
                                                              : WORKERS_QUEUED;
    if (outcome == WORKERS_QUEUED) {
        work->principal = who->principal;
        work->origin = who->origin;
        memcpy(work->who, who->name, sizeof work->who);
        work->is_limited = identity_has_others(who);
        work->tag = next_tag(workers, kind, who);
        insert(queue, work);
        workers->n_works++;
        pthread_cond_signal(&queue->wake);
    }
    pthread_mutex_unlock(&workers->lock);
    return outcome;
}

bool workers_have_room(workers *workers, work_kind kind, const identity *who) {
    pthread_mutex_lock(&workers->lock);
    bool has = !workers->closed && has_room(workers, kind, who);
    pthread_mutex_unlock(&workers->lock);
    return has;
}

/* ---- what runs ---- */

const char *work_name(work_kind kind) {
    return kind == WORK_MESHES ? "register_mesh" : kind == WORK_PICTURES ? "snapshot" : "";
}

/* Of a work that takes long by itself: others wait for the scheduler, which says what it does. */
static double seconds_of(const thread *thread, uint64_t now) {
    if (!thread->busy || (thread->kind != WORK_MESHES && thread->kind != WORK_PICTURES)) return -1;
    return now > thread->began_ns ? 1e-9 * (double)(now - thread->began_ns) : 0;
}

static running_work running_on(const thread *thread, double seconds) {
    const char *phase = ct_cancel_phase(&thread->cancel);
    running_work out = {
        .kind = thread->kind, .principal = thread->principal, .phase = phase ? phase : "starting", .seconds = seconds};
    memcpy(out.asked_by, thread->who, sizeof out.asked_by);
    memcpy(out.name, thread->name, sizeof out.name);
    return out;
}

void workers_list_running(workers *workers, double least_s, running_work out[WORKERS_RUNNING], size_t *n) {
    *n = 0;
    pthread_mutex_lock(&workers->lock);
    const uint64_t now = clock_ns();
    for (unsigned i = 0; i < workers->n_threads; i++) {
        const double seconds = seconds_of(&workers->threads[i], now);
        if (seconds < 0 || seconds < least_s) continue;
        size_t at = (*n)++;
        for (; at > 0 && out[at - 1].seconds < seconds; at--) out[at] = out[at - 1];
        out[at] = running_on(&workers->threads[i], seconds);
    }
    pthread_mutex_unlock(&workers->lock);
}

void workers_log_long(workers *workers) {
    enum { LONG_S = 1 };
    running_work lines[WORKERS_RUNNING];
    size_t n = 0;
    pthread_mutex_lock(&workers->lock);
    const uint64_t now = clock_ns();
    for (unsigned i = 0; i < workers->n_threads; i++) {
        thread *thread = &workers->threads[i];
        const double seconds = seconds_of(thread, now);
        if (seconds < LONG_S || thread->is_logged) continue;
        thread->is_logged = true;
        lines[n++] = running_on(thread, seconds);
    }
    pthread_mutex_unlock(&workers->lock);
    for (size_t i = 0; i < n; i++) {
        char name[80] = "", who[IDENTITY_NAME + 8] = "";
        if (lines[i].name[0]) snprintf(name, sizeof name, " \"%s\"", lines[i].name);
        if (lines[i].asked_by[0]) snprintf(who, sizeof who, " of %s", lines[i].asked_by);
        log_warn("workers", "%s%s%s has run for %.1f s: %s", work_name(lines[i].kind), name, who, lines[i].seconds,
                 lines[i].phase);
    }
}

/* ---- ending ---- */

void workers_drain(workers *workers) {
    pthread_mutex_lock(&workers->lock);
    workers->closed = true;
    while (workers->n_works) pthread_cond_wait(&workers->idle, &workers->lock);
    pthread_mutex_unlock(&workers->lock);
}

void workers_drain_within(workers *workers, uint64_t ms) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(ms / 1000);
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    pthread_mutex_lock(&workers->lock);
    workers->closed = true;
    while (workers->n_works && pthread_cond_timedwait(&workers->idle, &workers->lock, &until) == 0) {
    }
    workers->cancelled = true;
    for (unsigned i = 0; i < workers->n_threads; i++)
        if (workers->threads[i].busy) ct_cancel_request(&workers->threads[i].cancel, CT_CANCEL_CALLER);
    while (workers->n_works) pthread_cond_wait(&workers->idle, &workers->lock);
    pthread_mutex_unlock(&workers->lock);
}

void workers_stop(workers **where) {
    workers *workers = *where;
    if (!workers) return;
    workers_drain(workers);
    pthread_mutex_lock(&workers->lock);
    workers->ending = true;
    for (int kind = 0; kind < WORK_KINDS; kind++) pthread_cond_broadcast(&workers->queues[kind].wake);
    pthread_mutex_unlock(&workers->lock);
    for (unsigned i = 0; i < workers->n_threads; i++) pthread_join(workers->threads[i].id, NULL);
    for (int kind = 0; kind < WORK_KINDS; kind++) pthread_cond_destroy(&workers->queues[kind].wake);
    pthread_cond_destroy(&workers->idle);
    pthread_mutex_destroy(&workers->lock);
    free(workers);
    *where = NULL;
}

/* workers.c - see workers.h. */
#include "server/workers.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum { THREADS_MESHES = 2, THREADS_SCENES = 1, THREADS_COMMANDS = 4, THREADS_PICTURES = 2 };
enum { THREADS = THREADS_MESHES + THREADS_SCENES + THREADS_COMMANDS + THREADS_PICTURES };

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
    uint32_t principal; /* of the work that runs */
    double tag;
} thread;

struct workers {
    pthread_mutex_t lock;
    pthread_cond_t idle; /* nothing waits, nothing runs */
    queue queues[WORK_KINDS];
    unsigned n_works; /* waiting and running */
    bool closed, ending;
    unsigned n_threads;
    thread threads[THREADS];
};

/* ---- choosing; with the lock held ---- */

static unsigned running_of(const workers *workers, work_kind kind, uint32_t principal) {
    unsigned n = 0;
    for (unsigned i = 0; i < workers->n_threads; i++) {
        const thread *thread = &workers->threads[i];
        n += thread->busy && thread->kind == kind && thread->principal == principal;
    }
    return n;
}

/* Tag of the principal's next work: behind its last one, and not before what runs now. */
static double next_tag(const workers *workers, work_kind kind, const identity *who) {
    double last = workers->queues[kind].time;
    for (unsigned i = 0; i < workers->n_threads; i++) {
        const thread *thread = &workers->threads[i];
        if (thread->busy && thread->kind == kind && thread->principal == who->principal && thread->tag > last)
            last = thread->tag;
    }
    for (const work *work = workers->queues[kind].first; work; work = work->next) {
        if (work->principal == who->principal && work->tag > last) last = work->tag;
    }
    return last + 1.0 / identity_weight(who);
}

static unsigned waiting_of(const queue *queue, uint32_t principal) {
    unsigned n = 0;
    for (const work *work = queue->first; work; work = work->next) n += work->principal == principal;
    return n;
}

/* A principal may fill half of the queue. */
static bool has_room(const queue *queue, const identity *who) {
    if (queue->n >= WORKERS_QUEUE) return false;
    return !who->principal || queue->n < WORKERS_QUEUE / 2 || waiting_of(queue, who->principal) < WORKERS_QUEUE / 2;
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
        if (work->is_limited && running_of(workers, kind, work->principal) >= limit) continue;
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
    self->tag = work->tag;
    pthread_mutex_unlock(&workers->lock);
    work->run(work);
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

workers *workers_start(void) {
    workers *workers = calloc(1, sizeof *workers);
    if (!workers) return NULL;
    pthread_mutex_init(&workers->lock, NULL);
    pthread_cond_init(&workers->idle, NULL);
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
    workers_outcome outcome = workers->closed ? WORKERS_CLOSED : !has_room(queue, who) ? WORKERS_FULL : WORKERS_QUEUED;
    if (outcome == WORKERS_QUEUED) {
        work->principal = who->principal;
        work->is_limited = identity_has_others(who);
        work->tag = next_tag(workers, kind, who);
        insert(queue, work);
        workers->n_works++;
        pthread_cond_signal(&queue->wake);
    }
    pthread_mutex_unlock(&workers->lock);
    return outcome;
}

void workers_drain(workers *workers) {
    pthread_mutex_lock(&workers->lock);
    workers->closed = true;
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

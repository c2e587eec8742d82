/* lanes.c - see lanes.h. */
#include "server/http/lanes.h"

#include <pthread.h>
#include <stdlib.h>

static const unsigned workers_of[LANE_COUNT] = {[LANE_MESHES] = 2, [LANE_SCENES] = 4, [LANE_PICTURES] = 1};
enum { WORKERS = 2 + 4 + 1 };

typedef struct lane {
    lane_job *first, *last;
    pthread_cond_t some;
} lane;

typedef struct worker {
    pthread_t thread;
    lanes *lanes;
    lane *lane;
} worker;

struct lanes {
    pthread_mutex_t lock;
    pthread_cond_t idle; /* nothing queued, nothing running */
    lane lane[LANE_COUNT];
    unsigned jobs; /* queued and running */
    bool closed, ending;
    unsigned n_workers;
    worker workers[WORKERS];
};

static void *work(void *argument) {
    worker *self = argument;
    lanes *lanes = self->lanes;
    pthread_mutex_lock(&lanes->lock);
    while (true) {
        while (!self->lane->first && !lanes->ending) pthread_cond_wait(&self->lane->some, &lanes->lock);
        lane_job *job = self->lane->first;
        if (!job) break;
        self->lane->first = job->next;
        pthread_mutex_unlock(&lanes->lock);
        job->run(job);
        pthread_mutex_lock(&lanes->lock);
        if (--lanes->jobs == 0) pthread_cond_broadcast(&lanes->idle);
    }
    pthread_mutex_unlock(&lanes->lock);
    return NULL;
}

lanes *lanes_start(void) {
    lanes *lanes = calloc(1, sizeof *lanes);
    if (!lanes) return NULL;
    pthread_mutex_init(&lanes->lock, NULL);
    pthread_cond_init(&lanes->idle, NULL);
    for (int i = 0; i < LANE_COUNT; i++) pthread_cond_init(&lanes->lane[i].some, NULL);
    for (unsigned lane = 0; lane < LANE_COUNT; lane++)
        for (unsigned i = 0; i < workers_of[lane]; i++) {
            worker *worker = &lanes->workers[lanes->n_workers];
            worker->lanes = lanes;
            worker->lane = &lanes->lane[lane];
            if (pthread_create(&worker->thread, NULL, work, worker) != 0) {
                lanes_stop(&lanes);
                return NULL;
            }
            lanes->n_workers++;
        }
    return lanes;
}

bool lanes_push(lanes *lanes, http_lane which, lane_job *job) {
    lane *lane = &lanes->lane[which];
    pthread_mutex_lock(&lanes->lock);
    bool open = !lanes->closed;
    if (open) {
        job->next = NULL;
        if (lane->first)
            lane->last->next = job;
        else
            lane->first = job;
        lane->last = job;
        lanes->jobs++;
        pthread_cond_signal(&lane->some);
    }
    pthread_mutex_unlock(&lanes->lock);
    return open;
}

void lanes_drain(lanes *lanes) {
    pthread_mutex_lock(&lanes->lock);
    lanes->closed = true;
    while (lanes->jobs) pthread_cond_wait(&lanes->idle, &lanes->lock);
    pthread_mutex_unlock(&lanes->lock);
}

void lanes_stop(lanes **where) {
    lanes *lanes = *where;
    if (!lanes) return;
    lanes_drain(lanes);
    pthread_mutex_lock(&lanes->lock);
    lanes->ending = true;
    for (int i = 0; i < LANE_COUNT; i++) pthread_cond_broadcast(&lanes->lane[i].some);
    pthread_mutex_unlock(&lanes->lock);
    for (unsigned i = 0; i < lanes->n_workers; i++) pthread_join(lanes->workers[i].thread, NULL);
    for (int i = 0; i < LANE_COUNT; i++) pthread_cond_destroy(&lanes->lane[i].some);
    pthread_cond_destroy(&lanes->idle);
    pthread_mutex_destroy(&lanes->lock);
    free(lanes);
    *where = NULL;
}

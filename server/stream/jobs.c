/* jobs.c - a ring of jobs and the threads that take from it. */
#include "server/stream/jobs.h"

#include <pthread.h>
#include <stdlib.h>

typedef struct job {
    job_function *function;
    void *argument;
} job;

struct jobs {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool ending;
    unsigned capacity, first, waiting, n_threads;
    job *ring;
    pthread_t threads[];
};

static void *work(void *argument) {
    jobs *jobs = argument;
    pthread_mutex_lock(&jobs->lock);
    for (;;) {
        while (!jobs->waiting && !jobs->ending) pthread_cond_wait(&jobs->wake, &jobs->lock);
        if (!jobs->waiting) break;
        job job = jobs->ring[jobs->first];
        jobs->first = (jobs->first + 1) % jobs->capacity;
        jobs->waiting--;
        pthread_mutex_unlock(&jobs->lock);
        job.function(job.argument);
        pthread_mutex_lock(&jobs->lock);
    }
    pthread_mutex_unlock(&jobs->lock);
    return NULL;
}

jobs *jobs_start(unsigned threads, unsigned capacity) {
    jobs *jobs = calloc(1, sizeof *jobs + threads * sizeof jobs->threads[0]);
    if (!jobs) return NULL;
    jobs->capacity = capacity;
    jobs->ring = calloc(capacity, sizeof *jobs->ring);
    pthread_mutex_init(&jobs->lock, NULL);
    pthread_cond_init(&jobs->wake, NULL);
    bool good = jobs->ring != NULL;
    while (good && jobs->n_threads < threads) {
        good = pthread_create(&jobs->threads[jobs->n_threads], NULL, work, jobs) == 0;
        if (good) jobs->n_threads++;
    }
    if (!good) jobs_stop(&jobs);
    return jobs;
}

bool jobs_add(jobs *jobs, job_function *function, void *argument) {
    pthread_mutex_lock(&jobs->lock);
    bool room = jobs->waiting < jobs->capacity;
    if (room) {
        jobs->ring[(jobs->first + jobs->waiting) % jobs->capacity] = (job){function, argument};
        jobs->waiting++;
        pthread_cond_signal(&jobs->wake);
    }
    pthread_mutex_unlock(&jobs->lock);
    return room;
}

void jobs_stop(jobs **jobs) {
    struct jobs *ending = *jobs;
    if (!ending) return;
    pthread_mutex_lock(&ending->lock);
    ending->ending = true;
    pthread_cond_broadcast(&ending->wake);
    pthread_mutex_unlock(&ending->lock);
    for (unsigned i = 0; i < ending->n_threads; i++) pthread_join(ending->threads[i], NULL);
    pthread_cond_destroy(&ending->wake);
    pthread_mutex_destroy(&ending->lock);
    free(ending->ring);
    free(ending);
    *jobs = NULL;
}

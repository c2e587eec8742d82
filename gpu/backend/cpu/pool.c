/* pool.c - a fork-join pool. A run waits only for the threads that joined it, so a thread that is slow to wake costs
 * nothing: the others have taken its tasks. */
#include "gpu/backend/cpu/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "gpu/base/fail.h"

struct ct_pool {
    uint32_t threads, started;
    pthread_t *handles;
    pthread_mutex_t mutex;
    pthread_cond_t work, done;
    /* guarded by mutex: */
    uint64_t generation; /* of the current run */
    int open;            /* the run may still be joined */
    uint32_t joined;
    int stop;
    ct_task task;
    void *context;
    uint32_t n;
    /* */
    atomic_uint next;            /* task to take */
    atomic_uint_fast64_t beacon; /* copy of generation, to spin on */
};

struct start {
    ct_pool *pool;
    uint32_t worker;
};

static inline void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void take_tasks(ct_pool *pool, ct_task task, void *context, uint32_t n, uint32_t worker) {
    for (;;) {
        uint32_t i = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed);
        if (i >= n) return;
        task(context, i, worker);
    }
}

static void *worker_main(void *argument) {
    struct start *start = argument;
    ct_pool *pool = start->pool;
    uint32_t worker = start->worker;
    free(start);
    uint64_t seen = 0;
    for (;;) {
        /* The stages of one batch follow each other within microseconds: look for the next a moment before sleeping. */
        for (int i = 0; i < 2000 && atomic_load_explicit(&pool->beacon, memory_order_relaxed) == seen; i++) relax();
        pthread_mutex_lock(&pool->mutex);
        while (!pool->stop && !(pool->open && pool->generation != seen)) {
            seen = pool->generation;
            pthread_cond_wait(&pool->work, &pool->mutex);
        }
        if (pool->stop) break;
        seen = pool->generation;
        pool->joined++;
        ct_task task = pool->task;
        void *context = pool->context;
        uint32_t n = pool->n;
        pthread_mutex_unlock(&pool->mutex);

        take_tasks(pool, task, context, n, worker);

        pthread_mutex_lock(&pool->mutex);
        if (--pool->joined == 0 && !pool->open) pthread_cond_signal(&pool->done);
        pthread_mutex_unlock(&pool->mutex);
    }
    pthread_mutex_unlock(&pool->mutex);
    return NULL;
}

ct_status ct_pool_create(uint32_t threads, ct_pool **out, ct_error *error) {
    ct_pool *pool = calloc(1, sizeof *pool);
    if (!pool) return ct_fail(error, CT_OUT_OF_MEMORY, "threads", "no memory for the thread pool");
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->work, NULL);
    pthread_cond_init(&pool->done, NULL);
    pool->threads = threads;
    pool->handles = calloc(threads, sizeof *pool->handles);
    for (uint32_t i = 1; i < threads; i++) {
        struct start *start = malloc(sizeof *start);
        if (start) *start = (struct start){pool, i};
        if (!pool->handles || !start || pthread_create(&pool->handles[i], NULL, worker_main, start)) {
            free(start);
            ct_pool_destroy(&pool);
            return ct_fail(error, CT_OUT_OF_MEMORY, "threads", "could not start thread %u of %u: ask for fewer", i,
                           threads);
        }
        pool->started = i;
    }
    *out = pool;
    return CT_OK;
}

void ct_pool_destroy(ct_pool **handle) {
    ct_pool *pool = *handle;
    if (!pool) return;
    pthread_mutex_lock(&pool->mutex);
    pool->stop = 1;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->mutex);
    for (uint32_t i = 1; i <= pool->started; i++) pthread_join(pool->handles[i], NULL);
    pthread_cond_destroy(&pool->work);
    pthread_cond_destroy(&pool->done);
    pthread_mutex_destroy(&pool->mutex);
    free(pool->handles);
    free(pool);
    *handle = NULL;
}

uint32_t ct_pool_threads(const ct_pool *pool) {
    return pool->threads;
}

void ct_pool_run(ct_pool *pool, uint32_t n, ct_task task, void *context) {
    if (!pool || pool->threads == 1 || n < 2) {
        for (uint32_t i = 0; i < n; i++) task(context, i, 0);
        return;
    }
    pthread_mutex_lock(&pool->mutex);
    pool->task = task;
    pool->context = context;
    pool->n = n;
    atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
    pool->generation++;
    pool->open = 1;
    atomic_store_explicit(&pool->beacon, pool->generation, memory_order_relaxed);
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->mutex);

    take_tasks(pool, task, context, n, 0);

    pthread_mutex_lock(&pool->mutex);
    pool->open = 0;
    while (pool->joined) pthread_cond_wait(&pool->done, &pool->mutex);
    pthread_mutex_unlock(&pool->mutex);
}

/* pool.c - a fork-join pool. A run waits only for the threads that joined it. So a thread that wakes late or is busy with
 * another run does not delay it: the others execute all tasks. */
#include "gpu/device/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"

/* The nice value of background threads: they get a third of the time of a thread that competes with them, and one that
 * wakes up preempts them. */
enum { BACKGROUND_NICE = 5 };

/* One call of ct_pool_run. Guarded by the pool's mutex, except `next`. */
typedef struct run {
    bool is_used;         /* by a caller inside ct_pool_run */
    bool is_open;         /* threads may join */
    atomic_uint n_joined; /* written under the mutex; the caller spins on it */
    ct_pool_fn task;
    void *context;
    ct_working working; /* of the caller */
    uint32_t n;
    pthread_cond_t done;
    atomic_uint next; /* task to claim; n or more if none is left */
} run;

struct ct_pool {
    uint32_t threads, started;
    bool in_background;
    pthread_t *handles;
    pthread_mutex_t mutex;
    pthread_cond_t work;
    bool stop; /* guarded by mutex */
    run runs[CT_MAX_CONCURRENT_BATCHES];
    atomic_uint_fast64_t n_opened; /* runs opened so far; written under the mutex, idle threads spin on it */
};

struct worker_parameters {
    ct_pool *pool;
    uint32_t worker;
};

static inline void pause_cpu(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* The stages of a batch open and end runs within microseconds of each other: before a thread sleeps, it spins for some tens
 * of microseconds. */
enum { SPINS = 2000 };

/* Of many tasks a thread claims several at a time: what neighbours write often shares cache lines. */
static uint32_t claim_size(const ct_pool *pool, uint32_t n) {
    enum { SHARES = 32, MOST = 8 }; /* so that at most a 32nd of a thread's work is left to the last one at the end */
    const uint32_t size = n / (SHARES * pool->threads);
    return size < 1 ? 1 : size > MOST ? MOST : size;
}

static void execute_tasks(const ct_pool *pool, run *run, ct_pool_fn task, void *context, uint32_t n, uint32_t worker) {
    const uint32_t size = claim_size(pool, n);
    ct_thread_working.is_in_task = true;
    for (uint32_t i; (i = atomic_fetch_add_explicit(&run->next, size, memory_order_relaxed)) < n;)
        for (uint32_t k = i; k < n && k < i + size; k++) task(context, k, worker);
    ct_thread_working.is_in_task = false;
}

/* Returns the run with unclaimed tasks that the fewest threads have joined; NULL if there is none. */
static run *find_run(ct_pool *pool) {
    run *best = NULL;
    for (int i = 0; i < CT_MAX_CONCURRENT_BATCHES; i++) {
        run *run = &pool->runs[i];
        if (!run->is_open || atomic_load_explicit(&run->next, memory_order_relaxed) >= run->n) continue;
        if (!best || run->n_joined < best->n_joined) best = run;
    }
    return best;
}

static void join_run(ct_pool *pool, run *run, uint32_t worker) {
    run->n_joined++;
    ct_pool_fn task = run->task;
    void *context = run->context;
    uint32_t n = run->n;
    ct_thread_working = run->working;
    pthread_mutex_unlock(&pool->mutex);

    execute_tasks(pool, run, task, context, n, worker);
    ct_thread_working = (ct_working){0};

    pthread_mutex_lock(&pool->mutex);
    if (--run->n_joined == 0 && !run->is_open) pthread_cond_signal(&run->done);
}

static void *worker_main(void *argument) {
    struct worker_parameters *parameters = argument;
    ct_pool *pool = parameters->pool;
    uint32_t worker = parameters->worker;
    free(parameters);
    if (pool->in_background) setpriority(PRIO_PROCESS, 0, BACKGROUND_NICE); /* of this thread alone, on Linux */
    pthread_mutex_lock(&pool->mutex);
    while (!pool->stop) {
        run *run = find_run(pool);
        if (run) {
            join_run(pool, run, worker);
            continue;
        }
        uint64_t seen = atomic_load_explicit(&pool->n_opened, memory_order_relaxed);
        pthread_mutex_unlock(&pool->mutex);
        for (int i = 0; i < SPINS && atomic_load_explicit(&pool->n_opened, memory_order_relaxed) == seen; i++)
            pause_cpu();
        pthread_mutex_lock(&pool->mutex);
        while (!pool->stop && atomic_load_explicit(&pool->n_opened, memory_order_relaxed) == seen)
            pthread_cond_wait(&pool->work, &pool->mutex);
    }
    pthread_mutex_unlock(&pool->mutex);
    return NULL;
}

ct_status ct_pool_create(uint32_t threads, bool in_background, ct_pool **out, ct_error *error) {
    ct_pool *pool = calloc(1, sizeof *pool);
    if (!pool) return ct_fail(error, CT_OUT_OF_MEMORY, "threads", "no memory for the thread pool");
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->work, NULL);
    for (int i = 0; i < CT_MAX_CONCURRENT_BATCHES; i++) pthread_cond_init(&pool->runs[i].done, NULL);
    pool->threads = threads;
    pool->in_background = in_background;
    pool->handles = calloc(threads, sizeof *pool->handles);
    for (uint32_t i = 1; i < threads; i++) {
        struct worker_parameters *parameters = malloc(sizeof *parameters);
        if (parameters) *parameters = (struct worker_parameters){pool, i};
        if (!pool->handles || !parameters || pthread_create(&pool->handles[i], NULL, worker_main, parameters)) {
            free(parameters);
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
    pool->stop = true;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->mutex);
    for (uint32_t i = 1; i <= pool->started; i++) pthread_join(pool->handles[i], NULL);
    pthread_cond_destroy(&pool->work);
    for (int i = 0; i < CT_MAX_CONCURRENT_BATCHES; i++) pthread_cond_destroy(&pool->runs[i].done);
    pthread_mutex_destroy(&pool->mutex);
    free(pool->handles);
    free(pool);
    *handle = NULL;
}

void ct_pool_run(ct_pool *pool, uint32_t n, ct_pool_fn task, void *context) {
    run *run = NULL;
    if (pool && pool->threads > 1 && n > 1 && !ct_thread_working.is_in_task) {
        pthread_mutex_lock(&pool->mutex);
        for (int i = 0; i < CT_MAX_CONCURRENT_BATCHES && !run; i++)
            if (!pool->runs[i].is_used) run = &pool->runs[i];
        if (run) {
            run->is_used = run->is_open = true;
            run->task = task;
            run->context = context;
            run->working = ct_thread_working;
            run->n = n;
            atomic_store_explicit(&run->next, 0, memory_order_relaxed);
            atomic_fetch_add_explicit(&pool->n_opened, 1, memory_order_relaxed);
            pthread_cond_broadcast(&pool->work);
        }
        pthread_mutex_unlock(&pool->mutex);
    }
    if (!run) {
        for (uint32_t i = 0; i < n; i++) task(context, i, 0);
        return;
    }
    execute_tasks(pool, run, task, context, n, 0);

    pthread_mutex_lock(&pool->mutex);
    run->is_open = false;
    pthread_mutex_unlock(&pool->mutex);
    for (int i = 0; i < SPINS && atomic_load_explicit(&run->n_joined, memory_order_relaxed); i++) pause_cpu();
    pthread_mutex_lock(&pool->mutex);
    while (run->n_joined) pthread_cond_wait(&run->done, &pool->mutex);
    run->is_used = false;
    pthread_mutex_unlock(&pool->mutex);
}

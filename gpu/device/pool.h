/* pool.h - the threads of the CPU backend: runs n independent tasks on them and on the calling thread. */
#ifndef CT_POOL_H
#define CT_POOL_H

#include <stdint.h>

#include "gpu/include/contact.h"

typedef struct ct_pool ct_pool;

/* `worker` is 0 on the calling thread and 1..threads-1 on the pool's: the index of per-thread scratch. */
typedef void (*ct_pool_fn)(void *context, uint32_t index, uint32_t worker);

/* threads >= 1, the caller included. in_background: its own threads yield to others of the process that are ready to
 * run, as far as the system allows. */
ct_status ct_pool_create(uint32_t threads, bool in_background, ct_pool **out, ct_error *error);
void ct_pool_destroy(ct_pool **pool);

/* Runs task(context, 0..n-1, worker) and returns when all are done. Up to CT_MAX_CONCURRENT_BATCHES callers can share
 * the pool at a time; each also executes tasks of its own run, and all threads work for what the caller works for
 * (gpu/base/cancel.h). In a task, and if pool is NULL, the calling thread executes all tasks. */
void ct_pool_run(ct_pool *pool, uint32_t n, ct_pool_fn task, void *context);

#endif

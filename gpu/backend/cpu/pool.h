/* pool.h - threads of the CPU backend: run(n, task) spreads n independent tasks over them and the caller. */
#ifndef CT_POOL_H
#define CT_POOL_H

#include <stdint.h>

#include "gpu/include/contact.h"

typedef struct ct_pool ct_pool;

/* `worker` is 0 for the caller and 1..threads-1 for the others: an index for each caller's per-thread scratch. */
typedef void (*ct_pool_fn)(void *context, uint32_t index, uint32_t worker);

ct_status ct_pool_create(uint32_t threads, ct_pool **out, ct_error *error); /* threads >= 1, the caller included */
void ct_pool_destroy(ct_pool **pool);
uint32_t ct_pool_threads(const ct_pool *pool);

/* Returns when all n tasks are done. Up to CT_MAX_CONCURRENT_BATCHES callers at a time share the threads, each doing
 * its own tasks meanwhile; tasks must not call it. Without a pool (NULL) the caller does them all. */
void ct_pool_run(ct_pool *pool, uint32_t n, ct_pool_fn task, void *context);

#endif

/* scratch.h - temporary memory of a step: buffers that only grow and are reused by the next step. All count against one
 * budget, whose high-water mark is a metric. */
#ifndef CT_SCRATCH_H
#define CT_SCRATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct ct_budget {
    atomic_size_t used, peak; /* bytes; peak: the high-water mark */
    size_t limit;             /* bytes; 0: no limit */
} ct_budget;

/* Count memory that is not a ct_buffer. False: over the limit, nothing counted. */
bool ct_budget_reserve(ct_budget *budget, size_t bytes);
void ct_budget_release(ct_budget *budget, size_t bytes);

/* Memory aligned to a cache line, for free(); counts against no budget. Large memory is asked for in huge pages, where
 * the system has them: scattered accesses then hardly miss the processor's table of pages. NULL: out of memory. */
void *ct_scratch_new(size_t bytes);

typedef struct ct_buffer {
    void *data;
    size_t capacity; /* bytes */
} ct_buffer;

/* Grows the capacity to at least `bytes`. If that takes new memory, the first `kept` bytes are copied and, with `zero`,
 * the others are set to zero. False: over the limit, out of memory or cancelled; the buffer is unchanged. */
bool ct_buffer_reserve(ct_buffer *buffer, ct_budget *budget, size_t bytes, size_t kept, bool zero);
void ct_buffer_free(ct_buffer *buffer, ct_budget *budget);

#endif

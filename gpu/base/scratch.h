/* scratch.h - memory that a step needs only while it runs: buffers that grow, are kept for the next step, and are
 * counted against one budget, whose high-water mark is a metric. */
#ifndef CT_SCRATCH_H
#define CT_SCRATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct ct_budget {
    atomic_size_t used, peak; /* bytes */
    size_t limit;             /* bytes; 0: none */
} ct_budget;

/* For memory that is not a ct_buffer. False: over the budget, nothing taken. */
bool ct_budget_reserve(ct_budget *budget, size_t bytes);
void ct_budget_release(ct_budget *budget, size_t bytes);

typedef struct ct_buffer {
    void *data;
    size_t capacity; /* bytes */
} ct_buffer;

/* Makes room for `bytes`. `kept` bytes from the start survive; with zero set, all beyond them reads as zero when the
 * buffer had to be replaced. False: over the budget or out of memory; the buffer is as it was. */
bool ct_buffer_reserve(ct_buffer *buffer, ct_budget *budget, size_t bytes, size_t kept, bool zero);
void ct_buffer_free(ct_buffer *buffer, ct_budget *budget);

#endif

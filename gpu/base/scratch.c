/* scratch.c - buffers that grow within a budget. */
#include "gpu/base/scratch.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "gpu/base/cancel.h"
#include "gpu/base/large.h"

enum { ALIGNMENT = 64, HUGE_PAGE = 1 << 21 }; /* bytes: a cache line, what most processors have for huge pages */

void *ct_scratch_new(size_t bytes) {
    void *data;
    if (bytes >= HUGE_PAGE && bytes % HUGE_PAGE >= HUGE_PAGE / 2) /* the last huge page is worth having whole */
        bytes += HUGE_PAGE - bytes % HUGE_PAGE;
    if (posix_memalign(&data, bytes >= HUGE_PAGE ? HUGE_PAGE : ALIGNMENT, bytes ? bytes : 1)) return NULL;
#ifdef MADV_HUGEPAGE
    if (bytes >= HUGE_PAGE) madvise(data, bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE); /* only a wish */
#endif
    return data;
}

bool ct_budget_reserve(ct_budget *budget, size_t bytes) {
    size_t used = atomic_fetch_add(&budget->used, bytes) + bytes;
    if (budget->limit && used > budget->limit) {
        atomic_fetch_sub(&budget->used, bytes);
        return false;
    }
    size_t peak = atomic_load(&budget->peak);
    while (used > peak && !atomic_compare_exchange_weak(&budget->peak, &peak, used)) {
    }
    return true;
}

void ct_budget_release(ct_budget *budget, size_t bytes) {
    atomic_fetch_sub(&budget->used, bytes);
}

bool ct_buffer_reserve(ct_buffer *buffer, ct_budget *budget, size_t bytes, size_t kept, bool zero) {
    if (bytes <= buffer->capacity) return true;
    if (bytes > SIZE_MAX / 2 || ct_is_cancelled()) return false;
    size_t capacity = bytes + bytes / 4; /* a slowly growing need does not reallocate every step */
    capacity = (capacity + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (!ct_budget_reserve(budget, capacity)) {
        capacity = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        if (!ct_budget_reserve(budget, capacity)) return false;
    }
    void *data = ct_scratch_new(capacity);
    if (!data) {
        ct_budget_release(budget, capacity);
        return false;
    }
    if (!ct_copy_large(data, buffer->data, kept) || (zero && !ct_fill_large((char *)data + kept, 0, capacity - kept))) {
        free(data);
        ct_budget_release(budget, capacity);
        return false;
    }
    ct_buffer_free(buffer, budget);
    buffer->data = data;
    buffer->capacity = capacity;
    return true;
}

void ct_buffer_free(ct_buffer *buffer, ct_budget *budget) {
    free(buffer->data);
    ct_budget_release(budget, buffer->capacity);
    buffer->data = NULL;
    buffer->capacity = 0;
}

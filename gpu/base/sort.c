/* sort.c - short runs by qsort, then merges of twice as long ones. */
#include "gpu/base/sort.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/base/cancel.h"

enum { RUN = 4096, POLL = 1024 };

/* Merges runs of `width` items. */
static bool merge_runs(const char *from, char *to, size_t n, size_t size, size_t width,
                       int (*order)(const void *a, const void *b)) {
    for (size_t start = 0; start < n; start += 2 * width) {
        const size_t middle = start + width < n ? start + width : n, end = middle + width < n ? middle + width : n;
        size_t left = start, right = middle;
        for (size_t k = start; k < end; k++) {
            if (CT_POLL_EVERY(k, POLL) && ct_is_cancelled()) return false;
            const bool is_left = left < middle && (right >= end || order(from + left * size, from + right * size) <= 0);
            memcpy(to + k * size, from + (is_left ? left++ : right++) * size, size);
        }
    }
    return true;
}

bool ct_sort(void *items, size_t n, size_t size, int (*order)(const void *a, const void *b)) {
    char *from = items, *to = NULL;
    for (size_t start = 0; start < n; start += RUN) {
        if (ct_is_cancelled()) return false;
        qsort(from + start * size, n - start < RUN ? n - start : RUN, size, order);
    }
    if (n <= RUN) return true;
    char *const other = to = malloc(n * size);
    if (!other) return false;
    bool ok = true;
    for (size_t width = RUN; width < n && ok; width *= 2) {
        ok = merge_runs(from, to, n, size, width, order);
        char *const swap = from;
        from = to;
        to = swap;
    }
    if (ok && from != items) memcpy(items, from, n * size);
    free(other);
    return ok;
}

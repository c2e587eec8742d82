/* large.c - a merge sort from the bottom up, whose polls are never far apart: the library's qsort cannot be ended. */
#include "gpu/base/large.h"

#include <stdlib.h>

enum {
    RUN = 256,  /* rows that qsort sorts at once, some 20 us */
    POLL = 1024 /* merged rows between polls */
};

typedef int compare_rows(const void *, const void *);

/* Merges two runs that follow each other into `to`. Inlined for the sizes that occur, so that rows are copied in
 * registers. */
static inline __attribute__((always_inline)) bool merge(const char *rows, size_t left, size_t n, char *to, size_t size,
                                                        compare_rows *compare) {
    const char *a = rows, *a_end = rows + left * size, *b = a_end, *b_end = rows + n * size;
    for (size_t i = 0; a < a_end && b < b_end; i++) {
        if (CT_POLL_EVERY(i, POLL) && ct_is_cancelled()) return false;
        const bool is_left = compare(a, b) <= 0;
        memcpy(to, is_left ? a : b, size);
        to += size;
        if (is_left)
            a += size;
        else
            b += size;
    }
    return ct_copy_large(to, a, (size_t)(a_end - a)) && ct_copy_large(to + (a_end - a), b, (size_t)(b_end - b));
}

static bool merge_any(const char *rows, size_t left, size_t n, char *to, size_t size, compare_rows *compare) {
    if (compare(rows + (left - 1) * size, rows + left * size) <= 0) return ct_copy_large(to, rows, n * size);
    switch (size) {
    case 16:
        return merge(rows, left, n, to, 16, compare);
    case 20:
        return merge(rows, left, n, to, 20, compare);
    case 24:
        return merge(rows, left, n, to, 24, compare);
    default:
        return merge(rows, left, n, to, size, compare);
    }
}

bool ct_sort_large(void *rows, size_t n, size_t size, compare_rows *compare) {
    for (size_t first = 0; first < n; first += RUN) {
        if (ct_is_cancelled()) return false;
        qsort((char *)rows + first * size, n - first < RUN ? n - first : RUN, size, compare);
    }
    if (n <= RUN) return true;
    char *scratch = malloc(n * size), *from = rows, *to = scratch;
    bool is_sorted = scratch;
    for (size_t run = RUN; is_sorted && run < n; run *= 2) {
        for (size_t first = 0; is_sorted && first < n; first += 2 * run) {
            const size_t some = n - first < 2 * run ? n - first : 2 * run;
            const char *at = from + first * size;
            is_sorted = some <= run ? ct_copy_large(to + first * size, at, some * size)
                                    : merge_any(at, run, some, to + first * size, size, compare);
        }
        char *sorted = to;
        to = from;
        from = sorted;
    }
    if (is_sorted && from != rows) is_sorted = ct_copy_large(rows, from, n * size);
    free(scratch);
    return is_sorted;
}

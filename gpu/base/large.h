/* large.h - copies, fills and sorts what may be large, and ends early when the thread's work is cancelled. */
#ifndef CT_LARGE_H
#define CT_LARGE_H

#include <stddef.h>
#include <string.h>

#include "gpu/base/cancel.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { CT_LARGE_PIECE = 1 << 18 }; /* bytes between polls: pages that are touched first take a second a gigabyte */

/* False: cancelled, and not all is copied. */
static inline bool ct_copy_large(void *to, const void *from, size_t bytes) {
    for (size_t at = 0; at < bytes; at += CT_LARGE_PIECE) {
        if (at && ct_is_cancelled()) return false;
        memcpy((char *)to + at, (const char *)from + at, bytes - at < CT_LARGE_PIECE ? bytes - at : CT_LARGE_PIECE);
    }
    return true;
}

/* False: cancelled, and not all is filled. */
static inline bool ct_fill_large(void *to, int value, size_t bytes) {
    for (size_t at = 0; at < bytes; at += CT_LARGE_PIECE) {
        if (at && ct_is_cancelled()) return false;
        memset((char *)to + at, value, bytes - at < CT_LARGE_PIECE ? bytes - at : CT_LARGE_PIECE);
    }
    return true;
}

/* Sorts n rows of `size` bytes in O(n log n) for any input, with as much memory again. `compare` is as qsort's; rows
 * that it calls equal may change their order. False: no memory, or cancelled; the rows are then in any order, and some
 * may be there twice. */
bool ct_sort_large(void *rows, size_t n, size_t size, int (*compare)(const void *, const void *));

#ifdef __cplusplus
}
#endif

#endif

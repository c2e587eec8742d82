/* sort.h - qsort for as many items as input may have: it polls. For every part of the engine. */
#ifndef CT_SORT_H
#define CT_SORT_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sorts n items of `size` bytes. False: out of memory, or cancelled; the items are then in some order, and some may be
 * there twice. */
bool ct_sort(void *items, size_t n, size_t size, int (*order)(const void *a, const void *b));

#ifdef __cplusplus
}
#endif
#endif

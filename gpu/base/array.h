/* array.h - a growing array: a pointer, a count and a capacity that its owner keeps, in any struct.
 *
 *     struct { ct_point *points; size_t n, capacity; } list;
 *     if (!ct_array_grow(&list.points, &list.capacity, list.n + 1)) return CT_OUT_OF_MEMORY;
 *     list.points[list.n++] = point;
 *
 * Freed by free(). Temporary memory of a step that counts against the device's budget is ct_buffer (scratch.h). */
#ifndef CT_ARRAY_H
#define CT_ARRAY_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* items: the address of the pointer, of any type. Gives the array of elements of `size` bytes room for at least n of them;
 * it at least doubles when it grows. False: no memory, and nothing has changed. */
bool ct_array_reserve(void *items, size_t *capacity, size_t n, size_t size);

/* The same of a typed pointer and a size_t capacity. */
#define ct_array_grow(items, capacity, n) ct_array_reserve((items), (capacity), (n), sizeof **(items))

#ifdef __cplusplus
}
#endif

#endif

/* slots.h - a table of pointers known by handles: slot + 1 in the low 24 bits, a generation in the 28 above. For the
 * registry; not locked. */
#ifndef SERVER_SLOTS_H
#define SERVER_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct slot {
    void *item; /* NULL: free */
    uint32_t generation;
    uint32_t next_free; /* slot + 1 */
} slot;

typedef struct slots { /* all zero: empty */
    slot *slots;
    uint32_t n, room;               /* slots ever used; allocated */
    uint32_t used;                  /* items now */
    uint32_t first_free, last_free; /* slot + 1; reused in the order freed, so that a handle stays stale for long */
} slots;

uint64_t slots_add(slots *slots, void *item); /* the handle; 0: out of memory or slots */
/* NULL: no such item; then *stale (may be NULL) tells whether there was one once. */
void *slots_get(const slots *slots, uint64_t handle, bool *stale);
void slots_remove(slots *slots, uint64_t handle);
/* Walks the items in slot order: start with *at = 0; NULL at the end. */
void *slots_next(const slots *slots, uint32_t *at);
void slots_free(slots *slots); /* the table, not the items */

#endif

/* arena.h - memory for answers under construction: allocations that are all dropped together, counted against a budget.
 * One thread at a time allocates. */
#ifndef CT_ARENA_H
#define CT_ARENA_H

#include "gpu/base/scratch.h"

typedef struct ct_arena {
    struct ct_arena_block *blocks; /* newest first */
} ct_arena;

/* Memory aligned to 64 bytes, valid until ct_arena_reset or ct_arena_free. NULL: over the budget or out of memory. */
void *ct_arena_alloc(ct_arena *arena, ct_budget *budget, size_t bytes);

/* Drops all allocations and keeps one block, as large as all of them were together if that succeeds. */
void ct_arena_reset(ct_arena *arena, ct_budget *budget);
void ct_arena_free(ct_arena *arena, ct_budget *budget);

#endif

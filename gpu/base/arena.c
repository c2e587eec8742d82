/* arena.c - blocks of growing size, allocated from front to back. */
#include "gpu/base/arena.h"

#include <stdint.h>
#include <stdlib.h>

enum { ALIGNMENT = 64, FIRST_BLOCK = 1 << 14 };

struct ct_arena_block {
    struct ct_arena_block *older;
    size_t size, used; /* bytes, this header included */
};
enum { HEADER = (sizeof(struct ct_arena_block) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT };

/* Adds a block that holds at least `bytes`. */
static bool add_block(ct_arena *arena, ct_budget *budget, size_t bytes) {
    const size_t least = HEADER + bytes, doubled = arena->blocks ? 2 * arena->blocks->size : FIRST_BLOCK;
    size_t size = least > doubled ? least : doubled;
    if (!ct_budget_reserve(budget, size)) {
        size = least;
        if (!ct_budget_reserve(budget, size)) return false;
    }
    struct ct_arena_block *block = ct_scratch_new(size);
    if (!block) {
        ct_budget_release(budget, size);
        return false;
    }
    *block = (struct ct_arena_block){arena->blocks, size, HEADER};
    arena->blocks = block;
    return true;
}

void *ct_arena_alloc(ct_arena *arena, ct_budget *budget, size_t bytes) {
    if (bytes > SIZE_MAX / 4) return NULL;
    const size_t rounded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    struct ct_arena_block *block = arena->blocks;
    if ((!block || block->size - block->used < rounded) && !add_block(arena, budget, rounded)) return NULL;
    block = arena->blocks;
    void *data = (char *)block + block->used;
    block->used += rounded;
    return data;
}

/* Frees all blocks but the newest `kept`. */
static void free_blocks(ct_arena *arena, ct_budget *budget, int kept) {
    struct ct_arena_block **link = &arena->blocks;
    for (; *link && kept; kept--) link = &(*link)->older;
    while (*link) {
        struct ct_arena_block *block = *link;
        *link = block->older;
        ct_budget_release(budget, block->size);
        free(block);
    }
}

void ct_arena_reset(ct_arena *arena, ct_budget *budget) {
    size_t used = 0;
    bool several = arena->blocks && arena->blocks->older;
    for (const struct ct_arena_block *b = arena->blocks; b; b = b->older) used += b->used - HEADER;
    free_blocks(arena, budget, several ? 0 : 1);
    if (several) add_block(arena, budget, used); /* without it the next step starts with a small block */
    if (arena->blocks) arena->blocks->used = HEADER;
}

void ct_arena_free(ct_arena *arena, ct_budget *budget) {
    free_blocks(arena, budget, 0);
}

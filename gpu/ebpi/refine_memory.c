/* refine_memory.c - a refinement's memory on the host. */
#include <stdlib.h>

#include "gpu/base/arena.h"
#include "gpu/ebpi/refine.h"

struct ct_ebpi_memory {
    ct_budget budget; /* without a limit */
    ct_arena arena;
    ct_buffer tiles[2], cuts;
};

ct_ebpi_memory *ct_ebpi_memory_new(void) {
    return calloc(1, sizeof(ct_ebpi_memory));
}

void ct_ebpi_memory_free(ct_ebpi_memory **memory) {
    ct_ebpi_memory *of = *memory;
    *memory = NULL;
    if (!of) return;
    ct_arena_free(&of->arena, &of->budget);
    for (int k = 0; k < 2; k++) ct_buffer_free(&of->tiles[k], &of->budget);
    ct_buffer_free(&of->cuts, &of->budget);
    free(of);
}

void ct_ebpi_memory_use(ct_ebpi_memory *memory, ct_ebpi_refinement *of) {
    ct_arena_reset(&memory->arena, &memory->budget);
    of->arena = &memory->arena;
    of->budget = &memory->budget;
    of->tile_memory = memory->tiles;
    of->cut_memory = &memory->cuts;
}

void *ct_ebpi_memory_alloc(ct_ebpi_memory *memory, size_t bytes) {
    return ct_arena_alloc(&memory->arena, &memory->budget, bytes ? bytes : 1);
}

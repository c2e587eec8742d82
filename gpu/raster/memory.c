/* memory.c - the raster stage's memory and the state of its ray lists that no instruction set changes. */
#include "gpu/raster/raster_cpu.h"

void ct_ray_lists_begin(ct_ray_lists *rays, const ct_bin_plan *plan, uint32_t bin, const ct_binned_chunk *chunks,
                        size_t n_chunks) {
    rays->bin = ct_bin_at(plan, bin);
    rays->view = rays->bin.of->view;
    rays->initial[0] = rays->initial[1] = CT_INITIAL_ZERO;
    for (size_t i = 0; i < n_chunks; i++)
        rays->initial[chunks[i].snapped->body] = (ct_initial_winding)chunks[i].snapped->initial[rays->view];
    rays->first_body = n_chunks ? (int32_t)chunks[0].snapped->body : 0;
}

static void free_crossings(struct ct_crossing_memory memory[3], ct_budget *budget) {
    for (int w = 0; w < 3; w++) {
        ct_buffer_free(&memory[w].front, budget);
        ct_buffer_free(&memory[w].back, budget);
        ct_buffer_free(&memory[w].where, budget);
    }
}

void ct_binned_chunk_free(ct_binned_chunk *chunk, ct_budget *budget) {
    ct_buffer_free(&chunk->offsets, budget);
    ct_buffer_free(&chunk->entry_memory, budget);
    free_crossings(chunk->crossing_memory, budget);
}

void ct_bin_scratch_free(ct_bin_scratch *scratch, ct_budget *budget) {
    ct_buffer_free(&scratch->kept_memory, budget);
    ct_buffer_free(&scratch->entries, budget);
    free_crossings(scratch->crossings, budget);
}

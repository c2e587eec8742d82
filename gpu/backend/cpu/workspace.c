/* workspace.c - scratch for the batches that run at the same time, and its assignment to them: acquire, release and
 * exclusive use. */
#include <stdlib.h>

#include "gpu/backend/cpu/device.h"
#include "gpu/base/fail.h"

/* ---- scratch ---- */

/* Frees the memory that a thread keeps for later pairs. Its sums must all be zero. */
static void free_thread_scratch(ct_device *device, ct_thread_scratch *scratch) {
    for (size_t k = 0; k < scratch->n_chunks; k++) ct_binned_chunk_free(&scratch->chunks[k], &device->budget);
    ct_bin_scratch_free(&scratch->binning, &device->budget);
    scratch->chunks = NULL;
    scratch->n_chunks = 0;
    ct_buffer *buffers[] = {&scratch->coords[0],
                            &scratch->coords[1],
                            &scratch->cells[0],
                            &scratch->cells[1],
                            &scratch->runs[0],
                            &scratch->runs[1],
                            &scratch->front_runs,
                            &scratch->front_winding[0],
                            &scratch->front_winding[1],
                            &scratch->chunk_memory,
                            &scratch->patches[0].memory,
                            &scratch->patches[1].memory,
                            &scratch->rays.head_memory,
                            &scratch->rays.fragment_memory,
                            &scratch->rays.winding_memory,
                            &scratch->span.ray,
                            &scratch->span.spans,
                            &scratch->span.covers,
                            &scratch->span.cells.table,
                            &scratch->span.cells.cells,
                            &scratch->span.cells.records,
                            &scratch->span.cells.column_memory,
                            &scratch->cell_sums.sums[0],
                            &scratch->cell_sums.sums[1],
                            &scratch->cell_sums.touched[0],
                            &scratch->cell_sums.touched[1],
                            &scratch->cell_sums.compact,
                            &scratch->walls,
                            &scratch->parts,
                            &scratch->cell_order,
                            &scratch->compacted,
                            &scratch->sides.pieces,
                            &scratch->sides.forces,
                            &scratch->sums_memory,
                            &scratch->gradient_memory[0],
                            &scratch->gradient_memory[1],
                            &scratch->touched_memory[0],
                            &scratch->touched_memory[1],
                            &scratch->ebpi_tiles[0],
                            &scratch->ebpi_tiles[1],
                            &scratch->ebpi_cuts,
                            &scratch->exact.lists.of_body[0],
                            &scratch->exact.lists.of_body[1],
                            &scratch->exact.lists.touching,
                            &scratch->exact.cluster_pairs,
                            &scratch->exact.gradient[0],
                            &scratch->exact.gradient[1],
                            &scratch->exact.touched[0],
                            &scratch->exact.touched[1]};
    ct_ebpi_scratch_free(&scratch->ebpi, &device->budget);
    for (size_t k = 0; k < sizeof buffers / sizeof *buffers; k++) ct_buffer_free(buffers[k], &device->budget);
    ct_arena_free(&scratch->exact.arena, &device->budget);
}

void ct_workspaces_free_scratch(ct_device *device) {
    for (int i = 0; i < CT_MAX_CONCURRENT_BATCHES; i++) {
        ct_workspace *workspace = &device->workspaces[i];
        for (uint32_t w = 0; workspace->workers && w < device->threads; w++) {
            free_thread_scratch(device, &workspace->workers[w]);
            if (!workspace->is_taken) ct_arena_free(&workspace->workers[w].answers, &device->answers);
        }
        ct_cpu_gl_release(workspace);
        ct_buffer_free(&workspace->regions, &device->budget);
        ct_cpu_free_voxel_tasks(workspace);
        if (!workspace->is_taken) ct_buffer_free(&workspace->pairs, &device->budget);
    }
}

ct_status ct_workspaces_create(ct_device *device, ct_error *error) {
    pthread_mutex_init(&device->mutex, NULL);
    pthread_cond_init(&device->changed, NULL);
    for (int i = 0; i < CT_MAX_CONCURRENT_BATCHES; i++) {
        ct_workspace *workspace = &device->workspaces[i];
        workspace->device = device;
        workspace->next_pair = 1;
        workspace->workers = calloc(device->threads, sizeof *workspace->workers);
        if (!workspace->workers)
            return ct_fail(error, CT_OUT_OF_MEMORY, "threads", "no memory for %u threads", device->threads);
    }
    return CT_OK;
}

void ct_workspaces_destroy(ct_device *device) {
    ct_workspaces_free_scratch(device);
    for (int i = 0; i < CT_MAX_CONCURRENT_BATCHES; i++) free(device->workspaces[i].workers);
    pthread_cond_destroy(&device->changed);
    pthread_mutex_destroy(&device->mutex);
}

/* ---- assignment to batches ---- */

/* Call it with the mutex locked. NULL: all are taken, or a batch waits for exclusive use, which has priority. */
static ct_workspace *find_free(ct_device *device, bool is_large) {
    ct_workspace *found = NULL;
    if (device->exclusive) return NULL;
    for (int i = 0; i < CT_MAX_CONCURRENT_BATCHES; i++) {
        ct_workspace *workspace = &device->workspaces[is_large ? CT_MAX_CONCURRENT_BATCHES - 1 - i : i];
        if (workspace->is_waiting) return NULL;
        if (!workspace->is_taken) found = workspace;
    }
    return found;
}

ct_workspace *ct_workspace_acquire(ct_device *device, bool is_large, bool in_background) {
    ct_workspace *workspace;
    pthread_mutex_lock(&device->mutex);
    while (!(workspace = find_free(device, is_large || in_background)))
        pthread_cond_wait(&device->changed, &device->mutex);
    workspace->is_taken = true;
    workspace->pool = in_background ? device->background_pool : device->pool;
    pthread_mutex_unlock(&device->mutex);
    return workspace;
}

void ct_workspace_release(ct_workspace *workspace) {
    ct_device *device = workspace->device;
    pthread_mutex_lock(&device->mutex);
    workspace->is_taken = false;
    pthread_cond_broadcast(&device->changed);
    pthread_mutex_unlock(&device->mutex);
}

/* Call it with the mutex locked. Of several waiting batches, the one that checks first gets exclusive use. */
static bool can_be_exclusive(const ct_device *device) {
    if (device->exclusive) return false;
    for (int i = 0; i < CT_MAX_CONCURRENT_BATCHES; i++)
        if (device->workspaces[i].is_taken && !device->workspaces[i].is_waiting) return false;
    return true;
}

void ct_workspace_begin_exclusive(ct_workspace *workspace) {
    ct_device *device = workspace->device;
    pthread_mutex_lock(&device->mutex);
    workspace->is_waiting = true;
    pthread_cond_broadcast(&device->changed);
    while (!can_be_exclusive(device)) pthread_cond_wait(&device->changed, &device->mutex);
    workspace->is_waiting = false;
    device->exclusive = workspace;
    pthread_mutex_unlock(&device->mutex);
}

void ct_workspace_end_exclusive(ct_workspace *workspace) {
    ct_device *device = workspace->device;
    pthread_mutex_lock(&device->mutex);
    device->exclusive = NULL;
    pthread_cond_broadcast(&device->changed);
    pthread_mutex_unlock(&device->mutex);
}

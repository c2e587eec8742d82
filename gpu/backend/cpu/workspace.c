/* workspace.c - scratch for the batches that run at the same time, and its assignment to them: acquire, release and
 * exclusive use. */
#include <stdlib.h>
#include <time.h>

#include "gpu/backend/cpu/device.h"
#include "gpu/base/cancel.h"
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

static void free_scratch(ct_workspace *workspace) {
    ct_device *device = workspace->device;
    for (uint32_t w = 0; workspace->workers && w < device->threads; w++) {
        free_thread_scratch(device, &workspace->workers[w]);
        if (!workspace->is_taken) ct_arena_free(&workspace->workers[w].answers, &device->answers);
    }
    ct_cpu_gl_release(workspace);
    ct_buffer_free(&workspace->regions, &device->budget);
    ct_cpu_free_voxel_tasks(workspace);
    if (!workspace->is_taken) ct_buffer_free(&workspace->pairs, &device->budget);
}

ct_status ct_workspaces_create(ct_device *device, ct_error *error) {
    pthread_mutex_init(&device->mutex, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&device->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
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

/* With the mutex locked: waits for a change of the workspaces, but not for long, so that who waits sees its own
 * cancellation. */
static void wait_for_change(ct_device *device) {
    enum { POLL_NS = 5000000 };
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += POLL_NS;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    pthread_cond_timedwait(&device->changed, &device->mutex, &until);
}

/* A batch that has, or waits for, exclusive use keeps this one from beginning. One in the background lets those of the
 * foreground go on: they are short, and must not wait for a long one. */
static bool is_kept_out(const ct_workspace *exclusive, bool in_background) {
    return exclusive && (!exclusive->in_background || in_background);
}

/* Call it with the mutex locked. NULL: all are taken, or a batch has exclusive use or waits for it. */
static ct_workspace *find_free(ct_device *device, bool is_large, bool in_background) {
    ct_workspace *found = NULL;
    if (is_kept_out(device->exclusive, in_background)) return NULL;
    for (int i = 0; i < CT_MAX_CONCURRENT_BATCHES; i++) {
        ct_workspace *workspace = &device->workspaces[is_large ? CT_MAX_CONCURRENT_BATCHES - 1 - i : i];
        if (workspace->is_waiting && is_kept_out(workspace, in_background)) return NULL;
        if (!workspace->is_taken) found = workspace;
    }
    return found;
}

ct_workspace *ct_workspace_try(ct_device *device, bool is_large, bool in_background) {
    ct_workspace *workspace;
    pthread_mutex_lock(&device->mutex);
    for (int tries = 0; !(workspace = find_free(device, is_large || in_background, in_background)) && tries < 1;
         tries++)
        wait_for_change(device);
    if (workspace) {
        workspace->is_taken = true;
        workspace->in_background = in_background;
        workspace->pool = in_background ? device->background_pool : device->pool;
    }
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

/* Its batch computes, or may do so at any time. */
static bool is_computing(const ct_workspace *workspace) {
    return workspace->is_taken && !workspace->is_waiting && workspace->device->exclusive != workspace;
}

/* Call it with the mutex locked. Of several waiting batches, the one that checks first gets exclusive use. */
static bool can_be_exclusive(const ct_workspace *self) {
    const ct_device *device = self->device;
    if (device->exclusive) return false;
    for (int i = 0; i < CT_MAX_CONCURRENT_BATCHES; i++) {
        const ct_workspace *other = &device->workspaces[i];
        if (other != self && is_computing(other) && (!self->in_background || other->in_background)) return false;
    }
    return true;
}

bool ct_workspace_begin_exclusive(ct_workspace *workspace) {
    ct_device *device = workspace->device;
    bool is_cancelled = false;
    pthread_mutex_lock(&device->mutex);
    workspace->is_waiting = true;
    pthread_cond_broadcast(&device->changed);
    while (!can_be_exclusive(workspace) && !(is_cancelled = ct_is_cancelled())) wait_for_change(device);
    workspace->is_waiting = false;
    if (!is_cancelled) device->exclusive = workspace;
    pthread_cond_broadcast(&device->changed);
    pthread_mutex_unlock(&device->mutex);
    return !is_cancelled;
}

void ct_workspace_end_exclusive(ct_workspace *workspace) {
    ct_device *device = workspace->device;
    pthread_mutex_lock(&device->mutex);
    device->exclusive = NULL;
    pthread_cond_broadcast(&device->changed);
    pthread_mutex_unlock(&device->mutex);
}

void ct_workspace_give_back(ct_workspace *workspace) {
    free_scratch(workspace);
    ct_buffer_free(&workspace->pairs, &workspace->device->budget);
}

void ct_workspaces_free_scratch(ct_device *device) {
    pthread_mutex_lock(&device->mutex);
    for (int i = 0; i < CT_MAX_CONCURRENT_BATCHES; i++)
        if (!is_computing(&device->workspaces[i])) free_scratch(&device->workspaces[i]);
    pthread_mutex_unlock(&device->mutex);
}

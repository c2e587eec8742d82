/* workspace.c - the scratch of the batches that run at the same time, and which batch uses which. */
#include <stdlib.h>

#include "gpu/backend/cpu/device.h"
#include "gpu/base/fail.h"

/* ---- scratch ---- */

/* Everything that a worker keeps for its next pair. Its sums are all zero. */
static void free_scratch(ct_device *device, ct_thread_scratch *w) {
    for (size_t k = 0; k < w->n_chunks; k++) ct_binned_chunk_free(&w->chunks[k], &device->budget);
    ct_bin_scratch_free(&w->binning, &device->budget);
    w->chunks = NULL;
    w->n_chunks = 0;
    ct_buffer *buffers[] = {&w->coords[0],
                            &w->coords[1],
                            &w->cells[0],
                            &w->cells[1],
                            &w->runs[0],
                            &w->runs[1],
                            &w->chunk_memory,
                            &w->patches[0].memory,
                            &w->patches[1].memory,
                            &w->rays.head_memory,
                            &w->rays.fragment_memory,
                            &w->rays.winding_memory,
                            &w->span.ray,
                            &w->span.spans,
                            &w->span.covers,
                            &w->compacted,
                            &w->sums_memory,
                            &w->gradient_memory[0],
                            &w->gradient_memory[1],
                            &w->touched_memory[0],
                            &w->touched_memory[1]};
    for (size_t k = 0; k < sizeof buffers / sizeof *buffers; k++) ct_buffer_free(buffers[k], &device->budget);
}

void ct_workspaces_free_scratch(ct_device *device) {
    for (int i = 0; i < CT_MAX_CONCURRENT_BATCHES; i++) {
        ct_workspace *workspace = &device->workspaces[i];
        for (uint32_t w = 0; workspace->workers && w < device->threads; w++) {
            free_scratch(device, &workspace->workers[w]);
            if (!workspace->is_taken) ct_arena_free(&workspace->workers[w].answers, &device->answers);
        }
        ct_cpu_gl_release(workspace);
        ct_buffer_free(&workspace->regions, &device->budget);
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

/* ---- which batch uses which ---- */

/* Needs the mutex. NULL: all are taken, or a batch waits for exclusive use and goes first. */
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

ct_workspace *ct_workspace_acquire(ct_device *device, bool is_large) {
    ct_workspace *workspace;
    pthread_mutex_lock(&device->mutex);
    while (!(workspace = find_free(device, is_large))) pthread_cond_wait(&device->changed, &device->mutex);
    workspace->is_taken = true;
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

/* Needs the mutex. Of several that wait, the first to check wins. */
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

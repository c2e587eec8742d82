/* workspace.c - who computes on the device at the same time, and the scratch that each has. */
#include <stdlib.h>

#include "gpu/backend/cpu/device.h"
#include "gpu/base/fail.h"

/* ---- scratch ---- */

/* All that a worker keeps for its next job. Its sums are all zero. */
static void free_scratch(ct_device *device, ct_thread_scratch *w) {
    for (size_t k = 0; k < w->n_bins; k++) ct_bin_free(&w->bins[k], &device->budget);
    ct_bin_scratch_free(&w->binning, &device->budget);
    w->bins = NULL;
    w->n_bins = 0;
    ct_buffer *buffers[] = {&w->coords[0],
                            &w->coords[1],
                            &w->cells[0],
                            &w->cells[1],
                            &w->bins_memory,
                            &w->patches[0].memory,
                            &w->patches[1].memory,
                            &w->rays.head_memory,
                            &w->rays.fragment_memory,
                            &w->rays.winding_memory,
                            &w->span.ray,
                            &w->span.spans,
                            &w->gathered,
                            &w->gradient_memory[0],
                            &w->gradient_memory[1],
                            &w->touched_memory[0],
                            &w->touched_memory[1]};
    for (size_t k = 0; k < sizeof buffers / sizeof *buffers; k++) ct_buffer_free(buffers[k], &device->budget);
}

void ct_workspaces_free_scratch(ct_device *device) {
    for (int i = 0; i < CT_MAX_CONCURRENT_BATCHES; i++) {
        ct_workspace *workspace = &device->workspaces[i];
        for (uint32_t w = 0; workspace->workers && w < device->threads; w++)
            free_scratch(device, &workspace->workers[w]);
        if (device->drawer) device->drawer->release(workspace);
        ct_buffer_free(&workspace->tiles, &device->budget);
        if (!workspace->taken) ct_buffer_free(&workspace->jobs, &device->budget);
    }
}

ct_status ct_workspaces_create(ct_device *device, ct_error *error) {
    pthread_mutex_init(&device->mutex, NULL);
    pthread_cond_init(&device->changed, NULL);
    for (int i = 0; i < CT_MAX_CONCURRENT_BATCHES; i++) {
        ct_workspace *workspace = &device->workspaces[i];
        workspace->device = device;
        workspace->next_job = 1;
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

/* ---- taking turns ---- */

/* With the mutex held. NULL: all are taken, or one wants the device for itself: then nobody begins before it. */
static ct_workspace *find_free(ct_device *device, bool large) {
    ct_workspace *found = NULL;
    if (device->alone) return NULL;
    for (int i = 0; i < CT_MAX_CONCURRENT_BATCHES; i++) {
        ct_workspace *workspace = &device->workspaces[large ? CT_MAX_CONCURRENT_BATCHES - 1 - i : i];
        if (workspace->waiting) return NULL;
        if (!workspace->taken) found = workspace;
    }
    return found;
}

ct_workspace *ct_workspace_acquire(ct_device *device, bool large) {
    ct_workspace *workspace;
    pthread_mutex_lock(&device->mutex);
    while (!(workspace = find_free(device, large))) pthread_cond_wait(&device->changed, &device->mutex);
    workspace->taken = true;
    pthread_mutex_unlock(&device->mutex);
    return workspace;
}

void ct_workspace_release(ct_workspace *workspace) {
    ct_device *device = workspace->device;
    pthread_mutex_lock(&device->mutex);
    workspace->taken = false;
    pthread_cond_broadcast(&device->changed);
    pthread_mutex_unlock(&device->mutex);
}

/* With the mutex held. Of workspaces that all wait, the first to look goes. */
static bool may_be_alone(const ct_device *device) {
    if (device->alone) return false;
    for (int i = 0; i < CT_MAX_CONCURRENT_BATCHES; i++)
        if (device->workspaces[i].taken && !device->workspaces[i].waiting) return false;
    return true;
}

void ct_workspace_begin_exclusive(ct_workspace *workspace) {
    ct_device *device = workspace->device;
    pthread_mutex_lock(&device->mutex);
    workspace->waiting = true;
    pthread_cond_broadcast(&device->changed);
    while (!may_be_alone(device)) pthread_cond_wait(&device->changed, &device->mutex);
    workspace->waiting = false;
    device->alone = workspace;
    pthread_mutex_unlock(&device->mutex);
}

void ct_workspace_end_exclusive(ct_workspace *workspace) {
    ct_device *device = workspace->device;
    pthread_mutex_lock(&device->mutex);
    device->alone = NULL;
    pthread_cond_broadcast(&device->changed);
    pthread_mutex_unlock(&device->mutex);
}

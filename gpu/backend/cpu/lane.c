/* lane.c - who computes on the device at the same time, and the scratch that each has. */
#include <stdlib.h>

#include "gpu/backend/cpu/device.h"
#include "gpu/base/fail.h"

/* ---- scratch ---- */

/* All that a worker keeps for its next job. Its sums are all zero. */
static void free_scratch(ct_device *device, ct_worker *w) {
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

void ct_lanes_free_scratch(ct_device *device) {
    for (int i = 0; i < CT_LANES; i++) {
        ct_lane *lane = &device->lanes[i];
        for (uint32_t w = 0; lane->workers && w < device->threads; w++) free_scratch(device, &lane->workers[w]);
        if (device->drawer) device->drawer->release(lane);
        ct_buffer_free(&lane->tiles, &device->budget);
        if (!lane->taken) ct_buffer_free(&lane->jobs, &device->budget);
    }
}

ct_status ct_lanes_create(ct_device *device, ct_error *error) {
    pthread_mutex_init(&device->mutex, NULL);
    pthread_cond_init(&device->changed, NULL);
    for (int i = 0; i < CT_LANES; i++) {
        ct_lane *lane = &device->lanes[i];
        lane->device = device;
        lane->next_job = 1;
        lane->workers = calloc(device->threads, sizeof *lane->workers);
        if (!lane->workers)
            return ct_fail(error, CT_OUT_OF_MEMORY, "threads", "no memory for %u threads", device->threads);
    }
    return CT_OK;
}

void ct_lanes_destroy(ct_device *device) {
    ct_lanes_free_scratch(device);
    for (int i = 0; i < CT_LANES; i++) free(device->lanes[i].workers);
    pthread_cond_destroy(&device->changed);
    pthread_mutex_destroy(&device->mutex);
}

/* ---- taking turns ---- */

/* With the mutex held. NULL: all are taken, or one wants the device for itself: then nobody begins before it. */
static ct_lane *find_free(ct_device *device, bool large) {
    ct_lane *found = NULL;
    if (device->alone) return NULL;
    for (int i = 0; i < CT_LANES; i++) {
        ct_lane *lane = &device->lanes[large ? CT_LANES - 1 - i : i];
        if (lane->waiting) return NULL;
        if (!lane->taken) found = lane;
    }
    return found;
}

ct_lane *ct_lane_take(ct_device *device, bool large) {
    ct_lane *lane;
    pthread_mutex_lock(&device->mutex);
    while (!(lane = find_free(device, large))) pthread_cond_wait(&device->changed, &device->mutex);
    lane->taken = true;
    pthread_mutex_unlock(&device->mutex);
    return lane;
}

void ct_lane_leave(ct_lane *lane) {
    ct_device *device = lane->device;
    pthread_mutex_lock(&device->mutex);
    lane->taken = false;
    pthread_cond_broadcast(&device->changed);
    pthread_mutex_unlock(&device->mutex);
}

/* With the mutex held. Of lanes that all wait, the first to look goes. */
static bool may_be_alone(const ct_device *device) {
    if (device->alone) return false;
    for (int i = 0; i < CT_LANES; i++)
        if (device->lanes[i].taken && !device->lanes[i].waiting) return false;
    return true;
}

void ct_lane_alone(ct_lane *lane) {
    ct_device *device = lane->device;
    pthread_mutex_lock(&device->mutex);
    lane->waiting = true;
    pthread_cond_broadcast(&device->changed);
    while (!may_be_alone(device)) pthread_cond_wait(&device->changed, &device->mutex);
    lane->waiting = false;
    device->alone = lane;
    pthread_mutex_unlock(&device->mutex);
}

void ct_lane_share(ct_lane *lane) {
    ct_device *device = lane->device;
    pthread_mutex_lock(&device->mutex);
    device->alone = NULL;
    pthread_cond_broadcast(&device->changed);
    pthread_mutex_unlock(&device->mutex);
}

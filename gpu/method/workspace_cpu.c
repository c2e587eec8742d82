/* workspace_cpu.c - scratch for the batches that run at the same time, with the slots of methods, and its assignment to
 * them: acquire, release and exclusive use. */
#include <stdlib.h>
#include <time.h>

#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/method/device_cpu.h"

/* ---- scratch ---- */

/* is_unused: no batch has it, so what batches keep to their end goes too. */
static void free_scratch(ct_workspace *workspace, bool is_unused) {
    ct_device *device = workspace->device;
    ct_budget *budget = &device->budget;
    for (int m = 0; m < CT_CPU_SLOTS; m++)
        if (ct_cpu_methods[m] && ct_cpu_methods[m]->release) ct_cpu_methods[m]->release(workspace);
    for (uint32_t w = 0; w < device->threads; w++) {
        ct_thread_scratch *scratch = &workspace->workers[w];
        ct_buffer_free(&scratch->sides.pieces, budget);
        ct_buffer_free(&scratch->sides.forces, budget);
        ct_arena_free(&scratch->arena, budget);
        if (is_unused) ct_arena_free(&scratch->answers, &device->answers);
    }
    if (is_unused) ct_buffer_free(&workspace->pairs, budget);
}

/* ---- slots ---- */

/* Memory for a slot, all zero, and a line of the cache that no other slot is in. *ok: false if there is none. */
static void *make_slot(size_t bytes, bool *ok) {
    enum { LINE = 64 };
    void *slot = bytes && *ok ? calloc(1, bytes + LINE) : NULL;
    if (bytes && !slot) *ok = false;
    return slot;
}

static bool make_slots(ct_device *device) {
    bool ok = true;
    for (int m = 0; m < CT_CPU_SLOTS; m++) {
        const ct_cpu_method *method = ct_cpu_methods[m];
        if (!method) continue;
        device->kernels_of_method[m] = method->kernels[device->kernels->set];
        device->of_method[m] = make_slot(method->device_bytes, &ok);
        for (int i = 0; i < CT_MAX_CONCURRENT_BATCHES; i++) {
            ct_workspace *workspace = &device->workspaces[i];
            workspace->of_method[m] = make_slot(method->workspace_bytes, &ok);
            for (uint32_t w = 0; w < device->threads; w++)
                workspace->workers[w].of_method[m] = make_slot(method->thread_bytes, &ok);
        }
    }
    return ok;
}

static void free_slots(ct_device *device) {
    for (int m = 0; m < CT_CPU_SLOTS; m++) {
        free(device->of_method[m]);
        for (int i = 0; i < CT_MAX_CONCURRENT_BATCHES; i++) {
            ct_workspace *workspace = &device->workspaces[i];
            free(workspace->of_method[m]);
            for (uint32_t w = 0; workspace->workers && w < device->threads; w++)
                free(workspace->workers[w].of_method[m]);
        }
    }
}

ct_status ct_workspaces_create(ct_device *device, ct_error *error) {
    bool ok = true;
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
        ok = ok && workspace->workers;
    }
    device->has_slots = ok && make_slots(device);
    if (device->has_slots) return CT_OK;
    return ct_fail(error, CT_OUT_OF_MEMORY, "threads", "no memory for %u threads", device->threads);
}

void ct_workspaces_destroy(ct_device *device) {
    if (device->has_slots) ct_workspaces_free_scratch(device);
    free_slots(device);
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

static void let_go(ct_workspace *workspace, double used_until) {
    ct_device *device = workspace->device;
    pthread_mutex_lock(&device->mutex);
    workspace->is_taken = false;
    workspace->used_until = used_until;
    pthread_cond_broadcast(&device->changed);
    pthread_mutex_unlock(&device->mutex);
}

void ct_workspace_release(ct_workspace *workspace) {
    let_go(workspace, ct_now());
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
    free_scratch(workspace, false);
    ct_buffer_free(&workspace->pairs, &workspace->device->budget);
}

void ct_workspaces_free_scratch(ct_device *device) {
    pthread_mutex_lock(&device->mutex);
    for (int i = 0; i < CT_MAX_CONCURRENT_BATCHES; i++)
        if (!is_computing(&device->workspaces[i]))
            free_scratch(&device->workspaces[i], !device->workspaces[i].is_taken);
    pthread_mutex_unlock(&device->mutex);
}

static uint64_t scratch_bytes(ct_device *device) {
    return atomic_load(&device->budget.used) + atomic_load(&device->answers.used);
}

/* Takes the workspace if no batch has used it for so many seconds. */
static bool take_idle(ct_workspace *workspace, double seconds) {
    ct_device *device = workspace->device;
    pthread_mutex_lock(&device->mutex);
    const bool is_idle = !workspace->is_taken && !device->exclusive && workspace->used_until > 0 &&
                         ct_now() - workspace->used_until >= seconds;
    if (is_idle) {
        workspace->is_taken = true;
        workspace->in_background = false; /* it is short */
    }
    pthread_mutex_unlock(&device->mutex);
    return is_idle;
}

uint64_t ct_workspaces_release_idle(ct_device *device, double seconds) {
    uint64_t freed = 0;
    for (int i = 0; i < CT_MAX_CONCURRENT_BATCHES; i++) {
        ct_workspace *workspace = &device->workspaces[i];
        if (!take_idle(workspace, seconds)) continue;
        const uint64_t before = scratch_bytes(device);
        free_scratch(workspace, true);
        const uint64_t now = scratch_bytes(device); /* of other batches too, which may grow */
        freed += before > now ? before - now : 0;
        let_go(workspace, 0);
    }
    return freed;
}

/* backend_cpu.c - the CPU backend's device and bodies; batch_cpu.c runs its batches. */
#include "gpu/method/backend_cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "gpu/base/fail.h"
#include "gpu/device/rasterizer.h"
#include "gpu/mesh/mesh.h"
#include "gpu/method/device_cpu.h"
#include "gpu/methods/ldi/pair_cpu.h"
#include "gpu/run/kept_cpu.h"
#include "gpu/scene/half_space.h"

/* ---- device ---- */

static void destroy(ct_device **handle) {
    ct_device *device = *handle;
    if (!device) return;
    ct_pool_destroy(&device->pool);
    ct_pool_destroy(&device->background_pool);
    ct_cpu_gl_close(device);
    ct_workspaces_destroy(device);
    free(device);
    *handle = NULL;
}

static size_t count(const ct_engine_options *options, ct_error *error) {
    bool uses_gl;
    return ct_rasterizer_choose(options->rasterizer, &uses_gl, error) ? 0 : 1;
}

static ct_status create(const ct_engine_options *options, size_t index, ct_device **out, ct_error *error) {
    (void)index;
    const ct_kernels *kernels = ct_kernels_find(options->simd, error);
    if (!kernels) return CT_UNSUPPORTED;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t threads = options->threads ? options->threads : online > 0 ? (uint32_t)online : 1;
    if (options->threads > CT_MAX_THREADS)
        return ct_fail(error, CT_OUT_OF_RANGE, "threads", "%u threads, expected at most %d", threads, CT_MAX_THREADS);
    if (threads > CT_MAX_THREADS) threads = CT_MAX_THREADS;
    ct_device *device = calloc(1, sizeof *device);
    if (!device) return ct_fail(error, CT_OUT_OF_MEMORY, "", "no memory for a device");
    device->threads = threads;
    device->kernels = kernels;
    device->budget.limit = options->max_scratch_bytes;
    device->max_cells = options->max_cells ? options->max_cells : CT_DEFAULT_CELLS;
    bool uses_gl;
    ct_status status = ct_rasterizer_choose(options->rasterizer, &uses_gl, error);
    if (!status) status = ct_workspaces_create(device, error);
    if (!status) status = ct_pool_create(threads, false, &device->pool, error);
    if (!status) status = ct_pool_create(threads, true, &device->background_pool, error);
    if (!status && uses_gl) status = ct_cpu_gl_open(device, error);
    if (status) destroy(&device);
    *out = device;
    return status;
}

static void processor_name(char *name, size_t size) {
    struct utsname machine;
    snprintf(name, size, "%s", uname(&machine) ? "CPU" : machine.machine); /* not all processors have a model name */
    FILE *f = fopen("/proc/cpuinfo", "r");
    if (!f) return;
    char line[256];
    while (fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        if (!colon || strncmp(line, "model name", 10) != 0) continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(name, size, "%s", colon + 2);
        break;
    }
    fclose(f);
}

static bool is_lost(const ct_device *device, char *reason, size_t size) {
    pthread_mutex_t *mutex = (pthread_mutex_t *)(uintptr_t)&device->mutex;
    pthread_mutex_lock(mutex);
    bool lost = device->lost.status;
    if (lost) snprintf(reason, size, "%.127s", device->lost.message);
    pthread_mutex_unlock(mutex);
    return lost;
}

static void facts(const ct_device *device, ct_engine_facts *f) {
    snprintf(f->backend, sizeof f->backend, "cpu");
    const bool is_drawn = ct_ldi_device_of(device)->draw;
    snprintf(f->rasterizer, sizeof f->rasterizer, "%s", is_drawn ? "egl" : "native");
    processor_name(f->device, sizeof f->device);
    if (is_drawn) {
        size_t used = strlen(f->device);
        snprintf(f->device + used, sizeof f->device - used, " + %s", ct_cpu_gl_renderer(device));
    }
    snprintf(f->simd, sizeof f->simd, "%s", device->kernels->name);
    ct_kernels_list(f->simd_available, sizeof f->simd_available);
    f->threads = device->threads;
    f->scratch_bytes = atomic_load(&device->budget.used) + atomic_load(&device->answers.used);
    f->scratch_peak = atomic_load(&device->budget.peak) + atomic_load(&device->answers.peak);
    f->lost = is_lost(device, f->lost_reason, sizeof f->lost_reason);
}

/* ---- bodies ---- */

static void body_destroy(ct_device *device, ct_body *body) {
    (void)device;
    if (!body->resident) return;
    free(body->resident->positions);
    free(body->resident->other);
    free(body->resident->low);
    free(body->resident->other_low);
    free(body->resident->before.rows);
    free(body->resident->boxes);
    free(body->resident);
    body->resident = NULL;
}

static ct_status body_create(ct_device *device, ct_body *body, ct_error *error) {
    const ct_mesh *mesh = body->mesh;
    bool rigid = body->kind == CT_BODY_RIGID;
    ct_resident *resident = calloc(1, sizeof *resident);
    size_t bytes = (size_t)mesh->n_vertices * 12;
    if (resident && !rigid) resident->positions = malloc(bytes + CT_VOLUME_PADDING);
    if (!resident || (!rigid && !resident->positions)) {
        free(resident);
        return ct_fail(error, CT_OUT_OF_MEMORY, "body", "no memory for the positions of %u vertices", mesh->n_vertices);
    }
    if (!rigid) memcpy(resident->positions, mesh->positions, bytes);
    ct_status status = ct_cpu_attach_clusters(body, resident, error);
    if (!status && !rigid && mesh->low) {
        resident->low = malloc(bytes + CT_VOLUME_PADDING);
        resident->has_low = resident->low;
        if (!resident->low)
            status = ct_fail(error, CT_OUT_OF_MEMORY, "body", "no memory for the positions of %u vertices",
                             mesh->n_vertices);
        else
            memcpy(resident->low, mesh->low, bytes);
    }
    body->resident = resident;
    if (status) {
        body_destroy(device, body);
        return status;
    }
    resident->at_rest = -1;
    memcpy(resident->origin, mesh->origin, sizeof resident->origin);
    ct_body_place(body, body->given, mesh->origin);
    if (!rigid) {
        ct_cpu_find_deformed_box(device, body);
        return CT_OK;
    }
    body->low_reach = mesh->low ? 2 * CT_HIGH_ROUNDING * ct_mesh_reach(mesh) : 0; /* 2: turned along a diagonal */
    ct_cpu_find_posed_box(device, body, &body->box);
    return CT_OK;
}

static ct_status body_positions(ct_device *device, const ct_body *body, float *out, float *low, ct_error *error) {
    const size_t bytes = (size_t)body->mesh->n_vertices * 12;
    (void)device, (void)error;
    memcpy(out, body->resident->positions, bytes);
    if (low && body->resident->has_low) memcpy(low, body->resident->low, bytes);
    if (low && !body->resident->has_low) memset(low, 0, bytes);
    return CT_OK;
}

static void scene_forget(ct_device *device, ct_scene *scene) {
    (void)device;
    ct_kept_forget(scene);
}

static void spread(ct_device *device, uint32_t n, void (*task)(void *context, uint32_t index, uint32_t worker),
                   void *context) {
    ct_pool_run(device->pool, n, task, context);
}

static uint32_t threads(const ct_device *device) {
    return device->threads;
}

const ct_backend ct_backend_cpu = {.version = CT_BACKEND_VERSION,
                                   .name = "cpu",
                                   .count = count,
                                   .create = create,
                                   .destroy = destroy,
                                   .facts = facts,
                                   .body_create = body_create,
                                   .body_destroy = body_destroy,
                                   .body_positions = body_positions,
                                   .undo = ct_cpu_undo,
                                   .scene_forget = scene_forget,
                                   .release_scratch = ct_workspaces_release_idle,
                                   .spread = spread,
                                   .threads = threads};

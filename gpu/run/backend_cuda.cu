/* backend_cuda.cu - the CUDA backend's table of functions: opens a device, tells facts about it, and records how it
 * was lost. */
#include "gpu/methods/ldi/drive_cuda.cuh"
#include "gpu/run/choose_cuda.cuh"

double ct_gpu_now(void) {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

bool ct_gpu_ok(ct_device *device, cudaError_t error, const char *what) {
    if (error == cudaSuccess) return true;
    char why[sizeof device->lost_reason];
    snprintf(why, sizeof why, "%s: %s, while %s", cudaGetErrorName(error), cudaGetErrorString(error), what);
    ct_gpu_lose(device, why);
    return false;
}

void ct_gpu_lose(ct_device *device, const char *why) {
    ct_guard guard(device);
    if (device->lost) return;
    snprintf(device->lost_reason, sizeof device->lost_reason, "%s", why);
    device->lost = true;
}

ct_status ct_gpu_lost(const ct_device *device, ct_error *error) {
    return ct_fail(error, CT_DEVICE_ERROR, "device",
                   "device %d, %s, failed and can do no more: %s. Its driver's log may say why; the process has to be "
                   "started anew",
                   device->ordinal, device->name, device->lost_reason);
}

/* ---- opening ---- */

CT_KERNEL probe(uint32_t *out) {
    CT_FOR(i, (uint64_t)CT_BLOCK) out[i] = (uint32_t)(i * i + 1);
}

/* Has so many bytes of local memory. The driver allocates local memory, for all threads that a device holds at a
 * time, at the first launch of a kernel that needs more than those before. */
template <unsigned BYTES> static __global__ void hold_local_memory(uint32_t *out, uint64_t n) {
    uint32_t words[BYTES / 4];
    CT_FOR(i, n) {
        for (unsigned k = 0; k < BYTES / 4; k++) words[(k * out[i]) % (BYTES / 4)] = k;
        out[i] = words[out[i] % (BYTES / 4)];
    }
}

const ct_kernel_entry ct_probe_kernels[] = {CT_KERNEL_ENTRY(probe), CT_KERNELS_END};

const ct_kernel_entry ct_local_kernels[] = {
    CT_KERNEL_ENTRY(hold_local_memory<512>), CT_KERNEL_ENTRY(hold_local_memory<1152>),
    CT_KERNEL_ENTRY(hold_local_memory<2048>), CT_KERNEL_ENTRY(hold_local_memory<4096>), CT_KERNELS_END};

#ifdef CT_CUDA_SHIM
[[maybe_unused]] static const bool shim_knows =
    (ct_shim_set_local((const void *)hold_local_memory<4096>, 4096), true); /* of one is enough for tests */
#endif

/* Lets the driver allocate now the local memory that the kernels need, as later there may be none left: of the next
 * larger of the sizes above. It takes no part in the budget, so this comes before that. */
static bool reserve_local_memory(ct_device *device, size_t bytes, ct_error *error) {
    uint32_t *const none = NULL;
    const uint64_t n = 0;
    cudaStream_t on = device->setup;
    device->launches += bytes <= 512    ? CT_LAUNCH(hold_local_memory<512>, 1, on, none, n)
                        : bytes <= 1152 ? CT_LAUNCH(hold_local_memory<1152>, 1, on, none, n)
                        : bytes <= 2048 ? CT_LAUNCH(hold_local_memory<2048>, 1, on, none, n)
                                        : CT_LAUNCH(hold_local_memory<4096>, 1, on, none, n);
    const cudaError_t launch = cudaGetLastError();
    if (launch == cudaErrorMemoryAllocation) {
        ct_fail(error, CT_OUT_OF_MEMORY, "max_device_bytes",
                "device %d, %s, has no memory for the local memory of kernels, %zu bytes a thread: end what else runs "
                "on it, or choose another device",
                device->ordinal, device->name, bytes);
        return false;
    }
    if (ct_gpu_ok(device, launch, "launching a first kernel") &&
        ct_gpu_ok(device, cudaStreamSynchronize(device->setup), "running a first kernel"))
        return true;
    ct_gpu_lost(device, error);
    return false;
}

/* Runs a first kernel and checks what it writes. */
static bool run_probe(ct_device *device, ct_error *error) {
    ct_gpu_pinned memory = {};
    bool ok = ct_gpu_reserve_pinned(device, NULL, &memory, CT_BLOCK * sizeof(uint32_t));
    if (ok) {
        memset(memory.host, 0, memory.bytes);
        device->launches += CT_LAUNCH(probe, 1, device->setup, (uint32_t *)memory.device);
        ok = ct_gpu_ok(device, cudaGetLastError(), "launching a probe") &&
             ct_gpu_ok(device, cudaStreamSynchronize(device->setup), "running a probe");
    }
    for (uint32_t i = 0; i < CT_BLOCK && ok; i++)
        if (((uint32_t *)memory.host)[i] != i * i + 1) {
            ct_fail(error, CT_DEVICE_ERROR, "device", "device %d, %s, ran a kernel but got %u for %u", device->ordinal,
                    device->name, ((uint32_t *)memory.host)[i], i * i + 1);
            ok = false;
        }
    ct_gpu_free_pinned(device, &memory);
    if (!ok && device->lost) ct_gpu_lost(device, error);
    if (!ok && !device->lost) ct_fail(error, CT_OUT_OF_MEMORY, "device", "no pinned memory for a first kernel");
    return ok;
}

/* With less free memory than this no step but the smallest would run. */
static const uint64_t LEAST_MEMORY = (uint64_t)64 << 20;

static bool set_budget(ct_device *device, const ct_engine_options *options, ct_error *error) {
    size_t free = 0, total = 0;
    if (!ct_gpu_ok(device, cudaMemGetInfo(&free, &total), "asking for its memory")) {
        ct_gpu_lost(device, error);
        return false;
    }
    const uint64_t wanted = options->max_device_bytes ? options->max_device_bytes : LEAST_MEMORY;
    if (free < wanted) {
        ct_fail(error, CT_OUT_OF_MEMORY, "max_device_bytes",
                "device %d, %s, has %zu MiB free of %zu, but %llu MiB are needed: end what else runs on it, choose "
                "another device%s",
                device->ordinal, device->name, free >> 20, total >> 20, (unsigned long long)(wanted >> 20),
                options->max_device_bytes ? ", or lower the budget" : "");
        return false;
    }
    device->limit = options->max_device_bytes ? options->max_device_bytes : free / 10 * 9;
    device->scratch_limit = options->max_scratch_bytes;
    if (ct_gpu_keep_in_pool(device)) return true;
    ct_gpu_lost(device, error);
    return false;
}

static bool open_workspace(ct_device *device, ct_workspace *workspace) {
    if (!ct_gpu_ok(device, cudaStreamCreateWithFlags(&workspace->stream, cudaStreamNonBlocking), "making a stream"))
        return false;
    for (cudaEvent_t &event : workspace->events)
        if (!ct_gpu_ok(device, cudaEventCreate(&event), "making an event")) return false;
    return true;
}

static void destroy(ct_device **handle) {
    ct_device *device = *handle;
    if (!device) return;
    cudaSetDevice(device->ordinal);
    ct_gpu_free_meshes(device);
    for (ct_workspace &workspace : device->workspaces) ct_gpu_free_workspace(device, &workspace);
    ct_gpu_gl_close(device);
    if (device->setup) cudaStreamDestroy(device->setup);
    ct_gpu_close_pool(device);
    pthread_cond_destroy(&device->mesh_ready);
    pthread_cond_destroy(&device->workspace_free);
    pthread_mutex_destroy(&device->mutex);
    device->~ct_device(); /* its workspaces' lists */
    free(device);
    *handle = NULL;
}

static size_t count(const ct_engine_options *options, ct_error *error) {
    ct_choice choice;
    return ct_gpu_choose(options, &choice, error) ? (size_t)choice.n : 0;
}

static ct_device *new_device(int ordinal) {
    ct_device *device = (ct_device *)calloc(1, sizeof *device);
    if (!device) return NULL;
    device->ordinal = ordinal;
    pthread_mutexattr_t recursive;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&device->mutex, &recursive);
    pthread_mutexattr_destroy(&recursive);
    pthread_cond_init(&device->workspace_free, NULL);
    pthread_cond_init(&device->mesh_ready, NULL);
    return device;
}

static ct_status create(const ct_engine_options *options, size_t index, ct_device **out, ct_error *error) {
    *out = NULL;
    ct_choice choice;
    ct_error why = {};
    if (!ct_gpu_choose(options, &choice, &why) || index >= (size_t)choice.n) {
        ct_fail(&why, CT_NOT_FOUND, "devices", "device %zu of those chosen is gone", index);
        if (error) *error = why;
        return why.status;
    }
    ct_device *device = new_device(choice.ordinal[index]);
    if (!device) return ct_fail(error, CT_OUT_OF_MEMORY, "", "no memory for a device");
    device->max_cells = options->max_cells ? options->max_cells : CT_DEFAULT_CELLS;
    cudaDeviceProp properties;
    bool ok = ct_gpu_ok(device, cudaGetDeviceProperties(&properties, device->ordinal), "asking what it is");
    if (ok) {
        snprintf(device->name, sizeof device->name, "%.95s", properties.name);
        device->grid = CT_MOST_RESIDENT * (unsigned)properties.multiProcessorCount;
    }
    ok = ok && ct_gpu_ok(device, cudaSetDevice(device->ordinal), "choosing the device") &&
         ct_gpu_ok(device, cudaStreamCreateWithFlags(&device->setup, cudaStreamNonBlocking), "making a stream") &&
         ct_gpu_open_pool(device);
    for (ct_workspace &workspace : device->workspaces) ok = ok && open_workspace(device, &workspace);
    bool has_memory = true;
    size_t local_bytes;
    for (ct_workspace &workspace : device->workspaces) has_memory = has_memory && ct_gpu_open_tables(&workspace);
    if (!ok)
        ct_gpu_lost(device, &why);
    else if (!has_memory)
        ct_fail(&why, CT_OUT_OF_MEMORY, "", "no memory for a device");
    else if (ct_gpu_load_kernels(device, &local_bytes, &why) == CT_OK &&
             reserve_local_memory(device, local_bytes, &why) && set_budget(device, options, &why) &&
             run_probe(device, &why) && (!choice.draws || ct_gpu_gl_open(device, &why) == CT_OK))
        *out = device;
    if (*out) return CT_OK;
    destroy(&device);
    if (error) *error = why;
    return why.status;
}

static void facts(const ct_device *device, ct_engine_facts *f) {
    snprintf(f->backend, sizeof f->backend, "cuda");
    snprintf(f->rasterizer, sizeof f->rasterizer, device->gl ? "egl" : "native");
    snprintf(f->device, sizeof f->device, "%s", device->name);
    f->memory_budget = device->limit;
    f->memory_meshes = device->mesh_bytes;
    f->memory_bodies = device->body_bytes;
    f->memory_used = device->used;
    f->scratch_bytes = f->memory_used - f->memory_meshes - f->memory_bodies;
    f->scratch_peak = device->peak_scratch;
    f->uploaded = device->uploaded;
    f->downloaded = device->downloaded;
    f->launches = device->launches;
    f->reruns = device->reruns;
    f->clusters = device->clusters;
    f->near_clusters = device->near_clusters;
    f->lost = device->lost;
    if (f->lost) snprintf(f->lost_reason, sizeof f->lost_reason, "%s", device->lost_reason);
}

extern "C" const ct_backend ct_backend_cuda = {CT_BACKEND_VERSION,
                                               "cuda",
                                               count,
                                               create,
                                               destroy,
                                               facts,
                                               ct_gpu_body_create,
                                               ct_gpu_body_destroy,
                                               ct_gpu_body_positions,
                                               ct_gpu_undo,
                                               ct_gpu_mesh_forget,
                                               ct_gpu_mesh_bytes,
                                               ct_gpu_scene_forget,
                                               ct_gpu_release_idle,
                                               nullptr,
                                               nullptr};

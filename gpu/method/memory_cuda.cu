/* memory_cuda.cu - memory within the device's budget: buffers on the device, pinned host memory, lists on the host, and
 * copies between them.
 *
 * The device's mutex guards the numbers of the budget and never an allocation: bytes are reserved first, then allocated
 * outside the mutex. Device memory comes from a pool of the driver's where the device supports pools. All allocations
 * and frees go to one stream that runs nothing else, so freed memory is reused at once and waiting for the stream is
 * short. */
#include "gpu/method/device_cuda.cuh"

/* ---- copies ---- */

bool ct_gpu_wait(ct_device *device, ct_workspace *workspace, const char *what) {
    const cudaError_t launch = cudaGetLastError();
    const bool is_done = ct_gpu_ok(device, cudaStreamSynchronize(workspace->stream), what);
    if (launch != cudaErrorMemoryAllocation) return is_done && ct_gpu_ok(device, launch, "launching kernels");
    workspace->lacks_launch = true;
    return false;
}

bool ct_gpu_copy_out(ct_device *device, const ct_workspace *workspace, void *to, const void *from, uint64_t bytes,
                     const char *what) {
    device->downloaded += bytes;
    return !bytes ||
           ct_gpu_ok(device, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, workspace->stream), what);
}

bool ct_gpu_copy_in(ct_device *device, const ct_workspace *workspace, void *to, const void *from, uint64_t bytes,
                    const char *what) {
    device->uploaded += bytes;
    return !bytes ||
           ct_gpu_ok(device, cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, workspace->stream), what);
}

/* ---- the budget ---- */

uint64_t ct_gpu_rounded(uint64_t bytes) {
    return (bytes + 511) / 512 * 512;
}

/* False: over the budget. */
static bool reserve_bytes(ct_device *device, uint64_t bytes, ct_memory_kind kind) {
    ct_guard guard(device);
    const uint64_t scratch = device->used - device->mesh_bytes - device->body_bytes;
    if (device->used + bytes > device->limit) return false;
    if (kind == CT_MEMORY_SCRATCH && device->scratch_limit && scratch + bytes > device->scratch_limit) return false;
    device->used += bytes;
    if (kind == CT_MEMORY_MESHES) device->mesh_bytes += bytes;
    if (kind == CT_MEMORY_BODIES) device->body_bytes += bytes;
    return true;
}

static void return_bytes(ct_device *device, uint64_t bytes, ct_memory_kind kind) {
    ct_guard guard(device);
    if (kind == CT_MEMORY_MESHES) device->mesh_bytes -= bytes;
    if (kind == CT_MEMORY_BODIES) device->body_bytes -= bytes;
    device->used -= bytes;
}

static void note_peak(ct_device *device) {
    ct_guard guard(device);
    const uint64_t scratch = device->used - device->mesh_bytes - device->body_bytes;
    if (scratch > device->peak_scratch) device->peak_scratch = scratch;
}

/* Frees unused memory: meshes without bodies, or else the scratch of one idle workspace. False: there is none. */
static bool free_something(ct_device *device, const ct_workspace *mine) {
    ct_guard guard(device);
    if (device->lost) return false;
    if (ct_gpu_evict_meshes(device)) return true;
    for (ct_workspace &workspace : device->workspaces) {
        if (&workspace == mine || workspace.busy) continue;
        const uint64_t used = device->used; /* of an idle workspace only what is freed here changes it */
        ct_gpu_free_scratch(device, &workspace);
        if (device->used < used) return true;
    }
    return false;
}

/* A launch failed for want of memory, which only ct_gpu_wait is to find: what asks now gets none either. */
static bool has_launch_failed(void) {
    return cudaPeekAtLastError() == cudaErrorMemoryAllocation;
}

/* Reserves bytes and calls allocate(), which returns whether it got them, until both succeed or nothing can be freed.
 */
template <class Allocate>
static bool allocate_within_budget(ct_device *device, uint64_t bytes, ct_memory_kind kind, const ct_workspace *mine,
                                   Allocate allocate) {
    do {
        if (device->lost || has_launch_failed()) return false;
        if (!reserve_bytes(device, bytes, kind)) continue;
        if (allocate()) {
            note_peak(device);
            return true;
        }
        return_bytes(device, bytes, kind);
    } while (free_something(device, mine));
    return false;
}

/* False: no memory, or the device is lost. A failed allocation leaves nothing behind. */
static bool is_allocated(ct_device *device, cudaError_t error, const char *what) {
    if (error != cudaErrorMemoryAllocation) return ct_gpu_ok(device, error, what);
    cudaGetLastError(); /* not an error of a later call */
    return false;
}

/* ---- on the device ---- */

bool ct_gpu_open_pool(ct_device *device) {
    int supported = 0;
    if (!ct_gpu_ok(device, cudaStreamCreateWithFlags(&device->memory_stream, cudaStreamNonBlocking),
                   "making a stream") ||
        !ct_gpu_ok(device, cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, device->ordinal),
                   "asking for memory pools"))
        return false;
    if (!supported) return true;
    cudaMemPoolProps properties = {};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = device->ordinal;
    return ct_gpu_ok(device, cudaMemPoolCreate(&device->pool, &properties), "making a memory pool");
}

/* Freed memory stays in the pool, up to the budget. */
bool ct_gpu_keep_in_pool(ct_device *device) {
    uint64_t threshold = device->limit;
    return !device->pool ||
           ct_gpu_ok(device, cudaMemPoolSetAttribute(device->pool, cudaMemPoolAttrReleaseThreshold, &threshold),
                     "setting up a memory pool");
}

void ct_gpu_trim_pool(ct_device *device) {
    if (device->pool && ct_gpu_ok(device, cudaStreamSynchronize(device->memory_stream), "freeing memory"))
        ct_gpu_ok(device, cudaMemPoolTrimTo(device->pool, 0), "trimming a memory pool");
}

void ct_gpu_close_pool(ct_device *device) {
    if (device->memory_stream) {
        cudaStreamSynchronize(device->memory_stream);
        cudaStreamDestroy(device->memory_stream);
    }
    if (device->pool) cudaMemPoolDestroy(device->pool);
    device->memory_stream = NULL;
    device->pool = NULL;
}

static bool allocate_in_pool(ct_device *device, void **memory, uint64_t bytes) {
    return is_allocated(device, cudaMallocFromPoolAsync(memory, bytes, device->pool, device->memory_stream),
                        "allocating memory") &&
           ct_gpu_ok(device, cudaStreamSynchronize(device->memory_stream), "allocating memory");
}

void *ct_gpu_alloc(ct_device *device, uint64_t bytes, ct_memory_kind kind, const ct_workspace *mine) {
    void *memory = NULL;
    bytes = ct_gpu_rounded(bytes);
    const bool ok = allocate_within_budget(device, bytes, kind, mine, [&] {
        if (!device->pool) return is_allocated(device, cudaMalloc(&memory, bytes), "allocating memory");
        if (allocate_in_pool(device, &memory, bytes)) return true;
        ct_gpu_trim_pool(device); /* what it has may be in pieces that are too small */
        return !device->lost && allocate_in_pool(device, &memory, bytes);
    });
    return ok ? memory : NULL;
}

/* No stream uses the memory any longer. */
void ct_gpu_free(ct_device *device, void *memory, uint64_t bytes, ct_memory_kind kind) {
    if (!memory) return;
    ct_gpu_ok(device, device->pool ? cudaFreeAsync(memory, device->memory_stream) : cudaFree(memory), "freeing memory");
    return_bytes(device, ct_gpu_rounded(bytes), kind);
}

bool ct_gpu_reserve_foreign(ct_device *device, uint64_t bytes, const ct_workspace *mine) {
    return allocate_within_budget(device, ct_gpu_rounded(bytes), CT_MEMORY_SCRATCH, mine, [] { return true; });
}

void ct_gpu_return_foreign(ct_device *device, uint64_t bytes) {
    return_bytes(device, ct_gpu_rounded(bytes), CT_MEMORY_SCRATCH);
}

void ct_gpu_free_buffer(ct_device *device, ct_gpu_buffer *buffer) {
    ct_gpu_free(device, buffer->data, buffer->bytes, CT_MEMORY_SCRATCH);
    buffer->data = NULL;
    buffer->bytes = 0;
}

/* Lets the workspace know a buffer of its own. */
template <class T> static void list_once(T **list, T *buffer) {
    if (buffer->is_listed) return;
    buffer->is_listed = true;
    buffer->next = *list;
    *list = buffer;
}

/* A quarter more than is needed now, so that tables do not grow with every batch that is a little larger. */
static uint64_t with_reserve(uint64_t bytes) {
    return bytes + bytes / 4 + 4096;
}

bool ct_gpu_reserve(ct_device *device, ct_workspace *workspace, ct_gpu_buffer *buffer, uint64_t bytes) {
    if (bytes <= buffer->bytes && buffer->data) return true;
    list_once(&workspace->buffers, buffer);
    ct_gpu_free_buffer(device, buffer);
    uint64_t size = with_reserve(bytes);
    buffer->data = ct_gpu_alloc(device, size, CT_MEMORY_SCRATCH, workspace);
    if (!buffer->data) buffer->data = ct_gpu_alloc(device, size = bytes, CT_MEMORY_SCRATCH, workspace);
    if (buffer->data) buffer->bytes = size;
    return buffer->data;
}

/* ---- pinned ---- */

void ct_gpu_free_pinned(ct_device *device, ct_gpu_pinned *pinned) {
    if (!pinned->host) return;
    ct_gpu_ok(device, cudaFreeHost(pinned->host), "freeing pinned memory");
    return_bytes(device, ct_gpu_rounded(pinned->bytes), CT_MEMORY_SCRATCH);
    pinned->host = pinned->device = NULL;
    pinned->bytes = 0;
}

static bool allocate_pinned(ct_device *device, const ct_workspace *workspace, ct_gpu_pinned *pinned, uint64_t bytes) {
    const bool ok = allocate_within_budget(device, ct_gpu_rounded(bytes), CT_MEMORY_SCRATCH, workspace, [&] {
        return is_allocated(device, cudaHostAlloc(&pinned->host, bytes, cudaHostAllocMapped | cudaHostAllocPortable),
                            "allocating pinned memory");
    });
    if (!ok) {
        pinned->host = NULL;
        return false;
    }
    pinned->bytes = bytes;
    if (ct_gpu_ok(device, cudaHostGetDevicePointer(&pinned->device, pinned->host, 0), "mapping pinned memory"))
        return true;
    ct_gpu_free_pinned(device, pinned);
    return false;
}

bool ct_gpu_reserve_pinned(ct_device *device, ct_workspace *workspace, ct_gpu_pinned *pinned, uint64_t bytes) {
    if (bytes <= pinned->bytes && pinned->host) return true;
    if (workspace) list_once(&workspace->pinned, pinned);
    ct_gpu_free_pinned(device, pinned);
    return allocate_pinned(device, workspace, pinned, with_reserve(bytes)) ||
           (!device->lost && bytes && allocate_pinned(device, workspace, pinned, bytes));
}

/* ---- workspaces ---- */

void ct_gpu_free_scratch(ct_device *device, ct_workspace *workspace) {
    for (ct_gpu_buffer *buffer = workspace->buffers; buffer; buffer = buffer->next) ct_gpu_free_buffer(device, buffer);
    for (ct_gpu_pinned *pinned = workspace->pinned; pinned; pinned = pinned->next) ct_gpu_free_pinned(device, pinned);
    workspace->common.is_clean = false;
    for (const ct_gpu_method *const *method = ct_gpu_methods; *method; method++) {
        ct_gpu_room *room = &workspace->room[(*method)->method];
        room->tables.is_clean = false;
        if ((*method)->release && room->scratch) (*method)->release(device, workspace);
    }
    workspace->capacity = ct_gpu_capacity();
}

uint64_t ct_gpu_release_idle(ct_device *device, double seconds) {
    ct_guard guard(device);
    if (device->lost || !ct_gpu_ok(device, cudaSetDevice(device->ordinal), "choosing the device")) return 0;
    const uint64_t used = device->used;
    uint64_t freed = 0;
    for (ct_workspace &workspace : device->workspaces) {
        if (workspace.busy || workspace.used_until <= 0 || ct_gpu_now() - workspace.used_until < seconds) continue;
        const uint64_t before = device->used;
        ct_gpu_free_scratch(device, &workspace);
        workspace.used_until = 0;
        freed += before - device->used;
    }
    if (device->used < used) ct_gpu_trim_pool(device);
    return freed;
}

void ct_gpu_free_workspace(ct_device *device, ct_workspace *workspace) {
    ct_gpu_free_scratch(device, workspace);
    for (const ct_gpu_method *const *method = ct_gpu_methods; *method; method++) {
        ct_gpu_room *room = &workspace->room[(*method)->method];
        if (room->scratch) (*method)->destroy_scratch(room->scratch);
        free(room->scratch);
        free(room->tables.buffers);
        *room = {};
    }
    free(workspace->common.buffers);
    workspace->common = {};
    workspace->buffers = NULL;
    workspace->pinned = NULL;
    for (cudaEvent_t &event : workspace->events) {
        if (event) cudaEventDestroy(event);
        event = NULL;
    }
    if (workspace->stream) cudaStreamDestroy(workspace->stream);
    workspace->stream = NULL;
}

/* ---- on the host ---- */

void *ct_host_append(ct_host_list *list, uint64_t n, size_t size) {
    if (!list->data || list->n + n > list->capacity) {
        uint64_t capacity = 2 * (list->n + n) + 16;
        void *data = realloc(list->data, capacity * size);
        if (!data) return NULL;
        list->data = data;
        list->capacity = capacity;
    }
    void *at = (char *)list->data + list->n * size;
    list->n += n;
    return at;
}

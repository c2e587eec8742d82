/* memory.cu - device memory within the budget, pinned host memory, lists. */
#include "gpu/backend/cuda/interop.cuh"

uint64_t ct_gpu_rounded(uint64_t bytes) {
    return (bytes + 511) / 512 * 512;
}

/* Is it within the budget? */
static bool may_use(const ct_device *device, uint64_t bytes, bool is_scratch) {
    return device->used + bytes <= device->limit &&
           (!is_scratch || !device->scratch_limit ||
            device->used - device->mesh_bytes - device->body_bytes + bytes <= device->scratch_limit);
}

static void count_used(ct_device *device, uint64_t bytes) {
    device->used += bytes;
    const uint64_t scratch = device->used - device->mesh_bytes - device->body_bytes;
    if (scratch > device->peak_scratch) device->peak_scratch = scratch;
}

static void *try_alloc(ct_device *device, uint64_t bytes, bool is_scratch) {
    if (!may_use(device, bytes, is_scratch)) return NULL;
    void *memory = NULL;
    cudaError_t error = cudaMalloc(&memory, bytes);
    if (error == cudaErrorMemoryAllocation) {
        cudaGetLastError(); /* this one does not stick */
        return NULL;
    }
    if (!ct_gpu_ok(device, error, "allocating memory")) return NULL;
    count_used(device, bytes);
    return memory;
}

void *ct_gpu_alloc(ct_device *device, uint64_t bytes, const ct_workspace *mine) {
    ct_guard guard(device);
    if (device->lost) return NULL;
    bytes = ct_gpu_rounded(bytes);
    void *memory = try_alloc(device, bytes, mine);
    if (!memory && !device->lost && ct_gpu_evict_meshes(device)) memory = try_alloc(device, bytes, mine);
    for (int i = 0; i < CT_MAX_CONCURRENT_BATCHES && !memory && !device->lost; i++) {
        ct_workspace *workspace = &device->workspaces[i];
        if (workspace == mine || workspace->busy) continue;
        ct_gpu_free_scratch(device, workspace);
        memory = try_alloc(device, bytes, mine);
    }
    return memory;
}

void ct_gpu_free(ct_device *device, void *memory, uint64_t bytes) {
    if (!memory) return;
    ct_guard guard(device);
    ct_gpu_ok(device, cudaFree(memory), "freeing memory");
    device->used -= ct_gpu_rounded(bytes);
}

bool ct_gpu_take(ct_device *device, uint64_t bytes, const ct_workspace *mine) {
    ct_guard guard(device);
    bytes = ct_gpu_rounded(bytes);
    bool ok = may_use(device, bytes, true);
    if (!ok && ct_gpu_evict_meshes(device)) ok = may_use(device, bytes, true);
    for (int i = 0; i < CT_MAX_CONCURRENT_BATCHES && !ok; i++) {
        ct_workspace *workspace = &device->workspaces[i];
        if (workspace == mine || workspace->busy) continue;
        ct_gpu_free_scratch(device, workspace);
        ok = may_use(device, bytes, true);
    }
    if (ok) count_used(device, bytes);
    return ok;
}

void ct_gpu_give(ct_device *device, uint64_t bytes) {
    ct_guard guard(device);
    device->used -= ct_gpu_rounded(bytes);
}

static void free_buffer(ct_device *device, ct_gpu_buffer *buffer) {
    ct_gpu_free(device, buffer->data, buffer->bytes);
    buffer->data = NULL;
    buffer->bytes = 0;
}

bool ct_gpu_reserve(ct_device *device, ct_workspace *workspace, ct_gpu_buffer *buffer, uint64_t bytes) {
    if (bytes <= buffer->bytes && buffer->data) return true;
    free_buffer(device, buffer);
    uint64_t more = bytes + bytes / 4 + 4096;
    buffer->data = ct_gpu_alloc(device, more, workspace);
    if (!buffer->data) buffer->data = ct_gpu_alloc(device, more = bytes, workspace);
    if (buffer->data) buffer->bytes = more;
    return buffer->data;
}

static void free_pinned(ct_device *device, ct_gpu_pinned *pinned) {
    if (pinned->host) ct_gpu_ok(device, cudaFreeHost(pinned->host), "freeing pinned memory");
    pinned->host = pinned->device = NULL;
    pinned->bytes = 0;
}

bool ct_gpu_reserve_pinned(ct_device *device, ct_gpu_pinned *pinned, uint64_t bytes) {
    if (bytes <= pinned->bytes && pinned->host) return true;
    free_pinned(device, pinned);
    uint64_t more = bytes + bytes / 4 + 4096;
    cudaError_t error = cudaHostAlloc(&pinned->host, more, cudaHostAllocMapped | cudaHostAllocPortable);
    if (error == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        pinned->host = NULL;
        return false;
    }
    if (!ct_gpu_ok(device, error, "allocating pinned memory")) {
        pinned->host = NULL;
        return false;
    }
    pinned->bytes = more;
    return ct_gpu_ok(device, cudaHostGetDevicePointer(&pinned->device, pinned->host, 0), "mapping pinned memory");
}

void ct_gpu_free_scratch(ct_device *device, ct_workspace *workspace) {
    ct_gpu_buffer *buffers[] = {&workspace->tables,        &workspace->rows,       &workspace->small,
                                &workspace->pairs,         &workspace->candidates, &workspace->chunks,
                                &workspace->rays,          &workspace->page_table, &workspace->pages,
                                &workspace->vertex_chunks, &workspace->fragments,  &workspace->large_triangles,
                                &workspace->entries,       &workspace->spans,      &workspace->answer};
    for (ct_gpu_buffer *buffer : buffers) free_buffer(device, buffer);
    ct_gpu_gl_free(device, workspace);
    workspace->is_clean = false;
    const ct_gpu_capacity none = {};
    workspace->capacity = none;
}

void ct_gpu_free_workspace(ct_device *device, ct_workspace *workspace) {
    ct_gpu_free_scratch(device, workspace);
    ct_gpu_pinned *pinned[] = {&workspace->tables_staging, &workspace->rows_staging, &workspace->answer_host};
    for (ct_gpu_pinned *p : pinned) free_pinned(device, p);
    ct_host_list *lists[] = {&workspace->steps,        &workspace->crowds,          &workspace->box_updates,
                             &workspace->pose_writes,  &workspace->position_writes, &workspace->indices,
                             &workspace->moved_bodies, &workspace->posed_bodies,    &workspace->members,
                             &workspace->words,        &workspace->stale_tables};
    for (ct_host_list *list : lists) {
        free(list->data);
        list->data = NULL;
        list->n = list->capacity = 0;
    }
    for (cudaEvent_t &event : workspace->events) {
        if (event) cudaEventDestroy(event);
        event = NULL;
    }
    if (workspace->stream) cudaStreamDestroy(workspace->stream);
    workspace->stream = NULL;
}

void *ct_host_add(ct_host_list *list, uint64_t n, size_t size) {
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

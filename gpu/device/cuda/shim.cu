/* shim.cu - the shim's runtime: devices described by the environment, and memory that only streams may access. See
 * shim.cuh. */
#ifdef CT_CUDA_SHIM
#include "gpu/device/cuda/cuda.cuh"

#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define CT_POISON 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CT_POISON 1
#endif
#endif
#ifdef CT_POISON
#include <sanitizer/asan_interface.h>
#define poison(p, n)   __asan_poison_memory_region(p, n)
#define unpoison(p, n) __asan_unpoison_memory_region(p, n)
#else
#define poison(p, n)   ((void)(p), (void)(n))
#define unpoison(p, n) ((void)(p), (void)(n))
#endif

struct ct_shim_stream {
    std::mutex mutex; /* guards the rest; held while the stream runs */
    std::deque<std::function<void()>> queue;
    bool touches_all = false;          /* a kernel is in the queue; copies open their own blocks only */
    cudaError_t failure = cudaSuccess; /* of a launch, returned at the next synchronisation */
};
struct ct_shim_event {
    double at = 0;
};

namespace {

struct block {
    size_t size, rounded;
    int device;
};

struct world {
    std::mutex mutex;
    std::map<char *, block> blocks; /* of device memory */
    size_t used[64] = {};
    int open = 0; /* streams that run a kernel */
    cudaError_t sticky = cudaSuccess;
    std::string injected; /* CT_SHIM_FAIL when it last changed; calls since then: */
    std::map<std::string, int> calls;
    std::set<std::pair<int, const void *>> loaded; /* kernels, by device */
    std::map<const void *, size_t> local;          /* bytes of kernels' local memory */
};

/* Never destroyed, as an engine may live until the process ends. */
world &the_world() {
    static world *w = new world;
    return *w;
}

thread_local int current;
thread_local cudaError_t last;

/* An environment variable as a number. */
uint64_t variable(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text && *text ? strtoull(text, nullptr, 10) : otherwise;
}

uint64_t memory_size() {
    return variable("CT_SHIM_MEMORY", (uint64_t)4 << 30);
}

/* For cudaGetLastError. Returns the error. */
cudaError_t remember(cudaError_t error) {
    if (error) last = error;
    return error;
}

/* The error that CT_SHIM_FAIL injects into this call, or a sticky error of an earlier one. */
cudaError_t injected_error(const char *name) {
    std::lock_guard<std::mutex> lock(the_world().mutex);
    world &w = the_world();
    const char *rule = getenv("CT_SHIM_FAIL");
    if (!rule) rule = "";
    if (w.injected != rule) {
        w.injected = rule;
        w.calls.clear();
        if (!*rule) w.sticky = cudaSuccess; /* the test has ended */
    }
    if (w.sticky) return w.sticky;
    char function[64], end = ':';
    int nth, code;
    if (sscanf(rule, "%63[^:]:%d%c", function, &nth, &end) != 3 || strcmp(function, name) != 0) return cudaSuccess;
    if (sscanf(strrchr(rule, ':'), ":%d", &code) != 1) return cudaSuccess;
    const int call = ++w.calls[name];
    if (end == '+' ? call < nth : call != nth) return cudaSuccess;
    if (code >= 700) w.sticky = (cudaError_t)code;
    return (cudaError_t)code;
}

void protect(int how) {
    for (auto &b : the_world().blocks) mprotect(b.first, b.second.rounded, how);
}

/* With the stream's mutex held. */
void run(ct_shim_stream *stream) {
    if (stream->touches_all) {
        std::lock_guard<std::mutex> lock(the_world().mutex);
        if (the_world().open++ == 0) protect(PROT_READ | PROT_WRITE);
    }
    while (!stream->queue.empty()) {
        stream->queue.front()();
        stream->queue.pop_front();
    }
    if (!stream->touches_all) return;
    std::lock_guard<std::mutex> lock(the_world().mutex);
    if (--the_world().open == 0) protect(PROT_NONE);
    stream->touches_all = false;
}

void enqueue(ct_shim_stream *stream, const std::function<void()> &operation) {
    std::lock_guard<std::mutex> lock(stream->mutex);
    stream->queue.push_back(operation);
}

/* Makes the allocations of these addresses accessible while the operation runs. */
void access(std::initializer_list<const void *> touched, const std::function<void()> &operation) {
    std::lock_guard<std::mutex> lock(the_world().mutex);
    auto set = [&](int how) {
        for (const void *p : touched) {
            auto at = the_world().blocks.upper_bound((char *)const_cast<void *>(p));
            if (at == the_world().blocks.begin()) continue;
            --at;
            if ((const char *)p < at->first + at->second.rounded) mprotect(at->first, at->second.rounded, how);
        }
    };
    if (!the_world().open) set(PROT_READ | PROT_WRITE);
    operation();
    if (!the_world().open) set(PROT_NONE);
}

/* With the world's mutex held: memory that only streams may access. NULL: there is none left. */
void *new_block(size_t size) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), rounded = (size + page - 1) / page * page;
    void *at = mmap(nullptr, rounded + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return nullptr;
    mprotect(at, rounded, PROT_READ | PROT_WRITE);
    memset(at, 0xa5, rounded);
    poison((char *)at + size, rounded - size);
    if (!the_world().open) mprotect(at, rounded, PROT_NONE);
    the_world().blocks[(char *)at] = {size, rounded, current};
    return at;
}

/* Returns what it was. */
block free_block(void *memory) {
    auto at = the_world().blocks.find((char *)memory);
    if (at == the_world().blocks.end()) abort(); /* not allocated here, or freed already */
    const block freed = at->second;
    unpoison(memory, freed.rounded);
    munmap(memory, freed.rounded + (size_t)sysconf(_SC_PAGESIZE));
    the_world().blocks.erase(at);
    return freed;
}

} // namespace

#define FAIL_IF_INJECTED(name)                                                                                         \
    if (cudaError_t wrong = injected_error(name)) return remember(wrong)

const char *cudaGetErrorName(cudaError_t error) {
    switch (error) {
    case cudaSuccess:
        return "cudaSuccess";
    case cudaErrorMemoryAllocation:
        return "cudaErrorMemoryAllocation";
    case cudaErrorInsufficientDriver:
        return "cudaErrorInsufficientDriver";
    case cudaErrorNoDevice:
        return "cudaErrorNoDevice";
    case cudaErrorECCUncorrectable:
        return "cudaErrorECCUncorrectable";
    case cudaErrorIllegalAddress:
        return "cudaErrorIllegalAddress";
    case cudaErrorLaunchFailure:
        return "cudaErrorLaunchFailure";
    default:
        return "cudaErrorUnknown";
    }
}

const char *cudaGetErrorString(cudaError_t error) {
    return error == cudaSuccess ? "no error" : error == cudaErrorMemoryAllocation ? "out of memory" : "injected";
}

cudaError_t cudaGetLastError(void) {
    cudaError_t error = last;
    last = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void) {
    return last;
}

cudaError_t cudaDriverGetVersion(int *version) {
    *version = (int)variable("CT_SHIM_DRIVER", 13000);
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version) {
    *version = 13000;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count) {
    FAIL_IF_INJECTED("cudaGetDeviceCount");
    *count = (int)variable("CT_SHIM_DEVICES", 1);
    if (variable("CT_SHIM_DRIVER", 13000) < 13000) return remember(cudaErrorInsufficientDriver);
    return remember(*count ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device) {
    FAIL_IF_INJECTED("cudaGetDeviceProperties");
    if (device < 0 || (uint64_t)device >= variable("CT_SHIM_DEVICES", 1)) return remember(cudaErrorInvalidDevice);
    memset(properties, 0, sizeof *properties);
    snprintf(properties->name, sizeof properties->name, "CPU shim (no GPU)");
    properties->totalGlobalMem = memory_size();
    properties->major = (int)variable("CT_SHIM_CAPABILITY", 90) / 10;
    properties->minor = (int)variable("CT_SHIM_CAPABILITY", 90) % 10;
    properties->multiProcessorCount = (int)variable("CT_SHIM_SMS", 1);
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
    FAIL_IF_INJECTED("cudaSetDevice");
    current = device;
    return cudaSuccess;
}

void ct_shim_set_local(const void *function, size_t bytes) {
    std::lock_guard<std::mutex> lock(the_world().mutex);
    the_world().local[function] = bytes;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, const void *function) {
    FAIL_IF_INJECTED("cudaFuncGetAttributes");
    std::lock_guard<std::mutex> lock(the_world().mutex);
    the_world().loaded.insert({current, function});
    const auto local = the_world().local.find(function);
    attributes->localSizeBytes = local == the_world().local.end() ? 0 : local->second;
    attributes->maxThreadsPerBlock = (int)variable("CT_SHIM_MAX_THREADS", 1024);
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
    FAIL_IF_INJECTED("cudaMemGetInfo");
    std::lock_guard<std::mutex> lock(the_world().mutex);
    size_t used = (size_t)variable("CT_SHIM_USED", 0) + the_world().used[current];
    *total = memory_size();
    *free = used < *total ? *total - used : 0;
    return cudaSuccess;
}

cudaError_t ct_shim_malloc(void **memory, size_t size) {
    *memory = nullptr;
    FAIL_IF_INJECTED("cudaMalloc");
    std::lock_guard<std::mutex> lock(the_world().mutex);
    if (the_world().used[current] + variable("CT_SHIM_USED", 0) + size > memory_size())
        return remember(cudaErrorMemoryAllocation);
    *memory = new_block(size);
    if (*memory) the_world().used[current] += size;
    return remember(*memory ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaFree(void *memory) {
    if (!memory) return cudaSuccess;
    cudaError_t wrong = injected_error("cudaFree");
    std::lock_guard<std::mutex> lock(the_world().mutex);
    const block freed = free_block(memory);
    the_world().used[freed.device] -= freed.size;
    return remember(wrong);
}

/* ---- pools ---- */

struct ct_shim_pool {
    int device;
};

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr, int) {
    FAIL_IF_INJECTED("cudaDeviceGetAttribute");
    *value = variable("CT_SHIM_POOLS", 1) != 0;
    return cudaSuccess;
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const cudaMemPoolProps *properties) {
    *pool = nullptr;
    FAIL_IF_INJECTED("cudaMemPoolCreate");
    *pool = new ct_shim_pool{properties->location.id};
    return cudaSuccess;
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
    delete pool;
    return remember(injected_error("cudaMemPoolDestroy"));
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void *) {
    FAIL_IF_INJECTED("cudaMemPoolSetAttribute");
    return cudaSuccess;
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t) {
    FAIL_IF_INJECTED("cudaMemPoolTrimTo");
    return cudaSuccess;
}

/* What the stream frees before is free by then, so the stream runs first. */
cudaError_t cudaMallocFromPoolAsync(void **memory, size_t size, cudaMemPool_t pool, cudaStream_t stream) {
    *memory = nullptr;
    FAIL_IF_INJECTED("cudaMallocFromPoolAsync");
    std::lock_guard<std::mutex> order(stream->mutex);
    run(stream);
    std::lock_guard<std::mutex> lock(the_world().mutex);
    size_t &used = the_world().used[pool->device];
    if (used + variable("CT_SHIM_USED", 0) + size > memory_size()) return remember(cudaErrorMemoryAllocation);
    *memory = new_block(size);
    if (*memory) used += size;
    return remember(*memory ? cudaSuccess : cudaErrorMemoryAllocation);
}

static void free_now(void *memory) {
    std::lock_guard<std::mutex> lock(the_world().mutex);
    const block freed = free_block(memory);
    the_world().used[freed.device] -= freed.size;
}

cudaError_t cudaFreeAsync(void *memory, cudaStream_t stream) {
    if (cudaError_t wrong = injected_error("cudaFreeAsync")) {
        free_now(memory);
        return remember(wrong);
    }
    enqueue(stream, [=] { free_now(memory); });
    return cudaSuccess;
}

cudaError_t ct_shim_host_alloc(void **memory, size_t size, unsigned) {
    *memory = nullptr;
    FAIL_IF_INJECTED("cudaHostAlloc");
    *memory = malloc(size ? size : 1);
    return remember(*memory ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaFreeHost(void *memory) {
    free(memory);
    return remember(injected_error("cudaFreeHost"));
}

cudaError_t ct_shim_host_pointer(void **device, void *host, unsigned) {
    *device = host;
    FAIL_IF_INJECTED("cudaHostGetDevicePointer");
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, cudaMemcpyKind, cudaStream_t stream) {
    FAIL_IF_INJECTED("cudaMemcpyAsync");
    enqueue(stream, [=] { access({to, from}, [=] { memcpy(to, from, size); }); });
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t size, cudaStream_t stream) {
    FAIL_IF_INJECTED("cudaMemsetAsync");
    enqueue(stream, [=] { access({memory}, [=] { memset(memory, value, size); }); });
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned) {
    *stream = nullptr;
    FAIL_IF_INJECTED("cudaStreamCreateWithFlags");
    *stream = new ct_shim_stream;
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    const cudaError_t wrong = injected_error("cudaStreamDestroy");
    delete stream;
    return remember(wrong);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    cudaError_t wrong = injected_error("cudaStreamSynchronize");
    std::lock_guard<std::mutex> lock(stream->mutex);
    if (!wrong) wrong = stream->failure;
    stream->failure = cudaSuccess;
    if (wrong) {
        stream->queue.clear();
        stream->touches_all = false;
    } else {
        run(stream);
    }
    return remember(wrong);
}

cudaError_t cudaEventCreate(cudaEvent_t *event) {
    *event = nullptr;
    FAIL_IF_INJECTED("cudaEventCreate");
    *event = new ct_shim_event;
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    FAIL_IF_INJECTED("cudaEventRecord");
    enqueue(stream, [=] {
        timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        event->at = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
    });
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to) {
    *milliseconds = (float)(1e3 * (to->at - from->at));
    return cudaSuccess;
}

#ifdef CT_HAVE_EGL

/* ---- OpenGL's buffers ---- */

extern "C" {
#include "gpu/device/gl/buffer.h"
}

struct ct_shim_resource {
    unsigned buffer;
    char *memory; /* one of the blocks while it is mapped, so that streams may access it */
    block shape;
    bool mapped;
};

cudaError_t cudaGLGetDevices(unsigned *n, int *devices, unsigned capacity, cudaGLDeviceList) {
    FAIL_IF_INJECTED("cudaGLGetDevices");
    const char *device = getenv("CT_SHIM_GL_DEVICE");
    const int found = device ? atoi(device) : current;
    *n = found >= 0 && capacity > 0;
    if (*n) devices[0] = found;
    return remember(*n ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaGraphicsGLRegisterBuffer(cudaGraphicsResource_t *resource, unsigned buffer, unsigned) {
    *resource = nullptr;
    FAIL_IF_INJECTED("cudaGraphicsGLRegisterBuffer");
    const size_t size = ct_gl_buffer_size(buffer);
    if (!size) return remember(cudaErrorInvalidValue);
    std::lock_guard<std::mutex> lock(the_world().mutex);
    char *memory = (char *)new_block(size); /* not counted: the buffer itself is the device's memory */
    if (!memory) return remember(cudaErrorMemoryAllocation);
    *resource = new ct_shim_resource{buffer, memory, the_world().blocks[memory], false};
    mprotect(memory, (*resource)->shape.rounded, PROT_NONE);
    the_world().blocks.erase(memory);
    return cudaSuccess;
}

cudaError_t cudaGraphicsUnregisterResource(cudaGraphicsResource_t resource) {
    if (!resource || resource->mapped) abort(); /* freed while it is mapped */
    {
        std::lock_guard<std::mutex> lock(the_world().mutex);
        the_world().blocks[resource->memory] = resource->shape;
        free_block(resource->memory);
    }
    delete resource;
    return remember(injected_error("cudaGraphicsUnregisterResource"));
}

cudaError_t cudaGraphicsMapResources(int n, cudaGraphicsResource_t *resources, cudaStream_t) {
    FAIL_IF_INJECTED("cudaGraphicsMapResources");
    std::lock_guard<std::mutex> lock(the_world().mutex);
    for (int i = 0; i < n; i++) {
        ct_shim_resource *r = resources[i];
        if (r->mapped) return remember(cudaErrorUnknown);
        mprotect(r->memory, r->shape.rounded, PROT_READ | PROT_WRITE);
        ct_gl_buffer_read(r->buffer, r->shape.size, r->memory);
        if (!the_world().open) mprotect(r->memory, r->shape.rounded, PROT_NONE);
        the_world().blocks[r->memory] = r->shape;
        r->mapped = true;
    }
    return cudaSuccess;
}

cudaError_t cudaGraphicsUnmapResources(int n, cudaGraphicsResource_t *resources, cudaStream_t stream) {
    cudaError_t wrong = injected_error("cudaGraphicsUnmapResources");
    {
        std::lock_guard<std::mutex> lock(stream->mutex);
        if (!wrong && !stream->failure) run(stream);
    }
    std::lock_guard<std::mutex> lock(the_world().mutex);
    for (int i = 0; i < n; i++) {
        ct_shim_resource *r = resources[i];
        if (!r->mapped) return remember(cudaErrorUnknown);
        mprotect(r->memory, r->shape.rounded, PROT_READ | PROT_WRITE);
        ct_gl_buffer_write(r->buffer, r->shape.size, r->memory);
        mprotect(r->memory, r->shape.rounded, PROT_NONE);
        the_world().blocks.erase(r->memory);
        r->mapped = false;
    }
    return remember(wrong);
}

cudaError_t cudaGraphicsResourceGetMappedPointer(void **memory, size_t *bytes, cudaGraphicsResource_t resource) {
    *memory = nullptr;
    FAIL_IF_INJECTED("cudaGraphicsResourceGetMappedPointer");
    if (!resource->mapped) return remember(cudaErrorUnknown);
    *memory = resource->memory;
    *bytes = resource->shape.size;
    return cudaSuccess;
}

#endif

/* A device on which kernels were loaded runs no others, which proves that the lists of methods_cuda.cu and the
 * methods are complete. */
static void require_loaded(const void *function) {
    std::lock_guard<std::mutex> lock(the_world().mutex);
    bool any = false;
    for (const auto &entry : the_world().loaded) any = any || entry.first == current;
    if (!any || the_world().loaded.count({current, function})) return;
    fprintf(stderr,
            "CUDA shim: a kernel is launched that was not loaded when its device was opened (methods_cuda.cu)\n");
    abort();
}

void ct_shim_launch(const void *function, unsigned grid, cudaStream_t stream, const std::function<void()> &kernel) {
    require_loaded(function);
    const cudaError_t wrong = injected_error("launch");
    std::lock_guard<std::mutex> lock(stream->mutex);
    if (wrong >= 700) stream->failure = wrong; /* of the kernel, as it runs */
    if (wrong) remember(wrong);
    if (wrong) return;
    stream->touches_all = true;
    stream->queue.push_back([=] { ct_shim_run(grid, (unsigned)variable("CT_SHIM_ORDER", 0), kernel); });
}

#endif

/* shim.cuh - CUDA's runtime as far as this backend uses it, on the CPU, for tests where there is no GPU: grids run
 * serially, under the sanitizers.
 *
 * What a stream is given runs when it is synchronised, not before, so a host that reads too early or reuses a staging
 * buffer too soon shows. Device memory is inaccessible but while a stream runs, each allocation ends at a guard page,
 * and new memory is full of garbage. A warp is one thread wide.
 *
 * A buffer of OpenGL's has such memory beside it, which only streams may touch and only while it is mapped: its content
 * goes there and back. Where a stream and OpenGL have to wait for each other the stream is run.
 *
 * The environment sets the scene (read at every call, so that a test may change it):
 *   CT_SHIM_DEVICES=1        how many devices there are
 *   CT_SHIM_MEMORY=<bytes>   memory of each, 4 GiB if not given
 *   CT_SHIM_USED=<bytes>     how much of it others have taken
 *   CT_SHIM_DRIVER=13000     the driver's version; 0: no driver
 *   CT_SHIM_CAPABILITY=90    compute capability of the devices
 *   CT_SHIM_FAIL=<function>:<n>:<code>  the n-th call from now on of that function (e.g. cudaMalloc; or "launch", whose
 *                            failure shows at the next synchronisation) gives that error code. Codes from 700 on stick.
 *   CT_SHIM_GL_DEVICE=<n>    which device OpenGL draws on, -1: none; the current one if not given
 *   CT_SHIM_ORDER=<mask>     thread k of a block runs as k ^ mask (0..255), and blocks run backwards unless it is 0
 */
#ifndef CT_SHIM_CUH
#define CT_SHIM_CUH

#include <functional>
#include <stddef.h>
#include <stdint.h>

#define CT_DEVICE static inline
#define CT_KERNEL static void
#define CT_SHARED /* a block runs on one thread: its stack will do */

struct ct_shim_position {
    unsigned block, grid, flip;
};
extern thread_local ct_shim_position ct_shim_at;

#define CT_BLOCK_INDEX ct_shim_at.block
#define CT_GRID_SIZE   ct_shim_at.grid
#define CT_THREADS(t)                                                                                                  \
    for (unsigned ct_k_##t = 0, t = ct_shim_at.flip; ct_k_##t < CT_BLOCK; ct_k_##t++, t = ct_k_##t ^ ct_shim_at.flip)
#define CT_BARRIER() ((void)0)
#define CT_FOR(i, n)                                                                                                   \
    for (uint64_t ct_base_##i = (uint64_t)CT_BLOCK_INDEX * CT_BLOCK; ct_base_##i < (n);                                \
         ct_base_##i += (uint64_t)CT_GRID_SIZE * CT_BLOCK)                                                             \
        CT_THREADS(ct_t_##i)                                                                                           \
    if (const ct_shim_index ct_i_##i{ct_base_##i + ct_t_##i, (n)})                                                     \
        if (const uint64_t i = ct_i_##i.value; true)
struct ct_shim_index {
    uint64_t value, end;
    explicit operator bool() const {
        return value < end;
    }
};

/* ---- the runtime ---- */

enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInitializationError = 3,
    cudaErrorInsufficientDriver = 35,
    cudaErrorNoDevice = 100,
    cudaErrorInvalidDevice = 101,
    cudaErrorNoKernelImageForDevice = 209,
    cudaErrorECCUncorrectable = 214,
    cudaErrorIllegalAddress = 700,
    cudaErrorLaunchFailure = 719,
    cudaErrorUnknown = 999,
};

enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 };
enum { cudaStreamNonBlocking = 1, cudaHostAllocMapped = 2, cudaHostAllocPortable = 1 };
typedef struct ct_shim_stream *cudaStream_t;
typedef struct ct_shim_event *cudaEvent_t;

struct cudaDeviceProp {
    char name[256];
    size_t totalGlobalMem;
    int major, minor, multiProcessorCount;
};

const char *cudaGetErrorName(cudaError_t error);
const char *cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError(void);
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaRuntimeGetVersion(int *version);
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaMemGetInfo(size_t *free, size_t *total);
cudaError_t ct_shim_malloc(void **memory, size_t size);
cudaError_t cudaFree(void *memory);
cudaError_t ct_shim_host_alloc(void **memory, size_t size, unsigned flags);
cudaError_t cudaFreeHost(void *memory);
cudaError_t ct_shim_host_pointer(void **device, void *host, unsigned flags);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void *memory, int value, size_t size, cudaStream_t stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaEventCreate(cudaEvent_t *event);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to);

typedef struct ct_shim_resource *cudaGraphicsResource_t;
enum cudaGLDeviceList { cudaGLDeviceListAll = 1 };
cudaError_t cudaGLGetDevices(unsigned *n, int *devices, unsigned room, cudaGLDeviceList list);
cudaError_t cudaGraphicsGLRegisterBuffer(cudaGraphicsResource_t *resource, unsigned buffer, unsigned flags);
cudaError_t cudaGraphicsUnregisterResource(cudaGraphicsResource_t resource);
cudaError_t cudaGraphicsMapResources(int n, cudaGraphicsResource_t *resources, cudaStream_t stream);
cudaError_t cudaGraphicsUnmapResources(int n, cudaGraphicsResource_t *resources, cudaStream_t stream);
cudaError_t cudaGraphicsResourceGetMappedPointer(void **memory, size_t *bytes, cudaGraphicsResource_t resource);

template <class T> cudaError_t cudaMalloc(T **memory, size_t size) {
    return ct_shim_malloc((void **)memory, size);
}
template <class T> cudaError_t cudaHostAlloc(T **memory, size_t size, unsigned flags) {
    return ct_shim_host_alloc((void **)memory, size, flags);
}
template <class T> cudaError_t cudaHostGetDevicePointer(T **device, void *host, unsigned flags) {
    return ct_shim_host_pointer((void **)device, host, flags);
}

/* ---- launches ---- */

void ct_shim_launch(unsigned grid, cudaStream_t stream, const std::function<void()> &block);

template <class... P, class... A>
void ct_shim_start(void (*kernel)(P...), unsigned grid, cudaStream_t stream, A... arguments) {
    ct_shim_launch(grid, stream, [=] { kernel(arguments...); });
}
#define CT_LAUNCH(kernel, grid, stream, ...) (ct_shim_start(kernel, grid, stream, __VA_ARGS__), 1u)
#define CT_UNROLL

/* ---- what device code calls ---- */

template <class T> T atomicAdd(T *to, T x) {
    return __atomic_fetch_add(to, x, __ATOMIC_RELAXED);
}
template <class T> T atomicExch(T *to, T x) {
    return __atomic_exchange_n(to, x, __ATOMIC_RELAXED);
}
template <class T> T atomicMin(T *to, T x) {
    T old = __atomic_load_n(to, __ATOMIC_RELAXED);
    while (x < old && !__atomic_compare_exchange_n(to, &old, x, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return old;
}
template <class T> T atomicMax(T *to, T x) {
    T old = __atomic_load_n(to, __ATOMIC_RELAXED);
    while (x > old && !__atomic_compare_exchange_n(to, &old, x, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return old;
}
static inline void __threadfence(void) {
}
static inline uint64_t ct_next_place(uint64_t *counter) {
    return atomicAdd(counter, (uint64_t)1);
}
static inline unsigned ct_peers(uint64_t) {
    return 1;
}
static inline unsigned ct_warp_lane(void) {
    return 0;
}
static inline uint32_t ct_from_peer(unsigned, uint32_t value, int) {
    return value;
}
static inline int ct_first_peer(unsigned) {
    return 0;
}
static inline unsigned ct_count_peers(unsigned) {
    return 1;
}

#endif

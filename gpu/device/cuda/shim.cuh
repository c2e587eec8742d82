/* shim.cuh - the part of CUDA's runtime and language that this backend uses, on the CPU: for tests without a GPU, under
 * the sanitizers.
 *
 * A stream's work runs when the stream is synchronised, not before, so a host that reads too early or reuses a staging
 * buffer too soon fails its test. Device memory is accessible only while a stream runs. Each allocation ends at a guard
 * page, and new memory is filled with a pattern.
 *
 * A block's threads are fibers (shim_block.cu). They meet at barriers, and the threads of a warp at its intrinsics. A
 * barrier that only a part of a block reaches, or a shuffle with a thread that is elsewhere, ends the process with the
 * place. Blocks run on two multiprocessors, which are threads of the host. ThreadSanitizer sees each thread of a grid
 * as one of its own, so it finds races in shared memory and in device memory.
 *
 * A buffer of OpenGL's has a copy in device memory, accessible while it is mapped; mapping and unmapping copy its
 * content. Where CUDA makes a stream and OpenGL wait for each other, the shim runs the stream.
 *
 * Environment variables, read at every call, so that a test may change them:
 *   CT_SHIM_DEVICES=1        number of devices
 *   CT_SHIM_MEMORY=<bytes>   memory of each, default 4 GiB
 *   CT_SHIM_USED=<bytes>     how much of it other processes use
 *   CT_SHIM_DRIVER=13000     version of the driver; 0: no driver
 *   CT_SHIM_CAPABILITY=90    compute capability of the devices
 *   CT_SHIM_POOLS=0          the devices have no memory pools
 *   CT_SHIM_MAX_THREADS=<n>  threads that a block of any kernel may have, default 1024
 *   CT_SHIM_FAIL=<function>:<n>[+]:<code>
 *                            the n-th call of that function from now on, with + also every later one, returns the error
 *                            code; a "launch" returns it at the next synchronisation. After a code from 700 on every
 *                            call of any function returns it.
 *   CT_SHIM_GL_DEVICE=<n>    device on which OpenGL draws, -1: none; default: the current one
 *   CT_SHIM_ORDER=<number>   thread k of a block runs as k ^ number; unless it is 0, blocks run in falling order, and
 *                            __activemask splits the threads of a warp that reach it into random parts
 */
#ifndef CT_SHIM_CUH
#define CT_SHIM_CUH

#include <functional>
#include <stddef.h>
#include <stdint.h>

/* ---- the language ---- */

#define __global__
#define __device__
#define __launch_bounds__(...)
/* A multiprocessor is a thread of the host; all fibers of its block share its thread-local variables. */
#define __shared__ static thread_local
#define CT_UNROLL

/* The indices of the device thread that runs. */
struct ct_shim_index {
    unsigned thread, block, grid;
};
extern thread_local ct_shim_index ct_shim_at;

struct ct_shim_x {
    unsigned x;
};
#define threadIdx (ct_shim_x{ct_shim_at.thread})
#define blockIdx  (ct_shim_x{ct_shim_at.block})
#define gridDim   (ct_shim_x{ct_shim_at.grid})

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
cudaError_t cudaPeekAtLastError(void);
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaRuntimeGetVersion(int *version);
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device);
struct cudaFuncAttributes {
    int maxThreadsPerBlock;
    size_t localSizeBytes;
};
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, const void *function);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaMemGetInfo(size_t *free, size_t *total);
enum cudaDeviceAttr { cudaDevAttrMemoryPoolsSupported = 115 };
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device);
typedef struct ct_shim_pool *cudaMemPool_t;
enum cudaMemAllocationType { cudaMemAllocationTypePinned = 1 };
enum cudaMemLocationType { cudaMemLocationTypeDevice = 1 };
enum cudaMemPoolAttr { cudaMemPoolAttrReleaseThreshold = 4 };
struct cudaMemPoolProps {
    cudaMemAllocationType allocType;
    struct {
        cudaMemLocationType type;
        int id;
    } location;
};
cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const cudaMemPoolProps *properties);
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool);
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void *value);
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t least);
cudaError_t cudaMallocFromPoolAsync(void **memory, size_t size, cudaMemPool_t pool, cudaStream_t stream);
cudaError_t cudaFreeAsync(void *memory, cudaStream_t stream);
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
cudaError_t cudaGLGetDevices(unsigned *n, int *devices, unsigned capacity, cudaGLDeviceList list);
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

/* Runs the kernel on every thread of a grid before it returns. */
void ct_shim_run(unsigned grid, unsigned order, const std::function<void()> &kernel);
/* For cudaFuncGetAttributes: the local memory of a kernel, which the CPU's compiler does not tell; else 0. */
void ct_shim_set_local(const void *function, size_t bytes);
void ct_shim_launch(const void *function, unsigned grid, cudaStream_t stream, const std::function<void()> &kernel);

template <class... P, class... A>
void ct_shim_start(void (*kernel)(P...), unsigned grid, cudaStream_t stream, A... arguments) {
    ct_shim_launch((const void *)kernel, grid, stream, [=] { kernel(arguments...); });
}
#define CT_START(kernel, grid, stream, ...) ct_shim_start(kernel, grid, stream, __VA_ARGS__)

/* ---- what device code calls ---- */

void ct_shim_barrier(const char *file, int line);
unsigned ct_shim_active(const char *file, int line);
unsigned ct_shim_match(unsigned mask, uint64_t key, const char *file, int line);
uint64_t ct_shim_shuffle(unsigned mask, uint64_t value, int from, const char *file, int line);

static inline void __syncthreads(const char *file = __builtin_FILE(), int line = __builtin_LINE()) {
    ct_shim_barrier(file, line);
}
static inline unsigned __activemask(const char *file = __builtin_FILE(), int line = __builtin_LINE()) {
    return ct_shim_active(file, line);
}
static inline unsigned __match_any_sync(unsigned mask, uint64_t key, const char *file = __builtin_FILE(),
                                        int line = __builtin_LINE()) {
    return ct_shim_match(mask, key, file, line);
}
template <class T>
T __shfl_sync(unsigned mask, T value, int from, const char *file = __builtin_FILE(), int line = __builtin_LINE()) {
    return (T)ct_shim_shuffle(mask, (uint64_t)value, from, file, line);
}
static inline int __ffs(int x) {
    return __builtin_ffs(x);
}
static inline int __popc(unsigned x) {
    return __builtin_popcount(x);
}
/* Orders memory as CUDA's does: what precedes it on one thread comes before what follows it on a thread that saw a
 * later write of the first. */
static inline void __threadfence(void) {
    static char fence;
    __atomic_fetch_add(&fence, 0, __ATOMIC_ACQ_REL);
}
template <class T> T atomicAdd(T *to, T x) {
    return __atomic_fetch_add(to, x, __ATOMIC_RELAXED);
}
template <class T> T atomicExch(T *to, T x) {
    return __atomic_exchange_n(to, x, __ATOMIC_RELAXED);
}
template <class T> T atomicCAS(T *at, T expected, T value) {
    __atomic_compare_exchange_n(at, &expected, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected;
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

#endif

/* cuda.cuh - the dialect of all device code here, for every .cu file. nvcc compiles it as CUDA. With CT_CUDA_SHIM g++
 * compiles the same source for the CPU (shim.cuh), for tests on machines without a GPU.
 *
 * A kernel consists of phases. Code inside CT_THREADS runs on every thread of a block between two barriers; code
 * outside computes the same on all threads; threads share data in CT_SHARED arrays. So every barrier is reached by all
 * threads, and the text shows which accesses may race. A variable that is declared before a phase and assigned in it is
 * each thread's own; it carries a value to the functions of scan.cuh.
 */
#ifndef CT_CUDA_CUH
#define CT_CUDA_CUH

#include <stdint.h>

#ifdef CT_CUDA_SHIM
#include "gpu/device/cuda/shim.cuh"

/* Threads of every block. The build may choose fewer for the shim: a smaller block has other chunks, and its tests take
 * less time under a sanitizer. */
#ifndef CT_SHIM_BLOCK
#define CT_SHIM_BLOCK 256u
#endif
#define CT_BLOCK CT_SHIM_BLOCK
#else
#include <cuda_runtime.h>

#define CT_BLOCK 256u

#define CT_START(kernel, grid, stream, ...) (kernel<<<(grid), CT_BLOCK, 0, (stream)>>>(__VA_ARGS__))

#define CT_UNROLL _Pragma("unroll")
#endif

/* Launches the kernel. The number of kernels that were launched, to be summed: 0 or 1. A launch can fail for want of
 * memory, and only cudaGetLastError tells so; what the kernel should have written is not there then, so nothing is
 * launched until that was asked (ct_gpu_wait does). */
#define CT_LAUNCH(kernel, grid, stream, ...)                                                                           \
    (cudaPeekAtLastError() == cudaSuccess                                                                              \
         ? (CT_START(kernel, grid, stream, __VA_ARGS__), cudaPeekAtLastError() == cudaSuccess ? 1u : 0u)               \
         : 0u)

static_assert(CT_BLOCK == 64 || CT_BLOCK == 256,
              "at least two warps, and a divisor of CT_SORT_RUN and CT_VERTEX_CHUNK");

/* Blocks that a multiprocessor holds at most, of any kernel on any device: 2,048 threads. */
enum { CT_MOST_RESIDENT = 8 };

#define CT_DEVICE static __device__ inline
#define CT_KERNEL static __global__ void
/* The same, with registers bounded so that a multiprocessor holds at least so many blocks of it. */
#define CT_KERNEL_RESIDENT(blocks) static __global__ void __launch_bounds__(CT_BLOCK, blocks)
#define CT_SHARED                  __shared__

/* A kernel by its name. A file with kernels lists them all, for methods_cuda.cu, and ends the list with
 * CT_KERNELS_END. */
struct ct_kernel_entry {
    const char *name;
    const void *function;
};
#define CT_KERNEL_ENTRY(kernel)                                                                                        \
    { #kernel, (const void *)(kernel) }
#define CT_KERNELS_END                                                                                                 \
    { nullptr, nullptr }

#define CT_BLOCK_INDEX blockIdx.x
#define CT_GRID_SIZE   gridDim.x

/* One phase; t is the thread's index in its block. `continue` ends it for this thread. */
#define CT_THREADS(t) for (unsigned t = threadIdx.x, ct_once = 1; ct_once; ct_once = 0)
#define CT_BARRIER()  __syncthreads()

/* A loop over i = 0 .. n - 1 by all threads of the grid, in no order. `continue` is allowed, `break` is not. */
#define CT_FOR(i, n)                                                                                                   \
    for (uint64_t i = (uint64_t)blockIdx.x * CT_BLOCK + threadIdx.x; i < (n); i += (uint64_t)gridDim.x * CT_BLOCK)

/* The mask of the warp's threads that are active here and hold the same key, the caller among them. */
CT_DEVICE unsigned ct_peers(uint64_t key) {
    return __match_any_sync(__activemask(), (unsigned long long)key);
}

/* The next index of a list that many threads append to. The active threads of a warp take their indices by one
 * addition; only threads with the same counter, as a compiler may merge two calls. */
CT_DEVICE uint64_t ct_append_index(uint64_t *counter) {
    const unsigned peers = ct_peers((uint64_t)(uintptr_t)counter), lane = threadIdx.x & 31;
    const int first = __ffs((int)peers) - 1;
    unsigned long long index = 0;
    if ((int)lane == first) index = atomicAdd((unsigned long long *)counter, (unsigned long long)__popc(peers));
    return __shfl_sync(peers, index, first) + (unsigned)__popc(peers & ((1u << lane) - 1));
}

CT_DEVICE unsigned ct_warp_lane(void) {
    return threadIdx.x & 31;
}
CT_DEVICE int ct_first_peer(unsigned peers) {
    return __ffs((int)peers) - 1;
}
CT_DEVICE unsigned ct_count_peers(unsigned peers) {
    return (unsigned)__popc(peers);
}
/* Sums *a and *b over the peers, for the first of them. A tree in list order: after round k a thread has the sum of
 * itself and the 2^k - 1 peers after it, and `next` is the peer that follows these. */
CT_DEVICE void ct_sum_peers(unsigned peers, int64_t *a, int64_t *b) {
    const unsigned lane = ct_warp_lane(), after = peers & ~1u << lane;
    int next = after ? ct_first_peer(after) : -1;
    for (unsigned n = ct_count_peers(peers), d = 1; d < n; d *= 2) {
        const int from = next < 0 ? (int)lane : next;
        const int64_t more_a = __shfl_sync(peers, (long long)*a, from),
                      more_b = __shfl_sync(peers, (long long)*b, from);
        const int then = __shfl_sync(peers, next, from);
        if (next < 0) continue;
        *a += more_a;
        *b += more_b;
        next = then;
    }
}

/* A loop over c = 0 .. n - 1, each by one whole block. */
#define CT_EACH_BLOCK(c, n) for (uint64_t c = CT_BLOCK_INDEX; c < (n); c += CT_GRID_SIZE)

/* Loads a word that other threads may change by atomic operations. */
CT_DEVICE uint32_t ct_peek(const uint32_t *at) {
#ifdef CT_CUDA_SHIM
    return __atomic_load_n(at, __ATOMIC_RELAXED);
#else
    return *(const volatile uint32_t *)at;
#endif
}

CT_DEVICE uint64_t ct_peek(const uint64_t *at) {
#ifdef CT_CUDA_SHIM
    return __atomic_load_n(at, __ATOMIC_RELAXED);
#else
    return *(const volatile uint64_t *)at;
#endif
}

/* Integer atomics: their order does not change a bit of the result. */
CT_DEVICE uint64_t ct_atomic_add(uint64_t *to, uint64_t x) {
    return atomicAdd((unsigned long long *)to, (unsigned long long)x);
}
CT_DEVICE void ct_atomic_sum(int64_t *to, int64_t x) {
    atomicAdd((unsigned long long *)to, (unsigned long long)x);
}
/* Writes `value` where *at is `expected`. Returns what it was. */
CT_DEVICE uint64_t ct_atomic_cas(uint64_t *at, uint64_t expected, uint64_t value) {
    return atomicCAS((unsigned long long *)at, (unsigned long long)expected, (unsigned long long)value);
}
CT_DEVICE void ct_atomic_min(uint64_t *to, uint64_t x) {
    atomicMin((unsigned long long *)to, (unsigned long long)x);
}
CT_DEVICE void ct_atomic_max(uint64_t *to, uint64_t x) {
    atomicMax((unsigned long long *)to, (unsigned long long)x);
}

#endif

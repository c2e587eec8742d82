/* cuda.cuh - how device code is written here, for every .cu file: with nvcc it is CUDA, with g++ and CT_CUDA_SHIM the
 * same source runs on the CPU (shim.cuh), for tests on machines without a GPU.
 *
 * A kernel is written in phases. What each thread of a block does between two barriers stands in one CT_THREADS; what
 * stands outside is the same for the whole block; what threads tell each other lies in CT_SHARED arrays. So no barrier
 * can be divergent, and what may race is told from where it stands. A variable that is declared before a phase and
 * assigned in it is each thread's own; it carries a value to the functions of scan.cuh.
 */
#ifndef CT_CUDA_CUH
#define CT_CUDA_CUH

#include <stdint.h>

#ifdef CT_CUDA_SHIM
#include "gpu/backend/cuda/shim.cuh"

/* Threads of every block. The build may choose fewer for the shim: a smaller block has other chunks, and its tests take
 * less time under a sanitizer. */
#ifndef CT_SHIM_BLOCK
#define CT_SHIM_BLOCK 256u
#endif
#define CT_BLOCK CT_SHIM_BLOCK
#else
#include <cuda_runtime.h>

#define CT_BLOCK                             256u

/* Launches the kernel and is 1, to be summed. */
#define CT_LAUNCH(kernel, grid, stream, ...) (kernel<<<(grid), CT_BLOCK, 0, (stream)>>>(__VA_ARGS__), 1u)

#define CT_UNROLL _Pragma("unroll")
#endif

static_assert(CT_BLOCK == 64 || CT_BLOCK == 256,
              "at least two warps, and a divisor of CT_SORT_RUN and CT_VERTEX_CHUNK");

#define CT_DEVICE static __device__ inline
#define CT_KERNEL static __global__ void
#define CT_SHARED __shared__

/* A kernel by its name. A file with kernels lists them all, for load.cu, and ends the list with CT_KERNELS_END. */
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

/* Spreads i = 0 .. n - 1 over the whole grid, in no order. `continue` is allowed, `break` is not. */
#define CT_FOR(i, n)                                                                                                   \
    for (uint64_t i = (uint64_t)blockIdx.x * CT_BLOCK + threadIdx.x; i < (n); i += (uint64_t)gridDim.x * CT_BLOCK)

/* Threads of the same warp that are here together and hold the same key, the caller among them. */
CT_DEVICE unsigned ct_peers(uint64_t key) {
    return __match_any_sync(__activemask(), (unsigned long long)key);
}

/* Takes the next place of a list that many threads add to: those of a warp that are here together take theirs by one
 * addition. Others may be here for another list: nothing says that a compiler keeps two calls apart. */
CT_DEVICE uint64_t ct_append_index(uint64_t *counter) {
    const unsigned here = ct_peers((uint64_t)(uintptr_t)counter), workspace = threadIdx.x & 31;
    const int first = __ffs((int)here) - 1;
    unsigned long long place = 0;
    if ((int)workspace == first) place = atomicAdd((unsigned long long *)counter, (unsigned long long)__popc(here));
    return __shfl_sync(here, place, first) + (unsigned)__popc(here & ((1u << workspace) - 1));
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
/* Sums of what peers have, for the first of them: each has that of itself and those after it, up to the next whose sum
 * it has not; with every round twice as many. */
CT_DEVICE void ct_sum_peers(unsigned peers, int64_t *a, int64_t *b) {
    const unsigned workspace = ct_warp_lane(), after = peers & ~1u << workspace;
    int next = after ? ct_first_peer(after) : -1;
    for (unsigned n = ct_count_peers(peers), d = 1; d < n; d *= 2) {
        const int from = next < 0 ? (int)workspace : next;
        const int64_t more_a = __shfl_sync(peers, (long long)*a, from),
                      more_b = __shfl_sync(peers, (long long)*b, from);
        const int then = __shfl_sync(peers, next, from);
        if (next < 0) continue;
        *a += more_a;
        *b += more_b;
        next = then;
    }
}

/* c = 0 .. n - 1, each by one whole block. */
#define CT_EACH_BLOCK(c, n) for (uint64_t c = CT_BLOCK_INDEX; c < (n); c += CT_GRID_SIZE)

/* What stands there now, while others may change it by atomic operations. */
CT_DEVICE uint32_t ct_peek(const uint32_t *at) {
#ifdef CT_CUDA_SHIM
    return __atomic_load_n(at, __ATOMIC_RELAXED);
#else
    return *(const volatile uint32_t *)at;
#endif
}

/* Additions whose order does not matter, and so no bit of the result does. */
CT_DEVICE uint64_t ct_atomic_add(uint64_t *to, uint64_t x) {
    return atomicAdd((unsigned long long *)to, (unsigned long long)x);
}
CT_DEVICE void ct_atomic_sum(int64_t *to, int64_t x) {
    atomicAdd((unsigned long long *)to, (unsigned long long)x);
}
CT_DEVICE void ct_atomic_min(uint64_t *to, uint64_t x) {
    atomicMin((unsigned long long *)to, (unsigned long long)x);
}
CT_DEVICE void ct_atomic_max(uint64_t *to, uint64_t x) {
    atomicMax((unsigned long long *)to, (unsigned long long)x);
}

#endif

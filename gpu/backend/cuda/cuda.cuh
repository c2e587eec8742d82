/* cuda.cuh - how device code is written here, for every .cu file: with nvcc it is CUDA, with g++ and CT_CUDA_SHIM the
 * same source runs on the CPU (shim.cuh), for tests on machines without a GPU.
 *
 * A kernel is written in phases. What each thread of a block does between two barriers stands in one CT_THREADS; what
 * stands outside is the same for the whole block; what a thread keeps from one phase to the next lies in CT_SHARED
 * arrays. With nvcc CT_THREADS is one pass by each thread; in the shim it is a loop over all of them. So no barrier can
 * be divergent, no fibers are needed, and the sanitizers understand all of it.
 */
#ifndef CT_CUDA_CUH
#define CT_CUDA_CUH

#include <stdint.h>

/* Threads of every block. */
#define CT_BLOCK 256u

#ifdef CT_CUDA_SHIM
#include "gpu/backend/cuda/shim.cuh"
#else
#include <cuda_runtime.h>

#define CT_DEVICE static __device__ inline
#define CT_KERNEL static __global__ void
#define CT_SHARED __shared__

#define CT_BLOCK_INDEX blockIdx.x
#define CT_GRID_SIZE   gridDim.x

/* One phase; t is the thread's index in its block. `continue` ends it for this thread. */
#define CT_THREADS(t)  for (unsigned t = threadIdx.x, ct_once = 1; ct_once; ct_once = 0)
#define CT_BARRIER()   __syncthreads()

/* Spreads i = 0 .. n - 1 over the whole grid, in no order. `continue` is allowed, `break` is not. */
#define CT_FOR(i, n)                                                                                                   \
    for (uint64_t i = (uint64_t)blockIdx.x * CT_BLOCK + threadIdx.x; i < (n); i += (uint64_t)gridDim.x * CT_BLOCK)

/* Is 1, to be added up. */
#define CT_LAUNCH(kernel, grid, stream, ...) (kernel<<<(grid), CT_BLOCK, 0, (stream)>>>(__VA_ARGS__), 1u)

#define CT_UNROLL _Pragma("unroll")

/* Takes the next place of a list that many threads add to: those of a warp that are here together take theirs by one
 * addition. */
CT_DEVICE uint64_t ct_next_place(uint64_t *counter) {
    const unsigned here = __activemask(), lane = threadIdx.x & 31;
    const int first = __ffs((int)here) - 1;
    unsigned long long place = 0;
    if ((int)lane == first) place = atomicAdd((unsigned long long *)counter, (unsigned long long)__popc(here));
    return __shfl_sync(here, place, first) + (unsigned)__popc(here & ((1u << lane) - 1));
}

/* Threads of the same warp that are here together and hold the same key, the caller among them. */
CT_DEVICE unsigned ct_peers(uint64_t key) {
    return __match_any_sync(__activemask(), (unsigned long long)key);
}
CT_DEVICE unsigned ct_warp_lane(void) {
    return threadIdx.x & 31;
}
CT_DEVICE uint32_t ct_from_peer(unsigned peers, uint32_t value, int lane) {
    return __shfl_sync(peers, value, lane);
}
CT_DEVICE int ct_first_peer(unsigned peers) {
    return __ffs((int)peers) - 1;
}
CT_DEVICE unsigned ct_count_peers(unsigned peers) {
    return (unsigned)__popc(peers);
}
#endif

/* c = 0 .. n - 1, each by one whole block. */
#define CT_EACH_BLOCK(c, n) for (uint64_t c = CT_BLOCK_INDEX; c < (n); c += CT_GRID_SIZE)

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

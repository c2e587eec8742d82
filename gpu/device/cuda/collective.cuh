/* collective.cuh - what the threads of a block do together beside sums and sorts (scan.cuh): searches, and finding the
 * block that finishes last. */
#ifndef CT_COLLECTIVE_CUH
#define CT_COLLECTIVE_CUH

#include "gpu/device/cuda/scan.cuh"

/* The owner of element x, where owner i has the elements from first(i) on: the last i < n with first(i) <= x. first(i)
 * does not decrease and first(0) <= x; n > 0. */
template <class First> CT_DEVICE uint64_t ct_find_owner(uint64_t n, uint64_t x, First first) {
    uint64_t lo = 0, hi = n;
    while (hi - lo > 1) {
        uint64_t middle = lo + (hi - lo) / 2;
        if (first(middle) <= x)
            lo = middle;
        else
            hi = middle;
    }
    return lo;
}

/* Returns true in one block, after all others have called this; what they wrote before the call is then visible. The
 * fences order memory for thread 0, and the barriers extend that order to its block. `finished_blocks` starts at 0. */
CT_DEVICE bool ct_is_last_block(uint32_t *finished_blocks) {
    CT_SHARED bool last;
    CT_BARRIER();
    CT_THREADS(t) {
        if (t > 0) continue;
        __threadfence();
        last = atomicAdd(finished_blocks, 1u) == CT_GRID_SIZE - 1;
        __threadfence();
    }
    CT_BARRIER();
    return last;
}

#endif

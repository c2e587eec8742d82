/* collective.cuh - what the threads of a block do together: searches, sums, prefix sums, and finding the block that
 * finishes last. */
#ifndef CT_COLLECTIVE_CUH
#define CT_COLLECTIVE_CUH

#include "gpu/backend/cuda/cuda.cuh"

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

/* Sums values[CT_BLOCK], in shared memory, into values[0]. */
template <class T> CT_DEVICE void ct_block_sum(T *values) {
    CT_BARRIER();
    for (unsigned d = CT_BLOCK / 2; d > 0; d /= 2) {
        CT_THREADS(t) {
            if (t < d) values[t] += values[t + d];
        }
        CT_BARRIER();
    }
}

/* Replaces each of values[CT_BLOCK], in shared memory, by the sum of those before it. Returns the sum of all. `other`
 * is scratch of the same size. */
CT_DEVICE uint64_t ct_block_scan(uint64_t *values, uint64_t *other) {
    CT_BARRIER();
    for (unsigned d = 1; d < CT_BLOCK; d *= 2) { /* an even number of rounds */
        CT_THREADS(t) other[t] = values[t] + (t >= d ? values[t - d] : 0);
        CT_BARRIER();
        uint64_t *swap = values;
        values = other;
        other = swap;
    }
    uint64_t total = values[CT_BLOCK - 1];
    CT_THREADS(t) other[t] = t ? values[t - 1] : 0;
    CT_BARRIER();
    CT_THREADS(t) values[t] = other[t];
    CT_BARRIER();
    return total;
}

/* Calls store(i, sum of load(k) over all k < i) for every i < n, in one block. Returns the sum of all. Source and
 * destination must not overlap. */
template <class Load, class Store> CT_DEVICE uint64_t ct_scan(uint64_t n, Load load, Store store) {
    enum { EACH = 8 };
    CT_SHARED uint64_t part[CT_BLOCK], other[CT_BLOCK];
    uint64_t before = 0;
    for (uint64_t base = 0; base < n; base += CT_BLOCK * EACH) {
        CT_THREADS(t) {
            uint64_t sum = 0;
            for (unsigned k = 0; k < EACH; k++)
                if (base + t * EACH + k < n) sum += load(base + t * EACH + k);
            part[t] = sum;
        }
        uint64_t total = ct_block_scan(part, other);
        CT_THREADS(t) {
            uint64_t sum = before + part[t];
            for (unsigned k = 0; k < EACH; k++) {
                uint64_t i = base + t * EACH + k;
                if (i >= n) continue;
                uint64_t x = load(i);
                store(i, sum);
                sum += x;
            }
        }
        CT_BARRIER();
        before += total;
    }
    return before;
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

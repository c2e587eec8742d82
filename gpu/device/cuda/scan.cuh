/* scan.cuh - sums, prefix sums and sorts by the threads of one block: those of CUB with nvcc, a stand-in with the
 * shim.
 *
 * They are block-level because the numbers of elements are known on the device only, and the host must not wait for
 * them in the middle of a batch. cub::DeviceScan and cub::DeviceRadixSort take the number from the host, so they
 * would process whole capacities. They also need temporary memory and launch kernels of CUB's own, which
 * methods_cuda.cu cannot load when a device is opened. Instead the last block of the kernel that counts the elements
 * scans them (ct_scan), several counts of an element in one pass.
 *
 * All threads of a block call each of these functions together, outside CT_THREADS, with values of their own. */
#ifndef CT_SCAN_CUH
#define CT_SCAN_CUH

#include "gpu/device/cuda/cuda.cuh"

#ifdef CT_CUDA_SHIM
#include <algorithm>
#else
#include <cub/block/block_merge_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/warp/warp_reduce.cuh>
#endif

struct ct_plus {
    template <class T> __device__ T operator()(const T &a, const T &b) const {
        return a + b;
    }
};
struct ct_larger {
    template <class T> __device__ T operator()(const T &a, const T &b) const {
        return a < b ? b : a;
    }
};
struct ct_less {
    template <class T> __device__ bool operator()(const T &a, const T &b) const {
        return a < b;
    }
};

/* ---- CUB or the stand-in ---- */

/* join(...) of x of all threads, in rising order of threads. On thread 0 only; what the others get is undefined. */
template <class T, class Join> CT_DEVICE T ct_block_reduce(T x, Join join) {
#ifdef CT_CUDA_SHIM
    CT_SHARED T values[CT_BLOCK];
    CT_THREADS(t) values[t] = x;
    CT_BARRIER();
    CT_THREADS(t) {
        for (unsigned i = 1; i < CT_BLOCK && t == 0; i++) x = join(x, values[i]);
    }
#else
    typedef cub::BlockReduce<T, (int)CT_BLOCK> reduction;
    CT_SHARED typename reduction::TempStorage memory;
    x = reduction(memory).Reduce(x, join);
#endif
    CT_BARRIER();
    return x;
}

/* join(...) of x of all threads of a warp, on its first lane only; what the others get is undefined. */
template <class T, class Join> CT_DEVICE T ct_warp_reduce(T x, Join join) {
#ifdef CT_CUDA_SHIM
    CT_SHARED T values[CT_BLOCK];
    CT_THREADS(t) values[t] = x;
    CT_BARRIER();
    CT_THREADS(t) {
        for (unsigned i = 1; i < 32 && t % 32 == 0; i++) x = join(x, values[t + i]);
    }
#else
    typedef cub::WarpReduce<T> reduction;
    CT_SHARED typename reduction::TempStorage memory[CT_BLOCK / 32];
    x = reduction(memory[threadIdx.x / 32]).Reduce(x, join);
#endif
    CT_BARRIER();
    return x;
}

/* Replaces x[k] of thread t, element t EACH + k of a list, by first joined with all elements before it. Returns
 * join(...) of all elements, without `first`, on all threads. */
template <class T, int EACH, class Join> CT_DEVICE T ct_block_scan(T (&x)[EACH], T first, Join join) {
    T all;
#ifdef CT_CUDA_SHIM
    CT_SHARED T values[CT_BLOCK * EACH], total;
    CT_THREADS(t) std::copy(x, x + EACH, values + t * EACH);
    CT_BARRIER();
    CT_THREADS(t) {
        if (t > 0) continue;
        T before = first;
        total = values[0];
        for (unsigned i = 1; i < CT_BLOCK * EACH; i++) total = join(total, values[i]);
        for (unsigned i = 0; i < CT_BLOCK * EACH; i++) {
            const T value = values[i];
            values[i] = before;
            before = join(before, value);
        }
    }
    CT_BARRIER();
    CT_THREADS(t) std::copy(values + t * EACH, values + (t + 1) * EACH, x);
    all = total;
#else
    typedef cub::BlockScan<T, (int)CT_BLOCK> scan;
    CT_SHARED typename scan::TempStorage memory;
    scan(memory).ExclusiveScan(x, x, first, join, all);
#endif
    CT_BARRIER();
    return all;
}

/* Sorts the list whose element t EACH + k is keys[k] of thread t. */
template <int EACH> CT_DEVICE void ct_block_sort(uint64_t (&keys)[EACH]) {
#ifdef CT_CUDA_SHIM
    CT_SHARED uint64_t values[CT_BLOCK * EACH];
    CT_THREADS(t) std::copy(keys, keys + EACH, values + t * EACH);
    CT_BARRIER();
    CT_THREADS(t) {
        if (t == 0) std::sort(values, values + CT_BLOCK * EACH);
    }
    CT_BARRIER();
    CT_THREADS(t) std::copy(values + t * EACH, values + (t + 1) * EACH, keys);
#else
    typedef cub::BlockMergeSort<uint64_t, (int)CT_BLOCK, EACH> sort;
    CT_SHARED typename sort::TempStorage memory;
    sort(memory).Sort(keys, ct_less());
#endif
    CT_BARRIER();
}

/* ---- made of these ---- */

/* The sum of x of all threads, on thread 0. */
template <class T> CT_DEVICE T ct_block_sum(T x) {
    return ct_block_reduce(x, ct_plus());
}

/* The sum of x of the threads before this one, and in *total that of all threads. */
template <class T> CT_DEVICE T ct_block_prefix_sum(T x, T *total) {
    T item[1] = {x};
    *total = ct_block_scan(item, T(), ct_plus());
    return item[0];
}

/* The largest x of the threads before this one and of this one. */
CT_DEVICE uint32_t ct_block_prefix_max(uint32_t x) {
    uint32_t item[1] = {x};
    ct_block_scan(item, (uint32_t)0, ct_larger());
    return ct_larger()(item[0], x);
}

/* Calls store(i, sum of load(k) over all k < i) for every i < n, in one block, and returns the sum of all. T() is zero.
 * What it stores, all threads of the block see afterwards. load must not read what store writes. */
template <class T, class Load, class Store> CT_DEVICE T ct_scan(uint64_t n, Load load, Store store) {
    enum { EACH = sizeof(T) > sizeof(uint64_t) ? 2 : 4 }; /* more would take too many registers */
    T before = T();
    for (uint64_t base = 0; base < n; base += CT_BLOCK * EACH) {
        T sum[EACH];
        CT_THREADS(t) {
            for (unsigned k = 0; k < EACH; k++) {
                const uint64_t i = base + t * EACH + k;
                sum[k] = i < n ? load(i) : T();
            }
        }
        const T total = ct_block_scan(sum, T(), ct_plus());
        CT_THREADS(t) {
            for (unsigned k = 0; k < EACH; k++)
                if (base + t * EACH + k < n) store(base + t * EACH + k, before + sum[k]);
        }
        before = before + total;
    }
    CT_BARRIER();
    return before;
}

#endif

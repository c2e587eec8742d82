/* kernels.cu - kernels for test_collective_cuda.c: collective operations with known answers, and kernels that use them
 * wrongly. */
#include "gpu/device/cuda/collective.cuh"

#include <stdio.h>
#include <string.h>

namespace {

enum : unsigned { GRID = 5, N = 1000, KEYS = 7 };

struct answers {
    uint64_t n_appended, n_left_out, sum[2 * KEYS], first[N], total;
    uint32_t appended[N], finished_blocks, blocks_seen;
    uint64_t by_block[GRID];
    uint64_t block_sum, block_total, warp_least[CT_BLOCK / 32], sorted[2 * CT_BLOCK];
    uint32_t before[CT_BLOCK], largest[CT_BLOCK];
};

CT_DEVICE uint64_t value_of(uint64_t i) {
    return i * i % 97;
}

CT_KERNEL append(answers *a) {
    CT_FOR(i, (uint64_t)N) {
        if (i % 3 == 1) /* not all of a warp */
            ct_append_index(&a->n_left_out);
        else
            a->appended[ct_append_index(&a->n_appended)] = (uint32_t)i;
    }
}

/* Sums per key: the values i << 32, and -1 for each thread. */
CT_KERNEL sums(answers *a) {
    CT_FOR(i, (uint64_t)N) {
        if (i % 5 == 2) continue;
        const uint64_t key = value_of(i) % KEYS;
        const unsigned peers = ct_peers(key);
        int64_t x = (int64_t)i << 32, y = -1;
        ct_sum_peers(peers, &x, &y);
        if ((int)ct_warp_lane() != ct_first_peer(peers)) continue;
        ct_atomic_add(&a->sum[2 * key], (uint64_t)x);
        ct_atomic_add(&a->sum[2 * key + 1], (uint64_t)y);
    }
}

CT_KERNEL scan(answers *a) {
    CT_THREADS(t) {
        if (t == 0) a->by_block[CT_BLOCK_INDEX] = CT_BLOCK_INDEX + 1;
    }
    if (!ct_is_last_block(&a->finished_blocks)) return;
    const uint64_t total = ct_scan<uint64_t>((uint64_t)N, [&](uint64_t i) { return value_of(i); },
                                             [&](uint64_t i, uint64_t before) { a->first[i] = before; });
    CT_THREADS(t) {
        if (t > 0) continue;
        a->total = total;
        for (unsigned b = 0; b < CT_GRID_SIZE; b++) a->blocks_seen += a->by_block[b] == b + 1;
    }
}

CT_DEVICE uint64_t key_of(uint64_t i) {
    return (i * 0x9e3779b97f4a7c15u) ^ (i % 3 << 60);
}

/* What the threads of one block do together; each twice in a row, as its memory is used again. */
CT_KERNEL block_operations(answers *a) {
    if (CT_BLOCK_INDEX > 0) return;
    for (int round = 0; round < 2; round++) {
        uint64_t x = 0, keys[2] = {0, 0};
        CT_THREADS(t) {
            x = value_of(t);
            for (unsigned k = 0; k < 2; k++) keys[k] = key_of(2 * t + k);
        }
        uint32_t total, small = (uint32_t)x;
        const uint64_t sum = ct_block_sum(x);
        const uint32_t before = ct_block_prefix_sum(small, &total), largest = ct_block_prefix_max(small);
        const uint64_t least = ct_warp_reduce(x, [](uint64_t y, uint64_t z) { return y < z ? y : z; });
        ct_block_sort(keys);
        CT_THREADS(t) {
            if (t == 0) a->block_sum = sum;
            if (t % 32 == 0) a->warp_least[t / 32] = least;
            if (t == CT_BLOCK - 1) a->block_total = total;
            a->before[t] = before;
            a->largest[t] = largest;
            for (unsigned k = 0; k < 2; k++) a->sorted[2 * t + k] = keys[k];
        }
    }
}

/* ---- wrong ---- */

#ifdef CT_CUDA_SHIM
CT_KERNEL reads_its_neighbour(answers *a) {
    CT_SHARED uint32_t mine[CT_BLOCK];
    CT_THREADS(t) mine[t] = t;
    CT_THREADS(t) {
        if (t + 1 < CT_BLOCK && mine[t + 1] == 0) a->blocks_seen = 1;
    }
}

CT_KERNEL writes_where_others_write(answers *a) {
    CT_THREADS(t) {
        if (t == 0) a->total = CT_BLOCK_INDEX;
    }
}

CT_KERNEL counts_without_a_fence(answers *a) {
    CT_SHARED bool last;
    CT_THREADS(t) {
        if (t == 0) {
            a->by_block[CT_BLOCK_INDEX] = 1;
            last = atomicAdd(&a->finished_blocks, 1u) == CT_GRID_SIZE - 1;
        }
    }
    CT_BARRIER();
    if (!last) return;
    CT_THREADS(t) {
        for (unsigned b = 0; b < CT_GRID_SIZE && t == 0; b++) a->total += a->by_block[b];
    }
}

CT_KERNEL parts_at_a_barrier(answers *a) {
    CT_THREADS(t) {
        if (t == 3) {
            CT_BARRIER();
            a->total = 1;
        }
    }
    CT_BARRIER();
}

CT_KERNEL shuffles_with_the_absent(answers *a) {
    CT_THREADS(t) {
        if (t < 2) a->total = __shfl_sync(7u, t, 0);
    }
}

struct wrong {
    const char *name;
    void (*kernel)(answers *);
};

const wrong wrongs[] = {{"reads_its_neighbour", reads_its_neighbour},
                        {"writes_where_others_write", writes_where_others_write},
                        {"counts_without_a_fence", counts_without_a_fence},
                        {"parts_at_a_barrier", parts_at_a_barrier},
                        {"shuffles_with_the_absent", shuffles_with_the_absent}};
#endif

#define TRY(call)                                                                                                      \
    if (cudaError_t error_ = (call)) return fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error_)), false

bool open(answers **host, answers **device, cudaStream_t *stream) {
    TRY(cudaSetDevice(0));
    TRY(cudaHostAlloc(host, sizeof **host, cudaHostAllocMapped));
    memset(*host, 0, sizeof **host);
    TRY(cudaHostGetDevicePointer(device, *host, 0));
    TRY(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking));
    return true;
}

bool close(answers *host, cudaStream_t stream) {
    TRY(cudaFreeHost(host));
    TRY(cudaStreamDestroy(stream));
    return true;
}

bool expect(const char *what, uint64_t got, uint64_t expected) {
    if (got != expected)
        fprintf(stderr, "%s: %llu, expected %llu\n", what, (unsigned long long)got, (unsigned long long)expected);
    return got == expected;
}

bool is_right_in_block(const answers *a) {
    uint64_t before = 0, largest = 0, all = 0, all_sorted = 0;
    bool ok = true;
    for (uint64_t t = 0; t < CT_BLOCK; t++) {
        const uint64_t x = t * t % 97;
        largest = x > largest ? x : largest;
        ok = expect("sum of the threads before", a->before[t], before) &&
             expect("largest so far", a->largest[t], largest) && ok;
        before += x;
    }
    for (uint64_t w = 0; w < CT_BLOCK / 32; w++) {
        uint64_t least = UINT64_MAX;
        for (uint64_t t = 32 * w; t < 32 * (w + 1); t++) least = t * t % 97 < least ? t * t % 97 : least;
        ok = expect("least of a warp", a->warp_least[w], least) && ok;
    }
    for (uint64_t i = 0; i < 2 * CT_BLOCK; i++) {
        ok = expect("in order", i > 0 && a->sorted[i - 1] > a->sorted[i], 0) && ok;
        all += ((i * 0x9e3779b97f4a7c15u) ^ (i % 3 << 60)) % 1000003;
        all_sorted += a->sorted[i] % 1000003;
    }
    return expect("the same keys", all_sorted, all) && expect("sum of a block", a->block_sum, before) &&
           expect("total of a block", a->block_total, before) && ok;
}

bool is_right(const answers *a) {
    uint64_t sum[2 * KEYS] = {0}, before = 0, n_appended = 0;
    bool ok = true, used[N] = {false};
    for (uint64_t i = 0; i < N; i++) {
        const uint64_t key = (i * i % 97) % KEYS;
        n_appended += i % 3 != 1;
        ok = expect("first", a->first[i], before) && ok;
        before += i * i % 97;
        if (i % 5 == 2) continue;
        sum[2 * key] += i << 32;
        sum[2 * key + 1]--;
    }
    ok = expect("appended", a->n_appended, n_appended) && expect("left out", a->n_left_out, N - n_appended) &&
         expect("total", a->total, before) && expect("blocks seen by the last", a->blocks_seen, GRID) && ok;
    for (uint64_t i = 0; i < n_appended && ok; i++) {
        ok = expect("an index used twice, or by a thread that appends nothing",
                    used[a->appended[i]] || a->appended[i] % 3 == 1, 0);
        used[a->appended[i]] = true;
    }
    for (unsigned k = 0; k < 2 * KEYS; k++) ok = expect("sum", a->sum[k], sum[k]) && ok;
    return ok;
}

} // namespace

extern "C" bool kernels_found(void) {
    int n = 0;
    return cudaGetDeviceCount(&n) == cudaSuccess && n > 0;
}

extern "C" bool kernels_are_right(void) {
    answers *a, *device;
    cudaStream_t stream;
    if (!open(&a, &device, &stream)) return false;
    unsigned n = CT_LAUNCH(append, GRID, stream, device);
    n += CT_LAUNCH(sums, GRID, stream, device);
    n += CT_LAUNCH(scan, GRID, stream, device);
    n += CT_LAUNCH(block_operations, GRID, stream, device);
    TRY(cudaGetLastError());
    TRY(cudaStreamSynchronize(stream));
    const bool ok = n == 4 && is_right(a) && is_right_in_block(a);
    return close(a, stream) && ok;
}

/* Runs the wrong kernel of that name. False: there is none. */
extern "C" bool kernels_run_wrong(const char *name) {
#ifdef CT_CUDA_SHIM
    answers *a, *device;
    cudaStream_t stream;
    for (const wrong &w : wrongs) {
        if (strcmp(w.name, name) != 0) continue;
        if (!open(&a, &device, &stream)) return false;
        CT_LAUNCH(w.kernel, GRID, stream, device);
        TRY(cudaStreamSynchronize(stream));
        return close(a, stream);
    }
#endif
    fprintf(stderr, "no kernel %s\n", name);
    return false;
}

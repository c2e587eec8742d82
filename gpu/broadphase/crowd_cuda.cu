/* crowd_cuda.cu - scenes of many bodies: sorts each crowd's bodies along a curve through space (Morton's), and puts
 * boxes around neighbours. Any order gives the same pairs; a good one gives them in few tests. */
#include "gpu/broadphase/crowd_cuda.cuh"

#include <float.h>

/* Sorts shared keys[n], rising: a bitonic network, all of whose comparisons put the smaller number first, so that those
 * beyond the end need not be there. */
CT_DEVICE void sort_keys(uint64_t *keys, uint32_t n) {
    uint32_t padded = 1;
    while (padded < n) padded *= 2;
    CT_BARRIER();
    for (uint32_t size = 2; size <= padded; size *= 2)
        for (uint32_t d = size / 2; d > 0; d /= 2) {
            CT_THREADS(t) {
                for (uint32_t q = t; q < padded / 2; q += CT_BLOCK) {
                    const uint32_t i = q / d * 2 * d + q % d;
                    const uint32_t j = d == size / 2 ? i / size * size + size - 1 - q % d : i + d;
                    if (j >= n || keys[i] <= keys[j]) continue;
                    const uint64_t swap = keys[i];
                    keys[i] = keys[j];
                    keys[j] = swap;
                }
            }
            CT_BARRIER();
        }
}

/* Bits of x, three apart. */
CT_DEVICE uint32_t spread(uint32_t x) {
    x = (x | x << 16) & 0x030000ff;
    x = (x | x << 8) & 0x0300f00f;
    x = (x | x << 4) & 0x030c30c3;
    return (x | x << 2) & 0x09249249;
}

CT_DEVICE double center(const ct_box *box, int axis) {
    return 0.5 * box->lo[axis] + 0.5 * box->hi[axis];
}

CT_KERNEL sort(const ct_batch b) {
    const uint32_t n_cells = 1024; /* along each axis */
    CT_SHARED uint64_t keys[CT_RUN], centers[3][CT_BLOCK];
    CT_EACH_BLOCK(run, b.n_runs) {
        const ct_gpu_crowd *crowd =
            &b.crowds[ct_find(b.n_crowds, run, [&](uint64_t i) { return (uint64_t)b.crowds[i].first_run; })];
        const ct_gpu_step *step = &b.steps[crowd->step];
        const uint32_t n = step->n_bodies, n_samples = n < CT_BLOCK ? n : CT_BLOCK;
        CT_THREADS(t) {
            if (t >= n_samples) continue;
            const ct_box box = ct_gpu_box(step->bodies[(uint64_t)t * n / n_samples]);
            for (int k = 0; k < 3; k++) centers[k][t] = ct_order_key(center(&box, k));
        }
        /* Where most of them are: a few that are far away do not matter. */
        double low[3], cells[3];
        const uint32_t margin = n_samples / 16;
        for (int k = 0; k < 3; k++) {
            sort_keys(centers[k], n_samples);
            low[k] = ct_order_value(centers[k][margin]);
            const double span = ct_order_value(centers[k][n_samples - 1 - margin]) - low[k];
            cells[k] = span > 0 ? n_cells / span : 0;
        }
        const uint32_t first = (uint32_t)(run - crowd->first_run) * CT_RUN;
        const uint32_t left = n - first, count = left < CT_RUN ? left : (uint32_t)CT_RUN;
        CT_THREADS(t) {
            for (uint32_t i = t; i < count; i += CT_BLOCK) {
                const ct_box box = ct_gpu_box(step->bodies[first + i]);
                uint32_t curve = 0;
                for (int k = 0; k < 3; k++) {
                    const double c = (center(&box, k) - low[k]) * cells[k];
                    curve |= spread(c > 0 ? (c < n_cells ? (uint32_t)c : n_cells - 1) : 0u) << k;
                }
                keys[i] = (uint64_t)curve << 32 | (first + i);
            }
        }
        sort_keys(keys, count);
        CT_THREADS(t) {
            for (uint32_t i = t; i < count; i += CT_BLOCK) b.keys[crowd->first_key + first + i] = keys[i];
        }
        CT_BARRIER();
    }
}

/* Each finds its place among what other blocks have sorted. */
CT_KERNEL merge(const ct_batch b) {
    CT_FOR(i, b.n_keys) {
        const ct_gpu_crowd *crowd =
            &b.crowds[ct_find(b.n_crowds, i, [&](uint64_t c) { return (uint64_t)b.crowds[c].first_key; })];
        const ct_gpu_step *step = &b.steps[crowd->step];
        const uint64_t *keys = b.keys + crowd->first_key;
        const uint64_t n = step->n_bodies, local = i - crowd->first_key, key = keys[local];
        uint64_t place = local % CT_RUN;
        for (uint64_t first = 0; first < n; first += CT_RUN) {
            uint64_t lo = first, hi = first + CT_RUN < n ? first + CT_RUN : n;
            if (local >= lo && local < hi) continue;
            while (lo < hi) {
                const uint64_t middle = lo + (hi - lo) / 2;
                if (keys[middle] < key)
                    lo = middle + 1;
                else
                    hi = middle;
            }
            place += lo - first;
        }
        const uint64_t row = step->first_body + (uint32_t)key;
        b.nodes[crowd->level[0] + place] = ct_node_of(step, row);
        b.row_count[row] = 0;
    }
}

/* All that up to CT_FAN nodes hold. */
CT_DEVICE ct_gpu_node around(const ct_gpu_node *nodes, uint64_t n) {
    ct_gpu_node all = {{DBL_MAX, DBL_MAX, DBL_MAX}, {-DBL_MAX, -DBL_MAX, -DBL_MAX}, 0, 0, 0, 0};
    for (uint64_t i = 0; i < n; i++) {
        if (!nodes[i].group) continue;
        for (int k = 0; k < 3; k++) {
            if (nodes[i].lo[k] < all.lo[k]) all.lo[k] = nodes[i].lo[k];
            if (nodes[i].hi[k] > all.hi[k]) all.hi[k] = nodes[i].hi[k];
        }
        all.group |= nodes[i].group;
        all.mask |= nodes[i].mask;
    }
    return all;
}

/* Nodes [first, last) of a level above the bodies. */
CT_DEVICE void make_level(const ct_batch &b, const ct_gpu_crowd *crowd, uint32_t level, uint64_t first, uint64_t last) {
    const uint64_t below = ct_gpu_level_size(b.steps[crowd->step].n_bodies, level - 1);
    CT_THREADS(t) {
        for (uint64_t i = first + t; i < last; i += CT_BLOCK) {
            const uint64_t child = i * CT_FAN, end = child + CT_FAN < below ? child + CT_FAN : below;
            b.nodes[crowd->level[level] + i] = around(&b.nodes[crowd->level[level - 1] + child], end - child);
        }
    }
    CT_BARRIER();
}

CT_KERNEL hull(const ct_batch b) {
    CT_EACH_BLOCK(run, b.n_runs) {
        const ct_gpu_crowd *crowd =
            &b.crowds[ct_find(b.n_crowds, run, [&](uint64_t i) { return (uint64_t)b.crowds[i].first_run; })];
        const uint64_t from = (run - crowd->first_run) * CT_RUN;
        for (uint32_t level = 1; level <= CT_RUN_LEVELS && level <= crowd->top; level++) {
            const uint64_t first = from >> CT_FAN_BITS * level, end = first + (CT_RUN >> CT_FAN_BITS * level);
            const uint64_t all = ct_gpu_level_size(b.steps[crowd->step].n_bodies, level);
            make_level(b, crowd, level, first, end < all ? end : all);
        }
    }
    /* What is above is little. */
    if (!ct_is_last_block(&b.counts->done[4])) return;
    for (uint32_t i = 0; i < b.n_crowds; i++)
        for (uint32_t level = CT_RUN_LEVELS + 1; level <= b.crowds[i].top; level++)
            make_level(b, &b.crowds[i], level, 0, ct_gpu_level_size(b.steps[b.crowds[i].step].n_bodies, level));
}

unsigned ct_cuda_crowds(const ct_batch *batch, unsigned grid, cudaStream_t stream) {
    if (!batch->n_crowds) return 0;
    unsigned n = CT_LAUNCH(sort, grid, stream, *batch);
    n += CT_LAUNCH(merge, grid, stream, *batch);
    n += CT_LAUNCH(hull, grid, stream, *batch);
    return n;
}

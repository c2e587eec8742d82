/* crowd_cuda.cu - scenes of many bodies: sorts each crowd's bodies along Morton's space-filling curve and builds a BVH
 * above them. The pairs do not depend on the order; the number of box tests does. */
#include "gpu/scene/crowd_cuda.cuh"

#include <float.h>

/* Puts two zero bits between any two of the ten low bits of x. */
CT_DEVICE uint32_t spread_bits(uint32_t x) {
    x = (x | x << 16) & 0x030000ff;
    x = (x | x << 8) & 0x0300f00f;
    x = (x | x << 4) & 0x030c30c3;
    return (x | x << 2) & 0x09249249;
}

CT_DEVICE double center(const ct_box *box, int axis) {
    return 0.5 * box->lo[axis] + 0.5 * box->hi[axis];
}

/* Sorts runs of CT_SORT_RUN bodies by their position on the curve. */
CT_KERNEL sort_runs(const ct_pair_tables b) {
    const uint32_t n_cells = 1024; /* along each axis */
    enum { EACH = CT_SORT_RUN / CT_BLOCK };
    CT_SHARED uint64_t low_keys[3], high_keys[3];
    CT_EACH_BLOCK(run, b.n_runs) {
        const ct_gpu_crowd *crowd =
            &b.crowds[ct_find_owner(b.n_crowds, run, [&](uint64_t i) { return (uint64_t)b.crowds[i].first_run; })];
        const ct_gpu_step *step = &b.steps[crowd->step];
        const uint32_t n = step->n_bodies, n_samples = n < CT_BLOCK ? n : CT_BLOCK;
        /* The curve's cells divide the box around a sample of the bodies' centres, without the outermost sixteenth at
         * either end: a few bodies far away would make all cells too large. */
        const uint32_t margin = n_samples / 16;
        for (int k = 0; k < 3; k++) {
            uint64_t key[1] = {UINT64_MAX}; /* after all centres */
            CT_THREADS(t) {
                if (t >= n_samples) continue;
                const ct_box box = ct_gpu_box(step->bodies[(uint64_t)t * n / n_samples]);
                key[0] = ct_order_key(center(&box, k));
            }
            ct_block_sort(key);
            CT_THREADS(t) {
                if (t == margin) low_keys[k] = key[0];
                if (t == n_samples - 1 - margin) high_keys[k] = key[0];
            }
        }
        CT_BARRIER();
        double low[3], cells[3]; /* cells per metre */
        for (int k = 0; k < 3; k++) {
            low[k] = ct_order_value(low_keys[k]);
            const double span = ct_order_value(high_keys[k]) - low[k];
            cells[k] = span > 0 ? n_cells / span : 0;
        }
        const uint32_t first = (uint32_t)(run - crowd->first_run) * CT_SORT_RUN;
        const uint32_t left = n - first, count = left < CT_SORT_RUN ? left : (uint32_t)CT_SORT_RUN;
        uint64_t keys[EACH];
        CT_THREADS(t) {
            for (uint32_t e = 0; e < EACH; e++) {
                const uint32_t i = t * EACH + e;
                keys[e] = UINT64_MAX; /* after all bodies */
                if (i >= count) continue;
                const ct_box box = ct_gpu_box(step->bodies[first + i]);
                uint32_t curve = 0;
                for (int k = 0; k < 3; k++) {
                    const double c = (center(&box, k) - low[k]) * cells[k];
                    curve |= spread_bits(c > 0 ? (c < n_cells ? (uint32_t)c : n_cells - 1) : 0u) << k;
                }
                keys[e] = (uint64_t)curve << 32 | (first + i);
            }
        }
        ct_block_sort(keys);
        CT_THREADS(t) {
            for (uint32_t e = 0; e < EACH; e++)
                if (t * EACH + e < count) b.curve_keys[0][crowd->first_key + first + t * EACH + e] = keys[e];
        }
        CT_BARRIER();
    }
}

/* Runs that become one. A crowd of 8,192 bodies takes one launch, one of a million three; and a key is looked for in few
 * runs of each. The shim's are fewer, so that a test of several launches takes few bodies. */
#ifdef CT_CUDA_SHIM
enum { MERGED_RUNS = 4 };
#else
enum { MERGED_RUNS = 16 };
#endif

/* Merges runs of so many bodies, MERGED_RUNS at a time: a key's position is its position in its own run plus the number
 * of smaller keys in each other run. to: NULL where each crowd becomes one run: then the bodies' nodes are written. */
CT_KERNEL merge_runs(const ct_pair_tables b, const uint64_t *from, uint64_t *to, uint64_t run) {
    CT_FOR(i, b.n_keys) {
        const ct_gpu_crowd *crowd =
            &b.crowds[ct_find_owner(b.n_crowds, i, [&](uint64_t c) { return (uint64_t)b.crowds[c].first_key; })];
        const ct_gpu_step *step = &b.steps[crowd->step];
        const uint64_t *keys = from + crowd->first_key;
        const uint64_t local = i - crowd->first_key, key = keys[local];
        const uint64_t merged = MERGED_RUNS * run, begin = local / merged * merged;
        const uint64_t end = begin + merged < step->n_bodies ? begin + merged : step->n_bodies;
        uint64_t index = begin + local % run;
        for (uint64_t first = begin; first < end; first += run) {
            uint64_t lo = first, hi = first + run < end ? first + run : end;
            if (local >= lo && local < hi) continue;
            while (lo < hi) {
                const uint64_t middle = lo + (hi - lo) / 2;
                if (keys[middle] < key)
                    lo = middle + 1;
                else
                    hi = middle;
            }
            index += lo - first;
        }
        if (to) {
            to[crowd->first_key + index] = key;
            continue;
        }
        const uint64_t row = step->first_body + (uint32_t)key;
        b.nodes[crowd->first_node[0] + index] = ct_node_of_body(step, row);
        b.row_count[row] = 0;
    }
}

/* The parent of n nodes. */
CT_DEVICE ct_gpu_node parent_of(const ct_gpu_node *nodes, uint64_t n) {
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

/* Builds nodes [first, last) of a level above the bodies. */
CT_DEVICE void build_level(const ct_pair_tables &b, const ct_gpu_crowd *crowd, uint32_t level, uint64_t first,
                           uint64_t last) {
    const uint64_t below = ct_bvh_level_size(b.steps[crowd->step].n_bodies, level - 1);
    CT_THREADS(t) {
        for (uint64_t i = first + t; i < last; i += CT_BLOCK) {
            const uint64_t child = i * CT_BVH_FANOUT,
                           end = child + CT_BVH_FANOUT < below ? child + CT_BVH_FANOUT : below;
            b.nodes[crowd->first_node[level] + i] =
                parent_of(&b.nodes[crowd->first_node[level - 1] + child], end - child);
        }
    }
    CT_BARRIER();
}

CT_KERNEL build_bvh(const ct_pair_tables b) {
    CT_EACH_BLOCK(run, b.n_runs) {
        const ct_gpu_crowd *crowd =
            &b.crowds[ct_find_owner(b.n_crowds, run, [&](uint64_t i) { return (uint64_t)b.crowds[i].first_run; })];
        const uint64_t from = (run - crowd->first_run) * CT_SORT_RUN;
        for (uint32_t level = 1; level <= CT_SORT_RUN_LEVELS && level <= crowd->root_level; level++) {
            const uint64_t first = from >> CT_BVH_FANOUT_BITS * level,
                           end = first + (CT_SORT_RUN >> CT_BVH_FANOUT_BITS * level);
            const uint64_t all = ct_bvh_level_size(b.steps[crowd->step].n_bodies, level);
            build_level(b, crowd, level, first, end < all ? end : all);
        }
    }
    /* The levels above have few nodes: the last block builds them. */
    if (!ct_is_last_block(&b.counts->finished_blocks[CT_LAST_OF_BVH])) return;
    for (uint32_t i = 0; i < b.n_crowds; i++)
        for (uint32_t level = CT_SORT_RUN_LEVELS + 1; level <= b.crowds[i].root_level; level++)
            build_level(b, &b.crowds[i], level, 0, ct_bvh_level_size(b.steps[b.crowds[i].step].n_bodies, level));
}

const ct_kernel_entry ct_crowd_kernels[] = {CT_KERNEL_ENTRY(sort_runs), CT_KERNEL_ENTRY(merge_runs),
                                            CT_KERNEL_ENTRY(build_bvh), CT_KERNELS_END};

unsigned ct_cuda_build_crowds(const ct_pair_tables *tables, unsigned grid, cudaStream_t stream) {
    if (!tables->n_crowds) return 0;
    unsigned n = CT_LAUNCH(sort_runs, grid, stream, *tables);
    uint64_t *const *keys = tables->curve_keys;
    bool is_last = false;
    for (uint64_t run = CT_SORT_RUN, from = 0; !is_last; run *= MERGED_RUNS, from = 1 - from) {
        is_last = MERGED_RUNS * run >= tables->most_keys;
        uint64_t *const to = is_last ? (uint64_t *)NULL : keys[1 - from];
        n += CT_LAUNCH(merge_runs, grid, stream, *tables, keys[from], to, run);
    }
    n += CT_LAUNCH(build_bvh, grid, stream, *tables);
    return n;
}

/* pairs_cuda.cu - the broad phase of a batch: all pairs of overlapping boxes of each scene. In a small scene each body
 * is tested against all those after it, CT_BLOCK of them at a time in shared memory. In a crowd it is tested against
 * the BVH that crowd_cuda.cu built. */
#include "gpu/broadphase/crowd_cuda.cuh"

/* Small scenes: counts the pairs whose first body each body is, or writes them. */
template <bool WRITE> CT_DEVICE void test_small_scenes(const ct_pair_tables &b) {
    CT_SHARED ct_gpu_node first_nodes[CT_BLOCK], second_nodes[CT_BLOCK];
    CT_SHARED uint32_t step[CT_BLOCK], found[CT_BLOCK];
    const uint64_t n_blocks = (b.n_bodies + CT_BLOCK - 1) / CT_BLOCK;
    CT_EACH_BLOCK(c, n_blocks) {
        const uint64_t first = c * CT_BLOCK;
        const uint64_t last = first + CT_BLOCK < b.n_bodies ? first + CT_BLOCK : b.n_bodies;
        CT_THREADS(t) {
            found[t] = 0;
            if (first + t >= last) continue;
            step[t] = (uint32_t)ct_step_of_body(b, first + t);
            first_nodes[t] = second_nodes[t] = ct_node_of_body(&b.steps[step[t]], first + t);
        }
        CT_BARRIER();
        const ct_gpu_step *final = &b.steps[step[last - 1 - first]];
        const uint64_t end = (uint64_t) final->first_body + (ct_gpu_is_crowd(final) ? 0 : final->n_bodies);
        for (uint64_t base = first; base < end; base += CT_BLOCK) {
            CT_THREADS(t) {
                if (base > first && base + t < end) second_nodes[t] = ct_node_of_body(final, base + t);
            }
            CT_BARRIER();
            CT_THREADS(t) {
                const uint64_t row = first + t;
                if (row >= last || ct_gpu_is_crowd(&b.steps[step[t]])) continue;
                const ct_gpu_step *s = &b.steps[step[t]];
                uint64_t to = (uint64_t)s->first_body + s->n_bodies, from = row + 1 > base ? row + 1 : base;
                if (to > base + CT_BLOCK) to = base + CT_BLOCK;
                for (uint64_t other = from; other < to; other++) {
                    if (!ct_nodes_meet(&first_nodes[t], &second_nodes[other - base])) continue;
                    if (s->n_ignored && ct_is_ignored(s, row - s->first_body, other - s->first_body)) continue;
                    if (WRITE) {
                        ct_gpu_pair *pair = &b.pairs[b.row_offset[row] + found[t]];
                        pair->step = step[t];
                        pair->body[0] = (uint32_t)row;
                        pair->body[1] = (uint32_t)other;
                    }
                    found[t]++;
                }
            }
            CT_BARRIER();
        }
        CT_THREADS(t) {
            if (!WRITE && first + t < last && !ct_gpu_is_crowd(&b.steps[step[t]])) b.row_count[first + t] = found[t];
        }
        CT_BARRIER();
    }
}

/* Crowds: the same, with one thread for a body and a root of the BVH. Counting adds to row_count; writing counts it
 * down to 0 again, which numbers the pairs of a row. */
template <bool WRITE> CT_DEVICE void test_crowds(const ct_pair_tables &b) {
    CT_SHARED uint64_t tests[CT_BLOCK];
    CT_EACH_BLOCK(chunk, b.n_test_chunks) {
        const ct_gpu_crowd *crowd = &b.crowds[ct_find_owner(
            b.n_crowds, chunk, [&](uint64_t i) { return (uint64_t)b.crowds[i].first_test_chunk; })];
        const ct_gpu_step *step = &b.steps[crowd->step];
        const uint64_t n = step->n_bodies, blocks = (n + CT_BLOCK - 1) / CT_BLOCK;
        const uint64_t root = (chunk - crowd->first_test_chunk) / blocks,
                       block = (chunk - crowd->first_test_chunk) % blocks;
        CT_THREADS(t) {
            tests[t] = 0;
            const uint64_t index = block * CT_BLOCK + t;
            if (index >= n) continue;
            const uint32_t body = b.nodes[crowd->first_node[0] + index].body;
            tests[t] = ct_traverse_crowd(b, crowd, index, root, [&](uint32_t other) {
                const uint32_t i = body < other ? body : other, j = body < other ? other : body;
                if (step->n_ignored && ct_is_ignored(step, i - step->first_body, j - step->first_body)) return;
                const uint32_t left = atomicAdd(&b.row_count[i], WRITE ? ~(uint32_t)0 : (uint32_t)1);
                if (!WRITE) return;
                const uint64_t to = b.row_offset[i] + left - 1;
                const ct_gpu_unsorted_pair pair = {{i, j}};
                b.unsorted_pairs[to] = pair;
                b.pairs[to].step = crowd->step;
            });
        }
        if (WRITE) continue;
        ct_block_sum(tests);
        CT_THREADS(t) {
            if (t == 0) ct_atomic_add(&b.step_box_tests[crowd->step], tests[0]);
        }
        CT_BARRIER();
    }
}

CT_KERNEL count_pairs(const ct_pair_tables b) {
    CT_FOR(i, b.n_box_updates) {
        b.out_boxes[i] = ct_gpu_box(b.box_updates[i].body);
        b.out_volumes[i] = ct_gpu_volume(b.box_updates[i].body);
    }
    CT_FOR(i, b.n_bodies) {
        const ct_gpu_step *step = &b.steps[ct_step_of_body(b, i)];
        b.bodies[i] = step->bodies[i - step->first_body];
    }
    test_small_scenes<false>(b);
    test_crowds<false>(b);
    if (!ct_is_last_block(&b.counts->finished_blocks[CT_LAST_OF_COUNT_PAIRS])) return;
    const uint64_t total = ct_scan(
        b.n_bodies, [&](uint64_t i) { return (uint64_t)b.row_count[i]; },
        [&](uint64_t i, uint64_t before) { b.row_offset[i] = before; });
    CT_THREADS(t) {
        if (t > 0) continue;
        b.row_offset[b.n_bodies] = total;
        b.counts->pairs = total;
    }
}

CT_KERNEL write_pairs(const ct_pair_tables b) {
    if (b.counts->pairs > b.capacity.pairs) return;
    test_small_scenes<true>(b);
    test_crowds<true>(b);
}

const ct_kernel_entry ct_pair_kernels[] = {CT_KERNEL_ENTRY(count_pairs), CT_KERNEL_ENTRY(write_pairs), CT_KERNELS_END};

unsigned ct_cuda_find_pairs(const ct_pair_tables *tables, unsigned grid, cudaStream_t stream) {
    unsigned n = CT_LAUNCH(count_pairs, grid, stream, *tables);
    n += CT_LAUNCH(write_pairs, grid, stream, *tables);
    return n;
}

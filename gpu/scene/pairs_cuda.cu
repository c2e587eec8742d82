/* pairs_cuda.cu - the broad phase of a batch: all pairs of overlapping boxes of each scene, in rising order. In a small
 * scene each body is tested against all those after it, CT_BLOCK of them at a time in shared memory. In a crowd it is
 * tested against the BVH that crowd_cuda.cu built; the pairs are then found in no order, and sort_rows sorts them. */
#include "gpu/scene/crowd_cuda.cuh"

CT_DEVICE bool meets_itself(const ct_gpu_step *step, uint64_t body) {
    return step->bodies[body - step->first_body]->meets_itself;
}

CT_DEVICE void write_pair(const ct_pair_tables &b, uint64_t index, uint32_t step, uint64_t first, uint64_t second) {
    ct_gpu_pair *pair = &b.pairs[index];
    pair->step = step;
    pair->body[0] = (uint32_t)first;
    pair->body[1] = (uint32_t)second;
}

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
                if (base == first && meets_itself(s, row)) {
                    if (WRITE) write_pair(b, b.row_offset[row], step[t], row, row);
                    found[t]++;
                }
                uint64_t to = (uint64_t)s->first_body + s->n_bodies, from = row + 1 > base ? row + 1 : base;
                if (to > base + CT_BLOCK) to = base + CT_BLOCK;
                for (uint64_t other = from; other < to; other++) {
                    if (!ct_nodes_meet(&first_nodes[t], &second_nodes[other - base])) continue;
                    if (ct_is_ignored(s, row - s->first_body, other - s->first_body)) continue;
                    if (WRITE) write_pair(b, b.row_offset[row] + found[t], step[t], row, other);
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
    CT_EACH_BLOCK(chunk, b.n_test_chunks) {
        const ct_gpu_crowd *crowd = &b.crowds[ct_find_owner(
            b.n_crowds, chunk, [&](uint64_t i) { return (uint64_t)b.crowds[i].first_test_chunk; })];
        const ct_gpu_step *step = &b.steps[crowd->step];
        const uint64_t n = step->n_bodies, blocks = (n + CT_BLOCK - 1) / CT_BLOCK;
        const uint64_t root = (chunk - crowd->first_test_chunk) / blocks,
                       block = (chunk - crowd->first_test_chunk) % blocks;
        uint64_t tests = 0;
        CT_THREADS(t) {
            const uint64_t index = block * CT_BLOCK + t;
            if (index >= n) continue;
            const uint32_t body = b.nodes[crowd->first_node[0] + index].body;
            const auto add = [&](uint32_t i, uint32_t j) {
                const uint32_t left = atomicAdd(&b.row_count[i], WRITE ? ~(uint32_t)0 : (uint32_t)1);
                if (!WRITE) return;
                const uint64_t to = b.row_offset[i] + left - 1;
                const ct_gpu_unsorted_pair pair = {{i, j}};
                b.unsorted_pairs[to] = pair;
                b.pairs[to].step = crowd->step;
            };
            if (root == 0 && meets_itself(step, body)) add(body, body);
            tests = ct_traverse_crowd(b, crowd, index, root, [&](uint32_t other) {
                const uint32_t i = body < other ? body : other, j = body < other ? other : body;
                if (!ct_is_ignored(step, i - step->first_body, j - step->first_body)) add(i, j);
            });
        }
        if (WRITE) continue;
        tests = ct_block_sum(tests);
        CT_THREADS(t) {
            if (t == 0) ct_atomic_add(&b.step_box_tests[crowd->step], tests);
        }
    }
}

CT_KERNEL count_pairs(const ct_pair_tables b) {
    CT_FOR(i, b.n_box_updates) {
        ct_gpu_body *body = b.box_updates[i].body;
        b.out_boxes[i] = ct_gpu_box(body);
        b.out_volumes[i] = ct_gpu_volume(body);
        if (b.box_updates[i].measures_volume) body->is_inverted = b.out_volumes[i] < 0;
    }
    CT_FOR(i, b.n_bodies) {
        const ct_gpu_step *step = &b.steps[ct_step_of_body(b, i)];
        b.bodies[i] = step->bodies[i - step->first_body];
    }
    test_small_scenes<false>(b);
    test_crowds<false>(b);
    if (!ct_is_last_block(&b.counts->finished_blocks[CT_LAST_OF_COUNT_PAIRS])) return;
    const uint64_t total = ct_scan<uint64_t>(
        b.n_bodies, [&](uint64_t i) { return (uint64_t)b.row_count[i]; },
        [&](uint64_t i, uint64_t before) {
            b.row_offset[i] = before;
            if (b.row_count[i] > CT_LIGHT_ROW) b.heavy_rows[ct_append_index(&b.counts->heavy_rows)] = (uint32_t)i;
        });
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

/* ---- the order of a crowd's pairs ---- */

CT_DEVICE void place_pair(const ct_pair_tables &b, const ct_gpu_unsorted_pair *pair, uint64_t index) {
    for (int k = 0; k < 2; k++) b.pairs[index].body[k] = pair->body[k];
}

/* A light row: a pair's rank is the number of smaller second bodies, which its thread counts. */
CT_DEVICE void sort_light_row(const ct_pair_tables &b, uint64_t p) {
    const ct_gpu_unsorted_pair pair = b.unsorted_pairs[p];
    const uint64_t first = b.row_offset[pair.body[0]], end = b.row_offset[pair.body[0] + 1];
    if (end - first > CT_LIGHT_ROW) return;
    uint64_t index = first;
    for (uint64_t q = first; q < end; q++) index += b.unsorted_pairs[q].body[1] < pair.body[1];
    place_pair(b, &pair, index);
}

/* 2,048 words cover 65,536 bodies, so few crowds need more than one pass, and two such arrays take 16 KiB of shared
 * memory. The shim's cover 8,192, so that a test of several passes takes few bodies. */
#ifdef CT_CUDA_SHIM
enum { BITMAP_WORDS = CT_BLOCK };
#else
enum { BITMAP_WORDS = 2048 };
#endif

/* A heavy row, as of the ground that thousands of bodies lie on: one block marks the second bodies, which are distinct,
 * in a bitmap. A pair's rank is the number of bits set before its own. The bitmap covers BITMAP_BODIES bodies a pass,
 * so a row of n pairs in a crowd of m bodies takes n (1 + m / 65,536) + m / 32 operations: for crowds of up to a
 * million bodies, less than n log n. */
CT_DEVICE void sort_heavy_row(const ct_pair_tables &b, uint64_t row) {
    enum { THREAD_WORDS = BITMAP_WORDS / CT_BLOCK, BITMAP_BODIES = 32 * BITMAP_WORDS };
    CT_SHARED uint32_t present[BITMAP_WORDS], n_before[BITMAP_WORDS]; /* n_before: bits set in the words before */
    const ct_gpu_step *step = &b.steps[ct_step_of_body(b, row)];
    const uint64_t end_body = (uint64_t)step->first_body + step->n_bodies;
    const uint64_t first = b.row_offset[row], end = b.row_offset[row + 1];
    uint64_t index = first; /* of the bitmap's first pair */
    for (uint64_t base = row; base < end_body; base += BITMAP_BODIES) {
        CT_THREADS(t) {
            for (unsigned w = t; w < BITMAP_WORDS; w += CT_BLOCK) present[w] = 0;
        }
        CT_BARRIER();
        CT_THREADS(t) {
            for (uint64_t q = first + t; q < end; q += CT_BLOCK) {
                const uint64_t bit = b.unsorted_pairs[q].body[1] - base; /* huge if the body is before base */
                if (bit < BITMAP_BODIES) atomicAdd(&present[bit / 32], 1u << bit % 32); /* sets it: it was 0 */
            }
        }
        CT_BARRIER();
        uint32_t n_bits = 0, total;
        CT_THREADS(t) {
            for (unsigned w = t * THREAD_WORDS; w < (t + 1) * THREAD_WORDS; w++) n_bits += (uint32_t)__popc(present[w]);
        }
        n_bits = ct_block_prefix_sum(n_bits, &total);
        CT_THREADS(t) {
            for (unsigned w = t * THREAD_WORDS; w < (t + 1) * THREAD_WORDS; w++) {
                n_before[w] = n_bits;
                n_bits += (uint32_t)__popc(present[w]);
            }
        }
        CT_BARRIER();
        CT_THREADS(t) {
            for (uint64_t q = first + t; q < end; q += CT_BLOCK) {
                const ct_gpu_unsorted_pair pair = b.unsorted_pairs[q];
                const uint64_t bit = pair.body[1] - base;
                if (bit >= BITMAP_BODIES) continue;
                const uint32_t before = present[bit / 32] & ((1u << bit % 32) - 1);
                place_pair(b, &pair, index + n_before[bit / 32] + (uint32_t)__popc(before));
            }
        }
        CT_BARRIER();
        index += total;
    }
}

/* Sorts each row of a crowd by its second bodies, from unsorted_pairs into pairs. */
CT_KERNEL sort_rows(const ct_pair_tables b) {
    if (b.counts->pairs > b.capacity.pairs) return;
    CT_FOR(p, b.counts->pairs) {
        if (ct_gpu_is_crowd(&b.steps[b.pairs[p].step])) sort_light_row(b, p);
    }
    CT_EACH_BLOCK(i, b.counts->heavy_rows) sort_heavy_row(b, b.heavy_rows[i]);
}

const ct_kernel_entry ct_pair_kernels[] = {CT_KERNEL_ENTRY(count_pairs), CT_KERNEL_ENTRY(write_pairs),
                                           CT_KERNEL_ENTRY(sort_rows), CT_KERNELS_END};

unsigned ct_cuda_find_pairs(const ct_pair_tables *tables, unsigned grid, cudaStream_t stream) {
    unsigned n = CT_LAUNCH(count_pairs, grid, stream, *tables);
    n += CT_LAUNCH(write_pairs, grid, stream, *tables);
    if (tables->n_crowds) n += CT_LAUNCH(sort_rows, grid, stream, *tables);
    return n;
}

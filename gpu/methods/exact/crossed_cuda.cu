/* crossed_cuda.cu - from a cluster's crossings to the integrals of its crossed triangles, and to the winding numbers of
 * its vertices relative to each other: what cross_cpu.c does on the CPU, a block for each crossed cluster. */
#include "gpu/device/cuda/collective.cuh"
#include "gpu/methods/exact/exact_cuda.cuh"

/* ---- order ---- */

/* The first of n rising keys that is not less than `key`. */
CT_DEVICE uint32_t find_key(const uint64_t *keys, uint32_t n, uint64_t key) {
    uint32_t lo = 0, hi = n;
    while (lo < hi) {
        const uint32_t middle = lo + (hi - lo) / 2;
        if (keys[middle] < key)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo;
}

/* Sorts n crossings from `first` on by their keys, all of which differ. Runs of a block are sorted by counting smaller
 * keys, and then merged: a key's place is its own in its run and that among its neighbour's. Returns the list in which
 * they end up. */
CT_DEVICE uint32_t sort_crossings(const ct_exact_tables &b, uint64_t first, uint32_t n) {
    CT_SHARED uint64_t run[CT_BLOCK];
    uint64_t *keys[2] = {b.crossing_keys + first, b.crossing_keys + b.capacity.crossings + first};
    uint32_t *index[2] = {b.crossing_index + first, b.crossing_index + b.capacity.crossings + first};
    for (uint32_t base = 0; base < n; base += CT_BLOCK) {
        const uint32_t length = n - base < CT_BLOCK ? n - base : CT_BLOCK;
        CT_THREADS(t) {
            if (t < length) run[t] = keys[0][base + t];
        }
        CT_BARRIER();
        CT_THREADS(t) {
            if (t >= length) continue;
            uint32_t rank = 0;
            for (uint32_t i = 0; i < length; i++) rank += run[i] < run[t];
            keys[1][base + rank] = run[t];
            index[1][base + rank] = index[0][base + t];
        }
        CT_BARRIER();
    }
    uint32_t from = 1;
    for (uint32_t width = CT_BLOCK; width < n; width *= 2) {
        CT_THREADS(t) {
            for (uint32_t i = t; i < n; i += CT_BLOCK) {
                const uint32_t pair = i / width / 2 * 2 * width, own = i / width * width;
                const uint32_t other = own == pair ? pair + width : pair;
                const uint32_t in_other = other >= n ? 0 : n - other < width ? n - other : width;
                const uint64_t key = keys[from][i];
                const uint32_t to = pair + (i - own) + find_key(keys[from] + other, in_other, key);
                keys[1 - from][to] = key;
                index[1 - from][to] = index[from][i];
            }
        }
        CT_BARRIER();
        from = 1 - from;
    }
    return from;
}

/* ---- sums ---- */

CT_DEVICE uint32_t triangle_of_key(uint64_t key) {
    return (uint32_t)(key >> 34);
}

CT_DEVICE uint32_t passes_of_key(uint64_t key) {
    return (uint32_t)key & 3;
}

/* Sums over each triangle's crossings, in their order: a thread for each number of each triangle. */
CT_DEVICE void total_triangles(const ct_exact_tables &b, ct_exact_crossed *crossed, uint32_t n) {
    enum : uint32_t { SUMS = CT_INTEGRALS + 2, NUMBERS = SUMS + 3 + 1 };
    const uint64_t list = crossed->sorted * b.capacity.crossings + crossed->first;
    const uint64_t *keys = b.crossing_keys + list;
    const uint32_t *index = b.crossing_index + list;
    CT_THREADS(t) {
        for (uint32_t i = t; i < CT_CLUSTER_TRIANGLES; i += CT_BLOCK) crossed->first_of[i] = 0;
        if (t < 2) crossed->n_in_pass[t] = 0;
    }
    CT_BARRIER();
    CT_THREADS(t) {
        for (uint32_t i = t; i < n; i += CT_BLOCK)
            if (i == 0 || triangle_of_key(keys[i]) != triangle_of_key(keys[i - 1]))
                crossed->first_of[triangle_of_key(keys[i])] = i + 1;
    }
    CT_BARRIER();
    CT_THREADS(t) {
        for (uint32_t i = t; i < CT_CLUSTER_TRIANGLES * NUMBERS; i += CT_BLOCK) {
            const uint32_t triangle = i / NUMBERS, number = i % NUMBERS, first = crossed->first_of[triangle];
            if (!first) continue;
            double sum[2] = {0, 0};
            int32_t count[2] = {0, 0};
            for (uint32_t at = first - 1; at < n && triangle_of_key(keys[at]) == triangle; at++) {
                const ct_exact_crossing *c = &b.crossings[index[at]];
                for (uint32_t pass = 0; pass < 2; pass++) {
                    if (!(passes_of_key(keys[at]) >> pass & 1)) continue;
                    if (number < SUMS)
                        sum[pass] += c->of[number];
                    else
                        count[pass] += number < SUMS + 3 ? c->jump[number - SUMS] : 1;
                }
            }
            for (uint32_t pass = 0; pass < 2; pass++) {
                ct_exact_total *to = &b.totals[2 * (crossed->first + first - 1) + pass];
                if (number < SUMS) {
                    to->of[number] = sum[pass];
                } else if (number < SUMS + 3) {
                    to->jump[number - SUMS] = count[pass];
                } else {
                    to->n = (uint32_t)count[pass];
                    atomicAdd(&crossed->n_in_pass[pass], to->n);
                }
            }
        }
    }
    CT_BARRIER();
}

/* ---- winding numbers ---- */

/* Of a triangle in a pass; NULL: it is not crossed. */
CT_DEVICE const ct_exact_total *total_of(const ct_exact_tables &b, const ct_exact_crossed *crossed, uint32_t triangle,
                                         uint32_t pass) {
    const uint32_t first = crossed->first_of[triangle];
    return first ? &b.totals[2 * (crossed->first + first - 1) + pass] : NULL;
}

/* Finds the winding numbers along the walk over the cluster (topology.h), which is a tree: every vertex adds what its
 * predecessor has, and takes the predecessor's predecessor, until all have the root as theirs. */
CT_DEVICE void walk_cluster(const ct_exact_tables &b, const ct_exact_crossed *crossed, const ct_gpu_topology *topology,
                            uint32_t cluster, uint32_t pass) {
    CT_SHARED int32_t winding[2][CT_CLUSTER_CORNERS];
    CT_SHARED uint16_t before[2][CT_CLUSTER_CORNERS];
    const uint32_t n = ct_vertices_of_cluster(topology, cluster);
    const ct_walk_step *steps = topology->walk + topology->first_vertex[cluster];
    const uint16_t(*corners)[3] = topology->corners + (uint64_t)cluster * CT_CLUSTER_TRIANGLES;
    int32_t *out = b.windings + crossed->first_winding + pass * (uint64_t)n;
    CT_THREADS(t) {
        for (uint32_t i = t; i < n; i += CT_BLOCK) {
            const uint32_t triangle = ct_walk_triangle(steps[i]), from = ct_walk_from(steps[i]),
                           to = ct_walk_to(steps[i]);
            const ct_exact_total *total = total_of(b, crossed, triangle, pass);
            int32_t jump = 0;
            if (total && from != to) jump = to == (from + 1) % 3 ? total->jump[from] : -total->jump[to];
            winding[0][corners[triangle][to]] = jump;
            before[0][corners[triangle][to]] = corners[triangle][from];
        }
    }
    CT_BARRIER();
    uint32_t now = 0;
    for (uint32_t reach = 1; reach < n; reach *= 2) {
        CT_THREADS(t) {
            for (uint32_t v = t; v < n; v += CT_BLOCK) {
                const uint32_t u = before[now][v];
                winding[1 - now][v] = winding[now][v] + (u == v ? 0 : winding[now][u]);
                before[1 - now][v] = before[now][u];
            }
        }
        CT_BARRIER();
        now = 1 - now;
    }
    CT_THREADS(t) {
        for (uint32_t v = t; v < n; v += CT_BLOCK) out[v] = winding[now][v];
        for (uint32_t i = t; i < CT_CLUSTER_TRIANGLES; i += CT_BLOCK) {
            const ct_exact_total *total = total_of(b, crossed, i, pass);
            for (uint32_t k = 0; total && k < 3; k++)
                if (winding[now][corners[i][(k + 1) % 3]] - winding[now][corners[i][k]] != total->jump[k])
                    ct_atomic_add(&b.counts->inconsistent, 1);
        }
    }
    CT_BARRIER();
}

/* Of a body with itself, instead: sums the turns of each triangle, whose jumps and turns sum to 0. A thread for each
 * triangle and pass. */
CT_DEVICE void total_turns(const ct_exact_tables &b, const ct_exact_crossed *crossed, uint32_t n) {
    const uint64_t list = crossed->sorted * b.capacity.crossings + crossed->first;
    const uint64_t *keys = b.crossing_keys + list;
    CT_THREADS(t) {
        for (uint32_t i = t; i < 2 * CT_CLUSTER_TRIANGLES; i += CT_BLOCK) {
            const uint32_t triangle = i / 2, pass = i % 2, first = crossed->first_of[triangle];
            if (!first) continue;
            ct_exact_total *to = &b.totals[2 * (crossed->first + first - 1) + pass];
            int32_t turn[3] = {0, 0, 0}, around = 0;
            for (uint32_t at = first - 1; at < n && triangle_of_key(keys[at]) == triangle; at++) {
                const ct_exact_crossing *c = &b.crossings[b.crossing_index[list + at]];
                if (passes_of_key(keys[at]) >> pass & 1) turn[c->turn_corner] += c->turn;
            }
            for (int k = 0; k < 3; k++) {
                to->turn[k] = turn[k];
                around += turn[k] + to->jump[k];
            }
            if (around) ct_atomic_add(&b.counts->inconsistent, 1);
        }
    }
    CT_BARRIER();
}

CT_KERNEL total_crossings(const ct_exact_tables b) {
    if (ct_exact_cross_shortage(b.counts, &b.capacity)) return;
    CT_EACH_BLOCK(i, b.counts->crossed) {
        ct_exact_crossed *crossed = &b.crossed[i];
        const ct_exact_slot *slot = &b.slots[crossed->slot];
        const ct_gpu_topology *topology = ct_body_of_side(b, slot->side)->topology;
        const uint32_t sorted = sort_crossings(b, crossed->first, slot->n_crossings);
        CT_THREADS(t) {
            if (t == 0) crossed->sorted = sorted;
        }
        CT_BARRIER();
        total_triangles(b, crossed, slot->n_crossings);
        if (ct_is_self_pair(&b.pairs[slot->side / 2])) {
            total_turns(b, crossed, slot->n_crossings);
            continue;
        }
        for (uint32_t pass = 0; pass < ct_pass_count(&b.exact[slot->side / 2]); pass++)
            walk_cluster(b, crossed, topology, slot->cluster, pass);
    }
}

/* The same sums over the crossings of each part in a piece, whose winding numbers the host has found. */
CT_KERNEL total_parts(const ct_exact_tables b) {
    if (ct_exact_cross_shortage(b.counts, &b.capacity)) return;
    CT_EACH_BLOCK(i, b.pieces.n_split_crossed) {
        ct_exact_crossed *crossed = &b.crossed[b.pieces.n_crossed + i];
        total_triangles(b, crossed, b.slots[crossed->slot].n_crossings);
        CT_THREADS(t) {
            /* Maybe what crosses the cluster belongs to other pieces alone. */
            if (t < 2 && b.pieces.split_crossed[i].passes >> t & 1) crossed->n_in_pass[t]++;
            /* What is near is in the whole pair's moved_volume. */
            for (uint32_t k = t; k < CT_CLUSTER_TRIANGLES; k += CT_BLOCK)
                for (uint32_t pass = 0; crossed->first_of[k] && pass < 2; pass++)
                    b.totals[2 * (crossed->first + crossed->first_of[k] - 1) + pass].of[CT_INTEGRALS] = 0;
        }
        CT_BARRIER();
    }
}

const ct_kernel_entry ct_crossed_kernels[] = {CT_KERNEL_ENTRY(total_crossings), CT_KERNEL_ENTRY(total_parts),
                                              CT_KERNELS_END};

unsigned ct_cuda_total_parts(const ct_exact_tables *tables, unsigned grid, cudaStream_t stream) {
    return CT_LAUNCH(total_parts, grid, stream, *tables);
}

unsigned ct_cuda_total_crossings(const ct_exact_tables *tables, unsigned grid, cudaStream_t stream) {
    return CT_LAUNCH(total_crossings, grid, stream, *tables);
}

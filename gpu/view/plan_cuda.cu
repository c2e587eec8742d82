/* plan_cuda.cu - plans each pair's window, gives it its contact candidates, and lists the near clusters of triangles
 * and the chunks of vertices and rays of the whole batch. */
#include "gpu/include/contact.h"
#include "gpu/view/near_cuda.cuh"

CT_DEVICE uint64_t chunk_count(uint64_t n, uint64_t size) {
    return (n + size - 1) / size;
}

CT_DEVICE uint64_t ray_count(const ct_plan_tables &b, const ct_gpu_plan *plan, int w) {
    if (b.casts_tiles) return 0;
    return (uint64_t)plan->window.axis[ct_view_u(w)].n * (uint64_t)plan->window.axis[ct_view_v(w)].n;
}

CT_DEVICE uint64_t cluster_count(const ct_plan_tables &b, const ct_gpu_pair *pair, int k) {
    if ((k == 1 && ct_is_self_pair(pair)) || b.casts_tiles) return 0;
    return ct_cluster_count(b.bodies[pair->body[k]]->n_triangles);
}

CT_DEVICE uint64_t vertex_chunk_count(const ct_plan_tables &b, const ct_gpu_pair *pair, int k) {
    return chunk_count(b.bodies[pair->body[k]]->n_vertices, CT_VERTEX_CHUNK);
}

CT_DEVICE void plan_pair(const ct_plan_tables &b, uint64_t p) {
    const ct_gpu_pair *pair = &b.pairs[p];
    const ct_gpu_step *step = &b.steps[pair->step];
    const ct_box boxes[2] = {ct_gpu_box(b.bodies[pair->body[0]]), ct_gpu_box(b.bodies[pair->body[1]])};
    ct_gpu_plan *plan = &b.plans[p];
    ct_plan_need need;
    plan->status = CT_PLAN_OK;
    for (int k = 0; k < 3 && !plan->status; k++)
        plan->status = (uint8_t)ct_plan_axis(&boxes[0], &boxes[1], &plan->part, k, step->pixel_size,
                                             step->resolution[k], CT_MAX_RESOLUTION, &plan->window.axis[k], &need);
    for (int k = 0; k < 2; k++)
        for (int w = 0; w < 3; w++)
            plan->initial_winding[k][w] = (uint8_t)ct_find_initial_winding(&boxes[k], &boxes[1 - k], w);
    for (int k = 0; k < 2; k++)
        for (int w = 0; w < 3; w++)
            plan->loops[k][w] = (uint8_t)ct_choose_loops(b, b.bodies[pair->body[k]], &boxes[k], plan, k, w);
    if (plan->status) atomicMax(&b.step_refused[pair->step], ~(uint32_t)p);
}

/* What one pair, or many, have. All zero for a pair without a window. */
struct pair_totals {
    uint64_t candidates, clusters, vertex_chunks, ray_chunks, rays;
};

CT_FN pair_totals operator+(const pair_totals &x, const pair_totals &y) {
    const pair_totals sum = {x.candidates + y.candidates, x.clusters + y.clusters, x.vertex_chunks + y.vertex_chunks,
                             x.ray_chunks + y.ray_chunks, x.rays + y.rays};
    return sum;
}

CT_DEVICE pair_totals count_of_pair(const ct_plan_tables &b, uint64_t p) {
    const ct_gpu_pair *pair = &b.pairs[p];
    const ct_gpu_plan *plan = &b.plans[p];
    pair_totals n = {0, 0, 0, 0, 0};
    if (plan->status) return n;
    n.candidates = b.steps[pair->step].n_candidates;
    for (int k = 0; k < 2; k++) {
        n.clusters += cluster_count(b, pair, k);
        n.vertex_chunks += n.candidates * vertex_chunk_count(b, pair, k);
    }
    for (int w = 0; w < 3; w++) {
        n.rays += ray_count(b, plan, w);
        n.ray_chunks += chunk_count(ray_count(b, plan, w), CT_BLOCK);
    }
    return n;
}

/* Writes the offsets of pair p. `before`: what the pairs before it have. */
CT_DEVICE void write_offsets(const ct_plan_tables &b, uint64_t p, pair_totals before) {
    const ct_gpu_plan *plan = &b.plans[p];
    b.candidate_offset[p] = before.candidates;
    b.pair_vertex_chunk_offset[p] = before.vertex_chunks;
    b.cluster_offset[2 * p] = before.clusters;
    b.cluster_offset[2 * p + 1] = before.clusters + (plan->status ? 0 : cluster_count(b, &b.pairs[p], 0));
    for (int w = 0; w < 3; w++) {
        b.ray_chunk_offset[3 * p + (uint64_t)w] = before.ray_chunks;
        b.ray_offset[3 * p + (uint64_t)w] = before.rays;
        const uint64_t rays = plan->status ? 0 : ray_count(b, plan, w);
        before.ray_chunks += chunk_count(rays, CT_BLOCK);
        before.rays += rays;
    }
}

CT_KERNEL plan_windows(const ct_plan_tables b) {
    const uint64_t n = b.counts->pairs;
    if (n > b.capacity.pairs) return;
    CT_FOR(p, n) plan_pair(b, p);
    if (!ct_is_last_block(&b.counts->finished_blocks[CT_LAST_OF_PLAN])) return;
    const pair_totals total = ct_scan<pair_totals>(
        n, [&](uint64_t p) { return count_of_pair(b, p); },
        [&](uint64_t p, const pair_totals &before) { write_offsets(b, p, before); });
    CT_THREADS(t) {
        if (t > 0) continue;
        b.counts->candidates = b.candidate_offset[n] = total.candidates;
        b.counts->clusters = b.cluster_offset[2 * n] = total.clusters;
        b.counts->vertex_chunks = b.pair_vertex_chunk_offset[n] = total.vertex_chunks;
        b.counts->ray_chunks = b.ray_chunk_offset[3 * n] = total.ray_chunks;
        b.counts->rays = b.ray_offset[3 * n] = total.rays;
        b.counts->chunks = total.vertex_chunks + total.ray_chunks;
    }
}

/* ---- candidates, chunks and near clusters ---- */

CT_DEVICE void begin_candidate(const ct_plan_tables &b, uint64_t c) {
    const uint64_t p = ct_find_owner(b.counts->pairs, c, [&](uint64_t i) { return b.candidate_offset[i]; });
    const ct_gpu_pair *pair = &b.pairs[p];
    const uint64_t n[2] = {vertex_chunk_count(b, pair, 0), vertex_chunk_count(b, pair, 1)};
    const uint64_t first = b.pair_vertex_chunk_offset[p] + (c - b.candidate_offset[p]) * (n[0] + n[1]);
    b.candidate_pair[c] = (uint32_t)p;
    b.vertex_chunk_offset[2 * c] = first;
    b.vertex_chunk_offset[2 * c + 1] = first + n[0];
    for (uint64_t w = 0; w < 3; w++)
        b.span_length[3 * c + w] = b.span_count[3 * c + w] = b.inverted_length[3 * c + w] = 0;
}

/* The owner of chunk i, and the chunk's index there. offset: where each of the n owners' chunks begin. */
CT_DEVICE ct_gpu_chunk chunk_of_owner(const uint64_t *offset, uint64_t n, uint64_t i) {
    const uint64_t owner = ct_find_owner(n, i, [&](uint64_t k) { return offset[k]; });
    const ct_gpu_chunk chunk = {(uint32_t)owner, (uint32_t)(i - offset[owner])};
    return chunk;
}

/* Chunk i of vertices: as the parts of a pair are equally large in each of its candidates, a pair's chunks are divided
 * among them without a search. */
CT_DEVICE ct_gpu_chunk vertex_chunk(const ct_plan_tables &b, uint64_t i) {
    const ct_gpu_chunk of_pair = chunk_of_owner(b.pair_vertex_chunk_offset, b.counts->pairs, i);
    const ct_gpu_pair *pair = &b.pairs[of_pair.owner];
    const uint64_t n0 = vertex_chunk_count(b, pair, 0), each = n0 + vertex_chunk_count(b, pair, 1);
    const uint64_t candidate = b.candidate_offset[of_pair.owner] + of_pair.index / each, rest = of_pair.index % each;
    const ct_gpu_chunk chunk = {(uint32_t)(2 * candidate + (rest >= n0)), (uint32_t)(rest >= n0 ? rest - n0 : rest)};
    return chunk;
}

CT_KERNEL list_chunks(const ct_plan_tables b) {
    if (ct_gpu_plan_shortage(b.counts, &b.capacity)) return;
    const uint64_t n_pairs = b.counts->pairs, first_ray_chunk = b.counts->vertex_chunks;
    CT_FOR(c, b.counts->candidates) begin_candidate(b, c);
    CT_FOR(i, b.counts->chunks) {
        b.chunks[i] = i < first_ray_chunk ? vertex_chunk(b, i)
                                          : chunk_of_owner(b.ray_chunk_offset, 3 * n_pairs, i - first_ray_chunk);
    }
    CT_FOR(i, b.counts->clusters) ct_list_cluster_if_near(b, i);
    CT_THREADS(t) {
        if (t == 0 && CT_BLOCK_INDEX == 0) b.vertex_chunk_offset[2 * b.counts->candidates] = b.counts->vertex_chunks;
    }
}

const ct_kernel_entry ct_plan_kernels[] = {CT_KERNEL_ENTRY(plan_windows), CT_KERNEL_ENTRY(list_chunks), CT_KERNELS_END};

unsigned ct_cuda_plan(const ct_plan_tables *tables, unsigned grid, cudaStream_t stream) {
    unsigned n = ct_cuda_narrow(tables, grid, stream);
    n += CT_LAUNCH(plan_windows, grid, stream, *tables);
    n += CT_LAUNCH(list_chunks, grid, stream, *tables);
    return n;
}

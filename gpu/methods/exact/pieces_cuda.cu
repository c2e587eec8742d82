/* pieces_cuda.cu - patches on a device: tells the host what it needs to find the pieces of pairs (pieces_k.h), and
 * makes the tables of the pairs that it splits, so that each piece is added up as a pair is. Only batches with patches
 * launch these kernels. */
#include "gpu/device/cuda/collective.cuh"
#include "gpu/methods/exact/slot_cuda.cuh"

#include <string.h>

CT_DEVICE bool wants_patches(const ct_exact_tables &b, uint64_t p) {
    return b.steps[b.pairs[p].step].wants_patches != 0;
}

/* ---- what the host needs ---- */

/* On thread 0 only: the most that a coordinate of a cluster was moved to reach the lattice. */
CT_DEVICE double find_residual(const ct_slot_view &v) {
    double residual = 0;
    CT_THREADS(t) {
        for (uint32_t i = t; i < v.n_vertices; i += CT_BLOCK) {
            double point[3];
            residual = fmax(residual, ct_place_point(&v.plan->pose[v.side & 1],
                                                     v.body->positions + 3 * (uint64_t)v.vertices[i], NULL, point));
        }
    }
    return ct_block_reduce(residual, [](double x, double y) { return fmax(x, y); });
}

CT_DEVICE void describe_crossing(const ct_exact_tables &b, const ct_slot_view &v, uint32_t i) {
    const uint32_t index = b.crossing_index[v.first_crossing + i];
    const ct_exact_crossing *from = &b.crossings[index];
    ct_found_crossing *to = &b.pieces.crossings[v.crossed->first + i];
    to->index = index;
    to->other = from->other;
    to->triangle = from->triangle;
    to->passes = from->passes;
    to->crosses = from->crosses;
    for (int k = 0; k < 3; k++) to->jump[k] = from->jump[k];
    for (int k = 0; k < CT_INTEGRALS + 2; k++) to->of[k] = from->of[k];
}

CT_DEVICE void describe_crossed(const ct_exact_tables &b, uint64_t i) {
    const ct_exact_crossed *crossed = &b.crossed[i];
    const ct_slot_view v = ct_view_slot(b, &b.slots[crossed->slot]);
    const double residual = find_residual(v);
    CT_THREADS(t) {
        for (uint32_t k = t; k < v.n_crossings; k += CT_BLOCK) describe_crossing(b, v, k);
        for (uint32_t k = t; k < v.n_vertices; k += CT_BLOCK) {
            double *point = b.pieces.points[crossed->first_winding / 2 + k];
            ct_place_vertex(v.plan, v.body, v.side & 1, v.vertices[k], point);
            point[3] = 0;
        }
        if (t > 0) continue;
        ct_found_crossed *to = &b.pieces.crossed[i];
        to->side = (uint32_t)v.side;
        to->cluster = v.cluster;
        to->slot = crossed->slot;
        to->n_crossings = v.n_crossings;
        to->first = crossed->first;
        to->first_winding = crossed->first_winding;
        to->n_in_pass[0] = crossed->n_in_pass[0];
        to->n_in_pass[1] = crossed->n_in_pass[1];
        to->residual = residual;
    }
    CT_BARRIER();
}

CT_KERNEL describe_pairs(const ct_exact_tables b) {
    if (ct_exact_cross_shortage(b.counts, &b.capacity)) return;
    CT_FOR(p, b.counts->pairs) {
        const ct_exact_plan *plan = &b.exact[p];
        ct_found_pair *to = &b.pieces.pairs[p];
        to->step = b.pairs[p].step;
        to->has_ties = plan->has_ties;
        to->wants_patches = wants_patches(b, p);
        to->is_skipped = plan->is_skipped;
        for (int k = 0; k < 2; k++) {
            to->body[k] = b.pairs[p].body[k];
            to->rounding[k] = plan->is_skipped ? 0 : plan->pose[k].rounding;
        }
    }
    CT_EACH_BLOCK(i, b.counts->crossed) {
        if (wants_patches(b, b.slots[b.crossed[i].slot].side / 2)) {
            describe_crossed(b, i);
            continue;
        }
        CT_THREADS(t) {
            if (t == 0) b.pieces.crossed[i].side = CT_GPU_NONE;
        }
    }
}

/* A cluster's vertices on the lattice, and its triangles' corners among them. Most clusters are one unit, whose sums one
 * thread adds up: it reads what all threads of the block have brought here. */
struct placed_cluster {
    double point[CT_CLUSTER_CORNERS][3];
    uint16_t corners[CT_CLUSTER_TRIANGLES][3];
    uint8_t unit[CT_CLUSTER_TRIANGLES];
};

CT_DEVICE void place_cluster(const ct_slot_view &v, placed_cluster *to) {
    CT_THREADS(t) {
        for (uint32_t i = t; i < v.n_vertices; i += CT_BLOCK)
            ct_place_vertex(v.plan, v.body, v.side & 1, v.vertices[i], to->point[i]);
        for (uint32_t i = t; i < v.n_triangles; i += CT_BLOCK) {
            for (int k = 0; k < 3; k++) to->corners[i][k] = v.corners[i][k];
            to->unit[i] = v.unit_in_cluster[i];
        }
    }
    CT_BARRIER();
}

/* What the triangles of a unit that nothing crosses add up to, in their order. */
CT_DEVICE void summarize_unit(const ct_slot_view &v, const placed_cluster *placed, uint32_t u, int32_t winding,
                              ct_unit_summary *out) {
    ct_begin_unit(out);
    for (uint32_t t = 0; t < v.n_triangles; t++) {
        if (placed->unit[t] != u) continue;
        const uint16_t *corner = placed->corners[t];
        const double *const p[3] = {placed->point[corner[0]], placed->point[corner[1]], placed->point[corner[2]]};
        ct_add_to_unit(out, p, winding, (uint32_t)(v.side & 1), v.cluster * CT_CLUSTER_TRIANGLES + t);
    }
}

/* Lists a unit whose winding number is not 0. One beyond the capacity is counted all the same. */
CT_DEVICE void describe_unit(const ct_exact_tables &b, const ct_slot_view &v, const placed_cluster *placed,
                             uint32_t slot, uint32_t u, uint32_t pass, int32_t winding, bool is_crossed,
                             double residual) {
    const uint64_t at = ct_append_index(&b.counts->found_units);
    const bool has_facings = v.plan->has_ties && !is_crossed;
    const uint64_t facings = has_facings ? ct_atomic_add(&b.counts->found_facings, 1) : 0;
    ct_unit_summary summary;
    ct_begin_unit(&summary);
    if (at >= b.capacity.found_units || (has_facings && facings >= b.capacity.found_facings)) return;
    if (!is_crossed) summarize_unit(v, placed, u, winding, &summary);
    ct_found_unit *to = &b.pieces.units[at];
    to->side = (uint32_t)v.side;
    to->slot = slot;
    to->unit = v.first_unit + u;
    to->pass = pass;
    to->winding = winding;
    to->facings = has_facings ? (uint32_t)facings + 1 : 0;
    to->residual = residual;
    to->volume = summary.volume;
    to->slack = summary.slack;
    to->moment = summary.moment;
    for (int k = 0; k < 3; k++) to->extreme[k] = summary.extreme[k];
    for (int k = 0; has_facings && k < CT_PIECE_FACINGS; k++) b.pieces.facings[facings][k] = summary.facings[k];
}

CT_KERNEL describe_units(const ct_exact_tables b) {
    CT_SHARED placed_cluster placed;
    CT_SHARED double shared_residual;
    if (ct_exact_cross_shortage(b.counts, &b.capacity)) return;
    CT_EACH_BLOCK(s, b.counts->slots) {
        if (!wants_patches(b, b.slots[s].side / 2)) continue;
        const ct_slot_view v = ct_view_slot(b, &b.slots[s]);
        const double residual = find_residual(v);
        CT_THREADS(t) {
            if (t == 0) shared_residual = residual;
        }
        place_cluster(v, &placed); /* with a barrier */
        CT_THREADS(t) {
            for (uint32_t i = t; i < v.n_units * ct_pass_count(v.plan); i += CT_BLOCK) {
                const uint32_t u = i % v.n_units, pass = i / v.n_units;
                const int32_t winding = ct_winding_of_unit_in(b, v, u, pass);
                if (winding)
                    describe_unit(b, v, &placed, (uint32_t)s, u, pass, winding, v.crossed && v.crossed->n_in_pass[pass],
                                  shared_residual);
            }
        }
        CT_BARRIER();
    }
}

/* ---- a ray ---- */

/* Lists the triangles of a side that the ray from ray_from along +x meets; one beyond the capacity is counted all the
 * same. A block for as many clusters as it has threads. */
CT_KERNEL find_hits(const ct_exact_tables b) {
    CT_SHARED uint32_t hit[CT_BLOCK], n_hit;
    const uint64_t side = b.pieces.ray_side;
    const double *p = b.pieces.ray_from;
    const ct_exact_plan *plan = &b.exact[side / 2];
    const ct_gpu_body *body = ct_body_of_side(b, side);
    const uint64_t n = body->topology->n_clusters;
    const ct_node_box ray = {{p[0], p[1], p[2]}, {INFINITY, p[1], p[2]}};
    CT_EACH_BLOCK(chunk, (n + CT_BLOCK - 1) / CT_BLOCK) {
        CT_THREADS(t) {
            if (t == 0) n_hit = 0;
        }
        CT_BARRIER();
        CT_THREADS(t) {
            const uint64_t cluster = chunk * CT_BLOCK + t;
            if (cluster >= n) continue;
            const ct_cluster_box rest = ct_box_of_cluster(body, (uint32_t)cluster);
            const ct_node_box box = ct_place_box(&rest, &plan->pose[side & 1]);
            if (ct_node_boxes_overlap(&box, &ray)) hit[atomicAdd(&n_hit, 1u)] = (uint32_t)cluster;
        }
        CT_BARRIER();
        CT_THREADS(t) {
            for (uint64_t i = t; i < (uint64_t)n_hit * CT_CLUSTER_TRIANGLES; i += CT_BLOCK) {
                const uint64_t triangle =
                    (uint64_t)hit[i / CT_CLUSTER_TRIANGLES] * CT_CLUSTER_TRIANGLES + i % CT_CLUSTER_TRIANGLES;
                if (triangle >= body->n_triangles) continue;
                double corner[3][3];
                ct_met_triangle found;
                ct_place_triangle(plan, body, side & 1, triangle, corner);
                const double *const q[3] = {corner[0], corner[1], corner[2]};
                found.body = (int)(side & 1);
                found.triangle = (uint32_t)triangle;
                if (!ct_meet_triangle(p, q, &found)) continue;
                const uint64_t at = ct_append_index(&b.counts->ray_hits);
                if (at < b.capacity.ray_hits) b.pieces.hits[at] = found;
            }
        }
        CT_BARRIER();
    }
}

/* ---- splitting ---- */

/* Gives the slots of a found pair, which is not split, the numbers of its sides; or marks them as split. */
CT_DEVICE void renumber_slots(const ct_exact_tables &b, uint64_t i, const ct_split_pair *split) {
    const ct_exact_plan *from = &b.pieces.plans[split->pair];
    for (uint32_t k = 0; k < 2; k++) {
        CT_THREADS(t) {
            for (uint32_t s = t; s < from->n_slots[k]; s += CT_BLOCK) {
                b.slots[from->first_slot[k] + s].side = (uint32_t)(2 * i) + k;
                b.slots[from->first_slot[k] + s].is_split = split->is_piece;
            }
        }
    }
}

CT_DEVICE void make_pair(const ct_exact_tables &b, uint64_t i, const ct_split_pair *split) {
    ct_exact_plan *to = &b.exact[i];
    b.pairs[i] = b.found_pairs[split->pair];
    *to = b.pieces.plans[split->pair];
    for (uint32_t k = 0; k < 2; k++)
        b.component_offset[2 * i + k] = b.pieces.component_offset[2 * (uint64_t)split->pair + k];
    if (!split->is_piece) return;
    to->moved_volume = split->moved_volume;
    for (uint32_t k = 0; k < 2; k++) {
        to->first_slot[k] = b.pieces.n_slots + split->first_slot[k];
        to->n_slots[k] = split->n_slots[k];
        if (!split->is_first) to->found[k] = 0; /* each is counted once */
    }
}

/* A block for each pair. */
CT_KERNEL split_pairs(const ct_exact_tables b) {
    CT_FOR(i, 2 * CT_WIDE_SUMS * 2 * b.pieces.n_split_pairs)((int64_t *)b.part_sums)[i] = 0;
    CT_EACH_BLOCK(i, b.pieces.n_split_pairs) {
        const ct_split_pair *split = &b.pieces.split_pairs[i];
        if (!split->is_piece || split->is_first) renumber_slots(b, i, split);
        CT_THREADS(t) {
            if (t == 0) make_pair(b, i, split);
        }
    }
}

CT_DEVICE void make_part(const ct_exact_tables &b, uint64_t i) {
    const ct_split_slot *split = &b.pieces.split_slots[i];
    const ct_exact_slot *from = &b.slots[split->slot];
    ct_exact_slot *to = &b.slots[b.pieces.n_slots + i];
    to->side = split->side;
    to->cluster = from->cluster;
    to->rest = from->rest;
    to->box = from->box;
    to->n_crossings = to->n_scattered = split->n_crossings;
    to->crossed = split->crossed ? (uint32_t)b.pieces.n_crossed + split->crossed : 0;
    to->is_added = to->is_split = 0;
    to->share[0] = to->share[1] = to->residual = 0;
    to->moved = from->moved;
    to->is_part = 1;
    to->units = b.pieces.n_windings + split->units;
}

CT_DEVICE void make_crossed(const ct_exact_tables &b, uint64_t i) {
    const ct_split_crossed *split = &b.pieces.split_crossed[i];
    ct_exact_crossed *to = &b.crossed[b.pieces.n_crossed + i];
    to->slot = (uint32_t)(b.pieces.n_slots + split->slot);
    to->first = b.pieces.n_crossings + split->first;
    to->first_winding = b.pieces.n_windings + split->first_winding;
    to->sorted = 0;
}

CT_DEVICE uint64_t chunks_of(const ct_exact_tables &b, uint64_t p, uint64_t k) {
    return b.exact[p].is_skipped ? 0
                                 : (ct_body_of_side(b, 2 * p + k)->n_vertices + CT_VERTEX_CHUNK - 1) / CT_VERTEX_CHUNK;
}

/* After split_pairs. The last block tells the kernels that follow how much there is. */
CT_KERNEL make_parts(const ct_exact_tables b) {
    CT_FOR(i, b.pieces.n_split_slots) make_part(b, i);
    CT_FOR(i, b.pieces.n_split_crossed) make_crossed(b, i);
    if (!ct_is_last_block(&b.counts->finished_blocks[CT_LAST_OF_SPLIT])) return;
    const uint64_t n = b.pieces.n_split_pairs;
    const uint64_t total = ct_scan<uint64_t>(
        n, [&](uint64_t p) { return chunks_of(b, p, 0) + chunks_of(b, p, 1); },
        [&](uint64_t p, uint64_t before) {
            b.vertex_chunk_offset[2 * p] = before;
            b.vertex_chunk_offset[2 * p + 1] = before + chunks_of(b, p, 0);
        });
    CT_THREADS(t) {
        if (t > 0) continue;
        b.vertex_chunk_offset[2 * n] = b.counts->vertex_chunks = b.counts->exact_chunks = total;
        b.counts->pairs = b.counts->exact_pairs = b.counts->candidates = n;
        b.counts->slots = b.pieces.n_slots + b.pieces.n_split_slots;
    }
}

const ct_kernel_entry ct_piece_kernels[] = {CT_KERNEL_ENTRY(describe_pairs), CT_KERNEL_ENTRY(describe_units),
                                            CT_KERNEL_ENTRY(find_hits),      CT_KERNEL_ENTRY(split_pairs),
                                            CT_KERNEL_ENTRY(make_parts),     CT_KERNELS_END};

unsigned ct_cuda_describe_pairs(const ct_exact_tables *tables, unsigned grid, cudaStream_t stream) {
    return CT_LAUNCH(describe_pairs, grid, stream, *tables);
}

unsigned ct_cuda_describe_units(const ct_exact_tables *tables, unsigned grid, cudaStream_t stream) {
    return CT_LAUNCH(describe_units, grid, stream, *tables);
}

unsigned ct_cuda_find_hits(const ct_exact_tables *tables, unsigned grid, cudaStream_t stream) {
    return CT_LAUNCH(find_hits, grid, stream, *tables);
}

unsigned ct_cuda_split_pairs(const ct_exact_tables *tables, unsigned grid, cudaStream_t stream) {
    unsigned n = CT_LAUNCH(split_pairs, grid, stream, *tables);
    n += CT_LAUNCH(make_parts, grid, stream, *tables);
    return n;
}

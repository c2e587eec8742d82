/* plan_exact_cuda.cu - plans each pair's lattice, lists the clusters of either body that may meet the other one, and
 * finds the pairs of clusters whose triangles have to be crossed. */
#include "gpu/device/cuda/collective.cuh"
#include "gpu/methods/exact/exact_cuda.cuh"
#include "gpu/scene/half_space_k.h"

#include <string.h>

/* ---- a pair's lattice ---- */

CT_DEVICE void join_box(ct_cluster_box *x, const ct_cluster_box &y) {
    for (int k = 0; k < 3; k++) {
        if (y.lo[k] < x->lo[k]) x->lo[k] = y.lo[k];
        if (y.hi[k] > x->hi[k]) x->hi[k] = y.hi[k];
    }
}

/* The box around a body's triangles, in the frame of its positions; on thread 0 only. */
CT_DEVICE ct_cluster_box find_root(const ct_gpu_body *body) {
    if (body->rigid) return body->topology->root;
    ct_cluster_box box = {{INFINITY, INFINITY, INFINITY}, {-INFINITY, -INFINITY, -INFINITY}};
    CT_THREADS(t) {
        for (uint32_t c = t; c < body->topology->n_clusters; c += CT_BLOCK) join_box(&box, ct_box_of_cluster(body, c));
    }
    return ct_block_reduce(box, [](ct_cluster_box x, const ct_cluster_box &y) {
        join_box(&x, y);
        return x;
    });
}

CT_DEVICE void plan_lattice(const ct_exact_tables &b, uint64_t p, const ct_cluster_box roots[2], ct_exact_plan *plan) {
    const ct_gpu_pair *pair = &b.pairs[p];
    const ct_gpu_body *bodies[2] = {b.bodies[pair->body[0]], b.bodies[pair->body[1]]};
    const ct_box boxes[2] = {ct_gpu_box(bodies[0]), ct_gpu_box(bodies[1])}, *box[2] = {&boxes[0], &boxes[1]};
    const double *const pose[2] = {bodies[0]->pose, bodies[1]->pose};
    const int is_half_space[2] = {(int)bodies[0]->is_half_space, (int)bodies[1]->is_half_space};
    ct_pair_placement placement;
    for (int k = 0; k < 2; k++) {
        plan->n_slots[k] = 0;
        plan->first_slot[k] = plan->first_cluster[k] = plan->first_unit[k] = plan->found[k] = 0;
    }
    plan->is_skipped = !ct_place_pair(pose, box, is_half_space, &placement);
    if (plan->is_skipped) return;
    plan->is_skipped = placement.is_too_far || !ct_extents_fit(&placement.box[0], &placement.box[1]);
    if (plan->is_skipped) atomicMax(&b.step_refused[pair->step], ~(uint32_t)p);
    if (placement.is_too_far) return;
    plan->lattice =
        ct_plan_exact_lattice(&placement.box[0], &placement.box[1], placement.has_foot ? placement.foot : NULL);
    for (int k = 0; k < 2; k++) {
        const double *placed = is_half_space[k] ? placement.block[k] : bodies[k]->rigid ? bodies[k]->pose : NULL;
        plan->pose[k] = ct_lattice_pose_of(&plan->lattice, placed, bodies[k]->topology->reach);
        plan->pose[k].rounding += placement.rounding[k] * plan->lattice.inverse;
        double reach = bodies[k]->topology->reach;
        for (int i = 0; i < 3 && !bodies[k]->rigid; i++)
            reach = fmax(reach, fmax(fabs(boxes[k].lo[i]), fabs(boxes[k].hi[i])));
        plan->pose[k].rounding += ct_gpu_rounding(bodies[k], reach) * plan->lattice.inverse;
        plan->root[k] = roots[k];
        plan->window[k] = ct_place_box(&roots[k], &plan->pose[k]);
    }
    for (int k = 0; k < 2; k++)
        plan->axes[k] = ct_find_own_axes(&plan->pose[k], &roots[k], &plan->pose[1 - k], &roots[1 - k]);
}

/* ---- near clusters ---- */

/* The side of a pair that is a half-space; 2: none is. */
CT_DEVICE int find_half_space(const ct_exact_tables &b, uint64_t p) {
    for (uint64_t k = 0; k < 2; k++)
        if (ct_body_of_side(b, 2 * p + k)->is_half_space) return (int)k;
    return 2;
}

/* Whether cluster c of body k may meet the other body, or the body itself; fills its slot. */
CT_DEVICE bool is_near(const ct_exact_plan *plan, const ct_gpu_body *body, int k, int half_space, bool is_self,
                       uint32_t c, ct_exact_slot *slot) {
    slot->rest = ct_box_of_cluster(body, c);
    slot->box = ct_place_box(&slot->rest, &plan->pose[k]);
    if (is_self || half_space == k) return true;
    if (half_space == 1 - k) {
        const ct_top_plane top = ct_find_top_plane(&plan->pose[half_space]);
        return ct_find_side_of_top(&top, &slot->box, 0) != CT_ABOVE_TOP;
    }
    const ct_cluster_box *boxes[2] = {&plan->root[0], &plan->root[1]};
    const ct_node_box *placed[2] = {&plan->window[0], &plan->window[1]};
    boxes[k] = &slot->rest;
    placed[k] = &slot->box;
    return ct_boxes_may_meet(placed[0], placed[1], boxes, plan->axes, CT_NODE_SLACK);
}

/* Lists the near clusters of body k in rising order. What is beyond the capacity is counted all the same. */
CT_DEVICE void list_near_clusters(const ct_exact_tables &b, uint64_t p, int k, ct_exact_plan *plan) {
    const ct_gpu_body *body = ct_body_of_side(b, 2 * p + (uint64_t)k);
    const uint32_t n = body->topology->n_clusters;
    const int half_space = find_half_space(b, p);
    const bool is_self = ct_is_self_pair(&b.pairs[p]);
    CT_THREADS(t) {
        if (t > 0) continue;
        plan->first_cluster[k] = ct_atomic_add(&b.counts->side_clusters, n);
        if (!is_self) plan->first_unit[k] = ct_atomic_add(&b.counts->units, body->topology->n_units);
    }
    CT_BARRIER();
    const bool has_table = plan->first_cluster[k] + n <= b.capacity.side_clusters;
    uint32_t *slot_of_cluster = has_table ? b.slot_of_cluster + plan->first_cluster[k] : NULL;
    const uint64_t n_near = ct_scan<uint64_t>(
        n,
        [&](uint64_t c) {
            ct_exact_slot slot;
            const bool near = is_near(plan, body, k, half_space, is_self, (uint32_t)c, &slot);
            if (has_table) slot_of_cluster[c] = near;
            return (uint64_t)near;
        },
        [](uint64_t, uint64_t) {});
    CT_THREADS(t) {
        if (t > 0) continue;
        plan->n_slots[k] = (uint32_t)n_near;
        plan->first_slot[k] = ct_atomic_add(&b.counts->slots, n_near);
    }
    CT_BARRIER();
    const uint64_t first_slot = plan->first_slot[k];
    if (first_slot + n_near > b.capacity.slots || !has_table) return;
    ct_scan<uint64_t>(
        n, [&](uint64_t c) { return (uint64_t)slot_of_cluster[c]; },
        [&](uint64_t c, uint64_t before) {
            if (!slot_of_cluster[c]) return;
            ct_exact_slot slot;
            is_near(plan, body, k, half_space, is_self, (uint32_t)c, &slot);
            slot.side = (uint32_t)(2 * p) + (uint32_t)k;
            slot.cluster = (uint32_t)c;
            slot.n_crossings = slot.n_scattered = slot.crossed = slot.is_added = slot.is_split = slot.is_part = 0;
            slot.units = 0;
            slot.share[0] = slot.share[1] = slot.residual = 0;
            slot.moved = ct_order_key(0);
            b.slots[first_slot + before] = slot;
            slot_of_cluster[c] = (uint32_t)(first_slot + before) + 1;
        });
}

/* ---- pairs ---- */

/* Pairs of slots are tested by tiles, a block for each: 16 slots of one side against 16 of the other. */
enum : uint64_t { TILE = 16 };

CT_DEVICE uint64_t tile_count(uint64_t n_slots) {
    return (n_slots + TILE - 1) / TILE;
}

/* The side whose slots those of side 0 are paired with: a body with itself has side 0 only. */
CT_DEVICE int second_side(const ct_exact_tables &b, uint64_t p) {
    return ct_is_self_pair(&b.pairs[p]) ? 0 : 1;
}

struct exact_totals {
    uint64_t cluster_tiles, components, vertex_chunks, own_numbers, own_components;
};

CT_FN exact_totals operator+(const exact_totals &x, const exact_totals &y) {
    const exact_totals sum = {x.cluster_tiles + y.cluster_tiles, x.components + y.components,
                              x.vertex_chunks + y.vertex_chunks, x.own_numbers + y.own_numbers,
                              x.own_components + y.own_components};
    return sum;
}

CT_DEVICE uint64_t components_of(const ct_exact_tables &b, uint64_t p, uint64_t k) {
    if (b.exact[p].is_skipped || ct_is_self_pair(&b.pairs[p])) return 0;
    return ct_body_of_side(b, 2 * p + k)->topology->n_components;
}

CT_DEVICE uint64_t vertex_chunks_of(const ct_exact_tables &b, uint64_t p, uint64_t k) {
    return b.exact[p].is_skipped ? 0
                                 : (ct_body_of_side(b, 2 * p + k)->n_vertices + CT_VERTEX_CHUNK - 1) / CT_VERTEX_CHUNK;
}

CT_DEVICE exact_totals totals_of(const ct_exact_tables &b, uint64_t p) {
    const ct_exact_plan *plan = &b.exact[p];
    exact_totals of = {tile_count(plan->n_slots[0]) * tile_count(plan->n_slots[second_side(b, p)]),
                       components_of(b, p, 0) + components_of(b, p, 1),
                       vertex_chunks_of(b, p, 0) + vertex_chunks_of(b, p, 1), 0, 0};
    if (ct_is_self_pair(&b.pairs[p]) && !plan->is_skipped) {
        const ct_gpu_body *body = ct_body_of_side(b, 2 * p);
        of.own_numbers = 4 * (uint64_t)body->n_triangles;
        of.own_components = body->own_surface->n_components;
    }
    return of;
}

/* Side 0 writes what both have. */
CT_DEVICE void write_plan(const ct_exact_plan &from, int k, ct_exact_plan *to) {
    if (k == 0) {
        to->lattice = from.lattice;
        for (int i = 0; i < 2; i++) {
            to->pose[i] = from.pose[i];
            to->axes[i] = from.axes[i];
            to->root[i] = from.root[i];
            to->window[i] = from.window[i];
            to->found[i] = to->left_out[i].low = to->left_out[i].high = 0;
            to->left_out_moved[i] = ct_order_key(0);
        }
        to->is_skipped = from.is_skipped;
        to->has_ties = to->is_contact = 0;
        to->exponent = 0;
        to->moved_volume = 0;
        memset(&to->own, 0, sizeof to->own);
    }
    to->first_slot[k] = from.first_slot[k];
    to->first_cluster[k] = from.first_cluster[k];
    to->first_unit[k] = from.first_unit[k];
    to->n_slots[k] = from.n_slots[k];
}

CT_KERNEL plan_exact(const ct_exact_tables b) {
    CT_SHARED ct_exact_plan planned;
    const uint64_t n = b.counts->pairs;
    CT_THREADS(t) {
        if (t == 0 && CT_BLOCK_INDEX == 0) b.counts->exact_pairs = b.counts->candidates = n;
    }
    if (n > b.capacity.pairs || n > b.capacity.exact_pairs) return;
    CT_EACH_BLOCK(side, 2 * n) { /* both blocks of a pair plan its lattice, which costs less than a launch */
        const uint64_t p = side / 2;
        const int k = (int)(side & 1);
        const ct_cluster_box roots[2] = {find_root(ct_body_of_side(b, 2 * p)),
                                         find_root(ct_body_of_side(b, 2 * p + 1))};
        CT_THREADS(t) {
            if (t == 0) plan_lattice(b, p, roots, &planned);
        }
        CT_BARRIER();
        if (!planned.is_skipped && k <= second_side(b, p)) list_near_clusters(b, p, k, &planned);
        CT_THREADS(t) {
            if (t == 0) write_plan(planned, k, &b.exact[p]);
        }
        CT_BARRIER();
    }
    if (!ct_is_last_block(&b.counts->finished_blocks[CT_LAST_OF_PLAN_EXACT])) return;
    const bool has_candidates = n <= b.capacity.candidates;
    const exact_totals total = ct_scan<exact_totals>(
        n, [&](uint64_t p) { return totals_of(b, p); },
        [&](uint64_t p, const exact_totals &before) {
            b.exact[p].own.first_number = before.own_numbers;
            b.exact[p].own.first_component = before.own_components;
            b.cluster_tile_offset[p] = before.cluster_tiles;
            b.component_offset[2 * p] = before.components;
            b.component_offset[2 * p + 1] = before.components + components_of(b, p, 0);
            if (!has_candidates) return;
            b.vertex_chunk_offset[2 * p] = before.vertex_chunks;
            b.vertex_chunk_offset[2 * p + 1] = before.vertex_chunks + vertex_chunks_of(b, p, 0);
        });
    CT_THREADS(t) {
        if (t > 0) continue;
        b.counts->cluster_tiles = b.cluster_tile_offset[n] = total.cluster_tiles;
        b.counts->components = b.component_offset[2 * n] = total.components;
        b.counts->own_numbers = total.own_numbers;
        b.counts->own_components = total.own_components;
        b.counts->vertex_chunks = b.counts->exact_chunks = total.vertex_chunks;
        if (has_candidates) b.vertex_chunk_offset[2 * n] = total.vertex_chunks;
    }
}

/* ---- pairs of clusters ---- */

CT_KERNEL pair_clusters(const ct_exact_tables b) {
    if (ct_exact_plan_shortage(b.counts, &b.capacity)) return;
    CT_FOR(i, 2 * CT_WIDE_SUMS * 2 * b.counts->pairs)((int64_t *)b.part_sums)[i] = 0;
    CT_EACH_BLOCK(i, b.counts->cluster_tiles) {
        const uint64_t p = ct_find_owner(b.counts->pairs, i, [&](uint64_t k) { return b.cluster_tile_offset[k]; });
        const ct_exact_plan *plan = &b.exact[p];
        const int k1 = second_side(b, p);
        const uint64_t tile = i - b.cluster_tile_offset[p], n = tile_count(plan->n_slots[k1]);
        const uint64_t row = tile / n * TILE, column = tile % n * TILE;
        const int half_space = find_half_space(b, p);
        const ct_top_plane top = ct_find_top_plane(&plan->pose[half_space < 2 ? half_space : 0]);
        CT_THREADS(t) {
            for (uint64_t k = t; k < TILE * TILE; k += CT_BLOCK) {
                const uint64_t first = row + k / TILE, second = column + k % TILE;
                if (first >= plan->n_slots[0] || second >= plan->n_slots[k1]) continue;
                if (k1 == 0 && first > second) continue; /* of one body each two once, and each with itself */
                const ct_exact_slot *x = &b.slots[plan->first_slot[0] + first],
                                    *y = &b.slots[plan->first_slot[k1] + second];
                const ct_cluster_box *boxes[2] = {&x->rest, &y->rest};
                if (half_space < 2 ? ct_find_side_of_top(&top, half_space ? &x->box : &y->box, 0) != CT_AT_TOP
                                   : x != y && !ct_boxes_may_meet(&x->box, &y->box, boxes, plan->axes, 0))
                    continue;
                const uint64_t at = ct_append_index(&b.counts->cluster_pairs);
                if (at >= b.capacity.cluster_pairs) continue;
                b.cluster_pairs[at][0] = (uint32_t)(plan->first_slot[0] + first);
                b.cluster_pairs[at][1] = (uint32_t)(plan->first_slot[k1] + second);
            }
        }
    }
}

const ct_kernel_entry ct_plan_exact_kernels[] = {CT_KERNEL_ENTRY(plan_exact), CT_KERNEL_ENTRY(pair_clusters),
                                                 CT_KERNELS_END};

unsigned ct_cuda_plan_exact(const ct_exact_tables *tables, unsigned grid, cudaStream_t stream) {
    unsigned n = CT_LAUNCH(plan_exact, grid, stream, *tables);
    n += CT_LAUNCH(pair_clusters, grid, stream, *tables);
    return n;
}

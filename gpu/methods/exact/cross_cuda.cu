/* cross_cuda.cu - finds the pairs of triangles whose boxes meet, a block for each pair of clusters, crosses them, a
 * thread for each pair, and gathers what is found by clusters. */
#include "gpu/device/cuda/collective.cuh"
#include "gpu/methods/exact/exact_cuda.cuh"
#include "gpu/methods/exact/self_k.h"

/* The triangles of two clusters. Boxes are those of the CPU (exact_cpu.simd.c), rounding included: which triangles are
 * near each other counts in the bound. */
struct placed_triangles {
    float box[2][CT_CLUSTER_TRIANGLES][6]; /* lo x, y, z, hi x, y, z; rounded outwards */
    uint8_t near[2][CT_CLUSTER_TRIANGLES]; /* those whose boxes meet the other cluster's */
    uint32_t n_near[2];
    float lo[2][3], hi[2][3];                 /* around all boxes of a cluster */
    double residual[2][CT_CLUSTER_TRIANGLES]; /* units: how far a triangle's corners were moved to reach the lattice */
};

CT_DEVICE void find_triangle_box(const double corner[3][3], float box[6]) {
    const float margin = 4, rounding = 0x1p-23f; /* see BOX_MARGIN and FLOAT_ROUNDING there */
    for (int k = 0; k < 3; k++) {
        const float p = (float)corner[0][k], q = (float)corner[1][k], r = (float)corner[2][k];
        const float pq_lo = p < q ? p : q, pq_hi = p > q ? p : q;
        const float lo = pq_lo < r ? pq_lo : r, hi = pq_hi > r ? pq_hi : r;
        box[k] = lo - (fabsf(lo) * rounding + margin);
        box[3 + k] = hi + (fabsf(hi) * rounding + margin);
    }
}

CT_DEVICE bool boxes_overlap(const float *x, const float *y) {
    for (int k = 0; k < 3; k++)
        if (x[k] > y[3 + k] || y[k] > x[3 + k]) return false;
    return true;
}

/* Places both clusters' triangles, and lists those whose boxes meet the other cluster. */
CT_DEVICE void place_clusters(const ct_exact_tables &b, const ct_exact_plan *plan, ct_exact_slot *const slots[2],
                              const uint32_t n[2], placed_triangles *to) {
    CT_THREADS(t) {
        for (uint32_t i = t; i < 2 * CT_CLUSTER_TRIANGLES; i += CT_BLOCK) {
            const uint32_t k = i / CT_CLUSTER_TRIANGLES, triangle = i % CT_CLUSTER_TRIANGLES;
            if (triangle >= n[k]) continue;
            double corner[3][3];
            to->residual[k][triangle] =
                ct_place_triangle(plan, ct_body_of_side(b, slots[k]->side), k,
                                  (uint64_t)slots[k]->cluster * CT_CLUSTER_TRIANGLES + triangle, corner);
            find_triangle_box(corner, to->box[k][triangle]);
        }
        if (t < 2) to->n_near[t] = 0;
    }
    CT_BARRIER();
    CT_THREADS(t) {
        for (uint32_t i = t; i < 12; i += CT_BLOCK) {
            const uint32_t k = i / 6, side = i % 6;
            float most = to->box[k][0][side];
            for (uint32_t j = 1; j < n[k]; j++) {
                const float x = to->box[k][j][side];
                if (side < 3 ? x < most : x > most) most = x;
            }
            if (side < 3)
                to->lo[k][side] = most;
            else
                to->hi[k][side - 3] = most;
        }
        if (t < 2) {
            double residual = 0;
            for (uint32_t j = 0; j < n[t]; j++) residual = fmax(residual, to->residual[t][j]);
            ct_atomic_max(&slots[t]->moved, ct_order_key(residual));
        }
    }
    CT_BARRIER();
    CT_THREADS(t) {
        for (uint32_t i = t; i < 2 * CT_CLUSTER_TRIANGLES; i += CT_BLOCK) {
            const uint32_t k = i / CT_CLUSTER_TRIANGLES, triangle = i % CT_CLUSTER_TRIANGLES;
            if (triangle >= n[k]) continue;
            const float *box = to->box[k][triangle], *lo = to->lo[1 - k], *hi = to->hi[1 - k];
            bool meets = true;
            for (int j = 0; j < 3; j++) meets = meets && box[j] <= hi[j] && lo[j] <= box[3 + j];
            if (meets) to->near[k][atomicAdd(&to->n_near[k], 1u)] = (uint8_t)triangle;
        }
    }
    CT_BARRIER();
}

/* Triangle pair->triangle[k] of slot k, by its number in the mesh. */
CT_DEVICE uint64_t number_of(const ct_exact_slot *slot, uint32_t triangle) {
    return (uint64_t)slot->cluster * CT_CLUSTER_TRIANGLES + triangle;
}

/* Whether two triangles of one body may cross: each two once, and not those that share an edge. */
CT_DEVICE bool may_cross_own(const ct_gpu_body *body, const ct_exact_slot *const slots[2], uint32_t first,
                             uint32_t second) {
    int shared[2];
    if (slots[0] == slots[1] && first >= second) return false;
    return ct_count_shared_vertices(body->triangles + 3 * number_of(slots[0], first),
                                    body->triangles + 3 * number_of(slots[1], second), shared) < 2;
}

/* Lists the pairs of triangles whose boxes meet. One beyond the capacity is counted all the same. */
CT_KERNEL find_triangle_pairs(const ct_exact_tables b) {
    CT_SHARED placed_triangles placed;
    if (ct_exact_pair_shortage(b.counts, &b.capacity)) return;
    CT_EACH_BLOCK(c, b.counts->cluster_pairs) {
        ct_exact_slot *slots[2] = {&b.slots[b.cluster_pairs[c][0]], &b.slots[b.cluster_pairs[c][1]]};
        uint32_t n[2];
        for (int k = 0; k < 2; k++)
            n[k] = ct_triangles_of_cluster(ct_body_of_side(b, slots[k]->side)->n_triangles, slots[k]->cluster);
        const ct_gpu_body *body = ct_body_of_side(b, slots[0]->side);
        const bool is_self = ct_is_self_pair(&b.pairs[slots[0]->side / 2]);
        place_clusters(b, &b.exact[slots[0]->side / 2], slots, n, &placed);
        CT_THREADS(t) {
            const uint32_t n_second = placed.n_near[1], n_pairs = placed.n_near[0] * n_second;
            for (uint32_t i = t; i < n_pairs; i += CT_BLOCK) {
                const uint32_t first = placed.near[0][i / n_second], second = placed.near[1][i % n_second];
                if (!boxes_overlap(placed.box[0][first], placed.box[1][second])) continue;
                if (is_self && !may_cross_own(body, slots, first, second)) continue;
                const uint64_t at = ct_append_index(&b.counts->triangle_pairs);
                if (at >= b.capacity.triangle_pairs) continue;
                const ct_exact_triangle_pair pair = {(uint32_t)c, {(uint8_t)first, (uint8_t)second}, {0, 0}};
                b.triangle_pairs[at] = pair;
            }
        }
        CT_BARRIER();
    }
}

/* ---- crossings ---- */

/* Adds a crossing to a slot's. One beyond the capacity is counted all the same. */
CT_DEVICE void add_crossing(const ct_exact_tables &b, uint32_t slot, uint32_t triangle, uint32_t other,
                            const ct_triangle_share *share, uint32_t passes, bool crosses, int turn_corner, int turn) {
    const uint64_t at = ct_append_index(&b.counts->crossings);
    if (atomicAdd(&b.slots[slot].n_crossings, 1u) == 0) {
        const uint64_t crossed = ct_append_index(&b.counts->crossed);
        if (crossed < b.capacity.crossed) b.crossed[crossed].slot = slot;
        b.slots[slot].crossed = (uint32_t)crossed + 1;
    }
    if (at >= b.capacity.crossings) return;
    ct_exact_crossing *to = &b.crossings[at];
    to->slot = slot;
    to->other = other;
    to->triangle = (uint8_t)triangle;
    to->passes = (uint8_t)passes;
    to->crosses = crosses;
    to->turn_corner = (uint8_t)turn_corner;
    to->turn = (signed char)turn;
    for (int k = 0; k < 3; k++) to->jump[k] = share->jump[k];
    for (int k = 0; k < CT_INTEGRALS; k++) to->of[k] = share->integrals.of[k];
    to->of[CT_INTEGRALS] = share->near_area;
    to->of[CT_INTEGRALS + 1] = share->rounding;
}

/* area: units^2, above 0, of a pair of triangles in the clusters with these slots. */
CT_DEVICE void add_left_out(const ct_exact_tables &b, ct_exact_plan *plan, const uint32_t slot[2], double area,
                            uint32_t passes) {
    const uint64_t moved[2] = {b.slots[slot[0]].moved, b.slots[slot[1]].moved};
    uint64_t low, high;
    ct_round_left_out(area, &low, &high);
    for (uint32_t i = 0; i < 2; i++) {
        if (!(passes >> i & 1)) continue;
        ct_atomic_add(&plan->left_out[i].low, low);
        if (high) ct_atomic_add(&plan->left_out[i].high, high);
        ct_atomic_max(&plan->left_out_moved[i], moved[0] > moved[1] ? moved[0] : moved[1]);
    }
}

/* Two triangles that are to be crossed. */
struct placed_pair {
    uint32_t slot[2], number[2]; /* number: in the mesh */
    bool is_own;                 /* of one body */
    ct_exact_plan *plan;
    double corner[2][3][3];
};

CT_DEVICE void place_pair(const ct_exact_tables &b, const ct_exact_triangle_pair *pair, placed_pair *to) {
    for (uint32_t k = 0; k < 2; k++) to->slot[k] = b.cluster_pairs[pair->cluster_pair][k];
    const uint64_t p = b.slots[to->slot[0]].side / 2;
    to->plan = &b.exact[p];
    to->is_own = ct_is_self_pair(&b.pairs[p]);
    for (uint32_t k = 0; k < 2; k++) {
        to->number[k] = (uint32_t)number_of(&b.slots[to->slot[k]], pair->triangle[k]);
        ct_place_triangle(to->plan, ct_body_of_side(b, b.slots[to->slot[k]].side), k, to->number[k], to->corner[k]);
    }
}

/* Crosses two triangles of two bodies in both passes. */
CT_DEVICE void cross_pair(const ct_exact_tables &b, const ct_exact_triangle_pair *pair) {
    placed_pair at;
    place_pair(b, pair, &at);
    if (b.finds_own && at.is_own) return;
    const double *const p[2][3] = {{at.corner[0][0], at.corner[0][1], at.corner[0][2]},
                                   {at.corner[1][0], at.corner[1][1], at.corner[1][2]}};
    int has_ties = 0;
    for (uint32_t pass = 0; pass < (has_ties ? 2u : 1u); pass++) {
        ct_triangle_share share[2];
        double left_out;
        const int found = ct_cross_pair(p, ct_moved_against(0, pass), share, &left_out, &has_ties);
        if (found == CT_TRIANGLES_INCONSISTENT) ct_atomic_add(&b.counts->inconsistent, 1);
        if (pass == 0 && has_ties) atomicMax(&at.plan->has_ties, 1u);
        const uint32_t passes = has_ties ? 1u << pass : 3u; /* without ties both passes are alike */
        if (left_out > 0) add_left_out(b, at.plan, at.slot, left_out, passes);
        if (found != CT_TRIANGLES_CROSS && found != CT_TRIANGLES_NEAR) continue;
        for (uint32_t i = 0; i < 2; i++)
            if (passes >> i & 1) ct_atomic_add(&at.plan->found[i], 1);
        for (uint32_t k = 0; k < 2; k++)
            add_crossing(b, at.slot[k], pair->triangle[k], at.number[1 - k], &share[k], passes,
                         found == CT_TRIANGLES_CROSS, 0, 0);
    }
}

/* Crosses two triangles of one body in both passes. Either sees the other one move, so that what triangle 0 finds in a
 * pass is what triangle 1 finds in the other one. */
CT_DEVICE void cross_own_pair(const ct_exact_tables &b, const ct_exact_triangle_pair *pair) {
    placed_pair at;
    place_pair(b, pair, &at);
    if (!at.is_own) return;
    const double *const p[2][3] = {{at.corner[0][0], at.corner[0][1], at.corner[0][2]},
                                   {at.corner[1][0], at.corner[1][1], at.corner[1][2]}};
    const uint32_t *triangles = ct_body_of_side(b, b.slots[at.slot[0]].side)->triangles;
    int shared[2] = {0, 0}, has_ties = 0;
    const int n_shared = ct_count_shared_vertices(triangles + 3 * (uint64_t)at.number[0],
                                                  triangles + 3 * (uint64_t)at.number[1], shared);
    for (uint32_t pass = 0; pass < (has_ties ? 2u : 1u); pass++) {
        ct_triangle_share share[2];
        double left_out = 0;
        int turn[2] = {0, 0};
        const int moved = ct_moved_against(0, pass);
        const int found = n_shared ? ct_cross_at_vertex(p, shared, moved, share, turn, &has_ties)
                                   : ct_cross_pair(p, moved, share, &left_out, &has_ties);
        if (found == CT_TRIANGLES_INCONSISTENT) ct_atomic_add(&b.counts->inconsistent, 1);
        if (left_out > 0) add_left_out(b, at.plan, at.slot, left_out, 3); /* what either sees counts in both passes */
        if (found != CT_TRIANGLES_CROSS && found != CT_TRIANGLES_NEAR) continue;
        /* If they cross in neither pass, the passes do not differ. */
        if (has_ties && found == CT_TRIANGLES_CROSS) atomicMax(&at.plan->has_ties, 1u);
        for (uint32_t i = 0; i < 2; i++) ct_atomic_add(&at.plan->found[i], 1);
        const uint32_t passes[2] = {has_ties ? 1u << pass : 3u, has_ties ? 2u >> pass : 3u};
        for (uint32_t k = 0; k < 2; k++)
            add_crossing(b, at.slot[k], pair->triangle[k], at.number[1 - k], &share[k], passes[k],
                         found == CT_TRIANGLES_CROSS, shared[k], turn[k]);
    }
}

/* Apart from cross_triangles, so that its code takes no registers from that. */
CT_KERNEL cross_own_triangles(const ct_exact_tables b) {
    if (ct_exact_triangle_shortage(b.counts, &b.capacity)) return;
    CT_FOR(i, b.counts->triangle_pairs) cross_own_pair(b, &b.triangle_pairs[i]);
}

CT_KERNEL cross_triangles(const ct_exact_tables b) {
    if (ct_exact_triangle_shortage(b.counts, &b.capacity)) return;
    CT_FOR(i, b.counts->triangle_pairs) cross_pair(b, &b.triangle_pairs[i]);
    if (!ct_is_last_block(&b.counts->finished_blocks[CT_LAST_OF_CROSS])) return;
    const uint64_t n_crossed = b.counts->crossed;
    if (n_crossed > b.capacity.crossed) return;
    const uint64_t n_windings = ct_scan<uint64_t>(
        n_crossed,
        [&](uint64_t i) {
            const ct_exact_slot *slot = &b.slots[b.crossed[i].slot];
            if (ct_is_self_pair(&b.pairs[slot->side / 2])) return (uint64_t)0; /* it has own_numbers instead */
            return 2 * (uint64_t)ct_vertices_of_cluster(ct_body_of_side(b, slot->side)->topology, slot->cluster);
        },
        [&](uint64_t i, uint64_t before) { b.crossed[i].first_winding = before; });
    ct_scan<uint64_t>(
        n_crossed, [&](uint64_t i) { return (uint64_t)b.slots[b.crossed[i].slot].n_crossings; },
        [&](uint64_t i, uint64_t before) { b.crossed[i].first = before; });
    CT_THREADS(t) {
        if (t == 0) b.counts->windings = n_windings;
    }
}

/* ---- by clusters ---- */

/* A crossing's place in its cluster: by triangle, by the other body's triangle, and by pass. */
CT_DEVICE uint64_t key_of(const ct_exact_crossing *c) {
    return (uint64_t)c->triangle << 34 | (uint64_t)c->other << 2 | c->passes;
}

CT_KERNEL scatter_crossings(const ct_exact_tables b) {
    if (ct_exact_cross_shortage(b.counts, &b.capacity)) return;
    CT_FOR(i, b.counts->crossings) {
        ct_exact_slot *slot = &b.slots[b.crossings[i].slot];
        const uint64_t at = b.crossed[slot->crossed - 1].first + atomicAdd(&slot->n_scattered, 1u);
        b.crossing_keys[at] = key_of(&b.crossings[i]);
        b.crossing_index[at] = (uint32_t)i;
    }
}

const ct_kernel_entry ct_cross_kernels[] = {CT_KERNEL_ENTRY(find_triangle_pairs), CT_KERNEL_ENTRY(cross_own_triangles),
                                            CT_KERNEL_ENTRY(cross_triangles), CT_KERNEL_ENTRY(scatter_crossings),
                                            CT_KERNELS_END};

unsigned ct_cuda_cross(const ct_exact_tables *tables, unsigned grid, cudaStream_t stream) {
    unsigned n = CT_LAUNCH(find_triangle_pairs, grid, stream, *tables);
    if (tables->finds_own) n += CT_LAUNCH(cross_own_triangles, grid, stream, *tables);
    n += CT_LAUNCH(cross_triangles, grid, stream, *tables);
    n += CT_LAUNCH(scatter_crossings, grid, stream, *tables);
    return n;
}

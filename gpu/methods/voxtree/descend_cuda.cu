/* descend_cuda.cu - compares voxel trees on one level: a thread for each child of each open cube. */
#include "gpu/methods/voxtree/descend_cuda.cuh"
#include "gpu/methods/voxtree/meet_k.h"
#include "gpu/scene/counts_cuda.cuh"

/* ---- sums of groups ---- */

enum { MOST_PROBES = 64 };

CT_DEVICE uint64_t mix(uint64_t key) {
    key = (key ^ key >> 31) * 0x7fb5d329728ea185;
    return key ^ key >> 27;
}

/* NULL: the table is too full. */
CT_DEVICE ct_voxel_slot *find_slot(const ct_voxel_tables &t, uint64_t key) {
    for (uint64_t at = mix(key), probe = 0; probe < MOST_PROBES; probe++, at++) {
        ct_voxel_slot *slot = &t.slots[at & (t.n_slots - 1)];
        const uint64_t found = ct_atomic_cas(&slot->key, 0, key);
        if (found == 0 || found == key) return slot;
    }
    return nullptr;
}

CT_DEVICE uint64_t key_of(uint32_t place, bool is_settled, uint32_t group, uint32_t other) {
    return ((uint64_t)place + 1) << 33 | (uint64_t)is_settled << 32 | (uint64_t)group << 16 | other;
}

CT_DEVICE void add_group(const ct_voxel_tables &t, uint64_t key, const ct_voxel_group_sums *sums) {
    ct_voxel_slot *slot = find_slot(t, key);
    if (!slot) {
        ct_atomic_add(&t.counts->n_lost, sums->n);
        return;
    }
    for (int k = 0; k < 3; k++) {
        ct_atomic_sum(&slot->sums.normal[k], sums->normal[k]);
        ct_atomic_sum(&slot->sums.point[k], sums->point[k]);
    }
    ct_atomic_sum(&slot->sums.probability, sums->probability);
    ct_atomic_sum(&slot->sums.depth, sums->depth);
    ct_atomic_add(&slot->sums.n, sums->n);
}

CT_DEVICE void flush_group(const ct_voxel_tables &t, uint64_t key, ct_voxel_group_sums *sums) {
    if (!sums->n) return;
    add_group(t, key, sums);
    *sums = ct_voxel_group_sums();
}

CT_DEVICE void add_primitive(const ct_voxel_geometry *g, const ct_voxel_met *met, int64_t probability,
                             ct_voxel_group_sums *sums) {
    const int64_t whole = (int64_t)1 << CT_VOXEL_WEIGHT_BITS;
    const int64_t normal_weight = g->has_plain_average ? whole : 1;
    const int64_t point_weight = g->has_plain_average ? whole : probability;
    for (int k = 0; k < 3; k++) {
        sums->normal[k] += normal_weight * ct_round_i32(met->normal[k]);
        sums->point[k] += point_weight * ct_round_i32(met->point[k]);
    }
    sums->probability += probability;
    sums->depth += probability * ct_round_i32(met->depth);
    sums->n++;
}

/* Primitives of an open cube; node: NULL if it is full. */
CT_DEVICE void add_primitives(const ct_voxel_tables &t, uint32_t place, const ct_voxel *node,
                              const ct_voxel_around *around) {
    const ct_voxel_geometry *g = &t.geometry[place];
    const uint32_t group = node ? node->group : (uint32_t)CT_VOXEL_INSIDE;
    ct_voxel_side side;
    ct_voxel_find_side(g, node, &side);
    ct_voxel_drivers driver;
    driver.occupancy = side.occupancy;
    for (int k = 0; k < 3; k++) {
        driver.center[k] = around->from[k] + around->center[k];
        driver.area[k] = side.area[k];
        driver.arm[k] = side.arm[k];
    }
    ct_voxel_group_sums sums = ct_voxel_group_sums();
    uint64_t last = 0;
    for (int i = 0; i < 8; i++) {
        const ct_voxel *other = around->node[i];
        if (group == CT_VOXEL_INSIDE && other->group == CT_VOXEL_INSIDE) continue; /* some surface must be near */
        ct_voxel_others of;
        of.occupancy = (double)other->occupancy;
        for (int k = 0; k < 3; k++) {
            driver.line[k] = around->from[k] - (double)(i >> k & 1);
            of.area[k] = (double)other->area[k];
            of.arm[k] = ct_voxel_arm(other->center[k]);
        }
        ct_voxel_met met;
        ct_voxel_weigh(g, &driver, &of, &met);
        if (!ct_round_i32(met.probability)) continue;
        ct_voxel_meet(g, &driver, &of, &met);
        const int64_t probability = ct_round_i32(met.probability);
        if (!probability) continue; /* plain averages have no normal there */
        const uint64_t key = key_of(place, false, group, other->group);
        if (key != last) flush_group(t, last, &sums);
        last = key;
        add_primitive(g, &met, probability, &sums);
    }
    flush_group(t, last, &sums);
}

CT_DEVICE void add_settled_primitive(const ct_voxel_tables &t, uint32_t place, const ct_voxel *node,
                                     const double u[4]) {
    ct_voxel_group_sums sums;
    ct_voxel_settle_primitive(&t.geometry[place], node, u, &sums);
    add_group(t, key_of(place, true, node->group, CT_VOXEL_INSIDE), &sums);
}

/* ---- cubes ---- */

/* The child of an open cube that thread k of eight compares. False: there is none. */
CT_DEVICE bool find_child(const ct_voxel_level *level, const ct_voxel_open *parent, uint32_t k, uint8_t at[3],
                          const ct_voxel **node) {
    const ct_voxel_brick *brick;
    const uint64_t bits = ct_voxel_children(level, parent, &brick);
    const uint32_t bit =
        ct_voxel_bit(2u * parent->at[0] + (k & 1), 2u * parent->at[1] + (k >> 1 & 1), 2u * parent->at[2] + (k >> 2));
    if (!(bits >> bit & 1)) return false;
    ct_voxel_child_at(parent, bit, at);
    *node = brick->boundary >> bit & 1 ? ct_voxel_node(level, brick, bit) : nullptr;
    return true;
}

CT_DEVICE bool find_root(const ct_voxel_level *level, uint32_t k, uint8_t at[3], const ct_voxel **node) {
    bool is_full;
    at[0] = at[1] = at[2] = 0;
    *node = ct_voxel_find(level, 0, 0, 0, &is_full);
    return k == 0;
}

CT_DEVICE void keep_open(const ct_voxel_tables &t, const ct_voxel_geometry *g, uint32_t pair, const uint8_t at[3],
                         bool is_boundary, ct_voxel_cube_sums *sums) {
    ct_voxel_front open;
    open.pair = pair;
    for (int k = 0; k < 3; k++) open.open.at[k] = at[k];
    open.open.is_boundary = is_boundary;
    sums->n_children += ct_voxel_count_children(g, &open.open);
    t.next[ct_append_index(&t.counts->n_next)] = open;
}

/* Adds each thread's sums to those of its pair, settled or open. The threads of a warp with the same add theirs first.
 */
CT_DEVICE void add_sums(const ct_voxel_tables &t, uint32_t place, bool is_open, const ct_voxel_cube_sums *sums) {
    const int64_t *mine = (const int64_t *)sums;
    int64_t *to = (int64_t *)(is_open ? &t.sums[place].open : &t.sums[place].settled);
    const unsigned peers = ct_peers((uint64_t)place << 1 | is_open);
    const bool is_first = (int)ct_warp_lane() == ct_first_peer(peers);
    for (int w = 0; w < CT_VOXEL_CUBE_SUMS; w += 2) {
        int64_t a = mine[w], b = w + 1 < CT_VOXEL_CUBE_SUMS ? mine[w + 1] : 0;
        ct_sum_peers(peers, &a, &b);
        if (is_first && a) ct_atomic_sum(&to[w], a);
        if (is_first && b) ct_atomic_sum(&to[w + 1], b);
    }
}

CT_KERNEL compare_cubes(const ct_voxel_tables t) {
    CT_FOR(i, 8 * t.n_front) {
        const ct_voxel_front from = t.front[i / 8];
        const uint32_t place = t.place[from.pair], k = (uint32_t)(i % 8);
        if (place == CT_GPU_NONE) continue;
        const ct_voxel_geometry *g = &t.geometry[place];
        uint8_t at[3];
        const ct_voxel *node;
        if (!(t.is_root ? find_root(&g->a, k, at, &node) : find_child(&g->a, &from.open, k, at, &node))) continue;
        const double center[3] = {at[0] + 0.5, at[1] + 0.5, at[2] + 0.5};
        double u[4];
        ct_voxel_place(g, center, u);
        ct_voxel_around around;
        const ct_voxel_status status = ct_voxel_test(g, u, &around);
        if (status == CT_VOXEL_IS_EMPTY) continue;
        ct_voxel_cube_sums sums = ct_voxel_cube_sums();
        if (status == CT_VOXEL_IS_OPEN) {
            keep_open(t, g, from.pair, at, node != nullptr, &sums);
            ct_voxel_add_open(g, node, center, &around, &sums);
            if (g->finds_points && g->finds_estimates) add_primitives(t, place, node, &around);
        } else {
            ct_voxel_add_settled(g, node, center, &sums);
            if (node && g->settles_points) add_settled_primitive(t, place, node, u);
        }
        add_sums(t, place, status == CT_VOXEL_IS_OPEN, &sums);
    }
}

CT_KERNEL list_groups(const ct_voxel_tables t) {
    CT_FOR(i, t.n_slots) {
        if (t.slots[i].key) t.groups[ct_append_index(&t.counts->n_groups)] = t.slots[i];
    }
}

const ct_kernel_entry ct_descend_kernels[] = {CT_KERNEL_ENTRY(compare_cubes), CT_KERNEL_ENTRY(list_groups),
                                              CT_KERNELS_END};

unsigned ct_cuda_descend(const ct_voxel_tables *tables, unsigned grid, cudaStream_t stream) {
    unsigned n = CT_LAUNCH(compare_cubes, grid, stream, *tables);
    if (tables->n_slots) n += CT_LAUNCH(list_groups, grid, stream, *tables);
    return n;
}

/* slot_cuda.cuh - a near cluster with all that belongs to it, once crossings are totalled and winding numbers are
 * known: for the kernels that add up its surface. */
#ifndef CT_EXACT_SLOT_CUDA_CUH
#define CT_EXACT_SLOT_CUDA_CUH

#include "gpu/methods/exact/exact_cuda.cuh"

/* A slot with all that belongs to it. */
struct ct_slot_view {
    const ct_exact_plan *plan;
    const ct_gpu_body *body;
    const ct_gpu_topology *topology;
    const ct_exact_crossed *crossed; /* NULL: no crossings */
    /* [2][n_units], per pass: of a part in a piece its units' winding numbers, of a body with itself those just outside
     * its triangles, which stand for units there; else NULL. */
    const int32_t *units;
    const uint32_t *vertices;
    const uint16_t (*corners)[3];
    const uint8_t *unit_in_cluster;
    uint64_t side;
    bool is_self;
    uint32_t cluster, n_triangles, n_vertices, first_unit, n_units, n_crossings;
    uint64_t first_crossing; /* in crossing_keys and crossing_index, sorted */
};

CT_DEVICE ct_slot_view ct_view_slot(const ct_exact_tables &b, const ct_exact_slot *slot) {
    ct_slot_view v;
    v.side = slot->side;
    v.cluster = slot->cluster;
    v.plan = &b.exact[v.side / 2];
    v.body = ct_body_of_side(b, v.side);
    v.topology = v.body->topology;
    v.crossed = slot->crossed ? &b.crossed[slot->crossed - 1] : NULL;
    v.vertices = v.topology->vertices + v.topology->first_vertex[v.cluster];
    v.corners = v.topology->corners + (uint64_t)v.cluster * CT_CLUSTER_TRIANGLES;
    v.unit_in_cluster = v.topology->unit_in_cluster + (uint64_t)v.cluster * CT_CLUSTER_TRIANGLES;
    v.n_triangles = ct_triangles_of_cluster(v.body->n_triangles, v.cluster);
    v.n_crossings = slot->n_crossings;
    v.first_crossing = v.crossed ? v.crossed->sorted * b.capacity.crossings + v.crossed->first : 0;
    v.n_vertices = ct_vertices_of_cluster(v.topology, v.cluster);
    v.first_unit = v.topology->first_unit[v.cluster];
    v.n_units = v.topology->first_unit[v.cluster + 1] - v.first_unit;
    v.units = slot->is_part ? b.windings + slot->units : NULL;
    v.is_self = ct_is_self_pair(&b.pairs[v.side / 2]);
    if (v.is_self) {
        v.n_units = v.n_triangles;
        v.units = b.own_numbers + v.plan->own.first_number + 2 * (uint64_t)v.cluster * CT_CLUSTER_TRIANGLES;
    }
    return v;
}

/* A crossed triangle's sums in a pass; NULL: it is not crossed. */
CT_DEVICE const ct_exact_total *ct_total_of(const ct_exact_tables &b, const ct_slot_view &v, uint32_t t,
                                            uint32_t pass) {
    if (!v.crossed || !v.crossed->first_of[t]) return NULL;
    const ct_exact_total *total = &b.totals[2 * (v.crossed->first + v.crossed->first_of[t] - 1) + pass];
    return total->n ? total : NULL;
}

/* The winding number of unit u of the cluster, or just outside triangle u of a body with itself. */
CT_DEVICE int32_t ct_winding_of_unit_in(const ct_exact_tables &b, const ct_slot_view &v, uint32_t u, uint32_t pass) {
    return v.units ? v.units[pass * v.n_units + u] : ct_winding_of_unit(b, v.topology, v.side, v.first_unit + u, pass);
}

/* The winding number at a corner of a triangle. */
CT_DEVICE int32_t ct_winding_at(const ct_exact_tables &b, const ct_slot_view &v, uint32_t t, int corner,
                                uint32_t pass) {
    if (v.is_self) return v.units[pass * v.n_units + t]; /* the one at the start of edge 1, as on the CPU */
    const int32_t of_unit = ct_winding_of_unit_in(b, v, v.unit_in_cluster[t], pass);
    if (!v.crossed) return of_unit;
    return of_unit + b.windings[v.crossed->first_winding + pass * (uint64_t)v.n_vertices + v.corners[t][corner]];
}

CT_DEVICE void ct_place_corners(const ct_slot_view &v, uint32_t t, double corner[3][3]) {
    for (int k = 0; k < 3; k++) ct_place_vertex(v.plan, v.body, v.side & 1, v.vertices[v.corners[t][k]], corner[k]);
}

#endif

/* second_cuda.cu - each cluster's sums for products with the second derivative and for the inertia, as second_cpu.c
 * makes them on the CPU and in the same order. The host merges them (second_k.h): few steps want them. */
#include "gpu/device/cuda/collective.cuh"
#include "gpu/methods/exact/second_k.h"
#include "gpu/methods/exact/self_k.h"
#include "gpu/methods/exact/slot_cuda.cuh"

/* ---- what is wanted ---- */

/* Doubles of a cluster's sums in one pass: [vertices][K][3] products, [K][2][3] forces, [CT_MOMENTS] moments. */
CT_DEVICE uint64_t sums_of_pass(const ct_gpu_step *step, uint32_t n_vertices) {
    return (3 * (uint64_t)n_vertices + 6) * step->n_directions + CT_MOMENTS;
}

CT_DEVICE const ct_gpu_step *step_of_side(const ct_exact_tables &b, uint64_t side) {
    return &b.steps[b.pairs[side / 2].step];
}

/* The passes of a slot whose sums are wanted. */
CT_DEVICE uint32_t wanted_passes(const ct_exact_tables &b, uint64_t i) {
    const ct_exact_slot *slot = &b.slots[i];
    const bool is_wanted = step_of_side(b, slot->side)->wants_second && b.exact[slot->side / 2].is_contact;
    return is_wanted ? slot->is_added : 0;
}

CT_DEVICE uint64_t doubles_of_slot(const ct_exact_tables &b, uint64_t i) {
    const uint32_t passes = wanted_passes(b, i);
    if (!passes) return 0;
    const ct_exact_slot *slot = &b.slots[i];
    const uint32_t n = ct_vertices_of_cluster(ct_body_of_side(b, slot->side)->topology, slot->cluster);
    return (passes == 3 ? 2 : 1) * sums_of_pass(step_of_side(b, slot->side), n);
}

CT_DEVICE void describe_pair(const ct_exact_tables &b, uint64_t p) {
    const ct_exact_plan *plan = &b.exact[p];
    ct_second_of_pair *to = &b.second_pairs[p];
    to->unit = plan->lattice.unit;
    to->n_passes = ct_pass_count(plan);
    for (int k = 0; k < 3; k++) to->origin[k] = plan->lattice.origin[k];
    for (int k = 0; k < 2; k++) {
        to->first_slot[k] = plan->first_slot[k];
        to->n_slots[k] = plan->n_slots[k];
    }
}

/* In one block: where each slot's sums lie. */
CT_KERNEL plan_second(const ct_exact_tables b) {
    if (ct_exact_cross_shortage(b.counts, &b.capacity) || b.counts->pages > b.capacity.pages) return;
    CT_FOR(p, b.counts->pairs) describe_pair(b, p);
    if (CT_BLOCK_INDEX > 0) return;
    const uint64_t n = ct_scan<uint64_t>(
        b.counts->slots, [&](uint64_t i) { return doubles_of_slot(b, i); },
        [&](uint64_t i, uint64_t before) {
            ct_second_of_slot of;
            of.cluster = b.slots[i].cluster;
            of.passes = wanted_passes(b, i);
            of.first = before;
            b.second_slots[i] = of;
        });
    CT_THREADS(t) {
        if (t > 0) continue;
        b.counts->second_sums = n;
        b.counts->recrossings = b.counts->crossings;
    }
}

/* ---- segments ---- */

/* Whether triangles `own` of a side and `other` of the other one share a vertex, at which corners; only of a body with
 * itself. */
CT_DEVICE bool find_shared_corners(const ct_exact_tables &b, uint64_t side, uint64_t own, uint64_t other,
                                   int shared[2]) {
    const uint32_t *triangles = ct_body_of_side(b, side)->triangles;
    return ct_is_self_pair(&b.pairs[side / 2]) &&
           ct_count_shared_vertices(triangles + 3 * own, triangles + 3 * other, shared);
}

/* Finds the segments of crossing triangles again, in either pass. */
CT_KERNEL recross_triangles(const ct_exact_tables b) {
    if (ct_exact_second_shortage(b.counts, &b.capacity)) return;
    CT_FOR(i, b.counts->crossings) {
        const ct_exact_crossing *c = &b.crossings[i];
        const ct_exact_slot *slot = &b.slots[c->slot];
        const uint64_t side = slot->side;
        const ct_exact_plan *plan = &b.exact[side / 2];
        if (slot->is_split ? !step_of_side(b, side)->wants_second : !wanted_passes(b, c->slot)) continue;
        double corner[2][3][3];
        const double *p[2][3];
        const uint64_t own = (uint64_t)slot->cluster * CT_CLUSTER_TRIANGLES + c->triangle;
        ct_place_triangle(plan, ct_body_of_side(b, side), side & 1, own, corner[0]);
        ct_place_triangle(plan, ct_body_of_side(b, side ^ 1), 1 - (side & 1), c->other, corner[1]);
        for (int k = 0; k < 3; k++) {
            p[0][k] = corner[0][k];
            p[1][k] = corner[1][k];
        }
        int shared[2];
        const bool is_at_vertex = find_shared_corners(b, side, own, c->other, shared);
        for (uint32_t pass = 0; pass < ct_pass_count(plan); pass++) {
            ct_second_crossing *to = &b.recrossings[2 * i + pass];
            const int moved = ct_moved_against(side & 1, pass);
            to->is_found =
                c->passes >> pass & 1 && (is_at_vertex ? ct_recross_at_vertex(p[0], p[1], shared, moved, &to->segment)
                                                       : ct_recross(p[0], p[1], moved, &to->segment));
        }
    }
}

/* ---- a cluster ---- */

/* A slot's sums in one pass, with all that they are made of. */
struct second_view {
    ct_slot_view slot;
    const ct_gpu_step *step;
    uint32_t pass;
    double *products, *forces, *moments;
    double arm[2][3]; /* m: from the origin of the own body and of the other one to the lattice's */
    double center[3]; /* units: the contact's */
    const ct_gpu_direction *directions[2]; /* [n_directions] of the own body and of the other one */
};

CT_DEVICE second_view view_second(const ct_exact_tables &b, uint64_t i, uint32_t pass) {
    second_view v;
    v.slot = ct_view_slot(b, &b.slots[i]);
    v.step = step_of_side(b, v.slot.side);
    v.pass = pass;
    const ct_second_of_slot *of = &b.second_slots[i];
    v.products = b.second_sums + of->first;
    if (pass && of->passes & 1) v.products += sums_of_pass(v.step, v.slot.n_vertices);
    v.forces = v.products + 3 * (uint64_t)v.slot.n_vertices * v.step->n_directions;
    v.moments = v.forces + 6 * v.step->n_directions;
    const ct_exact_lattice *lattice = &v.slot.plan->lattice;
    for (uint64_t k = 0; k < 2; k++) {
        const uint32_t index = b.pairs[v.slot.side / 2].body[(v.slot.side & 1) ^ k];
        const ct_gpu_body *body = b.bodies[index];
        for (int j = 0; j < 3; j++) v.arm[k][j] = lattice->origin[j] - body->about[j];
        v.directions[k] =
            b.directions + v.step->first_direction + (uint64_t)(index - v.step->first_body) * v.step->n_directions;
    }
    for (int j = 0; j < 3; j++) v.center[j] = (v.slot.plan->contact.center[j] - lattice->origin[j]) * lattice->inverse;
    return v;
}

/* A vertex's motion along a direction, m. k: 0 the own body, 1 the other one. */
CT_DEVICE void find_motion(const ct_exact_tables &b, const second_view &v, int k, uint32_t direction, uint32_t vertex,
                           const double point[3], double out[3]) {
    const ct_gpu_direction *d = &v.directions[k][direction];
    out[0] = out[1] = out[2] = 0;
    if (d->kind == CT_GPU_MOVES_BY_TWIST) {
        ct_find_rigid_motion(d->twist, point, v.slot.plan->lattice.unit, v.arm[k], out);
    } else if (d->kind == CT_GPU_MOVES_BY_VALUES) {
        for (int j = 0; j < 3; j++) out[j] = b.direction_values[d->first_value + 3 * (uint64_t)vertex + (uint64_t)j];
    }
}

/* Triangle t of the cluster, as add_cluster of second_cpu.c has it. False: it is outside. */
struct second_triangle {
    double corner[3][3], part[3];
    ct_moment_triangle moments;
    int32_t winding;
    uint32_t first, end; /* its crossings, in all passes, in the sorted list */
};

CT_DEVICE bool find_triangle(const ct_exact_tables &b, const second_view &v, uint32_t t, second_triangle *out) {
    const ct_exact_total *total = ct_total_of(b, v.slot, t, v.pass);
    out->winding = ct_winding_at(b, v.slot, t, 1, v.pass);
    if (!total && !out->winding) return false;
    ct_integrals integrals = ct_whole_integrals(out->winding);
    for (int i = 0; total && i < CT_INTEGRALS; i++) integrals.of[i] += total->of[i];
    out->part[0] = integrals.of[0] - integrals.of[1] - integrals.of[2];
    out->part[1] = integrals.of[1];
    out->part[2] = integrals.of[2];
    ct_place_corners(v.slot, t, out->corner);
    for (int j = 0; j < 3; j++) {
        out->moments.corner[j] = out->corner[0][j] - v.center[j];
        out->moments.u[j] = out->corner[1][j] - out->corner[0][j];
        out->moments.v[j] = out->corner[2][j] - out->corner[0][j];
    }
    ct_cross3(out->moments.u, out->moments.v, out->moments.normal);
    out->first = total ? v.slot.crossed->first_of[t] - 1 : 0;
    const uint64_t *keys = b.crossing_keys + v.slot.first_crossing;
    const uint32_t n = total ? v.slot.n_crossings : 0;
    for (out->end = out->first; out->end < n && (uint32_t)(keys[out->end] >> 34) == t;) out->end++;
    return true;
}

/* Crossing i of the sorted list; NULL: the triangles do not cross in this pass. */
CT_DEVICE const ct_recrossing *segment_at(const ct_exact_tables &b, const second_view &v, uint32_t i, uint32_t *other) {
    const uint32_t index = b.crossing_index[v.slot.first_crossing + i];
    const uint32_t passes = (uint32_t)b.crossing_keys[v.slot.first_crossing + i] & 3;
    const ct_second_crossing *c = &b.recrossings[2 * (uint64_t)index + v.pass];
    if (!(passes >> v.pass & 1) || !c->is_found) return NULL;
    *other = b.crossings[index].other;
    return &c->segment;
}

/* ---- products ---- */

/* The corner of the triangle that is a vertex of the cluster, from `from` on; 3: none. */
CT_DEVICE int find_corner(const uint16_t corner[3], uint32_t vertex, int from) {
    while (from < 3 && corner[from] != vertex) from++;
    return from;
}

/* The product at a vertex of the cluster along a direction. */
CT_DEVICE void sum_product(const ct_exact_tables &b, const second_view &v, uint32_t vertex, uint32_t direction) {
    double sum[3] = {0, 0, 0};
    const ct_gpu_body *its = ct_body_of_side(b, v.slot.side ^ 1);
    for (uint32_t t = 0; t < v.slot.n_triangles; t++) {
        const uint16_t *corner = v.slot.corners[t];
        const int first = find_corner(corner, vertex, 0);
        second_triangle triangle;
        if (first == 3 || !find_triangle(b, v, t, &triangle)) continue;
        double motions[3][3], turned[3];
        for (int i = 0; i < 3; i++)
            find_motion(b, v, 0, direction, v.slot.vertices[corner[i]], triangle.corner[i], motions[i]);
        ct_turn_normal(triangle.moments.u, triangle.moments.v, motions, turned);
        for (int i = first; i < 3; i = find_corner(corner, vertex, i + 1))
            for (int j = 0; j < 3; j++) sum[j] += turned[j] * triangle.part[i];
        for (uint32_t c = triangle.first; c < triangle.end; c++) {
            uint32_t other;
            const ct_recrossing *segment = segment_at(b, v, c, &other);
            if (!segment) continue;
            double point[3][3], others[3][3], products[3][3] = {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}};
            ct_place_triangle(v.slot.plan, its, 1 - (v.slot.side & 1), other, point);
            for (int i = 0; i < 3; i++)
                find_motion(b, v, 1, direction, its->triangles[3 * (uint64_t)other + (uint64_t)i], point[i], others[i]);
            ct_add_moved_segment(segment, motions, others, products);
            for (int i = first; i < 3; i = find_corner(corner, vertex, i + 1))
                for (int j = 0; j < 3; j++) sum[j] += products[i][j];
        }
    }
    for (int j = 0; j < 3; j++)
        v.products[3 * ((uint64_t)vertex * v.step->n_directions + direction) + (uint64_t)j] = sum[j];
}

/* The gradient at a vertex of the cluster, units^2, and where its triangles first use it. */
CT_DEVICE void sum_gradient(const ct_exact_tables &b, const second_view &v, uint32_t vertex, double gradient[3],
                            uint32_t *first_use) {
    double sum[3] = {0, 0, 0};
    *first_use = UINT32_MAX;
    for (uint32_t t = 0; t < v.slot.n_triangles; t++) {
        const uint16_t *corner = v.slot.corners[t];
        const int first = find_corner(corner, vertex, 0);
        second_triangle triangle;
        if (first == 3) continue;
        if (*first_use == UINT32_MAX) *first_use = 3 * t + (uint32_t)first;
        if (!find_triangle(b, v, t, &triangle)) continue;
        for (int i = first; i < 3; i = find_corner(corner, vertex, i + 1))
            for (int j = 0; j < 3; j++) sum[j] += triangle.moments.normal[j] * triangle.part[i];
    }
    for (int j = 0; j < 3; j++) gradient[j] = sum[j];
}

/* The sum of the products along a direction, and of their torques, in the order in which triangles use the vertices. */
CT_DEVICE void sum_forces(const ct_exact_tables &b, const second_view &v, uint32_t direction,
                          const double (*gradients)[3], const uint32_t *first_use) {
    const ct_gpu_direction *d = &v.directions[0][direction];
    const double unit = v.slot.plan->lattice.unit, inverse = v.slot.plan->lattice.inverse;
    double sum[2][3] = {{0, 0, 0}, {0, 0, 0}}, origin[3] = {0, 0, 0};
    for (int j = 0; j < 3 && d->kind == CT_GPU_MOVES_BY_TWIST; j++) origin[j] = d->twist[j];
    for (uint32_t use = 0; use < 3 * v.slot.n_triangles; use++) {
        const uint32_t vertex = v.slot.corners[use / 3][use % 3];
        if (first_use[vertex] != use) continue;
        const double *product = v.products + 3 * ((uint64_t)vertex * v.step->n_directions + direction);
        double point[3], motion[3], arm[3], turned[3], carried[3];
        ct_place_vertex(v.slot.plan, v.slot.body, v.slot.side & 1, v.slot.vertices[vertex], point);
        find_motion(b, v, 0, direction, v.slot.vertices[vertex], point, motion);
        for (int j = 0; j < 3; j++) arm[j] = (motion[j] - origin[j]) * inverse;
        ct_cross3(point, product, turned);
        ct_cross3(arm, gradients[vertex], carried);
        for (int j = 0; j < 3; j++) {
            sum[0][j] += product[j];
            sum[1][j] += turned[j] + carried[j] * unit;
        }
    }
    for (int i = 0; i < 6; i++) v.forces[6 * direction + (uint32_t)i] = sum[i / 3][i % 3];
}

/* A block for each cluster: a thread for each vertex and direction, and then for each direction. */
CT_KERNEL sum_products(const ct_exact_tables b) {
    CT_SHARED double gradients[CT_CLUSTER_CORNERS][3];
    CT_SHARED uint32_t first_use[CT_CLUSTER_CORNERS];
    if (ct_exact_second_shortage(b.counts, &b.capacity)) return;
    CT_EACH_BLOCK(i, b.counts->slots) {
        const uint32_t passes = b.second_slots[i].passes;
        const uint32_t n_directions = step_of_side(b, b.slots[i].side)->n_directions;
        if (!passes || !n_directions) continue;
        for (uint32_t pass = 0; pass < 2; pass++) {
            if (!(passes >> pass & 1)) continue;
            const second_view v = view_second(b, i, pass);
            CT_BARRIER();
            CT_THREADS(t) {
                for (uint32_t k = t; k < v.slot.n_vertices * n_directions; k += CT_BLOCK)
                    sum_product(b, v, k / n_directions, k % n_directions);
                for (uint32_t k = t; k < v.slot.n_vertices; k += CT_BLOCK)
                    sum_gradient(b, v, k, gradients[k], &first_use[k]);
            }
            CT_BARRIER();
            CT_THREADS(t) {
                if (t < n_directions) sum_forces(b, v, t, gradients, first_use);
            }
        }
    }
}

/* ---- moments ---- */

/* A thread for each cluster and pass. */
CT_KERNEL sum_moments(const ct_exact_tables b) {
    if (ct_exact_second_shortage(b.counts, &b.capacity)) return;
    CT_FOR(i, 2 * b.counts->slots) {
        const uint32_t pass = (uint32_t)(i % 2);
        if (!(b.second_slots[i / 2].passes >> pass & 1)) continue;
        const second_view v = view_second(b, i / 2, pass);
        double sum[CT_MOMENTS], monomials[CT_MONOMIALS];
        for (int k = 0; k < CT_MOMENTS; k++) sum[k] = 0;
        const uint32_t n = v.step->want & CT_WANT_INERTIA ? v.slot.n_triangles : 0;
        for (uint32_t t = 0; t < n; t++) {
            second_triangle triangle;
            if (!find_triangle(b, v, t, &triangle)) continue;
            ct_whole_monomials(triangle.winding, monomials);
            for (uint32_t c = triangle.first; c < triangle.end; c++) {
                uint32_t other;
                const ct_recrossing *r = segment_at(b, v, c, &other);
                if (!r) continue;
                ct_add_segment_monomials(r->own[0], r->own[1], 1, monomials);
                for (int k = 0; k < r->n_jumps; k++) ct_add_edge_monomials(r->jump_at[k], r->jump[k], monomials);
            }
            ct_add_moments(&triangle.moments, monomials, sum);
        }
        for (int k = 0; k < CT_MOMENTS; k++) v.moments[k] = sum[k];
    }
}

const ct_kernel_entry ct_second_kernels[] = {CT_KERNEL_ENTRY(plan_second), CT_KERNEL_ENTRY(recross_triangles),
                                             CT_KERNEL_ENTRY(sum_products), CT_KERNEL_ENTRY(sum_moments),
                                             CT_KERNELS_END};

unsigned ct_cuda_find_second(const ct_exact_tables *tables, unsigned grid, cudaStream_t stream) {
    unsigned n = CT_LAUNCH(plan_second, grid, stream, *tables);
    n += CT_LAUNCH(recross_triangles, grid, stream, *tables);
    n += CT_LAUNCH(sum_products, grid, stream, *tables);
    n += CT_LAUNCH(sum_moments, grid, stream, *tables);
    return n;
}

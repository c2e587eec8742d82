/* self_cuda.cu - the winding numbers just outside the surface of a body with itself (self_k.h), and the moment of one
 * side of its contact: what self_cpu.c does on the CPU. Only batches with such bodies launch these kernels.
 *
 * The CPU floods the numbers from triangle to triangle. Here they are a prefix sum over a spanning forest of the
 * triangles (topology.h): each triangle adds, for all triangles below it, how the number jumps from its parent,
 * and each component's root adds its own number, which an exact ray finds.
 */

#include "gpu/device/cuda/collective.cuh"
#include "gpu/methods/exact/self_k.h"
#include "gpu/methods/exact/slot_cuda.cuh"

/* A body with itself. */
struct own_body {
    ct_exact_plan *plan;
    const ct_gpu_body *body;
    const ct_gpu_own_surface *surface;
    int32_t *numbers;   /* as in ct_own_plan: by clusters */
    int32_t *potential; /* [n_triangles][2] in the order of the forest */
};

CT_DEVICE own_body own_body_of(const ct_exact_tables &b, uint64_t p) {
    own_body own;
    own.plan = &b.exact[p];
    own.body = ct_body_of_side(b, 2 * p);
    own.surface = own.body->own_surface;
    own.numbers = b.own_numbers + own.plan->own.first_number;
    own.potential = own.numbers + 2 * (uint64_t)own.body->n_triangles;
    return own;
}

/* The other triangle's half-edge on the other side of a half-edge. */
CT_DEVICE uint32_t opposite_of(const own_body &own, uint32_t half_edge) {
    return own.surface->opposite[half_edge / 3][half_edge % 3];
}

/* How the number jumps from the triangle of a half-edge to the one on its other side, as ct_jump_across_edge. */
CT_DEVICE int jump_across(const own_body &own, uint32_t half_edge, uint32_t pass) {
    const uint32_t opposite = opposite_of(own, half_edge);
    double corner[2][3][3];
    ct_place_triangle(own.plan, own.body, 0, half_edge / 3, corner[0]);
    ct_place_triangle(own.plan, own.body, 0, opposite / 3, corner[1]);
    const double *const p[3] = {corner[0][0], corner[0][1], corner[0][2]};
    const double *const q[3] = {corner[1][0], corner[1][1], corner[1][2]};
    const int moved = ct_moved_against(0, pass);
    const int is_inside[2] = {ct_is_inside_copy(p, moved), ct_is_inside_copy(q, moved)};
    return ct_jump_across_edge(p, q[(opposite % 3 + 2) % 3], is_inside);
}

/* Of a triangle in a pass. */
CT_DEVICE ct_edge_numbers edge_numbers_of(const ct_exact_tables &b, const own_body &own, uint32_t triangle,
                                          uint32_t pass) {
    const int32_t none[3] = {0, 0, 0};
    const uint64_t cluster = own.plan->first_cluster[0] + triangle / CT_CLUSTER_TRIANGLES;
    const uint32_t as = b.slots[b.slot_of_cluster[cluster] - 1].crossed;
    if (!as) return ct_find_edge_numbers(none, none);
    const ct_exact_crossed *crossed = &b.crossed[as - 1];
    const uint32_t first = crossed->first_of[triangle % CT_CLUSTER_TRIANGLES];
    if (!first) return ct_find_edge_numbers(none, none);
    const ct_exact_total *total = &b.totals[2 * (crossed->first + first - 1) + pass];
    return ct_find_edge_numbers(total->jump, total->turn); /* all 0 if it is not crossed in this pass */
}

/* Adds x to the numbers of a triangle and of all below it. */
CT_DEVICE void add_below(const own_body &own, uint32_t triangle, uint32_t pass, int32_t x) {
    const ct_triangle_link link = own.surface->links[triangle];
    if (!x) return;
    atomicAdd(&own.potential[2 * (uint64_t)link.first + pass], x);
    if (link.end < own.body->n_triangles) atomicAdd(&own.potential[2 * (uint64_t)link.end + pass], -x);
}

/* ---- folds ---- */

/* Clears the potentials, and notes the bodies whose surface is folded flat somewhere: their passes differ. A block for
 * each cluster. */
CT_KERNEL find_own_folds(const ct_exact_tables b) {
    if (ct_exact_cross_shortage(b.counts, &b.capacity)) return;
    CT_EACH_BLOCK(s, b.counts->slots) {
        const ct_exact_slot *slot = &b.slots[s];
        if (!ct_is_self_pair(&b.pairs[slot->side / 2])) continue;
        const own_body own = own_body_of(b, slot->side / 2);
        const uint32_t n = ct_triangles_of_cluster(own.body->n_triangles, slot->cluster);
        CT_THREADS(t) {
            for (uint32_t i = t; i < n; i += CT_BLOCK) {
                const uint32_t triangle = slot->cluster * CT_CLUSTER_TRIANGLES + i;
                const uint64_t place = own.surface->links[triangle].first;
                own.potential[2 * place] = own.potential[2 * place + 1] = 0;
                for (uint32_t k = 0; k < 3; k++) /* each edge once */
                    if (opposite_of(own, 3 * triangle + k) / 3 > triangle && jump_across(own, 3 * triangle + k, 0))
                        atomicMax(&own.plan->has_ties, 1u);
            }
        }
    }
}

/* ---- rays ---- */

/* What a ray from the start of edge 1 of a component's root is followed with. */
struct own_ray {
    double end[2][3];
    uint32_t vertex[2];
    int32_t winding[2]; /* per pass */
};

/* What a triangle adds to the numbers at the ray's start. */
CT_DEVICE void hit_triangle(const own_body &own, uint64_t triangle, own_ray *ray) {
    double corner[3][3];
    ct_place_triangle(own.plan, own.body, 0, triangle, corner);
    const double *const t[3] = {corner[0], corner[1], corner[2]}, *const end[2] = {ray->end[0], ray->end[1]};
    for (uint32_t pass = 0; pass < ct_pass_count(own.plan); pass++) {
        const int winding =
            ct_own_ray_hit(end, ray->vertex, t, own.body->triangles + 3 * triangle, ct_moved_against(0, pass));
        if (winding) atomicAdd(&ray->winding[pass], winding);
    }
}

/* Follows a ray through all clusters, in one block. */
CT_DEVICE void follow_ray(const own_body &own, own_ray *ray) {
    CT_SHARED uint32_t hit[CT_BLOCK], n_hit;
    const uint32_t n = own.body->topology->n_clusters;
    const double *p = ray->end[0];
    const ct_node_box line = {{p[0], p[1], p[2]}, {INFINITY, p[1], p[2]}};
    for (uint32_t base = 0; base < n; base += CT_BLOCK) {
        CT_THREADS(t) {
            if (t == 0) n_hit = 0;
        }
        CT_BARRIER();
        CT_THREADS(t) {
            if (base + t >= n) continue;
            const ct_cluster_box rest = ct_box_of_cluster(own.body, base + t);
            const ct_node_box box = ct_place_box(&rest, &own.plan->pose[0]);
            if (ct_node_boxes_overlap(&box, &line)) hit[atomicAdd(&n_hit, 1u)] = base + t;
        }
        CT_BARRIER();
        CT_THREADS(t) {
            for (uint64_t i = t; i < (uint64_t)n_hit * CT_CLUSTER_TRIANGLES; i += CT_BLOCK) {
                const uint64_t triangle =
                    (uint64_t)hit[i / CT_CLUSTER_TRIANGLES] * CT_CLUSTER_TRIANGLES + i % CT_CLUSTER_TRIANGLES;
                if (triangle < own.body->n_triangles) hit_triangle(own, triangle, ray);
            }
        }
        CT_BARRIER();
    }
}

/* Whether the start of edge 1 lies inside the body's copy, as ct_edge_is_inside_copy. */
CT_DEVICE int root_is_inside(const own_body &own, uint32_t root, uint32_t pass) {
    const uint32_t opposite = opposite_of(own, 3 * root + 1);
    double corner[2][3][3];
    ct_place_triangle(own.plan, own.body, 0, root, corner[0]);
    ct_place_triangle(own.plan, own.body, 0, opposite / 3, corner[1]);
    const double *const p[3] = {corner[0][0], corner[0][1], corner[0][2]};
    const double *const q[3] = {corner[1][0], corner[1][1], corner[1][2]};
    const int moved = ct_moved_against(0, pass);
    const int is_inside[2] = {ct_is_inside_copy(p, moved), ct_is_inside_copy(q, moved)};
    return ct_edge_is_inside_copy(p, q[(opposite % 3 + 2) % 3], is_inside);
}

/* Finds the numbers at a component's root, in all passes. */
CT_DEVICE void find_root(const ct_exact_tables &b, uint64_t p, uint32_t root) {
    CT_SHARED own_ray ray;
    const own_body own = own_body_of(b, p);
    const uint32_t n_passes = ct_pass_count(own.plan);
    CT_BARRIER();
    CT_THREADS(t) {
        if (t < 2) {
            ray.winding[t] = 0;
            ray.vertex[t] = own.body->triangles[3 * (uint64_t)root + 1 + t];
            ct_place_vertex(own.plan, own.body, 0, ray.vertex[t], ray.end[t]);
        }
        if (t == 0) ct_atomic_add(&b.step_rays[b.pairs[p].step], n_passes);
    }
    CT_BARRIER();
    follow_ray(own, &ray);
    CT_THREADS(t) {
        if (t < n_passes) add_below(own, root, t, ray.winding[t] - root_is_inside(own, root, t));
    }
}

/* ---- along the surface ---- */

/* The jump from a triangle's parent to it. */
CT_DEVICE int32_t jump_from_parent(const ct_exact_tables &b, const own_body &own, uint32_t triangle, uint32_t edge,
                                   uint32_t pass) {
    const uint32_t of_parent = opposite_of(own, 3 * triangle + edge);
    return edge_numbers_of(b, own, of_parent / 3, pass).end[of_parent % 3] + jump_across(own, of_parent, pass) -
           edge_numbers_of(b, own, triangle, pass).start[edge];
}

/* A block for each component, and then for each cluster. */
CT_KERNEL find_own_jumps(const ct_exact_tables b) {
    if (ct_exact_cross_shortage(b.counts, &b.capacity)) return;
    const uint64_t n_components = b.counts->own_components;
    CT_EACH_BLOCK(i, n_components + b.counts->slots) {
        if (i < n_components) {
            const uint64_t p =
                ct_find_owner(b.counts->pairs, i, [&](uint64_t k) { return b.exact[k].own.first_component; });
            const uint64_t component = i - b.exact[p].own.first_component;
            find_root(b, p, ct_body_of_side(b, 2 * p)->own_surface->roots[component]);
            continue;
        }
        const ct_exact_slot *slot = &b.slots[i - n_components];
        if (!ct_is_self_pair(&b.pairs[slot->side / 2])) continue;
        const own_body own = own_body_of(b, slot->side / 2);
        const uint32_t n = ct_triangles_of_cluster(own.body->n_triangles, slot->cluster);
        CT_THREADS(t) {
            for (uint32_t k = t; k < n * ct_pass_count(own.plan); k += CT_BLOCK) {
                const uint32_t triangle = slot->cluster * CT_CLUSTER_TRIANGLES + k % n, pass = k / n;
                const uint32_t edge = own.surface->links[triangle].parent_edge;
                if (edge == CT_NO_PARENT_EDGE) continue;
                add_below(own, triangle, pass, jump_from_parent(b, own, triangle, edge, pass));
            }
        }
    }
}

/* Adds up the jumps. A block for each pair and pass. */
CT_KERNEL sum_own_jumps(const ct_exact_tables b) {
    if (ct_exact_cross_shortage(b.counts, &b.capacity)) return;
    CT_EACH_BLOCK(i, 2 * b.counts->pairs) {
        const uint64_t p = i / 2, pass = i % 2;
        const ct_exact_plan *plan = &b.exact[p];
        if (!ct_is_self_pair(&b.pairs[p]) || plan->is_skipped || pass >= ct_pass_count(plan)) continue;
        const own_body own = own_body_of(b, p);
        ct_scan<int32_t>(
            own.body->n_triangles, [&](uint64_t k) { return own.potential[2 * k + pass]; },
            [&](uint64_t k, int32_t before) { own.potential[2 * k + pass] += before; });
    }
}

/* Writes the numbers by clusters, and notes the largest one, and triangles with a negative one. A block for each
 * cluster. */
CT_KERNEL write_own_numbers(const ct_exact_tables b) {
    if (ct_exact_cross_shortage(b.counts, &b.capacity)) return;
    CT_EACH_BLOCK(s, b.counts->slots) {
        const ct_exact_slot *slot = &b.slots[s];
        if (!ct_is_self_pair(&b.pairs[slot->side / 2])) continue;
        const own_body own = own_body_of(b, slot->side / 2);
        const uint32_t n = ct_triangles_of_cluster(own.body->n_triangles, slot->cluster);
        int32_t *numbers = own.numbers + 2 * (uint64_t)slot->cluster * CT_CLUSTER_TRIANGLES;
        CT_THREADS(t) {
            for (uint32_t k = t; k < n * ct_pass_count(own.plan); k += CT_BLOCK) {
                const uint32_t triangle = slot->cluster * CT_CLUSTER_TRIANGLES + k % n, pass = k / n;
                const int32_t number = own.potential[2 * (uint64_t)own.surface->links[triangle].first + pass];
                const ct_edge_numbers edges = edge_numbers_of(b, own, triangle, pass);
                int is_inverted;
                const uint32_t most = ct_find_deepest_edge(&edges, number, &is_inverted);
                numbers[k] = number;
                if (most) atomicMax(&own.plan->own.max_winding, most);
                if (is_inverted) atomicAdd(&own.plan->own.inverted[pass], 1u);
            }
        }
    }
}

/* ---- the two sides ---- */

/* The moment of the vertices of part 1: exact integers, so that their order does not matter. A block for each body. */
CT_KERNEL sum_part_1(const ct_exact_tables b, const ct_side_tables sides) {
    if (ct_exact_cross_shortage(b.counts, &b.capacity)) return;
    CT_EACH_BLOCK(i, sides.n) {
        const ct_gpu_self *self = &sides.list[i];
        const own_body own = own_body_of(b, self->candidate);
        for (int k = 0; k < 9; k++) {
            ct_wide sum = 0;
            CT_THREADS(t) {
                for (uint32_t v = t; v < own.body->n_vertices; v += CT_BLOCK) {
                    double point[3];
                    if (!sides.is_part_1[self->first_row + v]) continue;
                    ct_place_vertex(own.plan, own.body, 0, v, point);
                    sum += (ct_wide)(int64_t)point[k / 3] * sides.sums[3 * (self->first_row + v) + (uint64_t)(k % 3)];
                }
            }
            sum = ct_block_sum(sum);
            CT_THREADS(t) {
                if (t == 0) own.plan->own.part_1[k] = ldexp(ct_int128_to_double(sum), own.plan->exponent);
            }
        }
    }
}

const ct_kernel_entry ct_own_kernels[] = {CT_KERNEL_ENTRY(find_own_folds), CT_KERNEL_ENTRY(find_own_jumps),
                                          CT_KERNEL_ENTRY(sum_own_jumps),  CT_KERNEL_ENTRY(write_own_numbers),
                                          CT_KERNEL_ENTRY(sum_part_1),     CT_KERNELS_END};

unsigned ct_cuda_find_own_windings(const ct_exact_tables *tables, unsigned grid, cudaStream_t stream) {
    unsigned n = CT_LAUNCH(find_own_folds, grid, stream, *tables);
    n += CT_LAUNCH(find_own_jumps, grid, stream, *tables);
    n += CT_LAUNCH(sum_own_jumps, grid, stream, *tables);
    n += CT_LAUNCH(write_own_numbers, grid, stream, *tables);
    return n;
}

unsigned ct_cuda_sum_part_1(const ct_exact_tables *tables, const ct_side_tables *sides, unsigned grid,
                            cudaStream_t stream) {
    return CT_LAUNCH(sum_part_1, grid, stream, *tables, *sides);
}

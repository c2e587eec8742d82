/* flood_cuda.cu - winding numbers of all units. The CPU floods them from one unit to the next (flood_cpu.c). Here each
 * side's numbers relative to its components' first units are a prefix sum (topology.h), and each component's first
 * unit gets its number from a vertex outside the other body's box, or else by an exact ray. */
#include "gpu/device/cuda/collective.cuh"
#include "gpu/methods/exact/exact_cuda.cuh"
#include "gpu/methods/exact/predicates_k.h"

/* ---- along the surface ---- */

/* The numbers of a side's units relative to the first ones of their components. */
CT_DEVICE void find_potentials(const ct_exact_tables &b, uint64_t side, uint32_t pass) {
    const ct_exact_plan *plan = &b.exact[side / 2];
    const ct_gpu_topology *topology = ct_body_of_side(b, side)->topology;
    const uint64_t first_cluster = plan->first_cluster[side & 1];
    int32_t *potential = b.potential + 2 * plan->first_unit[side & 1] + pass;
    const uint32_t n = topology->n_units;
    CT_THREADS(t) {
        for (uint32_t i = t; i < n; i += CT_BLOCK) potential[2 * (uint64_t)i] = 0;
    }
    CT_BARRIER();
    CT_THREADS(t) {
        for (uint32_t unit = t; unit < n; unit += CT_BLOCK) {
            const ct_unit_link link = topology->links[unit];
            if (link.parent == CT_NO_PARENT) continue;
            const int32_t jump =
                ct_relative_winding(b, topology, first_cluster, topology->cluster_of_unit[link.parent], link.its_vertex,
                                    pass) -
                ct_relative_winding(b, topology, first_cluster, topology->cluster_of_unit[unit], link.own_vertex, pass);
            if (!jump) continue;
            atomicAdd(&potential[2 * (uint64_t)link.first], jump);
            if (link.end < n) atomicAdd(&potential[2 * (uint64_t)link.end], -jump);
        }
    }
    CT_BARRIER();
    ct_scan<int32_t>(
        n, [&](uint64_t i) { return potential[2 * i]; },
        [&](uint64_t i, int32_t before) { potential[2 * i] += before; });
}

/* ---- rays ---- */

/* Adds to winding[pass] how often the ray from p along +x leaves body k of the pair, less how often it enters. */
CT_DEVICE void count_along_ray(const ct_exact_tables &b, uint64_t side, const double p[3], int32_t *winding) {
    CT_SHARED uint32_t hit[CT_BLOCK], n_hit;
    const ct_exact_plan *plan = &b.exact[side / 2];
    const ct_gpu_body *body = ct_body_of_side(b, side);
    const int k = (int)(side & 1);
    const uint32_t n = body->topology->n_clusters, n_passes = ct_pass_count(plan);
    const ct_node_box ray = {{p[0], p[1], p[2]}, {INFINITY, p[1], p[2]}};
    for (uint32_t base = 0; base < n; base += CT_BLOCK) {
        CT_THREADS(t) {
            if (t == 0) n_hit = 0;
        }
        CT_BARRIER();
        CT_THREADS(t) {
            if (base + t >= n) continue;
            const ct_cluster_box rest = ct_box_of_cluster(body, base + t);
            const ct_node_box box = ct_place_box(&rest, &plan->pose[k]);
            if (ct_node_boxes_overlap(&box, &ray)) hit[atomicAdd(&n_hit, 1u)] = base + t;
        }
        CT_BARRIER();
        CT_THREADS(t) {
            for (uint64_t i = t; i < (uint64_t)n_hit * CT_CLUSTER_TRIANGLES; i += CT_BLOCK) {
                const uint64_t triangle =
                    (uint64_t)hit[i / CT_CLUSTER_TRIANGLES] * CT_CLUSTER_TRIANGLES + i % CT_CLUSTER_TRIANGLES;
                if (triangle >= body->n_triangles) continue;
                double corner[3][3];
                ct_place_triangle(plan, body, (uint64_t)k, triangle, corner);
                const double *const q[3] = {corner[0], corner[1], corner[2]};
                if (!ct_ray_may_hit(q, p)) continue;
                for (uint32_t pass = 0; pass < n_passes; pass++)
                    if (const int sign = ct_ray_hit(p, q, ct_moved_against(1 - (uint64_t)k, pass)))
                        atomicAdd(&winding[pass], sign);
            }
        }
        CT_BARRIER();
    }
}

CT_DEVICE bool is_outside(const ct_node_box *box, const double *p) {
    for (int k = 0; k < 3; k++)
        if (p[k] < box->lo[k] || p[k] > box->hi[k]) return true;
    return false;
}

/* Finds the winding number of the first unit of a side's component. */
CT_DEVICE void find_base(const ct_exact_tables &b, uint64_t side, uint32_t component) {
    CT_SHARED uint32_t first_corner, outside_corner;
    CT_SHARED int32_t winding[2];
    CT_SHARED double p[3];
    const ct_exact_plan *plan = &b.exact[side / 2];
    const uint64_t k = side & 1, at = b.component_offset[side] + component;
    const ct_gpu_body *body = ct_body_of_side(b, side);
    const ct_gpu_topology *topology = body->topology;
    const uint32_t unit = topology->first_of_component[component], cluster = topology->cluster_of_unit[unit];
    if (!b.slot_of_cluster[plan->first_cluster[k] + cluster]) { /* all of it is outside */
        CT_THREADS(t) {
            if (t < 2) b.base[2 * at + t] = 0;
        }
        return;
    }
    const uint32_t in_cluster = unit - topology->first_unit[cluster];
    const uint64_t first_triangle = (uint64_t)cluster * CT_CLUSTER_TRIANGLES;
    CT_THREADS(t) {
        if (t == 0) first_corner = outside_corner = CT_CLUSTER_CORNERS;
        if (t < 2) winding[t] = 0;
    }
    CT_BARRIER();
    CT_THREADS(t) {
        const uint32_t n = 3 * ct_triangles_of_cluster(body->n_triangles, cluster);
        for (uint32_t i = t; i < n; i += CT_BLOCK) {
            if (topology->unit_in_cluster[first_triangle + i / 3] != in_cluster) continue;
            double point[3];
            ct_place_vertex(plan, body, k, body->triangles[3 * first_triangle + i], point);
            atomicMin(&first_corner, i);
            if (is_outside(&plan->window[1 - k], point)) atomicMin(&outside_corner, i);
        }
    }
    CT_BARRIER();
    const uint32_t corner = outside_corner < CT_CLUSTER_CORNERS ? outside_corner : first_corner;
    if (outside_corner == CT_CLUSTER_CORNERS) {
        CT_THREADS(t) {
            if (t > 0) continue;
            ct_place_vertex(plan, body, k, body->triangles[3 * first_triangle + corner], p);
            ct_atomic_add(&b.step_rays[b.pairs[side / 2].step], ct_pass_count(plan));
        }
        CT_BARRIER();
        count_along_ray(b, side ^ 1, p, winding);
    }
    CT_BARRIER();
    CT_THREADS(t) {
        const uint32_t vertex = topology->corners[first_triangle + corner / 3][corner % 3];
        if (t < ct_pass_count(plan))
            b.base[2 * at + t] =
                winding[t] - ct_relative_winding(b, topology, plan->first_cluster[k], cluster, vertex, t);
    }
    CT_BARRIER();
}

/* A block for each component of each side, and then for each side and pass. */
CT_KERNEL find_windings(const ct_exact_tables b) {
    if (ct_exact_cross_shortage(b.counts, &b.capacity)) return;
    const uint64_t n_sides = 2 * b.counts->pairs, n_components = b.counts->components;
    CT_EACH_BLOCK(i, n_components + 2 * n_sides) {
        if (i < n_components) {
            const uint64_t side = ct_find_owner(n_sides, i, [&](uint64_t k) { return b.component_offset[k]; });
            find_base(b, side, (uint32_t)(i - b.component_offset[side]));
        } else {
            const uint64_t side = (i - n_components) / 2;
            const uint32_t pass = (uint32_t)((i - n_components) % 2);
            const ct_exact_plan *plan = &b.exact[side / 2];
            if (!plan->is_skipped && !ct_is_self_pair(&b.pairs[side / 2]) && pass < ct_pass_count(plan))
                find_potentials(b, side, pass);
        }
    }
}

const ct_kernel_entry ct_flood_kernels[] = {CT_KERNEL_ENTRY(find_windings), CT_KERNELS_END};

unsigned ct_cuda_find_windings(const ct_exact_tables *tables, unsigned grid, cudaStream_t stream) {
    return CT_LAUNCH(find_windings, grid, stream, *tables);
}

/* narrow_cuda.cu - narrows the overlap of each pair's boxes to the region that both bodies reach into (region_k.h). One
 * block narrows a pair: its threads measure the triangles of the clusters near the region and its probes, thread 0 cuts.
 * A pair that cannot shrink costs the measurement of a few hundred samples. */
#include "gpu/device/cuda/collective.cuh"
#include "gpu/methods/ldi/region_k.h"
#include "gpu/view/near_cuda.cuh"

/* Corners relative to the region's origin. */
CT_DEVICE void read_corners(const ct_gpu_body *body, uint64_t triangle, const double origin[3], double corner[3][3]) {
    for (uint64_t i = 0; i < 3; i++) {
        const float *p = body->positions + 3 * (uint64_t)body->triangles[3 * triangle + i];
        const float x = p[0], y = p[1], z = p[2];
        for (int k = 0; k < 3; k++)
            corner[i][k] = (body->rigid ? ct_pose_coord(body->pose + 4 * k, x, y, z)
                                        : (double)(k == 0   ? x
                                                   : k == 1 ? y
                                                            : z)) -
                           origin[k];
    }
}

/* A ct_extent that threads join. Ends are keys, so that the order of threads does not choose between -0 and 0. */
struct joined_extent {
    uint64_t lo[CT_REGION_AXES], hi[CT_REGION_AXES]; /* ct_order_key */
    int64_t area[3], size;
    uint32_t winding[CT_REGION_FACES]; /* modulo 2^32 */
};

struct join_extents {
    __device__ joined_extent operator()(joined_extent a, const joined_extent &b) const {
        CT_UNROLL
        for (int k = 0; k < CT_REGION_AXES; k++) {
            a.lo[k] = b.lo[k] < a.lo[k] ? b.lo[k] : a.lo[k];
            a.hi[k] = a.hi[k] < b.hi[k] ? b.hi[k] : a.hi[k];
        }
        CT_UNROLL
        for (int k = 0; k < 3; k++) a.area[k] += b.area[k];
        a.size += b.size;
        CT_UNROLL
        for (int face = 0; face < CT_REGION_FACES; face++) a.winding[face] += b.winding[face];
        return a;
    }
};

CT_DEVICE joined_extent keys_of(const ct_extent &e) {
    joined_extent keys;
    for (int k = 0; k < CT_REGION_AXES; k++) {
        keys.lo[k] = ct_order_key(e.lo[k]);
        keys.hi[k] = ct_order_key(e.hi[k]);
    }
    for (int k = 0; k < 3; k++) keys.area[k] = e.area[k];
    keys.size = e.size;
    for (int face = 0; face < CT_REGION_FACES; face++) keys.winding[face] = (uint32_t)e.winding[face];
    return keys;
}

CT_DEVICE ct_extent extent_of(const joined_extent &keys) {
    ct_extent e;
    for (int k = 0; k < CT_REGION_AXES; k++) {
        e.lo[k] = ct_order_value(keys.lo[k]);
        e.hi[k] = ct_order_value(keys.hi[k]);
    }
    for (int k = 0; k < 3; k++) e.area[k] = keys.area[k];
    e.size = keys.size;
    for (int face = 0; face < CT_REGION_FACES; face++) e.winding[face] = (int32_t)keys.winding[face];
    return e;
}

/* One body, being measured. */
struct measured {
    const ct_gpu_body *body;
    const ct_narrowing *narrowing;
    const ct_probes *probes;
    double area_scale;
};

CT_DEVICE void add_triangle(const measured &m, uint64_t triangle, ct_extent *e) {
    const ct_region *region = &m.narrowing->region;
    double corner[3][3];
    read_corners(m.body, triangle, region->origin, corner);
    if (m.narrowing->phase == CT_NARROW_WINDINGS)
        ct_extent_add_windings(e, region, m.probes, corner);
    else
        ct_extent_add_surface(e, region, m.area_scale, corner);
}

/* Adds the triangles of the clusters that meet one of the boxes. Each thread tests a cluster of a block's worth; then
 * all threads read the triangles of those that are near. */
CT_DEVICE void add_near_triangles(const measured &m, uint32_t n_boxes, const ct_box *boxes, ct_extent *e) {
    CT_SHARED uint32_t n_near, near[CT_BLOCK];
    const uint32_t n_clusters = ct_cluster_count(m.body->n_triangles);
    for (uint64_t first = 0; first < n_clusters; first += CT_BLOCK) {
        CT_THREADS(t) {
            if (t == 0) n_near = 0;
        }
        CT_BARRIER();
        CT_THREADS(t) {
            if (first + t >= n_clusters) continue;
            double lo[3], hi[3];
            bool is_near = false;
            ct_gpu_cluster_extent(m.body, (uint32_t)first + t, lo, hi);
            for (uint32_t i = 0; i < n_boxes && !is_near; i++) {
                is_near = true;
                for (int k = 0; k < 3; k++) is_near = is_near && lo[k] <= boxes[i].hi[k] && hi[k] >= boxes[i].lo[k];
            }
            if (is_near) near[atomicAdd(&n_near, 1u)] = (uint32_t)first + t;
        }
        CT_BARRIER();
        CT_THREADS(t) {
            for (uint32_t i = t; i < n_near * CT_CLUSTER_TRIANGLES; i += CT_BLOCK) {
                const uint64_t triangle =
                    (uint64_t)near[i / CT_CLUSTER_TRIANGLES] * CT_CLUSTER_TRIANGLES + i % CT_CLUSTER_TRIANGLES;
                if (triangle < m.body->n_triangles) add_triangle(m, triangle, e);
            }
        }
        CT_BARRIER();
    }
}

/* What a body has in the region, on thread 0; all threads of the block measure. */
CT_DEVICE ct_extent measure(const ct_gpu_body *body, const ct_narrowing *narrowing, const ct_probes *probes) {
    CT_SHARED ct_box boxes[CT_REGION_FACES];
    CT_SHARED uint32_t n_boxes;
    const bool guessing = narrowing->phase == CT_NARROW_GUESS;
    const measured m = {body, narrowing, probes, ct_narrowing_area_scale(narrowing)};
    ct_extent e = ct_extent_empty();
    if (!guessing && body->cluster_boxes) {
        CT_THREADS(t) {
            if (t > 0) continue;
            n_boxes = 1;
            if (narrowing->phase == CT_NARROW_WINDINGS)
                n_boxes = ct_region_probe_boxes(&narrowing->region, probes, boxes);
            else
                boxes[0] = ct_region_surface_box(&narrowing->region);
        }
        CT_BARRIER();
        if (n_boxes > 0) add_near_triangles(m, n_boxes, boxes, &e);
    } else {
        const uint64_t n = guessing ? ct_region_sample_count(body->n_triangles) : body->n_triangles;
        CT_THREADS(t) {
            for (uint64_t i = t; i < n; i += CT_BLOCK)
                add_triangle(m, guessing ? ct_region_sample((uint32_t)i, body->n_triangles) : i, &e);
        }
    }
    return extent_of(ct_block_reduce(keys_of(e), join_extents()));
}

CT_KERNEL narrow_regions(const ct_plan_tables b) {
    CT_SHARED ct_narrowing narrowing;
    CT_SHARED ct_extent extents[2];
    CT_SHARED bool is_going_on;
    const uint64_t n = b.counts->pairs;
    if (n > b.capacity.pairs) return;
    CT_EACH_BLOCK(p, n) {
        const ct_gpu_pair *pair = &b.pairs[p];
        const ct_gpu_body *body[2] = {b.bodies[pair->body[0]], b.bodies[pair->body[1]]};
        CT_THREADS(t) {
            if (t > 0) continue;
            const ct_box boxes[2] = {ct_gpu_box(body[0]), ct_gpu_box(body[1])};
            ct_narrowing_begin(&narrowing, &boxes[0], &boxes[1], body[0]->n_triangles, body[1]->n_triangles);
            is_going_on = narrowing.phase != CT_NARROW_DONE && !ct_is_self_pair(pair);
        }
        CT_BARRIER();
        while (is_going_on) {
            for (int k = 0; k < 2; k++) {
                ct_extent of_body = ct_extent_empty();
                if (narrowing.phase != CT_NARROW_UNSEEN || narrowing.is_unseen[k])
                    of_body = measure(body[k], &narrowing, &narrowing.probes[k]);
                CT_THREADS(t) {
                    if (t == 0) extents[k] = of_body;
                }
            }
            CT_BARRIER();
            CT_THREADS(t) {
                if (t > 0) continue;
                ct_narrowing_advance(&narrowing, extents);
                is_going_on = narrowing.phase != CT_NARROW_DONE;
            }
            CT_BARRIER();
        }
        CT_THREADS(t) {
            if (t == 0) b.plans[p].part = narrowing.region.box;
        }
        CT_BARRIER();
    }
}

const ct_kernel_entry ct_narrow_kernels[] = {CT_KERNEL_ENTRY(narrow_regions), CT_KERNELS_END};

unsigned ct_cuda_narrow(const ct_plan_tables *tables, unsigned grid, cudaStream_t stream) {
    return CT_LAUNCH(narrow_regions, grid, stream, *tables);
}

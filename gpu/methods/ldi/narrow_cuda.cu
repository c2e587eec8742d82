/* narrow_cuda.cu - narrows the overlap of each pair's boxes to the region that both bodies reach into (region_k.h). One
 * block narrows a pair: its threads measure the triangles, thread 0 cuts. A pair that cannot shrink costs the
 * measurement of a few hundred samples. */
#include "gpu/device/cuda/collective.cuh"
#include "gpu/methods/ldi/region_k.h"
#include "gpu/view/plan_cuda.cuh"

/* A ct_extent that the threads of a block join by atomics. */
struct shared_extent {
    uint64_t lo[CT_REGION_AXES], hi[CT_REGION_AXES]; /* ct_order_key */
    int64_t area[3], size;
    uint32_t winding[CT_REGION_FACES]; /* modulo 2^32 */
};

CT_DEVICE void clear_extent(shared_extent *to) {
    for (int k = 0; k < CT_REGION_AXES; k++) {
        to->lo[k] = ct_order_key(INFINITY);
        to->hi[k] = ct_order_key(-INFINITY);
    }
    to->area[0] = to->area[1] = to->area[2] = to->size = 0;
    for (int face = 0; face < CT_REGION_FACES; face++) to->winding[face] = 0;
}

CT_DEVICE void join_extent(shared_extent *to, const ct_extent *e) {
    for (int k = 0; k < CT_REGION_AXES && !ct_extent_is_empty(e); k++) {
        ct_atomic_min(&to->lo[k], ct_order_key(e->lo[k]));
        ct_atomic_max(&to->hi[k], ct_order_key(e->hi[k]));
    }
    if (e->size) {
        for (int k = 0; k < 3; k++) ct_atomic_sum(&to->area[k], e->area[k]);
        ct_atomic_sum(&to->size, e->size);
    }
    for (int face = 0; face < CT_REGION_FACES; face++)
        if (e->winding[face]) atomicAdd(&to->winding[face], (uint32_t)e->winding[face]);
}

CT_DEVICE ct_extent extent_of(const shared_extent *from) {
    ct_extent e;
    for (int k = 0; k < CT_REGION_AXES; k++) {
        e.lo[k] = ct_order_value(from->lo[k]);
        e.hi[k] = ct_order_value(from->hi[k]);
    }
    for (int k = 0; k < 3; k++) e.area[k] = from->area[k];
    e.size = from->size;
    for (int face = 0; face < CT_REGION_FACES; face++) e.winding[face] = (int32_t)from->winding[face];
    return e;
}

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

/* Adds what a body has in the region; all threads of the block. */
CT_DEVICE void measure(const ct_gpu_body *body, const ct_narrowing *narrowing, const ct_probes *probes,
                       shared_extent *to) {
    const bool guessing = narrowing->phase == CT_NARROW_GUESS;
    const uint64_t n = guessing ? ct_region_sample_count(body->n_triangles) : body->n_triangles;
    const double area_scale = ct_narrowing_area_scale(narrowing);
    CT_THREADS(t) {
        ct_extent e = ct_extent_empty();
        for (uint64_t i = t; i < n; i += CT_BLOCK) {
            double corner[3][3];
            read_corners(body, guessing ? ct_region_sample((uint32_t)i, body->n_triangles) : i,
                         narrowing->region.origin, corner);
            if (narrowing->phase == CT_NARROW_WINDINGS)
                ct_extent_add_windings(&e, &narrowing->region, probes, corner);
            else
                ct_extent_add_surface(&e, &narrowing->region, area_scale, corner);
        }
        join_extent(to, &e);
    }
}

CT_KERNEL narrow_regions(const ct_plan_tables b) {
    CT_SHARED ct_narrowing narrowing;
    CT_SHARED shared_extent extents[2];
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
            for (int k = 0; k < 2; k++) clear_extent(&extents[k]);
        }
        CT_BARRIER();
        while (is_going_on) {
            for (int k = 0; k < 2; k++)
                if (narrowing.phase != CT_NARROW_UNSEEN || narrowing.is_unseen[k])
                    measure(body[k], &narrowing, &narrowing.probes[k], &extents[k]);
            CT_BARRIER();
            CT_THREADS(t) {
                if (t > 0) continue;
                ct_extent measured[2] = {extent_of(&extents[0]), extent_of(&extents[1])};
                ct_narrowing_advance(&narrowing, measured);
                is_going_on = narrowing.phase != CT_NARROW_DONE;
                for (int k = 0; k < 2; k++) clear_extent(&extents[k]);
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

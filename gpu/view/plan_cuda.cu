/* plan_cuda.cu - plans each pair's window, and finds where its triangles, vertices and rays begin among those of the
 * batch. */
#include "gpu/backend/cuda/collective.cuh"
#include "gpu/backend/cuda/plan.cuh"
#include "gpu/include/contact.h"

CT_DEVICE uint64_t chunks(uint64_t n, uint64_t size) {
    return (n + size - 1) / size;
}

CT_DEVICE uint64_t ray_count(const ct_gpu_plan *plan, int w) {
    if (plan->status) return 0;
    return (uint64_t)plan->window.axis[ct_view_u(w)].n * (uint64_t)plan->window.axis[ct_view_v(w)].n;
}

CT_DEVICE void plan_pair(const ct_plan_tables &b, uint64_t p) {
    const ct_gpu_pair *pair = &b.pairs[p];
    const ct_gpu_step *step = &b.steps[pair->step];
    const ct_box boxes[2] = {ct_gpu_box(b.bodies[pair->body[0]]), ct_gpu_box(b.bodies[pair->body[1]])};
    ct_gpu_plan *plan = &b.plans[p];
    ct_plan_need need;
    plan->status = CT_PLAN_OK;
    for (int k = 0; k < 3 && !plan->status; k++)
        plan->status =
            (uint8_t)ct_plan_axis(boxes[0].lo[k], boxes[0].hi[k], boxes[1].lo[k], boxes[1].hi[k], step->pixel_size,
                                  step->resolution[k], CT_MAX_RESOLUTION, &plan->window.axis[k], &need);
    for (int k = 0; k < 2; k++)
        for (int w = 0; w < 3; w++)
            plan->initial_winding[k][w] = (uint8_t)ct_find_initial_winding(&boxes[k], &boxes[1 - k], w);
    if (plan->status) atomicMax(&b.step_refused[pair->step], ~(uint32_t)p);
    for (uint64_t w = 0; w < 3; w++) b.span_length[3 * p + w] = 0;
}

/* Chunks of a side: of n_triangles or n_vertices of its body. */
template <class Elements> CT_DEVICE uint64_t side_chunks(const ct_plan_tables &b, uint64_t side, Elements elements) {
    const ct_gpu_pair *pair = &b.pairs[side / 2];
    return b.plans[side / 2].status ? 0 : elements(b.bodies[pair->body[side & 1]]);
}

CT_KERNEL plan_windows(const ct_plan_tables b) {
    const uint64_t n = b.counts->pairs;
    if (n > b.capacity.pairs) return;
    CT_FOR(p, n) plan_pair(b, p);
    if (!ct_is_last_block(&b.counts->finished_blocks[CT_LAST_OF_PLAN])) return;
    const uint64_t triangle_chunks = ct_scan<uint64_t>(
        2 * n,
        [&](uint64_t side) {
            return side_chunks(b, side, [](const ct_gpu_body *body) { return chunks(body->n_triangles, CT_BLOCK); });
        },
        [&](uint64_t side, uint64_t before) { b.triangle_chunk_offset[side] = before; });
    const uint64_t vertex_chunks = ct_scan<uint64_t>(
        2 * n,
        [&](uint64_t side) {
            return side_chunks(b, side,
                               [](const ct_gpu_body *body) { return chunks(body->n_vertices, CT_VERTEX_CHUNK); });
        },
        [&](uint64_t side, uint64_t before) { b.vertex_chunk_offset[side] = before; });
    const uint64_t ray_chunks = ct_scan<uint64_t>(
        3 * n, [&](uint64_t view) { return chunks(ray_count(&b.plans[view / 3], (int)(view % 3)), CT_BLOCK); },
        [&](uint64_t view, uint64_t before) { b.ray_chunk_offset[view] = before; });
    const uint64_t rays = ct_scan<uint64_t>(
        3 * n, [&](uint64_t view) { return ray_count(&b.plans[view / 3], (int)(view % 3)); },
        [&](uint64_t view, uint64_t before) { b.ray_offset[view] = before; });
    CT_THREADS(t) {
        if (t > 0) continue;
        b.counts->triangle_chunks = b.triangle_chunk_offset[2 * n] = triangle_chunks;
        b.counts->vertex_chunks = b.vertex_chunk_offset[2 * n] = vertex_chunks;
        b.counts->ray_chunks = b.ray_chunk_offset[3 * n] = ray_chunks;
        b.counts->rays = b.ray_offset[3 * n] = rays;
    }
}

const ct_kernel_entry ct_plan_kernels[] = {CT_KERNEL_ENTRY(plan_windows), CT_KERNELS_END};

unsigned ct_cuda_plan(const ct_plan_tables *tables, unsigned grid, cudaStream_t stream) {
    return CT_LAUNCH(plan_windows, grid, stream, *tables);
}

/* quads_cuda.cu - the hand-over to OpenGL and back, where OpenGL rasterises: writes the triangles as quads, with
 * their draw commands, into OpenGL's buffers, and copies the lists of fragments that OpenGL drew into the tables of the
 * span stage. It leaves OpenGL's lists empty for the next batch. */
#include "gpu/device/cuda/collective.cuh"
#include "gpu/methods/ldi/ldi_cuda.cuh"

/* Rows of a quad of a large triangle. Lower quads fit a slanted triangle more closely, so fewer samples beside it
 * are tested. */
enum { QUAD_ROWS = 32 };

CT_DEVICE void add_quad(const ct_draw_tables &b, const ct_quad *quad, uint32_t tag, uint32_t region,
                        uint64_t *samples) {
    const uint64_t index = ct_append_index(&b.counts->quads);
    *samples += (uint64_t)(quad->u1 - quad->u0) * (uint64_t)(quad->v1 - quad->v0);
    if (index >= b.capacity.quads) return;
    ct_quad p = *quad;
    p.tag = tag;
    p.region = region;
    b.quads[index] = p;
}

/* Returns the number of samples in its quads. */
CT_DEVICE uint64_t add_triangle(const ct_draw_tables &b, const ct_gpu_near_triangle *at, const int32_t *const q[3]) {
    const ct_gpu_plan *plan = at->plan;
    const ct_window *window = &plan->window;
    const uint32_t tag = (at->side & 1) << 31 | (uint32_t)at->triangle, first_region = 3 * (at->side / 2);
    uint64_t samples = 0;
    for (int w = 0; w < 3; w++) {
        if (!(at->views >> w & 1)) continue;
        const int u = ct_view_u(w), v = ct_view_v(w);
        const ct_lattice *lu = &window->axis[u], *lv = &window->axis[v];
        const bool is_counted = plan->initial_winding[tag >> 31][w] == CT_INITIAL_COUNTED;
        if (ct_min3(q[0][w], q[1][w], q[2][w]) > window->axis[w].hi) continue;
        if (!is_counted && ct_max3(q[0][w], q[1][w], q[2][w]) < window->axis[w].lo) continue;
        const int32_t v0 = ct_samples_below(ct_min3(q[0][v], q[1][v], q[2][v]), lv->shift, lv->n);
        const int32_t v1 = ct_samples_below(ct_max3(q[0][v], q[1][v], q[2][v]), lv->shift, lv->n);
        const int32_t u0 = ct_samples_below(ct_min3(q[0][u], q[1][u], q[2][u]), lu->shift, lu->n);
        const int32_t u1 = ct_samples_below(ct_max3(q[0][u], q[1][u], q[2][u]), lu->shift, lu->n);
        const int32_t rows = (u1 - u0) * (v1 - v0) <= CT_FEW_SAMPLES ? v1 - v0 : (int32_t)QUAD_ROWS;
        ct_quad quad;
        for (int32_t row = v0; row < v1; row += rows)
            if (ct_make_quad(&quad, window, w, is_counted, q, row, row + rows))
                add_quad(b, &quad, tag, first_region + (uint32_t)w, &samples);
    }
    return samples;
}

/* Where a view is drawn in the framebuffer. The views lie side by side in a strip, which is cut into rows as wide as
 * the framebuffer; regions may overlap (CT_FRAMEBUFFER_SIDE). */
CT_DEVICE ct_draw_region draw_region_of(const ct_draw_tables &b, uint64_t view) {
    const int w = (int)(view % 3);
    const ct_lattice *axis = b.plans[view / 3].window.axis;
    ct_draw_region region;
    region.columns = axis[ct_view_u(w)].n;
    region.rows = axis[ct_view_v(w)].n;
    region.first_row = 0;
    region.first_ray = (int32_t)b.ray_offset[view];
    region.shift_u = axis[ct_view_u(w)].shift;
    region.shift_v = axis[ct_view_v(w)].shift;
    const uint64_t across = (uint64_t)(CT_FRAMEBUFFER_SIDE - region.columns) + 1;
    const uint64_t up = (uint64_t)(CT_FRAMEBUFFER_SIDE - region.rows) + 1,
                   column = b.ray_offset[view] / (uint64_t)region.rows;
    region.left = (int32_t)(column % across);
    region.bottom = (int32_t)(column / across * (uint64_t)region.rows % up);
    return region;
}

CT_KERNEL make_quads(const ct_draw_tables b) {
    const bool planned = !ct_gpu_cluster_shortage(b.counts, &b.capacity);
    const uint64_t n = planned ? CT_CLUSTER_TRIANGLES * b.counts->near_clusters : 0;
    CT_FOR(view, planned ? 3 * b.counts->pairs : 0) b.draw_regions[view] = draw_region_of(b, view);
    CT_EACH_BLOCK(chunk, (n + CT_BLOCK - 1) / CT_BLOCK) {
        uint64_t samples = 0;
        CT_THREADS(t) {
            const uint64_t i = chunk * CT_BLOCK + t;
            if (i >= n) continue;
            const ct_gpu_near_triangle at = ct_near_triangle_at(b, i);
            if (!at.views) continue;
            const uint32_t *corners = at.body->triangles + 3 * at.triangle;
            int32_t corner[3][3];
            for (int k = 0; k < 3; k++) ct_gpu_coords(at.body, &at.plan->window, corners[k], corner[k]);
            const int32_t *const q[3] = {corner[0], corner[1], corner[2]};
            samples = add_triangle(b, &at, q);
            if (samples) ct_claim_pages(b, at.side, corners);
        }
        samples = ct_block_sum(samples);
        CT_THREADS(t) {
            if (t == 0 && samples) ct_atomic_add(&b.counts->samples, samples);
        }
    }
    if (!ct_is_last_block(&b.counts->finished_blocks[CT_LAST_OF_RASTER])) return;
    /* OpenGL draws the quads that fit. With a shortage it draws some or none, and the batch runs again. */
    const bool draw = planned && b.counts->samples <= UINT32_MAX;
    const uint64_t kept = b.counts->quads < b.capacity.quads ? b.counts->quads : b.capacity.quads;
    CT_THREADS(t) {
        if (t == 0) *b.n_drawn = 0;
        for (uint32_t i = t; i < b.n_draw_commands; i += CT_BLOCK) {
            const uint64_t from = (uint64_t)i * CT_COMMAND_QUADS;
            const uint64_t left = draw && kept > from ? kept - from : 0;
            const ct_draw_command command = {6 * (uint32_t)(left < CT_COMMAND_QUADS ? left : CT_COMMAND_QUADS), 1, 0,
                                             (int32_t)(4 * from), 0};
            b.draw_commands[i] = command;
        }
    }
}

CT_KERNEL read_drawn(const ct_draw_tables b) {
    if (ct_gpu_cluster_shortage(b.counts, &b.capacity)) return;
    const uint64_t n = *b.n_drawn;
    const bool fits = n <= b.capacity.fragments;
    CT_FOR(ray, b.counts->rays) {
        const uint32_t head = b.drawn_heads[ray];
        const int32_t w0 = b.drawn_windings[ray][0], w1 = b.drawn_windings[ray][1];
        if (head == CT_END && !(w0 | w1)) continue;
        b.drawn_heads[ray] = CT_END;
        b.drawn_windings[ray][0] = b.drawn_windings[ray][1] = 0;
        const ct_gpu_ray r = {head + 1, {w0, w1}, 0}; /* CT_END + 1 is 0: no fragment */
        if (fits) b.rays[ray] = r;
    }
    CT_FOR(i, fits ? n : 0) {
        ct_gpu_fragment fragment;
        static_cast<ct_fragment &>(fragment) = b.drawn_fragments[i].f;
        b.fragments[i] = fragment;
        b.next[i] = b.drawn_fragments[i].next + 1;
    }
    CT_THREADS(t) {
        if (CT_BLOCK_INDEX == 0 && t == 0) b.counts->fragments = n;
    }
}

const ct_kernel_entry ct_draw_kernels[] = {CT_KERNEL_ENTRY(make_quads), CT_KERNEL_ENTRY(read_drawn), CT_KERNELS_END};

unsigned ct_cuda_make_quads(const ct_draw_tables *tables, unsigned grid, cudaStream_t stream) {
    return CT_LAUNCH(make_quads, grid, stream, *tables);
}

unsigned ct_cuda_read_drawn(const ct_draw_tables *tables, unsigned grid, cudaStream_t stream) {
    return CT_LAUNCH(read_drawn, grid, stream, *tables);
}

/* patches_cuda.cu - what OpenGL is to draw, and what it drew: triangles become patches in OpenGL's buffers, with the
 * draw calls for them, and afterwards its lists of fragments become those that the span stage takes. OpenGL's buffers
 * are left as they have to be for the next batch: empty. */
#include "gpu/backend/cuda/collective.cuh"

/* Rows of a patch, where a triangle covers more samples than are worth trying all: the lower its patches are, the fewer
 * samples beside it are tried. */
enum { ROWS = 32 };

CT_DEVICE void add_patch(const ct_batch &b, const ct_patch *patch, uint32_t tag, uint32_t tile, uint64_t *samples) {
    const uint64_t place = ct_append_index(&b.counts->patches);
    *samples += (uint64_t)(patch->u1 - patch->u0) * (uint64_t)(patch->v1 - patch->v0);
    if (place >= b.room.patches) return;
    ct_patch p = *patch;
    p.tag = tag;
    p.tile = tile;
    b.patches[place] = p;
}

/* Returns how many samples are to be tried. */
CT_DEVICE uint64_t add_triangle(const ct_batch &b, const ct_window *window, const int32_t *const q[3], uint32_t tag,
                                uint32_t first_tile) {
    uint64_t samples = 0;
    for (int w = 0; w < 3; w++) {
        const int u = ct_view_u(w), v = ct_view_v(w);
        const ct_lattice *lu = &window->axis[u], *lv = &window->axis[v];
        if (ct_min3(q[0][w], q[1][w], q[2][w]) > window->axis[w].hi) continue;
        const int32_t v0 = ct_samples_below(ct_min3(q[0][v], q[1][v], q[2][v]), lv->shift, lv->n);
        const int32_t v1 = ct_samples_below(ct_max3(q[0][v], q[1][v], q[2][v]), lv->shift, lv->n);
        const int32_t u0 = ct_samples_below(ct_min3(q[0][u], q[1][u], q[2][u]), lu->shift, lu->n);
        const int32_t u1 = ct_samples_below(ct_max3(q[0][u], q[1][u], q[2][u]), lu->shift, lu->n);
        const int32_t rows = (u1 - u0) * (v1 - v0) <= CT_FEW_SAMPLES ? v1 - v0 : (int32_t)ROWS;
        ct_patch patch;
        for (int32_t row = v0; row < v1; row += rows)
            if (ct_make_patch(&patch, window, w, 1, q, row, row + rows))
                add_patch(b, &patch, tag, first_tile + (uint32_t)w, &samples);
    }
    return samples;
}

/* Views are strung together in a picture as high as one of them, which is cut where the real picture ends. */
CT_DEVICE ct_draw_region tile_of(const ct_batch &b, uint64_t view) {
    const int w = (int)(view % 3);
    const ct_lattice *axis = b.pairs[view / 3].window.axis;
    ct_draw_region tile;
    tile.columns = axis[ct_view_u(w)].n;
    tile.rows = axis[ct_view_v(w)].n;
    tile.first_row = 0;
    tile.first_ray = (int32_t)b.ray[view];
    tile.shift_u = axis[ct_view_u(w)].shift;
    tile.shift_v = axis[ct_view_v(w)].shift;
    const uint64_t across = (uint64_t)(CT_PICTURE_SIDE - tile.columns) + 1;
    const uint64_t up = (uint64_t)(CT_PICTURE_SIDE - tile.rows) + 1, column = b.ray[view] / (uint64_t)tile.rows;
    tile.left = (int32_t)(column % across);
    tile.bottom = (int32_t)(column / across * (uint64_t)tile.rows % up);
    return tile;
}

CT_KERNEL patches(const ct_batch b) {
    CT_SHARED uint64_t tried[CT_BLOCK];
    const bool planned = !ct_gpu_plan_shortage(b.counts, &b.room);
    const uint64_t n = planned ? b.counts->triangle_chunks : 0, n_sides = 2 * b.counts->pairs;
    CT_FOR(view, planned ? 3 * b.counts->pairs : 0) b.tiles[view] = tile_of(b, view);
    CT_EACH_BLOCK(chunk, n) {
        const uint64_t side = ct_find(n_sides, chunk, [&](uint64_t i) { return b.triangle_chunk[i]; });
        const ct_gpu_pair *pair = &b.pairs[side / 2];
        const ct_gpu_body *body = b.bodies[pair->body[side & 1]];
        const uint64_t first = (chunk - b.triangle_chunk[side]) * CT_BLOCK;
        CT_THREADS(t) {
            tried[t] = 0;
            const uint64_t triangle = first + t;
            if (triangle >= body->n_triangles) continue;
            int32_t corner[3][3];
            for (int k = 0; k < 3; k++)
                ct_gpu_coords(body, &pair->window, body->triangles[3 * triangle + (uint64_t)k], corner[k]);
            const int32_t *const q[3] = {corner[0], corner[1], corner[2]};
            tried[t] = add_triangle(b, &pair->window, q, (uint32_t)(side & 1) << 31 | (uint32_t)triangle,
                                    3 * (uint32_t)(side / 2));
            if (tried[t]) ct_claim_pages(b, side, body->triangles + 3 * triangle);
        }
        CT_BARRIER();
        for (unsigned d = CT_BLOCK / 2; d > 0; d /= 2) {
            CT_THREADS(t) {
                if (t < d) tried[t] += tried[t + d];
            }
            CT_BARRIER();
        }
        CT_THREADS(t) {
            if (t == 0 && tried[0]) ct_atomic_add(&b.counts->samples, tried[0]);
        }
        CT_BARRIER();
    }
    if (!ct_is_last_block(&b.counts->done[3])) return;
    /* OpenGL draws what there is room for, or nothing: then it is drawn again. */
    const bool draw = planned && b.counts->samples <= UINT32_MAX;
    const uint64_t kept = b.counts->patches < b.room.patches ? b.counts->patches : b.room.patches;
    CT_THREADS(t) {
        if (t == 0) *b.n_drawn = 0;
        for (uint32_t i = t; i < b.n_commands; i += CT_BLOCK) {
            const uint64_t from = (uint64_t)i * CT_COMMAND_PATCHES;
            const uint64_t left = draw && kept > from ? kept - from : 0;
            const ct_draw_command command = {6 * (uint32_t)(left < CT_COMMAND_PATCHES ? left : CT_COMMAND_PATCHES), 1,
                                             0, (int32_t)(4 * from), 0};
            b.commands[i] = command;
        }
    }
}

CT_KERNEL take(const ct_batch b) {
    if (ct_gpu_plan_shortage(b.counts, &b.room)) return;
    const uint64_t n = *b.n_drawn;
    const bool fits = n <= b.room.fragments;
    CT_FOR(ray, b.counts->rays) {
        const uint32_t head = b.heads[ray];
        const int32_t w0 = b.windings[ray][0], w1 = b.windings[ray][1];
        if (head == CT_END && !(w0 | w1)) continue;
        b.heads[ray] = CT_END;
        b.windings[ray][0] = b.windings[ray][1] = 0;
        const ct_gpu_ray r = {head + 1, {w0, w1}, 0}; /* of CT_END: 0 */
        if (fits) b.rays[ray] = r;
    }
    CT_FOR(i, fits ? n : 0) {
        b.fragments[i] = b.drawn[i].f;
        b.next[i] = b.drawn[i].next + 1;
    }
    CT_THREADS(t) {
        if (CT_BLOCK_INDEX == 0 && t == 0) b.counts->fragments = n;
    }
}

unsigned ct_cuda_patches(const ct_batch *batch, unsigned grid, cudaStream_t stream) {
    return CT_LAUNCH(patches, grid, stream, *batch);
}

unsigned ct_cuda_read_drawn(const ct_batch *batch, unsigned grid, cudaStream_t stream) {
    return CT_LAUNCH(take, grid, stream, *batch);
}

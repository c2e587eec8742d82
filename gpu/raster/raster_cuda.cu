/* raster_cuda.cu - triangles to fragments in a list per ray. A thread takes a triangle and tries it at the samples that
 * its box covers in each view; where they are many it sets the triangle aside, to be tried by whole blocks a tile at a
 * time, so that one triangle as large as the window holds nobody up.
 *
 * A ray's list is linked: one pass, whatever the depth complexity, and the order is made afterwards (span_cuda.cu). */
#include "gpu/backend/cuda/collective.cuh"

/* More samples than this are too many for one thread. */
enum { FEW_SAMPLES = 32 };

/* A triangle on a view. */
struct shape {
    int32_t q[3][3]; /* corners' lattice coordinates */
    uint32_t tag;
    bool before; /* it lies before the window's depths: its crossings are only counted */
};

struct rectangle {
    int32_t u0, u1, v0, v1; /* samples [u0, u1) x [v0, v1) */
};

/* The samples that the triangle's box covers, or none where nothing it crosses there matters. */
CT_DEVICE rectangle reach_of(const shape *s, const ct_lattice *axis, int w, bool *before) {
    const int u = ct_view_u(w), v = ct_view_v(w);
    rectangle r = {0, 0, 0, 0};
    *before = ct_max3(s->q[0][w], s->q[1][w], s->q[2][w]) < axis[w].lo;
    if (ct_min3(s->q[0][w], s->q[1][w], s->q[2][w]) > axis[w].hi) return r;
    r.u0 = ct_samples_below(ct_min3(s->q[0][u], s->q[1][u], s->q[2][u]), axis[u].shift, axis[u].n);
    r.u1 = ct_samples_below(ct_max3(s->q[0][u], s->q[1][u], s->q[2][u]), axis[u].shift, axis[u].n);
    r.v0 = ct_samples_below(ct_min3(s->q[0][v], s->q[1][v], s->q[2][v]), axis[v].shift, axis[v].n);
    r.v1 = ct_samples_below(ct_max3(s->q[0][v], s->q[1][v], s->q[2][v]), axis[v].shift, axis[v].n);
    return r;
}

/* True: it may bound a span there. */
CT_DEVICE bool cross(const ct_batch &b, const ct_triangle_setup *setup, const shape *s, uint64_t ray, int64_t e1,
                     int64_t e2) {
    ct_gpu_ray *r = &b.rays[ray];
    if (s->before) {
        atomicAdd(&r->winding[s->tag >> 31], -setup->ccw);
        return false;
    }
    const uint64_t shard = CT_BLOCK_INDEX % CT_SHARDS, room = b.room.fragments / CT_SHARDS;
    const uint64_t k = ct_append_index(&b.shards[shard].n), place = shard * room + k;
    if (k >= room) return true;
    b.fragments[place] = ct_fragment_at(setup, (double)e1, (double)e2, s->tag);
    b.next[place] = atomicExch(&r->head, (uint32_t)place + 1);
    return true;
}

CT_DEVICE bool setup_at(ct_triangle_setup *setup, const shape *s, const ct_lattice *axis, int w, int32_t u0,
                        int32_t v0) {
    const int u = ct_view_u(w), v = ct_view_v(w);
    return ct_make_setup(setup, s->q[0], s->q[1], s->q[2], u, v, w, ct_sample_coord(u0, axis[u].shift),
                         ct_sample_coord(v0, axis[v].shift), axis[u].shift, axis[v].shift);
}

CT_DEVICE bool raster_few(const ct_batch &b, const shape *s, const ct_lattice *axis, int w, rectangle r,
                          uint64_t first_ray) {
    ct_triangle_setup setup;
    bool any = false;
    if (!setup_at(&setup, s, axis, w, r.u0, r.v0)) return false;
    int64_t row[3] = {setup.edge[0], setup.edge[1], setup.edge[2]};
    for (int32_t v = r.v0; v < r.v1; v++) {
        int64_t e0 = row[0], e1 = row[1], e2 = row[2];
        const uint64_t line = first_ray + (uint64_t)v * (uint64_t)axis[ct_view_u(w)].n;
        for (int32_t u = r.u0; u < r.u1; u++) {
            if (ct_covers(&setup, e0, e1, e2)) any |= cross(b, &setup, s, line + (uint64_t)u, e1, e2);
            e0 += setup.step_u[0];
            e1 += setup.step_u[1];
            e2 += setup.step_u[2];
        }
        for (int k = 0; k < 3; k++) row[k] += setup.step_v[k];
    }
    return any;
}

CT_DEVICE uint64_t tiles_across(int32_t from, int32_t to) {
    return ((uint64_t)(to - from) + CT_SAMPLE_BLOCK - 1) / CT_SAMPLE_BLOCK;
}

CT_DEVICE void set_aside(const ct_batch &b, uint64_t side, uint64_t triangle, int w, rectangle r) {
    const uint64_t tiles = tiles_across(r.u0, r.u1) * tiles_across(r.v0, r.v1);
    const uint64_t place = ct_atomic_add(&b.counts->large, (uint64_t)1 << CT_SAMPLE_BLOCK_BITS | tiles);
    if (place >> CT_SAMPLE_BLOCK_BITS >= b.room.large) return;
    const ct_gpu_large large = {place & (((uint64_t)1 << CT_SAMPLE_BLOCK_BITS) - 1), (uint32_t)side, (uint32_t)triangle,
                                (uint32_t)w, 0};
    b.large[place >> CT_SAMPLE_BLOCK_BITS] = large;
}

CT_DEVICE shape shape_of(const ct_batch &b, const ct_gpu_pair *pair, uint64_t side, uint64_t triangle) {
    const ct_gpu_body *body = b.bodies[pair->body[side & 1]];
    shape s;
    s.tag = (uint32_t)(side & 1) << 31 | (uint32_t)triangle;
    s.before = false;
    for (int k = 0; k < 3; k++) ct_gpu_coords(body, &pair->window, body->triangles[3 * triangle + k], s.q[k]);
    return s;
}

CT_KERNEL raster(const ct_batch b) {
    if (ct_gpu_plan_shortage(b.counts, &b.room)) return;
    const uint64_t n = b.counts->triangle_chunks, n_sides = 2 * b.counts->pairs;
    CT_EACH_BLOCK(chunk, n) {
        const uint64_t side = ct_find(n_sides, chunk, [&](uint64_t i) { return b.triangle_chunk[i]; });
        const ct_gpu_pair *pair = &b.pairs[side / 2];
        const ct_gpu_body *body = b.bodies[pair->body[side & 1]];
        const uint64_t first = (chunk - b.triangle_chunk[side]) * CT_BLOCK;
        CT_THREADS(t) {
            if (first + t >= body->n_triangles) continue;
            shape s = shape_of(b, pair, side, first + t);
            bool any = false;
            CT_UNROLL
            for (int w = 0; w < 3; w++) {
                const rectangle r = reach_of(&s, pair->window.axis, w, &s.before);
                if (r.u0 >= r.u1 || r.v0 >= r.v1) continue;
                if ((int64_t)(r.u1 - r.u0) * (r.v1 - r.v0) > FEW_SAMPLES)
                    set_aside(b, side, first + t, w, r);
                else
                    any |= raster_few(b, &s, pair->window.axis, w, r, b.ray[3 * (side / 2) + (uint64_t)w]);
            }
            if (any) ct_claim_pages(b, side, body->triangles + 3 * (first + t));
        }
    }
}

/* A tile of a triangle on view w, which is a constant where this is called, as what it indexes would not stay in
 * registers otherwise. */
CT_DEVICE void raster_tile(const ct_batch &b, const ct_gpu_large *large, uint64_t index, int w) {
    const ct_gpu_pair *pair = &b.pairs[large->side / 2];
    const ct_lattice *axis = pair->window.axis;
    shape s = shape_of(b, pair, large->side, large->triangle);
    const rectangle r = reach_of(&s, axis, w, &s.before);
    const uint64_t across = tiles_across(r.u0, r.u1);
    if (!across) return; /* never: what is large has tiles */
    const int32_t u0 = r.u0 + (int32_t)(index % across) * CT_SAMPLE_BLOCK,
                  v0 = r.v0 + (int32_t)(index / across) * CT_SAMPLE_BLOCK;
    ct_triangle_setup setup;
    if (!setup_at(&setup, &s, axis, w, u0, v0)) return;
    const uint64_t first_ray = b.ray[3 * (uint64_t)(large->side / 2) + (uint64_t)w];
    const uint64_t columns = (uint64_t)axis[ct_view_u(w)].n;
    CT_THREADS(t) {
        const int32_t i = (int32_t)(t % CT_SAMPLE_BLOCK);
        bool any = false;
        if (u0 + i >= r.u1) continue;
        for (int32_t j = (int32_t)(t / CT_SAMPLE_BLOCK); j < CT_SAMPLE_BLOCK && v0 + j < r.v1;
             j += (int32_t)(CT_BLOCK / CT_SAMPLE_BLOCK)) {
            int64_t e[3];
            for (int k = 0; k < 3; k++) e[k] = setup.edge[k] + i * setup.step_u[k] + j * setup.step_v[k];
            if (ct_covers(&setup, e[0], e[1], e[2]))
                any |= cross(b, &setup, &s, first_ray + (uint64_t)(v0 + j) * columns + (uint64_t)(u0 + i), e[1], e[2]);
        }
        if (any)
            ct_claim_pages(b, large->side,
                           b.bodies[pair->body[large->side & 1]]->triangles + 3 * (uint64_t)large->triangle);
    }
}

CT_KERNEL tiles(const ct_batch b) {
    if (ct_gpu_plan_shortage(b.counts, &b.room)) return;
    const uint64_t n_large = b.counts->large >> CT_SAMPLE_BLOCK_BITS;
    const uint64_t n = b.counts->large & (((uint64_t)1 << CT_SAMPLE_BLOCK_BITS) - 1);
    if (n_large > b.room.large) return;
    CT_EACH_BLOCK(tile, n) {
        const ct_gpu_large large = b.large[ct_find(n_large, tile, [&](uint64_t i) { return b.large[i].first_tile; })];
        CT_UNROLL
        for (int w = 0; w < 3; w++)
            if (large.view == (uint32_t)w) raster_tile(b, &large, tile - large.first_tile, w);
    }
    if (!ct_is_last_block(&b.counts->done[3])) return;
    uint64_t most = 0;
    for (int i = 0; i < CT_SHARDS; i++) most = b.shards[i].n > most ? b.shards[i].n : most;
    CT_THREADS(t) {
        if (t == 0) b.counts->fragments = CT_SHARDS * most;
    }
}

unsigned ct_cuda_raster(const ct_batch *batch, unsigned grid, cudaStream_t stream) {
    unsigned n = CT_LAUNCH(raster, grid, stream, *batch);
    n += CT_LAUNCH(tiles, grid, stream, *batch);
    return n;
}

/* tile_spans_cuda.cu - adds the spans of tiles' rays to the sums of pairs' contacts. One thread a ray: it finds the
 * faces that its ray crosses, sorts the crossings, walks along them, and adds each bound of a span, as often as the
 * tile has pitches. */
#include "gpu/methods/ebpi/ebpi_cuda.cuh"
#include "gpu/methods/ldi/span_k.h"

/* The crossings of a tile's ray, sorted. Returns their number. */
CT_DEVICE uint32_t cast_ray(const ct_ebpi_pair *pair, const ct_ebpi_tile *tile, ct_gpu_fragment *to) {
    const ct_ebpi_view *view = &pair->view[tile->view];
    const int32_t u = tile->u + (1 << tile->shift_u) / 2, v = tile->v + (1 << tile->shift_v) / 2;
    uint32_t n = 0;
    for (uint32_t i = 0; i < tile->n_faces; i++) {
        const uint32_t tag = tile->faces[i], body = tag >> 31;
        const uint32_t *of = pair->triangles[body] + 3 * (uint64_t)(tag & 0x7fffffff);
        const int32_t *const p = pair->coords[body][of[0]], *const q = pair->coords[body][of[1]],
                             *const r = pair->coords[body][of[2]];
        ct_triangle_setup setup;
        if (ct_min3(p[view->u], q[view->u], r[view->u]) > u || ct_max3(p[view->u], q[view->u], r[view->u]) < u ||
            ct_min3(p[view->v], q[view->v], r[view->v]) > v || ct_max3(p[view->v], q[view->v], r[view->v]) < v ||
            !ct_make_setup(&setup, p, q, r, view->u, view->v, view->axis, u, v, 0, 0) ||
            !ct_covers(&setup, setup.edge[0], setup.edge[1], setup.edge[2]))
            continue;
        const ct_fragment f = ct_fragment_at(&setup, (double)setup.edge[1], (double)setup.edge[2], tag);
        uint32_t at = n++;
        for (; at > 0 && ct_fragment_before(&f, &to[at - 1]); at--) to[at] = to[at - 1];
        (ct_fragment &)to[at] = f;
    }
    return n;
}

/* Gives each corner of the triangles that tiles' rays cross a page of sums. */
CT_KERNEL claim_tile_pages(const ct_ebpi_span_tables b) {
    CT_FOR(i, b.n_tiles) {
        const ct_ebpi_tile *tile = &b.tiles[i];
        ct_gpu_fragment *crossings = b.crossings + b.first_fragment[i];
        const ct_ebpi_pair *pair = &b.of[b.pair_of[i]];
        const uint32_t n = cast_ray(pair, tile, crossings);
        for (uint32_t k = 0; k < n; k++) {
            const uint32_t tag = crossings[k].tag, body = tag >> 31;
            const uint32_t *corner = pair->triangles[body] + 3 * (uint64_t)(tag & 0x7fffffff);
            for (int c = 0; c < 3; c++) ct_claim_page(b, ct_page_slot(b, 2 * pair->candidate + body, corner[c]));
        }
    }
}

/* Adds one fragment's part of a bound. */
CT_DEVICE void add_fragment(const ct_ebpi_span_tables &b, const ct_ebpi_pair *pair, int axis, const ct_fragment *f,
                            bool is_shared, int64_t area) {
    const uint32_t body = f->tag >> 31;
    const uint32_t *corner = pair->triangles[body] + 3 * (uint64_t)(f->tag & 0x7fffffff);
    int64_t weight[3];
    ct_bound_weights(f, is_shared, weight);
    for (int k = 0; k < 3; k++)
        ct_atomic_sum(ct_vertex_sums(b, *ct_page_slot(b, 2 * pair->candidate + body, corner[k]), corner[k]) + axis,
                      area * weight[k]);
}

/* area < 0: of a lower bound. Returns the depth. */
CT_DEVICE int32_t add_bound(const ct_ebpi_span_tables &b, const ct_ebpi_pair *pair, int axis,
                            const ct_gpu_fragment *crossings, const ct_bound *bound, int64_t area) {
    const int64_t i = bound->fragment[0], j = bound->fragment[1];
    const bool is_shared = i >= 0 && j >= 0;
    if (i >= 0) add_fragment(b, pair, axis, &crossings[i], is_shared, area);
    if (j >= 0) add_fragment(b, pair, axis, &crossings[j], is_shared, area);
    return ct_fragment_depth(crossings[i >= 0 ? i : j].key); /* the same for both */
}

/* Needs the crossings of claim_tile_pages. */
CT_KERNEL add_tile_spans(const ct_ebpi_span_tables b) {
    if (b.counts->pages > b.capacity.pages) return;
    CT_FOR(i, b.n_tiles) {
        const ct_ebpi_tile *tile = &b.tiles[i];
        const ct_ebpi_pair *pair = &b.of[b.pair_of[i]];
        const ct_ebpi_view *view = &pair->view[tile->view];
        const ct_gpu_fragment *crossings = b.crossings + b.first_fragment[i];
        const uint32_t n = (uint32_t)(b.first_fragment[i + 1] - b.first_fragment[i]);
        const int64_t area =
            (int64_t)1 << (tile->shift_u - view->pitch_shift[0] + tile->shift_v - view->pitch_shift[1]);
        int32_t winding[2] = {0, 0};
        for (uint32_t k = 0; k < n; k++) {
            const uint32_t body = crossings[k].tag >> 31;
            if (view->initial[body] == CT_INITIAL_FROM_BALANCE) winding[body] -= crossings[k].key & 1 ? 1 : -1;
        }
        ct_walk walk = ct_walk_begin(CT_SPAN_OF_PAIR, winding[0], winding[1]);
        int64_t length = 0, n_spans = 0;
        for (uint32_t k = 0; k < n; k++) {
            ct_span_event span;
            const bool has_next_same_key = k + 1 < n && crossings[k + 1].key == crossings[k].key;
            if (!ct_walk_crossing(&walk, crossings[k].key, (int)(crossings[k].tag >> 31), k, has_next_same_key, &span))
                continue;
            const int32_t lower = add_bound(b, pair, view->axis, crossings, &span.lower, -area);
            length += add_bound(b, pair, view->axis, crossings, &span.upper, area) - lower;
            n_spans++;
        }
        /* All tiles of a view add to the same words: a warp does so once. */
        const uint64_t at = 3 * pair->candidate + (uint64_t)view->axis;
        const unsigned peers = ct_peers(at);
        int64_t lengths = area * length, spans = area * n_spans, inverted = area * walk.inverted, fragments = n;
        ct_sum_peers(peers, &lengths, &spans);
        ct_sum_peers(peers, &inverted, &fragments);
        if ((int)ct_warp_lane() != ct_first_peer(peers)) continue;
        if (spans) {
            ct_atomic_sum(&b.span_length[at], lengths);
            ct_atomic_sum(&b.span_count[at], spans);
        }
        if (inverted) ct_atomic_sum(&b.inverted_length[at], inverted);
        ct_atomic_add(&b.step_fragments[pair->step], (uint64_t)fragments);
    }
}

const ct_kernel_entry ct_ebpi_span_kernels[] = {CT_KERNEL_ENTRY(claim_tile_pages), CT_KERNEL_ENTRY(add_tile_spans),
                                                CT_KERNELS_END};

unsigned ct_cuda_span_tiles(const ct_ebpi_span_tables *tables, unsigned grid, cudaStream_t stream) {
    unsigned n = CT_LAUNCH(claim_tile_pages, grid, stream, *tables);
    n += CT_LAUNCH(add_tile_spans, grid, stream, *tables);
    return n;
}

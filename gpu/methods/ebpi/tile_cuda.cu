/* tile_cuda.cu - measures tiles: the length of a tile's ray inside both bodies, the bound of its error, and its
 * polynomial, or the cuts that are planned from it. As tile_cpu.simd.c, by LANES threads a tile: they share the faces,
 * the edges and the pairs of faces that may cross; the first of them does what goes from depth to depth. */
#include "gpu/device/cuda/collective.cuh"
#include "gpu/methods/ebpi/ebpi_cuda.cuh"

#include <string.h>

enum { LANES = CT_EBPI_LANES, TILES = (int)CT_BLOCK / LANES }; /* threads of a tile, tiles of a block */

/* A tile while it is measured; shared by its threads. */
struct work {
    ct_ebpi_tile *tile; /* NULL: none */
    const ct_ebpi_pair *pair;
    const ct_ebpi_view *view;
    bool is_strict;
    ct_ebpi_frame frame;
    uint32_t n[2], all; /* faces of each body; body 0's come first */
    ct_ebpi_face *faces;
    uint32_t *crossed[2]; /* faces of each body that the ray crosses */
    uint32_t n_crossed[2];
    ct_layers layers[2];
    ct_interval *intervals;
    ct_intervals joint; /* J */
    uint32_t *slots, slot_mask;
    int64_t most, n_spans; /* most: depths in J that hold a face */
    int32_t length, winding[2];
    uint32_t n_inside[2]; /* faces of each body with depths in J */
    uint32_t has_surface; /* some face has */
    ct_ebpi_sums sums;
};

CT_DEVICE bool is_under_both(const ct_ebpi_tile *tile) {
    return tile->n_faces && tile->faces[0] >> 31 != tile->faces[tile->n_faces - 1] >> 31;
}

template <class T> CT_DEVICE T *carve(char **at, uint64_t n) {
    T *first = (T *)*at;
    *at += n * sizeof(T);
    return first;
}

CT_DEVICE void begin_tile(const ct_ebpi_measure_tables &b, uint64_t i, work *w) {
    memset((void *)w, 0, sizeof *w);
    if (i >= b.n) return;
    ct_ebpi_tile *tile = &b.tiles[i];
    tile->length = 0;
    tile->bound = 0;
    tile->n_crossed[0] = tile->n_crossed[1] = tile->begin[0] = tile->begin[1] = 0;
    if (b.polynomials) memset(&b.polynomials[i], 0, sizeof b.polynomials[i]);
    if (!is_under_both(tile)) return;
    w->tile = tile;
    w->pair = &b.pairs[b.measured[i].pair];
    w->view = &w->pair->view[tile->view];
    w->is_strict = b.measured[i].is_strict != 0;
    w->frame = ct_ebpi_frame_of(tile->u, tile->v, tile->shift_u, tile->shift_v);
    const uint32_t n = w->all = tile->n_faces;
    w->n[0] = ct_ebpi_count_first(tile);
    w->n[1] = n - w->n[0];
    tile->begin[1] = w->n[0];
    char *at = b.memory + b.measured[i].memory;
    w->faces = carve<ct_ebpi_face>(&at, n);
    w->intervals = carve<ct_interval>(&at, 3 * (uint64_t)n + 12);
    w->slots = carve<uint32_t>(&at, ct_ebpi_slots_for(n));
    w->slot_mask = ct_ebpi_slots_for(n) - 1;
    w->crossed[0] = carve<uint32_t>(&at, n);
    w->crossed[1] = w->crossed[0] + w->n[0];
    w->layers[0].of = carve<ct_layer>(&at, (uint64_t)n + 4);
    w->layers[1].of = w->layers[0].of + w->n[0] + 1;
}

/* ---- faces, and the ray ---- */

CT_DEVICE const int32_t *corner_of(const ct_ebpi_pair *pair, uint32_t tag, int k) {
    return pair->coords[tag >> 31][pair->triangles[tag >> 31][3 * (uint64_t)(tag & 0x7fffffff) + (uint64_t)k]];
}

CT_DEVICE void load_face(work *w, uint32_t i) {
    const ct_ebpi_view *view = w->view;
    const uint32_t tag = w->tile->faces[i], body = tag >> 31;
    ct_ebpi_face face;
    ct_ebpi_load_face(&w->frame, corner_of(w->pair, tag, 0), corner_of(w->pair, tag, 1), corner_of(w->pair, tag, 2),
                      view->u, view->v, view->axis, tag, &face);
    w->faces[i] = face;
    if (!face.crossing) return;
    if (view->initial[body] == CT_INITIAL_FROM_BALANCE) atomicAdd(&w->winding[body], -face.crossing);
    w->crossed[body][atomicAdd(&w->n_crossed[body], 1u)] = i;
}

/* The layers of a body's faces. */
CT_DEVICE void find_layers(work *w, int body) {
    const uint32_t first = body ? w->n[0] : 0, end = body ? w->all : w->n[0];
    ct_layers *to = &w->layers[body];
    uint32_t at = 0; /* the layer of the face before: neighbours in the list are often neighbours in space */
    for (uint32_t i = first; i < end; i++) {
        const ct_ebpi_face *face = &w->faces[i];
        if (to->n && face->lo >= to->of[at].lo && face->hi <= to->of[at].hi)
            to->of[at].crossings += face->crossing;
        else
            at = ct_layers_add(to, face->lo, face->hi, face->crossing);
    }
}

/* Sorts the crossings of a body by depth. */
CT_DEVICE void sort_crossings(work *w, int body) {
    uint32_t *crossed = w->crossed[body];
    for (uint32_t i = 1; i < w->n_crossed[body]; i++) {
        const uint32_t face = crossed[i];
        const int32_t depth = w->faces[face].depth;
        uint32_t at = i;
        for (; at > 0 && w->faces[crossed[at - 1]].depth > depth; at--) crossed[at] = crossed[at - 1];
        crossed[at] = face;
    }
}

/* Finds J and the depths in it that hold a face. */
CT_DEVICE void find_joint(work *w) {
    const ct_ebpi_view *view = w->view;
    ct_intervals possible[2] = {{w->intervals, 0}, {w->intervals + w->n[0] + 3, 0}};
    w->joint.of = w->intervals + w->all + 6;
    for (int k = 0; k < 2; k++) ct_find_possible(&w->layers[k], w->winding[k], view->lo, view->hi, &possible[k]);
    ct_intervals_intersect(&possible[0], &possible[1], &w->joint);
    if (w->joint.n) w->most = ct_measure_surface(w->layers, &w->joint, w->intervals);
}

/* The length of the ray inside both bodies (ct_is_in_span), and its number of spans. */
CT_DEVICE void measure_ray(work *w) {
    int32_t winding[2] = {w->winding[0], w->winding[1]}, begin = 0;
    uint32_t next[2] = {0, 0};
    while (next[0] < w->n_crossed[0] || next[1] < w->n_crossed[1]) {
        int32_t depth = INT32_MAX;
        for (int k = 0; k < 2; k++)
            if (next[k] < w->n_crossed[k] && w->faces[w->crossed[k][next[k]]].depth < depth)
                depth = w->faces[w->crossed[k][next[k]]].depth;
        const bool was_inside = winding[0] > 0 && winding[1] > 0;
        for (int k = 0; k < 2; k++)
            for (; next[k] < w->n_crossed[k] && w->faces[w->crossed[k][next[k]]].depth == depth; next[k]++)
                winding[k] += w->faces[w->crossed[k][next[k]]].crossing;
        const bool is_inside = winding[0] > 0 && winding[1] > 0;
        if (is_inside && !was_inside) begin = depth;
        if (!was_inside || is_inside) continue;
        w->length += depth - begin;
        w->n_spans++;
    }
}

CT_DEVICE void measure_face(work *w, uint32_t i) {
    ct_ebpi_face *face = &w->faces[i];
    int32_t inside = 0;
    for (uint32_t k = 0; k < w->joint.n; k++) {
        const int32_t lo = (int32_t)w->joint.of[k].lo, hi = (int32_t)w->joint.of[k].hi;
        const int32_t length = (face->hi < hi ? face->hi : hi) - (face->lo > lo ? face->lo : lo);
        inside += length > 0 ? length : 0;
    }
    ct_ebpi_measure_face(&w->frame, inside, face);
}

/* ---- edges ---- */

CT_DEVICE uint32_t hash_of(uint32_t tag) {
    return (tag * 2654435769u) >> 7;
}

/* Of a face with depths in J. A slot is 1 + the face, or 0. */
CT_DEVICE void fill_slot(work *w, uint32_t i) {
    if (!w->faces[i].inside) return;
    atomicAdd(&w->n_inside[i >= w->n[0]], 1u);
    uint32_t at = hash_of(w->faces[i].tag) & w->slot_mask;
    while (atomicCAS(&w->slots[at], 0u, i + 1)) at = (at + 1) & w->slot_mask;
}

/* The face of that tag; NULL: it is not over the tile, or has no depths in J. */
CT_DEVICE const ct_ebpi_face *find_face(const work *w, uint32_t tag) {
    for (uint32_t at = hash_of(tag) & w->slot_mask; w->slots[at]; at = (at + 1) & w->slot_mask)
        if (w->faces[w->slots[at] - 1].tag == tag) return &w->faces[w->slots[at] - 1];
    return NULL;
}

/* Along u, v and the rays. */
CT_DEVICE ct_ebpi_side side_of(const work *w, const ct_ebpi_face *face) {
    const int axis[3] = {w->view->u, w->view->v, w->view->axis};
    double e[2][3], normal[3] = {0, 0, 0};
    if (ct_ebpi_is_steep(face)) {
        const int32_t *corner[3];
        for (int k = 0; k < 3; k++) corner[k] = corner_of(w->pair, face->tag, k);
        for (int i = 0; i < 2; i++)
            for (int k = 0; k < 3; k++) e[i][k] = (double)corner[i + 1][axis[k]] - (double)corner[0][axis[k]];
        normal[0] = e[0][1] * e[1][2] - e[0][2] * e[1][1];
        normal[1] = e[0][2] * e[1][0] - e[0][0] * e[1][2];
        normal[2] = e[0][0] * e[1][1] - e[0][1] * e[1][0];
    }
    return ct_ebpi_side_of(face, normal);
}

/* The edges of face i that the tile may hold points of, each on the side of the face with the lower number. */
CT_DEVICE void add_edges(const work *w, uint32_t i, ct_ebpi_sums *to) {
    const ct_ebpi_face *face = &w->faces[i];
    const uint32_t triangle = face->tag & 0x7fffffff;
    for (int k = 0; k < 3 && face->inside; k++) {
        if (!ct_ebpi_has_edge_in(&w->frame, face, k)) continue;
        const uint32_t opposite = ct_half_edge_triangle(w->pair->opposite[face->tag >> 31][triangle][k]);
        if (opposite < triangle) continue;
        const ct_ebpi_face *other = find_face(w, (face->tag & 0x80000000u) | opposite);
        if (!other) continue;
        if (w->is_strict) {
            ct_ebpi_add_strict_edge(&w->frame, face, other, k, to);
        } else {
            const ct_ebpi_side side[2] = {side_of(w, face), side_of(w, other)};
            ct_ebpi_add_published_edge(&w->frame, face, other, side, k, to);
        }
    }
}

struct add_words {
    __device__ ct_ebpi_sums operator()(ct_ebpi_sums a, const ct_ebpi_sums &b) const {
        CT_UNROLL
        for (uint32_t k = 0; k < sizeof a / sizeof(int64_t); k++) ((int64_t *)&a)[k] += ((const int64_t *)&b)[k];
        return a;
    }
};
static_assert(LANES == 32 && sizeof(ct_ebpi_sums) % sizeof(int64_t) == 0, "a warp's lanes add words");

/* Adds what the threads of each tile have to its sums. All threads of the block call it together. */
CT_DEVICE void add_sums(work *works, const ct_ebpi_sums *x) {
    const ct_ebpi_sums sum = ct_warp_reduce(*x, add_words());
    CT_THREADS(t) {
        if (t % LANES == 0) works[t / LANES].sums = add_words()(works[t / LANES].sums, sum);
    }
}

/* ---- the whole ---- */

/* Kinks bound the tile, not only its depths. */
CT_DEVICE bool counts_kinks(const work *w) {
    const uint64_t pairs = (uint64_t)w->n_inside[0] * w->n_inside[1];
    return w->has_surface && (!w->is_strict || pairs <= CT_EBPI_MOST_PAIRS);
}

CT_DEVICE void finish_tile(const ct_ebpi_measure_tables &b, uint64_t i, const work *w) {
    ct_ebpi_tile *tile = w->tile;
    if (!tile) return;
    tile->n_crossed[0] = w->n_crossed[0];
    tile->n_crossed[1] = w->n_crossed[1];
    if (!w->joint.n) return;
    int64_t sum = w->most << CT_EBPI_DEPTH_BITS;
    if (counts_kinks(w) && w->sums.kinks < sum) sum = w->sums.kinks;
    tile->length = w->length;
    tile->bound = sum + w->n_spans * CT_EBPI_SPAN_ROUNDING;
    if (b.polynomials) {
        b.polynomials[i] = w->sums.polynomial;
        return;
    }
    if (tile->bound <= 0) return;
    ct_ebpi_cut may;
    const int u = tile->shift_u - w->view->pitch_shift[0], v = tile->shift_v - w->view->pitch_shift[1];
    may.u = (uint8_t)(u < 2 ? u : 2);
    may.v = (uint8_t)(v < 2 ? v : 2);
    ct_ebpi_plan_parts(&w->sums.polynomial, may, tile->cut, tile->left);
}

CT_KERNEL measure_tiles(const ct_ebpi_measure_tables b) {
    CT_SHARED work works[TILES];
    CT_EACH_BLOCK(block, (b.n + TILES - 1) / TILES) {
        CT_THREADS(t) {
            if (t % LANES == 0) begin_tile(b, TILES * block + t / LANES, &works[t / LANES]);
        }
        CT_BARRIER();
        CT_THREADS(t) {
            work *w = &works[t / LANES];
            for (uint32_t i = t % LANES; i < w->all; i += LANES) load_face(w, i);
            for (uint32_t i = t % LANES; w->tile && i <= w->slot_mask; i += LANES) w->slots[i] = 0;
        }
        CT_BARRIER();
        CT_THREADS(t) {
            work *w = &works[t / LANES];
            if (t % LANES >= 2 || !w->tile) continue;
            find_layers(w, (int)(t % LANES));
            sort_crossings(w, (int)(t % LANES));
        }
        CT_BARRIER();
        CT_THREADS(t) {
            work *w = &works[t / LANES];
            if (t % LANES || !w->tile) continue;
            find_joint(w);
            if (w->joint.n) measure_ray(w);
            w->has_surface = w->most > 0;
        }
        CT_BARRIER();
        CT_THREADS(t) {
            work *w = &works[t / LANES];
            for (uint32_t i = t % LANES; w->has_surface && i < w->all; i += LANES) {
                measure_face(w, i);
                fill_slot(w, i);
            }
        }
        CT_BARRIER();
        ct_ebpi_sums edges = {}, crossings = {};
        CT_THREADS(t) {
            work *w = &works[t / LANES];
            const bool is_counted = counts_kinks(w);
            for (uint32_t i = t % LANES; is_counted && i < w->all; i += LANES) add_edges(w, i, &edges);
            const uint64_t pairs = is_counted && w->is_strict ? (uint64_t)w->n[0] * w->n[1] : 0;
            for (uint64_t p = t % LANES; p < pairs; p += LANES)
                ct_ebpi_add_transient_edge(&w->frame, &w->faces[p / w->n[1]], &w->faces[w->n[0] + p % w->n[1]], &edges);
        }
        add_sums(works, &edges);
        CT_BARRIER();
        CT_THREADS(t) {
            work *w = &works[t / LANES];
            const uint64_t pairs = counts_kinks(w) && !w->is_strict ? (uint64_t)w->n_crossed[0] * w->n_crossed[1] : 0;
            for (uint64_t p = t % LANES; p < pairs; p += LANES)
                ct_ebpi_add_met_crossing(&w->frame, &w->faces[w->crossed[0][p / w->n_crossed[1]]],
                                         &w->faces[w->crossed[1][p % w->n_crossed[1]]], w->sums.butterfly, &crossings);
        }
        add_sums(works, &crossings);
        CT_BARRIER();
        CT_THREADS(t) {
            if (t % LANES == 0) finish_tile(b, TILES * block + t / LANES, &works[t / LANES]);
        }
        CT_BARRIER();
    }
}

const ct_kernel_entry ct_ebpi_tile_kernels[] = {CT_KERNEL_ENTRY(measure_tiles), CT_KERNELS_END};

unsigned ct_cuda_measure_tiles(const ct_ebpi_measure_tables *tables, unsigned grid, cudaStream_t stream) {
    return CT_LAUNCH(measure_tiles, grid, stream, *tables);
}

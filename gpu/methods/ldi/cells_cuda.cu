/* cells_cuda.cu - cuts spans at the walls of cells, and sums what the parts add to cells and to their vertices. */
#include "gpu/methods/ldi/cells_cuda.cuh"

#include "gpu/methods/ldi/span_k.h"
#include "gpu/view/tile_k.h"

/* ---- hash tables ---- */

/* Slots that a key is looked for in before the table counts as full. Of a table that is three quarters full, runs of
 * used slots are rarely longer. */
enum { MOST_PROBES = 96 };

#define NO_SLOT UINT64_MAX

/* Keys are regular, so all their bits are mixed: neighbouring cells would else share runs of slots. */
CT_DEVICE uint64_t first_slot(uint64_t key, uint32_t bits) {
    key = (key ^ key >> 31) * 0x9e3779b97f4a7c15u;
    key = (key ^ key >> 29) * 0xc2b2ae3d27d4eb4fu;
    return (key ^ key >> 32) >> (64 - bits);
}

/* The slot with this key, or NO_SLOT. */
template <class Slot> CT_DEVICE uint64_t find_slot(const Slot *slots, uint32_t bits, uint64_t key) {
    const uint64_t mask = ((uint64_t)1 << bits) - 1, first = first_slot(key, bits);
    for (uint64_t i = 0; i < MOST_PROBES; i++) {
        const uint64_t at = (first + i) & mask, seen = ct_peek(&slots[at].key);
        if (seen == key) return at;
        if (!seen) return NO_SLOT;
    }
    return NO_SLOT;
}

/* The same, which gives the key a slot if it has none. *is_new: it got one. NO_SLOT: the table is full. */
template <class Slot> CT_DEVICE uint64_t claim_slot(Slot *slots, uint32_t bits, uint64_t key, bool *is_new) {
    const uint64_t mask = ((uint64_t)1 << bits) - 1, first = first_slot(key, bits);
    *is_new = false;
    for (uint64_t i = 0; i < MOST_PROBES; i++) {
        const uint64_t at = (first + i) & mask;
        uint64_t seen = ct_peek(&slots[at].key);
        if (!seen) {
            seen = ct_atomic_cas(&slots[at].key, 0, key);
            *is_new = !seen;
        }
        if (*is_new || seen == key) return at;
    }
    return NO_SLOT;
}

/* ---- spans ---- */

/* A span, and the cell in which it begins. */
struct placed_span {
    ct_gpu_cell_span of;
    const ct_cell_grid *grid;
    const int32_t *walls;        /* across the rays' direction */
    int32_t lower, upper, first; /* depths; the cell along the ray of the lower one */
    uint64_t key, stride;        /* ct_gpu_cell_key of cell 0 along the ray, and what each further one adds */
};

CT_DEVICE int32_t depth_of(const ct_span_tables &b, const uint32_t fragment[2]) {
    return ct_fragment_depth(b.fragments[fragment[fragment[0] == CT_GPU_NONE]].key);
}

CT_DEVICE uint64_t stride_along(int axis) {
    return axis == 0 ? (uint64_t)CT_MAX_CELLS_ALONG * CT_MAX_CELLS_ALONG : axis == 1 ? CT_MAX_CELLS_ALONG : 1;
}

/* False: the span's contact has no cells. */
CT_DEVICE bool place_span(const ct_span_tables &b, const ct_cell_tables &c, uint64_t i, placed_span *s) {
    s->of = b.cell_spans[i];
    s->grid = &c.grids[s->of.candidate];
    if (!s->grid->axis[0].n) return false;
    const int view = (int)s->of.view, axis_u = ct_view_u(view), axis_v = ct_view_v(view);
    const ct_tile tile = ct_uniform_tile(&b.plans[b.candidate_pair[s->of.candidate]].window, view);
    const uint32_t columns = (uint32_t)tile.n_u;
    const int32_t u = ct_tile_u(&tile, (int32_t)(s->of.ray % columns)),
                  v = ct_tile_v(&tile, (int32_t)(s->of.ray / columns));
    const ct_cell_axis *along = &s->grid->axis[view];
    s->lower = depth_of(b, s->of.lower);
    s->upper = depth_of(b, s->of.upper);
    s->walls = along->walls;
    s->first = ct_cell_at(along, s->lower);
    s->stride = stride_along(view);
    s->key =
        ct_gpu_cell_key(s->of.candidate, (uint64_t)ct_cell_at(&s->grid->axis[axis_u], u) * stride_along(axis_u) +
                                             (uint64_t)ct_cell_at(&s->grid->axis[axis_v], v) * stride_along(axis_v));
    return true;
}

/* ---- cells ---- */

CT_DEVICE bool is_beyond_counting(const ct_cell_tables &c, const placed_span *s) {
    return ct_peek(&c.met[s->of.candidate]) > (uint64_t)CT_CELLS_COUNTED * s->grid->max_cells;
}

/* Adds a part of a span to cell k along its ray. Neighbouring rays mostly pass the same cell, so the threads of a warp
 * that hold the same one sum their lengths first. */
CT_DEVICE void add_length(const ct_cell_tables &c, const placed_span *s, int32_t k, int64_t length) {
    bool is_new;
    const uint64_t slot = claim_slot(c.cells, c.cell_bits, s->key + (uint64_t)k * s->stride, &is_new);
    if (slot == NO_SLOT) {
        atomicMax(&c.counts->is_full, 1u);
        return;
    }
    if (is_new) {
        ct_append_index(&c.counts->cells);
        ct_atomic_add(&c.met[s->of.candidate], 1);
    }
    const unsigned peers = ct_peers(slot << 2 | s->of.view);
    int64_t n = 1;
    ct_sum_peers(peers, &length, &n);
    if ((int)ct_warp_lane() != ct_first_peer(peers)) return;
    ct_atomic_sum(&c.cells[slot].length[s->of.view], length);
    ct_atomic_sum(&c.cells[slot].spans[s->of.view], n);
}

CT_KERNEL meet_cells(const ct_span_tables b, const ct_cell_tables c) {
    CT_FOR(i, b.counts->cell_spans) {
        placed_span s;
        if (ct_peek(&c.counts->is_full) || !place_span(b, c, i, &s) || is_beyond_counting(c, &s)) continue;
        int32_t from = s.lower;
        for (int32_t k = s.first; from < s.upper; k++) {
            const int32_t wall = s.walls[k + 1], to = wall < s.upper ? wall : s.upper;
            if (to > from) add_length(c, &s, k, (int64_t)to - from); /* walls may coincide */
            from = to;
        }
    }
}

CT_KERNEL list_cells(const ct_cell_tables c) {
    CT_FOR(i, (uint64_t)1 << c.cell_bits) {
        ct_gpu_cell *cell = &c.cells[i];
        if (!cell->key) continue;
        cell->index = ct_append_index(&c.counts->listed);
        c.list[cell->index] = *cell;
    }
}

/* ---- vertices of cells ---- */

/* What the corners of a triangle get of one span end in one cell: corners 1 and 2 get l1 and l2, corner 0 the rest. */
struct cell_weights {
    int64_t whole, l1, l2;
};

/* Adds, with a sign, the weights that a wall takes of an end with these weights. */
CT_DEVICE void add_wall(cell_weights *to, int64_t share, int is_shared, const int64_t weight[3], int sign) {
    to->whole += sign * (share >> is_shared);
    to->l1 += sign * ct_share_weight(weight[1], share);
    to->l2 += sign * ct_share_weight(weight[2], share);
}

/* A cell that a span passes: the shares of the span's upper end in the walls below and above it, or -1 where the span
 * ends in the cell. */
struct passed_cell {
    uint64_t index; /* in the list of cells */
    int64_t below, above;
};

/* The part of a vertex. Those of a body with itself are divided between both (gpu/contact/sides_cuda.cuh). */
CT_DEVICE uint32_t part_of(const ct_span_tables &b, uint32_t candidate, bool is_self, uint32_t tag, uint32_t vertex) {
    if (!is_self) return tag >> 31;
    const uint32_t page = *ct_page_slot(b, 2 * (uint64_t)candidate + 1, vertex);
    if (page == CT_NO_PAGE) return 0;
    const int64_t *sums = ct_vertex_sums(b, page, vertex);
    return (sums[0] | sums[1] | sums[2]) != 0;
}

/* Adds an end of a span, one body's fragment, to a cell. As in find_spans, peers sum their weights first. */
CT_DEVICE void add_end(const ct_span_tables &b, const ct_cell_tables &c, const placed_span *s, const passed_cell *cell,
                       const ct_fragment *f, bool is_upper, int is_shared) {
    int64_t weight[3];
    ct_bound_weights(f, is_shared, weight);
    cell_weights sum = {0, 0, 0};
    if (is_upper ? cell->above < 0 : cell->below < 0) {
        const int sign = is_upper ? 1 : -1;
        sum.whole = sign * (CT_WEIGHT_ONE >> is_shared);
        sum.l1 = sign * weight[1];
        sum.l2 = sign * weight[2];
    }
    if (cell->above >= 0) add_wall(&sum, is_upper ? cell->above : CT_WEIGHT_ONE - cell->above, is_shared, weight, 1);
    if (cell->below >= 0) add_wall(&sum, is_upper ? cell->below : CT_WEIGHT_ONE - cell->below, is_shared, weight, -1);
    const unsigned peers = ct_peers((uint64_t)s->of.view << (32 + CT_CELL_INDEX_BITS) | cell->index << 32 | f->tag);
    int64_t unused = 0;
    ct_sum_peers(peers, &sum.whole, &unused);
    ct_sum_peers(peers, &sum.l1, &sum.l2);
    if ((int)ct_warp_lane() != ct_first_peer(peers)) return;
    const ct_gpu_pair *pair = &b.pairs[b.candidate_pair[s->of.candidate]];
    const uint32_t *corner = b.bodies[pair->body[f->tag >> 31]]->triangles + 3 * (uint64_t)(f->tag & 0x7fffffff);
    const int64_t sums[3] = {sum.whole - sum.l1 - sum.l2, sum.l1, sum.l2};
    for (int k = 0; k < 3; k++) {
        if (!sums[k]) continue;
        const uint32_t part = part_of(b, s->of.candidate, ct_is_self_pair(pair), f->tag, corner[k]);
        bool is_new;
        const uint64_t slot =
            claim_slot(c.vertices, c.vertex_bits, ct_gpu_cell_vertex_key(cell->index, part, corner[k]), &is_new);
        if (slot == NO_SLOT) {
            atomicMax(&c.counts->is_full, 1u);
            return;
        }
        if (is_new) ct_append_index(&c.counts->vertices);
        ct_atomic_sum(&c.vertices[slot].sums[s->of.view], sums[k]);
    }
}

CT_DEVICE void add_bound(const ct_span_tables &b, const ct_cell_tables &c, const placed_span *s,
                         const passed_cell *cell, const uint32_t fragment[2], bool is_upper) {
    const int is_shared = fragment[0] != CT_GPU_NONE && fragment[1] != CT_GPU_NONE;
    for (int k = 0; k < 2; k++) {
        if (fragment[k] == CT_GPU_NONE) continue;
        const ct_gpu_fragment f = b.fragments[fragment[k]];
        add_end(b, c, s, cell, &f, is_upper, is_shared);
    }
}

CT_DEVICE bool wants_entries(const ct_span_tables &b, const ct_cell_tables &c, const placed_span *s) {
    const uint32_t candidate = s->of.candidate;
    return (b.steps[b.pairs[b.candidate_pair[candidate]].step].want & CT_WANT_ENTRIES) &&
           c.met[candidate] <= s->grid->max_cells;
}

CT_KERNEL sum_cells(const ct_span_tables b, const ct_cell_tables c) {
    CT_FOR(i, b.counts->cell_spans) {
        placed_span s;
        if (ct_peek(&c.counts->is_full) || !place_span(b, c, i, &s) || !wants_entries(b, c, &s)) continue;
        passed_cell cell = {0, -1, -1};
        int32_t from = s.lower;
        for (int32_t k = s.first; from < s.upper; k++) {
            const int32_t wall = s.walls[k + 1], to = wall < s.upper ? wall : s.upper;
            cell.above = wall < s.upper ? ct_wall_share(s.lower, s.upper, wall) : -1;
            if (to > from) { /* between walls that coincide there is nothing */
                cell.index = c.cells[find_slot(c.cells, c.cell_bits, s.key + (uint64_t)k * s.stride)].index;
                add_bound(b, c, &s, &cell, s.of.lower, false);
                add_bound(b, c, &s, &cell, s.of.upper, true);
            }
            cell.below = cell.above;
            from = to;
        }
    }
}

CT_KERNEL list_entries(const ct_span_tables b, const ct_cell_tables c) {
    CT_FOR(i, (uint64_t)1 << c.vertex_bits) {
        const ct_gpu_cell_vertex at = c.vertices[i];
        if (!(at.sums[0] | at.sums[1] | at.sums[2])) continue;
        const uint64_t p = b.candidate_pair[ct_gpu_cell_candidate(c.list[ct_gpu_vertex_cell(at.key)].key)];
        ct_gpu_cell_entry entry;
        entry.key = at.key;
        for (int w = 0; w < 3; w++) entry.sums[w] = at.sums[w];
        ct_gpu_coords(b.bodies[b.pairs[p].body[ct_gpu_vertex_part(at.key)]], &b.plans[p].window,
                      ct_gpu_vertex_number(at.key), entry.coords);
        entry.unused = 0;
        c.entries[ct_append_index(&c.counts->entries)] = entry;
    }
}

const ct_kernel_entry ct_cell_kernels[] = {CT_KERNEL_ENTRY(meet_cells), CT_KERNEL_ENTRY(list_cells),
                                           CT_KERNEL_ENTRY(sum_cells), CT_KERNEL_ENTRY(list_entries), CT_KERNELS_END};

unsigned ct_cuda_meet_cells(const ct_span_tables *tables, const ct_cell_tables *cells, unsigned grid,
                            cudaStream_t stream) {
    return CT_LAUNCH(meet_cells, grid, stream, *tables, *cells);
}

unsigned ct_cuda_list_cells(const ct_cell_tables *cells, unsigned grid, cudaStream_t stream) {
    return CT_LAUNCH(list_cells, grid, stream, *cells);
}

unsigned ct_cuda_sum_cells(const ct_span_tables *tables, const ct_cell_tables *cells, unsigned grid,
                           cudaStream_t stream) {
    return CT_LAUNCH(sum_cells, grid, stream, *tables, *cells);
}

unsigned ct_cuda_list_cell_entries(const ct_span_tables *tables, const ct_cell_tables *cells, unsigned grid,
                                   cudaStream_t stream) {
    return CT_LAUNCH(list_entries, grid, stream, *tables, *cells);
}

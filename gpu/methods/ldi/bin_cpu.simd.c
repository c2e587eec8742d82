/* bin_cpu.simd.c - sorts triangles into bins on the CPU, and rasterises small ones on the way.
 *
 * In a mesh finer than the lattice most triangles cover no sample, which their corners' cells show (cull.h). Most
 * others cover a few samples: they are rasterised at once, four at a time (tri4.h). Triangles that are processed
 * together take as long as the slowest, so they are first put into lists of similar ones. */
#include "gpu/methods/ldi/bin_cpu.h"

#include <string.h>

#include "gpu/methods/ldi/bin_sort.h"
#include "gpu/methods/ldi/cull.h"

struct bin_output {
    struct bin_entry *entries_end;
    struct crossing_writer crossings[3]; /* per view, into memory[view] */
    struct ct_crossing_memory *memory[3];
    ct_budget *budget;
};

/* ---- triangles ---- */

/* Appends the triangles in lane set `lanes` to the entries of view w. Returns the new end. */
static inline struct bin_entry *append_entries(struct bin_entry *to, const struct tri4 *q, const struct grid *g, int w,
                                               unsigned lanes) {
    const struct view_grid *view = &g->view[w];
    const struct extent4 *u = &q->axis[ct_view_u(w)], *v = &q->axis[ct_view_v(w)];
    const ct_v4i first_u = u->first >> view->bin_shift_u, last_u = (u->end - 1) >> view->bin_shift_u;
    const ct_v4i first_v = v->first >> view->bin_shift_v, last_v = (v->end - 1) >> view->bin_shift_v;
    for (; lanes; lanes &= lanes - 1) {
        int l = __builtin_ctz(lanes);
        *to++ = (struct bin_entry){q->triangle[l],      view->tile,           (uint16_t)first_u[l],
                                   (uint16_t)last_u[l], (uint16_t)first_v[l], (uint16_t)last_v[l]};
    }
    return to;
}

static __attribute__((noinline)) bool grow_crossings(struct bin_output *to, int w, size_t n) {
    struct crossing_writer *c = &to->crossings[w];
    bool ok = reserve_crossings(to->memory[w], to->budget, c->n, c->n + MAX_EMITTED + (n > c->n ? n : c->n) + 1);
    *c = crossing_writer_at(to->memory[w], c->n);
    return ok;
}

/* views: bit w is set if the triangles may cover a sample of view w; n: triangles left. False: out of memory. */
static inline __attribute__((always_inline)) bool bin_view(struct bin_output *to, const struct tri4 *q,
                                                           const struct grid *g, int w, size_t n, unsigned views,
                                                           bool is_single) {
    const struct extent4 *u = &q->axis[ct_view_u(w)], *v = &q->axis[ct_view_v(w)], *depth = &q->axis[w];
    if (!(views >> w & 1)) return true;
    if (__builtin_expect(to->crossings[w].n >= to->crossings[w].full, 0) && !grow_crossings(to, w, n)) return false;
    unsigned lanes = q->present, large = sign_bits_v4i(u->is_large | v->is_large);
    if (views != 1u << w) /* lists of a single view hold only triangles that the cull saw in it */
        lanes &= sign_bits_v4i(u->has_samples & v->has_samples &
                               ~(depth->is_behind | (depth->is_in_front & g->view[w].drops_in_front)));
    unsigned small = lanes & ~large;
    large &= lanes;
    if (!is_single) {
        ct_v4i samples = max_v4i(u->end - u->first, v->end - v->first);
        unsigned larger = small & sign_bits_v4i(samples > FEW);
        if (larger && __builtin_popcount(larger) < COMPANY) {
            small &= ~larger;
            large |= larger;
        }
    }
    if (small) emit_fragments(&to->crossings[w], q, g, w, small, is_single);
    if (large) to->entries_end = append_entries(to->entries_end, q, g, w, large);
    return true;
}

/* The triangles of one list, see CT_KEPT_LISTS. */
static inline __attribute__((always_inline)) bool bin_list(struct bin_output *to, const ct_snapped_body *snapped,
                                                           const struct grid *g, const uint32_t *kept, size_t n,
                                                           unsigned views, bool is_single) {
    const bool prefetch = needs_prefetch(snapped);
    for (size_t i = 0; i < n; i += 4) {
        if (prefetch)
            for (int l = 0; l < 4; l++) {
                const uint32_t *soon = snapped->triangles + 3 * (size_t)kept[i + l + AHEAD];
                for (int j = 0; j < 3; j++) __builtin_prefetch(snapped->coords[soon[j]]);
            }
        struct tri4 q;
        q.triangle = kept + i;
        ct_v4i ids;
        memcpy(&ids, kept + i, sizeof ids);
        q.tag = (ct_v4u)ct_v4l_of_v4i(ids) << 32 | (uint64_t)snapped->body << 63;
        q.present = n - i < 4 ? (1u << (n - i)) - 1 : 15;
        load_tri4(&q, snapped, g);
        if (!bin_view(to, &q, g, 0, n - i, views, is_single) || !bin_view(to, &q, g, 1, n - i, views, is_single) ||
            !bin_view(to, &q, g, 2, n - i, views, is_single))
            return false;
    }
    return true;
}

static bool bin_lists(struct bin_output *to, const ct_snapped_body *snapped, const ct_window *window,
                      const ct_bin_plan *plan, const ct_bin_scratch *scratch, bool emit_small) {
    const struct grid grid = grid_of(snapped, window, plan, emit_small);
#define BIN_LIST(list, views, is_single)                                                                               \
    bin_list(to, snapped, &grid, scratch->kept[list], scratch->n_kept[list], views, is_single)
    return BIN_LIST(CT_KEPT_SINGLE, 1, true) && BIN_LIST(CT_KEPT_SINGLE + 1, 2, true) &&
           BIN_LIST(CT_KEPT_SINGLE + 2, 4, true) && BIN_LIST(CT_KEPT_SINGLE + 3, 7, true) &&
           BIN_LIST(CT_KEPT_SEVERAL, 1, false) && BIN_LIST(CT_KEPT_SEVERAL + 1, 2, false) &&
           BIN_LIST(CT_KEPT_SEVERAL + 2, 4, false) && BIN_LIST(CT_KEPT_SEVERAL + 3, 7, false);
#undef BIN_LIST
}

/* ---- a chunk ---- */

static bool bin(ct_binned_chunk *chunk, ct_bin_scratch *scratch, ct_budget *budget, const ct_snapped_body *snapped,
                const ct_window *window, const ct_bin_plan *plan, bool emit_small) {
    uint32_t view_bins[3], n_view_bins = 0;
    for (int w = 0; w < 3; w++) {
        view_bins[w] = plan->tiles[w].columns * plan->tiles[w].rows;
        n_view_bins += view_bins[w];
    }
    size_t n = 0, counts = plan->n_bins + 2, all_counts = counts + n_view_bins + 3 * 2;
    for (int k = 0; k < CT_KEPT_LISTS; k++) n += scratch->n_kept[k];
    chunk->snapped = snapped;
    if (!ct_buffer_reserve(&chunk->offsets, budget, all_counts * sizeof(uint32_t), 0, false) ||
        !ct_buffer_reserve(&scratch->entries, budget, 3 * n * sizeof(struct bin_entry), 0, false))
        return false;
    struct bin_output to = {.entries_end = scratch->entries.data, .budget = budget};
    for (int w = 0; w < 3; w++) { /* crossings of a single bin need no sorting: they are written where they stay */
        to.memory[w] = view_bins[w] > 1 ? &scratch->crossings[w] : &chunk->crossing_memory[w];
        to.crossings[w] = crossing_writer_at(to.memory[w], 0);
    }
    if (!bin_lists(&to, snapped, window, plan, scratch, emit_small)) return false;
    uint32_t *count = chunk->offsets.data;
    memset(count, 0, all_counts * sizeof *count);
    if (!sort_entries(chunk, budget, plan, scratch->entries.data, to.entries_end, count)) return false;
    count += counts;
    for (int w = 0; w < 3; w++) {
        struct crossing_writer *c = &to.crossings[w];
        if (view_bins[w] <= 1)
            count[1] = (uint32_t)c->n;
        else if (!sort_crossings(&chunk->crossing_memory[w], budget, c, &plan->tiles[w], count))
            return false;
        chunk->crossings[w] = (ct_crossings){c->front, c->back, c->where, count};
        count += view_bins[w] + 2;
    }
    return true;
}

const ct_bin_cpu CT_VARIANT(ct_bin_cpu) = {cull, bin};

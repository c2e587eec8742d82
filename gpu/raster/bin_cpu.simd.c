/* bin_cpu.simd.c - triangles to bands on the CPU, and small ones to crossings at once.
 *
 * Of a mesh that is finer than the lattice most triangles cover no sample, which their corners' cells tell. Of the
 * others most can cover a few at most: those are tried at once, four triangles at a time. Those that are tried together
 * take as long as the slowest of them, so they are put into lists of like ones first.
 */
#include "gpu/raster/bin_cpu.h"

#include <string.h>

#include "gpu/raster/tri4.h"

/* ---- culling ---- */

/* Cells of two vertices: lanes x, y, z of the first and, after one that is 0, of the second. */
typedef int16_t cells8 __attribute__((vector_size(16)));

static inline cells8 load_cells(const ct_snapped_body *p, uint32_t a, uint32_t b) {
    return (cells8)(ct_v2l){(int64_t)p->cells[a], (int64_t)p->cells[b]};
}

#ifdef __SSE2__ /* the compiler does not see through the others */
static inline cells8 smaller(cells8 a, cells8 b) {
    return (cells8)_mm_min_epi16((__m128i)a, (__m128i)b);
}

static inline cells8 larger(cells8 a, cells8 b) {
    return (cells8)_mm_max_epi16((__m128i)a, (__m128i)b);
}
#else
static inline cells8 smaller(cells8 a, cells8 b) {
    cells8 less = a < b;
    return (less & a) | (~less & b);
}

static inline cells8 larger(cells8 a, cells8 b) {
    cells8 more = a > b;
    return (more & a) | (~more & b);
}
#endif

/* What is known of a triangle, IN_VIEW << w: it may cover a sample that matters in the view along w; SEVERAL << w: its
 * corners have more than one sample between them along axis w. */
enum { IN_VIEW = 1, SEVERAL = 8 };

/* Of two triangles, what concerns axis w in lane w.
 *
 * A triangle whose corners have one and the same cell along an axis passes between two samples of it, or lies outside
 * the window: it can cover a sample in none of the two views that this axis is part of. One that lies after the window
 * along an axis bounds no span of that axis's view, nor does one before it, which need not even be counted where the
 * body ends within the window. */
static inline cells8 culled_of(cells8 a, cells8 b, cells8 c, cells8 dropped) {
    const cells8 mask = {CT_CELL_MASK, CT_CELL_MASK, CT_CELL_MASK, 0, CT_CELL_MASK, CT_CELL_MASK, CT_CELL_MASK, 0};
    const cells8 axis = {1, 2, 4, 0, 1, 2, 4, 0};
    cells8 kept = (a & b & c & dropped) == 0;
    a &= mask;
    b &= mask;
    c &= mask;
    cells8 samples = larger(larger(a, b), c) - smaller(smaller(a, b), c); /* between the corners */
    cells8 none = samples == 0;
    none = __builtin_shufflevector(none, none, 1, 2, 0, 3, 5, 6, 4, 7) |
           __builtin_shufflevector(none, none, 2, 0, 1, 3, 6, 4, 5, 7);
    return (kept & ~none & (axis * IN_VIEW)) | ((samples > 1) & (axis * SEVERAL));
}

/* Marks of triangles that are left out, by axis. */
static inline cells8 dropped_of(const ct_snapped_body *p) {
    cells8 dropped = {0};
    for (int w = 0; w < 3; w++)
        dropped[w] = dropped[4 + w] =
            (int16_t)(CT_CELL_AFTER | (p->entry[w] == CT_INITIAL_FROM_BALANCE ? CT_CELL_BEFORE : 0));
    return dropped;
}

/* Corners are looked up so many triangles ahead: vertices are in no order that caches would like. */
enum { AHEAD = 16 };

/* The list (CT_KEPT_LISTS) for triangles of which that is known; NOT_KEPT is one that nobody reads, so that nothing
 * branches. */
enum { NOT_KEPT = CT_KEPT_LISTS, LISTS };
#define OF(kind) NOT_KEPT, (kind), (kind) + 1, (kind) + 3, (kind) + 2, (kind) + 3, (kind) + 3, (kind) + 3
static const uint8_t list_of[64] = {OF(CT_KEPT_SINGLE),  OF(CT_KEPT_SEVERAL), OF(CT_KEPT_SEVERAL), OF(CT_KEPT_SEVERAL),
                                    OF(CT_KEPT_SEVERAL), OF(CT_KEPT_SEVERAL), OF(CT_KEPT_SEVERAL), OF(CT_KEPT_SEVERAL)};
#undef OF

/* Where the lists end. */
struct kept {
    uint32_t *end[LISTS];
};

static inline void keep(struct kept *to, uint32_t triangle, int64_t lanes) {
    const unsigned sum = (uint64_t)lanes * 0x0001000100010001 >> 48;
    *to->end[list_of[sum]]++ = triangle;
}

static inline __attribute__((always_inline)) void cull_two(const ct_snapped_body *p, uint32_t t, uint32_t second,
                                                           cells8 dropped, struct kept *to) {
    const uint32_t *k = p->triangles + 3 * (size_t)t, *l = p->triangles + 3 * (size_t)second;
    const cells8 in_view = {IN_VIEW << 0, IN_VIEW << 1, IN_VIEW << 2, 0, IN_VIEW << 0, IN_VIEW << 1, IN_VIEW << 2, 0};
    cells8 known = culled_of(load_cells(p, k[0], l[0]), load_cells(p, k[1], l[1]), load_cells(p, k[2], l[2]), dropped);
    const ct_v2l in = (ct_v2l)(known & in_view);
    if (!(in[0] | in[1])) return; /* foreseen where most are */
    keep(to, t, ((ct_v2l)known)[0]);
    if (second != t) keep(to, second, ((ct_v2l)known)[1]);
}

/* Triangles [first, last). Corners are looked up ahead where vertices are too many for caches. */
static inline __attribute__((always_inline)) void cull_all(const ct_snapped_body *p, uint32_t first, uint32_t last,
                                                           struct kept *to, bool ahead) {
    const cells8 dropped = dropped_of(p);
    uint32_t t = first;
    if (ahead)
        for (; t + AHEAD + 1 < last; t += 2) {
            const uint32_t *soon = p->triangles + 3 * (size_t)(t + AHEAD);
            for (int j = 0; j < 6; j++) __builtin_prefetch(&p->cells[soon[j]]);
            cull_two(p, t, t + 1, dropped, to);
        }
    for (; t + 1 < last; t += 2) cull_two(p, t, t + 1, dropped, to);
    if (t < last) cull_two(p, t, t, dropped, to);
}

/* Has it more vertices than stay in a core's cache? */
static inline bool is_large(const ct_snapped_body *p) {
    return p->n_triangles >= 1 << 17;
}

static bool cull(ct_bin_scratch *scratch, ct_budget *budget, const ct_snapped_body *p, uint32_t first, uint32_t last) {
    const size_t room = last - first + AHEAD + 4; /* what is looked at ahead, and together */
    if (!ct_buffer_reserve(&scratch->kept_memory, budget, LISTS * room * sizeof(uint32_t), 0, false)) return false;
    struct kept to;
    for (int k = 0; k < LISTS; k++) to.end[k] = (uint32_t *)scratch->kept_memory.data + k * room;
    if (is_large(p))
        cull_all(p, first, last, &to, true);
    else
        cull_all(p, first, last, &to, false);
    for (int k = 0; k < CT_KEPT_LISTS; k++) {
        scratch->kept[k] = (uint32_t *)scratch->kept_memory.data + k * room;
        scratch->n_kept[k] = (uint32_t)(to.end[k] - scratch->kept[k]);
        for (int i = 0; i < AHEAD + 3 && scratch->n_kept[k]; i++) to.end[k][i] = scratch->kept[k][0];
    }
    return true;
}

/* ---- entries ---- */

/* What a triangle is an entry of. */
struct bin_entry {
    uint32_t triangle;
    uint16_t first, last; /* bands, among all */
};

/* Triangles that have a bit in `large`, of the view along w. Returns where the list ends. */
static inline struct bin_entry *list(struct bin_entry *to, const struct tri4 *q, const struct grid *g, int w,
                                     unsigned large) {
    const struct view_grid *view = &g->view[w];
    const struct extent4 *v = &q->axis[ct_view_v(w)];
    ct_v4i first = view->band_first + (v->first >> view->band_shift);
    ct_v4i last = view->band_first + ((v->last - 1) >> view->band_shift);
    for (; large; large &= large - 1) {
        int l = __builtin_ctz(large);
        *to++ = (struct bin_entry){q->triangle[l], (uint16_t)first[l], (uint16_t)last[l]};
    }
    return to;
}

/* ---- a chunk ---- */

/* Where what is found goes. */
struct bin_output {
    struct bin_entry *listed;
    struct crossing_writer crossed[3]; /* per view, in memory[view] */
    struct ct_crossing_memory *memory[3];
    ct_budget *budget;
};

/* What four triangles can emit_fragments in a view, and what is overwritten beyond it. */
enum { MAX_EMITTED = 4 * SMALL * SMALL + 4 };

static size_t crossing_capacity(const struct ct_crossing_memory *m) {
    size_t least = m->front.capacity < m->back.capacity ? m->front.capacity : m->back.capacity;
    return (least < m->where.capacity ? least : m->where.capacity) / sizeof(uint64_t);
}

/* Crossings that are written to that memory, the first n of which are there. */
static struct crossing_writer crossing_writer_at(struct ct_crossing_memory *memory, size_t n) {
    const size_t room = crossing_capacity(memory);
    return (struct crossing_writer){memory->front.data, memory->back.data, memory->where.data, n,
                                    room > MAX_EMITTED ? room - MAX_EMITTED : 0};
}

/* False: out of memory. */
static bool reserve_crossings(struct ct_crossing_memory *memory, ct_budget *budget, size_t n, size_t room) {
    const size_t bytes = room * sizeof(uint64_t), used = n * sizeof(uint64_t);
    return ct_buffer_reserve(&memory->front, budget, bytes, used, false) &&
           ct_buffer_reserve(&memory->back, budget, bytes, used, false) &&
           ct_buffer_reserve(&memory->where, budget, bytes, used, false);
}

static __attribute__((noinline)) bool grow(struct bin_output *to, int w, size_t n) {
    struct crossing_writer *c = &to->crossed[w];
    bool ok = reserve_crossings(to->memory[w], to->budget, c->n, c->n + MAX_EMITTED + (n > c->n ? n : c->n) + 1);
    *c = crossing_writer_at(to->memory[w], c->n);
    return ok;
}

/* views: those that the triangles may cover a sample in, a bit each; n: triangles yet to come. False: out of memory. */
static inline __attribute__((always_inline)) bool bin_view(struct bin_output *to, const struct tri4 *q,
                                                           const struct grid *g, int w, size_t n, unsigned views,
                                                           bool single) {
    const struct extent4 *u = &q->axis[ct_view_u(w)], *v = &q->axis[ct_view_v(w)], *depth = &q->axis[w];
    if (!(views >> w & 1)) return true;
    if (__builtin_expect(to->crossed[w].n >= to->crossed[w].full, 0) && !grow(to, w, n)) return false;
    unsigned in = q->present, large = bits_v4i(u->large | v->large);
    if (views != 1u << w) /* else they would not be kept */
        in &= bits_v4i(u->spans & v->spans & ~(depth->after | (depth->before & g->view[w].dropped_before)));
    unsigned small = in & ~large;
    large &= in;
    if (!single) {
        ct_v4i samples = max_v4i(u->last - u->first, v->last - v->first);
        unsigned larger = small & bits_v4i(samples > FEW);
        if (larger && __builtin_popcount(larger) < COMPANY) {
            small &= ~larger;
            large |= larger;
        }
    }
    if (small) emit_fragments(&to->crossed[w], q, g, w, small, single);
    if (large) to->listed = list(to->listed, q, g, w, large);
    return true;
}

/* Triangles of one list, see CT_KEPT_LISTS. */
static inline __attribute__((always_inline)) bool bin_list(struct bin_output *to, const ct_snapped_body *p,
                                                           const struct grid *g, const uint32_t *kept, size_t n,
                                                           unsigned views, bool single) {
    const bool ahead = is_large(p);
    for (size_t i = 0; i < n; i += 4) {
        if (ahead)
            for (int l = 0; l < 4; l++) {
                const uint32_t *soon = p->triangles + 3 * (size_t)kept[i + l + AHEAD];
                for (int j = 0; j < 3; j++) __builtin_prefetch(p->coords[soon[j]]);
            }
        struct tri4 q;
        q.triangle = kept + i;
        ct_v4i numbers;
        memcpy(&numbers, kept + i, sizeof numbers);
        q.tag = (ct_v4u)ct_v4l_of_v4i(numbers) << 32 | (uint64_t)p->body << 63;
        q.present = n - i < 4 ? (1u << (n - i)) - 1 : 15;
        load_tri4(&q, p, g);
        if (!bin_view(to, &q, g, 0, n - i, views, single) || !bin_view(to, &q, g, 1, n - i, views, single) ||
            !bin_view(to, &q, g, 2, n - i, views, single))
            return false;
    }
    return true;
}

static bool bin_all(struct bin_output *to, const ct_snapped_body *p, const struct grid *g, const ct_bin_scratch *s) {
    const uint32_t *const *kept = s->kept;
    const uint32_t *n = s->n_kept;
#define BIN_LIST(list, views, single) bin_list(to, p, g, kept[list], n[list], views, single)
    return BIN_LIST(CT_KEPT_SINGLE, 1, true) && BIN_LIST(CT_KEPT_SINGLE + 1, 2, true) &&
           BIN_LIST(CT_KEPT_SINGLE + 2, 4, true) && BIN_LIST(CT_KEPT_SINGLE + 3, 7, true) &&
           BIN_LIST(CT_KEPT_SEVERAL, 1, false) && BIN_LIST(CT_KEPT_SEVERAL + 1, 2, false) &&
           BIN_LIST(CT_KEPT_SEVERAL + 2, 4, false) && BIN_LIST(CT_KEPT_SEVERAL + 3, 7, false);
#undef BIN_LIST
}

/* ---- to bands ---- */

/* Counting sorts. count[b + 2] counts what is in band b; in the end count[b + 1] is where that ends, so count[b] where
 * it begins. */

/* From counts to where each band's begin, so that next[b + 1] is where the next of band b goes. Returns the sum. */
static uint64_t add_up(uint32_t *next, uint32_t bands) {
    uint64_t total = 0;
    for (uint32_t band = 2; band <= bands + 1; band++) {
        total += next[band];
        next[band] = (uint32_t)total;
    }
    return total;
}

static bool sort_entries(ct_bin *out, ct_budget *budget, const struct bin_entry *listed, const struct bin_entry *end,
                         uint32_t *count, uint32_t bands) {
    for (const struct bin_entry *e = listed; e < end; e++)
        for (uint32_t band = e->first; band <= e->last; band++) count[band + 2]++;
    uint64_t n = add_up(count, bands);
    if (n > UINT32_MAX || !ct_buffer_reserve(&out->entry_memory, budget, (size_t)n * sizeof(uint32_t), 0, false))
        return false;
    uint32_t *entries = out->entry_memory.data;
    for (const struct bin_entry *e = listed; e < end; e++)
        for (uint32_t band = e->first; band <= e->last; band++) entries[count[band + 1]++] = e->triangle;
    out->entries = entries;
    out->offset = count;
    return true;
}

/* Those of a view of more than one band, to `memory`. */
static bool sort_crossings(struct ct_crossing_memory *memory, ct_budget *budget, struct crossing_writer *c, int shift,
                           uint32_t *count, uint32_t bands) {
    const struct crossing_writer from = *c;
    for (size_t i = 0; i < from.n; i++) count[(from.where[i] >> 32 >> shift) + 2]++;
    add_up(count, bands);
    if (!reserve_crossings(memory, budget, 0, from.n)) return false;
    const struct crossing_writer to = crossing_writer_at(memory, 0);
    for (size_t i = 0; i < from.n; i++) {
        const uint32_t at = count[(from.where[i] >> 32 >> shift) + 1]++;
        to.front[at] = from.front[i];
        to.back[at] = from.back[i];
        to.where[at] = from.where[i];
    }
    *c = to;
    return true;
}

static bool bin(ct_bin *out, ct_bin_scratch *scratch, ct_budget *budget, const ct_snapped_body *p,
                const ct_window *window, const ct_bands *bands, bool crossings) {
    size_t n = 0, counts = bands->total + 2, all_counts = counts + bands->total + 3 * 2;
    for (int k = 0; k < CT_KEPT_LISTS; k++) n += scratch->n_kept[k];
    out->placed = p;
    if (!ct_buffer_reserve(&out->offsets, budget, all_counts * sizeof(uint32_t), 0, false) ||
        !ct_buffer_reserve(&scratch->listed, budget, 3 * n * sizeof(struct bin_entry), 0, false))
        return false;
    const struct grid grid = grid_of(p, window, bands, crossings);
    struct bin_output to = {.listed = scratch->listed.data, .budget = budget};
    for (int w = 0; w < 3; w++) { /* what is of one band is there at once */
        to.memory[w] = bands->count[w] > 1 ? &scratch->crossed[w] : &out->crossing_memory[w];
        to.crossed[w] = crossing_writer_at(to.memory[w], 0);
    }
    if (!bin_all(&to, p, &grid, scratch)) return false;
    uint32_t *count = out->offsets.data;
    memset(count, 0, all_counts * sizeof *count);
    if (!sort_entries(out, budget, scratch->listed.data, to.listed, count, bands->total)) return false;
    count += counts;
    for (int w = 0; w < 3; w++) {
        struct crossing_writer *c = &to.crossed[w];
        if (bands->count[w] <= 1)
            count[1] = (uint32_t)c->n;
        else if (!sort_crossings(&out->crossing_memory[w], budget, c, bands->shift[w], count, bands->count[w]))
            return false;
        out->crossings[w] = (ct_crossings){c->front, c->back, c->where, count};
        count += bands->count[w] + 2;
    }
    return true;
}

const ct_bin_cpu CT_VARIANT(ct_bin_cpu) = {cull, bin};

/* bin_cpu.simd.c - triangles to bands on the CPU, and small ones to crossings at once.
 *
 * Of a mesh that is finer than the lattice most triangles cover no sample, which their corners' cells tell. Of the
 * others most can cover a few at most: those are tried at once, four triangles at a time, in all three views.
 */
#include "gpu/raster/bin_cpu.h"

#include <string.h>

#include "gpu/raster/lanes.h"

/* ---- culling ---- */

/* Cells of two vertices: lanes x, y, z of the first and, after one that is 0, of the second. */
typedef int16_t cells8 __attribute__((vector_size(16)));

static inline cells8 load_cells(const ct_placed *p, uint32_t a, uint32_t b) {
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

/* Lanes of two triangles, as above: -1 or 0. */
struct culled {
    cells8 in;      /* w: it may cover a sample that matters in the view along w */
    cells8 several; /* its corners have more than one sample between them */
};

/* A triangle whose corners have one and the same cell along an axis passes between two samples of it, or lies outside
 * the window: it can cover a sample in none of the two views that this axis is part of. One that lies after the window
 * along an axis bounds no span of that axis's view, nor does one before it, which need not even be counted where the
 * body ends within the window. */
static inline struct culled culled_of(cells8 a, cells8 b, cells8 c, cells8 dropped) {
    const cells8 mask = {CT_CELL_MASK, CT_CELL_MASK, CT_CELL_MASK, 0, CT_CELL_MASK, CT_CELL_MASK, CT_CELL_MASK, 0};
    cells8 kept = (a & b & c & dropped) == 0;
    a &= mask;
    b &= mask;
    c &= mask;
    cells8 samples = larger(larger(a, b), c) - smaller(smaller(a, b), c); /* between the corners */
    cells8 none = samples == 0;
    none = __builtin_shufflevector(none, none, 1, 2, 0, 7, 5, 6, 4, 7) |
           __builtin_shufflevector(none, none, 2, 0, 1, 7, 6, 4, 5, 7);
    return (struct culled){kept & ~none, samples > 1};
}

/* Marks of triangles that are left out, by axis. */
static inline cells8 dropped_of(const ct_placed *p) {
    cells8 dropped = {0};
    for (int w = 0; w < 3; w++)
        dropped[w] = dropped[4 + w] = (int16_t)(CT_CELL_AFTER | (p->entry[w] == CT_ENTRY_LISTED ? CT_CELL_BEFORE : 0));
    return dropped;
}

/* Corners are looked up so many triangles ahead: vertices are in no order that caches would like. */
enum { AHEAD = 16 };

/* Where the lists of kept triangles end. What is not kept is overwritten by the next, so that nothing branches. */
struct kept {
    uint32_t *single, *several;
};

static inline __attribute__((always_inline)) void keep(struct kept *to, uint32_t triangle, int64_t not_single,
                                                       int64_t not_several) {
    *to->single = *to->several = triangle;
    to->single += 1 + not_single;
    to->several += 1 + not_several;
}

static inline __attribute__((always_inline)) struct kept cull_two(const ct_placed *p, uint32_t t, uint32_t second,
                                                                  cells8 dropped, struct kept to) {
    const uint32_t *k = p->triangles + 3 * (size_t)t, *l = p->triangles + 3 * (size_t)second;
    struct culled c =
        culled_of(load_cells(p, k[0], l[0]), load_cells(p, k[1], l[1]), load_cells(p, k[2], l[2]), dropped);
    const ct_v2l out = (ct_v2l)c.in == 0, single = (ct_v2l)c.several == 0;
    if (out[0] & out[1]) return to; /* foreseen where most are */
    const ct_v2l not_single = out | ~single, not_several = out | single;
    keep(&to, t, not_single[0], not_several[0]);
    if (second != t) keep(&to, second, not_single[1], not_several[1]);
    return to;
}

/* Triangles [first, last). Corners are looked up ahead where vertices are too many for caches. */
static inline __attribute__((always_inline)) struct kept cull_all(const ct_placed *p, uint32_t first, uint32_t last,
                                                                  struct kept to, bool ahead) {
    const cells8 dropped = dropped_of(p);
    uint32_t t = first;
    if (ahead)
        for (; t + AHEAD + 1 < last; t += 2) {
            const uint32_t *soon = p->triangles + 3 * (size_t)(t + AHEAD);
            for (int j = 0; j < 6; j++) __builtin_prefetch(&p->cells[soon[j]]);
            to = cull_two(p, t, t + 1, dropped, to);
        }
    for (; t + 1 < last; t += 2) to = cull_two(p, t, t + 1, dropped, to);
    return t < last ? cull_two(p, t, t, dropped, to) : to;
}

enum { MANY = 1 << 16 };

static bool cull(ct_bin_scratch *scratch, ct_budget *budget, const ct_placed *p, uint32_t first, uint32_t last) {
    const size_t room = last - first + AHEAD + 4; /* what is overwritten or looked at ahead */
    if (!ct_buffer_reserve(&scratch->kept_memory, budget, CT_KEPT_LISTS * room * sizeof(uint32_t), 0, false))
        return false;
    uint32_t *single = scratch->kept_memory.data, *several = single + room;
    struct kept to = {single, several};
    to = p->n_triangles < MANY ? cull_all(p, first, last, to, false) : cull_all(p, first, last, to, true);
    scratch->kept[CT_KEPT_SINGLE] = single;
    scratch->kept[CT_KEPT_SEVERAL] = several;
    scratch->n_kept[CT_KEPT_SINGLE] = (uint32_t)(to.single - single);
    scratch->n_kept[CT_KEPT_SEVERAL] = (uint32_t)(to.several - several);
    for (int i = 0; i < AHEAD + 3; i++) to.single[i] = to.several[i] = first;
    return true;
}

/* ---- the lattice ---- */

/* Triangles are small that can cover no more samples along an axis than this. Edge functions are below 2^53 where their
 * extent is below 2^25 units, so double arithmetic on them is exact and gives what integers would. */
enum { SMALL = 8, EXACT_EXTENT = 1 << 25 };

/* Four are tried together, for as long as the largest of them takes: one with more samples than FEW along an axis is
 * only tried where at least COMPANY of the four are such. */
enum { FEW = 4, COMPANY = 2 };

/* What is the same for all triangles, in all lanes. */
struct along {                     /* an axis */
    ct_v4i half, shift, n, lo, hi; /* half: of a pitch, less one */
    ct_v4d pitch;                  /* units */
};

struct across { /* a view */
    ct_v4i columns, row_mask, band_shift, band_first;
    ct_v4i dropped_before; /* -1: what lies before the window is left out */
};

struct grid {
    struct along axis[3];
    struct across view[3];
    ct_v4i small; /* what has more samples than that along an axis is not small */
};

static struct grid grid_of(const ct_placed *p, const ct_window *window, const ct_bands *bands, bool crossings) {
    struct grid g = {.small = v4i(crossings ? SMALL : -1)};
    for (int k = 0; k < 3; k++) {
        const ct_lattice *a = &window->axis[k];
        g.axis[k] = (struct along){.half = v4i((1 << (a->shift - 1)) - 1),
                                   .shift = v4i(a->shift),
                                   .n = v4i(a->n),
                                   .lo = v4i(a->lo),
                                   .hi = v4i(a->hi),
                                   .pitch = (ct_v4d){} + (double)(1 << a->shift)};
        g.view[k] = (struct across){.columns = v4i(window->axis[ct_view_u(k)].n),
                                    .row_mask = v4i((1 << bands->shift[k]) - 1),
                                    .band_shift = v4i(bands->shift[k]),
                                    .band_first = v4i((int32_t)bands->first[k]),
                                    .dropped_before = v4i(-(p->entry[k] == CT_ENTRY_LISTED))};
    }
    return g;
}

/* ---- four triangles ---- */

typedef uint64_t v4u __attribute__((vector_size(32)));
typedef uint64_t v2u __attribute__((vector_size(16)));

struct extent4 {        /* along an axis */
    ct_v4i a;           /* corner 0 */
    ct_v4d b, c, at;    /* corners 1 and 2 and the first sample, from corner 0 */
    ct_v4i first, last; /* samples [first, last) lie between the corners */
    ct_v4i spans;       /* -1: there are some */
    ct_v4i large, before, after;
};

struct quad {
    const uint32_t *triangle; /* [4] */
    v4u tag;                  /* in the upper halves */
    unsigned present;         /* a bit each */
    struct extent4 axis[3];
};

static inline __attribute__((always_inline)) void place(struct quad *q, const ct_placed *p, const struct grid *g) {
    ct_v4i at[3][3]; /* corner, axis */
    const uint32_t *k[4];
    for (int l = 0; l < 4; l++) k[l] = p->triangles + 3 * (size_t)q->triangle[l];
    for (int j = 0; j < 3; j++) {
        ct_v4i a, b, c, d;
        memcpy(&a, p->coords[k[0][j]], sizeof a);
        memcpy(&b, p->coords[k[1][j]], sizeof b);
        memcpy(&c, p->coords[k[2][j]], sizeof c);
        memcpy(&d, p->coords[k[3][j]], sizeof d);
        ct_v4i ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
        at[j][0] = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
        at[j][1] = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
        at[j][2] = __builtin_shufflevector(__builtin_shufflevector(a, b, 2, 6, 3, 7),
                                           __builtin_shufflevector(c, d, 2, 6, 3, 7), 0, 1, 4, 5);
    }
    for (int i = 0; i < 3; i++) {
        struct extent4 *e = &q->axis[i];
        const struct along *s = &g->axis[i];
        const ct_v4i a = at[0][i], b = at[1][i], c = at[2][i];
        ct_v4i low = min_v4i(min_v4i(a, b), c), high = max_v4i(max_v4i(a, b), c);
        e->first = max_v4i((low + s->half) >> s->shift, v4i(0));
        e->last = min_v4i((high + s->half) >> s->shift, s->n);
        e->spans = e->last > e->first;
        e->large = (e->last - e->first > g->small) | (high - low >= EXACT_EXTENT);
        e->before = high < s->lo;
        e->after = low > s->hi;
        e->a = a;
        e->b = to_double(b - a);
        e->c = to_double(c - a);
        e->at = to_double((e->first << s->shift) + s->half + 1 - a);
    }
}

/* ---- samples of small triangles ---- */

/* Four triangles in a view. Edge functions, their steps and the area are positive for a covered sample whatever the
 * orientation. */
struct edges {
    ct_v4d area, step_u[3], step_v[3];
};

/* Those of `zero` whose sample is covered, displaced, though it lies on an edge. (ct_edge_inside) */
static __attribute__((noinline)) unsigned covered(struct edges s, unsigned zero, ct_v4d e0, ct_v4d e1, ct_v4d e2) {
    const ct_v4d e[3] = {e0, e1, e2};
    for (unsigned left = zero; left; left &= left - 1) {
        int l = __builtin_ctz(left);
        bool inside = s.area[l] > 0;
        for (int k = 0; k < 3; k++)
            inside = inside && (e[k][l] > 0 || s.step_u[k][l] > 0 || (s.step_u[k][l] == 0 && s.step_v[k][l] > 0));
        if (!inside) zero &= ~(1u << l);
    }
    return zero;
}

/* Rounds as ct_round_i32 does: the lower halves are the integers. */
static inline v4u rounded(ct_v4d x) {
    return (v4u)(x + CT_ROUND_MAGIC);
}

/* [hits][l]: how many of the lanes before l are hits, a bit each. */
static const uint8_t hits_before[16][8] = {{0, 0, 0, 0, 0}, {0, 1, 1, 1, 1}, {0, 0, 1, 1, 1}, {0, 1, 2, 2, 2},
                                           {0, 0, 0, 1, 1}, {0, 1, 1, 2, 2}, {0, 0, 1, 2, 2}, {0, 1, 2, 3, 3},
                                           {0, 0, 0, 0, 1}, {0, 1, 1, 1, 2}, {0, 0, 1, 1, 2}, {0, 1, 2, 2, 3},
                                           {0, 0, 0, 1, 2}, {0, 1, 1, 2, 3}, {0, 0, 1, 2, 3}, {0, 1, 2, 3, 4}};

/* The crossings at sample (i, j) from the first of those triangles that have a bit in `hits`; e1 and e2 are the edge
 * functions there. The same arithmetic as ct_fragment_at. Returns where they end. */
static inline __attribute__((always_inline)) ct_crossing *put_hits(ct_crossing *to, const struct quad *q, int w,
                                                                   const struct across *view, v4u entering,
                                                                   ct_v4d inverse, unsigned hits, int32_t i, int32_t j,
                                                                   ct_v4d e1, ct_v4d e2) {
    const struct extent4 *depth = &q->axis[w], *u = &q->axis[ct_view_u(w)], *v = &q->axis[ct_view_v(w)];
    ct_v4d w1 = e1 * inverse, w2 = e2 * inverse;
    v4u key = ((v4u)ct_v4l_of_v4i(depth->a + CT_DEPTH_BIAS) + rounded(w1 * depth->b + w2 * depth->c)) << 1 | entering;
    v4u l1 = rounded(w1 * (double)CT_WEIGHT_ONE), l2 = rounded(w2 * (double)CT_WEIGHT_ONE);
    ct_v4i row = v->first + j;
    ct_v4i ray =
        ((row & view->row_mask) * view->columns + u->first + i) | (depth->before & v4i((int32_t)CT_CROSSING_COUNTED));
    ct_v4i band = view->band_first + (row >> view->band_shift);
    /* As they lie in a ct_crossing: lanes 0 and 2, 1 and 3 of fragments, then where they are. */
    _Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "two numbers in one");
    const v4u front = (key & UINT32_MAX) | l1 << 32, back = (l2 & UINT32_MAX) | q->tag;
    const v4u even = __builtin_shufflevector(front, back, 0, 4, 2, 6),
              odd = __builtin_shufflevector(front, back, 1, 5, 3, 7);
    const v2u f[4] = {__builtin_shufflevector(even, even, 0, 1), __builtin_shufflevector(odd, odd, 0, 1),
                      __builtin_shufflevector(even, even, 2, 3), __builtin_shufflevector(odd, odd, 2, 3)};
    const v2u where[2] = {(v2u)__builtin_shufflevector(ray, band, 0, 4, 1, 5),
                          (v2u)__builtin_shufflevector(ray, band, 2, 6, 3, 7)};
#pragma GCC unroll 4
    for (unsigned l = 0; l < 4; l++) { /* what is no hit is overwritten by the next: branches would not be foreseen */
        ct_crossing *at = to + hits_before[hits][l];
        memcpy(&at->f, &f[l], sizeof at->f);
        const uint64_t pair = where[l / 2][l % 2];
        memcpy(&at->ray, &pair, sizeof pair);
    }
    to += hits_before[hits][4];
    return to;
}

/* Tries the samples of those triangles that have a bit in `lanes`. The same arithmetic as ct_make_setup. */
static inline __attribute__((always_inline)) ct_crossing *cross(ct_crossing *to, const struct quad *q,
                                                                const struct grid *g, int w, unsigned lanes) {
    const struct extent4 *u = &q->axis[ct_view_u(w)], *v = &q->axis[ct_view_v(w)];
    ct_v4d area = u->b * v->c - u->c * v->b;
    const ct_v4l flip = (ct_v4l)area & (ct_v4l)(ct_v4d){-0.0, -0.0, -0.0, -0.0};
#define FLIP(x) ((ct_v4d)((ct_v4l)(x) ^ flip))
    area = FLIP(area);
    ct_v4d e1 = FLIP(u->at * v->c - u->c * v->at), e2 = FLIP(u->b * v->at - u->at * v->b), e0 = area - e1 - e2;
    const ct_v4d inverse = 1.0 / area;
    const v4u entering = (v4u)flip >> 63;
    /* Less than 0 where that was the last column, or row. */
    const ct_v4i columns = u->last - u->first - 2;
    ct_v4i left = columns, rows = v->last - v->first - 2;
    const unsigned several = lanes & ~bits_v4i(columns & rows);
    unsigned in_row = lanes;
    ct_v4d row0 = e0, row1 = e1, row2 = e2;
    for (int i = 0, j = 0;;) {
        ct_v4d least = min_v4d(min_v4d(e0, e1), e2);
        unsigned hits = in_row & bits(least > 0.0), zero = in_row & bits(least == 0.0);
        if (__builtin_expect(zero, 0)) {
            const struct edges edges = {
                area, {FLIP(v->b - v->c), FLIP(v->c), FLIP(-v->b)}, {FLIP(u->c - u->b), FLIP(-u->c), FLIP(u->b)}};
            hits |= covered(edges, zero, e0, e1, e2);
        }
        if (hits) to = put_hits(to, q, w, &g->view[w], entering, inverse, hits, i, j, e1, e2);
        if (!several) return to;
        in_row &= ~bits_v4i(left);
        if (in_row) {
            const ct_v4d pitch = g->axis[ct_view_u(w)].pitch;
            i++;
            left -= 1;
            e0 += FLIP(v->b - v->c) * pitch;
            e1 += FLIP(v->c) * pitch;
            e2 -= FLIP(v->b) * pitch;
        } else {
            lanes &= ~bits_v4i(rows);
            if (!lanes) return to;
            const ct_v4d pitch = g->axis[ct_view_v(w)].pitch;
            in_row = lanes;
            i = 0;
            left = columns;
            j++;
            rows -= 1;
            e0 = row0 += FLIP(u->c - u->b) * pitch;
            e1 = row1 -= FLIP(u->c) * pitch;
            e2 = row2 += FLIP(u->b) * pitch;
        }
    }
#undef FLIP
}

/* ---- entries ---- */

/* What a triangle is an entry of. */
struct listed {
    uint32_t triangle;
    uint16_t first, last; /* bands, among all */
};

/* Triangles that have a bit in `large`, of the view along w. Returns where the list ends. */
static inline struct listed *list(struct listed *to, const struct quad *q, const struct grid *g, int w,
                                  unsigned large) {
    const struct across *view = &g->view[w];
    const struct extent4 *v = &q->axis[ct_view_v(w)];
    ct_v4i first = view->band_first + (v->first >> view->band_shift);
    ct_v4i last = view->band_first + ((v->last - 1) >> view->band_shift);
    for (; large; large &= large - 1) {
        int l = __builtin_ctz(large);
        *to++ = (struct listed){q->triangle[l], (uint16_t)first[l], (uint16_t)last[l]};
    }
    return to;
}

/* ---- a chunk ---- */

/* Where what is found goes. */
struct found {
    struct listed *listed;
    ct_crossing *crossed;
};

static inline __attribute__((always_inline)) void bin_view(struct found *to, const struct quad *q, const struct grid *g,
                                                           int w) {
    const struct extent4 *u = &q->axis[ct_view_u(w)], *v = &q->axis[ct_view_v(w)], *depth = &q->axis[w];
    ct_v4i in = u->spans & v->spans & ~(depth->after | (depth->before & g->view[w].dropped_before));
    ct_v4i is_large = u->large | v->large, samples = max_v4i(u->last - u->first, v->last - v->first);
    unsigned small = q->present & bits_v4i(in & ~is_large), large = q->present & bits_v4i(in & is_large);
    unsigned larger = small & bits_v4i(samples > FEW);
    if (larger && __builtin_popcount(larger) < COMPANY) {
        small &= ~larger;
        large |= larger;
    }
    if (small) to->crossed = cross(to->crossed, q, g, w, small);
    if (large) to->listed = list(to->listed, q, g, w, large);
}

/* From counts to where each band's begin, so that next[b + 1] is where the next of band b goes. Returns the sum. */
static uint64_t add_up(uint32_t *next, uint32_t bands) {
    uint64_t total = 0;
    for (uint32_t band = 2; band <= bands + 1; band++) {
        total += next[band];
        next[band] = (uint32_t)total;
    }
    return total;
}

/* Counting sorts of what was found. count[b + 2] counts what is in band b; in the end count[b + 1] is where that ends,
 * so count[b] where it begins. */
static bool sort_entries(ct_bin *out, ct_budget *budget, const struct listed *listed, const struct listed *end,
                         uint32_t *count, uint32_t bands) {
    for (const struct listed *e = listed; e < end; e++)
        for (uint32_t band = e->first; band <= e->last; band++) count[band + 2]++;
    uint64_t n = add_up(count, bands);
    if (n > UINT32_MAX || !ct_buffer_reserve(&out->entry_memory, budget, (size_t)n * sizeof(uint32_t), 0, false))
        return false;
    uint32_t *entries = out->entry_memory.data;
    for (const struct listed *e = listed; e < end; e++)
        for (uint32_t band = e->first; band <= e->last; band++) entries[count[band + 1]++] = e->triangle;
    out->entries = entries;
    out->offset = count;
    return true;
}

static bool sort_crossings(ct_bin *out, ct_budget *budget, const ct_crossing *crossed, const ct_crossing *end,
                           uint32_t *count, uint32_t bands) {
    for (const ct_crossing *c = crossed; c < end; c++) count[c->band + 2]++;
    uint64_t n = add_up(count, bands);
    if (!ct_buffer_reserve(&out->crossing_memory, budget, (size_t)n * sizeof(ct_crossing), 0, false)) return false;
    ct_crossing *crossings = out->crossing_memory.data;
    for (const ct_crossing *c = crossed; c < end; c++) crossings[count[c->band + 1]++] = *c;
    out->crossings = crossings;
    out->crossing_offset = count;
    return true;
}

/* Room for what four triangles can cross, and one more. Returns where the crossings end, or NULL: out of memory. n:
 * triangles yet to come. */
static inline ct_crossing *make_room(ct_bin_scratch *scratch, ct_budget *budget, ct_crossing *to, size_t n) {
    const size_t least = (size_t)4 * 3 * SMALL * SMALL + 1, used = (size_t)(to - (ct_crossing *)scratch->crossed.data);
    if (__builtin_expect(scratch->crossed.capacity >= (used + least) * sizeof *to, 1)) return to;
    if (!ct_buffer_reserve(&scratch->crossed, budget, (used + least + (n > used ? n : used)) * sizeof *to,
                           used * sizeof *to, false))
        return NULL;
    return (ct_crossing *)scratch->crossed.data + used;
}

static bool bin_list(struct found *to, ct_bin_scratch *scratch, ct_budget *budget, const ct_placed *p,
                     const struct grid *g, const uint32_t *kept, size_t n) {
    for (size_t i = 0; i < n; i += 4) {
        if (!(to->crossed = make_room(scratch, budget, to->crossed, n - i))) return false;
        for (int l = 0; l < 4; l++) {
            const uint32_t *soon = p->triangles + 3 * (size_t)kept[i + l + AHEAD];
            for (int j = 0; j < 3; j++) __builtin_prefetch(p->coords[soon[j]]);
        }
        struct quad q;
        q.triangle = kept + i;
        ct_v4i numbers;
        memcpy(&numbers, kept + i, sizeof numbers);
        q.tag = (v4u)ct_v4l_of_v4i(numbers) << 32 | (uint64_t)p->body << 63;
        q.present = n - i < 4 ? (1u << (n - i)) - 1 : 15;
        place(&q, p, g);
        bin_view(to, &q, g, 0);
        bin_view(to, &q, g, 1);
        bin_view(to, &q, g, 2);
    }
    return true;
}

static bool bin(ct_bin *out, ct_bin_scratch *scratch, ct_budget *budget, const ct_placed *p, const ct_window *window,
                const ct_bands *bands, bool crossings) {
    const size_t counts = bands->total + 2;
    const uint32_t *n = scratch->n_kept;
    out->placed = p;
    if (!ct_buffer_reserve(&out->offsets, budget, 2 * counts * sizeof(uint32_t), 0, false) ||
        !ct_buffer_reserve(&scratch->listed, budget, 3 * ((size_t)n[0] + n[1]) * sizeof(struct listed), 0, false))
        return false;
    struct found to = {scratch->listed.data, scratch->crossed.data};
    const struct grid grid = grid_of(p, window, bands, crossings);
    for (int k = 0; k < CT_KEPT_LISTS; k++)
        if (!bin_list(&to, scratch, budget, p, &grid, scratch->kept[k], n[k])) return false;
    uint32_t *count = out->offsets.data;
    memset(count, 0, 2 * counts * sizeof *count);
    return sort_entries(out, budget, scratch->listed.data, to.listed, count, bands->total) &&
           sort_crossings(out, budget, scratch->crossed.data, to.crossed, count + counts, bands->total);
}

const ct_bin_cpu CT_VARIANT(ct_bin_cpu) = {cull, bin};

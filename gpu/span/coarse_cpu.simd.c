/* coarse_cpu.simd.c - bands that few triangles cover, from triangles to sums at once.
 *
 * Large triangles cover runs of samples in a row. Where such runs begin or end the row is cut into stretches, and along
 * a stretch all rays cross the same triangles. Their depths are linear there: if two of them lie in one order at both
 * ends of a stretch, farther apart than rounding could bridge, they do so at all its samples. Which triangles bound the
 * span is then known for the whole stretch, and only they are looked at. What that adds up to is exactly what the
 * raster and span stages would have added up one ray after the other.
 */
#include "gpu/span/piece.h"
#include "gpu/span/walk.h"

/* No more triangles than this in a band, and so many samples for each. */
enum { MOST = 64, SAMPLES_EACH = 16 };

/* Where depths known to 1/8 are so far apart, the depths rounded to units differ as well, and the same way. */
#define APART 2.0

/* Slots: 2 * body + OUT or IN. No piece's index: */
enum { SLOTS = 4, NONE = MOST };

/* Samples of a row that a piece bounds spans of, from one side. */
struct run {
    struct piece *piece; /* NULL: none yet */
    int32_t from, to;
};

/* The pieces of a row, and after the last one up to seven that cover nothing. */
struct row {
    int32_t at; /* from the band's first */
    uint32_t n;
    ct_v4l slots;         /* which of the pieces belong to each: bits */
    struct run bounds[2]; /* lower, upper */
    struct piece *pieces[MOST + 1];
    int32_t begin[MOST], end[MOST];
    double depth[MOST + 1], slope[MOST + 1]; /* as in struct depths */
};

struct coarse {
    struct sink sink;
    ct_ray_lists *rays;
    ct_span_scratch *scratch;
    ct_budget *budget;
    verdicts verdicts[2];
    int64_t total;
    size_t n;
    struct row row;
    struct piece pieces[MOST];
};

/* Bit OUT or IN. */
static inline int way_of(const struct piece *p) {
    return p->setup.ccw < 0 ? IN : OUT;
}

/* ---- triangles to pieces ---- */

/* False: not for this band. Ones before the window would have to be counted. */
static bool add_piece(struct coarse *c, const ct_window *window, const ct_placed *placed, uint32_t triangle) {
    const ct_ray_lists *rays = c->rays;
    const int w = rays->view;
    const uint32_t *k = placed->triangles + 3 * (size_t)triangle;
    const int32_t *const q[3] = {placed->coords[k[0]], placed->coords[k[1]], placed->coords[k[2]]};
    if (placed->entry[w] == CT_ENTRY_COUNTED && ct_max3(q[0][w], q[1][w], q[2][w]) < window->axis[w].lo) return false;
    struct piece *p = &c->pieces[c->n];
    enum placing placing =
        place_piece(p, q, &window->axis[ct_view_u(w)], &window->axis[ct_view_v(w)], w, rays->first_row, rays->rows);
    if (placing == NOT_EXACT) return false;
    p->tag = placed->body << 31 | triangle;
    c->n += placing == PLACED;
    return true;
}

static bool collect(struct coarse *c, const ct_window *window, uint32_t band, const ct_bin *bins, size_t n_bins) {
    size_t n = 0;
    for (size_t i = 0; i < n_bins; i++) {
        if (bins[i].crossing_offset[band + 1] > bins[i].crossing_offset[band]) return false; /* there are small ones */
        n += bins[i].offset[band + 1] - bins[i].offset[band];
    }
    if (n > MOST || SAMPLES_EACH * n > (size_t)c->rays->rows * (size_t)c->rays->columns) return false;
    for (size_t i = 0; i < n_bins; i++)
        for (uint32_t e = bins[i].offset[band]; e < bins[i].offset[band + 1]; e++)
            if (!add_piece(c, window, bins[i].placed, bins[i].entries[e])) return false;
    return true;
}

/* ---- rays one by one ---- */

/* One ray of a stretch, by the walk for any ray. */
static bool walk_sample(struct coarse *c, uint64_t active, int32_t column) {
    ct_linked_fragment fragments[MOST];
    uint32_t n = 0;
    for (; active; active &= active - 1, n++) {
        const struct piece *p = c->row.pieces[__builtin_ctzll(active)];
        const ct_setup *s = &p->setup;
        fragments[n].f =
            ct_fragment_at(s, (double)(s->edge[1] + column * s->step_u[1] + c->row.at * s->step_v[1]),
                           (double)(s->edge[2] + column * s->step_u[2] + c->row.at * s->step_v[2]), p->tag);
        fragments[n].next = n ? n - 1 : CT_END;
    }
    uint32_t head = n - 1;
    ct_ray_lists one = *c->rays;
    one.head = &head;
    one.fragments = fragments;
    one.winding = NULL;
    return walk_ray(&c->sink, &one, 0, c->scratch, c->budget, false, &c->total);
}

static bool walk_samples(struct coarse *c, uint64_t active, int32_t from, int32_t to) {
    for (int32_t column = from; column < to; column++)
        if (!walk_sample(c, active, column)) return false;
    return true;
}

/* ---- stretches ---- */

static void end_run(struct coarse *c, int side) {
    struct run *run = &c->row.bounds[side];
    if (run->piece) tally_run(&run->piece->tally, run->piece, c->row.at, run->from, run->to, 0);
    run->piece = NULL;
}

static inline void add_bound_run(struct coarse *c, int side, struct piece *p, int32_t from, int32_t to) {
    struct run *run = &c->row.bounds[side];
    if (run->piece == p && run->to == from) {
        run->to = to;
        return;
    }
    end_run(c, side);
    *run = (struct run){p, from, to};
}

/* What flat pieces bound together. */
static void add_shared_run(struct coarse *c, int side, struct piece *const pieces[2], int32_t from, int32_t to) {
    int64_t depth = (to - from) * (int64_t)pieces[0]->setup.z0;
    c->total += side == UPPER ? depth : -depth;
    for (int b = 0; b < 2; b++) {
        const struct piece *p = pieces[b];
        struct pending *pending = &c->sink.pending[side][HALF + b];
        struct tally t = {0};
        tally_run(&t, p, c->row.at, from, to, 1);
        if (pending->tag != p->tag) {
            flush(&c->sink, side, HALF + b);
            *pending = (struct pending){p->tag, 0, 0, 0};
        }
        pending->n += t.n;
        pending->l1 += tally_sum(t.n, t.l1, 1);
        pending->l2 += tally_sum(t.n, t.l2, 1);
    }
}

/* The depths of a stretch's pieces by slot, at sample 0 and from one to the next: of those inwards the negative, so
 * that of a way the smaller one bounds. Infinite where there is none. */
struct depths {
    ct_v4d at, slope;
};

static inline ct_v4d of_other_body(ct_v4d depth) {
    return __builtin_shufflevector(depth, depth, 2, 3, 0, 1);
}

/* The slots whose piece bounds nothing for sure, as the other body's does. */
static inline unsigned idle_of(ct_v4d depth) {
    return bits(depth - of_other_body(depth) > APART);
}

/* Where it is known what bounds. */
static inline double length_of(ct_v4d depth) {
    ct_v4d bound = min_v4d(depth, of_other_body(depth));
    return bound[OUT] + bound[IN];
}

/* A value has one sign at sample a, and at sample b another: the first sample of the other sign, or one beside it. */
static inline int32_t change_of(double at_a, double at_b, int32_t a, int32_t b) {
    int32_t change = a + 1 + (int32_t)(at_a / (at_a - at_b) * (b - a));
    return change < b ? change : b;
}

/* The ways of which both bodies' pieces are flat and lie in one plane. */
static inline unsigned even_of(const struct row *row, const uint32_t crossed[SLOTS]) {
    unsigned even = 0;
    for (int way = 0; way < 2; way++) {
        uint32_t a = crossed[way], b = crossed[2 + way];
        if (a == NONE || row->depth[a] != row->depth[b] || !row->pieces[a]->flat || !row->pieces[b]->flat) continue;
        even |= 1u << way;
    }
    return even;
}

enum verdict { SPAN, NO_SPAN, UNSURE };

/* What all of samples [from, *to) have, *to being brought forward where they are not alike: a span, or none (as in
 * walk_simple), and the slots that do not bound it. UNSURE: depths are too close to each other but not the same, or one
 * is lacking. */
static inline enum verdict judge(const struct row *row, const uint32_t crossed[SLOTS], const struct depths *depths,
                                 int32_t from, int32_t *to, unsigned *idle) {
    const ct_v4d a = depths->at + (double)from * depths->slope;
    const unsigned idle_a = idle_of(a);
    for (;;) {
        const int32_t end = *to - 1;
        const ct_v4d b = depths->at + (double)end * depths->slope;
        const unsigned idle_b = idle_of(b);
        *idle = idle_a & idle_b;
        const unsigned known = (*idle | *idle >> 2) & 3;
        if (known != 3) {
            unsigned change = idle_a & (idle_b << 2 | idle_b >> 2);
            if (change) {
                int slot = __builtin_ctz(change), other = slot ^ 2;
                *to = change_of(a[slot] - a[other], b[slot] - b[other], from, end);
                continue;
            }
            if ((known | even_of(row, crossed)) != 3) return UNSURE;
        }
        double length_a = length_of(a), length_b = length_of(b);
        if (length_a > APART && length_b > APART) return SPAN;
        if (length_a < -APART && length_b < -APART) return NO_SPAN;
        if (!(fabs(length_a) > APART && fabs(length_b) > APART)) return UNSURE;
        *to = change_of(length_a, length_b, from, end);
    }
}

/* Samples [from, to) of a span are bounded from one side by what is not idle there. */
static inline void bound(struct coarse *c, const uint32_t crossed[SLOTS], int way, unsigned idle, int32_t from,
                         int32_t to) {
    const int side = way == IN ? LOWER : UPPER;
    struct piece *const pieces[2] = {c->row.pieces[crossed[way]], c->row.pieces[crossed[2 + way]]};
    idle >>= way;
    if (idle & (1 | 1 << 2))
        add_bound_run(c, side, pieces[idle & 1], from, to);
    else
        add_shared_run(c, side, pieces, from, to);
}

/* Samples [from, to), at which each body is crossed at most once outwards and once inwards: by these pieces, or NONE.
 */
static bool walk_simply(struct coarse *c, const uint32_t crossed[SLOTS], uint64_t active, int32_t from, int32_t to) {
    const struct row *row = &c->row;
    const double *at = row->depth, *slope = row->slope;
    const struct depths depths = {{at[crossed[0]], at[crossed[1]], at[crossed[2]], at[crossed[3]]},
                                  {slope[crossed[0]], slope[crossed[1]], slope[crossed[2]], slope[crossed[3]]}};
    for (int32_t end; from < to; from = end) {
        unsigned idle;
        end = to;
        switch (judge(row, crossed, &depths, from, &end, &idle)) {
        case SPAN:
            bound(c, crossed, IN, idle, from, end);
            bound(c, crossed, OUT, idle, from, end);
            break;
        case NO_SPAN:
            break;
        case UNSURE:
            if (!walk_samples(c, active, from, end)) return false;
        }
    }
    return true;
}

static bool walk_stretch(struct coarse *c, uint64_t active, int32_t from, int32_t to) {
    const ct_v4l of_slot = (int64_t)active & c->row.slots;
    const uint32_t have = ~bits(of_slot == 0) & 15;
    /* What the raster stage would have kept: the second body's only on rays that the first is on. */
    if (have >> (2 * c->rays->first_body) & 3)
        c->rays->n_fragments += (uint32_t)(to - from) * (uint32_t)__builtin_popcountll(active);
    uint32_t verdict = c->verdicts[0] >> (8 * (have & 3)) | c->verdicts[1] >> (8 * (have >> 2));
    if (verdict & NEVER_INSIDE) return true;
    if (verdict & IS_OTHER || bits((of_slot & (of_slot - 1)) != 0)) return walk_samples(c, active, from, to);
    uint32_t crossed[SLOTS];
    for (int s = 0; s < SLOTS; s++) crossed[s] = of_slot[s] ? (uint32_t)__builtin_ctzll((uint64_t)of_slot[s]) : NONE;
    return walk_simply(c, crossed, active, from, to);
}

/* ---- rows ---- */

/* The pieces of row c->row.at, which cover_rows has been asked about, and what they cover of it. */
static void fill_row(struct coarse *c) {
    struct row *row = &c->row;
    uint32_t n = 0;
    uint64_t slots[SLOTS] = {0};
    for (size_t i = 0; i < c->n; i++) {
        struct piece *p = &c->pieces[i];
        int32_t begin = p->begin[row->at % ROWS_AT_ONCE], end = p->end[row->at % ROWS_AT_ONCE];
        if (begin >= end) continue;
        const int way = way_of(p);
        slots[2 * body_of_piece(p) + way] |= (uint64_t)1 << n;
        row->pieces[n] = p;
        row->begin[n] = begin;
        row->end[n] = end;
        double depth = linear_at(p->depth, 0, row->at);
        row->depth[n] = way == IN ? -depth : depth;
        row->slope[n++] = way == IN ? -p->depth.du : p->depth.du;
    }
    memcpy(&row->slots, slots, sizeof slots);
    row->n = n;
    for (; n % 8; n++) row->begin[n] = row->end[n] = 0;
}

/* The pieces that cover sample `from`, and the first sample after it at which others do. */
static inline uint64_t cover_at(const struct row *row, int32_t from, int32_t *to) {
    uint64_t active = 0;
    ct_v8i next = v8i(INT32_MAX);
    for (uint32_t i = 0; i < row->n; i += 8) {
        ct_v8i begin, end;
        memcpy(&begin, row->begin + i, sizeof begin);
        memcpy(&end, row->end + i, sizeof end);
        ct_v8i before = begin > from, beyond = end <= from;
        active |= (uint64_t)bits_v8i(~(before | beyond)) << i;
        next = min_v8i(next, (before & begin) | (~before & end) | (beyond & INT32_MAX));
    }
    *to = least_v8i(next);
    return active;
}

static bool walk_row(struct coarse *c) {
    for (int32_t from = 0, to; from < INT32_MAX; from = to) {
        uint64_t active = cover_at(&c->row, from, &to);
        if (active && !walk_stretch(c, active, from, to)) return false;
    }
    end_run(c, LOWER);
    end_run(c, UPPER);
    return true;
}

/* What pieces have tallied up goes to their corners. */
static void flush_tallies(struct coarse *c) {
    for (size_t i = 0; i < c->n; i++) {
        const struct piece *p = &c->pieces[i];
        const struct tally *t = &p->tally;
        int side = way_of(p) == IN ? LOWER : UPPER;
        int64_t depth = t->n * p->setup.z0 + tally_sum(t->n, t->depth, 0);
        c->total += side == UPPER ? depth : -depth;
        flush(&c->sink, side, ALONE);
        c->sink.pending[side][ALONE] =
            (struct pending){p->tag, t->n, tally_sum(t->n, t->l1, 0), tally_sum(t->n, t->l2, 0)};
    }
}

ct_coarse CT_VARIANT(ct_coarse)(ct_ray_lists *rays, const ct_window *window, const ct_bands *bands, uint32_t band,
                                const ct_bin *bins, size_t n_bins, const uint32_t *const triangles[2], ct_sums *sums,
                                ct_span_scratch *scratch, ct_budget *budget) {
    ct_rays_place(rays, window, bands, band, bins, n_bins);
    struct coarse c;
    c.rays = rays;
    c.n = 0;
    if (!collect(&c, window, band, bins, n_bins)) return CT_COARSE_NOT;
    c.scratch = scratch;
    c.budget = budget;
    c.total = 0;
    c.row.depth[NONE] = INFINITY;
    c.row.slope[NONE] = 0;
    c.row.pieces[NONE] = NULL;
    c.row.bounds[LOWER].piece = c.row.bounds[UPPER].piece = NULL;
    c.sink = sink_of(rays, triangles, sums);
    for (int b = 0; b < 2; b++) c.verdicts[b] = rays->entry[b] == CT_ENTRY_LISTED ? LISTED : verdicts_of(0);
    rays->n_fragments = 0;
    if (!ct_buffer_reserve(&scratch->ray, budget, RAY_BYTES, 0, false)) return CT_COARSE_FAILED;
    bool ok = true;
    for (int32_t row = 0; row < rays->rows && ok; row++) {
        if (row % ROWS_AT_ONCE == 0)
            for (size_t i = 0; i < c.n; i++) cover_rows(&c.pieces[i], rays->first_row, row);
        c.row.at = row;
        fill_row(&c);
        ok = walk_row(&c);
    }
    flush_tallies(&c);
    flush_all(&c.sink);
    sums->length[rays->view] += c.total;
    return ok ? CT_COARSE_DONE : CT_COARSE_FAILED;
}

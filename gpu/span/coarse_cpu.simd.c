/* coarse_cpu.simd.c - bands that few triangles cover, from triangles to sums at once.
 *
 * Large triangles cover runs of samples in a row, and their depth is linear there. So where one is nearer than another,
 * farther than rounding could bridge, is a run of samples as well. Four rows of 64 samples are looked at together, rows
 * being lanes and samples bits: which samples a triangle covers, at which of these it bounds a span, all are words of
 * bits. The few samples of which that is not sure are walked like any other ray. What that adds up to is exactly what
 * the raster and span stages would have added up one ray after the other.
 */
#include "gpu/span/piece.h"
#include "gpu/span/walk.h"

/* No more triangles than this in a band, and so many samples for each. */
enum { MOST = 64, SAMPLES_EACH = 16 };

/* Where depths known to 1/8 are so far apart, the depths rounded to units differ as well, and the same way. */
#define APART 2.0

/* Slots: 2 * body + OUT or IN. */
enum { SLOTS = 4 };

/* So many samples of a row are looked at together: bits, the first is the lowest; rows are lanes. */
enum { TILE = 64 };
typedef ct_v4u samples;

/* What a piece covers of ROWS_AT_ONCE rows: from begin up to but without end. */
struct cover {
    struct piece *piece;
    ct_v4i begin, end;
};

/* TILE samples of these rows. Pieces that cover any of them by slot: those of slot s are [of_slot[s], of_slot[s + 1]).
 */
struct tile {
    int32_t row, column; /* the first, from the band's first */
    int32_t n;           /* columns */
    uint32_t n_pieces, of_slot[SLOTS + 1];
    struct piece *piece[MOST];
    ct_v4d depth[MOST];                /* at the first column */
    samples cover[MOST];               /* what it covers */
    samples alone[MOST], shared[MOST]; /* of that where it bounds spans, if there are any */
    samples covered[SLOTS];            /* by any of the slot's */
    samples odd;                       /* by several of one slot, or by one of unknown depth */
};

struct coarse {
    struct sink sink;
    ct_ray_lists *rays;
    ct_span_scratch *scratch;
    ct_budget *budget;
    int64_t total;
    bool may_share; /* have both bodies flat pieces in one plane? */
    size_t n;
    struct piece pieces[MOST];
    struct piece *by_slot[MOST]; /* those of slot s are [of_slot[s], of_slot[s + 1]) */
    uint32_t of_slot[SLOTS + 1];
    struct cover covers[MOST]; /* of these on the rows that are walked, in the same manner */
    uint32_t covers_of_slot[SLOTS + 1];
    struct tile tile;
};

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
    p->slot = (uint8_t)(2 * placed->body + (p->setup.ccw < 0 ? IN : OUT));
    c->n += placing == PLACED;
    return true;
}

static bool collect(struct coarse *c, const ct_window *window, const ct_bands *bands, uint32_t band, const ct_bin *bins,
                    size_t n_bins) {
    const int w = c->rays->view;
    size_t n = 0;
    for (size_t i = 0; i < n_bins; i++) {
        const uint32_t *crossing = bins[i].crossings[w].offset + band - bands->first[w];
        if (crossing[1] > crossing[0]) return false; /* there are small ones */
        n += bins[i].offset[band + 1] - bins[i].offset[band];
    }
    if (n > MOST || SAMPLES_EACH * n > (size_t)c->rays->rows * (size_t)c->rays->columns) return false;
    for (size_t i = 0; i < n_bins; i++)
        for (uint32_t e = bins[i].offset[band]; e < bins[i].offset[band + 1]; e++)
            if (!add_piece(c, window, bins[i].placed, bins[i].entries[e])) return false;
    return true;
}

/* Do they bound together where both cover a sample? */
static inline bool in_one_plane(const struct piece *a, const struct piece *b) {
    return a->flat && b->flat && a->depth.at == b->depth.at && (a->slot ^ b->slot) == 2;
}

static void sort(struct coarse *c) {
    uint32_t n = 0;
    for (int slot = 0; slot < SLOTS; slot++) {
        c->of_slot[slot] = n;
        for (size_t i = 0; i < c->n; i++)
            if (c->pieces[i].slot == slot) c->by_slot[n++] = &c->pieces[i];
    }
    c->of_slot[SLOTS] = n;
    c->may_share = false;
    for (const struct piece *p = c->pieces; p < c->pieces + c->n; p++)
        for (const struct piece *q = c->pieces; q < p && p->flat; q++) c->may_share |= in_one_plane(p, q);
}

/* ---- rays one by one ---- */

/* By the walk for any ray. */
static bool walk_sample(struct coarse *c, int r, int bit) {
    const struct tile *t = &c->tile;
    const int32_t row = t->row + r, column = t->column + bit;
    ct_linked_fragment fragments[MOST];
    uint32_t n = 0;
    for (uint32_t k = 0; k < t->n_pieces; k++) {
        if (!(t->cover[k][r] >> bit & 1)) continue;
        const struct piece *p = t->piece[k];
        const ct_setup *s = &p->setup;
        fragments[n].f = ct_fragment_at(s, (double)(s->edge[1] + column * s->step_u[1] + row * s->step_v[1]),
                                        (double)(s->edge[2] + column * s->step_u[2] + row * s->step_v[2]), p->tag);
        fragments[n].next = n ? n - 1 : CT_END;
        n++;
    }
    uint32_t head = n - 1;
    ct_ray_lists one = *c->rays;
    one.head = &head;
    one.fragments = fragments;
    one.winding = NULL;
    return walk_ray(&c->sink, &one, 0, c->scratch, c->budget, false, &c->total);
}

static bool walk_samples(struct coarse *c, samples which) {
    if (!any(which)) return true;
    for (int r = 0; r < ROWS_AT_ONCE; r++)
        for (uint64_t left = which[r]; left; left &= left - 1)
            if (!walk_sample(c, r, __builtin_ctzll(left))) return false;
    return true;
}

/* ---- what covers a tile ---- */

/* Of each row samples 0 to n - 1, n <= TILE. */
static inline samples first_samples(ct_v4i n) {
    const samples some = (samples)ct_v4l_of_v4i(n > 0), dropped = (samples)ct_v4l_of_v4i((TILE - n) & (n > 0));
    return ~(samples){0} >> dropped & some;
}

static inline ct_v4i in_tile(const struct tile *t, ct_v4i column) {
    return min_v4i(max_v4i(column - t->column, v4i(0)), v4i(t->n));
}

static void cover_tile(struct coarse *c) {
    struct tile *t = &c->tile;
    const samples none = {0};
    uint32_t n = 0;
    t->odd = none;
    for (int slot = 0; slot < SLOTS; slot++) {
        samples covered = none;
        t->of_slot[slot] = n;
        for (uint32_t i = c->covers_of_slot[slot]; i < c->covers_of_slot[slot + 1]; i++) {
            const ct_v4i begin = in_tile(t, c->covers[i].begin), end = in_tile(t, c->covers[i].end);
            if (!bits_v4i(begin < end)) continue;
            struct piece *p = c->covers[i].piece;
            const samples cover = first_samples(end) & ~first_samples(begin);
            t->piece[n] = p;
            t->depth[n] = linear_on_rows(p->depth, t->column, t->row);
            t->cover[n] = cover;
            t->shared[n] = none;
            t->odd |= p->depth.at == p->depth.at ? covered & cover : cover;
            covered |= cover;
            n++;
        }
        t->covered[slot] = covered;
    }
    t->of_slot[SLOTS] = t->n_pieces = n;
}

/* Samples at which a body is crossed at all; of these, those at which it is crossed so that walk_simple would do. */
static inline samples crossed_by(const struct tile *t, int body) {
    return t->covered[2 * body + OUT] | t->covered[2 * body + IN];
}
static inline samples fits(const struct coarse *c, int body) {
    return c->tile.covered[2 * body + (c->rays->entry[body] == CT_ENTRY_LISTED ? OUT : IN)];
}

static inline uint32_t count(samples s) {
    return (uint32_t)(__builtin_popcountll(s[0]) + __builtin_popcountll(s[1]) + __builtin_popcountll(s[2]) +
                      __builtin_popcountll(s[3]));
}

/* What the raster stage would have kept: the second body's fragments only on rays that the first is on. */
static inline uint32_t count_fragments(const struct coarse *c) {
    const struct tile *t = &c->tile;
    const samples kept = crossed_by(t, c->rays->first_body);
    uint32_t n = 0;
    if (any(t->odd))
        for (uint32_t k = 0; k < t->n_pieces; k++) n += count(t->cover[k] & kept);
    else
        for (int slot = 0; slot < SLOTS; slot++) n += count(t->covered[slot] & kept);
    return n;
}

/* ---- which pieces bound ---- */

/* Where one piece is farther along the rays than another for sure, and where it is less far. */
struct order {
    samples more, less;
};

/* Depth a + slope * column along the rows, slope >= 0: where it is more than APART, and less than -APART. */
static inline struct order order_of(ct_v4d a, double slope) {
    const ct_v4d inverse = v4d(1 / slope);
    ct_v4d more = (APART - a) * inverse + 1, less = (-APART - a) * inverse + 1;
    more = min_v4d(max_v4d(more, v4d(0)), v4d(TILE));
    less = min_v4d(max_v4d(less, v4d(0)), v4d(TILE));
    return (struct order){~first_samples(ct_v4i_of_v4d(more)), first_samples(ct_v4i_of_v4d(less))};
}

static inline struct order compare(const struct tile *t, uint32_t a, uint32_t b) {
    const ct_v4d depth = t->depth[a] - t->depth[b];
    const double slope = t->piece[a]->depth.du - t->piece[b]->depth.du;
    if (slope >= 0) return order_of(depth, fabs(slope)); /* not a zero below 0 */
    struct order o = order_of(-depth, -slope);
    return (struct order){o.less, o.more};
}

/* Which of both bodies' pieces bound spans from one side, where all samples are live. */
static inline void find_bounds(struct coarse *c, int way, samples live) {
    struct tile *t = &c->tile;
    const samples lone[2] = {live & ~t->covered[2 + way], live & ~t->covered[way]};
    for (int body = 0; body < 2; body++)
        for (uint32_t k = t->of_slot[2 * body + way]; k < t->of_slot[2 * body + way + 1]; k++)
            t->alone[k] = t->cover[k] & lone[body];
    for (uint32_t a = t->of_slot[way]; a < t->of_slot[way + 1]; a++)
        for (uint32_t b = t->of_slot[2 + way]; b < t->of_slot[2 + way + 1]; b++) {
            const samples both = t->cover[a] & t->cover[b] & live;
            if (!any(both)) continue;
            const struct order o = compare(t, a, b);
            t->alone[a] |= both & (way == IN ? o.more : o.less);
            t->alone[b] |= both & (way == IN ? o.less : o.more);
            if (c->may_share && in_one_plane(t->piece[a], t->piece[b])) {
                t->shared[a] |= both;
                t->shared[b] |= both;
            }
        }
}

/* Between what bounds: where there is a span, and where there is none. */
static inline void find_spans(const struct tile *t, int in_slot, int out_slot, struct order *spans) {
    for (uint32_t in = t->of_slot[in_slot]; in < t->of_slot[in_slot + 1]; in++) {
        const samples lower = t->alone[in] | t->shared[in];
        if (!any(lower)) continue;
        for (uint32_t out = t->of_slot[out_slot]; out < t->of_slot[out_slot + 1]; out++) {
            const samples both = lower & (t->alone[out] | t->shared[out]);
            if (!any(both)) continue;
            const struct order o = compare(t, out, in);
            spans->more |= both & o.more;
            spans->less |= both & o.less;
        }
    }
}

/* Apart from the others: seldom needed, and the processor's caches are small. */
__attribute__((noinline)) static void tally_shared(const struct tile *t, samples spans) {
    for (uint32_t k = 0; k < t->n_pieces; k++) {
        struct piece *p = t->piece[k];
        tally_rows(&p->shared, p, t->row, t->column, t->shared[k] & spans, 1);
    }
}

static bool walk_tile(struct coarse *c) {
    struct tile *t = &c->tile;
    cover_tile(c);
    c->rays->n_fragments += count_fragments(c);
    const samples both = crossed_by(t, 0) & crossed_by(t, 1), live = both & fits(c, 0) & fits(c, 1) & ~t->odd;
    samples left = both & ~live;
    if (any(live)) {
        find_bounds(c, OUT, live);
        find_bounds(c, IN, live);
        struct order spans = {{0}, {0}};
        for (int body = 0; body < 2; body++) {
            find_spans(t, 2 * body + IN, OUT, &spans);
            find_spans(t, 2 * body + IN, 2 + OUT, &spans);
        }
        left |= live & ~(spans.more | spans.less);
        for (uint32_t k = 0; k < t->n_pieces; k++) {
            struct piece *p = t->piece[k];
            tally_rows(&p->tally, p, t->row, t->column, t->alone[k] & spans.more, 0);
        }
        if (c->may_share) tally_shared(t, spans.more);
    }
    return walk_samples(c, left);
}

/* Row `first` and those after it, of the band's. */
static bool walk_rows(struct coarse *c, int32_t first) {
    const int32_t row = c->rays->first_row + first;
    uint32_t n = 0;
    for (int slot = 0; slot < SLOTS; slot++) {
        c->covers_of_slot[slot] = n;
        for (uint32_t i = c->of_slot[slot]; i < c->of_slot[slot + 1]; i++) {
            struct piece *p = c->by_slot[i];
            if (row >= p->x.v1 || row + ROWS_AT_ONCE <= p->x.v0) continue;
            c->covers[n].piece = p;
            cover_rows(p, c->rays->first_row, first, &c->covers[n].begin, &c->covers[n].end);
            n++;
        }
    }
    c->covers_of_slot[SLOTS] = n;
    struct tile *t = &c->tile;
    t->row = first;
    for (t->column = 0; t->column < c->rays->columns; t->column += TILE) {
        const int32_t left = c->rays->columns - t->column;
        t->n = left < TILE ? left : TILE;
        if (!walk_tile(c)) return false;
    }
    return true;
}

/* What pieces have tallied up goes to their corners. */
static void flush_tallies(struct coarse *c) {
    for (size_t i = 0; i < c->n; i++) {
        const struct piece *p = &c->pieces[i];
        const int side = p->slot & IN ? LOWER : UPPER, body = p->slot / 2;
        for (int shared = 0; shared < 2; shared++) {
            const struct tally *t = shared ? &p->shared : &p->tally;
            const int kind = shared ? HALF + body : ALONE;
            if (!t->n) continue;
            int64_t depth = t->n * p->setup.z0 + tally_sum(t->n, t->depth, 0);
            if (shared && body == 1) depth = 0; /* a bound that is shared counts once */
            c->total += side == UPPER ? depth : -depth;
            add_bounds(&c->sink, p->tag, side, kind, t->n, tally_sum(t->n, t->l1, shared),
                       tally_sum(t->n, t->l2, shared));
        }
    }
}

ct_coarse CT_VARIANT(ct_coarse)(ct_ray_lists *rays, const ct_window *window, const ct_bands *bands, uint32_t band,
                                const ct_bin *bins, size_t n_bins, const uint32_t *const triangles[2], ct_sums *sums,
                                ct_span_scratch *scratch, ct_budget *budget) {
    ct_rays_place(rays, window, bands, band, bins, n_bins);
    struct coarse c;
    c.rays = rays;
    c.n = 0;
    if (!collect(&c, window, bands, band, bins, n_bins)) return CT_COARSE_NOT;
    c.scratch = scratch;
    c.budget = budget;
    c.total = 0;
    sort(&c);
    sink_start(&c.sink, rays, triangles, sums);
    rays->n_fragments = 0;
    if (!ct_buffer_reserve(&scratch->ray, budget, RAY_BYTES, 0, false)) return CT_COARSE_FAILED;
    bool ok = true;
    for (int32_t row = 0; row < rays->rows && ok; row += ROWS_AT_ONCE) ok = walk_rows(&c, row);
    flush_tallies(&c);
    drain(&c.sink);
    sums->length[rays->view] += c.total;
    return ok ? CT_COARSE_DONE : CT_COARSE_FAILED;
}

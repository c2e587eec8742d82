/* large_triangles_cpu.simd.c - bands that few triangles cover, from triangles to sums at once.
 *
 * Large triangles cover runs of samples in a row, and their depth is linear there. So where one is nearer than another,
 * farther than rounding could bridge, is a run of samples as well. Four rows of 64 samples are looked at together, rows
 * being lanes and samples bits: which samples a triangle covers, at which of these it bounds a span, all are words of
 * bits. The few samples of which that is not sure are walked like any other ray. What that adds up to is exactly what
 * the raster and span stages would have added up one ray after the other.
 */
#include "gpu/span/raster_triangle.h"
#include "gpu/span/walk.h"

/* No more triangles than this in a band, and so many samples for each. */
enum { MOST = 64, SAMPLES_EACH = 16 };

/* Where depths known to 1/8 are so far apart, the depths rounded to units differ as well, and the same way. */
#define APART 2.0

/* Slots: 2 * body + OUT or IN. */
enum { FACINGS = 4 };

/* So many samples of a row are looked at together: bits, the first is the lowest; rows are lanes. */
enum { BLOCK_COLUMNS = 64 };
typedef ct_v4u samples;

/* What a tri covers of ROWS_AT_ONCE rows: from begin up to but without end. */
struct cover {
    struct raster_triangle *tri;
    ct_v4i begin, end;
};

/* BLOCK_COLUMNS samples of these rows. Pieces that cover any of them by kind: those of kind s are [of_facing[s],
 * of_facing[s + 1]).
 */
struct sample_block {
    int32_t row, column; /* the first, from the band's first */
    int32_t n;           /* columns */
    uint32_t n_triangles, of_facing[FACINGS + 1];
    struct raster_triangle *tri[MOST];
    ct_v4d depth[MOST];                /* at the first column */
    samples cover[MOST];               /* what it covers */
    samples alone[MOST], shared[MOST]; /* of that where it bounds spans, if there are any */
    samples covered[FACINGS];          /* by any of the kind's */
    samples odd;                       /* by several of one kind, or by one of unknown depth */
};

struct large_band {
    struct gradient_accumulator accumulator;
    ct_ray_lists *rays;
    ct_span_scratch *scratch;
    ct_budget *budget;
    int64_t total;
    bool may_share; /* have both bodies flat triangles_ in one plane? */
    size_t n;
    struct raster_triangle triangles_[MOST];
    struct raster_triangle *by_facing[MOST]; /* those of kind s are [of_facing[s], of_facing[s + 1]) */
    uint32_t of_facing[FACINGS + 1];
    struct cover covers[MOST]; /* of these on the rows that are walked, in the same manner */
    uint32_t covers_of_facing[FACINGS + 1];
    struct sample_block tile;
};

/* ---- triangles to triangles_ ---- */

/* False: not for this band. Ones before the window would have to be counted. */
static bool add_triangle(struct large_band *c, const ct_window *window, const ct_snapped_body *placed,
                         uint32_t triangle) {
    const ct_ray_lists *rays = c->rays;
    const int w = rays->view;
    const uint32_t *k = placed->triangles + 3 * (size_t)triangle;
    const int32_t *const q[3] = {placed->coords[k[0]], placed->coords[k[1]], placed->coords[k[2]]};
    if (placed->entry[w] == CT_INITIAL_COUNTED && ct_max3(q[0][w], q[1][w], q[2][w]) < window->axis[w].lo) return false;
    struct raster_triangle *p = &c->triangles_[c->n];
    enum setup_result result = setup_raster_triangle(p, q, &window->axis[ct_view_u(w)], &window->axis[ct_view_v(w)], w,
                                                     rays->first_row, rays->rows);
    if (result == SETUP_NOT_EXACT) return false;
    p->tag = placed->body << 31 | triangle;
    p->facing = (uint8_t)(2 * placed->body + (p->setup.ccw < 0 ? IN : OUT));
    c->n += result == SETUP_OK;
    return true;
}

static bool collect(struct large_band *c, const ct_window *window, const ct_bands *bands, uint32_t band,
                    const ct_bin *bins, size_t n_bins) {
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
            if (!add_triangle(c, window, bins[i].placed, bins[i].entries[e])) return false;
    return true;
}

/* Do they bound together where both cover a sample? */
static inline bool in_one_plane(const struct raster_triangle *a, const struct raster_triangle *b) {
    return a->flat && b->flat && a->depth.at == b->depth.at && (a->facing ^ b->facing) == 2;
}

static void sort(struct large_band *c) {
    uint32_t n = 0;
    for (int facing = 0; facing < FACINGS; facing++) {
        c->of_facing[facing] = n;
        for (size_t i = 0; i < c->n; i++)
            if (c->triangles_[i].facing == facing) c->by_facing[n++] = &c->triangles_[i];
    }
    c->of_facing[FACINGS] = n;
    c->may_share = false;
    for (const struct raster_triangle *p = c->triangles_; p < c->triangles_ + c->n; p++)
        for (const struct raster_triangle *q = c->triangles_; q < p && p->flat; q++) c->may_share |= in_one_plane(p, q);
}

/* ---- rays one by one ---- */

/* By the walk for any ray. */
static bool walk_sample(struct large_band *c, int r, int bit) {
    const struct sample_block *t = &c->tile;
    const int32_t row = t->row + r, column = t->column + bit;
    ct_linked_fragment fragments[MOST];
    uint32_t n = 0;
    for (uint32_t k = 0; k < t->n_triangles; k++) {
        if (!(t->cover[k][r] >> bit & 1)) continue;
        const struct raster_triangle *p = t->tri[k];
        const ct_triangle_setup *s = &p->setup;
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
    return walk_ray(&c->accumulator, &one, 0, c->scratch, c->budget, false, &c->total);
}

static bool walk_samples(struct large_band *c, samples which) {
    if (!any(which)) return true;
    for (int r = 0; r < ROWS_AT_ONCE; r++)
        for (uint64_t left = which[r]; left; left &= left - 1)
            if (!walk_sample(c, r, __builtin_ctzll(left))) return false;
    return true;
}

/* ---- what covers a tile ---- */

/* Of each row samples 0 to n - 1, n <= BLOCK_COLUMNS. */
static inline samples first_samples(ct_v4i n) {
    const samples some = (samples)ct_v4l_of_v4i(n > 0), dropped = (samples)ct_v4l_of_v4i((BLOCK_COLUMNS - n) & (n > 0));
    return ~(samples){0} >> dropped & some;
}

static inline ct_v4i in_block(const struct sample_block *t, ct_v4i column) {
    return min_v4i(max_v4i(column - t->column, v4i(0)), v4i(t->n));
}

static void cover_block(struct large_band *c) {
    struct sample_block *t = &c->tile;
    const samples none = {0};
    uint32_t n = 0;
    t->odd = none;
    for (int facing = 0; facing < FACINGS; facing++) {
        samples covered = none;
        t->of_facing[facing] = n;
        for (uint32_t i = c->covers_of_facing[facing]; i < c->covers_of_facing[facing + 1]; i++) {
            const ct_v4i begin = in_block(t, c->covers[i].begin), end = in_block(t, c->covers[i].end);
            if (!bits_v4i(begin < end)) continue;
            struct raster_triangle *p = c->covers[i].tri;
            const samples cover = first_samples(end) & ~first_samples(begin);
            t->tri[n] = p;
            t->depth[n] = linear_on_rows(p->depth, t->column, t->row);
            t->cover[n] = cover;
            t->shared[n] = none;
            t->odd |= p->depth.at == p->depth.at ? covered & cover : cover;
            covered |= cover;
            n++;
        }
        t->covered[facing] = covered;
    }
    t->of_facing[FACINGS] = t->n_triangles = n;
}

/* Samples at which a body is crossed at all; of these, those at which it is crossed so that walk_simple would do. */
static inline samples crossed_by(const struct sample_block *t, int body) {
    return t->covered[2 * body + OUT] | t->covered[2 * body + IN];
}
static inline samples fits(const struct large_band *c, int body) {
    return c->tile.covered[2 * body + (c->rays->entry[body] == CT_INITIAL_FROM_BALANCE ? OUT : IN)];
}

static inline uint32_t count(samples s) {
    return (uint32_t)(__builtin_popcountll(s[0]) + __builtin_popcountll(s[1]) + __builtin_popcountll(s[2]) +
                      __builtin_popcountll(s[3]));
}

/* What the raster stage would have kept: the second body's fragments only on rays that the first is on. */
static inline uint32_t count_fragments(const struct large_band *c) {
    const struct sample_block *t = &c->tile;
    const samples kept = crossed_by(t, c->rays->first_body);
    uint32_t n = 0;
    if (any(t->odd))
        for (uint32_t k = 0; k < t->n_triangles; k++) n += count(t->cover[k] & kept);
    else
        for (int facing = 0; facing < FACINGS; facing++) n += count(t->covered[facing] & kept);
    return n;
}

/* ---- which triangles_ bound ---- */

/* Where one tri is farther along the rays than another for sure, and where it is less far. */
struct order {
    samples more, less;
};

/* Depth a + slope * column along the rows, slope >= 0: where it is more than APART, and less than -APART. */
static inline struct order order_of(ct_v4d a, double slope) {
    const ct_v4d inverse = v4d(1 / slope);
    ct_v4d more = (APART - a) * inverse + 1, less = (-APART - a) * inverse + 1;
    more = min_v4d(max_v4d(more, v4d(0)), v4d(BLOCK_COLUMNS));
    less = min_v4d(max_v4d(less, v4d(0)), v4d(BLOCK_COLUMNS));
    return (struct order){~first_samples(ct_v4i_of_v4d(more)), first_samples(ct_v4i_of_v4d(less))};
}

static inline struct order compare(const struct sample_block *t, uint32_t a, uint32_t b) {
    const ct_v4d depth = t->depth[a] - t->depth[b];
    const double slope = t->tri[a]->depth.du - t->tri[b]->depth.du;
    if (slope >= 0) return order_of(depth, fabs(slope)); /* not a zero below 0 */
    struct order o = order_of(-depth, -slope);
    return (struct order){o.less, o.more};
}

/* Which of both bodies' triangles_ bound spans from one side, where all samples are live. */
static inline void find_bounds(struct large_band *c, int way, samples live) {
    struct sample_block *t = &c->tile;
    const samples lone[2] = {live & ~t->covered[2 + way], live & ~t->covered[way]};
    for (int body = 0; body < 2; body++)
        for (uint32_t k = t->of_facing[2 * body + way]; k < t->of_facing[2 * body + way + 1]; k++)
            t->alone[k] = t->cover[k] & lone[body];
    for (uint32_t a = t->of_facing[way]; a < t->of_facing[way + 1]; a++)
        for (uint32_t b = t->of_facing[2 + way]; b < t->of_facing[2 + way + 1]; b++) {
            const samples both = t->cover[a] & t->cover[b] & live;
            if (!any(both)) continue;
            const struct order o = compare(t, a, b);
            t->alone[a] |= both & (way == IN ? o.more : o.less);
            t->alone[b] |= both & (way == IN ? o.less : o.more);
            if (c->may_share && in_one_plane(t->tri[a], t->tri[b])) {
                t->shared[a] |= both;
                t->shared[b] |= both;
            }
        }
}

/* Between what bounds: where there is a span, and where there is none. */
static inline void find_spans(const struct sample_block *t, int in_slot, int out_slot, struct order *spans) {
    for (uint32_t in = t->of_facing[in_slot]; in < t->of_facing[in_slot + 1]; in++) {
        const samples lower = t->alone[in] | t->shared[in];
        if (!any(lower)) continue;
        for (uint32_t out = t->of_facing[out_slot]; out < t->of_facing[out_slot + 1]; out++) {
            const samples both = lower & (t->alone[out] | t->shared[out]);
            if (!any(both)) continue;
            const struct order o = compare(t, out, in);
            spans->more |= both & o.more;
            spans->less |= both & o.less;
        }
    }
}

/* Apart from the others: seldom needed, and the processor's caches are small. */
__attribute__((noinline)) static void sum_shared_bounds(const struct sample_block *t, samples spans) {
    for (uint32_t k = 0; k < t->n_triangles; k++) {
        struct raster_triangle *p = t->tri[k];
        sum_rows(&p->shared, p, t->row, t->column, t->shared[k] & spans, 1);
    }
}

static bool walk_block(struct large_band *c) {
    struct sample_block *t = &c->tile;
    cover_block(c);
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
        for (uint32_t k = 0; k < t->n_triangles; k++) {
            struct raster_triangle *p = t->tri[k];
            sum_rows(&p->sums, p, t->row, t->column, t->alone[k] & spans.more, 0);
        }
        if (c->may_share) sum_shared_bounds(t, spans.more);
    }
    return walk_samples(c, left);
}

/* Row `first` and those after it, of the band's. */
static bool walk_rows(struct large_band *c, int32_t first) {
    const int32_t row = c->rays->first_row + first;
    uint32_t n = 0;
    for (int facing = 0; facing < FACINGS; facing++) {
        c->covers_of_facing[facing] = n;
        for (uint32_t i = c->of_facing[facing]; i < c->of_facing[facing + 1]; i++) {
            struct raster_triangle *p = c->by_facing[i];
            if (row >= p->x.v1 || row + ROWS_AT_ONCE <= p->x.v0) continue;
            c->covers[n].tri = p;
            cover_rows(p, c->rays->first_row, first, &c->covers[n].begin, &c->covers[n].end);
            n++;
        }
    }
    c->covers_of_facing[FACINGS] = n;
    struct sample_block *t = &c->tile;
    t->row = first;
    for (t->column = 0; t->column < c->rays->columns; t->column += BLOCK_COLUMNS) {
        const int32_t left = c->rays->columns - t->column;
        t->n = left < BLOCK_COLUMNS ? left : BLOCK_COLUMNS;
        if (!walk_block(c)) return false;
    }
    return true;
}

/* What triangles_ have tallied up goes to their corners. */
static void flush_sums(struct large_band *c) {
    for (size_t i = 0; i < c->n; i++) {
        const struct raster_triangle *p = &c->triangles_[i];
        const int side = p->facing & IN ? LOWER : UPPER, body = p->facing / 2;
        for (int shared = 0; shared < 2; shared++) {
            const struct bound_sums *t = shared ? &p->shared : &p->sums;
            const int kind = shared ? HALF + body : ALONE;
            if (!t->n) continue;
            int64_t depth = t->n * p->setup.z0 + bound_sum(t->n, t->depth, 0);
            if (shared && body == 1) depth = 0; /* a bound that is shared counts once */
            c->total += side == UPPER ? depth : -depth;
            add_bounds(&c->accumulator, p->tag, side, kind, t->n, bound_sum(t->n, t->l1, shared),
                       bound_sum(t->n, t->l2, shared));
        }
    }
}

ct_large_status CT_VARIANT(ct_large_status)(ct_ray_lists *rays, const ct_window *window, const ct_bands *bands,
                                            uint32_t band, const ct_bin *bins, size_t n_bins,
                                            const uint32_t *const triangles[2], ct_contact_sums *sums,
                                            ct_span_scratch *scratch, ct_budget *budget) {
    ct_set_band_extent(rays, window, bands, band, bins, n_bins);
    struct large_band c;
    c.rays = rays;
    c.n = 0;
    if (!collect(&c, window, bands, band, bins, n_bins)) return CT_LARGE_NOT_APPLICABLE;
    c.scratch = scratch;
    c.budget = budget;
    c.total = 0;
    sort(&c);
    accumulator_start(&c.accumulator, rays, triangles, sums);
    rays->n_fragments = 0;
    if (!ct_buffer_reserve(&scratch->ray, budget, RAY_BYTES, 0, false)) return CT_LARGE_FAILED;
    bool ok = true;
    for (int32_t row = 0; row < rays->rows && ok; row += ROWS_AT_ONCE) ok = walk_rows(&c, row);
    flush_sums(&c);
    flush_contributions(&c.accumulator);
    sums->length[rays->view] += c.total;
    return ok ? CT_LARGE_DONE : CT_LARGE_FAILED;
}

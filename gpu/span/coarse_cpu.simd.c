/* coarse_cpu.simd.c - bands that few triangles cover, from triangles to sums at once.
 *
 * Large triangles cover runs of samples in a row. Where such runs begin or end the row is cut into stretches, and along
 * a stretch all rays cross the same triangles: there is no list to be made for each of them, and four rays are walked
 * at a time. What they do is exactly what the raster and span stages would have done one after the other.
 */
#include "gpu/raster/edge.h"
#include "gpu/raster/lanes.h"
#include "gpu/span/walk.h"

/* No more triangles than this in a band, and so many samples for each. */
enum { MOST = 64, SAMPLES_EACH = 16 };

/* What a triangle bounds from one side. */
struct tally {
    int64_t n;
    ct_v4l l1, l2; /* four sums each */
};

/* A triangle on the band. */
struct piece {
    ct_setup setup;
    struct edge edge[3]; /* at the row looked at, as e1 and e2 */
    int64_t e1, e2;
    struct extent x;
    uint32_t tag;
    int32_t begin, end; /* samples of the row that it covers */
    struct tally tally[2];
};

struct coarse {
    struct sink sink;
    ct_ray_lists *rays;
    ct_span_scratch *scratch;
    ct_budget *budget;
    verdicts verdicts[2];
    size_t n;
    uint32_t n_row; /* pieces of the row: */
    struct piece *row[MOST];
    int64_t total;
    struct piece pieces[MOST];
};

static inline int body_of_piece(const struct piece *p) {
    return (int)(p->tag >> 31);
}

/* Bit OUT or IN. */
static inline int way_of(const struct piece *p) {
    return p->setup.ccw < 0 ? IN : OUT;
}

/* ---- triangles to pieces ---- */

/* False: there is one before the window, which would have to be counted. */
static bool add_piece(struct coarse *c, const ct_window *window, const ct_placed *placed, uint32_t triangle) {
    const ct_ray_lists *rays = c->rays;
    const int w = rays->view;
    const ct_lattice *lu = &window->axis[ct_view_u(w)], *lv = &window->axis[ct_view_v(w)];
    const uint32_t *k = placed->triangles + 3 * (size_t)triangle;
    const int32_t *const q[3] = {placed->coords[k[0]], placed->coords[k[1]], placed->coords[k[2]]};
    if (placed->entry[w] == CT_ENTRY_COUNTED && max3(q[0][w], q[1][w], q[2][w]) < window->axis[w].lo) return false;
    struct piece *p = &c->pieces[c->n];
    p->x = extent_of(q, lu, lv, w, rays->first_row, rays->rows);
    if (!setup_of(&p->setup, q, lu, lv, w, p->x)) return true;
    edges_of(&p->setup, p->edge);
    p->e1 = p->setup.edge[1];
    p->e2 = p->setup.edge[2];
    p->tag = placed->body << 31 | triangle;
    memset(p->tally, 0, sizeof p->tally);
    c->n++;
    return true;
}

static bool collect(struct coarse *c, const ct_window *window, uint32_t band, const ct_bin *bins, size_t n_bins) {
    size_t n = 0;
    for (size_t i = 0; i < n_bins; i++) n += bins[i].offset[2 * band + 2] - bins[i].offset[2 * band];
    if (n > MOST || SAMPLES_EACH * n > (size_t)c->rays->rows * (size_t)c->rays->columns) return false;
    for (size_t i = 0; i < n_bins; i++)
        for (uint32_t e = bins[i].offset[2 * band]; e < bins[i].offset[2 * band + 2]; e++)
            if (!add_piece(c, window, bins[i].placed, bins[i].entries[e])) return false;
    return true;
}

/* ---- a stretch of a row ---- */

/* One ray of a stretch, by the walk for any ray. */
static bool walk_sample(struct coarse *c, struct piece *const *active, uint32_t n, int32_t column) {
    ct_linked_fragment fragments[MOST];
    for (uint32_t i = 0; i < n; i++) {
        const struct piece *p = active[i];
        int64_t at = column - p->x.u0;
        fragments[i].f = ct_fragment_at(&p->setup, (double)(p->e1 + at * p->setup.step_u[1]),
                                        (double)(p->e2 + at * p->setup.step_u[2]), p->tag);
        fragments[i].next = i ? i - 1 : CT_END;
    }
    uint32_t head = n - 1;
    ct_ray_lists one = *c->rays;
    one.head = &head;
    one.fragments = fragments;
    one.winding = NULL;
    return walk_ray(&c->sink, &one, 0, c->scratch, c->budget, false, &c->total);
}

/* Four fragments of a piece. */
struct four {
    ct_v4i key, l1, l2;
};

/* A piece's edge functions at four samples, and their change to the next four. */
struct runner {
    ct_v4l e1, e2, step1, step2;
};

static inline struct runner runner_at(const struct piece *p, int32_t column) {
    int64_t at = column - p->x.u0, u1 = p->setup.step_u[1], u2 = p->setup.step_u[2];
    return (struct runner){stepped(p->e1 + at * u1, u1), stepped(p->e2 + at * u2, u2), (ct_v4l){} + 4 * u1,
                           (ct_v4l){} + 4 * u2};
}

/* The same arithmetic as ct_fragment_at. */
static inline struct four fragments_of(const struct piece *p, struct runner *r) {
    const ct_setup *s = &p->setup;
    ct_v4d w1 = int64_to_double(r->e1) * s->inverse, w2 = int64_to_double(r->e2) * s->inverse;
    r->e1 += r->step1;
    r->e2 += r->step2;
    return (struct four){keys_of(v4i(s->z0 + CT_DEPTH_BIAS), w1 * s->dz1 + w2 * s->dz2, v4i(s->ccw < 0)),
                         round_v4d(w1 * (double)CT_WEIGHT_ONE), round_v4d(w2 * (double)CT_WEIGHT_ONE)};
}

static inline void add_four(struct tally *t, const struct four *f, ct_v4i lanes) {
    t->n += __builtin_popcount(bits_v4i(lanes));
    t->l1 += ct_v4l_of_v4i(f->l1 & lanes);
    t->l2 += ct_v4l_of_v4i(f->l2 & lanes);
}

/* Samples [from, to), at which each body is crossed at most once outwards and once inwards: crossed[2 * body + way], or
 * NULL. (See walk_simple.) */
static bool walk_simply(struct coarse *c, struct piece *const crossed[4], struct piece *const *active, uint32_t n,
                        int32_t from, int32_t to) {
    const ct_v4i index = {0, 1, 2, 3}, none[2] = {v4i(INT32_MAX), v4i(0)}; /* out after all, in before all */
    struct runner runner[4] = {0};
    for (int k = 0; k < 4; k++)
        if (crossed[k]) runner[k] = runner_at(crossed[k], from);
    ct_v4l total = {0};
    for (int32_t column = from; column < to; column += 4) {
        struct four f[4];
        for (int k = 0; k < 4; k++)
            if (crossed[k])
                f[k] = fragments_of(crossed[k], &runner[k]);
            else
                f[k].key = none[k & 1];
        ct_v4i lanes = index < to - column;
        ct_v4i other = (f[IN].key > f[OUT].key) | (f[2 + IN].key > f[2 + OUT].key) | (f[IN].key == f[2 + IN].key) |
                       (f[OUT].key == f[2 + OUT].key);
        for (unsigned left = bits_v4i(other & lanes); left; left &= left - 1)
            if (!walk_sample(c, active, n, column + __builtin_ctz(left))) return false;
        ct_v4i lower = max_v4i(f[IN].key, f[2 + IN].key), upper = min_v4i(f[OUT].key, f[2 + OUT].key);
        lanes &= ~other & (lower < upper);
        if (!bits_v4i(lanes)) continue;
        total += ct_v4l_of_v4i(((upper >> 1) - (lower >> 1)) & lanes);
        for (int k = 0; k < 4; k++)
            if (crossed[k])
                add_four(&crossed[k]->tally[k & 1 ? LOWER : UPPER], &f[k],
                         lanes & (f[k].key == (k & 1 ? lower : upper)));
    }
    c->total += total[0] + total[1] + total[2] + total[3];
    return true;
}

static bool walk_stretch(struct coarse *c, struct piece *const *active, uint32_t n, int32_t from, int32_t to) {
    struct piece *crossed[4] = {NULL, NULL, NULL, NULL};
    uint32_t have = 0, bodies[2] = {0, 0};
    bool twice = false;
    for (uint32_t i = 0; i < n; i++) {
        int body = body_of_piece(active[i]), slot = 2 * body + way_of(active[i]);
        twice = twice || have >> slot & 1;
        have |= 1u << slot;
        crossed[slot] = active[i];
        bodies[body]++;
    }
    /* What the raster stage would have kept: the second body's only on rays that the first is on. */
    uint32_t first = bodies[c->rays->first_body];
    c->rays->n_fragments += (uint32_t)(to - from) * (first ? n : 0);
    uint32_t verdict = c->verdicts[0] >> (8 * (have & 3)) | c->verdicts[1] >> (8 * (have >> 2));
    if (verdict & NEVER_INSIDE) return true;
    if (!twice && !(verdict & IS_OTHER)) return walk_simply(c, crossed, active, n, from, to);
    for (int32_t column = from; column < to; column++)
        if (!walk_sample(c, active, n, column)) return false;
    return true;
}

/* ---- rows ---- */

/* The pieces of a row, and what they cover of it; they move on to the next. */
static void cut_row(struct coarse *c, int32_t v) {
    c->n_row = 0;
    for (size_t i = 0; i < c->n; i++) {
        struct piece *p = &c->pieces[i];
        if (v < p->x.v0 || v >= p->x.v1) continue;
        int64_t n = p->x.u1 - p->x.u0, begin = 0, end = n;
        for (int k = 0; k < 3; k++) clip(&p->edge[k], n, &begin, &end);
        p->begin = p->x.u0 + (int32_t)begin;
        p->end = p->x.u0 + (int32_t)end;
        if (begin < end) c->row[c->n_row++] = p;
    }
}

static void next_row(struct coarse *c, int32_t v) {
    for (size_t i = 0; i < c->n; i++) {
        struct piece *p = &c->pieces[i];
        if (v < p->x.v0 || v >= p->x.v1) continue;
        for (int k = 0; k < 3; k++) p->edge[k].row += p->setup.step_v[k];
        p->e1 += p->setup.step_v[1];
        p->e2 += p->setup.step_v[2];
    }
}

static bool walk_row(struct coarse *c) {
    struct piece *active[MOST];
    for (int32_t from = 0, to; from < INT32_MAX; from = to) {
        uint32_t n = 0;
        to = INT32_MAX;
        for (uint32_t i = 0; i < c->n_row; i++) {
            struct piece *p = c->row[i];
            if (from >= p->end) continue;
            int32_t next = from < p->begin ? p->begin : p->end;
            if (from >= p->begin) active[n++] = p;
            if (next < to) to = next;
        }
        if (n && !walk_stretch(c, active, n, from, to)) return false;
    }
    return true;
}

/* What pieces have tallied up goes to their corners. */
static void flush_tallies(struct coarse *c) {
    for (size_t i = 0; i < c->n; i++)
        for (int side = LOWER; side <= UPPER; side++) {
            const struct piece *p = &c->pieces[i];
            const struct tally *t = &p->tally[side];
            flush(&c->sink, side, ALONE);
            c->sink.pending[side][ALONE] = (struct pending){p->tag, t->n, t->l1[0] + t->l1[1] + t->l1[2] + t->l1[3],
                                                            t->l2[0] + t->l2[1] + t->l2[2] + t->l2[3]};
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
    c.sink = sink_of(rays, triangles, sums);
    for (int b = 0; b < 2; b++) c.verdicts[b] = rays->entry[b] == CT_ENTRY_LISTED ? LISTED : verdicts_of(0);
    rays->n_fragments = 0;
    if (!ct_buffer_reserve(&scratch->ray, budget, RAY_BYTES, 0, false)) return CT_COARSE_FAILED;
    bool ok = true;
    for (int32_t v = rays->first_row; v < rays->first_row + rays->rows && ok; v++) {
        cut_row(&c, v);
        ok = walk_row(&c);
        next_row(&c, v);
    }
    flush_tallies(&c);
    flush_all(&c.sink);
    sums->length[rays->view] += c.total;
    return ok ? CT_COARSE_DONE : CT_COARSE_FAILED;
}

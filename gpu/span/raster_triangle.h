/* raster_triangle.h - a large triangle on a band: which samples of its rows it covers, where it lies in depth, and the
 * sums over runs of its samples; for *.simd.c files.
 *
 * All that is linear over the band is kept as doubles that hold integers, in units of 2^m, m being the smaller of both
 * lattices' shifts: from sample to sample everything changes by multiples of that, so it is stepped exactly. What a
 * value has below 2^m is the same at all samples, and an edge function becomes the double that it is rounded to by
 * adding it.
 */
#ifndef CT_RASTER_TRIANGLE_H
#define CT_RASTER_TRIANGLE_H

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "gpu/raster/edge.h"
#include "gpu/raster/lanes.h"

/* at + column * du + row * dv; rows count from the band's first. */
struct linear {
    double at, du, dv;
};

static inline double linear_at(struct linear l, double column, double row) {
    return l.at + row * l.dv + column * l.du;
}

/* On four rows. */
static inline ct_v4d linear_on_rows(struct linear l, double column, double row) {
    const ct_v4d ramp = {0, 1, 2, 3};
    return l.at + (row + ramp) * l.dv + column * l.du;
}

/* The largest that it, or any part of it, gets. */
static inline double linear_most(struct linear l, double columns, double rows) {
    return fabs(l.at) + columns * fabs(l.du) + rows * fabs(l.dv);
}

/* An edge that crosses rows: covers the samples at which e is not negative. */
struct cut {
    struct linear e;
    double slope, inverse; /* |e.du|, and 1 over it */
};

/* Sums over samples. They wrap: each term has the bits of CT_ROUND_MAGIC in it until they are taken off. */
struct bound_sums {
    int64_t n;
    ct_v4u depth, l1, l2; /* four each; the depth relative to setup.z0 */
};

enum { ROWS_AT_ONCE = 4 };

struct raster_triangle {
    struct bound_sums sums, shared; /* where it alone bounds spans, and where one of the other body does as well */
    struct cut left, right, other;  /* of the third edge it depends which it is */
    bool other_is_left;
    uint32_t tag;
    uint8_t facing;          /* the user's */
    struct linear weight[2]; /* edge functions 1 and 2, but for: */
    ct_v4d rest[2];          /* the same in all lanes, as all of these: */
    ct_v4d step[2];          /* weight[].du */
    ct_v4d scale;            /* makes weights of edge functions, in units of CT_WEIGHT_ONE */
    ct_v4d dz[2];            /* depth for each unit of these */
    struct linear depth;     /* within 1/8 of what it really is; NaN: not known well enough */
    bool flat;               /* at one depth: exactly depth.at */
    struct extent x;
    ct_triangle_setup setup; /* at sample 0 of the band's first row */
};

/* ---- making one ---- */

/* Edge function k less `off`, rounded down to units of 2^m. */
static inline struct linear whole_of(const ct_triangle_setup *s, int k, int64_t off, int m) {
    return (struct linear){(double)((s->edge[k] - off) >> m), (double)(s->step_u[k] >> m), (double)(s->step_v[k] >> m)};
}

/* whole: the edge functions, less 1 where a sample on the edge is outside. */
static inline void setup_cuts(struct raster_triangle *p, const struct linear whole[3], int32_t columns) {
    const double beyond = columns + 1;
    bool have_left = false, have_right = false;
    p->other = (struct cut){{beyond, -1, 0}, 1, 1}; /* unless there is a third: cuts nothing off */
    p->other_is_left = false;
    for (int k = 0; k < 3; k++) {
        /* One that lies along the rows cuts none of those that the triangle extends over. */
        if (whole[k].du == 0) continue;
        struct cut cut = {.e = whole[k], .slope = fabs(whole[k].du)};
        cut.inverse = 1 / cut.slope;
        bool left = cut.e.du > 0;
        if (left ? have_left : have_right) {
            p->other = cut;
            p->other_is_left = left;
        } else if (left) {
            p->left = cut;
            have_left = true;
        } else {
            p->right = cut;
            have_right = true;
        }
    }
}

static inline ct_v4d v4d(double x) {
    return (ct_v4d){x, x, x, x};
}

static inline void setup_weights(struct raster_triangle *p, const struct linear whole[3], int m) {
    const ct_triangle_setup *s = &p->setup;
    const double unit = (double)((int64_t)1 << m);
    for (int k = 0; k < 2; k++) {
        p->weight[k] = (struct linear){(double)(s->edge[k + 1] >> m), whole[k + 1].du, whole[k + 1].dv};
        p->rest[k] = v4d((double)(s->edge[k + 1] & (((int64_t)1 << m) - 1)) / unit);
        p->step[k] = v4d(p->weight[k].du);
    }
    p->scale = v4d(s->inverse * unit * (double)CT_WEIGHT_ONE);
    p->dz[0] = v4d(s->dz1 / (double)CT_WEIGHT_ONE);
    p->dz[1] = v4d(s->dz2 / (double)CT_WEIGHT_ONE);
}

/* Ten roundings or so, of parts that are no larger than `most`. */
static inline void setup_depth(struct raster_triangle *p, double columns, double rows) {
    const double most = 0x1p46;
    const ct_triangle_setup *s = &p->setup;
    double dz1 = s->dz1 * s->inverse, dz2 = s->dz2 * s->inverse, z0 = s->z0;
    struct linear a = {(double)s->edge[1] * dz1, (double)s->step_u[1] * dz1, (double)s->step_v[1] * dz1};
    struct linear b = {(double)s->edge[2] * dz2, (double)s->step_u[2] * dz2, (double)s->step_v[2] * dz2};
    p->depth = (struct linear){z0 + a.at + b.at, a.du + b.du, a.dv + b.dv};
    p->flat = dz1 == 0 && dz2 == 0;
    if (fabs(z0) + linear_most(a, columns, rows) + linear_most(b, columns, rows) > most) p->depth.at = NAN;
}

enum setup_result { SETUP_OK, SETUP_COVERS_NONE, SETUP_NOT_EXACT };

/* q: its corners. Everything but tag and kind; SETUP_NOT_EXACT: something grows too large on so many samples. */
static inline enum setup_result setup_raster_triangle(struct raster_triangle *p, const int32_t *const q[3],
                                                      const ct_lattice *lu, const ct_lattice *lv, int w,
                                                      int32_t first_row, int32_t rows) {
    const double exact = 0x1p50, columns = lu->n;
    const int m = lu->shift < lv->shift ? lu->shift : lv->shift;
    p->x = extent_of(q, lu, lv, w, first_row, rows);
    if (!setup_of(&p->setup, q, lu, lv, w, (struct extent){.u0 = 0, .v0 = first_row})) return SETUP_COVERS_NONE;
    if (p->x.u0 >= p->x.u1 || p->x.v0 >= p->x.v1) return SETUP_COVERS_NONE;
    struct linear whole[3];
    for (int k = 0; k < 3; k++) {
        whole[k] = whole_of(&p->setup, k, !ct_edge_inside(&p->setup, k), m);
        if (linear_most(whole[k], columns + 4, rows + ROWS_AT_ONCE) > exact) return SETUP_NOT_EXACT;
    }
    setup_cuts(p, whole, lu->n);
    setup_weights(p, whole, m);
    setup_depth(p, columns, rows);
    memset(&p->sums, 0, sizeof p->sums);
    memset(&p->shared, 0, sizeof p->shared);
    return SETUP_OK;
}

/* ---- rows ---- */

/* How many samples beyond sample 0 an edge is crossed, rounded down. The quotient is off by less than 3/4 when it has
 * been rounded to an integer, and what is left of a division by that tells on which side. */
static inline ct_v4d crossed_at(const struct cut *cut, ct_v4d rows) {
    ct_v4d e = cut->e.at + rows * cut->e.dv;
    ct_v4d i = (e * cut->inverse + CT_ROUND_MAGIC) - CT_ROUND_MAGIC;
    ct_v4l over = e - i * cut->slope < 0;
    return i - (ct_v4d)(over & (ct_v4l)v4d(1));
}

/* The samples it covers of row `row` and those after it, from begins up to but without ends. */
static inline void cover_rows(const struct raster_triangle *p, int32_t first_row, int32_t row, ct_v4i *begins,
                              ct_v4i *ends) {
    const ct_v4d ramp = {0, 1, 2, 3};
    const ct_v4i index = {0, 1, 2, 3};
    ct_v4d rows = (double)row + ramp, begin = v4d(p->x.u0), end = v4d(p->x.u1), other = crossed_at(&p->other, rows);
    begin = max_v4d(begin, -crossed_at(&p->left, rows));
    end = min_v4d(end, crossed_at(&p->right, rows) + 1);
    if (p->other_is_left)
        begin = max_v4d(begin, -other);
    else
        end = min_v4d(end, other + 1);
    begin = min_v4d(begin, v4d(p->x.u1)); /* for the conversion */
    end = max_v4d(end, v4d(0));
    ct_v4i at = index + (first_row + row), on = (at >= p->x.v0) & (at < p->x.v1);
    *begins = ct_v4i_of_v4d(begin);
    *ends = ct_v4i_of_v4d(end) & on;
}

/* ---- sums ---- */

/* A column of samples, going down columns. Scaled by powers of two here and there, this is the arithmetic of
 * ct_fragment_at. Weights are halved where bodies share a bound, as ct_bound_weights has it. */
static inline void sum_column(struct bound_sums *t, const struct raster_triangle *p, ct_v4d *e1, ct_v4d *e2, ct_v4u on,
                              int shared) {
    const ct_v4d w1 = (*e1 + p->rest[0]) * p->scale, w2 = (*e2 + p->rest[1]) * p->scale;
    t->l1 += (ct_v4u)(w1 + CT_ROUND_MAGIC) >> shared & on;
    t->l2 += (ct_v4u)(w2 + CT_ROUND_MAGIC) >> shared & on;
    t->depth += (ct_v4u)(w1 * p->dz[0] + w2 * p->dz[1] + CT_ROUND_MAGIC) & on;
    *e1 -= p->step[0];
    *e2 -= p->step[1];
}

/* The columns that all four rows have, if they are many and lie in a row; else none: last < 0. */
static inline void full_columns(ct_v4u which, int *first, int *last) {
    enum { MANY = 16 };
    const uint64_t all = which[0] & which[1] & which[2] & which[3];
    *last = -1;
    if (__builtin_popcountll(all) < MANY || all & (all + (all & -all))) return;
    *first = __builtin_ctzll(all);
    *last = 63 - __builtin_clzll(all);
}

/* Adds samples of four rows from `row` on, all of which it covers: a lane for each row, bits of which the lowest is at
 * `column`. */
static inline void sum_rows(struct bound_sums *sums, const struct raster_triangle *p, int32_t row, int32_t column,
                            ct_v4u which, int shared) {
    const uint64_t any = which[0] | which[1] | which[2] | which[3];
    if (!any) return;
    const int first = __builtin_ctzll(any), last = 63 - __builtin_clzll(any);
    int full_first, full_last, i = last;
    full_columns(which, &full_first, &full_last);
    ct_v4d e1 = linear_on_rows(p->weight[0], column + last, row), e2 = linear_on_rows(p->weight[1], column + last, row);
    struct bound_sums t = *sums;
    for (int r = 0; r < ROWS_AT_ONCE; r++) t.n += __builtin_popcountll(which[r]);
    which <<= 63 - last; /* the sample that is looked at is a lane's sign */
    if (full_last >= 0) {
        for (; i > full_last; i--, which <<= 1) sum_column(&t, p, &e1, &e2, (ct_v4u)((ct_v4l)which < 0), shared);
        for (; i >= full_first; i--) sum_column(&t, p, &e1, &e2, ~(ct_v4u){0}, shared);
        which = i < first ? which : which << (full_last - full_first + 1);
    }
    for (; i >= first; i--, which <<= 1) sum_column(&t, p, &e1, &e2, (ct_v4u)((ct_v4l)which < 0), shared);
    *sums = t;
}

/* What four sums of so many terms come to, without the bits of CT_ROUND_MAGIC. */
static inline int64_t bound_sum(int64_t n, ct_v4u four, int shared) {
    const union {
        double d;
        uint64_t u;
    } magic = {CT_ROUND_MAGIC};
    return (int64_t)(four[0] + four[1] + four[2] + four[3] - (uint64_t)n * (magic.u >> shared));
}

#endif

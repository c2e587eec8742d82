/* raster_triangle.h - a large triangle on a bin: which samples of its rows it covers, its depth, and sums over runs of
 * its samples; for *.simd.c files.
 *
 * All functions that are linear over the bin are kept as doubles that hold integers, in units of 2^m, where m is the
 * smaller of the tile's two pitch shifts. From sample to sample they change by multiples of 2^m, so stepping is exact.
 * All samples share the bits below 2^m: these are kept once, and adding them to a stepped value rounds an edge function
 * to double exactly as ct_fragment_at's caller does. */
#ifndef CT_RASTER_TRIANGLE_H
#define CT_RASTER_TRIANGLE_H

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "gpu/methods/ldi/edge.h"
#include "gpu/view/lanes.h"

/* at + column * du + row * dv; columns and rows count from the bin's first. */
struct linear {
    double at, du, dv;
};

/* At a column of four rows. */
static inline ct_v4d linear_on_rows(struct linear l, double column, double row) {
    const ct_v4d ramp = {0, 1, 2, 3};
    return l.at + (row + ramp) * l.dv + column * l.du;
}

/* An upper bound of its size, and of the size of every partial sum, over the bin. */
static inline double linear_bound(struct linear l, double columns, double rows) {
    return fabs(l.at) + columns * fabs(l.du) + rows * fabs(l.dv);
}

/* An edge that crosses rows. It covers the samples at which e is not negative. */
struct cut {
    struct linear e;
    double slope, inverse; /* |e.du|, and 1 / |e.du| */
};

/* Sums over the samples at which the triangle bounds spans. They wrap: each term carries the bits of CT_ROUND_MAGIC
 * until bound_sum removes them. */
struct bound_sums {
    int64_t n;
    ct_v4u depth, l1, l2; /* one per lane; the depth is relative to setup.z0 */
};

enum { ROWS_AT_ONCE = 4 };

struct raster_triangle {
    struct bound_sums alone, shared; /* where it bounds spans alone, and together with one of the other body */
    struct cut left, right, other;   /* the third edge is another left or right one */
    bool other_is_left;
    uint32_t tag;
    uint8_t facing;          /* 2 * body + IN or OUT, set by the caller */
    struct linear weight[2]; /* edge functions 1 and 2 without the bits below 2^m, which are: */
    ct_v4d rest[2];          /* equal in all lanes, as are the following */
    ct_v4d step[2];          /* weight[].du */
    ct_v4d scale;            /* turns edge functions into weights, in units of CT_WEIGHT_ONE */
    ct_v4d dz[2];            /* depth per unit of weight */
    struct linear depth;     /* within 1/8 unit of the true depth; NaN: not known that well */
    bool is_flat;            /* of one depth, which is exactly depth.at */
    ct_sample_rect rect;     /* the bin's samples that it can cover */
    ct_triangle_setup setup; /* at the bin's first sample */
};

/* ---- set-up ---- */

/* Edge function k minus `off`, rounded down to units of 2^m. */
static inline struct linear whole_units_of(const ct_triangle_setup *s, int k, int64_t off, int m) {
    return (struct linear){(double)((s->edge[k] - off) >> m), (double)(s->step_u[k] >> m), (double)(s->step_v[k] >> m)};
}

/* edges: the edge functions, minus 1 where the fill rule excludes samples on the edge. */
static inline void setup_cuts(struct raster_triangle *t, const struct linear edges[3], int32_t columns) {
    const double beyond = columns + 1;
    bool has_left = false, has_right = false;
    t->other = (struct cut){{beyond, -1, 0}, 1, 1}; /* cuts nothing off, unless there is a third edge */
    t->other_is_left = false;
    for (int k = 0; k < 3; k++) {
        if (edges[k].du == 0) continue; /* along the rows: it cuts none of the rows that the triangle extends over */
        struct cut cut = {.e = edges[k], .slope = fabs(edges[k].du)};
        cut.inverse = 1 / cut.slope;
        const bool is_left = cut.e.du > 0;
        if (is_left ? has_left : has_right) {
            t->other = cut;
            t->other_is_left = is_left;
        } else if (is_left) {
            t->left = cut;
            has_left = true;
        } else {
            t->right = cut;
            has_right = true;
        }
    }
}

static inline ct_v4d v4d(double x) {
    return (ct_v4d){x, x, x, x};
}

static inline void setup_weights(struct raster_triangle *t, const struct linear edges[3], int m) {
    const ct_triangle_setup *s = &t->setup;
    const double unit = (double)((int64_t)1 << m);
    for (int k = 0; k < 2; k++) {
        t->weight[k] = (struct linear){(double)(s->edge[k + 1] >> m), edges[k + 1].du, edges[k + 1].dv};
        t->rest[k] = v4d((double)(s->edge[k + 1] & (((int64_t)1 << m) - 1)) / unit);
        t->step[k] = v4d(t->weight[k].du);
    }
    t->scale = v4d(s->inverse * unit * (double)CT_WEIGHT_ONE);
    t->dz[0] = v4d(s->dz1 / (double)CT_WEIGHT_ONE);
    t->dz[1] = v4d(s->dz2 / (double)CT_WEIGHT_ONE);
}

/* The error is about ten roundings of terms no larger than max_term: 10 * 2^(46 - 53) < 1/8. */
static inline void setup_depth(struct raster_triangle *t, double columns, double rows) {
    const double max_term = 0x1p46;
    const ct_triangle_setup *s = &t->setup;
    double dz1 = s->dz1 * s->inverse, dz2 = s->dz2 * s->inverse, z0 = s->z0;
    struct linear a = {(double)s->edge[1] * dz1, (double)s->step_u[1] * dz1, (double)s->step_v[1] * dz1};
    struct linear b = {(double)s->edge[2] * dz2, (double)s->step_u[2] * dz2, (double)s->step_v[2] * dz2};
    t->depth = (struct linear){z0 + a.at + b.at, a.du + b.du, a.dv + b.dv};
    t->is_flat = dz1 == 0 && dz2 == 0;
    if (fabs(z0) + linear_bound(a, columns, rows) + linear_bound(b, columns, rows) > max_term) t->depth.at = NAN;
}

enum setup_result { SETUP_OK, SETUP_COVERS_NONE, SETUP_NOT_EXACT };

/* Sets all fields except tag and facing; q: the corners. SETUP_NOT_EXACT: a value may exceed the integers that doubles
 * hold exactly. */
static inline enum setup_result setup_raster_triangle(struct raster_triangle *t, const int32_t *const q[3],
                                                      const ct_bin *bin) {
    const double exact = 0x1p50, columns = bin->columns, rows = bin->rows;
    const ct_tile *tile = &bin->of->tile;
    const int m = tile->shift_u < tile->shift_v ? tile->shift_u : tile->shift_v;
    t->rect = bin_rect_of(q, bin);
    if (!setup_in_bin(&t->setup, q, bin, 0, 0)) return SETUP_COVERS_NONE;
    if (t->rect.u0 >= t->rect.u1 || t->rect.v0 >= t->rect.v1) return SETUP_COVERS_NONE;
    struct linear edges[3];
    for (int k = 0; k < 3; k++) {
        edges[k] = whole_units_of(&t->setup, k, !ct_edge_inside(&t->setup, k), m);
        if (linear_bound(edges[k], columns + 4, rows + ROWS_AT_ONCE) > exact) return SETUP_NOT_EXACT;
    }
    setup_cuts(t, edges, bin->columns);
    setup_weights(t, edges, m);
    setup_depth(t, columns, rows);
    memset(&t->alone, 0, sizeof t->alone);
    memset(&t->shared, 0, sizeof t->shared);
    return SETUP_OK;
}

/* ---- rows ---- */

/* The number of samples between sample 0 and the point where the edge is crossed, rounded down, on four rows. The
 * rounded quotient is off by less than 3/4; the remainder of the division shows on which side. */
static inline ct_v4d crossed_at(const struct cut *cut, ct_v4d rows) {
    ct_v4d e = cut->e.at + rows * cut->e.dv;
    ct_v4d i = (e * cut->inverse + CT_ROUND_MAGIC) - CT_ROUND_MAGIC;
    ct_v4l over = e - i * cut->slope < 0;
    return i - (ct_v4d)(over & (ct_v4l)v4d(1));
}

/* The samples [begins, ends) that it covers of ROWS_AT_ONCE rows from `row` on. */
static inline void cover_rows(const struct raster_triangle *t, int32_t row, ct_v4i *begins, ct_v4i *ends) {
    const ct_v4d ramp = {0, 1, 2, 3};
    const ct_v4i index = {0, 1, 2, 3};
    ct_v4d rows = (double)row + ramp, begin = v4d(t->rect.u0), end = v4d(t->rect.u1);
    ct_v4d other = crossed_at(&t->other, rows);
    begin = max_v4d(begin, -crossed_at(&t->left, rows));
    end = min_v4d(end, crossed_at(&t->right, rows) + 1);
    if (t->other_is_left)
        begin = max_v4d(begin, -other);
    else
        end = min_v4d(end, other + 1);
    begin = min_v4d(begin, v4d(t->rect.u1)); /* within the range of the conversion */
    end = max_v4d(end, v4d(0));
    ct_v4i at = index + row, on = (at >= t->rect.v0) & (at < t->rect.v1);
    *begins = ct_v4i_of_v4d(begin);
    *ends = ct_v4i_of_v4d(end) & on;
}

/* ---- sums ---- */

/* Adds one column of samples and steps to the column before it. Scaled by powers of two in places, this is the
 * arithmetic of ct_fragment_at. is_shared: weights are halved, as in ct_bound_weights. */
static inline void sum_column(struct bound_sums *sums, const struct raster_triangle *t, ct_v4d *e1, ct_v4d *e2,
                              ct_v4u on, int is_shared) {
    const ct_v4d w1 = (*e1 + t->rest[0]) * t->scale, w2 = (*e2 + t->rest[1]) * t->scale;
    sums->l1 += (ct_v4u)(w1 + CT_ROUND_MAGIC) >> is_shared & on;
    sums->l2 += (ct_v4u)(w2 + CT_ROUND_MAGIC) >> is_shared & on;
    sums->depth += (ct_v4u)(w1 * t->dz[0] + w2 * t->dz[1] + CT_ROUND_MAGIC) & on;
    *e1 -= t->step[0];
    *e2 -= t->step[1];
}

/* The columns [*first, *last] that all four rows have, if they are many and contiguous; else *last < 0. */
static inline void full_columns(ct_v4u which, int *first, int *last) {
    enum { MANY = 16 };
    const uint64_t all = which[0] & which[1] & which[2] & which[3];
    *last = -1;
    if (__builtin_popcountll(all) < MANY || all & (all + (all & -all))) return;
    *first = __builtin_ctzll(all);
    *last = 63 - __builtin_clzll(all);
}

/* Adds samples of four rows from `row` on, all of which it covers: one lane per row, whose lowest bit is `column`. */
static inline void sum_rows(struct bound_sums *sums, const struct raster_triangle *t, int32_t row, int32_t column,
                            ct_v4u which, int is_shared) {
    const uint64_t any = which[0] | which[1] | which[2] | which[3];
    if (!any) return;
    const int first = __builtin_ctzll(any), last = 63 - __builtin_clzll(any);
    int full_first, full_last, i = last;
    full_columns(which, &full_first, &full_last);
    ct_v4d e1 = linear_on_rows(t->weight[0], column + last, row), e2 = linear_on_rows(t->weight[1], column + last, row);
    struct bound_sums s = *sums;
    for (int r = 0; r < ROWS_AT_ONCE; r++) s.n += __builtin_popcountll(which[r]);
    which <<= 63 - last; /* the current sample is the lane's sign bit */
    if (full_last >= 0) {
        for (; i > full_last; i--, which <<= 1) sum_column(&s, t, &e1, &e2, (ct_v4u)((ct_v4l)which < 0), is_shared);
        for (; i >= full_first; i--) sum_column(&s, t, &e1, &e2, ~(ct_v4u){0}, is_shared);
        which = i < first ? which : which << (full_last - full_first + 1);
    }
    for (; i >= first; i--, which <<= 1) sum_column(&s, t, &e1, &e2, (ct_v4u)((ct_v4l)which < 0), is_shared);
    *sums = s;
}

/* The total of four lanes' sums of n terms, without the bits of CT_ROUND_MAGIC. */
static inline int64_t bound_sum(int64_t n, ct_v4u four, int is_shared) {
    const union {
        double d;
        uint64_t u;
    } magic = {CT_ROUND_MAGIC};
    return (int64_t)(four[0] + four[1] + four[2] + four[3] - (uint64_t)n * (magic.u >> is_shared));
}

#endif

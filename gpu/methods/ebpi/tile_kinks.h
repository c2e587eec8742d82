/* tile_kinks.h - the error that edges and crossing surfaces cause over a tile: the strict bound (tile_bound.h), and the
 * published one, four edges at a time. For tile_cpu.simd.c. */
#ifndef CT_EBPI_TILE_KINKS_H
#define CT_EBPI_TILE_KINKS_H

#include "gpu/methods/ebpi/edge_k.h"
#include "gpu/methods/ebpi/tile_faces.h"

/* fmin and fmax of two numbers, without a call. */
static double lesser(double a, double b) {
    return a < b ? a : b;
}

static double greater(double a, double b) {
    return a > b ? a : b;
}

static int32_t larger_of(int32_t a, int32_t b) {
    return a > b ? a : b;
}

static int32_t smaller_of(int32_t a, int32_t b) {
    return a < b ? a : b;
}

static const double DEPTH_SCALE = (1 + 0x1p-40) * (1 << CT_EBPI_DEPTH_BITS);

static void add_depth(struct tile_faces *t, double depth) {
    t->kinks += 1 + (int64_t)(depth * DEPTH_SCALE);
}

/* ---- the error bound polynomial ---- */

/* Adds four edges: ct_ebpi_spread_terms and ct_ebpi_add_terms. counts: lanes that are added. drop, narrow >= 0. */
static inline __attribute__((always_inline)) void add_terms(struct tile_faces *t, ct_v4l counts, ct_v4d x, ct_v4d y,
                                                            ct_v4d drop, ct_v4d narrow) {
    const ct_v4l is_case1 = y >= x;
    const ct_v4d none = v4d(0), more = choose(is_case1, y, x), less = choose(is_case1, x, y);
    const ct_v4d ratio = choose(more > 0.0, less / more, none), slant = ratio * ratio * (1.0 / 24);
    const ct_v4d a = drop * more, b = drop * less, straight = a * 0.125, slanted = a * slant, far = b * slant;
    const ct_v4d middle = b * 0.125, along_h = narrow * x * 0.5, along_w = narrow * y * 0.5;
    /* Cut off far above what depths can be. */
    const ct_v4d most = v4d(0x1p50), scale = v4d(1 << CT_EBPI_DEPTH_BITS);
    const ct_v4l whole_straight = whole_part(min_v4d(straight * scale, most)) & counts;
    const ct_v4l whole_slanted = whole_part(min_v4d(slanted * scale, most)) & counts;
    const ct_v4l whole_far = whole_part(min_v4d(far * scale, most)) & counts;
    t->term[CT_EBPI_W2] += (is_case1 & whole_straight) | (~is_case1 & whole_slanted);
    t->term[CT_EBPI_H2] += (is_case1 & whole_slanted) | (~is_case1 & whole_straight);
    t->term[CT_EBPI_WH] += whole_part(min_v4d(middle * scale, most)) & counts;
    t->term[CT_EBPI_H3_BY_W] += is_case1 & whole_far;
    t->term[CT_EBPI_W3_BY_H] += ~is_case1 & whole_far;
    ct_v4d sum = choose(is_case1, straight, slanted) + choose(is_case1, slanted, straight) + middle + far;
    if (sign_bits(narrow > 0.0)) {
        t->term[CT_EBPI_H] += whole_part(min_v4d(along_h * scale, most)) & counts;
        t->term[CT_EBPI_W] += whole_part(min_v4d(along_w * scale, most)) & counts;
        sum += along_h;
        sum += along_w;
    }
    const ct_v4d weight = min_v4d(sum * scale, most) / (x + y);
    t->along[0] += whole_part(x * weight) & counts & (x > 0.0);
    t->along[1] += whole_part(y * weight) & counts & (y > 0.0);
}

static void add_lanes(struct tile_faces *t) {
    for (int k = 0; k < CT_EBPI_TERMS; k++) t->polynomial->term[k] += sum_of(t->term[k]);
    t->polynomial->along_u += sum_of(t->along[0]);
    t->polynomial->along_v += sum_of(t->along[1]);
}

/* One edge. */
static void add_steps(struct tile_faces *t, double x, double y, double drop, double narrow) {
    double term[CT_EBPI_TERMS];
    ct_ebpi_spread_terms(x, y, drop, narrow, term);
    ct_ebpi_add_terms(t->polynomial, term, x, y);
}

/* Adds where faces i and j of the two bodies cross somewhere in r: a line through its middle. */
static void add_crossing_terms(struct tile_faces *t, uint32_t i, uint32_t j, const ct_ebpi_rect *r) {
    const double wide = (double)r->u1 - (double)r->u0, high = (double)r->v1 - (double)r->v0;
    double lu = wide, lv = high, u = 0, v = 0, narrow = 0;
    const uint32_t face[2] = {i, j};
    if (!isnan(t->slope[0][i]) && !isnan(t->slope[0][j])) {
        u = fabs(t->slope[0][i] - t->slope[0][j]);
        v = fabs(t->slope[1][i] - t->slope[1][j]);
        if (v * high > u * wide) /* it leaves r at the ends of u */
            lv = wide * (u / v);
        else
            lu = u > 0 ? high * (v / u) : 0;
    }
    if (t->is_jump[i] || t->is_jump[j]) {
        u = v = 0;
        for (int k = 0; k < 2; k++) {
            const uint32_t f = face[k];
            narrow += t->is_jump[f] ? (double)t->inside[f] : 0;
            u += t->is_jump[f] ? 0 : fabs(t->slope[0][f]);
            v += t->is_jump[f] ? 0 : fabs(t->slope[1][f]);
        }
    }
    const double x = lu / t->width, y = lv / t->height;
    add_steps(t, x, y, y >= x ? u * t->width : v * t->height, narrow);
}

/* ---- kinks ---- */

static const double PI = 3.14159265358979323846;

/* Bounds the angle under which the tile's centre sees a segment in a rectangle. */
static double angle_of(const struct tile_faces *t, const ct_ebpi_rect *r) {
    const double left = (double)r->u0 - t->center[0], right = t->center[0] - (double)r->u1;
    const double below = (double)r->v0 - t->center[1], above = t->center[1] - (double)r->v1;
    const double du = greater(greater(left, right), 0), dv = greater(greater(below, above), 0);
    const double wide = (double)r->u1 - (double)r->u0, high = (double)r->v1 - (double)r->v0;
    const double distance = du * du + dv * dv, size = wide * wide + high * high;
    /* 2 asin(D / 2r) <= pi / 3 * D / r for D <= r */
    return size < distance ? PI / 3 * sqrt(size / distance) : PI;
}

/* Adds the mean over the tile of what lies beyond a kink inside the rectangle r. g: the jump of the slope. at_center:
 * the difference of the two planes at the centre, which is 0 along the kink; 0 where the slopes do not meet in a line.
 */
static void add_kink(struct tile_faces *t, ct_slope g, double at_center, const ct_ebpi_rect *r) {
    const double a = fabs(g.u) * t->width, b = fabs(g.v) * t->height, most = 0.5 * (a + b);
    const double larger = greater(a, b), less = lesser(a, b);
    if (larger == 0) return;
    const double off = greater(fabs(at_center) - 1, 0); /* a unit for the rounding of depths */
    if (off >= most) return;
    const double through = larger / 8 + less * less / (24 * larger);
    const double size = sqrt(g.u * g.u + g.v * g.v);
    const double cone = angle_of(t, r) * size * t->reach * t->reach * t->reach / (3 * t->width * t->height);
    add_depth(t, lesser(through, cone) * (1 - off / most));
}

/* Adds a boundary, inside r, of a face that counts as a jump. */
static void add_jump(struct tile_faces *t, uint32_t face, const ct_ebpi_rect *r) {
    const double cone = angle_of(t, r) * t->reach * t->reach / (2 * t->width * t->height);
    add_depth(t, lesser(0.5, cone) * (double)t->inside[face]);
}

/* Adds where face i passes into face j: at their common edge, or where they cross. */
static void add_passage(struct tile_faces *t, uint32_t i, uint32_t j, const ct_ebpi_rect *r) {
    const ct_slope si = {t->slope[0][i], t->slope[1][i]}, sj = {t->slope[0][j], t->slope[1][j]};
    if (!t->is_jump[i] && !t->is_jump[j]) {
        add_kink(t, (ct_slope){si.u - sj.u, si.v - sj.v}, t->at_center[i] - t->at_center[j], r);
        return;
    }
    if (t->is_jump[i])
        add_jump(t, i, r);
    else
        add_kink(t, si, 0, r);
    if (t->is_jump[j])
        add_jump(t, j, r);
    else
        add_kink(t, sj, 0, r);
}

/* ---- edges ---- */

static uint32_t hash_of(uint32_t tag) {
    return (tag * 2654435769u) >> 7;
}

/* Of the faces with depths in J. */
static void fill_slots(struct tile_faces *t) {
    memset(t->slots, 0, ((size_t)t->slot_mask + 1) * sizeof *t->slots);
    for (uint32_t i = 0; i < t->all; i++) {
        if (!t->inside[i]) continue;
        uint32_t at = hash_of(t->tag[i]) & t->slot_mask;
        while (t->slots[at]) at = (at + 1) & t->slot_mask;
        t->slots[at] = (uint64_t)t->tag[i] << 32 | (i + 1);
    }
}

/* 1 + the face of that tag; 0: it is not over the tile, or has no depths in J. */
static uint32_t find_face(const struct tile_faces *t, uint32_t tag) {
    uint32_t at = hash_of(tag) & t->slot_mask;
    uint64_t slot = t->slots[at];
    while (slot && slot >> 32 != tag) slot = t->slots[at = (at + 1) & t->slot_mask];
    return (uint32_t)slot;
}

/* An edge of face i, which is that of face j, too. */
struct edge {
    uint32_t i, j;
    size_t from, to; /* where tile_faces.corner[0] has its ends along u; along v, `stride` behind */
};

/* Corner k of faces i to i + 3. */
struct corners4 {
    ct_v4i u, v;
    ct_v4i is_in; /* in the tile */
};

static inline __attribute__((always_inline)) struct corners4 load_corners(const struct tile_faces *t, uint32_t i,
                                                                          int k) {
    const ct_v4i u = load_v4i(t->corner[k] + i), v = load_v4i(t->corner[k] + t->stride + i);
    return (struct corners4){u, v, (u >= t->rect.u0) & (u <= t->rect.u1) & (v >= t->rect.v0) & (v <= t->rect.v1)};
}

/* The lanes whose edge has an end in the tile, and those whose edge's extent meets it. */
struct edge_lanes {
    unsigned certain, in_box;
};

static inline __attribute__((always_inline)) struct edge_lanes
find_edges(const struct tile_faces *t, const struct corners4 *a, const struct corners4 *b) {
    const ct_v4i meets = (max_v4i(a->u, b->u) >= t->rect.u0) & (min_v4i(a->u, b->u) <= t->rect.u1) &
                         (max_v4i(a->v, b->v) >= t->rect.v0) & (min_v4i(a->v, b->v) <= t->rect.v1);
    return (struct edge_lanes){sign_bits_v4i(a->is_in | b->is_in), sign_bits_v4i(meets)};
}

/* ct_ebpi_is_beside_line: all corners of the rectangle are to the right of the line from a to b, or to the left. */
static inline __attribute__((always_inline)) unsigned find_beside(const struct tile_faces *t, const struct corners4 *a,
                                                                  const struct corners4 *b) {
    const ct_v4i u0 = v4i(t->rect.u0), u1 = v4i(t->rect.u1), v0 = v4i(t->rect.v0), v1 = v4i(t->rect.v1);
    const ct_v4l du = wide(b->u - a->u), dv = wide(b->v - a->v);
    const ct_v4l high0 = product(du, wide(v0 - a->v)), high1 = product(du, wide(v1 - a->v));
    const ct_v4l wide0 = product(dv, wide(u0 - a->u)), wide1 = product(dv, wide(u1 - a->u));
    const unsigned is_right = sign_bits((high0 - wide0) & (high0 - wide1) & (high1 - wide0) & (high1 - wide1));
    const unsigned is_left = sign_bits((wide0 - high0) & (wide1 - high0) & (wide0 - high1) & (wide1 - high1));
    return is_left | is_right;
}

/* Appends the edges of faces i to i + 3, each on the side of the face with the lower number, that the tile may hold
 * points of, between two faces with depths in J. At most twelve. */
static inline __attribute__((always_inline)) uint32_t append_edges(const struct tile_faces *t, uint32_t i,
                                                                   struct edge *to) {
    const unsigned faces =
        sign_bits_v4i(load_v4i(t->inside + i) > 0) & (t->all - i >= 4 ? 15u : (1u << (t->all - i)) - 1);
    unsigned found[3], open[3];
    uint32_t end[3], n = 0;
    uint64_t edge[12 + 4]; /* of each k: tag of the other face << 32 | face */
    if (!faces) return 0;
    const struct corners4 corner[3] = {load_corners(t, i, 0), load_corners(t, i, 1), load_corners(t, i, 2)};
    const ct_v4i tag = load_v4i((const int32_t *)t->tag + i);
    for (int k = 0; k < 3; k++) {
        const struct edge_lanes lanes = find_edges(t, &corner[k], &corner[(k + 1) % 3]);
        /* Both faces are of the same body: their tags have the same sign. */
        const unsigned lower = faces & sign_bits_v4i(load_v4i(t->opposite[k] + i) >= tag);
        found[k] = lower & lanes.certain;
        open[k] = lower & lanes.in_box & ~lanes.certain;
    }
    if (open[0] | open[1] | open[2])
        for (int k = 0; k < 3; k++) found[k] |= open[k] & ~find_beside(t, &corner[k], &corner[(k + 1) % 3]);
    const ct_v4u face = (ct_v4u)wide((int32_t)i + (ct_v4i){0, 1, 2, 3});
    for (uint32_t k = 0; k < 3; k++) {
        compress_store(edge + n, (ct_v4u)wide(load_v4i(t->opposite[k] + i)) << 32 | face, found[k]);
        n += count_lanes(found[k]);
        end[k] = n;
    }
    const size_t begin[4] = {0, 2 * t->stride, 4 * t->stride, 0}; /* of corners k; behind the last one the first */
    uint32_t n_found = 0;
    for (uint32_t e = 0; e < n; e++) { /* one loop, as processors cannot foresee how many edges each k has */
        const uint32_t found_at = find_face(t, (uint32_t)(edge[e] >> 32)), of = (uint32_t)edge[e];
        const uint32_t k = (e >= end[0]) + (e >= end[1]);
        to[n_found] = (struct edge){of, found_at - 1, begin[k] + of, begin[k + 1] + of};
        n_found += found_at > 0;
    }
    return n_found;
}

static void add_strict_edge(struct tile_faces *t, const struct edge *e) {
    const int32_t *a = t->corner[0] + e->from, *b = t->corner[0] + e->to;
    const size_t v = t->stride;
    const ct_ebpi_rect r = {
        larger_of(smaller_of(a[0], b[0]), t->rect.u0), smaller_of(larger_of(a[0], b[0]), t->rect.u1),
        larger_of(smaller_of(a[v], b[v]), t->rect.v0), smaller_of(larger_of(a[v], b[v]), t->rect.v1)};
    add_passage(t, e->i, e->j, &r);
}

/* ---- crossing surfaces ---- */

/* The part of the tile where faces of the two bodies may cross. False: none. */
static bool may_cross(const struct tile_faces *t, uint32_t i, uint32_t j, ct_ebpi_rect *r) {
    *r = (ct_ebpi_rect){larger_of(t->extent[0][i], t->extent[0][j]), smaller_of(t->extent[1][i], t->extent[1][j]),
                        larger_of(t->extent[2][i], t->extent[2][j]), smaller_of(t->extent[3][i], t->extent[3][j])};
    const ct_slope a = {t->slope[0][i], t->slope[1][i]}, b = {t->slope[0][j], t->slope[1][j]};
    if (isnan(a.u) || isnan(b.u)) return true;
    const double gu = a.u - b.u, gv = a.v - b.v;
    const double u = 0.5 * ((double)r->u0 + (double)r->u1) - t->center[0];
    const double v = 0.5 * ((double)r->v0 + (double)r->v1) - t->center[1];
    const double half = 0.5 * (fabs(gu) * ((double)r->u1 - (double)r->u0) + fabs(gv) * ((double)r->v1 - (double)r->v0));
    return fabs(t->at_center[i] - t->at_center[j] + gu * u + gv * v) <= half + 2;
}

/* With more pairs than this, only the depths bound the tile: it is far too large. */
enum { MOST_PAIRS = 1 << 14 };

/* Of faces j to j + 3 of the other body: the lanes whose extents and depths meet those of face i. */
static inline unsigned find_near(const struct tile_faces *t, uint32_t i, uint32_t j) {
    const ct_v4i meets = (load_v4i(t->lo + j) <= t->hi[i]) & (load_v4i(t->hi + j) >= t->lo[i]) &
                         (load_v4i(t->extent[0] + j) <= t->extent[1][i]) &
                         (load_v4i(t->extent[1] + j) >= t->extent[0][i]) &
                         (load_v4i(t->extent[2] + j) <= t->extent[3][i]) &
                         (load_v4i(t->extent[3] + j) >= t->extent[2][i]) & (load_v4i(t->inside + j) > 0);
    return sign_bits_v4i(meets);
}

static bool add_transient_edges(struct tile_faces *t) {
    uint64_t n[2] = {0, 0}; /* with depths in J */
    for (uint32_t i = 0; i < t->all; i++) n[i >= t->n[0]] += t->inside[i] > 0;
    if (n[0] * n[1] > MOST_PAIRS) return false;
    for (uint32_t i = 0; i < t->n[0]; i++)
        for (uint32_t j = t->n[0] & ~3u; j < t->all && t->inside[i]; j += 4)
            for (unsigned left = find_near(t, i, j); left; left &= left - 1) {
                const uint32_t other = j + (uint32_t)__builtin_ctz(left);
                ct_ebpi_rect r;
                if (other < t->n[0] || other >= t->all || !may_cross(t, i, other, &r)) continue;
                add_passage(t, i, other, &r);
                if (t->polynomial) add_crossing_terms(t, i, other, &r);
            }
    return true;
}

/* ---- the published bound ---- */

/* How far the edges between two corners run along u and v inside the tile. No order of the corners changes a bit. */
static inline __attribute__((always_inline)) void clip_edges(const struct tile_faces *t, const ct_v4i from_end[2],
                                                             const ct_v4i to_end[2], ct_v4d length[2]) {
    const ct_v4i is_rising = (from_end[0] < to_end[0]) | ((from_end[0] == to_end[0]) & (from_end[1] <= to_end[1]));
    const ct_v4i a[2] = {(is_rising & from_end[0]) | (~is_rising & to_end[0]),
                         (is_rising & from_end[1]) | (~is_rising & to_end[1])};
    const ct_v4i b[2] = {(is_rising & to_end[0]) | (~is_rising & from_end[0]),
                         (is_rising & to_end[1]) | (~is_rising & from_end[1])};
    const int32_t lo[2] = {t->rect.u0, t->rect.v0}, hi[2] = {t->rect.u1, t->rect.v1};
    ct_v4d from = v4d(0), to = v4d(1);
    ct_v4i is_whole = v4i(-1);
    for (int k = 0; k < 2; k++) is_whole &= (a[k] >= lo[k]) & (a[k] <= hi[k]) & (b[k] >= lo[k]) & (b[k] <= hi[k]);
    if (sign_bits_v4i(is_whole) != 15)
        for (int k = 0; k < 2; k++) {
            const ct_v4d run = to_double(b[k] - a[k]);
            const ct_v4d at_lo = to_double(lo[k] - a[k]) / run, at_hi = to_double(hi[k] - a[k]) / run;
            const ct_v4l is_clipped = ~wide(is_whole) & (run != 0.0);
            from = choose(is_clipped, max_v4d(from, min_v4d(at_lo, at_hi)), from);
            to = choose(is_clipped, min_v4d(to, max_v4d(at_lo, at_hi)), to);
        }
    const ct_v4d part = max_v4d(to - from, v4d(0));
    for (int k = 0; k < 2; k++) length[k] = absolute(to_double(b[k] - a[k])) * part;
}

static inline __attribute__((always_inline)) ct_v4d gather(const double *from, const uint32_t at[4]) {
    return (ct_v4d){from[at[0]], from[at[1]], from[at[2]], from[at[3]]};
}

static inline __attribute__((always_inline)) ct_v4i gather_v4i(const int32_t *from, const uint32_t at[4]) {
    return (ct_v4i){from[at[0]], from[at[1]], from[at[2]], from[at[3]]};
}

/* Faces on one side of four edges. */
struct sides4 {
    ct_v4d su, sv, depth;
    ct_v4i is_up, is_jump;
};

static inline __attribute__((always_inline)) struct sides4 load_sides(const struct tile_faces *t,
                                                                      const uint32_t at[4]) {
    return (struct sides4){gather(t->slope[0], at), gather(t->slope[1], at), to_double(gather_v4i(t->inside, at)),
                           gather_v4i(t->is_up, at), gather_v4i(t->is_jump, at)};
}

/* ct_ebpi_edge_error of four edges between faces that are not steep, whose normals are (-su, -sv, 1) or against that.
 * Divisions by powers of two are multiplications, which round alike. drop, narrow: what ct_ebpi_edge_steps has. */
static inline __attribute__((always_inline)) ct_v4d find_errors(const struct tile_faces *t, const struct sides4 side[2],
                                                                ct_v4d lu, ct_v4d lv, ct_v4d *drop, ct_v4d *narrow) {
    const ct_v4d w = v4d(t->width), h = v4d(t->height), over_w = v4d(1 / t->width), over_h = v4d(1 / t->height);
    const ct_v4d crossed = lu * over_w + lv * over_h;
    const ct_v4l is_case1 = lv * w >= lu * h;
    const ct_v4d across = choose(is_case1, w, h), along = choose(is_case1, h, w);
    const ct_v4d over_across = choose(is_case1, over_w, over_h);
    const ct_v4d long_side = choose(is_case1, lv, lu), short_side = choose(is_case1, lu, lv);
    const ct_v4l is_coplanar =
        (side[0].su == side[1].su) & (side[0].sv == side[1].sv) & wide(side[0].is_up == side[1].is_up);
    const ct_v4d alpha[2] = {choose(is_case1, side[0].su, side[0].sv), choose(is_case1, side[1].su, side[1].sv)};
    const ct_v4d size[2] = {absolute(alpha[0]), absolute(alpha[1])};
    const ct_v4d beta = choose(long_side > 0.0, short_side / long_side, v4d(0));
    const ct_v4d out = across * 0.5, shift = along * beta * 0.5;
    /* ct_ebpi_signs: which face counts against the other. */
    const ct_v4l is_opposed = alpha[0] * alpha[1] >= 0.0;
    const ct_v4l is_first_larger = size[0] > size[1];
    const ct_v4l is_against[2] = {is_opposed & ~is_first_larger, is_opposed & is_first_larger};
    ct_v4d sum = v4d(0);
    *drop = *narrow = v4d(0);
    for (int i = 0; i < 2; i++) {
        const ct_v4l is_narrow = across * size[i] * 0.125 > side[i].depth;
        const ct_v4d frustum = size[i] * (3.0 * out * out + shift * shift) / 6.0 * over_across;
        const ct_v4d term = choose(is_narrow, side[i].depth * 0.5, frustum);
        const ct_v4l sign = is_against[i] & INT64_MIN;
        sum += (ct_v4d)((ct_v4l)term ^ sign);
        *drop += (ct_v4d)((ct_v4l)choose(is_narrow, v4d(0), across * size[i]) ^ sign);
        *narrow += (ct_v4d)((ct_v4l)choose(is_narrow, side[i].depth, v4d(0)) ^ sign);
    }
    return choose((sum > 0.0) & ~is_coplanar & (crossed != 0.0), crossed * sum, v4d(0));
}

/* What the approximation planes of the ray's crossings may be off by at the tile's corners, for four faces. Cut off far
 * above what a depth can be apart. */
static inline __attribute__((always_inline)) ct_v4l find_butterfly(const struct tile_faces *t,
                                                                   const struct sides4 *side) {
    const ct_v4d plane = min_v4d(v4d(t->reach) * (absolute(side->su) + absolute(side->sv)), v4d(0x1p50));
    return whole_part(choose(wide(side->is_jump), side->depth, plane));
}

static ct_ebpi_side side_of(const struct tile_faces *t, uint32_t face) {
    const ct_ebpi_view *view = t->view;
    const double up = t->is_up[face] ? 1 : -1, depth = t->inside[face];
    if (!isnan(t->slope[0][face]))
        return (ct_ebpi_side){{-up * t->slope[0][face], -up * t->slope[1][face], up}, depth, false};
    const int32_t *corner[3];
    const int axis[3] = {view->u, view->v, view->axis};
    double e[2][3];
    ct_ebpi_corners(&view->body[t->tag[face] >> 31], t->tag[face] & 0x7fffffff, corner);
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 3; k++) e[i][k] = (double)corner[i + 1][axis[k]] - (double)corner[0][axis[k]];
    return (ct_ebpi_side){{e[0][1] * e[1][2] - e[0][2] * e[1][1], e[0][2] * e[1][0] - e[0][0] * e[1][2],
                           e[0][0] * e[1][1] - e[0][1] * e[1][0]},
                          depth,
                          true};
}

/* An edge of a steep face. */
static void add_steep_edge(struct tile_faces *t, const struct edge *e, double lu, double lv) {
    const ct_ebpi_side side[2] = {side_of(t, e->i), side_of(t, e->j)};
    double drop, narrow;
    if (t->polynomial && ct_ebpi_edge_steps(side, lu, lv, t->width, t->height, &drop, &narrow))
        add_steps(t, lu / t->width, lv / t->height, greater(drop, 0), greater(narrow, 0));
    add_depth(t, ct_ebpi_edge_error(side, lu, lv, t->width, t->height));
    for (int k = 0; k < 2; k++) {
        const uint32_t f = k ? e->j : e->i;
        const double plane = lesser(t->reach * (fabs(t->slope[0][f]) + fabs(t->slope[1][f])), 0x1p50);
        t->butterfly += 1 + (int64_t)(t->is_jump[f] ? (double)t->inside[f] : plane);
    }
}

/* Faces and clipped lengths of four edges; only the first n count. */
static inline __attribute__((always_inline)) void load_edges(const struct tile_faces *t, const struct edge *e,
                                                             uint32_t n, struct sides4 side[2], ct_v4d length[2]) {
    uint32_t i[4], j[4];
    const int32_t *from[4], *to[4]; /* corners */
    for (uint32_t l = 0; l < 4; l++) {
        const struct edge *of = &e[l < n ? l : 0];
        from[l] = t->corner[0] + of->from;
        to[l] = t->corner[0] + of->to;
        i[l] = of->i;
        j[l] = of->j;
    }
    const size_t v = t->stride;
    const ct_v4i a[2] = {{from[0][0], from[1][0], from[2][0], from[3][0]},
                         {from[0][v], from[1][v], from[2][v], from[3][v]}};
    const ct_v4i b[2] = {{to[0][0], to[1][0], to[2][0], to[3][0]}, {to[0][v], to[1][v], to[2][v], to[3][v]}};
    clip_edges(t, a, b, length);
    side[0] = load_sides(t, i);
    side[1] = load_sides(t, j);
}

/* Adds the terms of four edges with k = +1 for faces that count as jumps. */
static inline __attribute__((always_inline)) void add_strict_terms(struct tile_faces *t, const struct edge *e,
                                                                   uint32_t n) {
    struct sides4 side[2];
    ct_v4d length[2];
    load_edges(t, e, n, side, length);
    const ct_v4d none = v4d(0), x = length[0] * (1 / t->width), y = length[1] * (1 / t->height);
    const ct_v4l jump[2] = {wide(side[0].is_jump), wide(side[1].is_jump)}, is_kink = ~(jump[0] | jump[1]);
    const ct_v4d u = choose(is_kink, absolute(side[0].su - side[1].su),
                            choose(jump[0], none, absolute(side[0].su)) + choose(jump[1], none, absolute(side[1].su)));
    const ct_v4d v = choose(is_kink, absolute(side[0].sv - side[1].sv),
                            choose(jump[0], none, absolute(side[0].sv)) + choose(jump[1], none, absolute(side[1].sv)));
    const ct_v4d narrow = choose(jump[0], side[0].depth, none) + choose(jump[1], side[1].depth, none);
    add_terms(t, (ct_v4l){0, 1, 2, 3} < (int64_t)n, x, y, choose(y >= x, u * t->width, v * t->height), narrow);
}

/* Four edges; only the first n count. */
static inline __attribute__((always_inline)) void add_four_edges(struct tile_faces *t, const struct edge *e,
                                                                 uint32_t n) {
    struct sides4 side[2];
    ct_v4d length[2];
    load_edges(t, e, n, side, length);
    const ct_v4l is_plane = (side[0].su == side[0].su) & (side[1].su == side[1].su); /* not NaN */
    const ct_v4l present = (ct_v4l){0, 1, 2, 3} < (int64_t)n, counts = present & is_plane;
    ct_v4d drop, narrow;
    const ct_v4d error = choose(counts, find_errors(t, side, length[0], length[1], &drop, &narrow), v4d(0));
    const ct_v4l errors = whole_part(error * DEPTH_SCALE);
    if (t->polynomial)
        add_terms(t, counts & (error > 0.0), length[0] * (1 / t->width), length[1] * (1 / t->height),
                  max_v4d(drop, v4d(0)), max_v4d(narrow, v4d(0)));
    const ct_v4l butterfly = find_butterfly(t, &side[0]) + find_butterfly(t, &side[1]) + 2;
    t->kinks += sum_of((errors + 1) & counts);
    t->butterfly += sum_of(butterfly & counts);
    for (unsigned steep = sign_bits(present & ~is_plane); steep; steep &= steep - 1) {
        const int l = __builtin_ctz(steep);
        add_steep_edge(t, &e[l], length[0][l], length[1][l]);
    }
}

/* Transient edges between faces that the ray meets: where one's approximation plane meets the other's butterfly. A face
 * without depths in J bounds no intersection, and may have left the tile's list (tile_kept.h). */
static void add_met_crossings(struct tile_faces *t) {
    for (uint32_t m = 0; m < t->n_crossed[0] && !(CT_POLL_EVERY(m + 1, 32) && ct_is_cancelled()); m++)
        for (uint32_t n = 0; n < t->n_crossed[1]; n++) {
            const uint32_t i = t->crossed[0][m], j = t->crossed[1][n];
            if (t->inside[i] == 0 || t->inside[j] == 0) continue;
            if (t->is_jump[i] || t->is_jump[j]) {
                if (t->lo[i] > t->hi[j] || t->lo[j] > t->hi[i]) continue;
                add_passage(t, i, j, &t->rect);
                if (t->polynomial) add_crossing_terms(t, i, j, &t->rect);
                continue;
            }
            const double gu = t->slope[0][i] - t->slope[0][j], gv = t->slope[1][i] - t->slope[1][j];
            const double apart = fabs(t->at_center[i] - t->at_center[j]);
            if (apart > 0.5 * (fabs(gu) * t->width + fabs(gv) * t->height) + (double)t->butterfly) continue;
            add_kink(t, (ct_slope){gu, gv}, 0, &t->rect);
            if (t->polynomial) add_crossing_terms(t, i, j, &t->rect);
        }
}

/* ---- all ---- */

static void add_edges(struct tile_faces *t) {
    enum { EDGES = 64 };
    struct edge edges[EDGES + 12];
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->all; i += 4) {
        n += append_edges(t, i, edges + n);
        if (n < EDGES && i + 4 < t->all) continue;
        if (t->bound == CT_EBPI_STRICT) {
            for (uint32_t e = 0; e < n; e++) add_strict_edge(t, &edges[e]);
            for (uint32_t e = 0; e < n && t->polynomial; e += 4) add_strict_terms(t, edges + e, n - e < 4 ? n - e : 4);
        } else {
            for (uint32_t e = 0; e < n; e += 4) add_four_edges(t, edges + e, n - e < 4 ? n - e : 4);
        }
        n = 0;
    }
}

/* Adds up the kinks. False: there are too many. */
static bool add_kinks(struct tile_faces *t) {
    const bool is_strict = t->bound == CT_EBPI_STRICT;
    if (is_strict && !add_transient_edges(t)) return false;
    fill_slots(t);
    add_edges(t);
    if (!is_strict) add_met_crossings(t);
    return true;
}

#endif

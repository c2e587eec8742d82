/* measure_k.h - what one face, one edge or one crossing of two surfaces adds to the bound of a tile (tile_bound.h) and
 * to its polynomial. tile_faces.h and tile_kinks.h have the same for four at a time, to the same bits: each operation
 * here is one of theirs, on numbers of one lane.
 */
#ifndef CT_EBPI_MEASURE_K_H
#define CT_EBPI_MEASURE_K_H

#include "gpu/methods/ebpi/rect_k.h"
#include "gpu/methods/ebpi/tile_size_k.h"

/* Steeper faces count as parallel to the rays. Up to here a plane's depth, anywhere over the window, is exact to a
 * fraction of a unit. */
#define CT_EBPI_STEEPEST 0x1p20

/* Both ends of a span are rounded to a unit, after some rounding in double. */
#define CT_EBPI_SPAN_ROUNDING (((int64_t)1 << CT_EBPI_DEPTH_BITS) + 64)

/* With more pairs of faces of the two bodies than this, only the depths bound a tile: it is far too large. */
#define CT_EBPI_MOST_PAIRS (1 << 14)

/* A tile in its view. */
typedef struct ct_ebpi_frame {
    ct_ebpi_rect rect;
    int32_t center[2];
    double width, height; /* lattice units */
    double reach;         /* from the centre to a corner */
} ct_ebpi_frame;

CT_FN ct_ebpi_frame ct_ebpi_frame_of(int32_t u, int32_t v, int shift_u, int shift_v) {
    const int32_t w = 1 << shift_u, h = 1 << shift_v;
    ct_ebpi_frame frame;
    frame.rect.u0 = u;
    frame.rect.u1 = u + w;
    frame.rect.v0 = v;
    frame.rect.v1 = v + h;
    frame.center[0] = u + w / 2;
    frame.center[1] = v + h / 2;
    frame.width = w;
    frame.height = h;
    frame.reach = 0.5 * sqrt(frame.width * frame.width + frame.height * frame.height);
    return frame;
}

/* A face over a tile. */
typedef struct ct_ebpi_face {
    double slope[2];      /* along u and v; NaN: steep */
    double at_center;     /* depth of its plane at the tile's centre; not defined of steep faces */
    uint32_t tag;         /* body << 31 | triangle */
    int32_t corner[3][2]; /* along u and v */
    int32_t extent[4];    /* u0, u1, v0, v1: inside the tile, at most */
    int32_t lo, hi;       /* bounds of its depths over the tile */
    int32_t inside;       /* of lo to hi, the depths where both bodies may be inside */
    int32_t is_up;        /* 1: its normal points along the rays */
    int32_t is_jump;      /* 1: steep or narrow, counted by its depth interval */
    int32_t crossing;     /* at the tile's centre: 1 the ray enters the body, -1 it leaves, 0 it misses the face */
    int32_t depth;        /* where the ray crosses it */
} ct_ebpi_face;

/* What kinks come to. */
typedef struct ct_ebpi_sums {
    int64_t kinks;                 /* see CT_EBPI_DEPTH_BITS */
    int64_t butterfly;             /* lattice units: half its height (section 5) */
    ct_ebpi_polynomial polynomial; /* of edges and crossings */
} ct_ebpi_sums;

/* fmin and fmax of two numbers, without a call. */
CT_FN double ct_ebpi_lesser(double a, double b) {
    return a < b ? a : b;
}

CT_FN double ct_ebpi_greater(double a, double b) {
    return a > b ? a : b;
}

CT_FN int ct_ebpi_is_steep(const ct_ebpi_face *face) {
    return face->slope[0] != face->slope[0];
}

/* ---- faces ---- */

/* Loads a face whose corners are a, b, c; u, v, w: the view's axes. All but `inside` and `is_jump`. */
CT_FN void ct_ebpi_load_face(const ct_ebpi_frame *frame, const int32_t *a, const int32_t *b, const int32_t *c, int u,
                             int v, int w, uint32_t tag, ct_ebpi_face *to) {
    const ct_ebpi_rect *rect = &frame->rect;
    const int32_t low_u = ct_min3(a[u], b[u], c[u]), high_u = ct_max3(a[u], b[u], c[u]);
    const int32_t low_v = ct_min3(a[v], b[v], c[v]), high_v = ct_max3(a[v], b[v], c[v]);
    to->tag = tag;
    to->inside = to->is_jump = to->crossing = to->depth = 0;
    to->corner[0][0] = a[u], to->corner[0][1] = a[v];
    to->corner[1][0] = b[u], to->corner[1][1] = b[v];
    to->corner[2][0] = c[u], to->corner[2][1] = c[v];
    to->extent[0] = low_u > rect->u0 ? low_u : rect->u0;
    to->extent[1] = high_u < rect->u1 ? high_u : rect->u1;
    to->extent[2] = low_v > rect->v0 ? low_v : rect->v0;
    to->extent[3] = high_v < rect->v1 ? high_v : rect->v1;
    /* Slope. */
    const int64_t xb = b[u] - a[u], yb = b[v] - a[v], zb = b[w] - a[w];
    const int64_t xc = c[u] - a[u], yc = c[v] - a[v], zc = c[w] - a[w];
    const int64_t area = xb * yc - xc * yb;
    const double size = (double)area;
    double su = (double)(zb * yc - zc * yb) / size, sv = (double)(xb * zc - xc * zb) / size;
    if (!(fabs(su) + fabs(sv) <= CT_EBPI_STEEPEST)) su = sv = NAN;
    to->slope[0] = su;
    to->slope[1] = sv;
    to->is_up = area > 0;
    /* The depths that a face can have in its extent. Rounding is far below the unit that is added at both ends. */
    const double u0 = to->extent[0], u1 = to->extent[1], v0 = to->extent[2], v1 = to->extent[3];
    const double z = a[w], x = a[u], y = a[v];
    const double middle = z + su * (0.5 * (u0 + u1) - x) + sv * (0.5 * (v0 + v1) - y);
    const double half = 0.5 * (fabs(su) * (u1 - u0) + fabs(sv) * (v1 - v0));
    const double least = ct_min3(a[w], b[w], c[w]), most = ct_max3(a[w], b[w], c[w]);
    const double from = middle - half, end = middle + half;
    to->at_center = z + su * ((double)frame->center[0] - x) + sv * ((double)frame->center[1] - y);
    const double lo = from > least && from <= most ? from : from > most ? most : least;
    const double hi = end < most && end >= least ? end : end < least ? least : most;
    to->lo = (int32_t)floor(lo) - 1;
    to->hi = (int32_t)ceil(hi) + 1;
    /* The ray. */
    const int32_t cu = frame->center[0], cv = frame->center[1];
    if (cu < low_u || cu > high_u || cv < low_v || cv > high_v) return;
    ct_triangle_setup setup;
    if (!ct_make_setup(&setup, a, b, c, u, v, w, cu, cv, 0, 0) ||
        !ct_covers(&setup, setup.edge[0], setup.edge[1], setup.edge[2]))
        return;
    const ct_fragment at = ct_fragment_at(&setup, (double)setup.edge[1], (double)setup.edge[2], tag);
    to->crossing = at.key & 1 ? 1 : -1;
    to->depth = ct_fragment_depth(at.key);
}

/* Sets `inside` and `is_jump`; joint: how much of lo to hi lies in J. */
CT_FN void ct_ebpi_measure_face(const ct_ebpi_frame *frame, int32_t inside, ct_ebpi_face *face) {
    const double drop = (fabs(face->slope[0]) * frame->width + fabs(face->slope[1]) * frame->height) * 0.125;
    face->inside = inside;
    face->is_jump = !(drop <= (double)inside); /* also where the slope is NaN */
}

/* Edge k may have points in the tile. */
CT_FN int ct_ebpi_has_edge_in(const ct_ebpi_frame *frame, const ct_ebpi_face *face, int k) {
    const int32_t *a = face->corner[k], *b = face->corner[k == 2 ? 0 : k + 1];
    const ct_ebpi_rect *rect = &frame->rect;
    if (ct_ebpi_is_in(a, 0, 1, rect) || ct_ebpi_is_in(b, 0, 1, rect)) return 1;
    return (a[0] > b[0] ? a[0] : b[0]) >= rect->u0 && (a[0] < b[0] ? a[0] : b[0]) <= rect->u1 &&
           (a[1] > b[1] ? a[1] : b[1]) >= rect->v0 && (a[1] < b[1] ? a[1] : b[1]) <= rect->v1 &&
           !ct_ebpi_is_beside_line(a, b, 0, 1, rect);
}

/* ---- the error bound polynomial ---- */

/* Adds one edge that tile_kinks.h measures with three others: ct_ebpi_spread_terms. drop, narrow >= 0. */
CT_FN void ct_ebpi_add_edge_terms(ct_ebpi_polynomial *to, double x, double y, double drop, double narrow) {
    const int is_case1 = y >= x;
    const double more = is_case1 ? y : x, less = is_case1 ? x : y;
    const double ratio = more > 0 ? less / more : 0, slant = ratio * ratio * (1.0 / 24);
    const double a = drop * more, b = drop * less, straight = a * 0.125, slanted = a * slant, far = b * slant;
    double term[CT_EBPI_TERMS], sum = 0;
    term[CT_EBPI_W2] = is_case1 ? straight : slanted;
    term[CT_EBPI_H2] = is_case1 ? slanted : straight;
    term[CT_EBPI_WH] = b * 0.125;
    term[CT_EBPI_H3_BY_W] = is_case1 ? far : 0;
    term[CT_EBPI_W3_BY_H] = is_case1 ? 0 : far;
    term[CT_EBPI_H] = narrow * x * 0.5;
    term[CT_EBPI_W] = narrow * y * 0.5;
    /* Cut off far above what depths can be. */
    const double most = 0x1p50, scale = 1 << CT_EBPI_DEPTH_BITS;
    for (int k = 0; k < CT_EBPI_TERMS; k++) {
        to->term[k] += (int64_t)ct_ebpi_lesser(term[k] * scale, most);
        sum += term[k];
    }
    const double weight = ct_ebpi_lesser(sum * scale, most) / (x + y);
    if (x > 0) to->along_u += (int64_t)(x * weight);
    if (y > 0) to->along_v += (int64_t)(y * weight);
}

CT_FN void ct_ebpi_add_steps(ct_ebpi_polynomial *to, double x, double y, double drop, double narrow) {
    double term[CT_EBPI_TERMS];
    ct_ebpi_spread_terms(x, y, drop, narrow, term);
    ct_ebpi_add_terms(to, term, x, y);
}

/* Adds where faces i and j of the two bodies cross somewhere in r: a line through its middle. */
CT_FN void ct_ebpi_add_crossing_terms(const ct_ebpi_frame *frame, const ct_ebpi_face *i, const ct_ebpi_face *j,
                                      const ct_ebpi_rect *r, ct_ebpi_polynomial *to) {
    const double wide = (double)r->u1 - (double)r->u0, high = (double)r->v1 - (double)r->v0;
    double lu = wide, lv = high, u = 0, v = 0, narrow = 0;
    if (!ct_ebpi_is_steep(i) && !ct_ebpi_is_steep(j)) {
        u = fabs(i->slope[0] - j->slope[0]);
        v = fabs(i->slope[1] - j->slope[1]);
        if (v * high > u * wide) /* it leaves r at the ends of u */
            lv = wide * (u / v);
        else
            lu = u > 0 ? high * (v / u) : 0;
    }
    if (i->is_jump || j->is_jump) {
        u = v = 0;
        for (int k = 0; k < 2; k++) {
            const ct_ebpi_face *face = k ? j : i;
            narrow += face->is_jump ? (double)face->inside : 0;
            u += face->is_jump ? 0 : fabs(face->slope[0]);
            v += face->is_jump ? 0 : fabs(face->slope[1]);
        }
    }
    const double x = lu / frame->width, y = lv / frame->height;
    ct_ebpi_add_steps(to, x, y, y >= x ? u * frame->width : v * frame->height, narrow);
}

/* ---- kinks ---- */

#define CT_EBPI_DEPTH_SCALE ((1 + 0x1p-40) * (1 << CT_EBPI_DEPTH_BITS))

CT_FN int64_t ct_ebpi_depth(double depth) {
    return 1 + (int64_t)(depth * CT_EBPI_DEPTH_SCALE);
}

/* Bounds the angle under which the tile's centre sees a segment in a rectangle. */
CT_FN double ct_ebpi_angle(const ct_ebpi_frame *frame, const ct_ebpi_rect *r) {
    const double pi = 3.14159265358979323846;
    const double left = (double)r->u0 - frame->center[0], right = frame->center[0] - (double)r->u1;
    const double below = (double)r->v0 - frame->center[1], above = frame->center[1] - (double)r->v1;
    const double du = ct_ebpi_greater(ct_ebpi_greater(left, right), 0);
    const double dv = ct_ebpi_greater(ct_ebpi_greater(below, above), 0);
    const double wide = (double)r->u1 - (double)r->u0, high = (double)r->v1 - (double)r->v0;
    const double distance = du * du + dv * dv, size = wide * wide + high * high;
    /* 2 asin(D / 2r) <= pi / 3 * D / r for D <= r */
    return size < distance ? pi / 3 * sqrt(size / distance) : pi;
}

/* The mean over the tile of what lies beyond a kink inside the rectangle r. gu, gv: the jump of the slope. at_center:
 * the difference of the two planes at the centre, which is 0 along the kink; 0 where the slopes do not meet in a line.
 */
CT_FN int64_t ct_ebpi_kink(const ct_ebpi_frame *frame, double gu, double gv, double at_center, const ct_ebpi_rect *r) {
    const double a = fabs(gu) * frame->width, b = fabs(gv) * frame->height, most = 0.5 * (a + b);
    const double larger = ct_ebpi_greater(a, b), less = ct_ebpi_lesser(a, b);
    if (larger == 0) return 0;
    const double off = ct_ebpi_greater(fabs(at_center) - 1, 0); /* a unit for the rounding of depths */
    if (off >= most) return 0;
    const double through = larger / 8 + less * less / (24 * larger);
    const double size = sqrt(gu * gu + gv * gv);
    const double cone = ct_ebpi_angle(frame, r) * size * frame->reach * frame->reach * frame->reach /
                        (3 * frame->width * frame->height);
    return ct_ebpi_depth(ct_ebpi_lesser(through, cone) * (1 - off / most));
}

/* The same beyond a boundary, inside r, of a face that counts as a jump. */
CT_FN int64_t ct_ebpi_jump(const ct_ebpi_frame *frame, const ct_ebpi_face *face, const ct_ebpi_rect *r) {
    const double cone = ct_ebpi_angle(frame, r) * frame->reach * frame->reach / (2 * frame->width * frame->height);
    return ct_ebpi_depth(ct_ebpi_lesser(0.5, cone) * (double)face->inside);
}

/* The same where face i passes into face j: at their common edge, or where they cross. */
CT_FN int64_t ct_ebpi_passage(const ct_ebpi_frame *frame, const ct_ebpi_face *i, const ct_ebpi_face *j,
                              const ct_ebpi_rect *r) {
    if (!i->is_jump && !j->is_jump)
        return ct_ebpi_kink(frame, i->slope[0] - j->slope[0], i->slope[1] - j->slope[1], i->at_center - j->at_center,
                            r);
    return (i->is_jump ? ct_ebpi_jump(frame, i, r) : ct_ebpi_kink(frame, i->slope[0], i->slope[1], 0, r)) +
           (j->is_jump ? ct_ebpi_jump(frame, j, r) : ct_ebpi_kink(frame, j->slope[0], j->slope[1], 0, r));
}

/* ---- edges ---- */

/* How far an edge between two corners runs along u and v inside the tile. No order of the corners changes a bit. */
CT_FN void ct_ebpi_clip_edge(const ct_ebpi_rect *rect, const int32_t *from_end, const int32_t *to_end,
                             double length[2]) {
    const int is_rising = from_end[0] < to_end[0] || (from_end[0] == to_end[0] && from_end[1] <= to_end[1]);
    const int32_t *a = is_rising ? from_end : to_end, *b = is_rising ? to_end : from_end;
    const int32_t lo[2] = {rect->u0, rect->v0}, hi[2] = {rect->u1, rect->v1};
    double from = 0, to = 1;
    const int is_whole = ct_ebpi_is_in(a, 0, 1, rect) && ct_ebpi_is_in(b, 0, 1, rect);
    for (int k = 0; k < 2 && !is_whole; k++) {
        const double run = b[k] - a[k];
        if (run == 0) continue;
        const double at_lo = (double)(lo[k] - a[k]) / run, at_hi = (double)(hi[k] - a[k]) / run;
        from = ct_ebpi_greater(from, ct_ebpi_lesser(at_lo, at_hi));
        to = ct_ebpi_lesser(to, ct_ebpi_greater(at_lo, at_hi));
    }
    const double part = ct_ebpi_greater(to - from, 0);
    for (int k = 0; k < 2; k++) length[k] = fabs((double)(b[k] - a[k])) * part;
}

/* Edge k of face i, which is that of face j, too: the strict bound. Faces that count as jumps have k = +1 in the
 * polynomial. */
CT_FN void ct_ebpi_add_strict_edge(const ct_ebpi_frame *frame, const ct_ebpi_face *i, const ct_ebpi_face *j, int k,
                                   ct_ebpi_sums *to) {
    const int32_t *a = i->corner[k], *b = i->corner[k == 2 ? 0 : k + 1];
    const ct_ebpi_rect *rect = &frame->rect;
    const int32_t u0 = a[0] < b[0] ? a[0] : b[0], u1 = a[0] < b[0] ? b[0] : a[0], v0 = a[1] < b[1] ? a[1] : b[1],
                  v1 = a[1] < b[1] ? b[1] : a[1];
    ct_ebpi_rect r;
    r.u0 = u0 > rect->u0 ? u0 : rect->u0;
    r.u1 = u1 < rect->u1 ? u1 : rect->u1;
    r.v0 = v0 > rect->v0 ? v0 : rect->v0;
    r.v1 = v1 < rect->v1 ? v1 : rect->v1;
    to->kinks += ct_ebpi_passage(frame, i, j, &r);
    double length[2], u, v;
    ct_ebpi_clip_edge(rect, a, b, length);
    const double x = length[0] * (1 / frame->width), y = length[1] * (1 / frame->height);
    if (!i->is_jump && !j->is_jump) {
        u = fabs(i->slope[0] - j->slope[0]);
        v = fabs(i->slope[1] - j->slope[1]);
    } else {
        u = (i->is_jump ? 0 : fabs(i->slope[0])) + (j->is_jump ? 0 : fabs(j->slope[0]));
        v = (i->is_jump ? 0 : fabs(i->slope[1])) + (j->is_jump ? 0 : fabs(j->slope[1]));
    }
    const double narrow = (i->is_jump ? (double)i->inside : 0) + (j->is_jump ? (double)j->inside : 0);
    ct_ebpi_add_edge_terms(&to->polynomial, x, y, y >= x ? u * frame->width : v * frame->height, narrow);
}

/* normal: along u, v and the rays; read of steep faces. */
CT_FN ct_ebpi_side ct_ebpi_side_of(const ct_ebpi_face *face, const double normal[3]) {
    const double up = face->is_up ? 1 : -1;
    const int is_steep = ct_ebpi_is_steep(face);
    ct_ebpi_side side;
    side.normal[0] = is_steep ? normal[0] : -up * face->slope[0];
    side.normal[1] = is_steep ? normal[1] : -up * face->slope[1];
    side.normal[2] = is_steep ? normal[2] : up;
    side.depth = face->inside;
    side.is_steep = is_steep;
    return side;
}

/* What the approximation plane of a face may be off by at the tile's corners. Cut off far above what a depth can be. */
CT_FN int64_t ct_ebpi_butterfly(const ct_ebpi_frame *frame, const ct_ebpi_face *face) {
    const double plane = ct_ebpi_lesser(frame->reach * (fabs(face->slope[0]) + fabs(face->slope[1])), 0x1p50);
    return 1 + (int64_t)(face->is_jump ? (double)face->inside : plane);
}

/* The same for the published bound. */
CT_FN void ct_ebpi_add_published_edge(const ct_ebpi_frame *frame, const ct_ebpi_face *i, const ct_ebpi_face *j,
                                      const ct_ebpi_side side[2], int k, ct_ebpi_sums *to) {
    double length[2], drop, narrow;
    ct_ebpi_clip_edge(&frame->rect, i->corner[k], i->corner[k == 2 ? 0 : k + 1], length);
    const double error = ct_ebpi_edge_error(side, length[0], length[1], frame->width, frame->height);
    const int has_steps = ct_ebpi_edge_steps(side, length[0], length[1], frame->width, frame->height, &drop, &narrow);
    to->kinks += ct_ebpi_depth(error);
    to->butterfly += ct_ebpi_butterfly(frame, i) + ct_ebpi_butterfly(frame, j);
    if (side[0].is_steep || side[1].is_steep) {
        if (has_steps)
            ct_ebpi_add_steps(&to->polynomial, length[0] / frame->width, length[1] / frame->height,
                              ct_ebpi_greater(drop, 0), ct_ebpi_greater(narrow, 0));
    } else if (error > 0) {
        ct_ebpi_add_edge_terms(&to->polynomial, length[0] * (1 / frame->width), length[1] * (1 / frame->height),
                               ct_ebpi_greater(drop, 0), ct_ebpi_greater(narrow, 0));
    }
}

/* ---- crossing surfaces ---- */

/* The part of the tile where faces of the two bodies may cross. 0: none. */
CT_FN int ct_ebpi_may_cross(const ct_ebpi_frame *frame, const ct_ebpi_face *i, const ct_ebpi_face *j, ct_ebpi_rect *r) {
    if (!(j->lo <= i->hi && j->hi >= i->lo && j->extent[0] <= i->extent[1] && j->extent[1] >= i->extent[0] &&
          j->extent[2] <= i->extent[3] && j->extent[3] >= i->extent[2] && i->inside > 0 && j->inside > 0))
        return 0;
    r->u0 = i->extent[0] > j->extent[0] ? i->extent[0] : j->extent[0];
    r->u1 = i->extent[1] < j->extent[1] ? i->extent[1] : j->extent[1];
    r->v0 = i->extent[2] > j->extent[2] ? i->extent[2] : j->extent[2];
    r->v1 = i->extent[3] < j->extent[3] ? i->extent[3] : j->extent[3];
    if (ct_ebpi_is_steep(i) || ct_ebpi_is_steep(j)) return 1;
    const double gu = i->slope[0] - j->slope[0], gv = i->slope[1] - j->slope[1];
    const double u = 0.5 * ((double)r->u0 + (double)r->u1) - frame->center[0];
    const double v = 0.5 * ((double)r->v0 + (double)r->v1) - frame->center[1];
    const double half = 0.5 * (fabs(gu) * ((double)r->u1 - (double)r->u0) + fabs(gv) * ((double)r->v1 - (double)r->v0));
    return fabs(i->at_center - j->at_center + gu * u + gv * v) <= half + 2;
}

/* A transient edge between faces of the two bodies, of the strict bound. */
CT_FN void ct_ebpi_add_transient_edge(const ct_ebpi_frame *frame, const ct_ebpi_face *i, const ct_ebpi_face *j,
                                      ct_ebpi_sums *to) {
    ct_ebpi_rect r;
    if (!ct_ebpi_may_cross(frame, i, j, &r)) return;
    to->kinks += ct_ebpi_passage(frame, i, j, &r);
    ct_ebpi_add_crossing_terms(frame, i, j, &r, &to->polynomial);
}

/* A transient edge between faces that the ray meets: where one's approximation plane meets the other's butterfly. A
 * face without depths in J bounds no intersection. butterfly: of all edges. */
CT_FN void ct_ebpi_add_met_crossing(const ct_ebpi_frame *frame, const ct_ebpi_face *i, const ct_ebpi_face *j,
                                    int64_t butterfly, ct_ebpi_sums *to) {
    if (i->inside == 0 || j->inside == 0) return;
    if (i->is_jump || j->is_jump) {
        if (i->lo > j->hi || j->lo > i->hi) return;
        to->kinks += ct_ebpi_passage(frame, i, j, &frame->rect);
    } else {
        const double gu = i->slope[0] - j->slope[0], gv = i->slope[1] - j->slope[1];
        const double apart = fabs(i->at_center - j->at_center);
        if (apart > 0.5 * (fabs(gu) * frame->width + fabs(gv) * frame->height) + (double)butterfly) return;
        to->kinks += ct_ebpi_kink(frame, gu, gv, 0, &frame->rect);
    }
    ct_ebpi_add_crossing_terms(frame, i, j, &frame->rect, &to->polynomial);
}

#endif

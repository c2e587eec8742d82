/* column_bound.c - how long the spans of all columns in a rectangle of u, v are at most and at least, from the boxes of
 * what is there and one column.
 *
 *     w                                   Over the rectangle, each triangle is within a range of w. Between the ranges
 *     |   ....|____|....   range          of a body's triangles lies no surface of it, so there its winding number is
 *     |       |    |                      the same all over the rectangle, and one column tells it. Within the ranges
 *     |   ....|_--^|....   range          a column may be inside. What may be inside both bodies is as long as spans
 *             rectangle                   can be, and what is inside both for sure is as long as they are at least.
 *
 * Clusters, and parts of them, that are small beside the rectangle stand for their triangles. */
#include <math.h>
#include <string.h>

#include "gpu/after/columns.h"

/* Of a triangle's extent: what the range of its plane over a rectangle may be off by. */
static const double ROUNDED = 1e-9;
/* Triangles seen so nearly from their edge that their plane is not to be relied on: of the square of their extent. */
static const double THIN = 1e-6;
/* Boxes up to this part of the rectangle are small beside it. */
static const double SMALL = 2;
/* Half-spaces along the columns, and within this of it, have no end. */
static const double ALONG = 1e-12;

static bool add_span(ct_column_spans *spans, double lo, double hi) {
    void *all = ct_column_grow(spans->all, &spans->capacity, spans->n, sizeof *spans->all, _Alignof(double));
    if (!all) return false;
    spans->all = all;
    spans->all[spans->n++] = (ct_column_span){lo, hi};
    return true;
}

/* Adds a range to the union of ranges: most lie in one of few. */
static bool add_range(ct_columns *c, double lo, double hi) {
    ct_column_spans *ranges = &c->ranges;
    if (ct_columns_are_cancelled(c)) return false;
    size_t first = 0, count = ranges->n;
    while (count > 0) { /* the first that does not end before this one begins */
        const bool is_before = ranges->all[first + count / 2].hi < lo;
        first += is_before ? count / 2 + 1 : 0;
        count = is_before ? count - count / 2 - 1 : count / 2;
    }
    size_t end = first;
    for (; end < ranges->n && ranges->all[end].lo <= hi; end++) {
        lo = ct_lesser(lo, ranges->all[end].lo);
        hi = ct_greater(hi, ranges->all[end].hi);
    }
    if (end == first) {
        if (!add_span(ranges, lo, hi)) return false;
        memmove(ranges->all + first + 1, ranges->all + first, (ranges->n - 1 - first) * sizeof *ranges->all);
    } else {
        memmove(ranges->all + first + 1, ranges->all + end, (ranges->n - end) * sizeof *ranges->all);
        ranges->n -= end - first - 1;
    }
    ranges->all[first] = (ct_column_span){lo, hi};
    c->visits += 2 + (ranges->n - first) / 16;
    return true;
}

/* ---- ranges ---- */

/* Of the part of the triangle's box that is in the rectangle: the range of the triangle's plane, within its box. */
static ct_column_span find_range(const ct_column_triangle *t, const double lo[2], const double hi[2]) {
    double box_lo[3], box_hi[3], a[3], b[3];
    for (int k = 0; k < 3; k++) {
        const double p = t->p[0][k], q = t->p[1][k], r = t->p[2][k];
        const double less = p < q ? p : q, more = p > q ? p : q;
        box_lo[k] = less < r ? less : r;
        box_hi[k] = more > r ? more : r;
        a[k] = q - p;
        b[k] = r - p;
    }
    ct_column_span range = {box_lo[CT_W], box_hi[CT_W]};
    const double extent = ct_greater(box_hi[0] - box_lo[0], box_hi[1] - box_lo[1]);
    const double area = a[0] * b[1] - a[1] * b[0];
    if (!(fabs(area) > THIN * extent * extent)) return range;
    double middle = t->p[0][CT_W], half = ROUNDED * (range.hi - range.lo);
    for (int k = 0; k < 2; k++) {
        const int other = 1 - k;
        const double slope = (k ? -1 : 1) * (a[CT_W] * b[other] - a[other] * b[CT_W]) / area;
        const double from = box_lo[k] > lo[k] ? box_lo[k] : lo[k], to = box_hi[k] < hi[k] ? box_hi[k] : hi[k];
        middle += slope * (0.5 * (from + to) - t->p[0][k]);
        half += fabs(slope) * 0.5 * ct_greater(to - from, 0);
    }
    range.lo = ct_greater(range.lo, middle - half);
    range.hi = ct_lesser(range.hi, middle + half);
    if (range.lo > range.hi) range = (ct_column_span){box_lo[CT_W], box_hi[CT_W]}; /* rounding */
    return range;
}

/* Whether the rectangle, which is wider than columns by far more than rounding, is beyond an edge of the triangle. */
static bool is_beside(const ct_column_triangle *t, const double lo[2], const double hi[2]) {
    const double *p = t->p[0], *q = t->p[1], *r = t->p[2];
    const double turn = (q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0]) < 0 ? -1 : 1;
    for (int e = 0; e < 3; e++) {
        const double *a = t->p[e], *b = t->p[(e + 1) % 3];
        const double along[2] = {turn * (b[0] - a[0]), turn * (b[1] - a[1])};
        /* The area is the largest at the corner that is farthest to the left. */
        const double u = along[1] < 0 ? hi[0] : lo[0], v = along[0] > 0 ? hi[1] : lo[1];
        if (along[0] * (v - a[1]) - along[1] * (u - a[0]) < 0) return true;
    }
    return false;
}

/* The rectangle of a bound, and what is small beside it. */
struct rectangle {
    const double *lo, *hi;
    float small;
    ct_column_node around; /* in each lane */
};

static bool list_triangles(ct_columns *c, const ct_column_block *block, uint32_t begin, const struct rectangle *r) {
    const uint32_t end = begin + CT_COLUMN_PART < block->n ? begin + CT_COLUMN_PART : block->n;
    for (uint32_t first = begin; first < end; first += CT_COLUMN_FAN)
        for (uint32_t lanes = ct_column_nodes_meet(&block->boxes[first / CT_COLUMN_FAN], &r->around); lanes;
             lanes &= lanes - 1) {
            const ct_column_triangle *t = &block->triangles[first + (uint32_t)__builtin_ctz(lanes)];
            if (is_beside(t, r->lo, r->hi)) continue;
            const ct_column_span range = find_range(t, r->lo, r->hi);
            if (!add_range(c, range.lo, range.hi)) return false;
        }
    c->visits += CT_COLUMN_PART;
    return true;
}

static bool is_lane_small(const ct_column_node *node, uint32_t lane, const struct rectangle *r) {
    return node->hi[0][lane] - node->lo[0][lane] <= r->small && node->hi[1][lane] - node->lo[1][lane] <= r->small;
}

static bool list_block(ct_columns *c, const ct_column_block *block, const struct rectangle *r) {
    for (uint32_t first = 0; first * CT_COLUMN_PART < block->n; first += CT_COLUMN_FAN) {
        const ct_column_node *parts = &block->parts[first / CT_COLUMN_FAN];
        for (uint32_t lanes = ct_column_nodes_meet(parts, &r->around); lanes; lanes &= lanes - 1) {
            const uint32_t lane = (uint32_t)__builtin_ctz(lanes);
            if (!(is_lane_small(parts, lane, r)
                      ? add_range(c, (double)parts->lo[CT_W][lane], (double)parts->hi[CT_W][lane])
                      : list_triangles(c, block, (first + lane) * CT_COLUMN_PART, r)))
                return false;
        }
    }
    c->visits += CT_COLUMN_PARTS;
    return true;
}

/* A node's children that meet the rectangle: each as a whole, or what is below it. */
static bool list_node(ct_columns *c, ct_column_surface *surface, uint32_t level, uint32_t index,
                      const struct rectangle *r) {
    const ct_column_node *node = &surface->tree.nodes[surface->tree.level[level] + index];
    c->visits += CT_COLUMN_FAN;
    if (ct_columns_are_cancelled(c)) return false;
    for (uint32_t lanes = ct_column_nodes_meet(node, &r->around); lanes; lanes &= lanes - 1) {
        const uint32_t lane = (uint32_t)__builtin_ctz(lanes), child = index * CT_COLUMN_FAN + lane;
        if (is_lane_small(node, lane, r)) {
            if (!add_range(c, (double)node->lo[CT_W][lane], (double)node->hi[CT_W][lane])) return false;
            continue;
        }
        if (level > 0) {
            if (!list_node(c, surface, level - 1, child, r)) return false;
            continue;
        }
        const ct_column_block *block = ct_column_surface_block(surface, child);
        if (!block || !list_block(c, block, r)) return false;
    }
    return true;
}

/* Lists the ranges of a side's triangles. */
static bool list_ranges(ct_columns *c, int side, const double lo[2], const double hi[2]) {
    const ct_column_box box = {{lo[0], lo[1], -INFINITY}, {hi[0], hi[1], INFINITY}};
    ct_column_surface *surface = &c->surface[side];
    const struct rectangle r = {lo, hi, (float)(SMALL * ct_greater(hi[0] - lo[0], hi[1] - lo[1])),
                                ct_column_node_of(&box)};
    c->ranges.n = 0;
    if (surface->tree.n_levels > 0 && !list_node(c, surface, surface->tree.n_levels - 1, 0, &r)) return false;
    return true;
}

/* ---- where columns are inside, or may be ---- */

/* From the ranges, and the hits of a column. */
static bool join_ranges(ct_columns *c, int side) {
    const ct_column_spans *ranges = &c->ranges;
    ct_column_spans *inside = &c->inside[side], *surely = &c->surely_inside[side];
    const int least = ct_columns_least_winding(c);
    int winding = 0;
    size_t hit = 0;
    for (size_t i = 0; i < ranges->n;) {
        const ct_column_span all = ranges->all[i++];
        if (winding >= least)
            inside->all[inside->n - 1].hi = all.hi;
        else if (!add_span(inside, all.lo, all.hi))
            return false;
        if (i == ranges->n) break;
        const double between = 0.5 * (all.hi + ranges->all[i].lo); /* as rounding may put a hit beside its range */
        for (; hit < c->n_hits && c->hits[hit].w < between; hit++) winding += c->hits[hit].enters;
        if (winding >= least && !add_span(surely, all.hi, ranges->all[i].lo)) return false;
    }
    return true;
}

static bool find_inside(ct_columns *c, int side, const double lo[2], const double hi[2]) {
    const double middle[2] = {0.5 * (lo[0] + hi[0]), 0.5 * (lo[1] + hi[1])};
    if (!list_ranges(c, side, lo, hi)) return false;
    c->n_hits = 0;
    if (!ct_columns_gather_side(c, side, middle, 0) || !ct_columns_hit(c, side, middle)) return false;
    return ct_columns_sort_hits(c) && join_ranges(c, side);
}

static bool find_inside_half_space(ct_columns *c, int side, const double lo[2], const double hi[2]) {
    const double *plane = c->plane[side];
    ct_column_span all = {-INFINITY, INFINITY}, surely = {0, 0};
    if (fabs(plane[2]) >= ALONG) {
        double middle = plane[3], half = 0;
        for (int k = 0; k < 2; k++) {
            middle += plane[k] * 0.5 * (lo[k] + hi[k]);
            half += fabs(plane[k]) * 0.5 * (hi[k] - lo[k]);
        }
        middle /= -plane[2];
        half = half / fabs(plane[2]) + ROUNDED * fabs(middle);
        surely = all;
        *(plane[2] > 0 ? &all.hi : &all.lo) = middle + (plane[2] > 0 ? half : -half);
        *(plane[2] > 0 ? &surely.hi : &surely.lo) = middle - (plane[2] > 0 ? half : -half);
    }
    return add_span(&c->inside[side], all.lo, all.hi) &&
           (surely.lo == surely.hi || add_span(&c->surely_inside[side], surely.lo, surely.hi));
}

static double longest_of(const ct_column_spans *a) {
    double longest = 0;
    for (size_t i = 0; i < a->n; i++) longest = ct_greater(longest, a->all[i].hi - a->all[i].lo);
    return longest;
}

static double longest_of_both(const ct_column_spans *a, const ct_column_spans *b) {
    double longest = 0;
    for (size_t i = 0, k = 0; i < a->n && k < b->n;) {
        const double lo = ct_greater(a->all[i].lo, b->all[k].lo), hi = ct_lesser(a->all[i].hi, b->all[k].hi);
        longest = ct_greater(longest, hi - lo);
        if (a->all[i].hi < b->all[k].hi)
            i++;
        else
            k++;
    }
    return longest;
}

bool ct_columns_bound(ct_columns *c, const double lo[2], const double hi[2], ct_column_bounds *bounds) {
    double from[2], to[2];
    *bounds = (ct_column_bounds){0, 0};
    bool is_in_window = true;
    for (int k = 0; k < 2; k++) {
        is_in_window = is_in_window && lo[k] >= c->lo[k] && hi[k] <= c->hi[k];
        from[k] = ct_greater(lo[k] - c->step, c->lo[k]);
        to[k] = ct_lesser(hi[k] + c->step, c->hi[k]);
        if (from[k] > to[k]) return true;
    }
    for (int s = 0; s < (c->is_self ? 1 : 2); s++) {
        c->inside[s].n = c->surely_inside[s].n = 0;
        if (!(c->is_half_space[s] ? find_inside_half_space : find_inside)(c, s, from, to)) return false;
    }
    bounds->most = c->is_self ? longest_of(&c->inside[0]) : longest_of_both(&c->inside[0], &c->inside[1]);
    if (is_in_window && !c->is_divided)
        bounds->least =
            c->is_self ? longest_of(&c->surely_inside[0]) : longest_of_both(&c->surely_inside[0], &c->surely_inside[1]);
    return true;
}

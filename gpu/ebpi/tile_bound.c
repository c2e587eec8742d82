/* tile_bound.c - bounds the error of one tile's volume. */
#include "gpu/ebpi/tile_bound.h"

#include <math.h>
#include <string.h>

#include "gpu/ebpi/edge_k.h"

/* A face over the tile. */
struct face {
    uint32_t tag;        /* body << 31 | triangle */
    int32_t crossing;    /* at the tile's centre: 1 the ray enters the body, -1 it leaves, 0 it misses the face */
    int32_t depth;       /* of the crossing */
    bool is_jump;        /* steep or narrow: counted by its depth interval */
    bool is_up;          /* its normal points along the rays */
    ct_ebpi_rect extent; /* of the face inside the tile, at most */
    ct_slope slope;      /* NaN: steep */
    double at_center;    /* depth of its plane at the tile's centre */
    int64_t lo, hi;      /* bounds of its depths over the tile */
    int64_t inside;      /* of lo to hi, the depths where both bodies may be inside */
};

struct interval {
    int64_t lo, hi;
};

/* Disjoint intervals in rising order. */
struct intervals {
    struct interval *of;
    uint32_t n;
};

struct tile_faces {
    const ct_ebpi_view *view;
    const ct_ebpi_tile *tile;
    ct_ebpi_rect rect;
    int32_t center[2];
    double width, height; /* lattice units */
    double reach;         /* from the centre to a corner */
    struct face *face;
    uint32_t n[2], all; /* faces of each body; body 0's come first */
    uint32_t *slots, slot_mask;
    struct intervals joint; /* J */
    int64_t kinks;          /* their sum so far, see CT_EBPI_DEPTH_BITS */
    int64_t butterfly;      /* lattice units: half its height (section 5) */
    int32_t winding[2];     /* of each body, where the ray begins */
    ct_ebpi_bound bound;
};

void ct_ebpi_scratch_free(ct_ebpi_scratch *scratch, ct_budget *budget) {
    ct_buffer_free(&scratch->faces, budget);
    ct_buffer_free(&scratch->order, budget);
    ct_buffer_free(&scratch->intervals, budget);
    ct_buffer_free(&scratch->slots, budget);
    ct_buffer_free(&scratch->covered, budget);
}

/* ---- faces over the tile ---- */

static double plane_at(const struct face *f, const int32_t *corner, const ct_ebpi_view *view, double u, double v) {
    return (double)corner[view->axis] + f->slope.u * (u - (double)corner[view->u]) +
           f->slope.v * (v - (double)corner[view->v]);
}

/* floor and ceil, without a call. */
static int64_t round_down(double x) {
    const int64_t i = (int64_t)x;
    return i - (x < (double)i);
}

static int64_t round_up(double x) {
    const int64_t i = (int64_t)x;
    return i + (x > (double)i);
}

/* fmin and fmax of two numbers, without a call. */
static double lesser(double a, double b) {
    return a < b ? a : b;
}

static double greater(double a, double b) {
    return a > b ? a : b;
}

/* The depths that a face can have in its extent. Rounding is far below the unit that is added at both ends. */
static void find_depths(const struct tile_faces *t, const int32_t *const corner[3], struct face *f) {
    const int w = t->view->axis;
    const int64_t lo = ct_min3(corner[0][w], corner[1][w], corner[2][w]);
    const int64_t hi = ct_max3(corner[0][w], corner[1][w], corner[2][w]);
    f->lo = lo - 1;
    f->hi = hi + 1;
    if (isnan(f->slope.u)) return;
    const ct_ebpi_rect *r = &f->extent;
    const double u = 0.5 * ((double)r->u0 + (double)r->u1), v = 0.5 * ((double)r->v0 + (double)r->v1);
    const double middle = plane_at(f, corner[0], t->view, u, v);
    const double half =
        0.5 * (fabs(f->slope.u) * ((double)r->u1 - (double)r->u0) + fabs(f->slope.v) * ((double)r->v1 - (double)r->v0));
    f->at_center = plane_at(f, corner[0], t->view, t->center[0], t->center[1]);
    if (middle - half > (double)lo) f->lo = round_down(middle - half) - 1;
    if (middle + half < (double)hi) f->hi = round_up(middle + half) + 1;
}

static int32_t larger_of(int32_t a, int32_t b) {
    return a > b ? a : b;
}

static int32_t smaller_of(int32_t a, int32_t b) {
    return a < b ? a : b;
}

static ct_ebpi_rect meet(const ct_ebpi_rect *a, const ct_ebpi_rect *b) {
    return (ct_ebpi_rect){larger_of(a->u0, b->u0), smaller_of(a->u1, b->u1), larger_of(a->v0, b->v0),
                          smaller_of(a->v1, b->v1)};
}

static bool is_empty(const ct_ebpi_rect *r) {
    return r->u0 > r->u1 || r->v0 > r->v1;
}

static void cast_ray(const struct tile_faces *t, const int32_t *const corner[3], struct face *f) {
    const ct_ebpi_view *view = t->view;
    ct_triangle_setup setup;
    const int32_t u = t->center[0], v = t->center[1];
    f->crossing = 0;
    if (u < f->extent.u0 || u > f->extent.u1 || v < f->extent.v0 || v > f->extent.v1 ||
        !ct_make_setup(&setup, corner[0], corner[1], corner[2], view->u, view->v, view->axis, u, v, 0, 0) ||
        !ct_covers(&setup, setup.edge[0], setup.edge[1], setup.edge[2]))
        return;
    const ct_fragment at = ct_fragment_at(&setup, (double)setup.edge[1], (double)setup.edge[2], f->tag);
    f->crossing = at.key & 1 ? 1 : -1;
    f->depth = ct_fragment_depth(at.key);
}

static ct_ebpi_rect box_of(const ct_ebpi_view *view, const int32_t *const corner[3]) {
    const int u = view->u, v = view->v;
    return (ct_ebpi_rect){
        ct_min3(corner[0][u], corner[1][u], corner[2][u]), ct_max3(corner[0][u], corner[1][u], corner[2][u]),
        ct_min3(corner[0][v], corner[1][v], corner[2][v]), ct_max3(corner[0][v], corner[1][v], corner[2][v])};
}

static void list_faces(struct tile_faces *t, ct_ebpi_tile *tile) {
    const ct_ebpi_view *view = t->view;
    t->n[0] = t->n[1] = t->all = 0;
    tile->n_crossed[0] = tile->n_crossed[1] = tile->begin[0] = 0;
    for (uint32_t i = 0; i < t->tile->n_faces; i++) {
        const uint32_t tag = t->tile->faces[i], b = tag >> 31, triangle = tag & 0x7fffffff;
        const int32_t *corner[3];
        ct_ebpi_corners(&view->body[b], triangle, corner);
        const ct_ebpi_rect box = box_of(view, corner);
        struct face *f = &t->face[t->all++];
        const int32_t *p = corner[0], *q = corner[1], *r = corner[2];
        f->tag = tag;
        f->extent = meet(&box, &t->rect);
        f->slope = view->slope[b][triangle];
        f->is_up = (int64_t)(q[view->u] - p[view->u]) * (r[view->v] - p[view->v]) >
                   (int64_t)(r[view->u] - p[view->u]) * (q[view->v] - p[view->v]);
        find_depths(t, corner, f);
        cast_ray(t, corner, f);
        if (t->n[b]++ == 0) tile->begin[b] = i;
        if (!f->crossing) continue;
        const uint32_t to = tile->begin[b] + tile->n_crossed[b]++;
        tile->faces[i] = tile->faces[to];
        tile->faces[to] = tag;
        t->winding[b] -= view->initial[b] == CT_INITIAL_FROM_BALANCE ? f->crossing : 0;
    }
}

/* ---- lists of tiles ---- */

ct_ebpi_tile ct_ebpi_pixel_tile(const ct_ebpi_view *view, int32_t column, int32_t row) {
    const ct_ebpi_rect rect = ct_ebpi_pixel_rect(view, column, row);
    const size_t pixel = (size_t)row * (size_t)view->columns + (size_t)column;
    return (ct_ebpi_tile){.faces = view->faces + view->first[pixel],
                          .n_faces = view->first[pixel + 1] - view->first[pixel],
                          .u = rect.u0,
                          .v = rect.v0,
                          .view = (uint8_t)view->axis,
                          .shift_u = (uint8_t)(view->pixel_shift + view->pitch_shift[0]),
                          .shift_v = (uint8_t)(view->pixel_shift + view->pitch_shift[1])};
}

static ct_ebpi_rect rect_of(const ct_ebpi_tile *tile) {
    return (ct_ebpi_rect){tile->u, tile->u + (1 << tile->shift_u), tile->v, tile->v + (1 << tile->shift_v)};
}

/* The first and the last of the n = 2^cut intervals from `from`, of 2^shift units each, that lo to hi meets. */
static void find_range(int32_t lo, int32_t hi, int32_t from, int shift, int n, int range[2]) {
    const int32_t first = (lo - from - 1) >> shift, last = (hi - from) >> shift;
    range[0] = first < 0 ? 0 : first;
    range[1] = last > n - 1 ? n - 1 : last;
}

bool ct_ebpi_share_faces(const ct_ebpi_view *view, ct_ebpi_tile *tiles, int cut_u, int cut_v, ct_ebpi_scratch *scratch,
                         ct_arena *arena, ct_budget *budget) {
    const uint32_t *faces = tiles->faces, n_faces = tiles->n_faces;
    const int n_u = 1 << cut_u, n_v = 1 << cut_v;
    uint32_t count[16] = {0}, *next[16];
    size_t all = 0;
    if (!ct_buffer_reserve(&scratch->covered, budget, ((size_t)n_faces + 1) * sizeof(uint16_t), 0, false)) return false;
    uint16_t *covered = scratch->covered.data; /* of each face: a bit for each tile that it meets */
    for (uint32_t i = 0; i < n_faces; i++) {
        const int32_t *corner[3];
        int u[2], v[2];
        ct_ebpi_corners(&view->body[faces[i] >> 31], faces[i] & 0x7fffffff, corner);
        const ct_ebpi_rect box = box_of(view, corner);
        find_range(box.u0, box.u1, tiles->u, tiles->shift_u, n_u, u);
        find_range(box.v0, box.v1, tiles->v, tiles->shift_v, n_v, v);
        const bool is_single = u[0] == u[1] && v[0] == v[1];
        covered[i] = 0;
        for (int row = v[0]; row <= v[1]; row++)
            for (int column = u[0]; column <= u[1]; column++) {
                const int k = row * n_u + column;
                const ct_ebpi_rect rect = rect_of(&tiles[k]);
                if (!is_single && !ct_ebpi_face_meets(view, corner, &rect)) continue;
                covered[i] = (uint16_t)(covered[i] | 1u << k);
                count[k]++;
                all++;
            }
    }
    uint32_t *list = ct_arena_alloc(arena, budget, (all + 1) * sizeof *list);
    if (!list) return false;
    for (int k = 0; k < n_u * n_v; k++) {
        next[k] = list;
        tiles[k].faces = list;
        tiles[k].n_faces = count[k];
        list += count[k];
    }
    for (uint32_t i = 0; i < n_faces; i++)
        for (uint32_t left = covered[i]; left; left &= left - 1) *next[__builtin_ctz(left)]++ = faces[i];
    return true;
}

/* ---- intervals of depth ---- */

static void append(struct intervals *to, int64_t lo, int64_t hi) {
    if (to->n && to->of[to->n - 1].hi >= lo) {
        if (hi > to->of[to->n - 1].hi) to->of[to->n - 1].hi = hi;
        return;
    }
    to->of[to->n++] = (struct interval){lo, hi};
}

static void intersect(const struct intervals *a, const struct intervals *b, struct intervals *to) {
    to->n = 0;
    for (uint32_t i = 0, j = 0; i < a->n && j < b->n;) {
        const int64_t lo = a->of[i].lo > b->of[j].lo ? a->of[i].lo : b->of[j].lo;
        const int64_t hi = a->of[i].hi < b->of[j].hi ? a->of[i].hi : b->of[j].hi;
        if (lo < hi) append(to, lo, hi);
        if (a->of[i].hi < b->of[j].hi)
            i++;
        else
            j++;
    }
}

/* How much of lo to hi the intervals hold. */
static int64_t measure_within(const struct intervals *in, int64_t lo, int64_t hi) {
    int64_t sum = 0;
    for (uint32_t i = 0; i < in->n && in->of[i].lo < hi; i++) {
        const int64_t from = in->of[i].lo > lo ? in->of[i].lo : lo, to = in->of[i].hi < hi ? in->of[i].hi : hi;
        if (from < to) sum += to - from;
    }
    return sum;
}

/* Faces are sorted by keys: their lowest depth, then their index. */
enum { INDEX_BITS = 28 };

static uint64_t key_of(const struct face *f, uint32_t index) {
    return (uint64_t)(f->lo + ((int64_t)1 << 33)) << INDEX_BITS | index;
}

static const struct face *face_at(const struct tile_faces *t, uint64_t key) {
    return &t->face[key & ((1u << INDEX_BITS) - 1)];
}

/* Shell's method: few faces are the rule. */
static void sort_keys(uint64_t *key, uint32_t n) {
    static const uint32_t gaps[] = {86961, 33936, 13776, 4592, 1968, 861, 336, 112, 48, 21, 7, 3, 1};
    for (size_t g = 0; g < sizeof gaps / sizeof *gaps; g++) {
        const uint32_t gap = gaps[g];
        if (2 * gap > n && gap > 1) continue;
        for (uint32_t i = gap; i < n; i++) {
            const uint64_t k = key[i];
            uint32_t at = i;
            for (; at >= gap && key[at - gap] > k; at -= gap) key[at] = key[at - gap];
            key[at] = k;
        }
    }
}

/* The depths where a body may be inside somewhere over the tile: where it has a face, and between its faces where its
 * winding number, the same all over the tile, is positive. */
static void find_possible(const struct tile_faces *t, int b, const uint64_t *key, uint32_t n, struct intervals *to) {
    int32_t winding = t->winding[b];
    to->n = 0;
    if (winding > 0) append(to, t->view->lo, t->view->lo);
    for (uint32_t i = 0; i < n;) {
        int64_t lo = face_at(t, key[i])->lo, hi = lo;
        const bool is_inside = winding > 0;
        for (; i < n && face_at(t, key[i])->lo <= hi; i++) {
            const struct face *f = face_at(t, key[i]);
            if (f->hi > hi) hi = f->hi;
            winding += f->crossing;
        }
        if (is_inside) lo = to->of[to->n - 1].hi; /* from the faces before */
        append(to, lo, hi);
    }
    if (winding > 0) append(to, to->of[to->n - 1].hi, t->view->hi);
}

/* ---- the ray ---- */

/* The length of the ray inside both bodies (ct_is_in_span), and its number of spans, from the crossings in rising order
 * of depth. */
static int32_t measure_ray(const struct tile_faces *t, const struct face **crossed, int64_t *n_spans) {
    uint32_t n = 0;
    int32_t winding[2] = {t->winding[0], t->winding[1]}, length = 0, begin = 0;
    *n_spans = 0;
    for (uint32_t i = 0; i < t->all; i++) {
        const struct face *f = &t->face[i];
        if (!f->crossing) continue;
        uint32_t at = n++;
        for (; at > 0 && crossed[at - 1]->depth > f->depth; at--) crossed[at] = crossed[at - 1];
        crossed[at] = f;
    }
    for (uint32_t i = 0; i < n;) {
        const int32_t depth = crossed[i]->depth;
        const bool was_inside = winding[0] > 0 && winding[1] > 0;
        for (; i < n && crossed[i]->depth == depth; i++) winding[crossed[i]->tag >> 31] += crossed[i]->crossing;
        const bool is_inside = winding[0] > 0 && winding[1] > 0;
        if (is_inside && !was_inside) begin = depth;
        if (!was_inside || is_inside) continue;
        length += depth - begin;
        ++*n_spans;
    }
    return length;
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

static void add_depth(struct tile_faces *t, double depth) {
    t->kinks += 1 + (int64_t)(depth * ((1 + 0x1p-40) * (1 << CT_EBPI_DEPTH_BITS)));
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
static void add_jump(struct tile_faces *t, const struct face *f, const ct_ebpi_rect *r) {
    const double cone = angle_of(t, r) * t->reach * t->reach / (2 * t->width * t->height);
    add_depth(t, lesser(0.5, cone) * (double)f->inside);
}

/* Adds where face i passes into face j: at their common edge, or where they cross. */
static void add_passage(struct tile_faces *t, const struct face *i, const struct face *j, const ct_ebpi_rect *r) {
    const ct_slope none = {0, 0};
    if (!i->is_jump && !j->is_jump) {
        add_kink(t, (ct_slope){i->slope.u - j->slope.u, i->slope.v - j->slope.v}, i->at_center - j->at_center, r);
        return;
    }
    if (i->is_jump)
        add_jump(t, i, r);
    else
        add_kink(t, i->slope, none.u, r);
    if (j->is_jump)
        add_jump(t, j, r);
    else
        add_kink(t, j->slope, none.u, r);
}

static uint32_t hash_of(uint32_t tag) {
    return (tag * 2654435769u) >> 7;
}

static void fill_slots(struct tile_faces *t) {
    memset(t->slots, 0, ((size_t)t->slot_mask + 1) * sizeof *t->slots);
    for (uint32_t i = 0; i < t->all; i++) {
        uint32_t at = hash_of(t->face[i].tag) & t->slot_mask;
        while (t->slots[at]) at = (at + 1) & t->slot_mask;
        t->slots[at] = i + 1;
    }
}

/* NULL: the face is not over the tile. */
static const struct face *find_face(const struct tile_faces *t, uint32_t tag) {
    for (uint32_t at = hash_of(tag) & t->slot_mask; t->slots[at]; at = (at + 1) & t->slot_mask)
        if (t->face[t->slots[at] - 1].tag == tag) return &t->face[t->slots[at] - 1];
    return NULL;
}

/* Calls add for every edge that the tile may hold points of, between two faces with depths in J. */
typedef void (*add_edge)(struct tile_faces *t, const struct face *i, const struct face *j, const int32_t *const end[2],
                         const ct_ebpi_rect *r);

/* The part of the tile that may hold points of the edge from a to b. False: none. */
static bool find_edge(const struct tile_faces *t, const int32_t *a, const int32_t *b, ct_ebpi_rect *r) {
    const int u = t->view->u, v = t->view->v;
    const ct_ebpi_rect box = {smaller_of(a[u], b[u]), larger_of(a[u], b[u]), smaller_of(a[v], b[v]),
                              larger_of(a[v], b[v])};
    *r = meet(&box, &t->rect);
    if (is_empty(r)) return false;
    return ct_ebpi_is_in(a, u, v, &t->rect) || ct_ebpi_is_in(b, u, v, &t->rect) ||
           !ct_ebpi_is_beside_line(a, b, u, v, &t->rect);
}

static void visit_edges(struct tile_faces *t, add_edge add) {
    for (uint32_t i = 0; i < t->all; i++) {
        const struct face *f = &t->face[i];
        const ct_ebpi_body *body = &t->view->body[f->tag >> 31];
        const uint32_t triangle = f->tag & 0x7fffffff;
        if (!f->inside) continue;
        const int32_t *corner[3];
        ct_ebpi_corners(body, triangle, corner);
        for (uint32_t k = 0; k < 3; k++) {
            const uint32_t other = ct_half_edge_triangle(body->adjacency->opposite[triangle][k]);
            ct_ebpi_rect r;
            if (other < triangle || !find_edge(t, corner[k], corner[(k + 1) % 3], &r)) continue;
            const struct face *g = find_face(t, (f->tag & 0x80000000u) | other);
            const int32_t *const end[2] = {corner[k], corner[(k + 1) % 3]};
            if (g && g->inside) add(t, f, g, end, &r);
        }
    }
}

static void add_strict_edge(struct tile_faces *t, const struct face *i, const struct face *j,
                            const int32_t *const end[2], const ct_ebpi_rect *r) {
    (void)end;
    add_passage(t, i, j, r);
}

/* Faces of the two bodies may cross over the tile, in *r. */
static bool may_cross(const struct tile_faces *t, const struct face *a, const struct face *b, ct_ebpi_rect *r) {
    const int64_t lo = a->lo > b->lo ? a->lo : b->lo, hi = a->hi < b->hi ? a->hi : b->hi;
    if (lo > hi) return false;
    *r = meet(&a->extent, &b->extent);
    if (is_empty(r)) return false;
    if (isnan(a->slope.u) || isnan(b->slope.u)) return true;
    const double gu = a->slope.u - b->slope.u, gv = a->slope.v - b->slope.v;
    const double u = 0.5 * ((double)r->u0 + (double)r->u1) - t->center[0];
    const double v = 0.5 * ((double)r->v0 + (double)r->v1) - t->center[1];
    const double half = 0.5 * (fabs(gu) * ((double)r->u1 - (double)r->u0) + fabs(gv) * ((double)r->v1 - (double)r->v0));
    return fabs(a->at_center - b->at_center + gu * u + gv * v) <= half + 2;
}

/* With more pairs than this, only the depths bound the tile: it is far too large. */
enum { MOST_PAIRS = 1 << 14 };

static bool add_transient_edges(struct tile_faces *t) {
    if ((uint64_t)t->n[0] * t->n[1] > MOST_PAIRS) return false;
    for (uint32_t i = 0; i < t->n[0]; i++)
        for (uint32_t j = t->n[0]; j < t->all && t->face[i].inside; j++) {
            ct_ebpi_rect r;
            if (t->face[j].inside && may_cross(t, &t->face[i], &t->face[j], &r))
                add_passage(t, &t->face[i], &t->face[j], &r);
        }
    return true;
}

/* ---- the published bound ---- */

/* How far the edge between two corners runs along u and v inside the tile. No order of the corners changes a bit. */
static void clip_edge(const struct tile_faces *t, const int32_t *const end[2], double length[2]) {
    const int axis[2] = {t->view->u, t->view->v};
    const bool is_rising =
        end[0][axis[0]] < end[1][axis[0]] || (end[0][axis[0]] == end[1][axis[0]] && end[0][axis[1]] <= end[1][axis[1]]);
    const int32_t *a = end[!is_rising], *b = end[is_rising];
    const double lo[2] = {t->rect.u0, t->rect.v0}, hi[2] = {t->rect.u1, t->rect.v1};
    double from = 0, to = 1;
    const bool is_whole = ct_ebpi_is_in(a, axis[0], axis[1], &t->rect) && ct_ebpi_is_in(b, axis[0], axis[1], &t->rect);
    for (int k = 0; k < 2 && !is_whole; k++) {
        const double start = a[axis[k]], run = (double)b[axis[k]] - start;
        if (run == 0) continue;
        const double at_lo = (lo[k] - start) / run, at_hi = (hi[k] - start) / run;
        from = greater(from, lesser(at_lo, at_hi));
        to = lesser(to, greater(at_lo, at_hi));
    }
    for (int k = 0; k < 2; k++) length[k] = fabs((double)b[axis[k]] - a[axis[k]]) * greater(to - from, 0);
}

static ct_ebpi_side side_of(const struct tile_faces *t, const struct face *f) {
    const ct_ebpi_view *view = t->view;
    const double up = f->is_up ? 1 : -1;
    if (!isnan(f->slope.u)) return (ct_ebpi_side){{-up * f->slope.u, -up * f->slope.v, up}, (double)f->inside, false};
    const int32_t *corner[3];
    const int axis[3] = {view->u, view->v, view->axis};
    double e[2][3];
    ct_ebpi_corners(&view->body[f->tag >> 31], f->tag & 0x7fffffff, corner);
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 3; k++) e[i][k] = (double)corner[i + 1][axis[k]] - (double)corner[0][axis[k]];
    return (ct_ebpi_side){{e[0][1] * e[1][2] - e[0][2] * e[1][1], e[0][2] * e[1][0] - e[0][0] * e[1][2],
                           e[0][0] * e[1][1] - e[0][1] * e[1][0]},
                          (double)f->inside,
                          true};
}

static void add_published_edge(struct tile_faces *t, const struct face *i, const struct face *j,
                               const int32_t *const end[2], const ct_ebpi_rect *r) {
    (void)r;
    const ct_ebpi_side side[2] = {side_of(t, i), side_of(t, j)};
    double length[2];
    clip_edge(t, end, length);
    add_depth(t, ct_ebpi_edge_error(side, length[0], length[1], t->width, t->height, t->bound == CT_EBPI_AS_PRINTED));
    /* What the approximation planes of the ray's crossings may be off by at the tile's corners. */
    for (int k = 0; k < 2; k++) {
        const struct face *f = k ? j : i;
        const double height = f->is_jump ? (double)f->inside : t->reach * (fabs(f->slope.u) + fabs(f->slope.v));
        t->butterfly += 1 + (int64_t)height;
    }
}

/* Transient edges between faces that the ray meets: where one's approximation plane meets the other's butterfly. */
static void add_met_crossings(struct tile_faces *t) {
    for (uint32_t i = 0; i < t->n[0]; i++)
        for (uint32_t j = t->n[0]; j < t->all && t->face[i].crossing; j++) {
            const struct face *a = &t->face[i], *b = &t->face[j];
            if (!b->crossing) continue;
            if (a->is_jump || b->is_jump) {
                if (a->lo <= b->hi && b->lo <= a->hi) add_passage(t, a, b, &t->rect);
                continue;
            }
            const double gu = a->slope.u - b->slope.u, gv = a->slope.v - b->slope.v;
            const double apart = fabs(a->at_center - b->at_center);
            if (apart > 0.5 * (fabs(gu) * t->width + fabs(gv) * t->height) + (double)t->butterfly) continue;
            add_kink(t, (ct_slope){gu, gv}, 0, &t->rect);
        }
}

/* ---- the tile ---- */

/* Both ends of a span are rounded to a unit, after some rounding in double. */
static const int64_t SPAN_ROUNDING = ((int64_t)1 << CT_EBPI_DEPTH_BITS) + 64;

static bool reserve(struct tile_faces *t, ct_ebpi_scratch *scratch, ct_budget *budget, size_t n) {
    t->slot_mask = 7;
    while (t->slot_mask < 2 * n) t->slot_mask = 2 * t->slot_mask + 1;
    if (!ct_buffer_reserve(&scratch->faces, budget, (n + 1) * sizeof(struct face), 0, false) ||
        !ct_buffer_reserve(&scratch->order, budget, 2 * (n + 1) * sizeof(uint64_t), 0, false) ||
        !ct_buffer_reserve(&scratch->intervals, budget, (4 * n + 12) * sizeof(struct interval), 0, false) ||
        !ct_buffer_reserve(&scratch->slots, budget, ((size_t)t->slot_mask + 1) * sizeof(uint32_t), 0, false))
        return false;
    t->face = scratch->faces.data;
    t->slots = scratch->slots.data;
    return true;
}

/* Finds J, what of each face lies in it, and the depths in J that hold a face. key: [faces], memory: [4 * faces + 12].
 */
static int64_t find_joint(struct tile_faces *t, uint64_t *key, struct interval *memory) {
    struct intervals possible[2], surfaces = {memory + t->all + 4, 0};
    for (uint32_t i = 0; i < t->all; i++) key[i] = key_of(&t->face[i], i);
    sort_keys(key, t->n[0]);
    sort_keys(key + t->n[0], t->n[1]);
    for (int b = 0; b < 2; b++) {
        possible[b] = (struct intervals){memory + 2 * (size_t)t->all + 4 + (b ? t->n[0] + 2 : 0), 0};
        find_possible(t, b, key + (b ? t->n[0] : 0), t->n[b], &possible[b]);
    }
    t->joint = (struct intervals){memory, 0};
    intersect(&possible[0], &possible[1], &t->joint);
    if (!t->joint.n) return 0;
    for (uint32_t i = 0, j = t->n[0]; i < t->n[0] || j < t->all;) {
        const bool is_first = j == t->all || (i < t->n[0] && key[i] < key[j]);
        const struct face *f = face_at(t, key[is_first ? i++ : j++]);
        append(&surfaces, f->lo, f->hi);
    }
    int64_t sum = 0;
    for (uint32_t i = 0; i < surfaces.n; i++) sum += measure_within(&t->joint, surfaces.of[i].lo, surfaces.of[i].hi);
    for (uint32_t i = 0; i < t->all; i++) {
        struct face *f = &t->face[i];
        f->inside = measure_within(&t->joint, f->lo, f->hi);
        const double drop = (fabs(f->slope.u) * t->width + fabs(f->slope.v) * t->height) / 8;
        f->is_jump = !(drop <= (double)f->inside); /* also where the slope is NaN */
    }
    return sum;
}

/* Adds up the kinks. False: there are too many. */
static bool add_kinks(struct tile_faces *t) {
    const bool is_strict = t->bound == CT_EBPI_STRICT;
    if (is_strict && !add_transient_edges(t)) return false;
    fill_slots(t);
    visit_edges(t, is_strict ? add_strict_edge : add_published_edge);
    if (!is_strict) add_met_crossings(t);
    return true;
}

bool ct_ebpi_measure_tile(const ct_ebpi_view *view, ct_ebpi_bound bound, ct_ebpi_tile *tile, ct_ebpi_scratch *scratch,
                          ct_budget *budget) {
    struct tile_faces t = {.view = view, .tile = tile, .bound = bound};
    const int32_t w = 1 << tile->shift_u, h = 1 << tile->shift_v;
    t.rect = rect_of(tile);
    t.center[0] = tile->u + w / 2;
    t.center[1] = tile->v + h / 2;
    t.width = w;
    t.height = h;
    t.reach = 0.5 * sqrt(t.width * t.width + t.height * t.height);
    if (!reserve(&t, scratch, budget, tile->n_faces)) return false;
    tile->length = 0;
    tile->bound = 0;
    if (!tile->n_faces || tile->faces[0] >> 31 == tile->faces[tile->n_faces - 1] >> 31)
        return true; /* one body is nowhere over the tile */
    list_faces(&t, tile);
    const int64_t most = find_joint(&t, scratch->order.data, scratch->intervals.data);
    if (!t.joint.n) return true;
    int64_t n_spans, sum = most << CT_EBPI_DEPTH_BITS;
    tile->length = measure_ray(&t, scratch->order.data, &n_spans);
    if (most > 0 && add_kinks(&t) && t.kinks < sum) sum = t.kinks;
    tile->bound = sum + n_spans * SPAN_ROUNDING;
    return true;
}

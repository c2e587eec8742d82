/* raster_cpu.simd.c - binning and rasterising on the CPU. */
#include "gpu/raster/raster_cpu.h"

#include <string.h>

#include "gpu/raster/edge.h"
#include "gpu/raster/lanes.h"

/* ---- binning ---- */

/* Cells of one vertex: lanes x, y, z; the others are not looked at. */
typedef int16_t cells8 __attribute__((vector_size(16)));

static inline cells8 load_cells(const ct_placed *p, uint32_t vertex) {
    return (cells8)(ct_v2l){(int64_t)p->cells[vertex], 0};
}

#ifdef __SSE2__ /* the compiler does not see through the others */
static inline cells8 smaller(cells8 a, cells8 b) {
    return (cells8)_mm_min_epi16((__m128i)a, (__m128i)b);
}

static inline cells8 larger(cells8 a, cells8 b) {
    return (cells8)_mm_max_epi16((__m128i)a, (__m128i)b);
}

/* The upper halves of the products of unsigned lanes. */
static inline cells8 multiply_high(cells8 a, cells8 b) {
    return (cells8)_mm_mulhi_epu16((__m128i)a, (__m128i)b);
}
#else
static inline cells8 smaller(cells8 a, cells8 b) {
    cells8 less = a < b;
    return (less & a) | (~less & b);
}

static inline cells8 larger(cells8 a, cells8 b) {
    cells8 more = a > b;
    return (more & a) | (~more & b);
}

static inline cells8 multiply_high(cells8 a, cells8 b) {
    for (int i = 0; i < 4; i++) a[i] = (int16_t)((uint32_t)(uint16_t)a[i] * (uint16_t)b[i] >> 16);
    return a;
}
#endif

/* What a triangle's corners span along each axis. */
struct reach {
    cells8 low, high; /* cells */
    uint64_t in;      /* bit 16 w: it may cover a sample that matters in view w */
};

/* In which views may a triangle cover a sample that matters? One whose corners have one and the same cell along an axis
 * passes between two samples of it, or lies outside the window: it can cover a sample in none of the two views that
 * this axis is part of. One that lies after the window along an axis bounds no span of that axis's view, nor does one
 * before it, which need not even be counted where the body ends within the window. */
static inline struct reach reach_of(const ct_placed *p, const uint32_t *k, cells8 dropped) {
    cells8 a = load_cells(p, k[0]), b = load_cells(p, k[1]), c = load_cells(p, k[2]);
    const cells8 mask = {CT_CELL_MASK, CT_CELL_MASK, CT_CELL_MASK};
    cells8 kept = (a & b & c & dropped) == 0;
    a &= mask;
    b &= mask;
    c &= mask;
    struct reach r = {smaller(smaller(a, b), c), larger(larger(a, b), c), 0};
    cells8 spans = r.low != r.high; /* a sample lies between the corners */
    kept &= __builtin_shufflevector(spans, spans, 1, 2, 0, 3, 4, 5, 6, 7) &
            __builtin_shufflevector(spans, spans, 2, 0, 1, 3, 4, 5, 6, 7);
    r.in = (uint64_t)((ct_v2l)kept)[0];
    return r;
}

static inline uint32_t is_in(struct reach r, int w) {
    return r.in >> (16 * w) & 1;
}

/* Marks of triangles that are left out, by axis. */
static inline cells8 dropped_of(const ct_placed *p) {
    cells8 dropped = {0};
    for (int w = 0; w < 3; w++)
        dropped[w] = (int16_t)(CT_CELL_AFTER | (p->entry[w] == CT_ENTRY_LISTED ? CT_CELL_BEFORE : 0));
    return dropped;
}

/* Views of one band: the lists of triangles are the answer. What a view does not take is written all the same but
 * overwritten by the next, so that nothing branches; each list has room for one more. */
static bool bin_views(ct_bin *out, ct_budget *budget, const ct_placed *p, uint32_t first, uint32_t last) {
    size_t stride = last - first + 1;
    if (!ct_buffer_reserve(&out->memory, budget, 3 * stride * sizeof *out->entries, 0, false)) return false;
    uint32_t *list = out->memory.data, *x = list, *y = x + stride, *z = y + stride;
    const cells8 dropped = dropped_of(p);
    for (uint32_t t = first; t < last; t++) {
        struct reach r = reach_of(p, p->triangles + 3 * (size_t)t, dropped);
        if (!(r.in << 16)) continue;
        *x = *y = *z = t;
        x += is_in(r, 0);
        y += is_in(r, 1);
        z += is_in(r, 2);
    }
    uint32_t *offset = out->offsets.data; /* not told apart by how many samples they can cover */
    offset[0] = offset[1] = 0;
    offset[2] = offset[3] = (uint32_t)(x - list);
    offset[4] = offset[5] = offset[2] + (uint32_t)(y - list - stride);
    offset[6] = offset[4] + (uint32_t)(z - list - 2 * stride);
    memmove(list + offset[2], list + stride, (offset[4] - offset[2]) * sizeof *list);
    memmove(list + offset[4], list + 2 * stride, (offset[6] - offset[4]) * sizeof *list);
    out->entries = list;
    out->offset = offset;
    return true;
}

enum { FAR = 16 };

/* An entry of a view's list before it is sorted by band: the triangle, above it the slots of its first band and its
 * last. The slot of band b is 2 b for a triangle that can cover one sample only, else 2 b + 1. */
typedef uint64_t binned;

static inline uint32_t first_slot(binned e) {
    return e >> 32 & 0xffff;
}

static inline uint32_t last_slot(binned e) {
    return (uint32_t)(e >> 48);
}

/* Lanes by axis: -1 where the corners have one sample between them, none is so far off that its cell was cut to the
 * window's, and the pitch is fine. */
static inline cells8 single_of(struct reach r, cells8 ends, cells8 fine) {
    const cells8 one = {1, 1, 1};
    return (r.high - r.low == one) & ~((r.low == 0) | (r.high == ends)) & fine;
}

/* The bands of a cell: the rows before it, shifted down, by a multiplication with 2^(16 - shift) that fits a lane. */
static inline cells8 band_of(cells8 cells, cells8 factor) {
    return multiply_high(cells << 1, factor);
}

/* 2 band + (0: of a single sample, else 1). Lanes of views that the triangle is not in may hold anything. */
static inline cells8 slot_of(cells8 band, cells8 several) {
    typedef uint16_t u8 __attribute__((vector_size(16)));
    return (cells8)((u8)band + (u8)band + (u8)several);
}

static void list_views(const ct_placed *p, const ct_bands *bands, uint32_t first, uint32_t last, binned *list[3]) {
    const cells8 dropped = dropped_of(p), one = {1, 1, 1, 1};
    cells8 factor = {0}, ends = {0}, fine = {0};
    for (int w = 0; w < 3; w++) {
        factor[ct_view_v(w)] = (int16_t)(1 << (15 - bands->shift[w]));
        ends[w] = bands->n[w];
        fine[w] = (int16_t)-bands->fine[w];
    }
    binned *x = list[0], *y = list[1], *z = list[2];
    for (uint32_t t = first; t < last; t++) {
        const uint32_t *k = p->triangles + 3 * (size_t)t;
        if (t + FAR < last) /* a mesh with many bands has many vertices, in no order that caches would like */
            for (int j = 0; j < 3; j++) __builtin_prefetch(&p->cells[k[3 * FAR + j]]);
        struct reach r = reach_of(p, k, dropped);
        /* Lane v is for the view whose rows are along v, and whose other axis is the one before it. */
        cells8 single = single_of(r, ends, fine);
        single &= __builtin_shufflevector(single, single, 2, 0, 1, 3, 4, 5, 6, 7);
        cells8 from = band_of(r.low, factor), to = band_of(r.high - one, factor);
        from = slot_of(from, single + one);
        to = slot_of(to, single + one);
        /* Per axis, in 32 bits: first and last slot; then in 64 bits above the triangle. */
        ct_v4i both = (ct_v4i)__builtin_shufflevector(from, to, 0, 8, 1, 9, 2, 10, 3, 11);
        ct_v4i triangle = {(int32_t)t, (int32_t)t, (int32_t)t, (int32_t)t};
        ct_v2l low = (ct_v2l)__builtin_shufflevector(triangle, both, 0, 4, 1, 5);
        ct_v2l high = (ct_v2l)__builtin_shufflevector(triangle, both, 2, 6, 3, 7);
        *x = (binned)high[0]; /* rows of view x are along z */
        *y = (binned)low[0];
        *z = (binned)low[1];
        x += is_in(r, 0);
        y += is_in(r, 1);
        z += is_in(r, 2);
    }
    list[0] = x;
    list[1] = y;
    list[2] = z;
}

static bool bin(ct_bin *out, ct_budget *budget, const ct_placed *p, const ct_bands *bands, uint32_t first,
                uint32_t last) {
    out->placed = p;
    if (!ct_buffer_reserve(&out->offsets, budget, (2 * bands->total + 2) * sizeof *out->offset, 0, false)) return false;
    if (bands->total == 3) return bin_views(out, budget, p, first, last);
    size_t stride = last - first + 1;
    if (!ct_buffer_reserve(&out->lists, budget, 3 * stride * sizeof(binned), 0, false)) return false;
    binned *start[3], *end[3];
    for (int w = 0; w < 3; w++) start[w] = end[w] = (binned *)out->lists.data + (size_t)w * stride;
    list_views(p, bands, first, last, end);

    /* A counting sort. next[s + 2] counts the entries of slot s; summed up, next[s + 1] is where the next entry of slot
     * s goes; in the end that is where they end, so next[s] is where they begin. */
    uint32_t *next = out->offsets.data;
    const uint32_t slots = 2 * bands->total;
    memset(next, 0, (slots + 2) * sizeof *next);
    for (int w = 0; w < 3; w++) {
        uint32_t *count = next + 2 * bands->first[w] + 2;
        for (const binned *e = start[w]; e < end[w]; e++) {
            uint32_t slot = first_slot(*e), last_of = last_slot(*e);
            count[slot]++;
            while (slot < last_of) count[slot += 2]++;
        }
    }
    uint64_t total = 0;
    for (uint32_t slot = 2; slot <= slots + 1; slot++) {
        total += next[slot];
        next[slot] = (uint32_t)total;
    }
    if (total > UINT32_MAX || !ct_buffer_reserve(&out->memory, budget, (size_t)total * sizeof *out->entries, 0, false))
        return false;
    uint32_t *entries = out->memory.data;
    for (int w = 0; w < 3; w++) {
        uint32_t *to = next + 2 * bands->first[w] + 1;
        for (const binned *e = start[w]; e < end[w]; e++) {
            uint32_t slot = first_slot(*e), last_of = last_slot(*e);
            entries[to[slot]++] = (uint32_t)*e;
            while (slot < last_of) entries[to[slot += 2]++] = (uint32_t)*e;
        }
    }
    out->entries = entries;
    out->offset = next;
    return true;
}

/* ---- rasterising ---- */

struct target {
    ct_ray_lists *rays;
    ct_budget *budget;
    ct_linked_fragment *next, *end;
    bool failed;
    bool second;  /* of the two bodies this one is rasterised after the other */
    bool counted; /* crossings before the window are */
};

static bool make_room(struct target *t) {
    ct_ray_lists *rays = t->rays;
    size_t used = (size_t)(t->next - rays->fragments), want = used ? 2 * used : 4096;
    if (used >= CT_END / 2 ||
        !ct_buffer_reserve(&rays->fragment_memory, t->budget, want * sizeof *t->next, used * sizeof *t->next, false)) {
        t->failed = true;
        return false;
    }
    rays->fragments = rays->fragment_memory.data;
    t->next = rays->fragments + used;
    t->end = rays->fragments + rays->fragment_memory.capacity / sizeof *t->next;
    return true;
}

static inline void put(struct target *t, uint32_t *head, ct_fragment f) {
    if (__builtin_expect(t->next == t->end, 0) && !make_room(t)) return;
    t->next->f = f;
    t->next->next = *head;
    *head = (uint32_t)(t->next - t->rays->fragments);
    t->next++;
}

/* Counts a crossing before the window's depths. */
static inline void count(const struct target *t, size_t ray, uint32_t tag, int32_t ccw) {
    t->rays->winding[ray][tag >> 31] -= ccw;
}

/* On a ray that the other body, which is rasterised first, is never inside of, a crossing bounds no span. */
static inline bool is_wanted(const struct target *t, size_t ray) {
    const ct_ray_lists *rays = t->rays;
    return !t->second || rays->head[ray] != CT_END || (rays->winding && rays->winding[ray][rays->first_body] > 0);
}

/* ---- one triangle of any size ---- */

/* The crossings of n rays in a row, from the edge functions at the first: four fragments at a time, by the same
 * arithmetic as ct_fragment_at. */
static void cross_row(struct target *t, const ct_setup *s, size_t ray, int64_t n, int64_t e1, int64_t e2,
                      uint32_t tag) {
    while (t->end - t->next < n)
        if (!make_room(t)) return;
    const ct_v4l step1 = (ct_v4l){} + 4 * s->step_u[1], step2 = (ct_v4l){} + 4 * s->step_u[2];
    const ct_v4d inverse = (ct_v4d){} + s->inverse, dz1 = (ct_v4d){} + s->dz1, dz2 = (ct_v4d){} + s->dz2;
    const ct_v4i z0 = v4i(s->z0 + CT_DEPTH_BIAS), entering = v4i(s->ccw < 0), tags = v4i((int32_t)tag);
    ct_v4l v1 = stepped(e1, s->step_u[1]), v2 = stepped(e2, s->step_u[2]);
    const bool all = !t->second;
    uint32_t *head = t->rays->head + ray;
    const int32_t(*winding)[2] = t->rays->winding ? (const int32_t(*)[2])t->rays->winding + ray : NULL;
    const int first_body = t->rays->first_body;
    ct_linked_fragment *next = t->next;
    uint32_t number = (uint32_t)(next - t->rays->fragments);
    for (int64_t i = 0; i < n; i += 4) {
        ct_v4d w1 = int64_to_double(v1) * inverse, w2 = int64_to_double(v2) * inverse;
        ct_v4i key = keys_of(z0, w1 * dz1 + w2 * dz2, entering);
        ct_v4i l1 = round_v4d(w1 * (double)CT_WEIGHT_ONE), l2 = round_v4d(w2 * (double)CT_WEIGHT_ONE);
        ct_v4i a = __builtin_shufflevector(key, l1, 0, 4, 1, 5), b = __builtin_shufflevector(l2, tags, 0, 4, 1, 5);
        ct_v4i c = __builtin_shufflevector(key, l1, 2, 6, 3, 7), d = __builtin_shufflevector(l2, tags, 2, 6, 3, 7);
        const ct_v4i f[4] = {__builtin_shufflevector(a, b, 0, 1, 4, 5), __builtin_shufflevector(a, b, 2, 3, 6, 7),
                             __builtin_shufflevector(c, d, 0, 1, 4, 5), __builtin_shufflevector(c, d, 2, 3, 6, 7)};
#pragma GCC unroll 4
        for (int l = 0; l < 4; l++) {
            if (i + l >= n) break;
            if (!all && head[i + l] == CT_END && !(winding && winding[i + l][first_body] > 0)) continue;
            memcpy(&next->f, &f[l], sizeof next->f);
            next->next = head[i + l];
            head[i + l] = number++;
            next++;
        }
        v1 += step1;
        v2 += step2;
    }
    t->next = next;
}

static void raster_rows(struct target *t, const ct_setup *s, struct extent x, size_t ray, uint32_t tag, bool before) {
    const int64_t n = x.u1 - x.u0;
    struct edge edge[3];
    edges_of(s, edge);
    int64_t row1 = s->edge[1], row2 = s->edge[2];
    for (int32_t v = x.v0; v < x.v1; v++, ray += (size_t)t->rays->columns) {
        int64_t begin = 0, end = n;
        for (int k = 0; k < 3; k++) clip(&edge[k], n, &begin, &end);
        if (begin < end && before)
            for (int64_t i = begin; i < end; i++) count(t, ray + (size_t)i, tag, s->ccw);
        else if (begin < end)
            cross_row(t, s, ray + (size_t)begin, end - begin, row1 + begin * s->step_u[1], row2 + begin * s->step_u[2],
                      tag);
        for (int k = 0; k < 3; k++) edge[k].row += s->step_v[k];
        row1 += s->step_v[1];
        row2 += s->step_v[2];
    }
}

/* One triangle of any size, on the rows of t's band. q: its corners. */
static __attribute__((noinline)) void raster_one(struct target *t, const ct_lattice *lu, const ct_lattice *lv, int w,
                                                 const int32_t *const q[3], uint32_t tag, bool before) {
    const ct_ray_lists *rays = t->rays;
    const struct extent x = extent_of(q, lu, lv, w, rays->first_row, rays->rows);
    ct_setup setup;
    if (!setup_of(&setup, q, lu, lv, w, x)) return;
    size_t ray = (size_t)(x.v0 - rays->first_row) * (size_t)rays->columns + (size_t)x.u0;
    raster_rows(t, &setup, x, ray, tag, before);
}

/* ---- four triangles at a time ---- */

/* Most triangles of a fine mesh can cover a few samples at most: up to SMALL x SMALL are tried here. Their edge
 * functions are below 2^53 where their extent is below 2^25 units, so double arithmetic on them is exact and gives what
 * integers would. */
enum { SMALL = 4, EXACT_EXTENT = 1 << 25, AHEAD = 16 };

/* One axis of a view, as what is needed of it for each triangle. */
struct side {
    int32_t shift, half; /* units to a pitch, half of that less one */
    int32_t first, end;  /* samples of the band */
    double pitch;        /* units */
};

static struct side side_of(const ct_lattice *l, int32_t first, int32_t n) {
    return (struct side){l->shift, (1 << (l->shift - 1)) - 1, first, first + n, (double)(1 << l->shift)};
}

/* ct_cell of four coordinates, within the band. */
static inline ct_v4i cell_v4i(ct_v4i q, const struct side *s) {
    return min_v4i(max_v4i((q + s->half) >> s->shift, v4i(s->first)), v4i(s->end));
}

/* ct_sample_coord */
static inline ct_v4i sample_v4i(ct_v4i i, const struct side *s) {
    return (i << s->shift) + (s->half + 1);
}

/* Coordinates of four triangles: of corner j along an axis. */
typedef ct_v4i corners[3][3];

static inline void load_corners(const ct_placed *p, const uint32_t triangle[4], corners at) {
    const uint32_t *k[4];
    for (int l = 0; l < 4; l++) k[l] = p->triangles + 3 * (size_t)triangle[l];
    for (int j = 0; j < 3; j++) {
        ct_v4i a, b, c, d;
        memcpy(&a, p->coords[k[0][j]], sizeof a);
        memcpy(&b, p->coords[k[1][j]], sizeof b);
        memcpy(&c, p->coords[k[2][j]], sizeof c);
        memcpy(&d, p->coords[k[3][j]], sizeof d);
        ct_v4i ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
        at[j][0] = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
        at[j][1] = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
        at[j][2] = __builtin_shufflevector(__builtin_shufflevector(a, b, 2, 6, 3, 7),
                                           __builtin_shufflevector(c, d, 2, 6, 3, 7), 0, 1, 4, 5);
    }
}

/* Four small triangles. Edge functions, their steps and the area are positive for a covered sample whatever the
 * orientation. */
struct quad {
    ct_v4d edge[3], step_u[3], step_v[3], area; /* edge: at the first sample */
    ct_v4i u0, v0;                              /* first sample */
    ct_v4i clockwise;                           /* 1 or 0 */
    const uint32_t *tag;
    /* What only a triangle that is hit needs: */
    ct_v4i ray; /* of the first sample */
    ct_v4i z0;
    ct_v4d dz1, dz2, inverse;
    unsigned before; /* a bit each: lies before the window and is counted */
};

static inline void prepare_hits(const struct target *t, struct quad *s, const corners at, int w, int32_t window_lo) {
    const ct_ray_lists *rays = t->rays;
    ct_v4i z1 = at[1][w], z2 = at[2][w];
    s->z0 = at[0][w];
    s->dz1 = to_double(z1 - s->z0);
    s->dz2 = to_double(z2 - s->z0);
    s->inverse = 1.0 / s->area;
    s->ray = (s->v0 - rays->first_row) * rays->columns + s->u0;
    s->before = 0;
    if (t->counted) {
        ct_v4i last = max_v4i(max_v4i(s->z0, z1), z2);
        s->before = bits_v4i(last < window_lo);
    }
}

static inline unsigned on_edge(ct_v4d e0, ct_v4d e1, ct_v4d e2) {
    return bits((e0 == 0.0) | (e1 == 0.0) | (e2 == 0.0));
}

/* Those of `hits` whose sample is covered, displaced, though it lies on edges. (ct_edge_inside) */
static unsigned quad_covers(const struct quad *s, unsigned hits, ct_v4d e0, ct_v4d e1, ct_v4d e2) {
    unsigned covered = hits;
    for (unsigned left = hits & on_edge(e0, e1, e2); left; left &= left - 1) {
        int l = __builtin_ctz(left);
        const double e[3] = {e0[l], e1[l], e2[l]};
        for (int k = 0; k < 3; k++) {
            double du = s->step_u[k][l], dv = s->step_v[k][l];
            if (e[k] == 0 && !(du > 0 || (du == 0 && dv > 0))) covered &= ~(1u << l);
        }
    }
    return covered;
}

/* One sample of each of four triangles, `offset` rays from their first ones; e: the edge functions there; hits: whose
 * it is, a bit each. The same arithmetic as ct_fragment_at. */
static void quad_hits(struct target *t, const struct quad *s, unsigned hits, int32_t offset, ct_v4d e1, ct_v4d e2) {
    ct_v4d w1 = e1 * s->inverse, w2 = e2 * s->inverse;
    ct_v4i key = keys_of(s->z0 + CT_DEPTH_BIAS, w1 * s->dz1 + w2 * s->dz2, s->clockwise);
    ct_v4i l1 = round_v4d(w1 * (double)CT_WEIGHT_ONE), l2 = round_v4d(w2 * (double)CT_WEIGHT_ONE);
    ct_v4i ray = s->ray + offset;
    for (; hits; hits &= hits - 1) {
        int l = __builtin_ctz(hits);
        size_t at = (size_t)ray[l];
        if (s->before >> l & 1)
            count(t, at, s->tag[l], s->clockwise[l] ? -1 : 1);
        else if (is_wanted(t, at))
            put(t, &t->rays->head[at], (ct_fragment){(uint32_t)key[l], (uint32_t)l1[l], (uint32_t)l2[l], s->tag[l]});
    }
}

/* Those of four triangles that are `present`, a bit each. Returns those that are too large for it: they are left to
 * raster_one. */
static inline __attribute__((always_inline)) unsigned raster_quad(struct target *t, const struct side *across,
                                                                  const struct side *along, int w, int32_t window_lo,
                                                                  const corners at, const uint32_t *tag,
                                                                  unsigned present) {
    const int u = ct_view_u(w), v = ct_view_v(w);
    const ct_v4i x[3] = {at[0][u], at[1][u], at[2][u]}, y[3] = {at[0][v], at[1][v], at[2][v]};
    ct_v4i x_lo = min_v4i(min_v4i(x[0], x[1]), x[2]), x_hi = max_v4i(max_v4i(x[0], x[1]), x[2]);
    ct_v4i y_lo = min_v4i(min_v4i(y[0], y[1]), y[2]), y_hi = max_v4i(max_v4i(y[0], y[1]), y[2]);
    struct quad s;
    s.tag = tag;
    s.u0 = cell_v4i(x_lo, across);
    s.v0 = cell_v4i(y_lo, along);
    ct_v4i du = cell_v4i(x_hi, across) - s.u0, dv = cell_v4i(y_hi, along) - s.v0;
    ct_v4i large = (du > SMALL) | (dv > SMALL) | (x_hi - x_lo >= EXACT_EXTENT) | (y_hi - y_lo >= EXACT_EXTENT);
    ct_v4i valid = ~large & (du > 0) & (dv > 0);

    ct_v4d xb = to_double(x[1] - x[0]), yb = to_double(y[1] - y[0]), xc = to_double(x[2] - x[0]),
           yc = to_double(y[2] - y[0]);
    ct_v4d xs = to_double(sample_v4i(s.u0, across) - x[0]), ys = to_double(sample_v4i(s.v0, along) - y[0]);
    ct_v4d area = xb * yc - xc * yb;
    const ct_v4l negative = area < 0, flip = negative & (ct_v4l)(ct_v4d){-0.0, -0.0, -0.0, -0.0};
    s.clockwise = -ct_v4i_of_v4l(negative);
#define FLIP(a) ((ct_v4d)((ct_v4l)(a) ^ flip))
    s.area = FLIP(area);
    s.edge[1] = FLIP(xs * yc - xc * ys);
    s.edge[2] = FLIP(xb * ys - xs * yb);
    s.edge[0] = s.area - s.edge[1] - s.edge[2];
    s.step_u[0] = FLIP(yb - yc) * across->pitch;
    s.step_u[1] = FLIP(yc) * across->pitch;
    s.step_u[2] = FLIP(-yb) * across->pitch;
    s.step_v[0] = FLIP(xc - xb) * along->pitch;
    s.step_v[1] = FLIP(-xc) * along->pitch;
    s.step_v[2] = FLIP(xb) * along->pitch;
#undef FLIP
    unsigned rows = present & bits_v4i(valid) & bits(s.area > 0);
    bool prepared = false;
    /* + 0.0: what is zero must not have a sign, which is all that is looked at. */
    ct_v4d row0 = s.edge[0] + 0.0, row1 = s.edge[1] + 0.0, row2 = s.edge[2] + 0.0;
    for (int j = 0; rows;) {
        ct_v4d e0 = row0, e1 = row1, e2 = row2;
        unsigned lanes = rows;
#pragma GCC unroll 4
        for (int i = 0; i < SMALL; i++) {
            if (i) lanes &= bits_v4i(du > i);
            if (!lanes) break;
            unsigned hits = lanes & ~bits((ct_v4l)e0 | (ct_v4l)e1 | (ct_v4l)e2);
            if (hits) {
                if (!prepared) prepare_hits(t, &s, at, w, window_lo);
                prepared = true;
                quad_hits(t, &s, quad_covers(&s, hits, e0, e1, e2), j * across->end + i, e1, e2);
            }
            e0 += s.step_u[0];
            e1 += s.step_u[1];
            e2 += s.step_u[2];
        }
        rows &= bits_v4i(dv > ++j);
        row0 += s.step_v[0];
        row1 += s.step_v[1];
        row2 += s.step_v[2];
    }
    return present & bits_v4i(large);
}

/* Four triangles that can cover one sample only, none of whose corners is further than a pitch from it. Returns those
 * whose sample is on an edge: they are left to raster_one. */
static inline __attribute__((always_inline)) unsigned raster_singles(struct target *t, const struct side *across,
                                                                     const struct side *along, int w, int32_t window_lo,
                                                                     const corners at, const uint32_t *tag,
                                                                     unsigned present) {
    const int u = ct_view_u(w), v = ct_view_v(w);
    const ct_v4i *const x[3] = {&at[0][u], &at[1][u], &at[2][u]}, *const y[3] = {&at[0][v], &at[1][v], &at[2][v]};
    struct quad s;
    s.tag = tag;
    s.u0 = (min_v4i(min_v4i(*x[0], *x[1]), *x[2]) + across->half) >> across->shift;
    s.v0 = (min_v4i(min_v4i(*y[0], *y[1]), *y[2]) + along->half) >> along->shift;
    ct_v4d xb = to_double(*x[1] - *x[0]), yb = to_double(*y[1] - *y[0]);
    ct_v4d xc = to_double(*x[2] - *x[0]), yc = to_double(*y[2] - *y[0]);
    ct_v4d xs = to_double(sample_v4i(s.u0, across) - *x[0]), ys = to_double(sample_v4i(s.v0, along) - *y[0]);
    ct_v4d area = xb * yc - xc * yb;
    const ct_v4l negative = area < 0, flip = negative & (ct_v4l)(ct_v4d){-0.0, -0.0, -0.0, -0.0};
    s.clockwise = -ct_v4i_of_v4l(negative);
    s.area = (ct_v4d)((ct_v4l)area ^ flip);
    ct_v4d e1 = (ct_v4d)((ct_v4l)(xs * yc - xc * ys) ^ flip), e2 = (ct_v4d)((ct_v4l)(xb * ys - xs * yb) ^ flip);
    ct_v4d e0 = s.area - e1 - e2;
    present &= bits(s.area > 0);
    unsigned hits = present & bits((e0 > 0.0) & (e1 > 0.0) & (e2 > 0.0));
    if (hits) {
        prepare_hits(t, &s, at, w, window_lo);
        quad_hits(t, &s, hits, 0, e1, e2);
    }
    return present & ~hits & on_edge(e0, e1, e2);
}

/* ---- a band ---- */

/* Those entries of a bin that can cover one sample only, or the others. */
static inline __attribute__((always_inline)) void raster_entries(struct target *t, const ct_window *window,
                                                                 const ct_placed *p, const uint32_t *entry,
                                                                 const uint32_t *end, int w, bool single) {
    const ct_ray_lists *rays = t->rays;
    const ct_lattice *lu = &window->axis[ct_view_u(w)], *lv = &window->axis[ct_view_v(w)];
    const struct side across = side_of(lu, 0, rays->columns), along = side_of(lv, rays->first_row, rays->rows);
    const int32_t window_lo = window->axis[w].lo;
    for (; entry < end; entry += 4) {
        uint32_t triangle[4], tag[4], n = end - entry < 4 ? (uint32_t)(end - entry) : 4;
        for (uint32_t l = 0; l < 4; l++) {
            triangle[l] = entry[l < n ? l : 0];
            tag[l] = p->body << 31 | triangle[l];
            if (end - entry > 2 * AHEAD + 3) {
                __builtin_prefetch(p->triangles + 3 * (size_t)entry[l + 2 * AHEAD]);
                const uint32_t *soon = p->triangles + 3 * (size_t)entry[l + AHEAD];
                for (int j = 0; j < 3; j++) __builtin_prefetch(&p->coords[soon[j]]);
            }
        }
        corners at;
        load_corners(p, triangle, at);
        unsigned present = (1u << n) - 1;
        unsigned left = single ? raster_singles(t, &across, &along, w, window_lo, at, tag, present)
                               : raster_quad(t, &across, &along, w, window_lo, at, tag, present);
        for (; left; left &= left - 1) {
            int l = __builtin_ctz(left);
            const uint32_t *k = p->triangles + 3 * (size_t)triangle[l];
            const int32_t *const q[3] = {p->coords[k[0]], p->coords[k[1]], p->coords[k[2]]};
            bool before = t->counted && ct_max3(q[0][w], q[1][w], q[2][w]) < window_lo;
            raster_one(t, lu, lv, w, q, tag[l], before);
        }
    }
}

/* w is a constant in each of the three calls, so that axes are too. */
static inline __attribute__((always_inline)) void raster_view(struct target *t, const ct_window *window,
                                                              const ct_bin *bins, size_t n_bins, uint32_t band, int w) {
    for (size_t i = 0; i < n_bins && !t->failed; i++) {
        const ct_placed *p = bins[i].placed;
        const uint32_t *entries = bins[i].entries, *offset = bins[i].offset + 2 * band;
        t->second = (int32_t)p->body != t->rays->first_body;
        t->counted = p->entry[w] == CT_ENTRY_COUNTED;
        raster_entries(t, window, p, entries + offset[0], entries + offset[1], w, true);
        raster_entries(t, window, p, entries + offset[1], entries + offset[2], w, false);
    }
}

static bool raster(ct_ray_lists *rays, ct_budget *budget, const ct_window *window, const ct_bands *bands, uint32_t band,
                   const ct_bin *bins, size_t n_bins) {
    ct_rays_place(rays, window, bands, band, bins, n_bins);
    size_t head_bytes = (size_t)rays->rows * (size_t)rays->columns * sizeof *rays->head;
    if (!ct_buffer_reserve(&rays->head_memory, budget, head_bytes, 0, false)) return false;
    rays->head = rays->head_memory.data;
    memset(rays->head, 0xff, head_bytes);
    rays->winding = NULL;
    if (rays->entry[0] == CT_ENTRY_COUNTED || rays->entry[1] == CT_ENTRY_COUNTED) {
        if (!ct_buffer_reserve(&rays->winding_memory, budget, 2 * head_bytes, 0, false)) return false;
        rays->winding = rays->winding_memory.data;
        memset(rays->winding, 0, 2 * head_bytes);
    }

    rays->fragments = rays->fragment_memory.data;
    struct target t = {.rays = rays, .budget = budget, .next = rays->fragments};
    t.end = t.next + rays->fragment_memory.capacity / sizeof *t.next;
    switch (rays->view) {
    case 0:
        raster_view(&t, window, bins, n_bins, band, 0);
        break;
    case 1:
        raster_view(&t, window, bins, n_bins, band, 1);
        break;
    default:
        raster_view(&t, window, bins, n_bins, band, 2);
        break;
    }
    rays->n_fragments = (uint32_t)(t.next - rays->fragments);
    return !t.failed;
}

const ct_raster_cpu CT_VARIANT(ct_raster_cpu) = {bin, raster};

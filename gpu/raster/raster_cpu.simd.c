/* raster_cpu.simd.c - binning and rasterising on the CPU. */
#include "gpu/raster/raster_cpu.h"

#include <string.h>

#include "gpu/base/simd.h"

/* ---- binning ----------------------------------------------------------------------------------------------------- */

static inline int32_t lane(ct_cells c, int axis) {
    return (int32_t)(c >> (16 * axis) & 0xffff);
}

static inline int32_t min3(int32_t a, int32_t b, int32_t c) {
    int32_t m = a < b ? a : b;
    return m < c ? m : c;
}

static inline int32_t max3(int32_t a, int32_t b, int32_t c) {
    int32_t m = a > b ? a : b;
    return m > c ? m : c;
}

/* A triangle whose corners have one and the same cell along an axis passes between two samples of it, or lies outside
 * the window: it can cover a sample in none of the two views that this axis is part of. Most triangles of a fine mesh
 * leave here, after three loads. Returns the number of entries per view; each view's go to out + w * stride. */
static void cull(const ct_placed *p, uint32_t first, uint32_t last, uint32_t *out, size_t stride, uint32_t n[3]) {
    uint32_t *out_x = out, *out_y = out + stride, *out_z = out + 2 * stride;
    const ct_cells high = 0x0000800080008000, low = 0x00007fff7fff7fff;
    for (uint32_t t = first; t < last; t++) {
        const uint32_t *k = p->triangles + 3 * (size_t)t;
        ct_cells a = p->cells[k[0]], b = p->cells[k[1]], c = p->cells[k[2]];
        ct_cells differ = (a ^ b) | (a ^ c);
        if (!differ) continue;
        ct_cells spans = (differ + low) & high; /* a lane's top bit: that axis has a sample between the corners */
        unsigned x = spans >> 15 & 1, y = spans >> 31 & 1, z = spans >> 47 & 1;
        *out_x = *out_y = *out_z = t;
        out_x += y & z;
        out_y += z & x;
        out_z += x & y;
    }
    n[0] = (uint32_t)(out_x - out);
    n[1] = (uint32_t)(out_y - out - stride);
    n[2] = (uint32_t)(out_z - out - 2 * stride);
}

/* The bands of view w that a triangle's rows touch. */
static inline void band_range(const ct_placed *p, uint32_t t, int v, int32_t shift, uint32_t *b0, uint32_t *b1) {
    const uint32_t *k = p->triangles + 3 * (size_t)t;
    int32_t a = lane(p->cells[k[0]], v), b = lane(p->cells[k[1]], v), c = lane(p->cells[k[2]], v);
    *b0 = (uint32_t)(min3(a, b, c) >> shift);
    *b1 = (uint32_t)((max3(a, b, c) - 1) >> shift);
}

static bool bin(ct_bin *out, ct_budget *budget, const ct_placed *p, const ct_window *window, const ct_bands *bands,
                uint32_t first, uint32_t last) {
    (void)window;
    size_t chunk = last - first, n_offsets = bands->total + 1;
    bool single = bands->total == 3;
    /* Memory: offsets, one list per view with room for the whole chunk (and for cull's one write past the end), and
     * where a view has several bands the lists again, by band. */
    size_t stride = chunk + 1, words = n_offsets + 3 * stride;
    if (!ct_buffer_reserve(&out->memory, budget, words * 4, 0, false)) return false;
    uint32_t *offset = out->memory.data, *lists = offset + n_offsets, n[3];
    cull(p, first, last, lists, stride, n);
    out->placed = p;
    if (single) {
        memmove(lists + n[0], lists + stride, n[1] * sizeof *lists);
        memmove(lists + n[0] + n[1], lists + 2 * stride, n[2] * sizeof *lists);
        offset[0] = 0;
        for (int w = 0; w < 3; w++) offset[w + 1] = offset[w] + n[w];
        out->entries = lists;
        out->offset = offset;
        return true;
    }

    memset(offset, 0, n_offsets * sizeof *offset);
    uint64_t total = 0;
    for (int w = 0; w < 3; w++) {
        const uint32_t *list = lists + (size_t)w * stride;
        uint32_t *count = offset + bands->first[w] + 1;
        int v = ct_view_v(w);
        for (uint32_t i = 0; i < n[w]; i++) {
            uint32_t b0, b1;
            band_range(p, list[i], v, bands->shift[w], &b0, &b1);
            total += b1 - b0 + 1;
            for (uint32_t b = b0; b <= b1; b++) count[b]++;
        }
    }
    if (total > UINT32_MAX) return false;
    if (!ct_buffer_reserve(&out->memory, budget, (words + total) * 4, words * 4, false)) return false;
    offset = out->memory.data;
    lists = offset + n_offsets;
    uint32_t *entries = lists + 3 * stride;
    for (uint32_t b = 0; b < bands->total; b++) offset[b + 1] += offset[b];
    /* Filling moves each band's start to its end, so afterwards offset[b] is where band b+1 starts: shift back. */
    for (int w = 0; w < 3; w++) {
        const uint32_t *list = lists + (size_t)w * stride;
        uint32_t *start = offset + bands->first[w];
        int v = ct_view_v(w);
        for (uint32_t i = 0; i < n[w]; i++) {
            uint32_t b0, b1;
            band_range(p, list[i], v, bands->shift[w], &b0, &b1);
            for (uint32_t b = b0; b <= b1; b++) entries[start[b]++] = list[i];
        }
    }
    memmove(offset + 1, offset, bands->total * sizeof *offset);
    offset[0] = 0;
    out->entries = entries;
    out->offset = offset;
    return true;
}

/* ---- rasterising ------------------------------------------------------------------------------------------------- */

struct target {
    ct_ray_lists *rays;
    ct_budget *budget;
    ct_linked_fragment *next, *end;
    bool failed;
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

struct triangle {
    int32_t x[3], y[3], z[3]; /* corners in (u, v, w) */
    int32_t u0, u1, v0, v1;   /* samples [u0, u1) x [v0, v1) to test */
    uint32_t tag;
};

/* A few samples: each on its own, with corners relative to it. */
static inline void raster_small(struct target *t, const struct triangle *tri, int su, int sv) {
    ct_ray_lists *rays = t->rays;
    for (int32_t v = tri->v0; v < tri->v1; v++) {
        int32_t cy = ct_sample_coord(v, sv);
        int32_t y[3] = {tri->y[0] - cy, tri->y[1] - cy, tri->y[2] - cy};
        uint32_t *row = rays->head + (size_t)(v - rays->first_row) * rays->columns;
        for (int32_t u = tri->u0; u < tri->u1; u++) {
            int32_t cx = ct_sample_coord(u, su);
            int32_t x[3] = {tri->x[0] - cx, tri->x[1] - cx, tri->x[2] - cx};
            int64_t e[3] = {ct_edge(x[1], y[1], x[2], y[2]), ct_edge(x[2], y[2], x[0], y[0]),
                            ct_edge(x[0], y[0], x[1], y[1])};
            int covers = ct_covers(e, x, y);
            if (covers) put(t, &row[u], ct_make_fragment(e, tri->z, covers, tri->tag));
        }
    }
}

static inline int64_t ceil_div(int64_t a, int64_t b) { /* b > 0 */
    return a >= 0 ? (a + b - 1) / b : -(-a / b);
}

/* Many samples: per row, the covered interval by division, then edge functions by addition. All integers, so this gives
 * the bits that raster_small gives. */
static void raster_large(struct target *t, const struct triangle *tri, int su, int sv) {
    ct_ray_lists *rays = t->rays;
    int32_t cx = ct_sample_coord(tri->u0, su);
    int32_t x[3] = {tri->x[0] - cx, tri->x[1] - cx, tri->x[2] - cx};
    int64_t area = ct_edge(x[1] - x[0], tri->y[1] - tri->y[0], x[2] - x[0], tri->y[2] - tri->y[0]);
    if (area == 0) return;
    int64_t sign = area > 0 ? 1 : -1;
    int64_t step[3], bias[3];
    for (int k = 0; k < 3; k++) {
        int i = k == 2 ? 0 : k + 1, j = k == 0 ? 2 : k - 1;
        step[k] = (int64_t)(tri->y[i] - tri->y[j]) * ((int64_t)1 << su);
        bias[k] = ct_edge_tie(tri->x[i], tri->y[i], tri->x[j], tri->y[j]) * sign > 0 ? 0 : 1;
    }
    for (int32_t v = tri->v0; v < tri->v1; v++) {
        int32_t cy = ct_sample_coord(v, sv);
        int32_t y[3] = {tri->y[0] - cy, tri->y[1] - cy, tri->y[2] - cy};
        int64_t e[3] = {ct_edge(x[1], y[1], x[2], y[2]), ct_edge(x[2], y[2], x[0], y[0]),
                        ct_edge(x[0], y[0], x[1], y[1])};
        /* covered: sign * (e + i * step) - bias >= 0 for all three */
        int64_t i0 = 0, i1 = tri->u1 - tri->u0;
        for (int k = 0; k < 3; k++) {
            int64_t value = sign * e[k] - bias[k], slope = sign * step[k];
            if (slope > 0) {
                int64_t i = ceil_div(-value, slope);
                if (i > i0) i0 = i;
            } else if (slope < 0) {
                int64_t i = value < 0 ? 0 : value / -slope + 1;
                if (i < i1) i1 = i;
            } else if (value < 0) {
                i1 = 0;
            }
        }
        uint32_t *row = rays->head + (size_t)(v - rays->first_row) * rays->columns + tri->u0;
        if (i0 < i1)
            for (int k = 0; k < 3; k++) e[k] += i0 * step[k];
        for (int64_t i = i0; i < i1; i++) {
            put(t, &row[i], ct_make_fragment(e, tri->z, (int)sign, tri->tag));
            for (int k = 0; k < 3; k++) e[k] += step[k];
        }
    }
}

enum { SMALL_COLUMNS = 6 };

/* w is a constant in each of the three calls, so that lanes and axes are too. */
static inline __attribute__((always_inline)) void raster_view(struct target *t, const ct_window *window,
                                                              const ct_bin *bins, size_t n_bins, uint32_t band, int w) {
    const ct_ray_lists *rays = t->rays;
    const int u = ct_view_u(w), v = ct_view_v(w);
    const int su = window->axis[u].shift, sv = window->axis[v].shift;
    for (size_t i = 0; i < n_bins; i++) {
        const ct_placed *p = bins[i].placed;
        const uint32_t *entry = bins[i].entries + bins[i].offset[band],
                       *end = bins[i].entries + bins[i].offset[band + 1];
        for (; entry < end; entry++) {
            const uint32_t *k = p->triangles + 3 * (size_t)*entry;
            const ct_cells a = p->cells[k[0]], b = p->cells[k[1]], c = p->cells[k[2]];
            struct triangle tri;
            tri.u0 = min3(lane(a, u), lane(b, u), lane(c, u));
            tri.u1 = max3(lane(a, u), lane(b, u), lane(c, u));
            tri.v0 = min3(lane(a, v), lane(b, v), lane(c, v));
            tri.v1 = max3(lane(a, v), lane(b, v), lane(c, v));
            if (tri.v0 < rays->first_row) tri.v0 = rays->first_row;
            if (tri.v1 > rays->first_row + rays->rows) tri.v1 = rays->first_row + rays->rows;
            for (int j = 0; j < 3; j++) {
                const int32_t *q = p->coords[k[j]];
                tri.x[j] = q[u];
                tri.y[j] = q[v];
                tri.z[j] = q[w];
            }
            tri.tag = p->body << 31 | *entry;
            if (tri.u1 - tri.u0 <= SMALL_COLUMNS)
                raster_small(t, &tri, su, sv);
            else
                raster_large(t, &tri, su, sv);
        }
        if (t->failed) return;
    }
}

static bool raster(ct_ray_lists *rays, ct_budget *budget, const ct_window *window, const ct_bands *bands, uint32_t band,
                   const ct_bin *bins, size_t n_bins) {
    int w = band >= bands->first[2] ? 2 : band >= bands->first[1] ? 1 : 0;
    int32_t n_rows = window->axis[ct_view_v(w)].n;
    rays->view = w;
    rays->columns = window->axis[ct_view_u(w)].n;
    rays->first_row = (int32_t)(band - bands->first[w]) << bands->shift[w];
    rays->rows = 1 << bands->shift[w];
    if (rays->rows > n_rows - rays->first_row) rays->rows = n_rows - rays->first_row;
    size_t head_bytes = (size_t)rays->rows * (size_t)rays->columns * sizeof *rays->head;
    if (!ct_buffer_reserve(&rays->head_memory, budget, head_bytes, 0, false)) return false;
    rays->head = rays->head_memory.data;
    memset(rays->head, 0xff, head_bytes);

    rays->fragments = rays->fragment_memory.data;
    struct target t = {rays, budget, rays->fragments, rays->fragments, false};
    t.end = t.next + rays->fragment_memory.capacity / sizeof *t.next;
    switch (w) {
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

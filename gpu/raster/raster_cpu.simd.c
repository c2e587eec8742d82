/* raster_cpu.simd.c - binning and rasterising on the CPU. */
#include "gpu/raster/raster_cpu.h"

#include <string.h>

#include "gpu/base/simd.h"

/* ---- binning ----------------------------------------------------------------------------------------------------- */

static inline int32_t lane(ct_cells c, int axis) {
    return (int32_t)(c >> (16 * axis) & CT_CELL_MASK);
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
 * leave here, after three loads. One that lies after the window along an axis bounds no span of that axis's view.
 * Returns the number of entries per view; each view's go to out + w * stride. */
static void cull(const ct_placed *p, uint32_t first, uint32_t last, uint32_t *out, size_t stride, uint32_t n[3]) {
    uint32_t *out_x = out, *out_y = out + stride, *out_z = out + 2 * stride;
    const ct_cells lanes = 0x000100010001, cell = lanes * CT_CELL_MASK, low = lanes * 0x7fff, high = lanes * 0x8000;
    for (uint32_t t = first; t < last; t++) {
        const uint32_t *k = p->triangles + 3 * (size_t)t;
        ct_cells a = p->cells[k[0]], b = p->cells[k[1]], c = p->cells[k[2]];
        ct_cells differ = ((a ^ b) | (a ^ c)) & cell;
        if (!differ) continue;
        ct_cells spans = (differ + low) & high; /* a lane's top bit: its axis has a sample between the corners */
        ct_cells after = (a & b & c & lanes * CT_CELL_AFTER) << 1; /* the same bit: all corners lie after the window */
        ct_cells x = spans >> 15, y = spans >> 31, z = spans >> 47, kept = ~after;
        *out_x = *out_y = *out_z = t;
        out_x += y & z & kept >> 15 & 1;
        out_y += z & x & kept >> 31 & 1;
        out_z += x & y & kept >> 47 & 1;
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
    bool second; /* of the two bodies this one is rasterised after the other */
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

/* Samples [u0, u1) x [v0, v1), which hold all that the triangle can cover in the band. */
struct extent {
    int32_t u0, u1, v0, v1;
};

/* What a crossing does: before the window's depths it only counts, in them it is a fragment. On a ray that the other
 * body, which is rasterised first, is never inside of, it bounds no span and is left out. */
static inline void cross(struct target *t, const ct_setup *s, size_t ray, int64_t e1, int64_t e2, uint32_t tag,
                         bool before) {
    const ct_ray_lists *rays = t->rays;
    if (before)
        rays->winding[ray][tag >> 31] -= s->ccw;
    else if (!t->second || rays->head[ray] != CT_END || rays->winding[ray][rays->first_body] > 0)
        put(t, &rays->head[ray], ct_fragment_at(s, e1, e2, tag));
}

/* A few columns: every sample is tried. */
static inline void raster_narrow(struct target *t, const ct_setup *s, struct extent x, size_t ray, uint32_t tag,
                                 bool before) {
    size_t columns = (size_t)t->rays->columns;
    int64_t row0 = s->edge[0], row1 = s->edge[1], row2 = s->edge[2];
    for (int32_t v = x.v0; v < x.v1; v++, ray += columns) {
        int64_t e0 = row0, e1 = row1, e2 = row2;
        for (int32_t i = 0; i < x.u1 - x.u0; i++) {
            if (ct_covers(s, e0, e1, e2)) cross(t, s, ray + (size_t)i, e1, e2, tag, before);
            e0 += s->step_u[0];
            e1 += s->step_u[1];
            e2 += s->step_u[2];
        }
        row0 += s->step_v[0];
        row1 += s->step_v[1];
        row2 += s->step_v[2];
    }
}

static inline int64_t ceil_div(int64_t a, int64_t b) { /* a, b > 0 */
    return (a + b - 1) / b;
}

/* Many columns: each row's covered interval by division. */
static void raster_wide(struct target *t, const ct_setup *s, struct extent x, size_t ray, uint32_t tag, bool before) {
    size_t columns = (size_t)t->rays->columns;
    int64_t row[3]; /* >= 0 where covered: less one where a sample on the edge is outside */
    for (int k = 0; k < 3; k++) row[k] = s->edge[k] - !ct_edge_inside(s, k);
    int64_t row1 = s->edge[1], row2 = s->edge[2];
    for (int32_t v = x.v0; v < x.v1; v++, ray += columns) {
        int64_t i0 = 0, i1 = x.u1 - x.u0;
        for (int k = 0; k < 3; k++) {
            int64_t slope = s->step_u[k];
            if (row[k] < 0) {
                int64_t i = slope > 0 ? ceil_div(-row[k], slope) : i1;
                if (i > i0) i0 = i;
            } else if (slope < 0) {
                int64_t i = row[k] / -slope + 1;
                if (i < i1) i1 = i;
            }
        }
        if (i0 < i1) {
            int64_t e1 = row1 + i0 * s->step_u[1], e2 = row2 + i0 * s->step_u[2];
            for (int64_t i = i0; i < i1; i++) {
                cross(t, s, ray + (size_t)i, e1, e2, tag, before);
                e1 += s->step_u[1];
                e2 += s->step_u[2];
            }
        }
        for (int k = 0; k < 3; k++) row[k] += s->step_v[k];
        row1 += s->step_v[1];
        row2 += s->step_v[2];
    }
}

enum { NARROW = 8, AHEAD = 8 };

/* w is a constant in each of the three calls, so that lanes and axes are too. */
static inline __attribute__((always_inline)) void raster_view(struct target *t, const ct_window *window,
                                                              const ct_bin *bins, size_t n_bins, uint32_t band, int w) {
    const ct_ray_lists *rays = t->rays;
    const int u = ct_view_u(w), v = ct_view_v(w);
    const int su = window->axis[u].shift, sv = window->axis[v].shift;
    for (size_t i = 0; i < n_bins; i++) {
        const ct_placed *p = bins[i].placed;
        t->second = (int32_t)p->body != rays->first_body;
        const uint32_t *entry = bins[i].entries + bins[i].offset[band],
                       *end = bins[i].entries + bins[i].offset[band + 1];
        for (; entry < end; entry++) {
            if (entry + AHEAD < end) {
                const uint32_t *soon = p->triangles + 3 * (size_t)entry[AHEAD];
                for (int j = 0; j < 3; j++) {
                    __builtin_prefetch(&p->coords[soon[j]]);
                }
            }
            const uint32_t *k = p->triangles + 3 * (size_t)*entry;
            const ct_cells a = p->cells[k[0]], b = p->cells[k[1]], c = p->cells[k[2]];
            struct extent x;
            x.u0 = min3(lane(a, u), lane(b, u), lane(c, u));
            x.u1 = max3(lane(a, u), lane(b, u), lane(c, u));
            x.v0 = min3(lane(a, v), lane(b, v), lane(c, v));
            x.v1 = max3(lane(a, v), lane(b, v), lane(c, v));
            if (x.v0 < rays->first_row) x.v0 = rays->first_row;
            if (x.v1 > rays->first_row + rays->rows) x.v1 = rays->first_row + rays->rows;
            ct_setup setup;
            if (!ct_make_setup(&setup, p->coords[k[0]], p->coords[k[1]], p->coords[k[2]], u, v, w,
                               ct_sample_coord(x.u0, su), ct_sample_coord(x.v0, sv), su, sv))
                continue;
            size_t ray = (size_t)(x.v0 - rays->first_row) * (size_t)rays->columns + (size_t)x.u0;
            uint32_t tag = p->body << 31 | *entry;
            bool before = a & b & c & (ct_cells)CT_CELL_BEFORE << (16 * w);
            if (x.u1 - x.u0 <= NARROW)
                raster_narrow(t, &setup, x, ray, tag, before);
            else
                raster_wide(t, &setup, x, ray, tag, before);
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
    if (!ct_buffer_reserve(&rays->winding_memory, budget, 2 * head_bytes, 0, false)) return false;
    rays->winding = rays->winding_memory.data;
    memset(rays->winding, 0, 2 * head_bytes);

    rays->fragments = rays->fragment_memory.data;
    struct target t = {rays, budget, rays->fragments, rays->fragments, false, false};
    rays->first_body = n_bins ? (int32_t)bins[0].placed->body : 0;
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

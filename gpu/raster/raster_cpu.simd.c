/* raster_cpu.simd.c - rasterising on the CPU. */
#include "gpu/raster/raster_cpu.h"

#include <string.h>

#include "gpu/raster/edge.h"
#include "gpu/raster/lanes.h"

/* ---- rasterising ---- */

struct fragment_writer {
    ct_ray_lists *rays;
    ct_budget *budget;
    ct_linked_fragment *next, *end;
    bool failed;
    bool second;  /* of the two bodies this one is rasterised after the other */
    bool counted; /* crossings before the window are */
};

/* For n fragments more. */
static inline bool reserve_fragments(struct fragment_writer *t, size_t n) {
    if (__builtin_expect((size_t)(t->end - t->next) >= n, 1)) return true;
    ct_ray_lists *rays = t->rays;
    size_t used = (size_t)(t->next - rays->fragments), want = 2 * used + n;
    if (want >= CT_END ||
        !ct_buffer_reserve(&rays->fragment_memory, t->budget, want * sizeof *t->next, used * sizeof *t->next, false)) {
        t->failed = true;
        return false;
    }
    rays->fragments = rays->fragment_memory.data;
    t->next = rays->fragments + used;
    t->end = rays->fragments + rays->fragment_memory.capacity / sizeof *t->next;
    return true;
}

/* On a ray that the other body, which is rasterised first, is never inside of, a crossing bounds no span. */
static inline bool can_bound_span(const uint32_t *head, int32_t (*winding)[2], size_t ray, int first_body) {
    return head[ray] != CT_END || (winding && winding[ray][first_body] > 0);
}

/* ---- one triangle of any size ---- */

/* The crossings of n rays in a row, from the edge functions at the first: four fragments at a time, by the same
 * arithmetic as ct_fragment_at. */
static void emit_row(struct fragment_writer *t, const ct_triangle_setup *s, size_t ray, int64_t n, int64_t e1,
                     int64_t e2, uint32_t tag) {
    if (!reserve_fragments(t, (size_t)n)) return;
    const ct_v4l step1 = (ct_v4l){} + 4 * s->step_u[1], step2 = (ct_v4l){} + 4 * s->step_u[2];
    const ct_v4d inverse = (ct_v4d){} + s->inverse, dz1 = (ct_v4d){} + s->dz1, dz2 = (ct_v4d){} + s->dz2;
    const ct_v4i z0 = v4i(s->z0 + CT_DEPTH_BIAS), entering = v4i(s->ccw < 0), tags = v4i((int32_t)tag);
    ct_v4l v1 = stepped(e1, s->step_u[1]), v2 = stepped(e2, s->step_u[2]);
    const bool all = !t->second;
    uint32_t *head = t->rays->head + ray;
    int32_t(*winding)[2] = t->rays->winding ? t->rays->winding + ray : NULL;
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
            if (!all && !can_bound_span(head, winding, (size_t)(i + l), first_body)) continue;
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

static void raster_rows(struct fragment_writer *t, const ct_triangle_setup *s, struct extent x, size_t ray,
                        uint32_t tag, bool before) {
    const int64_t n = x.u1 - x.u0;
    struct edge edge[3];
    edges_of(s, edge);
    int64_t row1 = s->edge[1], row2 = s->edge[2];
    for (int32_t v = x.v0; v < x.v1; v++, ray += (size_t)t->rays->columns) {
        int64_t begin = 0, end = n;
        for (int k = 0; k < 3; k++) clip(&edge[k], n, &begin, &end);
        if (begin < end && before)
            for (int64_t i = begin; i < end; i++) t->rays->winding[ray + (size_t)i][tag >> 31] -= s->ccw;
        else if (begin < end)
            emit_row(t, s, ray + (size_t)begin, end - begin, row1 + begin * s->step_u[1], row2 + begin * s->step_u[2],
                     tag);
        for (int k = 0; k < 3; k++) edge[k].row += s->step_v[k];
        row1 += s->step_v[1];
        row2 += s->step_v[2];
    }
}

/* One triangle of any size, on the rows of t's band. q: its corners. */
static __attribute__((noinline)) void raster_triangle(struct fragment_writer *t, const ct_lattice *lu,
                                                      const ct_lattice *lv, int w, const int32_t *const q[3],
                                                      uint32_t tag, bool before) {
    const ct_ray_lists *rays = t->rays;
    const struct extent x = extent_of(q, lu, lv, w, rays->first_row, rays->rows);
    ct_triangle_setup setup;
    if (!setup_of(&setup, q, lu, lv, w, x)) return;
    size_t ray = (size_t)(x.v0 - rays->first_row) * (size_t)rays->columns + (size_t)x.u0;
    raster_rows(t, &setup, x, ray, tag, before);
}

/* ---- a band ---- */

/* What was found when triangles were binned: crossings [first, end) of the view's. */
static void append_crossings(struct fragment_writer *t, const ct_crossings *crossings, uint32_t first, uint32_t end) {
    if (!reserve_fragments(t, end - first)) return;
    const ct_ray_lists *rays = t->rays;
    const ct_crossings c = *crossings;
    const uint32_t before = (uint32_t)rays->first_row * (uint32_t)rays->columns; /* rays before the band */
    const bool all = !t->second;
    uint32_t *head = rays->head;
    int32_t(*winding)[2] = rays->winding;
    const int first_body = rays->first_body;
    ct_linked_fragment *next = t->next;
    uint32_t number = (uint32_t)(next - rays->fragments);
    for (uint32_t i = first; i < end; i++) {
        const uint32_t where = (uint32_t)c.where[i], ray = (where & ~CT_CROSSING_COUNTED) - before;
        if (where & CT_CROSSING_COUNTED) {
            winding[ray][c.back[i] >> 63] += c.front[i] & 1 ? 1 : -1;
        } else if (all || can_bound_span(head, winding, ray, first_body)) {
            const uint64_t f[2] = {c.front[i], c.back[i]};
            memcpy(&next->f, f, sizeof next->f);
            next->next = head[ray];
            head[ray] = number++;
            next++;
        }
    }
    t->next = next;
}

static void raster_entries(struct fragment_writer *t, const ct_window *window, const ct_snapped_body *p,
                           const uint32_t *entry, const uint32_t *end) {
    const int w = t->rays->view;
    const ct_lattice *lu = &window->axis[ct_view_u(w)], *lv = &window->axis[ct_view_v(w)];
    for (; entry < end; entry++) {
        const uint32_t *k = p->triangles + 3 * (size_t)*entry;
        const int32_t *const q[3] = {p->coords[k[0]], p->coords[k[1]], p->coords[k[2]]};
        bool before = t->counted && ct_max3(q[0][w], q[1][w], q[2][w]) < window->axis[w].lo;
        raster_triangle(t, lu, lv, w, q, p->body << 31 | *entry, before);
    }
}

static bool raster(ct_ray_lists *rays, ct_budget *budget, const ct_window *window, const ct_bands *bands, uint32_t band,
                   const ct_bin *bins, size_t n_bins) {
    ct_set_band_extent(rays, window, bands, band, bins, n_bins);
    size_t head_bytes = (size_t)rays->rows * (size_t)rays->columns * sizeof *rays->head;
    if (!ct_buffer_reserve(&rays->head_memory, budget, head_bytes, 0, false)) return false;
    rays->head = rays->head_memory.data;
    memset(rays->head, 0xff, head_bytes);
    rays->winding = NULL;
    if (rays->entry[0] == CT_INITIAL_COUNTED || rays->entry[1] == CT_INITIAL_COUNTED) {
        if (!ct_buffer_reserve(&rays->winding_memory, budget, 2 * head_bytes, 0, false)) return false;
        rays->winding = rays->winding_memory.data;
        memset(rays->winding, 0, 2 * head_bytes);
    }

    rays->fragments = rays->fragment_memory.data;
    struct fragment_writer t = {.rays = rays, .budget = budget, .next = rays->fragments};
    t.end = t.next + rays->fragment_memory.capacity / sizeof *t.next;
    for (size_t i = 0; i < n_bins && !t.failed; i++) {
        const ct_snapped_body *p = bins[i].placed;
        const ct_crossings *crossings = &bins[i].crossings[rays->view];
        const uint32_t *offset = bins[i].offset + band, *crossing = crossings->offset + band - bands->first[rays->view];
        t.second = (int32_t)p->body != rays->first_body;
        t.counted = p->entry[rays->view] == CT_INITIAL_COUNTED;
        append_crossings(&t, crossings, crossing[0], crossing[1]);
        raster_entries(&t, window, p, bins[i].entries + offset[0], bins[i].entries + offset[1]);
    }
    rays->n_fragments = (uint32_t)(t.next - rays->fragments);
    return !t.failed;
}

const ct_raster_cpu CT_VARIANT(ct_raster_cpu) = {raster};

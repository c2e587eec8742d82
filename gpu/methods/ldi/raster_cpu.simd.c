/* raster_cpu.simd.c - rasterises a bin on the CPU: fragments into a linked list per ray. */
#include "gpu/methods/ldi/raster_cpu.h"

#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/methods/ldi/edge.h"
#include "gpu/view/lanes.h"

struct fragment_writer {
    ct_ray_lists *rays;
    ct_budget *budget;
    ct_linked_fragment *next, *end;
    bool has_failed;   /* out of memory */
    bool is_second;    /* the body is rasterised after the other */
    bool counts_front; /* the body's initial winding numbers are counted */
};

/* Makes sure that n more fragments fit. */
static inline bool reserve_fragments(struct fragment_writer *to, size_t n) {
    if (__builtin_expect((size_t)(to->end - to->next) >= n, 1)) return true;
    ct_ray_lists *rays = to->rays;
    size_t used = (size_t)(to->next - rays->fragments), want = 2 * used + n;
    if (want >= CT_END || !ct_buffer_reserve(&rays->fragment_memory, to->budget, want * sizeof *to->next,
                                             used * sizeof *to->next, false)) {
        to->has_failed = true;
        return false;
    }
    rays->fragments = rays->fragment_memory.data;
    to->next = rays->fragments + used;
    to->end = rays->fragments + rays->fragment_memory.capacity / sizeof *to->next;
    return true;
}

/* A crossing of the second body bounds no span, and no interval in which a body is inside out, on a ray along which the
 * first body's winding number is 0. */
static inline bool can_bound_span(const uint32_t *head, int32_t (*winding)[2], size_t ray, int first_body) {
    return head[ray] != CT_END || (winding && winding[ray][first_body] != 0);
}

/* ---- one triangle of any size ---- */

/* Emits the crossings of n consecutive rays of a row; e1, e2: the edge functions at the first. Four fragments at a
 * time, by the arithmetic of ct_fragment_at. */
static void emit_row(struct fragment_writer *to, const ct_triangle_setup *s, size_t ray, int64_t n, int64_t e1,
                     int64_t e2, uint32_t tag) {
    if (!reserve_fragments(to, (size_t)n)) return;
    const ct_v4l step1 = (ct_v4l){} + 4 * s->step_u[1], step2 = (ct_v4l){} + 4 * s->step_u[2];
    const ct_v4d inverse = (ct_v4d){} + s->inverse, dz1 = (ct_v4d){} + s->dz1, dz2 = (ct_v4d){} + s->dz2;
    const ct_v4i z0 = v4i(s->z0 + CT_DEPTH_BIAS), entering = v4i(s->ccw < 0), tags = v4i((int32_t)tag);
    ct_v4l v1 = four_steps(e1, s->step_u[1]), v2 = four_steps(e2, s->step_u[2]);
    const bool keep_all = !to->is_second;
    uint32_t *head = to->rays->head + ray;
    int32_t(*winding)[2] = to->rays->winding ? to->rays->winding + ray : NULL;
    const int first_body = to->rays->first_body;
    ct_linked_fragment *next = to->next;
    uint32_t index = (uint32_t)(next - to->rays->fragments);
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
            if (!keep_all && !can_bound_span(head, winding, (size_t)(i + l), first_body)) continue;
            memcpy(&next->f, &f[l], sizeof next->f);
            next->next = head[i + l];
            head[i + l] = index++;
            next++;
        }
        v1 += step1;
        v2 += step2;
    }
    to->next = next;
}

/* rect: the samples that the triangle can cover; s: its set-up at the first of them. */
static void raster_rows(struct fragment_writer *to, const ct_triangle_setup *s, ct_sample_rect rect, uint32_t tag,
                        bool is_in_front) {
    const int64_t n = rect.u1 - rect.u0;
    const size_t columns = (size_t)to->rays->bin.columns;
    size_t ray = (size_t)rect.v0 * columns + (size_t)rect.u0;
    struct edge edge[3];
    edges_of(s, edge);
    int64_t row1 = s->edge[1], row2 = s->edge[2];
    for (int32_t v = rect.v0; v < rect.v1; v++, ray += columns) {
        if (CT_POLL_EVERY(v - rect.v0 + 1, 32) && ct_is_cancelled()) to->has_failed = true;
        if (to->has_failed) return;
        int64_t begin = 0, end = n;
        for (int k = 0; k < 3; k++) clip(&edge[k], n, &begin, &end);
        if (begin < end && is_in_front)
            for (int64_t i = begin; i < end; i++) to->rays->winding[ray + (size_t)i][tag >> 31] -= s->ccw;
        else if (begin < end)
            emit_row(to, s, ray + (size_t)begin, end - begin, row1 + begin * s->step_u[1], row2 + begin * s->step_u[2],
                     tag);
        for (int k = 0; k < 3; k++) edge[k].row += s->step_v[k];
        row1 += s->step_v[1];
        row2 += s->step_v[2];
    }
}

/* The triangle with corners q on the writer's bin. */
static __attribute__((noinline)) void raster_triangle(struct fragment_writer *to, const int32_t *const q[3],
                                                      uint32_t tag, bool is_in_front) {
    const ct_bin *bin = &to->rays->bin;
    const ct_sample_rect rect = bin_rect_of(q, bin);
    ct_triangle_setup setup;
    if (!setup_in_bin(&setup, q, bin, rect.u0, rect.v0)) return;
    raster_rows(to, &setup, rect, tag, is_in_front);
}

/* ---- a bin ---- */

/* Appends crossings [first, end), which were found while their triangles were binned. */
static void append_crossings(struct fragment_writer *to, const ct_crossings *crossings, uint32_t first, uint32_t end) {
    if (!reserve_fragments(to, end - first)) return;
    const ct_ray_lists *rays = to->rays;
    const ct_crossings c = *crossings;
    const bool keep_all = !to->is_second;
    uint32_t *head = rays->head;
    int32_t(*winding)[2] = rays->winding;
    const int first_body = rays->first_body;
    ct_linked_fragment *next = to->next;
    uint32_t index = (uint32_t)(next - rays->fragments);
    for (uint32_t i = first; i < end; i++) {
        const uint32_t where = (uint32_t)c.where[i], ray = where & ~CT_CROSSING_COUNTED;
        if (where & CT_CROSSING_COUNTED) {
            winding[ray][c.back[i] >> 63] += c.front[i] & 1 ? 1 : -1;
        } else if (keep_all || can_bound_span(head, winding, ray, first_body)) {
            const uint64_t f[2] = {c.front[i], c.back[i]};
            memcpy(&next->f, f, sizeof next->f);
            next->next = head[ray];
            head[ray] = index++;
            next++;
        }
    }
    to->next = next;
}

static void raster_entries(struct fragment_writer *to, const ct_window *window, const ct_snapped_body *snapped,
                           const uint32_t *entry, const uint32_t *end) {
    const int w = to->rays->view;
    for (size_t i = 0; entry < end; entry++, i++) {
        if (CT_POLL_EVERY(i, 16) && ct_is_cancelled_at("ray crossings", (uint64_t)(to->next - to->rays->fragments))) {
            to->has_failed = true;
            return;
        }
        const uint32_t *k = snapped->triangles + 3 * (size_t)*entry;
        const int32_t *const q[3] = {snapped->coords[k[0]], snapped->coords[k[1]], snapped->coords[k[2]]};
        const bool is_in_front = to->counts_front && ct_max3(q[0][w], q[1][w], q[2][w]) < window->axis[w].lo;
        raster_triangle(to, q, snapped->body << 31 | *entry, is_in_front);
    }
}

/* Empty lists, and initial winding numbers of 0 where they are counted. False: out of memory. */
static bool clear_rays(ct_ray_lists *rays, ct_budget *budget) {
    size_t head_bytes = ct_ray_count(rays) * sizeof *rays->head;
    if (!ct_buffer_reserve(&rays->head_memory, budget, head_bytes, 0, false)) return false;
    rays->head = rays->head_memory.data;
    memset(rays->head, 0xff, head_bytes);
    rays->winding = NULL;
    if (rays->initial[0] != CT_INITIAL_COUNTED && rays->initial[1] != CT_INITIAL_COUNTED) return true;
    if (!ct_buffer_reserve(&rays->winding_memory, budget, 2 * head_bytes, 0, false)) return false;
    rays->winding = rays->winding_memory.data;
    memset(rays->winding, 0, 2 * head_bytes);
    return true;
}

/* Copies a body's initial winding numbers where they are known already. */
static void copy_front_winding(ct_ray_lists *rays, const ct_snapped_body *snapped) {
    const int32_t *from = snapped->front_winding[rays->view];
    if (!from) return;
    const ct_bin *bin = &rays->bin;
    const size_t across = (size_t)bin->of->tile.n_u;
    for (int32_t row = 0; row < bin->rows; row++)
        for (int32_t column = 0; column < bin->columns; column++)
            rays->winding[(size_t)row * (size_t)bin->columns + (size_t)column][snapped->body] =
                from[(size_t)(bin->first_row + row) * across + (size_t)(bin->first_column + column)];
}

static bool raster(ct_ray_lists *rays, ct_budget *budget, const ct_window *window, const ct_bin_plan *plan,
                   uint32_t bin, const ct_binned_chunk *chunks, size_t n_chunks) {
    ct_ray_lists_begin(rays, plan, bin, chunks, n_chunks);
    if (!clear_rays(rays, budget)) return false;
    for (size_t i = 0; i < n_chunks; i++)
        if (i == 0 || chunks[i].snapped != chunks[i - 1].snapped) copy_front_winding(rays, chunks[i].snapped);
    rays->fragments = rays->fragment_memory.data;
    struct fragment_writer to = {.rays = rays, .budget = budget, .next = rays->fragments};
    if (to.next) to.end = to.next + rays->fragment_memory.capacity / sizeof *to.next;
    for (size_t i = 0; i < n_chunks && !to.has_failed; i++) {
        const ct_binned_chunk *chunk = &chunks[i];
        const ct_snapped_body *snapped = chunk->snapped;
        if (CT_POLL_EVERY(i + 1, 8) && ct_is_cancelled()) to.has_failed = true;
        to.is_second = (int32_t)snapped->body != rays->first_body;
        to.counts_front = snapped->initial[rays->view] == CT_INITIAL_COUNTED && !snapped->front_winding[rays->view];
        const ct_crossings *crossings = &chunk->crossings[rays->view];
        const uint32_t *offset = crossings->offset + (bin - rays->bin.of->first);
        append_crossings(&to, crossings, offset[0], offset[1]);
        raster_entries(&to, window, snapped, chunk->entries + chunk->offset[bin],
                       chunk->entries + chunk->offset[bin + 1]);
    }
    rays->n_fragments = (uint32_t)(to.next - rays->fragments);
    return !to.has_failed;
}

const ct_raster_cpu CT_VARIANT(ct_raster_cpu) = {raster};

/* cull.h - which triangles of a body may cover a sample that matters, from their corners' cells alone; for
 * bin_cpu.simd.c. */
#ifndef CT_CULL_H
#define CT_CULL_H

#include "gpu/base/simd.h"
#include "gpu/methods/ldi/bin_cpu.h"
#ifdef __SSE2__
#include <immintrin.h>
#endif

/* Corners are prefetched this many triangles ahead: vertices lie in no order that the caches could predict. */
enum { AHEAD = 16 };

/* Its vertices exceed a core's cache. */
static inline bool needs_prefetch(const ct_snapped_body *snapped) {
    return snapped->n_triangles >= 1 << 17;
}

/* Cells of two vertices: x, y, z of the first and a 0, then those of the second. */
typedef int16_t cells8 __attribute__((vector_size(16)));

static inline cells8 load_cells(const ct_snapped_body *snapped, uint32_t a, uint32_t b) {
    return (cells8)(ct_v2l){(int64_t)snapped->cells[a], (int64_t)snapped->cells[b]};
}

#ifdef __SSE2__ /* gcc does not recognise the plain form as one instruction */
static inline cells8 min_cells(cells8 a, cells8 b) {
    return (cells8)_mm_min_epi16((__m128i)a, (__m128i)b);
}

static inline cells8 max_cells(cells8 a, cells8 b) {
    return (cells8)_mm_max_epi16((__m128i)a, (__m128i)b);
}
#else
static inline cells8 min_cells(cells8 a, cells8 b) {
    cells8 less = a < b;
    return (less & a) | (~less & b);
}

static inline cells8 max_cells(cells8 a, cells8 b) {
    cells8 more = a > b;
    return (more & a) | (~more & b);
}
#endif

/* Flags of a triangle. IN_VIEW << w: it may cover a sample that matters in the view along w. SEVERAL << w: more than
 * one sample lies between its corners along axis w. */
enum { IN_VIEW = 1, SEVERAL = 8 };

/* The cells' marks with which a triangle bounds no span of the view along each axis. */
static inline cells8 dropped_marks(const ct_snapped_body *snapped) {
    cells8 dropped = {0};
    for (int w = 0; w < 3; w++)
        dropped[w] = dropped[4 + w] = (int16_t)(CT_CELL_AFTER | (ct_drops_front(snapped, w) ? CT_CELL_BEFORE : 0));
    return dropped;
}

static inline cells8 rotate_left(cells8 x) {
    return __builtin_shufflevector(x, x, 1, 2, 0, 3, 5, 6, 4, 7);
}

static inline cells8 rotate_right(cells8 x) {
    return __builtin_shufflevector(x, x, 2, 0, 1, 3, 6, 4, 5, 7);
}

/* Flags of two triangles, those of axis w in lane w.
 *
 * A triangle whose corners have the same cell along an axis passes between two samples of that axis or lies beside the
 * window: it covers no sample of the two views that the axis spans. A triangle behind the window's depths bounds no
 * span; neither does one in front, which has to be counted only where the initial winding number is. */
static inline cells8 flags_of(cells8 a, cells8 b, cells8 c, cells8 dropped) {
    const cells8 mask = {CT_CELL_MASK, CT_CELL_MASK, CT_CELL_MASK, 0, CT_CELL_MASK, CT_CELL_MASK, CT_CELL_MASK, 0};
    const cells8 axis = {1, 2, 4, 0, 1, 2, 4, 0};
    cells8 kept = (a & b & c & dropped) == 0;
    a &= mask;
    b &= mask;
    c &= mask;
    cells8 samples = max_cells(max_cells(a, b), c) - min_cells(min_cells(a, b), c); /* between the corners */
    cells8 none = samples == 0;
    none = rotate_left(none) | rotate_right(none);
    return (kept & ~none & (axis * IN_VIEW)) | ((samples > 1) & (axis * SEVERAL));
}

/* The list (CT_KEPT_LISTS) of a triangle by its flags. Triangles of no view go to a list that is not read, so that the
 * loop has no branch. */
enum { NOT_KEPT = CT_KEPT_LISTS, LISTS };
#define OF(kind) NOT_KEPT, (kind), (kind) + 1, (kind) + 3, (kind) + 2, (kind) + 3, (kind) + 3, (kind) + 3
static const uint8_t list_of_flags[64] = {OF(CT_KEPT_SINGLE),  OF(CT_KEPT_SEVERAL), OF(CT_KEPT_SEVERAL),
                                          OF(CT_KEPT_SEVERAL), OF(CT_KEPT_SEVERAL), OF(CT_KEPT_SEVERAL),
                                          OF(CT_KEPT_SEVERAL), OF(CT_KEPT_SEVERAL)};
#undef OF

struct kept_lists {
    uint32_t *end[LISTS];
};

/* flags: of its three axes, in three lanes of 16 bits. */
static inline void append_kept(struct kept_lists *to, uint32_t triangle, int64_t flags) {
    const unsigned sum = (uint64_t)flags * 0x0001000100010001 >> 48;
    *to->end[list_of_flags[sum]]++ = triangle;
}

static inline __attribute__((always_inline)) void cull_two(const ct_snapped_body *snapped, uint32_t t, uint32_t second,
                                                           cells8 dropped, struct kept_lists *to) {
    const uint32_t *k = snapped->triangles + 3 * (size_t)t, *l = snapped->triangles + 3 * (size_t)second;
    const cells8 in_view = {IN_VIEW << 0, IN_VIEW << 1, IN_VIEW << 2, 0, IN_VIEW << 0, IN_VIEW << 1, IN_VIEW << 2, 0};
    const cells8 a = load_cells(snapped, k[0], l[0]), b = load_cells(snapped, k[1], l[1]),
                 c = load_cells(snapped, k[2], l[2]);
    const cells8 flags = flags_of(a, b, c, dropped);
    const ct_v2l views = (ct_v2l)(flags & in_view);
    if (!(views[0] | views[1])) return; /* neither is kept: the usual case, and well predicted */
    append_kept(to, t, ((ct_v2l)flags)[0]);
    if (second != t) append_kept(to, second, ((ct_v2l)flags)[1]);
}

/* Triangles [first, last). */
static inline __attribute__((always_inline)) void cull_range(const ct_snapped_body *snapped, uint32_t first,
                                                             uint32_t last, struct kept_lists *to, bool prefetch) {
    const cells8 dropped = dropped_marks(snapped);
    uint32_t t = first;
    if (prefetch)
        for (; t + AHEAD + 1 < last; t += 2) {
            const uint32_t *soon = snapped->triangles + 3 * (size_t)(t + AHEAD);
            for (int j = 0; j < 6; j++) __builtin_prefetch(&snapped->cells[soon[j]]);
            cull_two(snapped, t, t + 1, dropped, to);
        }
    for (; t + 1 < last; t += 2) cull_two(snapped, t, t + 1, dropped, to);
    if (t < last) cull_two(snapped, t, t, dropped, to);
}

static bool cull(ct_bin_scratch *scratch, ct_budget *budget, const ct_snapped_body *snapped,
                 const ct_triangle_run *runs, size_t n_runs) {
    size_t capacity = AHEAD + 4; /* the padding of a list */
    for (size_t i = 0; i < n_runs; i++) capacity += runs[i].end - runs[i].first;
    if (!ct_buffer_reserve(&scratch->kept_memory, budget, LISTS * capacity * sizeof(uint32_t), 0, false)) return false;
    struct kept_lists to;
    for (int k = 0; k < LISTS; k++) to.end[k] = (uint32_t *)scratch->kept_memory.data + k * capacity;
    for (size_t i = 0; i < n_runs; i++) {
        if (needs_prefetch(snapped)) /* each inlined with its constant */
            cull_range(snapped, runs[i].first, runs[i].end, &to, true);
        else
            cull_range(snapped, runs[i].first, runs[i].end, &to, false);
    }
    for (int k = 0; k < CT_KEPT_LISTS; k++) {
        scratch->kept[k] = (uint32_t *)scratch->kept_memory.data + k * capacity;
        scratch->n_kept[k] = (uint32_t)(to.end[k] - scratch->kept[k]);
        for (int i = 0; i < AHEAD + 3 && scratch->n_kept[k]; i++) to.end[k][i] = scratch->kept[k][0];
    }
    return true;
}

#endif

/* tile_faces.h - the faces over a tile, loaded four at a time, one per SIMD lane: their slopes, their depths over the
 * tile, and whether the tile's ray crosses them. For tile_cpu.simd.c. */
#ifndef CT_EBPI_TILE_FACES_H
#define CT_EBPI_TILE_FACES_H

#include <math.h>

#include "gpu/base/cancel.h"
#include "gpu/methods/ebpi/face_records.h"
#include "gpu/methods/ebpi/intervals_k.h"
#include "gpu/methods/ebpi/measure_k.h"
#include "gpu/methods/ebpi/tile_bound.h"

struct tile_faces {
    const ct_ebpi_view *view;
    ct_ebpi_rect rect;
    int32_t center[2];
    double width, height; /* lattice units */
    double reach;         /* from the centre to a corner */
    ct_ebpi_bound bound;
    uint32_t n[2], all; /* faces of each body; body 0's come first */
    /* Of each face. Arrays are as long as whole groups of four, and what lies behind the last face repeats it. */
    uint32_t *tag;        /* body << 31 | triangle */
    int32_t *corner[3];   /* along u; along v, `stride` behind; each behind the other */
    int32_t *opposite[3]; /* the tag of the face on the other side of each edge */
    int32_t *extent[4];   /* u0, u1, v0, v1: of the face inside the tile, at most */
    int32_t *lo, *hi;     /* bounds of its depths over the tile */
    int32_t *inside;      /* of lo to hi, the depths where both bodies may be inside */
    int32_t *is_up;       /* -1: its normal points along the rays, 0: against them */
    int32_t *is_jump;     /* -1: steep or narrow, counted by its depth interval; else 0 */
    int32_t *crossing;    /* at the tile's centre: 1 the ray enters the body, -1 it leaves, 0 it misses the face */
    double *slope[2];     /* along u and v; NaN: steep */
    double *at_center;    /* depth of its plane at the tile's centre; not defined of steep faces */
    size_t stride;        /* elements of each of these arrays */
    uint32_t *crossed[2]; /* the faces of each body that the ray crosses, [n_crossed] */
    int32_t *depth[2];    /* where */
    uint32_t n_crossed[2];
    int32_t winding[2]; /* of each body, where the ray begins */
    ct_layers layers[2];
    ct_intervals joint; /* J */
    uint64_t *slots;    /* a hash table of faces: tag << 32 | 1 + its number; most slots are empty */
    uint32_t slot_mask;
    int64_t kinks;                        /* their sum so far, see CT_EBPI_DEPTH_BITS */
    int64_t butterfly;                    /* lattice units: half its height (section 5) */
    ct_ebpi_polynomial *polynomial;       /* NULL: not wanted */
    ct_v4l term[CT_EBPI_TERMS], along[2]; /* its sums of edges measured four at a time, by lane */
};

static inline ct_ebpi_rect rect_of(const ct_ebpi_tile *tile) {
    return (ct_ebpi_rect){tile->u, tile->u + (1 << tile->shift_u), tile->v, tile->v + (1 << tile->shift_v)};
}

/* ---- loading ---- */

/* The ray crosses face i, unless the fill rule says otherwise. */
static __attribute__((noinline)) void cast_ray(struct tile_faces *t, ct_ebpi_tile *tile, uint32_t i,
                                               const face_record *face) {
    const ct_ebpi_view *view = t->view;
    const uint32_t tag = t->tag[i], b = tag >> 31;
    ct_triangle_setup setup;
    if (!ct_make_setup(&setup, (*face)[0], (*face)[1], (*face)[2], view->u, view->v, view->axis, t->center[0],
                       t->center[1], 0, 0) ||
        !ct_covers(&setup, setup.edge[0], setup.edge[1], setup.edge[2]))
        return;
    const ct_fragment at = ct_fragment_at(&setup, (double)setup.edge[1], (double)setup.edge[2], tag);
    t->crossing[i] = at.key & 1 ? 1 : -1;
    t->crossed[b][t->n_crossed[b]] = i;
    t->depth[b][t->n_crossed[b]] = ct_fragment_depth(at.key);
    if (view->initial[b] == CT_INITIAL_FROM_BALANCE) t->winding[b] -= t->crossing[i];
    const uint32_t to = tile->begin[b] + t->n_crossed[b]++;
    tile->faces[i] = tile->faces[to];
    tile->faces[to] = tag;
}

/* Loads faces i to i + 3. */
static inline __attribute__((always_inline)) void load_four(struct tile_faces *t, ct_ebpi_tile *tile,
                                                            const struct face_part *faces, uint32_t i) {
    const ct_ebpi_view *view = t->view;
    const int axis_u = view->u, axis_v = view->v, axis_w = view->axis;
    const face_record *face[4];
    ct_v4i at[3][4]; /* corner; axis, and the tag of the face on the other side */
    for (uint32_t l = 0; l < 4; l++) {
        const uint32_t of = index_in(faces, i + l < t->all ? i + l : t->all - 1);
        face[l] = &faces->record[of];
        t->tag[i + l] = faces->tag[of];
    }
    transpose_faces(face, at);
    const ct_v4i au = at[0][axis_u], bu = at[1][axis_u], cu = at[2][axis_u];
    const ct_v4i av = at[0][axis_v], bv = at[1][axis_v], cv = at[2][axis_v];
    const ct_v4i aw = at[0][axis_w], bw = at[1][axis_w], cw = at[2][axis_w];
    for (int k = 0; k < 3; k++) {
        store_v4i(t->corner[k] + i, at[k][axis_u]);
        store_v4i(t->corner[k] + t->stride + i, at[k][axis_v]);
        store_v4i(t->opposite[k] + i, at[k][3]);
    }
    /* Extent. */
    const ct_v4i u0 = max_v4i(min_v4i(min_v4i(au, bu), cu), v4i(t->rect.u0));
    const ct_v4i u1 = min_v4i(max_v4i(max_v4i(au, bu), cu), v4i(t->rect.u1));
    const ct_v4i v0 = max_v4i(min_v4i(min_v4i(av, bv), cv), v4i(t->rect.v0));
    const ct_v4i v1 = min_v4i(max_v4i(max_v4i(av, bv), cv), v4i(t->rect.v1));
    store_v4i(t->extent[0] + i, u0);
    store_v4i(t->extent[1] + i, u1);
    store_v4i(t->extent[2] + i, v0);
    store_v4i(t->extent[3] + i, v1);
    /* Slope. */
    const ct_v4l xb = wide(bu - au), yb = wide(bv - av), zb = wide(bw - aw);
    const ct_v4l xc = wide(cu - au), yc = wide(cv - av), zc = wide(cw - aw);
    const ct_v4l area = product(xb, yc) - product(xc, yb);
    const ct_v4d size = int64_to_double(area);
    ct_v4d su = int64_to_double(product(zb, yc) - product(zc, yb)) / size;
    ct_v4d sv = int64_to_double(product(xb, zc) - product(xc, zb)) / size;
    const ct_v4l is_plane = absolute(su) + absolute(sv) <= CT_EBPI_STEEPEST;
    su = choose(is_plane, su, v4d(NAN));
    sv = choose(is_plane, sv, v4d(NAN));
    store_v4d(t->slope[0] + i, su);
    store_v4d(t->slope[1] + i, sv);
    store_v4i(t->is_up + i, ct_v4i_of_v4l(area > 0));
    store_v4i(t->crossing + i, v4i(0));
    /* The depths that a face can have in its extent. Rounding is far below the unit that is added at both ends. */
    const ct_v4i low = min_v4i(min_v4i(aw, bw), cw), high = max_v4i(max_v4i(aw, bw), cw);
    const ct_v4d du0 = to_double(u0), du1 = to_double(u1), dv0 = to_double(v0), dv1 = to_double(v1);
    const ct_v4d z = to_double(aw), x = to_double(au), y = to_double(av);
    const ct_v4d middle = z + su * (0.5 * (du0 + du1) - x) + sv * (0.5 * (dv0 + dv1) - y);
    const ct_v4d half = 0.5 * (absolute(su) * (du1 - du0) + absolute(sv) * (dv1 - dv0));
    const ct_v4d least = to_double(low), most = to_double(high), from = middle - half, to = middle + half;
    store_v4d(t->at_center + i, z + su * (v4d(t->center[0]) - x) + sv * (v4d(t->center[1]) - y));
    /* A face that is over the tile has a depth in its extent, so that from <= most and to >= least but for rounding. */
    store_v4i(t->lo + i,
              round_down(choose((from > least) & (from <= most), from, choose(from > most, most, least))) - 1);
    store_v4i(t->hi + i, round_up(choose((to < most) & (to >= least), to, choose(to < least, least, most))) + 1);
    /* The ray. */
    const ct_v4i ru = v4i(t->center[0]), rv = v4i(t->center[1]);
    const unsigned present = t->all - i >= 4 ? 15 : (1u << (t->all - i)) - 1;
    unsigned hits = present & sign_bits_v4i((ru >= u0) & (ru <= u1) & (rv >= v0) & (rv <= v1));
    if (!hits) return;
    const ct_v4l xs = wide(ru - au), ys = wide(rv - av), flip = area < 0;
    const ct_v4l e1 = product(xs, yc) - product(xc, ys), e2 = product(xb, ys) - product(xs, yb), e0 = area - e1 - e2;
    hits &= ~sign_bits(((e0 ^ flip) - flip) | ((e1 ^ flip) - flip) | ((e2 ^ flip) - flip));
    for (; hits; hits &= hits - 1) {
        const uint32_t l = (uint32_t)__builtin_ctz(hits);
        cast_ray(t, tile, i + l, face[l]);
    }
}

/* Bytes of the arrays of n faces. */
static size_t lay_out(struct tile_faces *t, char *memory, size_t n) {
    enum { N_INTS = 24, N_DOUBLES = 3 };
    t->stride = (n + 3) / 4 * 4;
    if (memory) {
        double *doubles = (double *)(void *)memory;
        int32_t *ints = (int32_t *)(void *)(doubles + N_DOUBLES * t->stride), *next = ints;
        t->slope[0] = doubles;
        t->slope[1] = doubles + t->stride;
        t->at_center = doubles + 2 * t->stride;
        for (int k = 0; k < 3; k++, next += 2 * t->stride) t->corner[k] = next;
        for (int k = 0; k < 3; k++, next += t->stride) t->opposite[k] = next;
        for (int k = 0; k < 4; k++, next += t->stride) t->extent[k] = next;
        int32_t **const of[] = {&t->lo,      &t->hi,       &t->inside,   &t->is_up,
                                &t->is_jump, &t->crossing, &t->depth[0], &t->depth[1]};
        for (size_t k = 0; k < sizeof of / sizeof *of; k++, next += t->stride) *of[k] = next;
        uint32_t *tags = (uint32_t *)(void *)next;
        t->tag = tags;
        t->crossed[0] = tags + t->stride;
        t->crossed[1] = tags + 2 * t->stride;
    }
    return t->stride * (N_DOUBLES * sizeof(double) + N_INTS * sizeof(int32_t));
}

static void list_faces(struct tile_faces *t, ct_ebpi_tile *tile, const struct face_part *faces) {
    t->all = tile->n_faces;
    t->n[0] = ct_ebpi_count_first(tile);
    t->n[1] = t->all - t->n[0];
    tile->begin[0] = 0;
    tile->begin[1] = t->n[0];
    for (uint32_t i = 0; i < t->all; i += 4) load_four(t, tile, faces, i);
    for (int b = 0; b < 2; b++) tile->n_crossed[b] = t->n_crossed[b];
}

#endif

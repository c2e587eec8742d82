/* tri4.h - four triangles at a time, one per SIMD lane: their extents on the lattice and, for small ones, the fragments
 * at the samples that they cover. For uniform views; for *.simd.c files of this stage. */
#ifndef CT_TRI4_H
#define CT_TRI4_H

#include <string.h>

#include "gpu/methods/ldi/bin_cpu.h"
#include "gpu/view/lanes.h"

/* ---- the lattice ---- */

/* A triangle is small if at most SMALL samples lie between its corners along each axis and its extent is below
 * EXACT_EXTENT units: edge functions are then below 2^53, so double arithmetic on them is exact. */
enum { SMALL = 8, EXACT_EXTENT = 1 << 25 };

/* Four triangles take as many steps as the largest of them. A triangle of more than FEW samples along an axis is
 * rasterised here only if at least COMPANY of the four are that large; else it becomes an entry of its bins. */
enum { FEW = 4, COMPANY = 2 };

/* The lattice along an axis, the same in all lanes. */
struct axis_grid {
    ct_v4i half, shift, n, lo, hi; /* half: half a pitch minus 1, in units; lo, hi: ends of the window's depths */
    ct_v4d pitch;                  /* units */
};

struct view_grid {
    ct_v4i columns;
    ct_v4i bin_shift_u, bin_shift_v;
    uint32_t tile;         /* index in the plan */
    ct_v4i drops_in_front; /* -1: triangles in front of the window are left out (CT_INITIAL_FROM_BALANCE) */
    ct_v4u next_row;       /* added to ct_crossings.where for a step of one row */
};

struct grid {
    struct axis_grid axis[3];
    struct view_grid view[3];
    ct_v4i small; /* triangles of more samples along an axis are not small; -1: none is */
};

static struct grid grid_of(const ct_snapped_body *snapped, const ct_window *window, const ct_bin_plan *plan,
                           bool emit_small) {
    struct grid g = {.small = v4i(emit_small ? SMALL : -1)};
    for (int k = 0; k < 3; k++) {
        const ct_lattice *a = &window->axis[k];
        g.axis[k] = (struct axis_grid){.half = v4i((1 << (a->shift - 1)) - 1),
                                       .shift = v4i(a->shift),
                                       .n = v4i(a->n),
                                       .lo = v4i(a->lo),
                                       .hi = v4i(a->hi),
                                       .pitch = (ct_v4d){} + (double)(1 << a->shift)};
        const ct_binned_tile *t = &plan->tiles[k];
        g.view[k] = (struct view_grid){.columns = v4i(t->tile.n_u),
                                       .bin_shift_u = v4i(t->shift_u),
                                       .bin_shift_v = v4i(t->shift_v),
                                       .tile = (uint32_t)k,
                                       .drops_in_front = v4i(-(int32_t)ct_drops_front(snapped, k)),
                                       .next_row = (ct_v4u){} + ((uint64_t)1 << 32 | (uint32_t)t->tile.n_u)};
    }
    return g;
}

/* ---- four triangles ---- */

/* Extent along an axis. Masks are -1 for true. */
struct extent4 {
    ct_v4i a;          /* corner 0 */
    ct_v4d b, c, at;   /* corners 1 and 2 and the first sample, relative to corner 0 */
    ct_v4i first, end; /* samples [first, end) lie between the corners */
    ct_v4i has_samples;
    ct_v4i is_large;               /* not small along this axis */
    ct_v4i is_in_front, is_behind; /* of the window's depths */
};

struct tri4 {
    const uint32_t *triangle; /* [4] ids */
    ct_v4u tag;               /* fragments' tags, in the upper halves */
    unsigned present;         /* bit l: lane l holds a triangle; the others repeat one */
    struct extent4 axis[3];
};

static inline __attribute__((always_inline)) void load_tri4(struct tri4 *q, const ct_snapped_body *snapped,
                                                            const struct grid *g) {
    ct_v4i at[3][3]; /* corner, axis */
    const uint32_t *k[4];
    for (int l = 0; l < 4; l++) k[l] = snapped->triangles + 3 * (size_t)q->triangle[l];
    for (int j = 0; j < 3; j++) {
        ct_v4i a, b, c, d;
        memcpy(&a, snapped->coords[k[0][j]], sizeof a);
        memcpy(&b, snapped->coords[k[1][j]], sizeof b);
        memcpy(&c, snapped->coords[k[2][j]], sizeof c);
        memcpy(&d, snapped->coords[k[3][j]], sizeof d);
        ct_v4i ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
        at[j][0] = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
        at[j][1] = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
        at[j][2] = __builtin_shufflevector(__builtin_shufflevector(a, b, 2, 6, 3, 7),
                                           __builtin_shufflevector(c, d, 2, 6, 3, 7), 0, 1, 4, 5);
    }
    for (int i = 0; i < 3; i++) {
        struct extent4 *e = &q->axis[i];
        const struct axis_grid *s = &g->axis[i];
        const ct_v4i a = at[0][i], b = at[1][i], c = at[2][i];
        ct_v4i low = min_v4i(min_v4i(a, b), c), high = max_v4i(max_v4i(a, b), c);
        e->first = max_v4i((low + s->half) >> s->shift, v4i(0));
        e->end = min_v4i((high + s->half) >> s->shift, s->n);
        e->has_samples = e->end > e->first;
        e->is_large = (e->end - e->first > g->small) | (high - low >= EXACT_EXTENT);
        e->is_in_front = high < s->lo;
        e->is_behind = low > s->hi;
        e->a = a;
        e->b = to_double(b - a);
        e->c = to_double(c - a);
        e->at = to_double((e->first << s->shift) + s->half + 1 - a);
    }
}

/* ---- samples of small triangles ---- */

/* Appends a view's crossings. */
struct crossing_writer {
    uint64_t *front, *back, *where; /* as in ct_crossings; `where` counts rays in the tile, its upper half the row */
    size_t n;
    size_t full; /* while n < full, the crossings of four more triangles fit */
};

/* Twice the areas of four triangles, and the changes of their edge functions from one sample to the next. */
struct edges {
    ct_v4d area, step_u[3], step_v[3];
};

/* Of the lanes in `zero`, whose sample lies on an edge: those that cover it by the fill rule (ct_edge_inside). */
static __attribute__((noinline)) unsigned resolve_on_edge(struct edges s, unsigned zero, ct_v4d e0, ct_v4d e1,
                                                          ct_v4d e2) {
    const ct_v4d e[3] = {e0, e1, e2};
    for (unsigned left = zero; left; left &= left - 1) {
        int l = __builtin_ctz(left);
        bool inside = s.area[l] > 0;
        for (int k = 0; k < 3; k++)
            inside = inside && (e[k][l] > 0 || s.step_u[k][l] > 0 || (s.step_u[k][l] == 0 && s.step_v[k][l] > 0));
        if (!inside) zero &= ~(1u << l);
    }
    return zero;
}

/* Rounds as ct_round_i32 does; the integers are in the lower halves. */
static inline ct_v4u rounded(ct_v4d x) {
    return (ct_v4u)(x + CT_ROUND_MAGIC);
}

/* Four triangles projected along a view's axis. Clockwise ones are mirrored along u, so that the edge functions of all
 * are positive inside. */
struct projection4 {
    ct_v4d u_at, u_b, u_c, u_pitch; /* as in extent4, mirrored where clockwise */
    ct_v4d area, inverse;           /* twice the area, and 1 / area */
    ct_v4u key;                     /* fragment key at corner 0's depth */
};

static inline __attribute__((always_inline)) struct projection4
projection_of(const struct extent4 *u, const struct extent4 *v, const struct extent4 *depth, ct_v4d pitch) {
    const ct_v4d area = u->b * v->c - u->c * v->b;
    const ct_v4l flip = (ct_v4l)area & (ct_v4l)(ct_v4d){-0.0, -0.0, -0.0, -0.0};
#define FLIP(x) ((ct_v4d)((ct_v4l)(x) ^ flip))
    return (struct projection4){.u_at = FLIP(u->at),
                                .u_b = FLIP(u->b),
                                .u_c = FLIP(u->c),
                                .u_pitch = FLIP(pitch),
                                .area = FLIP(area),
                                .inverse = 1.0 / FLIP(area),
                                .key = (ct_v4u)ct_v4l_of_v4i(depth->a + CT_DEPTH_BIAS) << 1 | (ct_v4u)flip >> 63};
#undef FLIP
}

/* Appends the crossings at a sample with the triangles in lane set `hits`; e1 and e2 are the edge functions there. The
 * arithmetic of ct_fragment_at. */
static inline __attribute__((always_inline)) void write_fragments(struct crossing_writer *to, const struct tri4 *q,
                                                                  const struct projection4 *f,
                                                                  const struct extent4 *depth, unsigned hits,
                                                                  ct_v4u where, ct_v4d e1, ct_v4d e2) {
    _Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "two numbers in one");
    const ct_v4d w1 = e1 * f->inverse, w2 = e2 * f->inverse;
    const ct_v4u key = f->key + (rounded(w1 * depth->b + w2 * depth->c) << 1);
    const ct_v4u l1 = rounded(w1 * (double)CT_WEIGHT_ONE), l2 = rounded(w2 * (double)CT_WEIGHT_ONE);
    const ct_v4u front = join_halves(key, l1 << 32), back = join_halves(l2, q->tag);
    compress_store(to->front + to->n, front, hits);
    compress_store(to->back + to->n, back, hits);
    compress_store(to->where + to->n, where, hits);
    to->n += count_lanes(hits);
}

/* Rasterises the triangles in lane set `lanes` on view w and appends their crossings. is_single: at most one sample
 * lies between a triangle's corners along each axis. The arithmetic of ct_make_setup. */
static inline __attribute__((always_inline)) void emit_fragments(struct crossing_writer *writer, const struct tri4 *q,
                                                                 const struct grid *g, int w, unsigned lanes,
                                                                 bool is_single) {
    const struct extent4 *u = &q->axis[ct_view_u(w)], *v = &q->axis[ct_view_v(w)], *depth = &q->axis[w];
    const ct_v4d v_pitch = g->axis[ct_view_v(w)].pitch;
    const struct projection4 f = projection_of(u, v, depth, g->axis[ct_view_u(w)].pitch);
    struct crossing_writer to = *writer; /* a local copy, so that the stores cannot alias it */
    ct_v4d e1 = f.u_at * v->c - f.u_c * v->at, e2 = f.u_b * v->at - f.u_at * v->b, e0 = f.area - e1 - e2;
    const ct_v4i ray =
        (v->first * g->view[w].columns + u->first) | (depth->is_in_front & v4i((int32_t)CT_CROSSING_COUNTED));
    ct_v4u where = (ct_v4u)__builtin_shufflevector(ray, v->first, 0, 4, 1, 5, 2, 6, 3, 7);
    /* Columns and rows still to come, minus 1: negative on the last. */
    const ct_v4i columns = u->end - u->first - 2;
    ct_v4i left = columns, rows = v->end - v->first - 2;
    const bool several = !is_single && lanes & ~sign_bits_v4i(columns & rows);
    unsigned in_row = lanes;
    ct_v4d row0 = e0, row1 = e1, row2 = e2;
    ct_v4u row_where = where;
    for (;;) {
        ct_v4d least = min_v4d(min_v4d(e0, e1), e2);
        unsigned hits = in_row & sign_bits(least > 0.0), zero = in_row & sign_bits(least == 0.0);
        if (__builtin_expect(zero, 0)) {
            const struct edges edges = {f.area,
                                        {(v->b - v->c) * f.u_pitch, v->c * f.u_pitch, -v->b * f.u_pitch},
                                        {f.u_c - f.u_b, -f.u_c, f.u_b}};
            hits |= resolve_on_edge(edges, zero, e0, e1, e2);
        }
        write_fragments(&to, q, &f, depth, hits, where, e1, e2);
        if (!several) break;
        in_row &= ~sign_bits_v4i(left);
        if (in_row) {
            where += 1;
            left -= 1;
            e0 += (v->b - v->c) * f.u_pitch;
            e1 += v->c * f.u_pitch;
            e2 -= v->b * f.u_pitch;
        } else {
            lanes &= ~sign_bits_v4i(rows);
            if (!lanes) break;
            in_row = lanes;
            where = row_where += g->view[w].next_row;
            left = columns;
            rows -= 1;
            e0 = row0 += (f.u_c - f.u_b) * v_pitch;
            e1 = row1 -= f.u_c * v_pitch;
            e2 = row2 += f.u_b * v_pitch;
        }
    }
    writer->n = to.n;
}

#endif

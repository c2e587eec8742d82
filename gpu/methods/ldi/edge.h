/* edge.h - which samples of a row a large triangle covers, found by division instead of testing each sample; for
 * *.simd.c files. */
#ifndef CT_EDGE_H
#define CT_EDGE_H

#include <math.h>

#include "gpu/methods/ldi/bins.h"
#include "gpu/view/raster_k.h"

/* The samples of a bin that the triangle with corners q can cover, counted from the bin's first; may be empty. */
static inline ct_sample_rect bin_rect_of(const int32_t *const q[3], const ct_bin *bin) {
    const int u = ct_view_u(bin->of->view), v = ct_view_v(bin->of->view);
    ct_sample_rect r =
        ct_tile_rect(&bin->of->tile, ct_min3(q[0][u], q[1][u], q[2][u]), ct_max3(q[0][u], q[1][u], q[2][u]),
                     ct_min3(q[0][v], q[1][v], q[2][v]), ct_max3(q[0][v], q[1][v], q[2][v]));
    r.u0 -= bin->first_column;
    r.u1 -= bin->first_column;
    r.v0 -= bin->first_row;
    r.v1 -= bin->first_row;
    if (r.u0 < 0) r.u0 = 0;
    if (r.v0 < 0) r.v0 = 0;
    if (r.u1 > bin->columns) r.u1 = bin->columns;
    if (r.v1 > bin->rows) r.v1 = bin->rows;
    return r;
}

/* The triangle's set-up at sample (column, row) of the bin. 0: it is edge-on and covers no sample. */
static inline int setup_in_bin(ct_triangle_setup *s, const int32_t *const q[3], const ct_bin *bin, int32_t column,
                               int32_t row) {
    const ct_tile *tile = &bin->of->tile;
    const int w = bin->of->view;
    return ct_make_setup(s, q[0], q[1], q[2], ct_view_u(w), ct_view_v(w), w,
                         ct_tile_u(tile, bin->first_column + column), ct_tile_v(tile, bin->first_row + row),
                         tile->shift_u, tile->shift_v);
}

/* An edge function along a row of n samples: row + i * slope at sample i. It covers the samples at which it is not
 * negative. Quotients are doubles whose error is far below 1 for at most CT_MAX_RESOLUTION samples; the integers then
 * correct them. */
struct edge {
    int64_t row, slope;
    double inverse; /* 1 / |slope|, or 0 */
};

/* The quotient rounded down, at most n. */
static inline int64_t clamped_quotient(double quotient, int64_t n) {
    return (int64_t)(quotient < (double)n ? quotient : (double)n);
}

/* Narrows [*begin, *end) to the samples that the edge covers. */
static inline void clip(const struct edge *e, int64_t n, int64_t *begin, int64_t *end) {
    if (e->row < 0) {
        int64_t i = n; /* the first covered sample */
        if (e->slope > 0) {
            i = clamped_quotient((double)-e->row * e->inverse, n);
            i += e->row + i * e->slope < 0;
        }
        if (i > *begin) *begin = i;
    } else if (e->slope < 0) {
        int64_t i = clamped_quotient((double)e->row * e->inverse, n); /* the last covered sample */
        i += e->row + (i + 1) * e->slope >= 0;
        i -= e->row + i * e->slope < 0;
        if (i + 1 < *end) *end = i + 1;
    }
}

/* The triangle's edges along the row of its set-up. */
static inline void edges_of(const ct_triangle_setup *s, struct edge edge[3]) {
    for (int k = 0; k < 3; k++) { /* minus 1 where the fill rule excludes samples on the edge */
        edge[k].row = s->edge[k] - !ct_edge_inside(s, k);
        edge[k].slope = s->step_u[k];
        edge[k].inverse = s->step_u[k] ? 1.0 / fabs((double)s->step_u[k]) : 0;
    }
}

#endif

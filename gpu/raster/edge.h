/* edge.h - which samples of a row a large triangle covers, without trying each of them; for *.simd.c files. */
#ifndef CT_EDGE_H
#define CT_EDGE_H

#include <math.h>

#include "gpu/raster/raster_k.h"
#include "gpu/view/view_k.h"

/* Samples [u0, u1) x [v0, v1), which hold all that a triangle can cover in a band. */
struct extent {
    int32_t u0, u1, v0, v1;
};

/* q: the corners; of the view along w, in the band of so many rows. */
static inline struct extent extent_of(const int32_t *const q[3], const ct_lattice *lu, const ct_lattice *lv, int w,
                                      int32_t first_row, int32_t rows) {
    const int u = ct_view_u(w), v = ct_view_v(w);
    struct extent x;
    x.u0 = ct_samples_below(ct_min3(q[0][u], q[1][u], q[2][u]), lu->shift, lu->n);
    x.u1 = ct_samples_below(ct_max3(q[0][u], q[1][u], q[2][u]), lu->shift, lu->n);
    x.v0 = ct_samples_below(ct_min3(q[0][v], q[1][v], q[2][v]), lv->shift, lv->n);
    x.v1 = ct_samples_below(ct_max3(q[0][v], q[1][v], q[2][v]), lv->shift, lv->n);
    if (x.v0 < first_row) x.v0 = first_row;
    if (x.v1 > first_row + rows) x.v1 = first_row + rows;
    return x;
}

/* Its set-up at the first of these samples. 0: it covers none. */
static inline int setup_of(ct_triangle_setup *s, const int32_t *const q[3], const ct_lattice *lu, const ct_lattice *lv,
                           int w, struct extent x) {
    return ct_make_setup(s, q[0], q[1], q[2], ct_view_u(w), ct_view_v(w), w, ct_sample_coord(x.u0, lu->shift),
                         ct_sample_coord(x.v0, lv->shift), lu->shift, lv->shift);
}

/* One edge of a triangle along a row of n samples: a linear function, row + i * slope at sample i, covers the samples
 * at which it is not negative. The quotients are of doubles, whose error is far below 1 for so few samples, and put
 * right by the integers. */
struct edge {
    int64_t row, slope;
    double inverse; /* 1 / |slope|, or 0 */
};

static inline int64_t estimate(double quotient, int64_t n) {
    return (int64_t)(quotient < (double)n ? quotient : (double)n);
}

/* Narrows [*begin, *end) to the samples that the edge covers. */
static inline void clip(const struct edge *e, int64_t n, int64_t *begin, int64_t *end) {
    if (e->row < 0) {
        int64_t i = n; /* the first that is covered */
        if (e->slope > 0) {
            i = estimate((double)-e->row * e->inverse, n);
            i += e->row + i * e->slope < 0;
        }
        if (i > *begin) *begin = i;
    } else if (e->slope < 0) {
        int64_t i = estimate((double)e->row * e->inverse, n); /* the last that is covered */
        i += e->row + (i + 1) * e->slope >= 0;
        i -= e->row + i * e->slope < 0;
        if (i + 1 < *end) *end = i + 1;
    }
}

/* Of a triangle, at the row of its set-up. */
static inline void edges_of(const ct_triangle_setup *s, struct edge edge[3]) {
    for (int k = 0; k < 3; k++) { /* less one where a sample on the edge is outside */
        edge[k].row = s->edge[k] - !ct_edge_inside(s, k);
        edge[k].slope = s->step_u[k];
        edge[k].inverse = s->step_u[k] ? 1.0 / fabs((double)s->step_u[k]) : 0;
    }
}

#endif

/* front_winding_k.h - the loops in which the triangles in front of a window end, edge by edge: which samples an edge
 * lies beyond. For every backend; front_winding.h explains what it is for. */
#ifndef CT_FRONT_WINDING_K_H
#define CT_FRONT_WINDING_K_H

#include <stdbool.h>

#include "gpu/view/view_k.h"

/* The plane of a uniform view with its two axes named by what they are for: edges are counted along `along`, line of
 * samples by line of samples across `across`. */
typedef struct ct_front_plane {
    int32_t shift_across, shift_along, n_across, n_along;
    bool along_u; /* otherwise along v */
} ct_front_plane;

CT_FN ct_front_plane ct_front_plane_of(const ct_window *window, int view, bool along_u) {
    const ct_lattice *u = &window->axis[ct_view_u(view)], *v = &window->axis[ct_view_v(view)];
    ct_front_plane plane;
    plane.shift_across = along_u ? v->shift : u->shift;
    plane.shift_along = along_u ? u->shift : v->shift;
    plane.n_across = along_u ? v->n : u->n;
    plane.n_along = along_u ? u->n : v->n;
    plane.along_u = along_u;
    return plane;
}

/* In the plane. */
typedef struct ct_front_point {
    int64_t across, along;
} ct_front_point;

typedef struct ct_front_edge {
    ct_front_point low, high; /* its ends, in rising order across */
    int32_t first, end;       /* it lies beyond samples of lines first .. end - 1 */
    int32_t sign;             /* what it adds to the winding numbers of these samples */
} ct_front_edge;

CT_FN ct_front_point ct_front_point_of(const ct_front_plane *p, const int32_t *q, int view) {
    const int32_t u = q[ct_view_u(view)], v = q[ct_view_v(view)];
    ct_front_point point;
    point.across = p->along_u ? v : u;
    point.along = p->along_u ? u : v;
    return point;
}

/* Finds the edge of a triangle that straddles `begin`, where the view's depths begin: the one whose ends both lie in
 * front. q0, q1, q2: the corners' lattice coordinates. False: there is none, or it lies beyond no line of samples. A
 * triangle with one corner in front has none; the neighbour across its edge straddles as well. */
CT_FN bool ct_find_front_edge(const ct_front_plane *p, const int32_t *q0, const int32_t *q1, const int32_t *q2,
                              int view, int32_t begin, ct_front_edge *edge) {
    const bool front0 = q0[view] < begin, front1 = q1[view] < begin, front2 = q2[view] < begin;
    if (front0 + front1 + front2 != 2) return false;
    const ct_front_point p0 = ct_front_point_of(p, q0, view), p1 = ct_front_point_of(p, q1, view),
                         p2 = ct_front_point_of(p, q2, view);
    const ct_front_point a = !front0 ? p1 : !front1 ? p2 : p0, b = !front0 ? p2 : !front1 ? p0 : p1;
    const bool is_rising = b.across > a.across;
    edge->low = is_rising ? a : b;
    edge->high = is_rising ? b : a;
    edge->first = ct_samples_below((int32_t)edge->low.across, p->shift_across, p->n_across);
    edge->end = ct_samples_below((int32_t)edge->high.across, p->shift_across, p->n_across);
    /* Seen from a sample, an edge beyond it along u that rises in v turns counter-clockwise, one beyond it along v that
     * rises in u clockwise. */
    edge->sign = is_rising == p->along_u ? 1 : -1;
    return edge->first < edge->end;
}

/* The number of samples of line i, one of the edge's, that have the edge beyond them: samples 0 to this number - 1. */
CT_FN int32_t ct_samples_before_edge(const ct_front_plane *p, const ct_front_edge *edge, int32_t i) {
    const int64_t width = edge->high.across - edge->low.across, rise = edge->high.along - edge->low.along;
    const int64_t at = ct_sample_coord(i, p->shift_across) - edge->low.across;
    /* Sample j lies before the edge where value + j * step < 0; where it is 0 the sample's displacement decides. */
    const int64_t value = width * (ct_sample_coord(0, p->shift_along) - edge->low.along) - rise * at;
    const int64_t step = width << p->shift_along;
    /* Along v the displacement is (e, e^2): e moves the line across, so a rising edge lies beyond. Along u it is the
     * sample that moves by e, beyond the edge. */
    const int64_t limit = !p->along_u && rise > 0 ? -value : -value - 1; /* before, where j * step <= limit */
    if (limit < 0) return 0;
    const int64_t n = limit / step + 1;
    return n < p->n_along ? (int32_t)n : p->n_along;
}

#endif

/* near_k.h - whether triangles in a box can matter to a pair: the box against the window, for every backend.
 *
 * All tests err towards "can matter": limits are widened by more than snapping and rounding move a vertex. So what they
 * leave out changes no bit of a result.
 */
#ifndef CT_NEAR_K_H
#define CT_NEAR_K_H

#include <math.h>
#include <stdbool.h>

#include "gpu/mesh/cluster_k.h"
#include "gpu/view/view_k.h"
#include "gpu/view/winding_k.h"

/* Along an axis, in m: a box that ends at or before `beside_lo`, or begins at or after `beside_hi`, has no sample of
 * the views that the axis spans; one that ends before `lo` is in front of the depths of the view along it, one that
 * begins after `hi` behind them. Widened by two lattice units, more than snapping moves a vertex, and by the rounding
 * of the limits themselves. */
typedef struct ct_axis_limits {
    double beside_lo, beside_hi, lo, hi;
    double begin_hi; /* the depths begin before here */
} ct_axis_limits;

CT_FN ct_axis_limits ct_find_axis_limits(const ct_lattice *a) {
    const double margin = 2 * a->unit + 0x1p-48 * (fabs(a->origin) + a->n * a->pitch);
    ct_axis_limits limits;
    limits.lo = a->origin + a->lo * a->unit - margin;
    limits.hi = a->origin + a->hi * a->unit + margin;
    limits.begin_hi = limits.lo + 2 * margin;
    limits.beside_lo = a->origin + 0.5 * a->pitch - margin;
    limits.beside_hi = a->origin + (a->n - 0.5) * a->pitch + margin;
    return limits;
}

CT_FN bool ct_is_beside(const ct_axis_limits *a, double lo, double hi) {
    return hi <= a->beside_lo || lo >= a->beside_hi;
}

/* Bounds the rounding of a row of a pose applied to a point in the box: sixteen roundings of the largest partial sum.
 */
CT_FN double ct_bound_pose_rounding(const double *row, const ct_cluster_box *box) {
    double most = fabs(row[3]);
    for (int j = 0; j < 3; j++) most += fabs(row[j]) * fmax(fabs((double)box->lo[j]), fabs((double)box->hi[j]));
    return 0x1p-48 * most;
}

/* The extent of a posed box along a world axis. row: the pose's of that axis; slack: ct_bound_pose_rounding of the box,
 * or of one that contains it. */
CT_FN void ct_find_posed_extent(const double *row, double slack, const ct_cluster_box *box, double *lo, double *hi) {
    double middle = row[3], half = 0;
    for (int j = 0; j < 3; j++) {
        middle += row[j] * (0.5 * ((double)box->lo[j] + (double)box->hi[j]));
        half += fabs(row[j]) * (0.5 * ((double)box->hi[j] - (double)box->lo[j]));
    }
    *lo = middle - half - slack;
    *hi = middle + half + slack;
}

/* The views in which triangles of a body in the world box may matter, bit w for the view along axis w: those where the
 * box is not beside the window, not behind its depths, and not in front of them where the initial winding number
 * follows from the balance. limits: per axis; initial: ct_initial_winding per view. */
CT_FN uint32_t ct_find_near_views(const ct_axis_limits *limits, const uint8_t *initial, const double *lo,
                                  const double *hi) {
    bool beside[3], bounds_no_span[3];
    uint32_t views = 0;
    for (int k = 0; k < 3; k++) {
        const ct_axis_limits *a = &limits[k];
        beside[k] = ct_is_beside(a, lo[k], hi[k]);
        bounds_no_span[k] = lo[k] > a->hi || (hi[k] < a->lo && initial[k] == CT_INITIAL_FROM_BALANCE);
    }
    for (int w = 0; w < 3; w++)
        if (!beside[ct_view_u(w)] && !beside[ct_view_v(w)] && !bounds_no_span[w]) views |= 1u << w;
    return views;
}

/* A triangle in the world box may straddle the begin of the depths of the view along axis w, beyond a sample
 * along u, or v. */
CT_FN bool ct_may_straddle(const ct_axis_limits *limits, int w, bool along_u, const double *lo, const double *hi) {
    const int u = ct_view_u(w), v = ct_view_v(w);
    const bool is_beside_u = ct_is_beside(&limits[u], lo[u], hi[u]),
               is_beside_v = ct_is_beside(&limits[v], lo[v], hi[v]);
    const bool ends_before_u = hi[u] <= limits[u].beside_lo, ends_before_v = hi[v] <= limits[v].beside_lo;
    return lo[w] <= limits[w].begin_hi && hi[w] >= limits[w].lo &&
           (along_u ? !is_beside_v && !ends_before_u : !is_beside_u && !ends_before_v);
}

#endif

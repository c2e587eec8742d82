/* region_k.h - narrows the overlap of two bodies' boxes to a region that still holds their whole intersection, so that
 * rays are not spread over empty space where a contact is shallow.
 *
 *        ______________________                A sphere on a slab: the boxes overlap as widely as the sphere, the
 *       /        sphere        \               intersection is the lens below the slab's surface.
 *      |                        |
 *     -|--\________________/----|- slab        overlap of the boxes:   |------------------------|
 *      |________________________|              region:                     |----------------|
 *
 * The rule: let m be the furthest point, along a direction, of body A's surface inside the region. The slice of the
 * region beyond m holds no surface of A, so it lies wholly inside A or wholly outside. One probe point in the slice
 * tells which: its winding number about A. If that is 0, no point of the slice is in the intersection, and the region
 * may end at m. Both bodies cut the region along x, y and z, and along one direction more: the mean normal of the
 * surfaces inside it. Along that direction a tilted contact is thin where the axes are not. Each round of cuts leaves
 * less surface inside the region and so allows further cuts.
 *
 * The furthest points are minima and maxima and the winding numbers are sums of integers, so no order of triangles
 * changes a bit. Coordinates are relative to the overlap's lower corner, in double: far from the world's origin nothing
 * is lost.
 */
#ifndef CT_REGION_K_H
#define CT_REGION_K_H

#include <math.h>

#include "gpu/base/box.h"
#include "gpu/view/raster_k.h"
#include "gpu/view/view_k.h"

/* Axes x, y and z, and axis 3: the region's direction. Face 2 k is the lower end along axis k, face 2 k + 1 the upper
 * end. */
enum { CT_REGION_DIRECTION = 3, CT_REGION_AXES = 4, CT_REGION_FACES = 8 };

/* The points of a box between two parallel planes. */
typedef struct ct_region {
    ct_box box;            /* m, world: the overlap's ends where nothing was cut, to the last bit */
    double origin[3];      /* m, world: what lo and hi are relative to */
    double lo[4], hi[4];   /* m, ends along each axis */
    double direction[3];   /* unit vector of axis 3 */
    double margin[4];      /* m, more than rounding and snapping move a point along each axis */
    double reach;          /* m, no point of a body is further from a point of the overlap, along any axis */
    int32_t has_direction; /* else axis 3 is not used */
} ct_region;

/* A point of the region on one face, and a ray from it out of a body, along axis `axis`. */
typedef struct ct_probe {
    double at[3];     /* m, relative to the region's origin */
    int32_t axis;     /* x, y or z */
    int32_t sign;     /* 1: the ray runs upwards */
    int32_t is_valid; /* 0: not to be measured */
} ct_probe;

/* Those of one body. */
typedef struct ct_probes {
    ct_probe of[CT_REGION_FACES];
    double scale; /* lattice units per metre around a probe */
} ct_probes;

/* What a body has in the region. */
typedef struct ct_extent {
    double lo[4], hi[4];              /* of its surface along each axis; lo > hi: it has none there */
    int64_t area[3], size;            /* the sum of its surface's area vectors, and of their lengths */
    int32_t winding[CT_REGION_FACES]; /* about this body, of each face's probe */
} ct_extent;

/* A probe that lies on the surface gets this winding number, so that nothing is cut there. */
#define CT_WINDING_UNKNOWN (1 << 20)

/* A polygon that a triangle is clipped to: each of eight planes adds at most one corner. */
enum { CT_CLIPPED_CORNERS = 3 + CT_REGION_FACES };

/* ---- the region ---- */

/* The overlap of two bodies' boxes. False: it is flat, and nothing can be cut. */
CT_FN int ct_region_begin(const ct_box *a, const ct_box *b, ct_region *region) {
    int has_volume = 1;
    region->reach = 0;
    region->has_direction = 0;
    for (int k = 0; k < 3; k++) {
        const double lo = fmax(a->lo[k], b->lo[k]) + 0.0, hi = fmin(a->hi[k], b->hi[k]) + 0.0;
        const double reach = fmax(hi - fmin(a->lo[k], b->lo[k]), fmax(a->hi[k], b->hi[k]) - lo);
        region->box.lo[k] = region->origin[k] = lo;
        region->box.hi[k] = hi;
        region->lo[k] = 0;
        region->hi[k] = hi - lo;
        region->direction[k] = 0;
        /* Four units of the coarsest lattice, and the rounding of a posed coordinate. */
        region->margin[k] = ldexp(reach, 4 - CT_COORD_BITS) + ldexp(fabs(lo) + fabs(hi), -48);
        region->reach = fmax(region->reach, reach);
        has_volume = has_volume && hi > lo;
    }
    region->lo[3] = region->hi[3] = region->margin[3] = 0;
    return has_volume;
}

CT_FN double ct_along(const double direction[3], const double p[3]) {
    return direction[0] * p[0] + direction[1] * p[1] + direction[2] * p[2];
}

/* The corner of the region's box that is furthest along the direction times sign. */
CT_FN void ct_region_corner(const ct_region *region, int sign, double p[3]) {
    for (int k = 0; k < 3; k++) p[k] = sign * region->direction[k] > 0 ? region->hi[k] : region->lo[k];
}

/* Gives the region a direction, with the whole box between its ends. */
CT_FN void ct_region_set_direction(ct_region *region, const double direction[3]) {
    double p[3];
    region->has_direction = 1;
    region->margin[3] = 0;
    for (int k = 0; k < 3; k++) {
        region->direction[k] = direction[k];
        region->margin[3] += fabs(direction[k]) * region->margin[k];
    }
    ct_region_corner(region, -1, p);
    region->lo[3] = ct_along(direction, p) - region->margin[3];
    ct_region_corner(region, 1, p);
    region->hi[3] = ct_along(direction, p) + region->margin[3];
}

/* ---- probes ---- */

/* The point at `along` on the segment from p to q, which lie at p_along and q_along. */
CT_FN void ct_point_between(const double p[3], const double q[3], double p_along, double q_along, double along,
                            double at[3]) {
    const double t = q_along > p_along ? (along - p_along) / (q_along - p_along) : 0;
    for (int k = 0; k < 3; k++) at[k] = p[k] + t * (q[k] - p[k]);
}

/* A point of the region on a face. Returns 0 if there is none. */
CT_FN int ct_point_on_face(const ct_region *region, int face, double at[3]) {
    const int axis = face / 2, sign = face & 1 ? 1 : -1;
    const double *n = region->direction;
    double p[3], q[3];
    ct_region_corner(region, -1, p);
    ct_region_corner(region, 1, q);
    if (axis == CT_REGION_DIRECTION) {
        const double lo = ct_along(n, p), hi = ct_along(n, q), end = sign > 0 ? region->hi[3] : region->lo[3];
        ct_point_between(p, q, lo, hi, end < lo ? lo : end > hi ? hi : end, at);
        return 1;
    }
    p[axis] = q[axis] = sign > 0 ? region->hi[axis] : region->lo[axis];
    if (!region->has_direction) {
        for (int k = 0; k < 3; k++) at[k] = p[k];
        return 1;
    }
    /* The middle of the face's points between the planes. */
    const double p_along = ct_along(n, p), q_along = ct_along(n, q);
    const double begin = fmax(p_along, region->lo[3]), end = fmin(q_along, region->hi[3]);
    ct_point_between(p, q, p_along, q_along, 0.5 * (begin + end), at);
    return begin <= end;
}

/* The probe of a face about a body with this box, m, world. The ray takes the shortest way out of the box. */
CT_FN ct_probe ct_probe_of_face(const ct_region *region, int face, const ct_box *body) {
    ct_probe probe;
    double shortest = INFINITY;
    probe.is_valid = ct_point_on_face(region, face, probe.at);
    probe.axis = 0;
    probe.sign = 1;
    for (int k = 0; k < 3; k++)
        for (int sign = -1; sign <= 1; sign += 2) {
            const double at = region->origin[k] + probe.at[k], way = sign > 0 ? body->hi[k] - at : at - body->lo[k];
            if (!(way < shortest)) continue;
            shortest = way;
            probe.axis = k;
            probe.sign = sign;
        }
    return probe;
}

/* a . (b x c) in 128 bits: its sign is exact. */
CT_FN int ct_sign_of_product(const int32_t *a, const int32_t *b, const int32_t *c) {
    __int128 sum = 0;
    for (int k = 0; k < 3; k++) {
        const int i = (k + 1) % 3, j = (k + 2) % 3;
        sum += (__int128)a[k] * ((int64_t)b[i] * c[j] - (int64_t)b[j] * c[i]);
    }
    return (sum > 0) - (sum < 0);
}

/* What a triangle adds to the winding number of a probe: 1 where the probe's ray leaves the body through it, -1 where
 * the ray enters. The triangle is snapped to a lattice around the probe, so that adjacent triangles agree. */
CT_FN int32_t ct_crossing_of_probe(const ct_probe *probe, double scale, const double corner[3][3]) {
    const int w = probe->axis, u = ct_view_u(w), v = ct_view_v(w);
    int32_t q[3][3];
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) q[i][k] = ct_snap(corner[i][k], probe->at[k], scale);
    if (ct_min3(q[0][u], q[1][u], q[2][u]) > 0 || ct_max3(q[0][u], q[1][u], q[2][u]) < 0 ||
        ct_min3(q[0][v], q[1][v], q[2][v]) > 0 || ct_max3(q[0][v], q[1][v], q[2][v]) < 0)
        return 0;
    ct_triangle_setup setup;
    if (!ct_make_setup(&setup, q[0], q[1], q[2], u, v, w, 0, 0, 0, 0)) return 0;
    if (!ct_covers(&setup, setup.edge[0], setup.edge[1], setup.edge[2])) return 0;
    const int side = ct_sign_of_product(q[0], q[1], q[2]) * setup.ccw; /* of the crossing, along axis w */
    if (side == 0) return CT_WINDING_UNKNOWN;
    return side == probe->sign ? setup.ccw * probe->sign : 0;
}

/* ---- extents ---- */

CT_FN ct_extent ct_extent_empty(void) {
    ct_extent e;
    for (int k = 0; k < CT_REGION_AXES; k++) {
        e.lo[k] = INFINITY;
        e.hi[k] = -INFINITY;
    }
    e.area[0] = e.area[1] = e.area[2] = e.size = 0;
    for (int face = 0; face < CT_REGION_FACES; face++) e.winding[face] = 0;
    return e;
}

CT_FN void ct_extent_add_point(ct_extent *e, const double p[4]) {
    for (int k = 0; k < CT_REGION_AXES; k++) {
        e->lo[k] = p[k] < e->lo[k] ? p[k] : e->lo[k];
        e->hi[k] = p[k] > e->hi[k] ? p[k] : e->hi[k];
    }
}

/* Area vectors are summed in units of 2^-30 of the squared sum of the box's edges. A clipped triangle has less than one
 * such square, so 2^31 triangles cannot overflow. */
CT_FN double ct_area_scale(const ct_region *region) {
    const double sum = (region->hi[0] - region->lo[0]) + (region->hi[1] - region->lo[1]) +
                       (region->hi[2] - region->lo[2]) + region->margin[0] + region->margin[1] + region->margin[2];
    return ldexp(1.0, 30) / (sum * sum);
}

CT_FN void ct_extent_add_area(ct_extent *e, double scale, const double p[][4], int n) {
    double area[3] = {0, 0, 0};
    for (int i = 1; i + 1 < n; i++)
        for (int k = 0; k < 3; k++) {
            const int j = (k + 1) % 3, l = (k + 2) % 3;
            area[k] += (p[i][j] - p[0][j]) * (p[i + 1][l] - p[0][l]) - (p[i][l] - p[0][l]) * (p[i + 1][j] - p[0][j]);
        }
    for (int k = 0; k < 3; k++) {
        area[k] *= 0.5 * scale;
        e->area[k] += llrint(area[k]);
    }
    e->size += llrint(sqrt(ct_along(area, area)));
}

/* Is p before q? Clipping cuts each edge from its earlier end, so that the cut does not depend on the polygon's sense.
 */
CT_FN int ct_is_earlier(const double *p, const double *q) {
    if (p[0] != q[0]) return p[0] < q[0];
    if (p[1] != q[1]) return p[1] < q[1];
    return p[2] < q[2];
}

/* The corner that clipping begins with, so that turning a triangle's corners changes no bit. */
CT_FN int ct_first_corner(const double corner[3][3]) {
    const int first = ct_is_earlier(corner[1], corner[0]) ? 1 : 0;
    return ct_is_earlier(corner[2], corner[first]) ? 2 : first;
}

/* The point of the edge from p to q at `end` along axis k. */
CT_FN void ct_cut_edge(const double p[4], const double q[4], int k, double end, double at[4]) {
    const double *a = ct_is_earlier(p, q) ? p : q, *b = a == p ? q : p;
    const double t = (end - a[k]) / (b[k] - a[k]);
    for (int i = 0; i < 4; i++) at[i] = a[i] + t * (b[i] - a[i]);
    at[k] = end;
}

/* Clips a polygon of n corners to the points that are not beyond `end` along axis k times sign (Sutherland-Hodgman).
 * Returns the number of corners left. */
CT_FN int ct_clip_polygon(const double from[][4], int n, int k, int sign, double end, double to[][4]) {
    int m = 0;
    for (int i = 0; i < n; i++) {
        const double *p = from[i], *q = from[i + 1 < n ? i + 1 : 0];
        const int p_inside = sign * p[k] <= sign * end, q_inside = sign * q[k] <= sign * end;
        if (p_inside) {
            for (int j = 0; j < 4; j++) to[m][j] = p[j];
            m++;
        }
        if (p_inside != q_inside) ct_cut_edge(p, q, k, end, to[m++]);
    }
    return m;
}

/* Adds the part of a triangle that lies in the region, widened by its margins. corner: relative to its origin.
 * area_scale: 0 if the area vectors are not used. */
CT_FN void ct_extent_add_surface(ct_extent *e, const ct_region *region, double area_scale, const double corner[3][3]) {
    double p[2][CT_CLIPPED_CORNERS][4];
    const int n_axes = region->has_direction ? 4 : 3;
    int n = 3, at = 0, cuts = 0;
    const int first = ct_first_corner(corner);
    for (int i = 0; i < 3; i++) {
        const double *q = corner[(first + i) % 3];
        for (int k = 0; k < 3; k++) p[0][i][k] = q[k];
        p[0][i][3] = region->has_direction ? ct_along(region->direction, q) : 0;
    }
    for (int k = 0; k < n_axes; k++) {
        const double lo = region->lo[k] - region->margin[k], hi = region->hi[k] + region->margin[k];
        const double a = p[0][0][k], b = p[0][1][k], c = p[0][2][k];
        if ((a < lo && b < lo && c < lo) || (a > hi && b > hi && c > hi)) return;
        if (a < lo || b < lo || c < lo) cuts |= 1 << (2 * k);
        if (a > hi || b > hi || c > hi) cuts |= 2 << (2 * k);
    }
    for (int face = 0; face < 2 * n_axes && n > 0; face++) {
        if (!(cuts >> face & 1)) continue;
        const int k = face / 2, sign = face & 1 ? 1 : -1;
        const double end = sign > 0 ? region->hi[k] + region->margin[k] : region->lo[k] - region->margin[k];
        n = ct_clip_polygon((const double(*)[4])p[at], n, k, sign, end, p[1 - at]);
        at = 1 - at;
    }
    for (int i = 0; i < n; i++) ct_extent_add_point(e, p[at][i]);
    if (n > 2 && area_scale > 0) ct_extent_add_area(e, area_scale, (const double(*)[4])p[at], n);
}

/* May the ray of a probe meet the triangle? */
CT_FN int ct_may_cross_probe(const ct_probe *probe, const double margin[4], const double corner[3][3]) {
    if (!probe->is_valid) return 0;
    for (int k = 0; k < 3; k++) {
        const double lo = probe->at[k] - margin[k], hi = probe->at[k] + margin[k];
        const double a = corner[0][k], b = corner[1][k], c = corner[2][k];
        if ((k != probe->axis || probe->sign > 0) && a < lo && b < lo && c < lo) return 0;
        if ((k != probe->axis || probe->sign < 0) && a > hi && b > hi && c > hi) return 0;
    }
    return 1;
}

CT_FN void ct_extent_add_windings(ct_extent *e, const ct_region *region, const ct_probes *probes,
                                  const double corner[3][3]) {
    for (int face = 0; face < CT_REGION_FACES; face++)
        if (ct_may_cross_probe(&probes->of[face], region->margin, corner))
            e->winding[face] += ct_crossing_of_probe(&probes->of[face], probes->scale, corner);
}

/* The box that holds what the region has of a body's surface, m, world. Whatever meets no such box need not be
 * measured. */
CT_FN ct_box ct_region_surface_box(const ct_region *region) {
    ct_box box;
    for (int k = 0; k < 3; k++) {
        box.lo[k] = region->origin[k] + region->lo[k] - 2 * region->margin[k];
        box.hi[k] = region->origin[k] + region->hi[k] + 2 * region->margin[k];
    }
    return box;
}

/* The same of the windings: boxes around the rays of the valid probes. Returns their number. */
CT_FN uint32_t ct_region_probe_boxes(const ct_region *region, const ct_probes *probes, ct_box boxes[CT_REGION_FACES]) {
    uint32_t n = 0;
    for (int face = 0; face < CT_REGION_FACES; face++) {
        const ct_probe *probe = &probes->of[face];
        if (!probe->is_valid) continue;
        for (int k = 0; k < 3; k++) {
            boxes[n].lo[k] = region->origin[k] + probe->at[k] - 2 * region->margin[k];
            boxes[n].hi[k] = region->origin[k] + probe->at[k] + 2 * region->margin[k];
        }
        *(probe->sign > 0 ? &boxes[n].hi[probe->axis] : &boxes[n].lo[probe->axis]) = probe->sign * (double)INFINITY;
        n++;
    }
    return n;
}

/* ---- cuts ---- */

/* A cut has to be worth a change of the window, and larger than what rounding explains. */
CT_FN int ct_is_worth_cutting(const ct_region *region, int k, double size) {
    return size >= 0.0625 * (region->hi[k] - region->lo[k]) && size >= 2 * region->margin[k];
}

/* Moves the ends along axis k inwards. Returns how many moved. */
CT_FN int ct_region_move_ends(ct_region *region, int k, double lo, double hi) {
    const int moves_lo = ct_is_worth_cutting(region, k, lo - region->lo[k]);
    const int moves_hi = ct_is_worth_cutting(region, k, region->hi[k] - hi);
    if ((moves_lo ? lo : region->lo[k]) >= (moves_hi ? hi : region->hi[k])) return 0; /* the bodies do not meet */
    if (moves_lo) region->lo[k] = lo;
    if (moves_hi) region->hi[k] = hi;
    if (k < 3 && moves_lo) region->box.lo[k] = region->origin[k] + lo;
    if (k < 3 && moves_hi) region->box.hi[k] = region->origin[k] + hi;
    return moves_lo + moves_hi;
}

CT_FN int ct_extent_is_empty(const ct_extent *e) {
    return e->lo[0] > e->hi[0];
}

/* Cuts the box where none of it lies between the planes. Returns how many ends moved. */
CT_FN int ct_region_fit_box(ct_region *region) {
    int moved = 0;
    for (int k = 0; k < 3; k++) {
        const double n = region->direction[k];
        double p[3], q[3];
        if (fabs(n) < 0x1p-12) continue; /* the planes hardly cross the axis */
        ct_region_corner(region, -1, p);
        ct_region_corner(region, 1, q);
        p[k] = q[k] = 0;
        const double low = region->lo[3] - region->margin[3] - ct_along(region->direction, q);
        const double high = region->hi[3] + region->margin[3] - ct_along(region->direction, p);
        const double lo = (n > 0 ? low : high) / n, hi = (n > 0 ? high : low) / n;
        moved += ct_region_move_ends(region, k, lo - region->margin[k], hi + region->margin[k]);
    }
    return moved;
}

/* How far face `face` could move inwards if the slice beyond the body's surface were outside the body. */
CT_FN double ct_possible_cut(const ct_region *region, const ct_extent *e, int face) {
    const int k = face / 2;
    return face & 1 ? region->hi[k] - (e->hi[k] + region->margin[k]) : e->lo[k] - region->margin[k] - region->lo[k];
}

/* The ends along axis k that both bodies' extents in the region allow; lo >= hi: the bodies do not meet. */
CT_FN void ct_region_ends(const ct_region *region, const ct_extent extent[2], int k, double *lo, double *hi) {
    *lo = region->lo[k];
    *hi = region->hi[k];
    for (int b = 0; b < 2; b++) {
        if (extent[b].winding[2 * k] == 0) *lo = fmax(*lo, extent[b].lo[k] - region->margin[k]);
        if (extent[b].winding[2 * k + 1] == 0) *hi = fmin(*hi, extent[b].hi[k] + region->margin[k]);
    }
}

/* Cuts the region to what both bodies' extents in it allow. Returns how many ends moved. */
CT_FN int ct_region_cut(ct_region *region, const ct_extent extent[2]) {
    int moved = 0;
    for (int k = 0; k < (region->has_direction ? 4 : 3); k++) {
        double lo, hi;
        ct_region_ends(region, extent, k, &lo, &hi);
        moved += ct_region_move_ends(region, k, lo, hi);
    }
    if (region->has_direction) moved += ct_region_fit_box(region);
    return moved;
}

/* The mean normal of the surfaces in the region, body 1's turned over. The flatter a body's surface is there, the more
 * its normal counts: a plane's is exact, that of a closed surface is rounding. Returns 0 if there is none. */
CT_FN int ct_find_direction(const ct_extent extent[2], double direction[3]) {
    double sum[3] = {0, 0, 0};
    for (int b = 0; b < 2; b++) {
        const double x = (double)extent[b].area[0], y = (double)extent[b].area[1], z = (double)extent[b].area[2];
        const double size = sqrt(x * x + y * y + z * z), flatness = fmin(size / (double)(extent[b].size + 1), 1.0);
        const double weight = size > 0 ? (b ? -1 : 1) * flatness / (1 + 0x1p-20 - flatness) / size : 0;
        sum[0] += weight * x;
        sum[1] += weight * y;
        sum[2] += weight * z;
    }
    const double size = sqrt(sum[0] * sum[0] + sum[1] * sum[1] + sum[2] * sum[2]);
    if (!(size > 1e-6)) return 0;
    for (int k = 0; k < 3; k++) direction[k] = sum[k] / size;
    return 1;
}

/* ---- whether narrowing pays ---- */

/* Looking at all triangles costs about as much as rasterising them, so a few of each body tell whether the region can
 * shrink: this many, equally spaced in the mesh's order. */
enum { CT_REGION_SAMPLES = 64 };

/* Triangle number i of the samples of a mesh. */
CT_FN uint32_t ct_region_sample(uint32_t i, uint32_t n_triangles) {
    return n_triangles <= CT_REGION_SAMPLES ? i : (uint32_t)((uint64_t)i * n_triangles / CT_REGION_SAMPLES);
}
CT_FN uint32_t ct_region_sample_count(uint32_t n_triangles) {
    return n_triangles < CT_REGION_SAMPLES ? n_triangles : (uint32_t)CT_REGION_SAMPLES;
}

/* Guesses which probes lie outside, as samples do not tell: those that the surface does not turn its inside to. The
 * mean normal of a closed surface's samples is noise, of about an eighth of their area. */
CT_FN void ct_guess_windings(ct_extent *e, const ct_region *region) {
    const double least = -0.25 * (double)e->size;
    for (int face = 0; face < CT_REGION_FACES; face++) {
        const int k = face / 2, sign = face & 1 ? 1 : -1;
        const double facing = k < 3 ? (double)e->area[k]
                                    : region->direction[0] * (double)e->area[0] +
                                          region->direction[1] * (double)e->area[1] +
                                          region->direction[2] * (double)e->area[2];
        e->winding[face] = !(sign * facing >= least);
    }
}

/* Are the samples of both bodies apart along an axis? They then meet in a thin layer, if at all. */
CT_FN int ct_samples_are_apart(const ct_region *region, const ct_extent extent[2]) {
    for (int k = 0; k < (region->has_direction ? 4 : 3); k++) {
        double lo, hi;
        ct_region_ends(region, extent, k, &lo, &hi);
        if (lo >= hi) return 1;
    }
    return 0;
}

/* Is a region so much smaller than the overlap that finding it pays? It does where a view of it has at most an eighth
 * of the area, or where the surfaces meet in a layer much thinner than the overlap is along the direction. */
CT_FN int ct_is_worth_narrowing(const ct_region *overlap, const ct_region *region) {
    double part[3];
    for (int k = 0; k < 3; k++) part[k] = (region->hi[k] - region->lo[k]) / (overlap->hi[k] - overlap->lo[k]);
    for (int w = 0; w < 3; w++)
        if (part[ct_view_u(w)] * part[ct_view_v(w)] <= 0.125) return 1;
    if (!region->has_direction) return 0;
    ct_region whole = *overlap;
    ct_region_set_direction(&whole, region->direction);
    return region->hi[3] - region->lo[3] <= 0.0625 * (whole.hi[3] - whole.lo[3]);
}

/* ---- the rounds ---- */

typedef enum ct_narrowing_phase {
    CT_NARROW_GUESS,    /* measure the surfaces of samples (ct_region_sample) */
    CT_NARROW_UNSEEN,   /* measure the surfaces of bodies of which no sample lay in the region (is_unseen) */
    CT_NARROW_SURFACES, /* measure the surfaces of all triangles in the region */
    CT_NARROW_WINDINGS, /* measure the winding numbers of the valid probes */
    CT_NARROW_DONE,     /* `region` is the result */
} ct_narrowing_phase;

/* The order of work, the same on every backend: a backend measures what the phase asks for, of both bodies, and hands
 * it to ct_narrowing_advance, until the phase is CT_NARROW_DONE. Winding numbers are measured only where they decide
 * about a cut. */
typedef struct ct_narrowing {
    ct_narrowing_phase phase;
    int32_t round; /* of guesses, then of cuts */
    int32_t idle;  /* rounds since the box last shrank */
    int32_t is_unseen[2];
    int32_t samples_all; /* the samples are all triangles of both bodies */
    ct_region region;    /* to be measured now */
    ct_region overlap;
    ct_box body[2];      /* m, world */
    ct_extent extent[2]; /* while winding numbers are measured: the surfaces' */
    ct_probes probes[2]; /* per body */
} ct_narrowing;

/* Rounds of cuts at most, and rounds without effect on the box after which the others are given up: with a new
 * direction the first round cuts along it, the second uses the cut. */
enum { CT_CUTS = 6, CT_IDLE_CUTS = 2 };

/* Measuring triangles costs 40 ns each, in each round, which for large meshes is more than rasterising them. So an
 * overlap is narrowed where few triangles lie in it, as in a shallow contact along the axes, or where both bodies have
 * few in all. */
#define CT_NARROW_TRIANGLES    8192.0
#define CT_NARROW_SMALL_BODIES 32768

/* Estimates how many triangles of a body lie in the overlap: they fill its box evenly. */
CT_FN double ct_estimate_in_overlap(const ct_region *overlap, const ct_box *body, uint32_t n_triangles) {
    double part = 1;
    for (int k = 0; k < 3; k++) {
        const double size = body->hi[k] - body->lo[k];
        if (size > 0) part *= fmin((overlap->hi[k] - overlap->lo[k]) / size, 1.0);
    }
    return part * n_triangles;
}

CT_FN void ct_narrowing_begin(ct_narrowing *n, const ct_box *a, const ct_box *b, uint32_t triangles_a,
                              uint32_t triangles_b) {
    const int has_volume = ct_region_begin(a, b, &n->region);
    const double triangles =
        ct_estimate_in_overlap(&n->region, a, triangles_a) + ct_estimate_in_overlap(&n->region, b, triangles_b);
    const int are_few =
        triangles <= CT_NARROW_TRIANGLES || (uint64_t)triangles_a + triangles_b <= CT_NARROW_SMALL_BODIES;
    n->phase = has_volume && are_few ? CT_NARROW_GUESS : CT_NARROW_DONE;
    n->round = n->idle = 0;
    n->samples_all = triangles_a <= CT_REGION_SAMPLES && triangles_b <= CT_REGION_SAMPLES;
    n->overlap = n->region;
    n->is_unseen[0] = n->is_unseen[1] = 0;
    n->body[0] = *a;
    n->body[1] = *b;
}

/* The surfaces' area vectors, where the direction follows from them, else 0. */
CT_FN double ct_narrowing_area_scale(const ct_narrowing *n) {
    const int is_used = n->phase < CT_NARROW_SURFACES || !n->region.has_direction || n->round % 2 == 1;
    return is_used ? ct_area_scale(&n->region) : 0;
}

/* Gives the region the direction of the extents, unless it has nearly the same already. Returns 1 if it changed. */
CT_FN int ct_turn_region(ct_region *region, const ct_extent extent[2]) {
    double direction[3];
    if (!ct_find_direction(extent, direction)) return 0;
    if (region->has_direction && fabs(ct_along(direction, region->direction)) > 1 - 1e-12) return 0;
    ct_region_set_direction(region, direction);
    return 1;
}

/* After a guess: guesses once more with a direction, begins to cut, or is done. */
CT_FN void ct_advance_guess(ct_narrowing *n, ct_extent extent[2]) {
    int any_empty = 0, is_worth = 0;
    for (int b = 0; b < 2; b++) {
        n->extent[b] = extent[b];
        n->is_unseen[b] = ct_extent_is_empty(&extent[b]);
        any_empty = any_empty || n->is_unseen[b];
    }
    if (!any_empty) {
        for (int b = 0; b < 2; b++) ct_guess_windings(&extent[b], &n->region);
        is_worth = ct_samples_are_apart(&n->region, extent);
        ct_region_cut(&n->region, extent);
        is_worth = is_worth || ct_is_worth_narrowing(&n->overlap, &n->region);
        if (n->round == 0) ct_turn_region(&n->region, extent);
        if (!is_worth && n->round == 0 && n->region.has_direction) {
            n->round = 1;
            return;
        }
    }
    const ct_region guess = n->region;
    n->region = n->overlap;
    n->round = 0;
    n->phase = is_worth ? CT_NARROW_SURFACES : any_empty && !n->samples_all ? CT_NARROW_UNSEEN : CT_NARROW_DONE;
    if (is_worth && guess.has_direction) ct_region_set_direction(&n->region, guess.direction);
}

/* After surfaces: lists the probes that decide about cuts worth making. Returns their number. */
CT_FN int ct_list_probes(ct_narrowing *n) {
    int count = 0;
    for (int b = 0; b < 2; b++) {
        n->probes[b].scale = ldexp(1.0, CT_COORD_BITS - 1) / n->region.reach;
        for (int face = 0; face < CT_REGION_FACES; face++) {
            ct_probe *probe = &n->probes[b].of[face];
            *probe = ct_probe_of_face(&n->region, face, &n->body[b]);
            const int is_used = face / 2 < CT_REGION_DIRECTION || n->region.has_direction;
            probe->is_valid =
                probe->is_valid && is_used &&
                ct_is_worth_cutting(&n->region, face / 2, ct_possible_cut(&n->region, &n->extent[b], face));
            count += probe->is_valid;
        }
    }
    return count;
}

/* After surfaces and winding numbers: cuts, and begins the next round if there is anything to gain. */
CT_FN void ct_advance_cut(ct_narrowing *n) {
    const ct_region before = n->region;
    const int moved = ct_region_cut(&n->region, n->extent);
    int has_shrunk = 0, turned = 0;
    for (int k = 0; k < 3; k++)
        has_shrunk = has_shrunk || n->region.hi[k] - n->region.lo[k] <= 0.75 * (before.hi[k] - before.lo[k]);
    n->idle = has_shrunk ? 0 : n->idle + 1;
    if (!n->region.has_direction || n->round % 2 == 1) turned = ct_turn_region(&n->region, n->extent);
    n->round++;
    n->phase = (moved || turned) && n->round < CT_CUTS && n->idle < CT_IDLE_CUTS ? CT_NARROW_SURFACES : CT_NARROW_DONE;
}

/* Whether narrowing pays, by the samples of bodies that have some in the region, and all of the others' surfaces. */
CT_FN int ct_pays_to_narrow(const ct_narrowing *n, const ct_extent measured[2]) {
    ct_extent extent[2];
    ct_region region = n->region;
    for (int b = 0; b < 2; b++) {
        extent[b] = n->is_unseen[b] ? measured[b] : n->extent[b];
        if (ct_extent_is_empty(&extent[b])) return 0; /* nothing to cut to */
        ct_guess_windings(&extent[b], &region);
    }
    if (ct_samples_are_apart(&region, extent)) return 1;
    ct_region_cut(&region, extent);
    return ct_is_worth_narrowing(&n->overlap, &region);
}

/* Takes what was measured and prepares the next phase. */
CT_FN void ct_narrowing_advance(ct_narrowing *n, ct_extent measured[2]) {
    if (n->phase == CT_NARROW_GUESS) {
        ct_advance_guess(n, measured);
    } else if (n->phase == CT_NARROW_UNSEEN) {
        n->phase = ct_pays_to_narrow(n, measured) ? CT_NARROW_SURFACES : CT_NARROW_DONE;
    } else if (n->phase == CT_NARROW_SURFACES) {
        for (int b = 0; b < 2; b++) {
            n->extent[b] = measured[b];
            for (int face = 0; face < CT_REGION_FACES; face++) n->extent[b].winding[face] = CT_WINDING_UNKNOWN;
        }
        n->phase = CT_NARROW_WINDINGS;
        if (ct_extent_is_empty(&measured[0]) || ct_extent_is_empty(&measured[1]))
            n->phase = CT_NARROW_DONE; /* nothing to cut to: one lies inside the other, or outside */
        else if (!ct_list_probes(n))
            ct_advance_cut(n);
    } else {
        for (int b = 0; b < 2; b++)
            for (int face = 0; face < CT_REGION_FACES; face++)
                if (n->probes[b].of[face].is_valid) n->extent[b].winding[face] = measured[b].winding[face];
        ct_advance_cut(n);
    }
}

#endif

/* segment_k.h - the segment in which two triangles cross, and its share of the integrals over either of them.
 *
 * For a triangle t with the winding number w of the other body at its points, the gradient needs the integrals of
 * w lambda_k over t. In barycentric coordinates x = lambda_1, y = lambda_2, Green's theorem turns each into a sum over
 * t's edge from corner 1 to corner 2 and over the segments in which triangles of the other body cross t, each directed
 * with the inside of the other body on its left:
 *
 *     y
 *     2                      integral of w f dx dy  =  sum over segments of  integral of G dy
 *     |\                                             +  integral of w G dy along 1 -> 2,        dG/dx = f
 *     | \
 *     |  \ <- w changes      f:  1     x       y       x x       x y        y y
 *     |.->\  where edges     G:  x   x^2/2    x y    x^3/3    x^2 y/2    x y^2
 *     |____\ are crossed
 *     0     1   x            (dy = 0 on 0 -> 1, x = 0 on 2 -> 0: they add nothing)
 *
 * A segment's ends are where an edge of one triangle pierces the other. Which end is its start follows from signs
 * alone: an edge of t that goes from outside to inside of the other body is the end of t's segment; one that comes out
 * is its start; for an edge of the other triangle u it is the reverse. u's segment is t's, reversed.
 */
#ifndef CT_EXACT_SEGMENT_K_H
#define CT_EXACT_SEGMENT_K_H

#include "gpu/base/vec.h"
#include "gpu/methods/exact/predicates_k.h"

/* Integrals of w times 1, x, y, x x, x y, y y over a triangle's barycentric domain (area 1/2). */
enum { CT_INTEGRALS = 6 };

typedef struct ct_integrals {
    double of[CT_INTEGRALS];
} ct_integrals;

/* Of a segment p -> q. */
CT_FN void ct_add_segment(ct_integrals *sum, const double p[2], const double q[2]) {
    const double x0 = p[0], y0 = p[1], x1 = q[0], y1 = q[1], dy = y1 - y0;
    sum->of[0] += dy * (x0 + x1) / 2;
    sum->of[1] += dy * (x0 * x0 + x0 * x1 + x1 * x1) / 6;
    sum->of[2] += dy * (x0 * (2 * y0 + y1) + x1 * (y0 + 2 * y1)) / 6;
    sum->of[3] += dy * ((x0 + x1) * (x0 * x0 + x1 * x1)) / 12;
    sum->of[4] += dy * (x0 * x0 * (3 * y0 + y1) + 2 * x0 * x1 * (y0 + y1) + x1 * x1 * (y0 + 3 * y1)) / 24;
    sum->of[5] += dy * (x0 * (3 * y0 * y0 + 2 * y0 * y1 + y1 * y1) + x1 * (y0 * y0 + 2 * y0 * y1 + 3 * y1 * y1)) / 12;
}

/* Of the edge 1 -> 2 from y = a on, where w is higher by `jump`. */
CT_FN void ct_add_edge(ct_integrals *sum, double a, double jump) {
    const double b = 1 - a, bb = b * b, bbb = bb * b, aaa = a * a * a;
    sum->of[0] += jump * bb / 2;
    sum->of[1] += jump * bbb / 6;
    sum->of[2] += jump * bb * (1 + 2 * a) / 6;
    sum->of[3] += jump * bb * bb / 12;
    sum->of[4] += jump * bbb * (4 - 3 * b) / 24;
    sum->of[5] += jump * ((1 - aaa) / 3 - (1 - aaa * a) / 4);
}

/* What a crossing adds to one of the two triangles. */
typedef struct ct_triangle_share {
    ct_integrals integrals; /* without the edge's term for w at corner 1 */
    double near_area;       /* units^2: the part that lies within two units of the other triangle's plane is less */
    double rounding;        /* units^2: bounds the rounding of the integrals, times the triangle's area vector */
    signed char jump[3];    /* of w along the edge from corner k to corner k + 1 */
} ct_triangle_share;

enum { CT_TRIANGLES_APART = 0, CT_TRIANGLES_NEAR = 1, CT_TRIANGLES_CROSS = 2, CT_TRIANGLES_INCONSISTENT = 3 };

/* The corners of one triangle against the plane of the other. */
typedef struct ct_plane_sides {
    double value[3], error[3]; /* signed distance times the length of the normal, and bounds of its rounding */
    int sign[3];
} ct_plane_sides;

CT_FN double ct_size1(const ct_normal *n) {
    return fabs(n->of[0]) + fabs(n->of[1]) + fabs(n->of[2]);
}

/* A determinant that is smaller than this many times its bound of rounding is computed in integers: its sign may be
 * certain, but its quotients place the ends of segments, where nearly coplanar triangles need all digits. At 2^36,
 * values of less than 2^-13 of their terms are; others have a rounding of 2^-36 at most. */
#define CT_PRECISE 0x1p36

/* Sides of p[0..2] of the plane through u0, whose normal is n, in doubles: without signs. */
CT_FN void ct_measure_sides(const double *const p[3], const double *u0, const ct_normal *n, ct_plane_sides *sides) {
    for (int k = 0; k < 3; k++) {
        const double x = p[k][0] - u0[0], y = p[k][1] - u0[1], z = p[k][2] - u0[2];
        sides->value[k] = n->of[0] * x + n->of[1] * y + n->of[2] * z;
        sides->error[k] = (n->size[0] * fabs(x) + n->size[1] * fabs(y) + n->size[2] * fabs(z)) * CT_FILTER;
    }
}

/* The signs of measured sides, and values from integers where doubles are not good enough. *has_ties is set where a
 * sign is the perturbation's. An error of 0 says that all terms are 0, as they often are where faces are parallel to
 * the axes. */
CT_FN void ct_decide_sides(const double *const p[3], const double *const u[3], int moved, ct_plane_sides *sides,
                           int *has_ties) {
    for (int k = 0; k < 3; k++) {
        sides->sign[k] = sides->value[k] > 0 ? 1 : -1;
        if (fabs(sides->value[k]) > sides->error[k] * CT_PRECISE) continue;
        const ct_signed_value s =
            sides->error[k] > 0 ? ct_exact_side(p[k], u[0], u[1], u[2], moved) : ct_tied_side(u[0], u[1], u[2], moved);
        sides->value[k] = s.value;
        sides->error[k] = s.error;
        sides->sign[k] = s.sign;
        *has_ties |= s.is_tie;
    }
}

/* Sides of p[0..2] of the plane through u[0..2], whose normal is n. *has_ties is set where a sign is the
 * perturbation's. */
CT_FN void ct_find_sides(const double *const p[3], const double *const u[3], const ct_normal *n, int moved,
                         ct_plane_sides *sides, int *has_ties) {
    ct_measure_sides(p, u[0], n, sides);
    ct_decide_sides(p, u, moved, sides, has_ties);
}

/* True: all corners are on one side, so the triangles do not cross. */
CT_FN int ct_is_one_sided(const ct_plane_sides *s) {
    return s->sign[0] == s->sign[1] && s->sign[1] == s->sign[2];
}

/* Triangles that do not cross count as near where this part of |normal|_1 is near. Smaller parts are added up as whole
 * units^2 (ct_left_out). */
#define CT_NEAR_PART (1.0 / 2048)

CT_FN double ct_largest_side(const ct_plane_sides *sides) {
    double most = fabs(sides->value[0]);
    if (fabs(sides->value[1]) > most) most = fabs(sides->value[1]);
    if (fabs(sides->value[2]) > most) most = fabs(sides->value[2]);
    return most;
}

/* most: ct_largest_side to the other one's plane. True: ct_near_area is all of the triangle. */
CT_FN int ct_is_wholly_near(double most, double its_size1) {
    return 16 * its_size1 >= most;
}

/* A bound of the part of a triangle's area that lies within two units of the other's plane, in units^2: the signed
 * distance is linear over the triangle, so the part where its size is at most d is at most 4 d / (its largest size).
 * most: ct_largest_side. */
CT_FN double ct_near_area(double most, double own_size1, double its_size1) {
    return ct_is_wholly_near(most, its_size1) ? own_size1 / 2 : own_size1 / 2 * (16 * its_size1 / most);
}

/* units^2: ct_near_area of both triangles of a pair that neither crosses nor counts as near. */
CT_FN double ct_small_near_area(double most_a, double most_b, double size_a, double size_b) {
    return 8 * (size_a * size_b) * ((most_a + most_b) / (most_a * most_b));
}

/* Triangles of which |normal|_1 grows by a larger part than this are narrow: some four units or less. */
#define CT_MOST_GROWTH 0.96

/* By how much |normal|_1 of a triangle may grow where each corner moves by 0.51 units along each axis at most. */
CT_FN double ct_growth_of_normal(const double *const p[3]) {
    double sides = 0;
    for (int k = 0; k < 3; k++) sides += fabs(p[1][k] - p[0][k]) + fabs(p[2][k] - p[0][k]);
    return 2.04 * sides + 6.3;
}

/* Area that the sums over crossings have not, over a pair of bodies and one perturbation. Whole units^2, so that the
 * sum depends on no order: low + 2^36 high. A summand is below 2^71, so 2^28 of them do not overflow. */
typedef struct ct_left_out {
    uint64_t low, high;
    double residual; /* units: the largest of the clusters with such a triangle (ct_placed_cluster) */
} ct_left_out;

enum { CT_LEFT_OUT_BITS = 36 };

/* The summand for an area, at least as large. */
CT_FN void ct_round_left_out(double area, uint64_t *low, uint64_t *high) {
    if (area < 0x1p50) {
        const uint64_t whole = (uint64_t)((area + CT_ROUND_MAGIC) - CT_ROUND_MAGIC) + 1;
        *low = whole & (((uint64_t)1 << CT_LEFT_OUT_BITS) - 1);
        *high = whole >> CT_LEFT_OUT_BITS;
    } else {
        *low = 0;
        *high = (uint64_t)(area * 0x1p-36) + 1;
    }
}

CT_FN void ct_add_left_out(ct_left_out *sum, const ct_left_out *more) {
    sum->low += more->low;
    sum->high += more->high;
    sum->residual = fmax(sum->residual, more->residual);
}

CT_FN double ct_left_out_area(const ct_left_out *sum) {
    const uint64_t high = sum->high + (sum->low >> CT_LEFT_OUT_BITS);
    return (double)high * 0x1p36 + (double)(sum->low & (((uint64_t)1 << CT_LEFT_OUT_BITS) - 1));
}

/* Compares by coordinates, so that the roles of two triangles that cross, and all bits, do not depend on the order of
 * the bodies. a, b: corner 0 of either. */
CT_FN int ct_comes_first(const double *a, const double *b) {
    for (int k = 0; k < 3; k++)
        if (a[k] != b[k]) return a[k] < b[k];
    return 1;
}

/* Orientations of the edges of two triangles to each other: [i][j] of edge i, j from corner i, j to the next one. */
typedef struct ct_edge_signs {
    double value[3][3], error[3][3];
    int sign[3][3];
} ct_edge_signs;

/* The edges of a triangle, as arrays over the edges that vectorise: the fourth repeats the first. */
typedef struct ct_edges {
    double from[3][4], along[3][4];  /* start and direction; [axis][edge] */
    double moment[3][4], size[3][4]; /* start x direction, and the sums of the sizes of its terms */
} ct_edges;

CT_FN void ct_find_edges(const double *const p[3], const double *origin, ct_edges *edges) {
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < 3; i++) edges->from[k][i] = p[i][k] - origin[k];
        edges->from[k][3] = edges->from[k][0];
    }
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < 4; i++) edges->along[k][i] = edges->from[k][i == 3 ? 1 : i + 1] - edges->from[k][i];
    for (int k = 0; k < 3; k++) {
        const int x = (k + 1) % 3, y = (k + 2) % 3;
        for (int i = 0; i < 4; i++) {
            const double u = edges->from[x][i] * edges->along[y][i], v = edges->from[y][i] * edges->along[x][i];
            edges->moment[k][i] = u - v;
            edges->size[k][i] = fabs(u) + fabs(v);
        }
    }
}

/* In doubles, without signs: computed as d_a . m_b + d_b . m_a of directions d and moments m, with corner 0 of the
 * first triangle as origin. */
CT_FN void ct_measure_edges(const double *const a[3], const double *const b[3], ct_edge_signs *edges) {
    ct_edges ea, eb;
    ct_find_edges(a, a[0], &ea);
    ct_find_edges(b, a[0], &eb);
    for (int i = 0; i < 3; i++) {
        double value[4], error[4];
        for (int j = 0; j < 4; j++) {
            value[j] = ea.along[0][i] * eb.moment[0][j] + ea.along[1][i] * eb.moment[1][j] +
                       ea.along[2][i] * eb.moment[2][j] +
                       (eb.along[0][j] * ea.moment[0][i] + eb.along[1][j] * ea.moment[1][i] +
                        eb.along[2][j] * ea.moment[2][i]);
            error[j] = (fabs(ea.along[0][i]) * eb.size[0][j] + fabs(ea.along[1][i]) * eb.size[1][j] +
                        fabs(ea.along[2][i]) * eb.size[2][j] +
                        (fabs(eb.along[0][j]) * ea.size[0][i] + fabs(eb.along[1][j]) * ea.size[1][i] +
                         fabs(eb.along[2][j]) * ea.size[2][i])) *
                       CT_FILTER;
        }
        for (int j = 0; j < 3; j++) {
            edges->value[i][j] = value[j];
            edges->error[i][j] = error[j];
        }
    }
}

/* The signs of measured edges, and values from integers where doubles are not good enough. Signs are those of the
 * determinants wherever one of the two edges crosses the other triangle's plane. */
CT_FN void ct_decide_edges(const double *const a[3], const double *const b[3], const ct_plane_sides *sides_a,
                           const ct_plane_sides *sides_b, int moved, ct_edge_signs *edges, int *has_ties) {
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            edges->sign[i][j] = edges->value[i][j] > 0 ? 1 : -1;
            if (fabs(edges->value[i][j]) > edges->error[i][j] * CT_PRECISE) continue;
            const int i1 = (i + 1) % 3, j1 = (j + 1) % 3;
            if (sides_a->sign[i] == sides_a->sign[i1] && sides_b->sign[j] == sides_b->sign[j1]) continue;
            const ct_signed_value s = edges->error[i][j] > 0 ? ct_exact_edges(a[i], a[i1], b[j], b[j1], moved)
                                                             : ct_tied_edges(a[i], a[i1], b[j], b[j1], moved);
            edges->value[i][j] = s.value;
            edges->error[i][j] = s.error;
            edges->sign[i][j] = s.sign;
            *has_ties |= s.is_tie;
        }
}

CT_FN void ct_find_edge_signs(const double *const a[3], const double *const b[3], const ct_plane_sides *sides_a,
                              const ct_plane_sides *sides_b, int moved, ct_edge_signs *edges, int *has_ties) {
    ct_measure_edges(a, b, edges);
    ct_decide_edges(a, b, sides_a, sides_b, moved, edges, has_ties);
}

/* An end of the segment in the barycentric coordinates (lambda_1, lambda_2) of both triangles, and bounds of their
 * rounding. */
typedef struct ct_segment_end {
    double at[2][2], error[2];
} ct_segment_end;

/* Edge i of triangle `own` pierces the other triangle, whose edges have orientations e[0..2] to it. side: of its start
 * and its end, with their errors. */
CT_FN void ct_find_end_between(const double side[2], const double side_error[2], int i, int own, const double e[3],
                               const double e_error[3], ct_segment_end *end, double *along) {
    const int other = 1 - own;
    const double length = side[0] - side[1], tau = side[0] / length;
    const double sum = e[0] + e[1] + e[2];
    const double at[3] = {tau, 1 - tau, 0};
    end->at[own][0] = at[i];
    end->at[own][1] = at[(i + 2) % 3];
    end->error[own] = (side_error[0] + side_error[1]) / fabs(length) + 0x1p-51;
    end->at[other][0] = e[2] / sum;
    end->at[other][1] = e[0] / sum;
    end->error[other] = 2 * (e_error[0] + e_error[1] + e_error[2]) / fabs(sum) + 0x1p-51;
    *along = tau;
}

CT_FN void ct_find_end(const ct_plane_sides *sides, int i, int own, const double e[3], const double e_error[3],
                       ct_segment_end *end, double *along) {
    const int i1 = (i + 1) % 3;
    const double side[2] = {sides->value[i], sides->value[i1]};
    const double side_error[2] = {sides->error[i], sides->error[i1]};
    ct_find_end_between(side, side_error, i, own, e, e_error, end, along);
}

/* The ends of the segment in which two triangles cross: 0 the start of the first triangle's segment, 1 its end. */
typedef struct ct_crossing_ends {
    ct_segment_end end[2];
    /* The edge that pierces there, from corner `edge` of triangle 0 (the first) or 1: where along it, and how w jumps.
     */
    double along[2];
    int triangle[2], edge[2], jump[2];
} ct_crossing_ends;

/* The ends of a crossing, or the lack of one, from the signs: APART, CROSS or INCONSISTENT. Index 0 is the first
 * triangle's, as in ct_find_edge_signs. */
CT_FN int ct_find_crossing_ends(const ct_plane_sides sides[2], const ct_edge_signs *e, ct_crossing_ends *ends) {
    int found = 0;
    ends->triangle[0] = ends->triangle[1] = ends->edge[0] = ends->edge[1] = ends->jump[0] = ends->jump[1] = 0;
    ends->along[0] = ends->along[1] = 0;
    for (int own = 0; own < 2; own++)
        for (int i = 0; i < 3; i++) {
            const int i1 = (i + 1) % 3;
            if (sides[own].sign[i] == sides[own].sign[i1]) continue;
            const int sign = own ? e->sign[0][i] : e->sign[i][0];
            if (sign != (own ? e->sign[1][i] : e->sign[i][1]) || sign != (own ? e->sign[2][i] : e->sign[i][2]))
                continue;
            double value[3], error[3];
            for (int j = 0; j < 3; j++) {
                value[j] = own ? e->value[j][i] : e->value[i][j];
                error[j] = own ? e->error[j][i] : e->error[i][j];
            }
            const int goes_in = sides[own].sign[i] > 0;
            const int which = own ? !goes_in : goes_in; /* 0: the start of the first triangle's segment, 1: its end */
            if (found >> which & 1) return CT_TRIANGLES_INCONSISTENT;
            found |= 1 << which;
            ct_find_end(&sides[own], i, own, value, error, &ends->end[which], &ends->along[which]);
            ends->triangle[which] = own;
            ends->edge[which] = i;
            ends->jump[which] = goes_in ? 1 : -1;
        }
    if (found == 1 || found == 2) return CT_TRIANGLES_INCONSISTENT;
    return found ? CT_TRIANGLES_CROSS : CT_TRIANGLES_APART;
}

/* Fills the shares if the triangles cross or are near. found: as ct_find_crossing_ends returns it. most:
 * ct_largest_side of either triangle, size: |normal|_1. left_out: units^2, of triangles that do neither: what of them
 * is near all the same. */
CT_FN int ct_share_crossing(int found, const ct_crossing_ends *ends, const double most[2], const double size[2],
                            ct_triangle_share share[2], double *left_out) {
    *left_out = 0;
    if (found == CT_TRIANGLES_INCONSISTENT) return found;
    for (int s = 0; s < 2; s++) {
        for (int k = 0; k < CT_INTEGRALS; k++) share[s].integrals.of[k] = 0;
        share[s].near_area = ct_near_area(most[s], size[s], size[1 - s]);
        share[s].rounding = 0;
        share[s].jump[0] = share[s].jump[1] = share[s].jump[2] = 0;
    }
    if (found == CT_TRIANGLES_APART) {
        if (share[0].near_area > size[0] * CT_NEAR_PART || share[1].near_area > size[1] * CT_NEAR_PART)
            return CT_TRIANGLES_NEAR;
        *left_out = ct_small_near_area(most[0], most[1], size[0], size[1]);
        return CT_TRIANGLES_APART;
    }
    ct_add_segment(&share[0].integrals, ends->end[0].at[0], ends->end[1].at[0]);
    ct_add_segment(&share[1].integrals, ends->end[1].at[1], ends->end[0].at[1]);
    for (int s = 0; s < 2; s++)
        share[s].rounding = size[s] * (4 * (ends->end[0].error[s] + ends->end[1].error[s]) + 0x1p-48);
    for (int which = 0; which < 2; which++) {
        ct_triangle_share *of = &share[ends->triangle[which]];
        const int edge = ends->edge[which];
        of->jump[edge] = (signed char)(of->jump[edge] + ends->jump[which]);
        if (edge == 1) ct_add_edge(&of->integrals, ends->along[which], ends->jump[which]);
    }
    return CT_TRIANGLES_CROSS;
}

/* A crossing, or the lack of one, from the signs, as ct_share_crossing. */
CT_FN int ct_finish_crossing(const ct_plane_sides sides[2], const ct_edge_signs *e, const double size[2],
                             ct_triangle_share share[2], double *left_out) {
    ct_crossing_ends ends;
    const int found = ct_find_crossing_ends(sides, e, &ends);
    const double most[2] = {ct_largest_side(&sides[0]), ct_largest_side(&sides[1])};
    return ct_share_crossing(found, &ends, most, size, share, left_out);
}

/* Bounds what the rounding of a crossed triangle's integrals adds to three times the volume, in units^3. That is the
 * sum over the triangles of N . (integral of w x), N the cross product of two sides; x is corner 0 plus a point of the
 * plane, which N does not see. So only N . corner 0 matters, the plane's distance from the origin: little even for a
 * triangle far larger than the contact. The second term is the rounding of N. rounding: as in ct_triangle_share. about:
 * the point from which coordinates count (finish_k.h), units. */
CT_FN double ct_volume_rounding_about(const double *const p[3], double rounding, const double about[3]) {
    double u[3], v[3], distance = 0, slack = 0;
    for (int k = 0; k < 3; k++) {
        u[k] = p[1][k] - p[0][k];
        v[k] = p[2][k] - p[0][k];
    }
    const ct_normal n = ct_normal_of(u, v);
    const double size = ct_size1(&n);
    for (int k = 0; k < 3; k++) {
        const double x = p[0][k] - about[k];
        distance += n.of[k] * x;
        slack += n.size[k] * (fabs(x) + fabs(u[k]) + fabs(v[k]));
    }
    return size > 0 ? rounding * ((fabs(distance) + slack * CT_FILTER) / size) : 0;
}

CT_FN double ct_volume_rounding(const double *const p[3], double rounding) {
    const double origin[3] = {0, 0, 0};
    return ct_volume_rounding_about(p, rounding, origin);
}

CT_FN ct_normal ct_normal_of_triangle(const double *const p[3]) {
    double u[3], v[3];
    for (int k = 0; k < 3; k++) {
        u[k] = p[1][k] - p[0][k];
        v[k] = p[2][k] - p[0][k];
    }
    return ct_normal_of(u, v);
}

/* True: they are on one side of a plane and more than two units away from it. size1: |normal|_1. */
CT_FN int ct_is_beyond(const ct_plane_sides *s, double size1) {
    const double margin = 4 * size1;
    return ct_is_one_sided(s) && fabs(s->value[0]) > margin && fabs(s->value[1]) > margin && fabs(s->value[2]) > margin;
}

/* 0: ct_near_growth is 0, as it is of most. No growth is above 2^44, as the lattice is not larger. */
CT_FN int ct_may_grow(double most, double own_size1, double its_size1) {
    return ct_is_wholly_near(most, its_size1) | (own_size1 < 0x1p45);
}

/* units^2: what of a triangle may be near the other one, at some moment of its corners' way to the lattice, beside
 * ct_near_area. See finish_k.h, "pairs of triangles". */
CT_FN double ct_near_growth(const double *const p[3], double most, double own_size1, double its_size1) {
    const double growth = ct_growth_of_normal(p);
    if (ct_is_wholly_near(most, its_size1)) return 20 * growth;
    return growth > CT_MOST_GROWTH * own_size1 ? ct_near_area(most, growth, its_size1) : 0;
}

/* The rest of ct_cross_pair, once sides are decided and edges measured. first: the triangle that comes first, to which
 * index 0 of sides and size belongs; moved_second: +1 if the other one's body is perturbed. */
CT_FN int ct_cross_sided(const double *const p[2][3], int first, int moved_second, const ct_plane_sides sides[2],
                         const double size[2], ct_edge_signs *edges, ct_triangle_share share[2], double *left_out,
                         int *has_ties) {
    ct_triangle_share found[2];
    ct_decide_edges(p[first], p[1 - first], &sides[0], &sides[1], moved_second, edges, has_ties);
    const int how = ct_finish_crossing(sides, edges, size, found, left_out);
    const double most[2] = {ct_largest_side(&sides[0]), ct_largest_side(&sides[1])};
    if (ct_may_grow(most[0], size[0], size[1]) || ct_may_grow(most[1], size[1], size[0]))
        *left_out += ct_near_growth(p[first], most[0], size[0], size[1]) +
                     ct_near_growth(p[1 - first], most[1], size[1], size[0]);
    if (how == CT_TRIANGLES_CROSS || how == CT_TRIANGLES_NEAR) {
        share[0] = found[first];
        share[1] = found[1 - first];
    }
    return how;
}

/* ct_cross_pair of triangles whose sides and edges are measured, but not decided. */
CT_FN int ct_cross_measured(const double *const p[2][3], int first, int moved_second, ct_plane_sides sides[2],
                            const double size[2], ct_edge_signs *edges, ct_triangle_share share[2], double *left_out,
                            int *has_ties) {
    int ties = 0;
    *left_out = 0;
    ct_decide_sides(p[first], p[1 - first], -moved_second, &sides[0], &ties);
    if (ct_is_beyond(&sides[0], size[1])) return CT_TRIANGLES_APART;
    ct_decide_sides(p[1 - first], p[first], moved_second, &sides[1], &ties);
    if (ct_is_beyond(&sides[1], size[0])) return CT_TRIANGLES_APART;
    const int how = ct_cross_sided(p, first, moved_second, sides, size, edges, share, left_out, &ties);
    *has_ties |= ties;
    return how;
}

/* The crossing of any two triangles of two bodies, or the lack of one: share[i] is that of triangle i if they cross or
 * are near. moved: +1 if triangle 1's body is perturbed, -1 if triangle 0's is. left_out: units^2, near areas that are
 * in no share. *has_ties is set where a sign is the perturbation's; not where it made no difference, so whether there
 * are ties depends on no order. */
CT_FN int ct_cross_pair(const double *const p[2][3], int moved, ct_triangle_share share[2], double *left_out,
                        int *has_ties) {
    const int first = ct_comes_first(p[0][0], p[1][0]) ? 0 : 1, second = 1 - first;
    const int moved_second = first == 0 ? moved : -moved;
    int ties = 0;
    ct_plane_sides sides[2];
    ct_edge_signs edges;
    const ct_normal normal_second = ct_normal_of_triangle(p[second]), normal_first = ct_normal_of_triangle(p[first]);
    const double size[2] = {ct_size1(&normal_first), ct_size1(&normal_second)};
    *left_out = 0;
    ct_find_sides(p[first], p[second], &normal_second, -moved_second, &sides[0], &ties);
    if (ct_is_beyond(&sides[0], size[1])) return CT_TRIANGLES_APART;
    ct_find_sides(p[second], p[first], &normal_first, moved_second, &sides[1], &ties);
    if (ct_is_beyond(&sides[1], size[0])) return CT_TRIANGLES_APART;
    ct_measure_edges(p[first], p[second], &edges);
    const int how = ct_cross_sided(p, first, moved_second, sides, size, &edges, share, left_out, &ties);
    *has_ties |= ties;
    return how;
}

/* Of a triangle that is not crossed, and of the edge's term for w at corner 1. */
CT_FN ct_integrals ct_whole_integrals(double w) {
    ct_integrals whole;
    whole.of[0] = w / 2;
    whole.of[1] = whole.of[2] = w / 6;
    whole.of[3] = whole.of[5] = w / 12;
    whole.of[4] = w / 24;
    return whole;
}

/* ---- once more, with its segment ---- */

/* For second derivatives and inertia. The pass that finds crossings stores most segments where a step wants these
 * (ct_crossing). For others its predicates are exact, so the same two triangles cross again, with the same ends. */

/* The segment in which two triangles cross, from the start of the first one's to its end. */
typedef struct ct_crossing_segment {
    double at[2][2]
             [2];      /* barycentric coordinates (lambda_1, lambda_2) of its ends: [end][of the first, of the other] */
    int8_t edge_of[2]; /* whose edge 1 -> 2 pierces at that end: 0 of the first, 1 of the other; -1: neither's */
} ct_crossing_segment;

/* The segment between the ends of a crossing. */
CT_FN void ct_keep_ends(const ct_crossing_ends *ends, ct_crossing_segment *segment) {
    for (int k = 0; k < 2; k++) {
        for (int t = 0; t < 2; t++)
            for (int i = 0; i < 2; i++) segment->at[k][t][i] = ends->end[k].at[t][i];
        segment->edge_of[k] = (int8_t)(ends->edge[k] == 1 ? ends->triangle[k] : -1);
    }
}

/* A crossing as triangle `own` of one body sees it; `other` is the other body's. */
typedef struct ct_recrossing {
    /* Barycentric coordinates (lambda_1, lambda_2) of the segment's start and end, directed with the inside of the
     * other body on its left: on triangle `own`, and the same points on `other`. */
    double own[2][2], other[2][2];
    double normal_own[3], normal_other[3]; /* units^2: cross products of two sides */
    /* 1 / units^3: the segment's length over |normal_own x normal_other|; 0 where the normals are parallel. */
    double spread;
    int n_jumps; /* of w along the edge 1 -> 2 of `own`, as in ct_add_edge */
    double jump_at[2];
    int jump[2];
} ct_recrossing;

/* As ct_cross3, in a form that gcc 12 makes faster code of here: 5 % of a step with products of the second derivative. */
CT_FN void ct_cross_product(const double *a, const double *b, double *out) {
    for (int k = 0; k < 3; k++) {
        const int i = (k + 1) % 3, j = (k + 2) % 3;
        out[k] = a[i] * b[j] - a[j] * b[i];
    }
}

/* Sets spread and normals. p: the triangle in which at[0], at[1] are the segment's start and end. */
CT_FN void ct_set_recrossing_normals(ct_recrossing *out, const double *const p[3], const double at[2][2],
                                     const ct_normal *own, const ct_normal *other) {
    double axis[3], along[3];
    ct_cross_product(own->of, other->of, axis);
    const double size = ct_dot3(axis, axis);
    for (int k = 0; k < 3; k++)
        along[k] = (at[1][0] - at[0][0]) * (p[1][k] - p[0][k]) + (at[1][1] - at[0][1]) * (p[2][k] - p[0][k]);
    out->spread = size > 0 ? ct_dot3(along, axis) / size : 0;
    for (int k = 0; k < 3; k++) {
        out->normal_own[k] = own->of[k];
        out->normal_other[k] = other->of[k];
    }
}

/* Sets all but spread and normals. mine: 0 for the first triangle, whose segment goes from end 0 to end 1; 1 for the
 * second, whose segment is the same, reversed. */
CT_FN void ct_see_segment(const ct_crossing_segment *segment, int mine, ct_recrossing *out) {
    out->n_jumps = 0;
    for (int k = 0; k < 2; k++) {
        const int from = mine ? 1 - k : k;
        for (int i = 0; i < 2; i++) {
            out->own[k][i] = segment->at[from][mine][i];
            out->other[k][i] = segment->at[from][1 - mine][i];
        }
        if (segment->edge_of[k] != mine) continue;
        out->jump_at[out->n_jumps] = segment->at[k][mine][1];
        out->jump[out->n_jumps++] = k == mine ? -1 : 1; /* an edge that goes in is the end of its triangle's segment */
    }
}

/* Sets spread and normals of ct_see_segment. own, other: the triangles. */
CT_FN void ct_see_normals(const double *const own[3], const double *const other[3], const ct_crossing_segment *segment,
                          int mine, ct_recrossing *out) {
    const double *const *p[2] = {mine ? other : own, mine ? own : other};
    const ct_normal normal[2] = {ct_normal_of_triangle(p[0]), ct_normal_of_triangle(p[1])};
    const double at[2][2] = {{segment->at[0][0][0], segment->at[0][0][1]},
                             {segment->at[1][0][0], segment->at[1][0][1]}};
    ct_set_recrossing_normals(out, p[0], at, &normal[0], &normal[1]);
    for (int k = 0; mine && k < 3; k++) {
        out->normal_own[k] = normal[1].of[k];
        out->normal_other[k] = normal[0].of[k];
    }
}

/* moved: +1 if the other body is perturbed, -1 if own's is. 0: they do not cross. */
CT_FN int ct_recross(const double *const own[3], const double *const other[3], int moved, ct_recrossing *out) {
    const int is_first = ct_comes_first(own[0], other[0]);
    const double *const *p[2] = {is_first ? own : other, is_first ? other : own};
    const int moved_second = is_first ? moved : -moved;
    const int mine = is_first ? 0 : 1;
    const ct_normal normal[2] = {ct_normal_of_triangle(p[0]), ct_normal_of_triangle(p[1])};
    ct_plane_sides sides[2];
    ct_edge_signs edges;
    ct_crossing_ends ends;
    int has_ties = 0;
    ct_find_sides(p[0], p[1], &normal[1], -moved_second, &sides[0], &has_ties);
    if (ct_is_one_sided(&sides[0])) return 0;
    ct_find_sides(p[1], p[0], &normal[0], moved_second, &sides[1], &has_ties);
    if (ct_is_one_sided(&sides[1])) return 0;
    ct_find_edge_signs(p[0], p[1], &sides[0], &sides[1], moved_second, &edges, &has_ties);
    if (ct_find_crossing_ends(sides, &edges, &ends) != CT_TRIANGLES_CROSS) return 0;

    ct_crossing_segment segment;
    ct_keep_ends(&ends, &segment);
    ct_see_segment(&segment, mine, out);
    ct_see_normals(own, other, &segment, mine, out);
    return 1;
}

#endif

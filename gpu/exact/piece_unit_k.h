/* piece_unit_k.h - what a search for pieces (pieces.h) needs of the coordinates of triangles that nothing crosses: the
 * volume under them, their extreme point, and those that face -x most, added up over a unit of a cluster. And where a
 * ray meets a triangle. Each sum has one order, so all backends find the same bits. */
#ifndef CT_EXACT_PIECE_UNIT_K_H
#define CT_EXACT_PIECE_UNIT_K_H

#include <string.h>

#include "gpu/exact/segment_k.h"

/* A part of a triangle that bounds a piece towards -x. */
typedef struct ct_piece_facing {
    double area;     /* units^2, seen along x; 0: none */
    double at[2];    /* its centroid, in barycentric coordinates */
    double point[3]; /* the same, units */
    uint32_t body, triangle;
} ct_piece_facing;

/* The largest parts of a piece. The centroid of one may lie outside it, or where the piece is thin. */
enum { CT_PIECE_FACINGS = 6 };

/* Takes a facing into a list of CT_PIECE_FACINGS by falling area; of equal ones the first stays first. */
CT_FN void ct_note_facing(ct_piece_facing *list, const ct_piece_facing *facing) {
    int at = CT_PIECE_FACINGS;
    while (at > 0 && list[at - 1].area < facing->area) at--;
    if (at == CT_PIECE_FACINGS) return;
    for (int i = CT_PIECE_FACINGS - 1; i > at; i--) list[i] = list[i - 1];
    list[at] = *facing;
}

/* The facing of a part with the integrals `of` of 1, x and y over it. False: it does not face -x. */
CT_FN int ct_make_facing(const double *const p[3], const double *of, uint32_t body, uint32_t triangle,
                         ct_piece_facing *out) {
    const double normal = (p[1][1] - p[0][1]) * (p[2][2] - p[0][2]) - (p[1][2] - p[0][2]) * (p[2][1] - p[0][1]);
    out->area = -normal * of[0];
    if (!(out->area > 0)) return 0;
    out->body = body;
    out->triangle = triangle;
    out->at[0] = of[1] / of[0];
    out->at[1] = of[2] / of[0];
    for (int k = 0; k < 3; k++)
        out->point[k] = p[0][k] + out->at[0] * (p[1][k] - p[0][k]) + out->at[1] * (p[2][k] - p[0][k]);
    return 1;
}

/* A triangle of which parts are measured. */
typedef struct ct_measured_triangle {
    const double *corner; /* 0 */
    double u[3], v[3];    /* from there to the others */
    ct_normal n;
} ct_measured_triangle;

CT_FN ct_measured_triangle ct_measure_triangle(const double *const p[3]) {
    ct_measured_triangle t;
    t.corner = p[0];
    for (int k = 0; k < 3; k++) {
        t.u[k] = p[1][k] - p[0][k];
        t.v[k] = p[2][k] - p[0][k];
    }
    t.n = ct_normal_of(t.u, t.v);
    return t;
}

/* The part of the volume, units^3, that the divergence theorem gives a part of a triangle. */
CT_FN double ct_volume_of_part(const ct_measured_triangle *t, const ct_integrals *w) {
    double sum = 0;
    for (int k = 0; k < 3; k++) sum += t->n.of[k] * (t->corner[k] * w->of[0] + t->u[k] * w->of[1] + t->v[k] * w->of[2]);
    return sum / 3;
}

/* Bounds the rounding of ct_volume_of_part, and of sums of many: a part of the sizes of its terms. */
CT_FN double ct_volume_slack(const ct_measured_triangle *t, const ct_integrals *w) {
    double size = 0;
    for (int k = 0; k < 3; k++)
        size += t->n.size[k] * (fabs(t->corner[k] * w->of[0]) + fabs(t->u[k] * w->of[1]) + fabs(t->v[k] * w->of[2]));
    return size * 0x1p-46;
}

/* A number that tells two parts of space apart that have the same volume: the integral of WEIGHT . x over it. The
 * divergence theorem makes it one over the boundary, of (WEIGHT . x)^2 / 2 along x. */
typedef struct ct_moment {
    double value, slack; /* units^4; slack: bounds its rounding */
} ct_moment;

/* Adds a part of a triangle. rounding: units^2, bounds that of the integrals times the triangle's area vector. */
CT_FN void ct_add_moment(ct_moment *sum, const double *const p[3], const ct_integrals *w, double rounding) {
    const double weight[3] = {1, 0.7320508075688772, 0.41421356237309515}; /* no ratio that lattices have */
    double u[3], v[3], g[3] = {0, 0, 0}, reach = 0;
    for (int k = 0; k < 3; k++) {
        u[k] = p[1][k] - p[0][k];
        v[k] = p[2][k] - p[0][k];
        g[0] += weight[k] * p[0][k];
        g[1] += weight[k] * u[k];
        g[2] += weight[k] * v[k];
        reach += fabs(p[0][k]) + fabs(u[k]) + fabs(v[k]); /* more than |WEIGHT . x| has of any part */
    }
    const ct_normal n = ct_normal_of(u, v);
    sum->value += n.of[0] / 2 *
                  (g[0] * g[0] * w->of[0] + 2 * g[0] * (g[1] * w->of[1] + g[2] * w->of[2]) + g[1] * g[1] * w->of[3] +
                   2 * g[1] * g[2] * w->of[4] + g[2] * g[2] * w->of[5]);
    sum->slack += reach * reach * (n.size[0] * 0x1p-44 * (fabs(w->of[0]) + 1) + rounding);
}

/* Keeps the point with the largest x, then y, then z. */
CT_FN void ct_note_extreme(double best[3], const double p[3]) {
    for (int k = 0; k < 3; k++) {
        if (p[k] < best[k]) return;
        if (p[k] > best[k]) break;
    }
    for (int k = 0; k < 3; k++) best[k] = p[k];
}

/* A unit of a cluster that nothing crosses. */
typedef struct ct_unit_summary {
    double volume, slack; /* units^3; slack: as ct_volume_slack bounds the volume's rounding */
    ct_moment moment;
    double extreme[3];
    ct_piece_facing facings[CT_PIECE_FACINGS];
} ct_unit_summary;

CT_FN void ct_begin_unit(ct_unit_summary *unit) {
    unit->volume = unit->slack = unit->moment.value = unit->moment.slack = 0;
    for (int k = 0; k < 3; k++) unit->extreme[k] = -INFINITY;
    memset(unit->facings, 0, sizeof unit->facings);
}

/* Adds a triangle of the unit, whose winding number is not 0; triangles in rising order. */
CT_FN void ct_add_to_unit(ct_unit_summary *unit, const double *const p[3], int32_t winding, uint32_t body,
                          uint32_t triangle) {
    const ct_integrals whole = ct_whole_integrals(winding);
    const ct_measured_triangle t = ct_measure_triangle(p);
    ct_piece_facing facing;
    unit->volume += ct_volume_of_part(&t, &whole);
    unit->slack += ct_volume_slack(&t, &whole);
    ct_add_moment(&unit->moment, p, &whole, 0);
    for (int k = 0; k < 3; k++) ct_note_extreme(unit->extreme, p[k]);
    if (ct_make_facing(p, whole.of, body, triangle, &facing)) ct_note_facing(unit->facings, &facing);
}

/* A triangle of a body that the line through a point along x meets. */
typedef struct ct_met_triangle {
    int body;
    uint32_t triangle;
    int leaves;   /* 1: the line leaves the body there, towards +x; 0: it enters */
    double at[2]; /* barycentric coordinates */
    double x;     /* units */
    double corner[3][3];
} ct_met_triangle;

/* Where the line through p along x meets a triangle. In doubles: which of two triangles it meets at their edge does not
 * matter, as both belong to one boundary. False: it does not. */
CT_FN int ct_meet_triangle(const double p[3], const double *const q[3], ct_met_triangle *hit) {
    double e[3], area = 0;
    for (int k = 0; k < 3; k++) {
        const double *a = q[k], *b = q[(k + 1) % 3];
        e[k] = (a[1] - p[1]) * (b[2] - p[2]) - (a[2] - p[2]) * (b[1] - p[1]);
        area += e[k];
    }
    if (area == 0) return 0; /* seen edge-on: its neighbours are met */
    for (int k = 0; k < 3; k++)
        if (!(e[k] / area >= -1e-12)) return 0;
    hit->leaves = area > 0;
    hit->at[0] = fmax(0.0, e[2] / area);
    hit->at[1] = fmax(0.0, e[0] / area);
    hit->x = q[0][0] + hit->at[0] * (q[1][0] - q[0][0]) + hit->at[1] * (q[2][0] - q[0][0]);
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < 3; i++) hit->corner[k][i] = q[k][i];
    return 1;
}

#endif

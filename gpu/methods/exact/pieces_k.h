/* pieces_k.h - what the CPU and devices share of the search for pieces of an intersection (pieces.h): what it needs of
 * triangles that nothing crosses, and what a device finds for the host to search. */
#ifndef CT_EXACT_PIECES_K_H
#define CT_EXACT_PIECES_K_H

#include <stdbool.h>
#include <string.h>

#include "gpu/include/contact.h"
#include "gpu/methods/exact/segment_k.h"

/* ---- units that nothing crosses ---- */

/* The volume under a unit's triangles, their extreme point, and those that face -x most, added up over a unit of a
 * cluster. And where a ray meets a triangle. Each sum has one order, so all backends find the same bits. */

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
    hit->at[0] = fmax(0.0, e[2] / area) + 0.0; /* never -0: processors differ in which of 0 and -0 is the larger */
    hit->at[1] = fmax(0.0, e[0] / area) + 0.0;
    hit->x = q[0][0] + hit->at[0] * (q[1][0] - q[0][0]) + hit->at[1] * (q[2][0] - q[0][0]);
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < 3; i++) hit->corner[k][i] = q[k][i];
    return 1;
}

/* ---- what a device finds ---- */

/* Of pairs whose crossings a device has found it copies to the host what the search for pieces (pieces.h) needs: each
 * crossing, the vertices and winding numbers of crossed clusters, and what each unit
 * inside that nothing crosses adds up to. All but the last is proportional to the curves in which the surfaces cross; a
 * unit is most of a cluster of CT_CLUSTER_TRIANGLES triangles, and takes some 70 bytes, with ties twice as much. The
 * host finds the pieces and splits each pair into as many; the device adds up each of them as it does a pair. */

/* A pair of bodies. Its sides, 2 p + k for body k of pair p, are numbered through the batch. */
typedef struct ct_found_pair {
    uint32_t body[2], step; /* as the batch numbers them */
    uint32_t has_ties, wants_patches, is_skipped;
    double rounding[2]; /* ct_lattice_pose */
} ct_found_pair;

/* A cluster with crossings. */
typedef struct ct_found_crossed {
    uint32_t side, cluster, slot, n_crossings;
    uint64_t first;         /* of its crossings, which rise in order of (triangle, other, passes) */
    uint64_t first_winding; /* [2][vertices], per pass; its points are from first_winding / 2 on */
    uint32_t n_in_pass[2];  /* crossings */
    double residual;        /* units: the most that a coordinate was moved to the lattice */
} ct_found_crossed;

typedef struct ct_found_crossing {
    uint32_t index;                    /* among the crossings of the batch, in the device's order */
    uint32_t other;                    /* the other body's triangle */
    uint8_t triangle, passes, crosses; /* triangle: in its cluster; passes: a bit for each; crosses: else it is near */
    signed char jump[3];
    uint8_t unused[2];
    double of[CT_INTEGRALS + 2]; /* integrals, near_area, rounding */
} ct_found_crossing;

/* A unit of a near cluster in a pass, if its winding number is not 0. */
typedef struct ct_found_unit {
    uint32_t side, slot, unit, pass;
    int32_t winding;
    uint32_t facings; /* 1 + index of the first facing; 0: the pair has one pass, or the cluster is crossed */
    double residual;  /* as in ct_found_crossed */
    ct_moment moment;
    double volume, slack,
        extreme[3]; /* and the moment: of ct_unit_summary; meaningless if the cluster is crossed in the pass */
} ct_found_unit;

typedef struct ct_found_batch {
    const ct_found_pair *pairs;
    ct_found_crossed *crossed; /* in any order */
    const ct_found_crossing *crossings;
    double (*points)[4]; /* units */
    int32_t *windings;
    ct_found_unit *units; /* in any order */
    const ct_piece_facing (*facings)[CT_PIECE_FACINGS];
    size_t n_pairs, n_crossed, n_units;
} ct_found_batch;

/* ---- what the host makes of it ---- */

/* A pair as it was found, or one of its pieces. */
typedef struct ct_split_pair {
    uint32_t pair;
    uint32_t is_piece, is_first; /* is_first: of the pieces of its pair */
    uint32_t n_slots[2], unused; /* of a piece */
    uint64_t first_slot[2];      /* among ct_split.slots */
    double moved_volume;         /* units^3, of a piece: see pieces_cpu.c */
} ct_split_pair;

/* A cluster's part of a piece, in both passes. */
typedef struct ct_split_slot {
    uint32_t slot, side; /* slot: of the whole cluster; side: 2 i + k for the split pair i */
    uint32_t crossed;    /* 1 + index among ct_split.crossed; 0: not crossed */
    uint32_t n_crossings;
    uint64_t units; /* among ct_split.windings: [2][units of the cluster], per pass */
} ct_split_slot;

typedef struct ct_split_crossed {
    uint32_t slot, passes;         /* slot: among ct_split.slots; passes: a bit for each in which it is crossed */
    uint64_t first, first_winding; /* among ct_split.keys and index; among windings: [2][vertices], per pass */
} ct_split_crossed;

typedef struct ct_split_list {
    void *data;
    size_t n, capacity; /* elements */
} ct_split_list;

typedef struct ct_split {
    ct_split_list pairs;    /* ct_split_pair, in the order of found pairs; pieces in no order that matters */
    ct_split_list slots;    /* ct_split_slot, a side's in rising order of clusters */
    ct_split_list crossed;  /* ct_split_crossed */
    ct_split_list keys;     /* uint64_t: triangle in its cluster << 34 | other << 2 | passes */
    ct_split_list index;    /* uint32_t: crossings by their ct_found_crossing.index, of the same order */
    ct_split_list windings; /* int32_t */
} ct_split;

#ifdef __cplusplus
extern "C" {
#endif

/* Triangles of body b of the pair that the ray from p along +x meets, as ct_piece_source.find_hits. */
typedef bool (*ct_find_hits_fn)(void *argument, int b, const double p[3], double far,
                                double (*report)(void *to, const ct_met_triangle *hit), void *to);

/* Sorts crossed clusters and units by side, and then as ct_split_found needs them. */
void ct_sort_found(ct_found_batch *found);

/* Appends the pieces of pair p to the lists, or the pair if it has at most one; pairs in rising order. The meshes have
 * their topology and adjacency. False: out of memory, or cancelled. */
bool ct_split_found(ct_split *split, const ct_found_batch *found, size_t p, ct_mesh *const meshes[2],
                    ct_find_hits_fn find_hits, void *argument);

void ct_split_free(ct_split *split);

/* The order of a pair's patches: larger ones first; of two equal ones the one whose centre has the smaller x, then y,
 * then z. So it depends on no numbering of bodies, vertices or triangles. Steps that want volumes alone have no
 * centres, and the bounds tell two equal ones apart. Below 0: x first. */
int ct_compare_patches(const ct_contact *x, const ct_contact *y);

#ifdef __cplusplus
}
#endif

#endif

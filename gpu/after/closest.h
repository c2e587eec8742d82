/* closest.h - the closest points of two parts of surfaces that do not cross, from the distances of their features:
 * corners, edges and faces. For separations. */
#ifndef CT_CLOSEST_H
#define CT_CLOSEST_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/base/vec.h"

typedef struct ct_closest {
    double squared;     /* m^2: of the distance */
    double point[2][3]; /* m: on the first and the second surface */
    double normal[3];   /* unit, away from the second's side; 0: only the points say it */
    bool is_on_face;    /* one of the points is a corner, the other is on a face, whose normal it is */
} ct_closest;

/* Distances below this part of the largest coordinate are 0: they cannot be told from rounding. */
#define CT_TOUCHING 1e-12

/* An edge from its smaller end: triangles that share it agree about it to the last bit. */
typedef struct ct_closest_edge {
    const double *from, *to;
    double along[3], squared;
} ct_closest_edge;

typedef struct ct_closest_face {
    const double *corner[3]; /* from the smallest, in the triangle's sense */
    double normal[3];        /* unit */
    bool has_normal;
} ct_closest_face;

ct_closest_edge ct_closest_edge_of(const double p[3], const double q[3]);
ct_closest_face ct_closest_face_of(const double p[3], const double q[3], const double r[3]);

enum { CT_PART_TRIANGLES = 16 };

/* Features of a few triangles. Boxes are in axes of the search, the same for both parts. */
typedef struct ct_closest_part {
    uint32_t n_corners, n_edges, n_faces;
    const double *corners[3 * CT_PART_TRIANGLES]; /* m, world */
    ct_closest_edge edges[3 * CT_PART_TRIANGLES];
    ct_closest_face faces[CT_PART_TRIANGLES];
    ct_box corner_boxes[3 * CT_PART_TRIANGLES], edge_boxes[3 * CT_PART_TRIANGLES], face_boxes[CT_PART_TRIANGLES];
    ct_box box; /* of them all */
} ct_closest_part;

typedef struct ct_closest_query {
    double toward[3];  /* of points that are as close, those whose normal is nearest to it count */
    double touching;   /* m: distances up to it are 0 */
    double error;      /* m: what a gap of boxes may be off by */
    ct_closest best;   /* so far */
    uint64_t compared; /* pairs of features */
} ct_closest_query;

/* Of what lies in two boxes, at most the square of its distance, m^2. */
static inline double ct_squared_gap(const ct_box *a, const ct_box *b, double error) {
    double squared = 0;
    for (int i = 0; i < 3; i++) {
        const double before = a->lo[i] - b->hi[i], behind = b->lo[i] - a->hi[i];
        const double gap = (before > behind ? before : behind) - error;
        squared += gap > 0 ? gap * gap : 0;
    }
    return squared * (1 - 1e-9); /* for rounding */
}

/* Lowers query->best to what the parts a and b have, if that is lower. Of equal distances the one whose normal is
 * nearest to `toward`, then that with the smaller points, then the smaller normal, so that the order of calls does
 * not matter. The same bits for
 * features that are listed in another order, and, mirrored, for b and a. Surfaces that cross have distance 0. */
void ct_closest_of_parts(const ct_closest_part *a, const ct_closest_part *b, ct_closest_query *query);

#endif

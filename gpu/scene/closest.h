/* closest.h - the closest points of two triangles that do not cross, from the distances of their features: corners,
 * edges and faces. For separations. */
#ifndef CT_CLOSEST_H
#define CT_CLOSEST_H

#include <stdbool.h>

typedef struct ct_closest {
    double squared;     /* m^2: of the distance */
    double point[2][3]; /* m: on the first and the second triangle */
    double normal[3];   /* unit, away from the second's side; 0: only the points say it */
    bool is_on_face;    /* one of the points is a corner, the other is on a face, whose normal it is */
} ct_closest;

/* Distances below this part of the largest coordinate are 0: they cannot be told from rounding. */
#define CT_TOUCHING 1e-12

/* Lowers *best to what the triangles a and b have, if that is lower. Of equal distances the one whose normal is nearest
 * to `toward`, then that with the smaller points, so that the order of calls does not matter. The same bits for
 * triangles whose corners are given in another order, and, mirrored, for b and a. Triangles that cross have distance 0.
 * touching: m, distances up to it are 0. */
void ct_closest_of_triangles(double (*const a)[3], double (*const b)[3], const double toward[3], double touching,
                             ct_closest *best);

#endif

/* point_places.h - where points of a contact may be, seen along its normal: few of its vertices, and where long edges of
 * one body pierce the other.
 *
 *      .___________________.      In each square of a small grid, the vertex of either body that is deepest in the other,
 *      |    |  .  |    |   |      of equal ones the outermost; in each of a few directions the outermost; and where edges
 *      |____|_____|_.__|___|      longer than a square pierce. Where vertices are dense, those that are left out are no
 *      |  . |     |    | . |      farther from one of these than a square is wide.
 *      |____|_____|____|___|
 */
#ifndef CT_POINT_PLACES_H
#define CT_POINT_PLACES_H

#include "gpu/after/point_lines.h"

typedef struct ct_point_place {
    double at[3]; /* m: u, v, w */
    double far;   /* m^2: of the distance from the window's middle */
    int side;     /* whose vertex; -1: where an edge pierces */
} ct_point_place;

/* Zero-initialise; free with ct_point_places_free. */
typedef struct ct_point_places {
    ct_point_place *all; /* [n] */
    size_t n, capacity;
    struct ct_point_edge *edges; /* memory of a search */
    size_t n_edges, edge_capacity;
} ct_point_places;

/* Lists the places, vertices first and the outermost of either, for at most this many points of a contact of this
 * depth, m: the same set in any order of bodies, vertices and triangles. False: out of memory, or cancelled. */
bool ct_point_places_find(ct_point_places *places, ct_point_lines *lines, double depth, size_t most);
void ct_point_places_free(ct_point_places *places);

#endif

/* hull.h - the convex hull of a surface that is not closed, for those who ask for it: ct_mesh_options.closing. */
#ifndef CT_HULL_H
#define CT_HULL_H

#include "gpu/mesh/soup.h"

/* Replaces the triangles by those of the convex hull of the vertices that they use, counter-clockwise seen from outside.
 * Vertices keep their number and order; those inside the hull, and of its faces all but what cuts them into triangles, are
 * used by none. Exact: which side of a plane a vertex lies on is decided without rounding, so no vertex is outside.
 * INVALID_MESH: they lie in a plane. NON_FINITE, LIMIT_EXCEEDED, OUT_OF_MEMORY. */
ct_status ct_take_hull(ct_soup *soup, ct_error *error);

/* ---- for hull.c, and for tests ---- */

/* The sign of (b - a) x (c - a) . (d - a): 1 where d is in front of the triangle a b c, on the side from which it is
 * counter-clockwise. */
int ct_side_of_plane(const float *a, const float *b, const float *c, const float *d);
bool ct_are_on_line(const float *a, const float *b, const float *c);

#endif

/* overlap.h - the volume that any two meshes share and its gradient, by brute force in extended precision: the
 * reference for the method `exact`, with which it has no formula in common.
 *
 * A closed surface's winding number is the signed sum of the tetrahedra from one apex to all of its triangles. So the
 * volume (the integral of both winding numbers' product) is a signed sum over all pairs of tetrahedra of the volume
 * that the two share, and the gradient one over all pairs of a triangle and a tetrahedron of the triangle's part inside
 * the tetrahedron. Nothing is decided by a sign, so coincident faces and other ties do no harm to the volume. The
 * gradient needs surfaces that do not coincide. O(triangles of one * triangles of the other).
 */
#ifndef OVERLAP_H
#define OVERLAP_H

#include "tests/scenes/shapes.h"

struct overlap {
    long double volume;  /* counted as often as the bodies overlap there */
    double *gradient[2]; /* [n_vertices][3] of either body; free() them with overlap_free. NULL: not asked for */
};

/* poses: 3x4, applied in extended precision; NULL: as they are. */
struct overlap overlap_find(const struct shape *const shapes[2], const double *const poses[2], int wants_gradient);
void overlap_free(struct overlap *overlap);

#endif

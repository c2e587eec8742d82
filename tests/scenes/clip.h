/* clip.h - the exact intersection of a mesh with the corner of a convex body, in closed form: the reference for sampled
 * volumes and gradients.
 *
 * The corner is an apex and up to three half-spaces whose planes pass through it. A mesh's triangles are clipped to
 * them; seen from the apex the planes themselves have no volume, so the clipped triangles alone give the volume of the
 * intersection, and their area vectors its gradient. The mesh must be closed; it need not be convex.
 */
#ifndef CLIP_H
#define CLIP_H

#include "tests/scenes/shapes.h"

struct corner {
    double apex[3];
    double normal[3][3]; /* inside is where (p - apex) . normal <= 0 */
    int n;               /* planes, 1 to 3 */
};

struct clipped {
    double volume;
    double wrench[6]; /* dV/d(translation of the mesh), dV/d(rotation about `about`) */
    double area;      /* of the mesh's surface inside the corner */
    double flat[3];   /* the same, projected along x, y, z */
    double *gradient; /* [n_vertices][3], dV/dx of the mesh's vertices; free() it */
};

/* The mesh is posed (NULL: not) before clipping. */
struct clipped clip(const struct shape *shape, const double pose[12], const struct corner *corner,
                    const double about[3]);

#endif

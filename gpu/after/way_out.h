/* way_out.h - the nearest way out of a body for another that is wholly inside it. For the law. */
#ifndef CT_WAY_OUT_H
#define CT_WAY_OUT_H

#include "gpu/after/surfaces.h"

/* The place of a rigid body's surface, which has a tree, that is nearest to a point; both in world axes, m. Of places as near
 * the first in order of the body's coordinates, whatever the order of triangles. Of no meaning where the work is cancelled. */
void ct_way_out(const ct_surface *surface, const double from[3], double place[3]);

#endif

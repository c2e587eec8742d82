/* hull.h - a box around a posed mesh in a microsecond, from its voxel tree. For the method VOXTREE, whose bodies need
 * no tighter one. */
#ifndef CT_VOXEL_HULL_H
#define CT_VOXEL_HULL_H

#include "gpu/base/box.h"
#include "gpu/voxtree/tree.h"

/* Fills tree->hull: corners of the boundary nodes of a level with at most 2^CT_VOXEL_HULL_LEVEL cubes along an axis,
 * without those that lie between two others along a short direction: a few hundred at most. Their convex hull is that
 * of the nodes, so it contains the mesh. False: out of memory, or cancelled. */
bool ct_voxel_find_hull(ct_voxel_tree *tree);

/* A box that contains the posed mesh: the smallest around the hull, wider than the mesh's own by less than two cubes of
 * the hull's level on each side. */
void ct_voxel_posed_box(const ct_voxel_tree *tree, const double pose[12], ct_box *box);

#endif

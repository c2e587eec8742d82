/* groups.h - groups of boundary nodes whose contacts are safe to average (Dingliana and O'Sullivan 2005, section 4.3).
 */
#ifndef CT_VOXEL_GROUPS_H
#define CT_VOXEL_GROUPS_H

#include "gpu/voxtree/tree.h"

enum { CT_MAX_VOXEL_GROUPS = 0xffff }; /* groups are numbered below it */

/* Gives the finest level's nodes their groups and sets tree->n_groups. A group is connected, over faces, edges and
 * corners of cubes, and its surface faces within 57 degrees of that of its first node, so that a box has six; where
 * that makes too many groups, within a wider angle. sizes: areas of the surface in each node, in faces of a cube.
 * False: out of memory, or cancelled. */
bool ct_voxel_grow_groups(ct_voxel_tree *tree, const double *sizes);

/* Gives a coarser node the group of its child with the longest area vector. False: cancelled. */
bool ct_voxel_inherit_groups(ct_voxel_tree *tree);

#endif

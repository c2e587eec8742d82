/* finish.h - from the sums of a pair of voxel trees to a contact and its points. */
#ifndef CT_VOXEL_FINISH_H
#define CT_VOXEL_FINISH_H

#include "gpu/methods/voxtree/pair.h"

/* Fills what follows from the answer: volumes, bounds, 6-vectors, normal, tangents, area, depth and centre, with bodies
 * 0 and 1 at these poses; the rest is left alone. False: the bodies have no contact. */
bool ct_voxel_finish_contact(const ct_voxel_pair *pair, const double *const poses[2], ct_contact *contact);

/* Reduces the primitives to one point for each pair of groups, with equation 10 and normals of meet_k.h, or equations 7
 * and 8 with plain_average, and writes those of most weight, in falling order. Weights are shares of the volume's
 * gradient, or of primitives. Returns how many: at most n. */
uint32_t ct_voxel_finish_points(const ct_voxel_pair *pair, const double *const poses[2], uint32_t n, ct_point *points);

/* All primitives of two bodies' trees at the level of the first one's cubes that a step came to, level[0], and the
 * second one's, level[1], as points for the caller to free; for pictures. Starts from the roots. False: out of memory.
 */
bool ct_voxel_list_primitives(const ct_voxel_tree *const trees[2], const double *const poses[2],
                              const ct_scene_settings *settings, const uint32_t level[2], ct_point **points,
                              uint32_t *n);

#endif

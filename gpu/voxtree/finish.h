/* finish.h - from the sums of a pair of voxel trees to a contact and its points. */
#ifndef CT_VOXEL_FINISH_H
#define CT_VOXEL_FINISH_H

#include "gpu/voxtree/pair.h"

/* Fills what follows from the answer: volumes, bounds, 6-vectors, normal, tangents, area, depth and centre, with bodies
 * 0 and 1 at these poses; the rest is left alone. False: the bodies have no contact. */
bool ct_voxel_finish_contact(const ct_voxel_pair *pair, const double *const poses[2], ct_contact *contact);

/* Reduces the primitives to one point for each pair of groups, with equations 9 and 10, or 7 and 8 where is_plain, and
 * writes the most probable ones, in falling order of weight. Returns how many: at most n. */
uint32_t ct_voxel_finish_points(const ct_voxel_pair *pair, const double *const poses[2], bool is_plain, uint32_t n,
                                ct_point *points);

#endif

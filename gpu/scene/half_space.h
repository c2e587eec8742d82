/* half_space.h - half-spaces as the engine keeps them: rigid bodies with a small mesh that stands for what is below
 * their plane, and which a method places wherever it needs it. */
#ifndef CT_HALF_SPACE_H
#define CT_HALF_SPACE_H

#include "gpu/scene/scene.h"

/* The box from (-1, -1, -1) to (1, 1, 0). The caller owns a reference. NULL: out of memory. */
ct_mesh *ct_half_space_mesh(ct_error *error);

/* The box of a half-space with this pose; -+ CT_ENDLESS where it has no end. */
void ct_half_space_box(const double pose[12], ct_box *box);

/* A block of the half-space, which stands for it wherever the box `other` is: the pose, scaled, that takes the mesh
 * there. Its top lies in the plane, unless `other` is far below it; its sides and its bottom are out of reach.
 * *rounding: m, bounds how far rounding moves it. False: the box lies above the plane. */
bool ct_half_space_block(const double pose[12], const ct_box *other, double block[12], double *rounding);

#endif

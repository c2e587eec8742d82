/* bodies.h - bodies whose state on their device is made anew, for what replaces meshes and resets scenes; and the bytes of
 * a scene's bodies. */
#ifndef CT_RUN_BODIES_H
#define CT_RUN_BODIES_H

#include "gpu/scene/scene.h"

/* *out is the body with this mesh, to which it gets no reference, at the pose, or at the mesh's positions if it is
 * deformable; its device has a state of its own for it. */
ct_status ct_body_anew(const ct_scene *scene, const ct_body *body, ct_mesh *mesh, const double pose[12], ct_body *out,
                       ct_error *error);

/* Adds what a body holds to the scene's sums, or takes it away: before its state is made anew, and after. */
void ct_scene_count_body(ct_scene *scene, const ct_body *body, bool comes);

#endif

/* bodies.h - a body whose state on its device is made anew, for what replaces meshes and resets scenes. */
#ifndef CT_RUN_BODIES_H
#define CT_RUN_BODIES_H

#include "gpu/scene/scene.h"

/* *out is the body with this mesh, to which it gets no reference, at the pose, or at the mesh's positions if it is
 * deformable; its device has a state of its own for it. */
ct_status ct_body_anew(const ct_scene *scene, const ct_body *body, ct_mesh *mesh, const double pose[12], ct_body *out,
                       ct_error *error);

#endif

/* law.h - the contact law "pressure": wrenches of contacts from bodies' materials and velocities. For the engine. */
#ifndef CT_LAW_H
#define CT_LAW_H

#include "gpu/scene/scene.h"

/* What a step of a scene with the law needs of the method, CT_WANT_...; 0 without the law. */
uint32_t ct_law_wants(const ct_step *step);

/* Adds ct_contact.wrench, extents, axes and friction to the result of a step with ct_law_wants, and replaces forces and
 * friction_forces, where they are wanted, by the law's. After slip. OUT_OF_MEMORY, DEVICE_ERROR. */
ct_status ct_result_add_law(ct_scene *scene, const ct_step *step, ct_result *result, ct_error *error);

#endif

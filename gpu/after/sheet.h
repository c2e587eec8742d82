/* sheet.h - the contact surface: polygons between the two bodies of a contact, with the depth at their corners, pressure,
 * traction and slip (ct_surface_polygon). For the engine: CT_WANT_SURFACE. */
#ifndef CT_SHEET_H
#define CT_SHEET_H

#include "gpu/scene/scene.h"

/* What a step that wants a surface needs of the method, CT_WANT_...; 0: it wants none. */
uint32_t ct_sheet_wants(const ct_step *step);

/* UNSUPPORTED: the scene has a body that may touch itself. */
ct_status ct_sheet_check(const ct_step *step, ct_error *error);

/* Adds polygons to the result of a step with ct_sheet_wants, after the law. LIMIT_EXCEEDED: more than CT_MAX_POLYGONS;
 * OUT_OF_MEMORY, DEVICE_ERROR. */
ct_status ct_result_add_sheet(ct_scene *scene, const ct_step *step, ct_result *result, ct_error *error);

#endif

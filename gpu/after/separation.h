/* separation.h - the distances of bodies that are near each other and have no contact (ct_separation). */
#ifndef CT_SEPARATION_H
#define CT_SEPARATION_H

#include "gpu/scene/scene.h"

/* Gives the result the separations of all pairs of bodies that it has no contact of and that are closer than
 * scene->settings.margin > 0. The device's threads search. compared, unless NULL: pairs of features (corners, edges,
 * faces) whose distance was looked at. OUT_OF_MEMORY, DEVICE_ERROR, CANCELLED; LIMIT_EXCEEDED: see
 * CT_MAX_SEPARATIONS. */
ct_status ct_result_add_separations(ct_scene *scene, ct_result *result, uint64_t *compared, ct_error *error);

#endif

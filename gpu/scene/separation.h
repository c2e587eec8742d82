/* separation.h - the distances of bodies that are near each other and have no contact (ct_separation). */
#ifndef CT_SEPARATION_H
#define CT_SEPARATION_H

#include "gpu/scene/scene.h"

/* Gives the result the separations of all pairs of bodies that it has no contact of and that are closer than
 * scene->settings.margin > 0. OUT_OF_MEMORY, DEVICE_ERROR, LIMIT_EXCEEDED (of the broad phase). */
ct_status ct_result_add_separations(ct_scene *scene, ct_result *result, ct_error *error);

#endif

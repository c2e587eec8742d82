/* warnings.h - which bodies of a scene are in a condition that a step's result warns of. For contact.c. */
#ifndef CT_WARNINGS_H
#define CT_WARNINGS_H

#include "gpu/scene/scene.h"

/* Finds the condition of every body that the step's updates name, whether or not the step went well; a backend has set
 * the bodies' volumes. */
void ct_scene_note_conditions(ct_scene *scene, const ct_update *updates, size_t n_updates);

/* Lists the warnings of the step's scene and of the step in its result. OUT_OF_MEMORY: the result is as it was. */
ct_status ct_step_list_warnings(const ct_step *step, ct_result *result, ct_error *error);

#endif

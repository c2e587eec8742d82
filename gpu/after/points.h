/* points.h - the points that stand for a contact, for engines that work with points (ct_point). For the methods that
 * give a gradient; VOXTREE has points of its own. */
#ifndef CT_POINTS_H
#define CT_POINTS_H

#include "gpu/scene/scene.h"

/* Gives every contact of the result at most `most` points. Contacts have frames and vertices.
 * visits, unless NULL: boxes of triangles, and of groups of them, that were compared with lines.
 * LIMIT_EXCEEDED: a contact has more cells than points can name; OUT_OF_MEMORY, DEVICE_ERROR. */
ct_status ct_result_add_points(ct_scene *scene, uint32_t most, ct_result *result, uint64_t *visits, ct_error *error);

#endif

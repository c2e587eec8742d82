/* exact.h - what other floors ask of the method `exact` before they choose it. */
#ifndef CT_EXACT_H
#define CT_EXACT_H

#include "gpu/base/box.h"
#include "gpu/include/contact.h"
#include "gpu/scene/half_space_k.h"
#include "gpu/scene/scene.h"

/* Refuses a pair that no lattice holds, which ct_place_pair has placed: the bodies' sizes are too far apart, or one is a
 * half-space whose plane is too far from its pose's origin. OUT_OF_RANGE, naming both extents, or the half-space's pose. */
ct_status ct_check_placement(const ct_pair_placement *placement, ct_error *error);

/* The same of two bodies, or of a body with itself. */
ct_status ct_exact_check_pair(const ct_body *const body[2], ct_error *error);

/* About how many triangles of both bodies are within the other's box. n_triangles: of both. */
double ct_exact_triangles(const ct_box *a, const ct_box *b, const uint32_t n_triangles[2]);

#endif

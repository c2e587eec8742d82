/* extents.h - refuses pairs of bodies that no lattice holds: their sizes are too far apart, or one is a half-space
 * whose plane is too far from its pose's origin. For the backends. */
#ifndef CT_EXACT_EXTENTS_H
#define CT_EXACT_EXTENTS_H

#include "gpu/base/box.h"
#include "gpu/include/contact.h"
#include "gpu/view/half_space_k.h"

/* OUT_OF_RANGE, naming both extents, or the half-space's pose. A pair that ct_place_pair has placed. */
ct_status ct_check_placement(const ct_pair_placement *placement, ct_error *error);

/* About how many triangles of both bodies are within the other's box. n_triangles: of both. */
double ct_exact_triangles(const ct_box *a, const ct_box *b, const uint32_t n_triangles[2]);

#endif

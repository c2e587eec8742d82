/* extents.h - refuses pairs of bodies whose sizes are too far apart for one lattice. For the backends. */
#ifndef CT_EXACT_EXTENTS_H
#define CT_EXACT_EXTENTS_H

#include "gpu/base/box.h"
#include "gpu/include/contact.h"

/* OUT_OF_RANGE, naming both extents. a, b: m, world. */
ct_status ct_check_extents(const ct_box *a, const ct_box *b, ct_error *error);

/* About how many triangles of both bodies are within the other's box. n_triangles: of both. */
double ct_exact_triangles(const ct_box *a, const ct_box *b, const uint32_t n_triangles[2]);

#endif

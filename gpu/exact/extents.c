/* extents.c - the error of a pair that no lattice holds. */
#include "gpu/exact/extents.h"

#include <math.h>

#include "gpu/base/fail.h"
#include "gpu/exact/lattice_k.h"

ct_status ct_check_placement(const ct_pair_placement *placement, ct_error *error) {
    const ct_box *a = &placement->box[0], *b = &placement->box[1];
    if (placement->is_too_far)
        return ct_fail(error, CT_OUT_OF_RANGE, "pose",
                       "the half-space's pose, or the other body, lies so far from the origin that doubles do not tell "
                       "how much of the body is below the plane: move the scene's origin near both, or give the "
                       "half-space a pose whose origin is a point of the plane near the body");
    if (ct_extents_fit(a, b)) return CT_OK;
    return ct_fail(error, CT_OUT_OF_RANGE, "method",
                   "they extend over %g m and %g m, more apart than the 40 bits of exact coordinates can hold: split "
                   "the larger mesh, or choose method \"ldi\"",
                   ct_extent_of(a), ct_extent_of(b));
}

double ct_exact_triangles(const ct_box *a, const ct_box *b, const uint32_t n_triangles[2]) {
    double triangles = 0;
    for (int i = 0; i < 2; i++) {
        const ct_box *own = i ? b : a, *other = i ? a : b;
        double part = 1;
        for (int k = 0; k < 3; k++) {
            const double size = own->hi[k] - own->lo[k];
            if (size > 0) part *= fmin(1, (fmin(own->hi[k], other->hi[k]) - fmax(own->lo[k], other->lo[k])) / size);
        }
        triangles += part * n_triangles[i];
    }
    return triangles;
}

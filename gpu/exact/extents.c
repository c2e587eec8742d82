/* extents.c - the error of a pair that does not fit the lattice. */
#include "gpu/exact/extents.h"

#include "gpu/base/fail.h"
#include "gpu/exact/lattice_k.h"

ct_status ct_check_extents(const ct_box *a, const ct_box *b, ct_error *error) {
    if (ct_extents_fit(a, b)) return CT_OK;
    return ct_fail(error, CT_OUT_OF_RANGE, "method",
                   "they extend over %g m and %g m, more apart than the 40 bits of exact coordinates can hold: split "
                   "the larger mesh, or choose method \"ldi\"",
                   ct_extent_of(a), ct_extent_of(b));
}

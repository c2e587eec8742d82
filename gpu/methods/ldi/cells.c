/* cells.c - the cells along a window's axes, and the errors that name them. */
#include "gpu/methods/ldi/cells.h"

#include "gpu/base/fail.h"

ct_status ct_plan_cell_axes(const ct_window *window, double size, ct_cell_axis axes[3], ct_error *error) {
    for (int k = 0; k < 3; k++) {
        const ct_lattice *lattice = &window->axis[k];
        double needed;
        switch (ct_plan_cells(lattice, size, &axes[k], &needed)) {
        case CT_CELLS_OK:
            break;
        case CT_CELLS_TOO_MANY:
            return ct_fail(error, CT_LIMIT_EXCEEDED, "cell_size",
                           "cells of %g m: %.0f lie along %c, where the boxes overlap over %g m, and at most %d are "
                           "allowed: use a larger cell_size",
                           size, needed, "xyz"[k], (lattice->hi - lattice->lo) * lattice -> unit, CT_MAX_CELLS_ALONG);
        case CT_CELLS_TOO_FAR:
            return ct_fail(error, CT_OUT_OF_RANGE, "cell_size",
                           "cells of %g m cannot be numbered at %c = %g m, 2^31 cells or more from the origin: use a "
                           "larger cell_size",
                           size, "xyz"[k], lattice -> origin);
        }
    }
    return CT_OK;
}

ct_status ct_fail_cells(const char *pair, double size, uint64_t needed, uint32_t max_cells, ct_error *error) {
    const uint64_t counted = (uint64_t)CT_CELLS_COUNTED * max_cells;
    const bool is_exact = needed <= counted;
    return ct_fail(error, CT_LIMIT_EXCEEDED, "cell_size",
                   "%s: cells of %g m, of which %s%llu hold volume, and a contact may have at most %u: use a larger "
                   "cell_size, or raise the limit (max_cells)",
                   pair, size, is_exact ? "" : "more than ", (unsigned long long)(is_exact ? needed : counted),
                   max_cells);
}

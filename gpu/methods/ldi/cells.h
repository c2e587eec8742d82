/* cells.h - plans the cells of a pair's contact (cells_k.h), and what a pair with too many of them is told; for every
 * backend. */
#ifndef CT_CELLS_H
#define CT_CELLS_H

#include "gpu/methods/ldi/cells_k.h"

/* Plans the cells, whose size is in m, of the three axes of a window, without their walls. LIMIT_EXCEEDED,
 * OUT_OF_RANGE: too many lie along an axis, or too far from the origin. */
ct_status ct_plan_cell_axes(const ct_window *window, double size, ct_cell_axis axes[3], ct_error *error);

/* The error of a contact of which `needed` cells hold volume, more than max_cells. `needed` is exact up to
 * CT_CELLS_COUNTED times the limit. pair: its bodies' names. Returns LIMIT_EXCEEDED. */
ct_status ct_fail_cells(const char *pair, double size, uint64_t needed, uint32_t max_cells, ct_error *error);

#endif

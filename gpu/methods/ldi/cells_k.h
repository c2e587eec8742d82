/* cells_k.h - the regular grid that divides a contact into cells (Allard 2010, section 5).
 *
 *        cell 0      cell 1      cell 2      cell 3
 *     |-----------|-----------|-----------|-----------|      along each axis a wall at every multiple of the cell's
 *   wall 0      wall 1      wall 2      wall 3      wall 4   size in the world, rounded to a lattice coordinate
 *
 * A lattice coordinate q lies in the cell with wall <= q < next wall: what lies on a wall belongs to the cell above it.
 * In the two axes across its rays a view has one cell for each ray, that of its sample; along the ray, the walls
 * between a span's two ends cut it. All three views use the same walls.
 *
 * A wall that cuts a span at depth W between its ends z- and z+ is W = alpha z+ + (1 - alpha) z- (equation 22), so the
 * wall's share of the gradient is alpha times that of the upper end and 1 - alpha times that of the lower one
 * (equation 23). It is added to the cell below the wall and subtracted from the cell above it, so cells sum to the
 * whole.
 */
#ifndef CT_CELLS_K_H
#define CT_CELLS_K_H

#include "gpu/include/contact.h"
#include "gpu/view/raster_k.h"
#include "gpu/view/view_k.h"

typedef struct ct_cell_axis {
    int32_t first;        /* number of cell 0 in the world: it begins at first times the cell's size */
    int32_t n;            /* cells, at most CT_MAX_CELLS_ALONG */
    double begin;         /* lattice coordinate, not rounded, at which cell 0 begins */
    double inverse;       /* cells per lattice unit */
    const int32_t *walls; /* [n + 1] lattice coordinates; the outermost two are those of all integers */
} ct_cell_axis;

typedef struct ct_cell_grid {
    ct_cell_axis axis[3];
    uint32_t max_cells; /* of a pair */
} ct_cell_grid;

/* Beyond the limit of cells, they are only counted, up to so many times the limit: for the error's message. */
enum { CT_CELLS_COUNTED = 16 };

/* Numbers of cells in the world are integers of 31 bits. */
#define CT_CELL_NUMBER_END 0x1p31

typedef enum ct_cells_status {
    CT_CELLS_OK,
    CT_CELLS_TOO_MANY, /* the window has more than CT_MAX_CELLS_ALONG cells along the axis */
    CT_CELLS_TOO_FAR,  /* the window is so far from the origin that numbers of cells do not fit */
} ct_cells_status;

/* Plans the cells of one axis of a window, without their walls. *needed: cells along it. */
CT_FN ct_cells_status ct_plan_cells(const ct_lattice *lattice, double size, ct_cell_axis *axis, double *needed) {
    /* The samples of a pixel lattice reach beyond the boxes' overlap, and depths up to its ends. */
    const double last_sample = ldexp((double)lattice->n, lattice->shift);
    const double lo = lattice->lo < 0 ? lattice->lo : 0, hi = fmax((double)lattice->hi, last_sample);
    const double first = floor((lattice->origin + lo * lattice->unit) / size);
    const double last = floor((lattice->origin + hi * lattice->unit) / size);
    *needed = last - first + 1;
    if (!(first >= -CT_CELL_NUMBER_END && last < CT_CELL_NUMBER_END)) return CT_CELLS_TOO_FAR;
    if (*needed > CT_MAX_CELLS_ALONG) return CT_CELLS_TOO_MANY;
    axis->first = (int32_t)first;
    axis->n = (int32_t)*needed;
    axis->begin = (first * size - lattice->origin) * lattice->scale;
    axis->inverse = 1 / (size * lattice->scale);
    axis->walls = 0;
    return CT_CELLS_OK;
}

/* Writes the axis's n + 1 walls, which the axis then has. */
CT_FN void ct_write_walls(const ct_lattice *lattice, double size, ct_cell_axis *axis, int32_t *walls) {
    walls[0] = INT32_MIN;
    for (int32_t i = 1; i < axis->n; i++)
        walls[i] = ct_snap(((double)axis->first + i) * size, lattice->origin, lattice->scale);
    walls[axis->n] = INT32_MAX;
    axis->walls = walls;
}

/* The cell, from 0, in which a lattice coordinate lies. */
CT_FN int32_t ct_cell_at(const ct_cell_axis *axis, int32_t q) {
    const double guess = (q - axis->begin) * axis->inverse;
    int32_t i = guess > 0 ? guess < axis->n ? (int32_t)guess : axis->n - 1 : 0;
    while (axis->walls[i] > q) i--;
    while (axis->walls[i + 1] <= q) i++;
    return i;
}

/* A cell of a grid as one number. Numbers rise with the cell's place along x, then y, then z. */
CT_FN uint64_t ct_cell_key(const int32_t cell[3]) {
    return ((uint64_t)cell[0] * CT_MAX_CELLS_ALONG + (uint64_t)cell[1]) * CT_MAX_CELLS_ALONG + (uint64_t)cell[2];
}

/* The numbers in the world of the cell with this key. */
CT_FN void ct_cell_numbers(const ct_cell_grid *grid, uint64_t key, int32_t number[3]) {
    for (int k = 2; k >= 0; k--) {
        number[k] = grid->axis[k].first + (int32_t)(key % CT_MAX_CELLS_ALONG);
        key /= CT_MAX_CELLS_ALONG;
    }
}

/* alpha of a wall between the ends of a span, lower < wall < upper, in units of CT_WEIGHT_ONE: 0 < alpha < 1 rounded to
 * an even number, so that half of it is exact where both bodies bound the span. */
CT_FN int64_t ct_wall_share(int32_t lower, int32_t upper, int32_t wall) {
    const int64_t length = (int64_t)upper - lower, from_lower = (int64_t)wall - lower;
    return 2 * ((from_lower * (CT_WEIGHT_ONE / 2) + length / 2) / length);
}

/* A weight times a share, both in units of CT_WEIGHT_ONE. Exact for shares of 0 and CT_WEIGHT_ONE. */
CT_FN int64_t ct_share_weight(int64_t weight, int64_t share) {
    return (weight * share) >> CT_WEIGHT_BITS;
}

#endif

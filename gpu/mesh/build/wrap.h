/* wrap.h - a closed surface around any triangles, for those who ask for it: ct_mesh_options.closing. */
#ifndef CT_WRAP_H
#define CT_WRAP_H

#include "gpu/mesh/soup.h"

/* Replaces vertices and triangles by those of a closed, oriented surface around them, in which every edge has two
 * triangles. resolution: m, the side of the grid's cubes; 0: CT_DEFAULT_WRAP of the diagonal of the box.
 *
 * What is inside: all that cannot be reached from afar without passing a triangle or a gap narrower than 3 resolutions.
 * The surface is on the triangles where there is an inside behind them, and CT_WRAP_OFFSET resolutions around those that
 * have none: sheets. *deviation, m: no point of it is further from the triangles; at most a tenth more than the furthest.
 * INVALID_MESH: all vertices at one point. OUT_OF_RANGE: float32 is too coarse for the resolution. NON_FINITE,
 * LIMIT_EXCEEDED, OUT_OF_MEMORY, CANCELLED. */
ct_status ct_take_wrap(ct_soup *soup, double resolution, double *deviation, ct_error *error);

#endif

/* wrap_surface.h - the surface of a wrap while it is made, in the lengths of its grid. For wrap.c. */
#ifndef CT_WRAP_SURFACE_H
#define CT_WRAP_SURFACE_H

#include "gpu/mesh/build/wrap_grid.h"

typedef struct ct_wrap_surface {
    double (*points)[3];
    size_t n_points, cap_points;
    uint32_t (*triangles)[3];
    size_t n_triangles, cap_triangles;
} ct_wrap_surface;

/* Where the grid's field is 0, in the six tetrahedra of each of its cubes: closed, oriented outwards, two triangles at each
 * edge, and nowhere through itself. False: out of memory, or cancelled. */
bool ct_march_wrap(const ct_wrap_grid *grid, ct_wrap_surface *surface);

/* Takes vertices out, as long as no part of the surface moves by more than `most`, edges keep their two triangles, and no
 * triangle turns by much. False: out of memory, or cancelled. */
bool ct_simplify_wrap(ct_wrap_surface *surface, double most);

void ct_free_wrap_surface(ct_wrap_surface *surface);

#endif

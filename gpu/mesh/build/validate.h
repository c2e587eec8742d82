/* validate.h - checks a surface before it becomes a mesh. Errors name the offending elements and the remedy. */
#ifndef CT_VALIDATE_H
#define CT_VALIDATE_H

#include "gpu/mesh/soup.h"

typedef struct ct_surface_facts {
    double volume, area, lo[3], hi[3], center_of_mass[3], inertia[3][3];
    uint32_t components, n_shells, n_doubled; /* see ct_mesh_info */
    size_t n_shared_edges;                    /* edges of more than two faces */
    uint32_t n_strays;                        /* vertices that no triangle uses; the box is without them */
} ct_surface_facts;

/* Checks that there are vertices and triangles, positions are finite, and indices are in range. INVALID_MESH,
 * NON_FINITE. */
ct_status ct_validate_elements(const float *positions, size_t n_vertices, const uint32_t *triangles, size_t n_triangles,
                               ct_error *error);

/* Checks that positions are finite, indices are in range, the surface is closed and manifold, its orientation is
 * consistent, its volume is positive, and no shell is inside out; fills *facts. O(n log n) for any input but shells in
 * shells, with 24 bytes of scratch per triangle and 8 per vertex, and 50 per triangle where a shell may be inside out.
 * INVALID_MESH, NON_FINITE, OUT_OF_MEMORY. */
ct_status ct_validate(const ct_soup *soup, ct_surface_facts *facts, ct_error *error);

#endif

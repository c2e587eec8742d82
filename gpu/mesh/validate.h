/* validate.h - the checks every mesh passes before it exists, with messages that name the offenders and the remedy. */
#ifndef CT_VALIDATE_H
#define CT_VALIDATE_H

#include "gpu/include/contact.h"

typedef struct ct_surface_facts {
    double volume, area, lo[3], hi[3];
    uint32_t components;
} ct_surface_facts;

/* Positions finite, indices in range, closed manifold edges, consistent orientation, positive volume; fills *facts.
 * O(n log n) for any input, with 12 bytes of scratch per triangle and 8 per vertex.
 * INVALID_MESH, NON_FINITE, OUT_OF_MEMORY. */
ct_status ct_validate(const float *positions, size_t n_vertices, const uint32_t *triangles, size_t n_triangles,
                      ct_surface_facts *facts, ct_error *error);

#endif

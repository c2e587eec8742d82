/* mesh.h - what a mesh is inside the engine: flat arrays, validated once, never changed. */
#ifndef CT_MESH_H
#define CT_MESH_H

#include <stdatomic.h>

#include "gpu/include/contact.h"

struct ct_mesh {
    atomic_uint references;
    uint32_t n_vertices;
    uint32_t n_triangles;
    uint32_t components;
    float *positions;    /* [n_vertices][3], m */
    uint32_t *triangles; /* [n_triangles][3], in the order of order.h; each rotated so that the corner with the
                            lexicographically smallest rest position comes first: what the sampler computes then does
                            not depend on the file's order */
    double volume, area, lo[3], hi[3];
    uint8_t hash[16]; /* of counts, positions and triangles as given, before ordering and rotation */
};

#endif

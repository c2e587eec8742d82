/* cut.h - cuts a mesh's triangles at the faces of a lattice of cubes and adds up, for each cube, the volume below its
 * pieces and their area: the finest level of a voxel tree. */
#ifndef CT_VOXEL_CUT_H
#define CT_VOXEL_CUT_H

#include "gpu/mesh/mesh.h"

/* Sums of a cube that some triangle reaches into. Lengths are in sides of the cube, so all are fractions of a cube or
 * of its face, in steps of 2^-CT_CUT_BITS: integer sums do not depend on the order of triangles. */
enum { CT_CUT_BITS = 38 };

typedef struct ct_cut_cube {
    int64_t below;     /* volume between the pieces and the cube's bottom, negative where the surface faces down */
    int64_t area[3];   /* outward area vector */
    int64_t moment[3]; /* area times its centre, from the cube's lowest corner */
    int64_t size;      /* area */
    uint32_t next;     /* in the same column: 1 + index, or 0 */
    uint16_t z;
} ct_cut_cube;

typedef struct ct_cut {
    ct_cut_cube *cubes; /* [n_cubes] */
    uint32_t *columns;  /* [n * n], x fastest: 1 + index of the column's first cube, or 0 */
    uint32_t n, n_cubes, capacity;
} ct_cut;

/* Cuts at n cubes of this size along each axis from origin on, which contain the mesh. Free it whatever the result.
 * LIMIT_EXCEEDED: more than max_cubes; OUT_OF_MEMORY. */
ct_status ct_cut_mesh(const ct_mesh *mesh, const double origin[3], double size, uint32_t n, uint32_t max_cubes,
                      ct_cut *cut);
void ct_cut_free(ct_cut *cut);

#endif

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
} ct_cut_cube;

/* Cubes of a column are found through runs of CT_CUT_RUN along z, which exist where some cube does. */
enum { CT_CUT_RUN = 16 };

typedef struct ct_cut {
    ct_cut_cube *cubes;            /* [n_cubes] */
    uint32_t *runs;                /* [n * n * n_runs], z fastest, then x: 1 + index of a run's places, or 0 */
    uint32_t (*place)[CT_CUT_RUN]; /* [n_places] 1 + index of each cube of a run, or 0 */
    uint32_t n, n_runs;            /* cubes and runs along an axis */
    uint32_t n_cubes, n_places;
    size_t cube_capacity, place_capacity;
    uint64_t n_pieces; /* that triangles were cut into */
} ct_cut;

/* About how many pieces the mesh's triangles are cut into at cubes of this size: cutting takes some 0.1 us for each. */
double ct_count_pieces(const ct_mesh *mesh, double size);

/* Cuts at n cubes of this size along each axis from origin on, which contain the mesh, in time that follows the pieces.
 * Free it whatever the result. LIMIT_EXCEEDED: more than max_cubes; OUT_OF_MEMORY, CANCELLED. */
ct_status ct_cut_mesh(const ct_mesh *mesh, const double origin[3], double size, uint32_t n, uint32_t max_cubes,
                      ct_cut *cut);
void ct_cut_free(ct_cut *cut);

/* The places of the cubes from CT_CUT_RUN * run along z on; NULL: none of them was cut. */
static inline const uint32_t *ct_cut_run(const ct_cut *cut, uint32_t x, uint32_t y, uint32_t run) {
    const uint32_t at = cut->runs[((size_t)y * cut->n + x) * cut->n_runs + run];
    return at ? cut->place[at - 1] : NULL;
}

#endif

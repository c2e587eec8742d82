/* meet_k.h - the contact primitives of a cube of the driver with the other body's cubes around its centre (Dingliana
 * and O'Sullivan 2005, sections 3.2 to 3.5).
 *
 * It computes one primitive for each lane of ct_lanes: a double, or a vector of doubles where the including file has
 * defined CT_VOXEL_LANES, that type and the functions below. Each lane gets the same bits in both ways. */
#ifndef CT_VOXEL_MEET_K_H
#define CT_VOXEL_MEET_K_H

#include <math.h>

#include "gpu/voxtree/descend_k.h"

#ifndef CT_VOXEL_LANES
typedef double ct_lanes;

CT_FN ct_lanes ct_lanes_sqrt(ct_lanes x) {
    return sqrt(x);
}
CT_FN ct_lanes ct_lanes_max(ct_lanes x, ct_lanes y) {
    return x > y ? x : y;
}
CT_FN ct_lanes ct_lanes_min(ct_lanes x, ct_lanes y) {
    return x < y ? x : y;
}
/* a where x is positive, else b. */
CT_FN ct_lanes ct_lanes_where_positive(ct_lanes x, ct_lanes a, ct_lanes b) {
    return x > 0 ? a : b;
}
#endif

/* Primitives, in steps of fixed point that are not rounded yet. */
typedef struct ct_voxel_met {
    ct_lanes probability; /* equation 1, in steps of 2^-CT_VOXEL_WEIGHT_BITS; 0 where there is no primitive */
    /* In steps of 2^-CT_VOXEL_VECTOR_BITS: */
    ct_lanes normal[3]; /* pushes the driver out */
    ct_lanes point[3];  /* of the other's root, from its lowest corner */
    ct_lanes depth;     /* d_K, equation 4, of the sum of the radii */
} ct_voxel_met;

/* The cube has its centre at around->from, this occupancy, and this area vector in faces of the other's cubes. The
 * other cubes lie at offset[] (0 or 1) from around->base. */
CT_FN void ct_voxel_meet(const ct_voxel_geometry *g, const ct_voxel_around *around, double occupancy,
                         const double facing[3], const ct_lanes offset[3], ct_lanes other_occupancy,
                         const ct_lanes other_area[3], ct_voxel_met *out) {
    const double steps = (double)(1 << CT_VOXEL_VECTOR_BITS), most = (double)(1 << CT_VOXEL_WEIGHT_BITS);
    ct_lanes line[3], normal[3]; /* line: from the other's centre to the driver's */
    for (int k = 0; k < 3; k++) {
        line[k] = around->from[k] - offset[k];
        normal[k] = other_area[k] - facing[k]; /* equation 6 */
    }
    const ct_lanes distance = ct_lanes_sqrt(line[0] * line[0] + line[1] * line[1] + line[2] * line[2]);
    const ct_lanes zero = distance * 0, overlap = ct_lanes_max(g->radii - distance, zero);
    const ct_lanes kappa = ct_lanes_min(overlap * g->inverse_scale, zero + 1); /* equation 5 */
    ct_lanes length = ct_lanes_sqrt(normal[0] * normal[0] + normal[1] * normal[1] + normal[2] * normal[2]);
    if (g->has_center_normals) { /* but two centres in one place have no line */
        for (int k = 0; k < 3; k++) normal[k] = ct_lanes_where_positive(distance, line[k], normal[k]);
        length = ct_lanes_where_positive(distance, distance, length);
    }
    const ct_lanes probability = kappa * (other_occupancy * (occupancy * most));
    out->probability = ct_lanes_where_positive(length, probability, zero);
    const ct_lanes inverse = steps / ct_lanes_where_positive(length, length, zero + 1);
    for (int k = 0; k < 3; k++) {
        out->normal[k] = normal[k] * inverse;
        out->point[k] = (around->from[k] + around->center[k] - line[k] * g->along) * (g->other_cube * steps);
    }
    out->depth = overlap * (steps / g->radii);
}

#endif

/* meet_k.h - the contact primitives of a cube of the driver with the other body's cubes around its centre (Dingliana
 * and O'Sullivan 2005, sections 3.2 to 3.5).
 *
 * The shared volume is the integral of the product of both occupancies, of which P of equation 1 is a cell. When the
 * driver moves, its gradient is half of the integral of
 *
 *     occupancy_driver x gradient(occupancy_other) - occupancy_other x gradient(occupancy_driver).
 *
 * Minus the gradient of an occupancy is a cube's area vector (equation 6 without differences). So in a weighted average
 * a primitive's normal is not of length 1: it is both cubes' area vectors, each times the probability that the other
 * cube is where that surface has its centre, which is kappa of equation 5 from there, times the other's occupancy. Area
 * vectors are in faces of the driver; the other's count with the part of a cube's length that one of the driver is.
 * Normals along the centres are P times a unit vector, as in equation 9. Settled cubes add their area vectors alone.
 *
 * Plain averages have unit vectors (equation 8), of which the gradient's is that of the difference of area vectors
 * (equation 6), and no settled cubes.
 *
 * It computes one primitive for each lane of ct_lanes: a double, or a vector of doubles where the including file has
 * defined CT_VOXEL_LANES, that type and the functions below. Each lane gets the same bits in both ways. */
#ifndef CT_VOXEL_MEET_K_H
#define CT_VOXEL_MEET_K_H

#include <math.h>

#include "gpu/methods/voxtree/descend_k.h"

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

/* The driver's cubes of the primitives, in the other's axes and cubes. */
typedef struct ct_voxel_drivers {
    ct_lanes line[3];   /* from the other's centre to the driver's */
    ct_lanes center[3]; /* from the corner of the other's root; not for ct_voxel_weigh */
    ct_lanes occupancy;
    ct_lanes area[3], arm[3]; /* as in ct_voxel_side; not for ct_voxel_weigh */
} ct_voxel_drivers;

/* The other's cubes of the primitives. */
typedef struct ct_voxel_others {
    ct_lanes occupancy;
    ct_lanes area[3]; /* vector of the surface, in faces */
    ct_lanes arm[3];  /* from the centre to the surface's, in cubes */
} ct_voxel_others;

/* Primitives; what is in steps of fixed point is not rounded yet. */
typedef struct ct_voxel_met {
    ct_lanes distance, overlap; /* of the centres; d_K, equation 4; in the other's cubes */
    ct_lanes probability;       /* equation 1, in steps of 2^-CT_VOXEL_WEIGHT_BITS */
    ct_lanes normal[3];         /* pushes the driver out; in steps of geometry.normal_steps */
    /* In steps of 2^-CT_VOXEL_VECTOR_BITS: */
    ct_lanes point[3]; /* of the other's root, from its lowest corner */
    ct_lanes depth;    /* d_K, of the sum of the radii */
} ct_voxel_met;

CT_FN ct_lanes ct_voxel_length(const ct_lanes v[3]) {
    return ct_lanes_sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
}

/* Equation 5. */
CT_FN ct_lanes ct_voxel_kappa(const ct_voxel_geometry *g, ct_lanes overlap) {
    return ct_lanes_min(overlap * g->inverse_scale, overlap * 0 + 1);
}

CT_FN ct_lanes ct_voxel_overlap(const ct_voxel_geometry *g, ct_lanes distance) {
    return ct_lanes_max(g->radii - distance, distance * 0);
}

/* Equations 1 to 5: the distance of the centres and the probability. */
CT_FN void ct_voxel_weigh(const ct_voxel_geometry *g, const ct_voxel_drivers *driver, const ct_voxel_others *other,
                          ct_voxel_met *out) {
    const double most = (double)(1 << CT_VOXEL_WEIGHT_BITS);
    out->distance = ct_voxel_length(driver->line);
    out->overlap = ct_voxel_overlap(g, out->distance);
    out->probability = ct_voxel_kappa(g, out->overlap) * (other->occupancy * (driver->occupancy * most));
}

/* Equation 6, or the line of centres, as unit vectors. Without either there is no primitive: its probability is 0. */
CT_FN void ct_voxel_find_unit_normal(const ct_voxel_geometry *g, const ct_voxel_drivers *driver,
                                     const ct_voxel_others *other, ct_voxel_met *out) {
    for (int k = 0; k < 3; k++) out->normal[k] = other->area[k] * g->other_facing - driver->area[k];
    ct_lanes length = ct_voxel_length(out->normal);
    const ct_lanes zero = length * 0;
    if (g->has_center_normals) { /* but two centres in one place have no line */
        for (int k = 0; k < 3; k++)
            out->normal[k] = ct_lanes_where_positive(out->distance, driver->line[k], out->normal[k]);
        length = ct_lanes_where_positive(out->distance, out->distance, length);
    }
    out->probability = ct_lanes_where_positive(length, out->probability, zero);
    const ct_lanes inverse = g->normal_steps / ct_lanes_where_positive(length, length, zero + 1);
    for (int k = 0; k < 3; k++) out->normal[k] = out->normal[k] * inverse;
}

/* What the primitive adds to the gradient of the shared volume; see above. */
CT_FN void ct_voxel_find_normal(const ct_voxel_geometry *g, const ct_voxel_drivers *driver,
                                const ct_voxel_others *other, ct_voxel_met *out) {
    ct_lanes to_driver[3], to_other[3];
    for (int k = 0; k < 3; k++) {
        to_driver[k] = driver->line[k] + driver->arm[k];
        to_other[k] = driver->line[k] - other->arm[k];
    }
    const ct_lanes reach = ct_voxel_kappa(g, ct_voxel_overlap(g, ct_voxel_length(to_driver)));
    const ct_lanes other_reach = ct_voxel_kappa(g, ct_voxel_overlap(g, ct_voxel_length(to_other)));
    const ct_lanes w = reach * (other->occupancy * g->normal_steps);
    const ct_lanes other_w = other_reach * (driver->occupancy * (g->other_facing * g->normal_steps));
    for (int k = 0; k < 3; k++) out->normal[k] = other_w * other->area[k] - w * driver->area[k];
    if (!g->has_center_normals) return;
    const ct_lanes zero = w * 0, steps = out->probability * (g->normal_steps / (1 << CT_VOXEL_WEIGHT_BITS));
    const ct_lanes inverse = steps / ct_lanes_where_positive(out->distance, out->distance, zero + 1);
    for (int k = 0; k < 3; k++)
        out->normal[k] = ct_lanes_where_positive(out->distance, driver->line[k] * inverse, out->normal[k]);
}

/* Completes primitives that have been weighed. */
CT_FN void ct_voxel_meet(const ct_voxel_geometry *g, const ct_voxel_drivers *driver, const ct_voxel_others *other,
                         ct_voxel_met *out) {
    const double steps = (double)(1 << CT_VOXEL_VECTOR_BITS);
    if (g->has_plain_average)
        ct_voxel_find_unit_normal(g, driver, other, out);
    else
        ct_voxel_find_normal(g, driver, other, out);
    for (int k = 0; k < 3; k++)
        out->point[k] = (driver->center[k] - driver->line[k] * g->along) * (g->other_cube * steps);
    out->depth = out->overlap * (steps / g->radii);
}

#endif

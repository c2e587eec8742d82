/* split.h - coordinates in double precision, kept as origin + high + low.
 *
 * All methods read `high`, which is float32; where float32 holds all coordinates as they were given, the origin is 0 and
 * there is no `low`, and nothing differs from a mesh or a body that came in float32. Else
 *   - the origin, near the middle of the body, is subtracted in double precision if float32 would be coarser about the
 *     world's origin than about this one. The body's pose takes it back, so the methods see a body with coordinates as
 *     small as itself, wherever it lies;
 *   - `low` is what float32 leaves of the rest, of 24 more bits. `exact` on the CPU reads it. What neither holds is
 *     CT_SPLIT_ROUNDING of a coordinate at most, where `low` is not read CT_HIGH_ROUNDING. */
#ifndef CT_SPLIT_H
#define CT_SPLIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "gpu/include/contact.h"
#include "gpu/mesh/split_k.h"

static inline double ct_load_double(const void *from, size_t i) {
    double x;
    memcpy(&x, (const char *)from + 8 * i, sizeof x);
    return x;
}

/* x - origin as high + low. */
static inline void ct_split_double(double x, float *high, float *low) {
    *high = (float)x;
    *low = (float)(x - (double)*high);
    const double sum = (double)*high + (double)*low; /* near the middle of two floats `low` may round to the middle */
    *high = (float)sum;
    *low = (float)(sum - (double)*high);
}

static inline void ct_split_row(const double x[3], const double origin[3], float high[3], float low[3]) {
    for (int k = 0; k < 3; k++) ct_split_double(x[k] - origin[k], high + k, low + k);
}

/* What the positions of a mesh count from, m. */
const double *ct_mesh_origin(const ct_mesh *mesh);

/* Whether float32 holds these n doubles, which need not be aligned. Cancelled: true. */
bool ct_are_floats(const void *doubles, size_t n, double scale);

/* The origin to subtract from these [n][3] doubles times scale, or from those with these bounds. */
void ct_choose_split_origin(const void *doubles, size_t n, double scale, double origin[3]);
void ct_choose_box_origin(const double lo[3], const double hi[3], double origin[3]);

/* How far from orthonormal the columns of a pose's R may be, that of a rotation and what many products have made of it. */
#define CT_POSE_OFF 1e-3

/* The pose of high + low of a body whose given coordinates, origin + high + low, have this one. Its R is the nearest
 * rotation. */
void ct_pose_from_origin(const double given[12], const double origin[3], double pose[12]);

#endif

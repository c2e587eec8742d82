/* quaternion.h - poses as a translation and a quaternion x y z w, for the HTTP API and contactctl; the Python client's
 * _arrays.py does the same. */
#ifndef CONTACTD_QUATERNION_H
#define CONTACTD_QUATERNION_H

#include <math.h>
#include <stdbool.h>

enum { WIRE_QUATERNION_POSE = 7 };

/* p: a translation, m, then the quaternion, which is scaled to length 1. out: [R|t], row-major. *length: the quaternion's, as
 * given. False, with nothing written: that is not within 10^-3 of 1. */
static inline bool wire_pose_of_quaternion(const double p[WIRE_QUATERNION_POSE], double out[12], double *length) {
    const double size = sqrt(p[3] * p[3] + p[4] * p[4] + p[5] * p[5] + p[6] * p[6]);
    *length = size;
    if (!(fabs(size - 1) < 1e-3)) return false;
    const double x = p[3] / size, y = p[4] / size, z = p[5] / size, w = p[6] / size;
    const double rows[3][4] = {
        {1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w), p[0]},
        {2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w), p[1]},
        {2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y), p[2]},
    };
    for (int k = 0; k < 12; k++) out[k] = rows[k / 4][k % 4];
    return true;
}

#endif

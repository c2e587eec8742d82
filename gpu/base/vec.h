/* vec.h - vectors, boxes and poses in three dimensions, in double precision, for C and for kernels (kernel.h). Each
 * operation is done component by component in the order x, y, z, and sums begin with x: so every caller, on every
 * backend, gets the same bits. A pose is [R|t], row-major 3x4: p_world = R p + t. */
#ifndef CT_VEC_H
#define CT_VEC_H

#include <math.h>

#include "gpu/base/box.h"
#include "gpu/base/kernel.h"

/* ---- vectors ---- */

typedef struct ct_vec3 {
    double x, y, z;
} ct_vec3;

CT_FN ct_vec3 ct_vec3_make(double x, double y, double z) {
    ct_vec3 v;
    v.x = x, v.y = y, v.z = z;
    return v;
}

CT_FN ct_vec3 ct_vec3_of(const double p[3]) {
    return ct_vec3_make(p[0], p[1], p[2]);
}

CT_FN void ct_vec3_put(double out[3], ct_vec3 v) {
    out[0] = v.x, out[1] = v.y, out[2] = v.z;
}

CT_FN ct_vec3 ct_vec3_add(ct_vec3 a, ct_vec3 b) {
    return ct_vec3_make(a.x + b.x, a.y + b.y, a.z + b.z);
}

CT_FN double ct_vec3_dot(ct_vec3 a, ct_vec3 b) {
    return a.x * b.x + a.y * b.y + a.z * b.z;
}

CT_FN ct_vec3 ct_vec3_cross(ct_vec3 a, ct_vec3 b) {
    return ct_vec3_make(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x);
}

/* The length of (x, y, z), however large or small. Not the C library's hypot, whose last bits differ between versions
 * of glibc, and whose newest version a program that calls it would need. */
CT_FN double ct_length(double x, double y, double z) {
    const double most = fmax(fmax(fabs(x), fabs(y)), fabs(z));
    if (!(most > 0 && most < INFINITY)) return most;
    x /= most, y /= most, z /= most;
    return most * sqrt(x * x + y * y + z * z);
}

/* ---- of arrays, as structs and meshes hold them; out may be an operand ---- */

CT_FN double ct_dot3(const double a[3], const double b[3]) {
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

CT_FN void ct_sub3(const double a[3], const double b[3], double out[3]) {
    for (int k = 0; k < 3; k++) out[k] = a[k] - b[k];
}

CT_FN void ct_cross3(const double a[3], const double b[3], double out[3]) {
    ct_vec3_put(out, ct_vec3_cross(ct_vec3_of(a), ct_vec3_of(b)));
}

/* ---- poses ---- */

CT_FN ct_vec3 ct_pose_origin(const double pose[12]) {
    return ct_vec3_make(pose[3], pose[7], pose[11]);
}

/* R v */
CT_FN ct_vec3 ct_pose_turn(const double pose[12], ct_vec3 v) {
    return ct_vec3_make(pose[0] * v.x + pose[1] * v.y + pose[2] * v.z, pose[4] * v.x + pose[5] * v.y + pose[6] * v.z,
                        pose[8] * v.x + pose[9] * v.y + pose[10] * v.z);
}

/* ---- boxes ---- */

/* The box of no point: joining it with a point or a box gives these. */
CT_FN ct_box ct_box_none(void) {
    ct_box box;
    for (int k = 0; k < 3; k++) box.lo[k] = INFINITY, box.hi[k] = -INFINITY;
    return box;
}

CT_FN void ct_box_add_point(ct_box *box, const double p[3]) {
    for (int k = 0; k < 3; k++) {
        box->lo[k] = ct_lesser(p[k], box->lo[k]);
        box->hi[k] = ct_greater(p[k], box->hi[k]);
    }
}

CT_FN void ct_box_add_box(ct_box *box, const ct_box *other) {
    for (int k = 0; k < 3; k++) {
        box->lo[k] = ct_lesser(other->lo[k], box->lo[k]);
        box->hi[k] = ct_greater(other->hi[k], box->hi[k]);
    }
}

#endif

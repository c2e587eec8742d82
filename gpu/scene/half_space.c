/* half_space.c - the pose, the box and the stand-in of a half-space. */
#include "gpu/scene/half_space.h"

#include <math.h>

#include "gpu/base/fail.h"

ct_status ct_plane_pose(const double normal[3], double offset, double pose[12], ct_error *error) {
    for (int k = 0; k < 3; k++)
        if (!isfinite(normal[k]))
            return ct_fail(error, CT_NON_FINITE, "normal", "the normal's %c is %g", "xyz"[k], normal[k]);
    if (!isfinite(offset)) return ct_fail(error, CT_NON_FINITE, "offset", "the offset is %g", offset);
    const double largest = fmax(fabs(normal[0]), fmax(fabs(normal[1]), fabs(normal[2])));
    if (!(largest >= 1e-150 && largest <= 1e150))
        return ct_fail(error, CT_OUT_OF_RANGE, "normal",
                       "the normal is %g %g %g, expected a length from 1e-150 to 1e150", normal[0], normal[1],
                       normal[2]);
    double n[3], u[3], v[3];
    const double length = sqrt(normal[0] * normal[0] + normal[1] * normal[1] + normal[2] * normal[2]);
    int least = 0;
    for (int k = 0; k < 3; k++) {
        n[k] = normal[k] / length;
        if (fabs(n[k]) < fabs(n[least])) least = k;
    }
    /* Two axes along the plane; axes of the world if n is one. */
    const int i = (least + 1) % 3, j = (least + 2) % 3;
    const double across = sqrt(n[i] * n[i] + n[j] * n[j]);
    u[least] = 0;
    u[i] = n[j] / across;
    u[j] = -n[i] / across;
    for (int k = 0; k < 3; k++) v[k] = n[(k + 1) % 3] * u[(k + 2) % 3] - n[(k + 2) % 3] * u[(k + 1) % 3];
    for (int k = 0; k < 3; k++) {
        pose[4 * k] = u[k];
        pose[4 * k + 1] = v[k];
        pose[4 * k + 2] = n[k];
        pose[4 * k + 3] = n[k] * offset;
    }
    return CT_OK;
}

ct_mesh *ct_half_space_mesh(ct_error *error) {
    static const float positions[8][3] = {{-1, -1, -1}, {1, -1, -1}, {-1, 1, -1}, {1, 1, -1},
                                          {-1, -1, 0},  {1, -1, 0},  {-1, 1, 0},  {1, 1, 0}};
    static const uint32_t triangles[12][3] = {{0, 3, 1}, {0, 2, 3}, {4, 5, 7}, {4, 7, 6}, {0, 1, 5}, {0, 5, 4},
                                              {2, 7, 3}, {2, 6, 7}, {0, 4, 6}, {0, 6, 2}, {1, 3, 7}, {1, 7, 5}};
    ct_mesh *mesh = NULL;
    return ct_mesh_create(positions, CT_F32, 8, triangles, 12, NULL, &mesh, error) ? NULL : mesh;
}

void ct_half_space_box(const double pose[12], ct_box *box) {
    const double n[3] = {pose[2], pose[6], pose[10]};
    for (int k = 0; k < 3; k++) {
        box->lo[k] = -CT_ENDLESS;
        box->hi[k] = CT_ENDLESS;
        if (n[(k + 1) % 3] != 0 || n[(k + 2) % 3] != 0 || pose[4 * k] != 0 || pose[4 * k + 1] != 0) continue;
        if (n[k] > 0) /* the plane is perpendicular to this axis */
            box->hi[k] = pose[4 * k + 3];
        else
            box->lo[k] = pose[4 * k + 3];
    }
}

/* Solves R x = p for the R of a pose, which is a rotation to 1e-3 only. */
static void solve(const double pose[12], const double p[3], double x[3]) {
    double c[3][3], cross[3][3], det = 0; /* columns */
    for (int j = 0; j < 3; j++)
        for (int k = 0; k < 3; k++) c[j][k] = pose[4 * k + j];
    for (int j = 0; j < 3; j++)
        for (int k = 0; k < 3; k++) {
            const double *a = c[(j + 1) % 3], *b = c[(j + 2) % 3];
            cross[j][k] = a[(k + 1) % 3] * b[(k + 2) % 3] - a[(k + 2) % 3] * b[(k + 1) % 3];
        }
    for (int k = 0; k < 3; k++) det += c[0][k] * cross[0][k];
    for (int j = 0; j < 3; j++) x[j] = (cross[j][0] * p[0] + cross[j][1] * p[1] + cross[j][2] * p[2]) / det;
}

bool ct_half_space_block(const double pose[12], const ct_box *other, double block[12], double *rounding) {
    double middle[3], at[3], size = 0;
    for (int k = 0; k < 3; k++) {
        middle[k] = 0.5 * (other->lo[k] + other->hi[k]) - pose[4 * k + 3];
        size += other->hi[k] - other->lo[k]; /* the box's diagonal is shorter */
    }
    if (size == 0) return false; /* a point */
    solve(pose, middle, at);
    if (at[2] > size) return false;
    /* The other box reaches half of the size from its middle at most, so from there 0.55 are out of its reach, and 1.1
     * from the top if that is 0.55 above it. Few bits, so that a block along the axes has exact coordinates. */
    int exponent;
    frexp(size, &exponent);
    const double bit = ldexp(1, exponent - 7), step = ldexp(1, exponent - 20), scale = ceil(1.1 * size / bit) * bit;
    for (int k = 0; k < 2; k++) at[k] = nearbyint(at[k] / step) * step;
    at[2] = at[2] < -0.55 * size ? nearbyint((at[2] + 0.55 * size) / step) * step : 0;
    double reach = 0;
    for (int k = 0; k < 3; k++) {
        const double *row = pose + 4 * k;
        double moved = row[3];
        reach = fmax(reach, fabs(row[3]));
        for (int j = 0; j < 3; j++) {
            block[4 * k + j] = row[j] * scale;
            if (at[j] != 0) moved += row[j] * at[j];
            reach = fmax(reach, fabs(at[j]));
        }
        block[4 * k + 3] = moved;
    }
    *rounding = 0x1p-49 * reach;
    return true;
}

/* half_space.c - the pose and the mesh of a half-space. */
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

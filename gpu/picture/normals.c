/* normals.c - vertex normals for shading. */
#include <math.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/picture/picture.h"

void ct_vertex_normals(const float *positions, const uint32_t *triangles, size_t n_vertices, size_t n_triangles,
                       float *normals) {
    memset(normals, 0, n_vertices * 3 * sizeof *normals);
    for (size_t t = 0; t < n_triangles; t++) {
        if (CT_POLL_EVERY(t, 1024) && ct_is_cancelled()) return; /* whoever asks polls too */
        const uint32_t *v = triangles + 3 * t;
        float a[3], b[3]; /* edges; their cross product is the face's normal times twice its area */
        for (int i = 0; i < 3; i++) {
            a[i] = positions[3 * (size_t)v[1] + i] - positions[3 * (size_t)v[0] + i];
            b[i] = positions[3 * (size_t)v[2] + i] - positions[3 * (size_t)v[0] + i];
        }
        const float n[3] = {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
        for (int c = 0; c < 3; c++)
            for (int i = 0; i < 3; i++) normals[3 * (size_t)v[c] + i] += n[i];
    }
    for (size_t v = 0; v < n_vertices; v++) {
        if (CT_POLL_EVERY(v, 1024) && ct_is_cancelled()) return;
        float *n = normals + 3 * v;
        float length = sqrtf(n[0] * n[0] + n[1] * n[1] + n[2] * n[2]);
        for (int i = 0; i < 3; i++) n[i] = length > 0 ? n[i] / length : 0;
    }
}

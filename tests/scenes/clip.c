/* clip.c - clips triangles by planes through a point; integrals over the resulting polygons. */
#include "tests/scenes/clip.h"

#include <math.h>
#include <string.h>

#include "tests/scenes/build.h"

/* A clipped triangle. A vertex is given by its barycentric weights of the triangle's corners. */
struct polygon {
    double weight[8][3];
    int n;
};

static void cross(const double a[3], const double b[3], double out[3]) {
    for (int k = 0; k < 3; k++) out[k] = a[(k + 1) % 3] * b[(k + 2) % 3] - a[(k + 2) % 3] * b[(k + 1) % 3];
}

static double dot(const double a[3], const double b[3]) {
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

/* Keeps the part where the linear function with these values at the triangle's corners is <= 0. */
static void cut(struct polygon *polygon, const double at[3]) {
    struct polygon kept = {.n = 0};
    for (int i = 0; i < polygon->n; i++) {
        const double *a = polygon->weight[i], *b = polygon->weight[(i + 1) % polygon->n];
        double va = dot(a, at), vb = dot(b, at);
        if (va <= 0) memcpy(kept.weight[kept.n++], a, sizeof *kept.weight);
        if ((va <= 0) == (vb <= 0)) continue;
        double t = va / (va - vb);
        for (int k = 0; k < 3; k++) kept.weight[kept.n][k] = a[k] + t * (b[k] - a[k]);
        kept.n++;
    }
    *polygon = kept;
}

struct clipped clip(const struct shape *shape, const double pose[12], const struct corner *corner,
                    const double about[3]) {
    struct clipped out = {.volume = 0};
    out.gradient = shape_alloc(shape->n_vertices, 3 * sizeof(double));
    for (uint32_t t = 0; t < shape->n_triangles; t++) {
        const uint32_t *vertex = shape->triangles + 3 * (size_t)t;
        double p[3][3]; /* relative to the apex */
        for (int c = 0; c < 3; c++) {
            const float *q = shape->positions + 3 * (size_t)vertex[c];
            for (int k = 0; k < 3; k++)
                p[c][k] = (pose ? pose[4 * k] * (double)q[0] + pose[4 * k + 1] * (double)q[1] +
                                      pose[4 * k + 2] * (double)q[2] + pose[4 * k + 3]
                                : (double)q[k]) -
                          corner->apex[k];
        }
        struct polygon polygon = {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}, 3};
        for (int i = 0; i < corner->n && polygon.n; i++) {
            double at[3];
            for (int c = 0; c < 3; c++) at[c] = dot(p[c], corner->normal[i]);
            cut(&polygon, at);
        }
        double e1[3], e2[3], n[3]; /* n: twice the triangle's area vector */
        for (int k = 0; k < 3; k++) e1[k] = p[1][k] - p[0][k], e2[k] = p[2][k] - p[0][k];
        cross(e1, e2, n);
        for (int i = 1; i + 1 < polygon.n; i++) {
            const double *a = polygon.weight[0], *b = polygon.weight[i], *c = polygon.weight[i + 1];
            double fraction = (b[1] - a[1]) * (c[2] - a[2]) - (b[2] - a[2]) * (c[1] - a[1]);
            double area[3], mean[3], middle[3] = {0, 0, 0}, arm[3], torque[3];
            for (int k = 0; k < 3; k++) {
                area[k] = fraction * n[k] / 2;
                mean[k] = (a[k] + b[k] + c[k]) / 3; /* of the weights: linear functions integrate to this times area */
                out.flat[k] += fabs(area[k]);
            }
            for (int v = 0; v < 3; v++)
                for (int k = 0; k < 3; k++) {
                    middle[k] += mean[v] * p[v][k];
                    out.gradient[3 * (size_t)vertex[v] + (size_t)k] += mean[v] * area[k];
                }
            for (int k = 0; k < 3; k++) arm[k] = middle[k] + corner->apex[k] - about[k];
            cross(arm, area, torque);
            for (int k = 0; k < 3; k++) {
                out.wrench[k] += area[k];
                out.wrench[3 + k] += torque[k];
            }
            out.volume += dot(middle, area) / 3;
            out.area += sqrt(dot(area, area));
        }
    }
    return out;
}

/* overlap.c - cuts tetrahedra and triangles by the planes of tetrahedra. */
#include "tests/scenes/overlap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/scenes/build.h"

typedef long double real;

struct tetrahedron {
    real corner[4][3];
    real plane[4][4]; /* normal and offset: the tetrahedron lies where all four are <= 0 */
    real lo[3], hi[3];
    int sign; /* of its volume; 0: it is flat, so that rounding decides about its planes, and is left out */
};

struct body {
    uint32_t n;
    const uint32_t *triangles;
    real (*positions)[3];
    struct tetrahedron *tetrahedra; /* [n] from the apex to triangle t */
};

static real determinant(real p[4][3]) {
    real u[3][3];
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) u[i][k] = p[i + 1][k] - p[0][k];
    return u[0][0] * (u[1][1] * u[2][2] - u[1][2] * u[2][1]) + u[0][1] * (u[1][2] * u[2][0] - u[1][0] * u[2][2]) +
           u[0][2] * (u[1][0] * u[2][1] - u[1][1] * u[2][0]);
}

/* The plane through three corners, with the fourth one where it is negative. */
static void find_plane(const real a[3], const real b[3], const real c[3], const real inside[3], real plane[4]) {
    real u[3], v[3], value = 0;
    for (int k = 0; k < 3; k++) u[k] = b[k] - a[k], v[k] = c[k] - a[k];
    for (int k = 0; k < 3; k++) {
        plane[k] = u[(k + 1) % 3] * v[(k + 2) % 3] - u[(k + 2) % 3] * v[(k + 1) % 3];
        value += plane[k] * (inside[k] - a[k]);
    }
    if (value > 0)
        for (int k = 0; k < 3; k++) plane[k] = -plane[k];
    plane[3] = -(plane[0] * a[0] + plane[1] * a[1] + plane[2] * a[2]);
}

static struct tetrahedron tetrahedron_of(const real apex[3], const struct body *body, uint32_t triangle) {
    struct tetrahedron t;
    memcpy(t.corner[0], apex, sizeof t.corner[0]);
    for (int c = 0; c < 3; c++)
        memcpy(t.corner[c + 1], body->positions[body->triangles[3 * (size_t)triangle + (size_t)c]], sizeof t.corner[0]);
    const real volume = determinant(t.corner);
    real size = 0;
    for (int c = 1; c < 4; c++)
        for (int k = 0; k < 3; k++) size = fmaxl(size, fabsl(t.corner[c][k] - apex[k]));
    const real flat = 1e-16L * size * size * size;
    t.sign = (volume > flat) - (volume < -flat);
    for (int i = 0; i < 4; i++)
        find_plane(t.corner[(i + 1) % 4], t.corner[(i + 2) % 4], t.corner[(i + 3) % 4], t.corner[i], t.plane[i]);
    for (int k = 0; k < 3; k++) {
        t.lo[k] = fminl(fminl(t.corner[0][k], t.corner[1][k]), fminl(t.corner[2][k], t.corner[3][k]));
        t.hi[k] = fmaxl(fmaxl(t.corner[0][k], t.corner[1][k]), fmaxl(t.corner[2][k], t.corner[3][k]));
    }
    return t;
}

/* The apex is a point in the middle whose place has nothing to do with the surface, so that no surface lies in the
 * plane of a tetrahedron's inner face. Positions count from `origin`. */
static struct body body_of(const struct shape *shape, const double *pose, const real origin[3], int number) {
    static const real off[2][3] = {{0.0123456789L, -0.0271828183L, 0.0314159265L},
                                   {-0.0141421356L, 0.0173205081L, 0.0223606798L}};
    struct body body = {.n = shape->n_triangles, .triangles = shape->triangles};
    body.positions = shape_alloc(shape->n_vertices, sizeof *body.positions);
    body.tetrahedra = shape_alloc(shape->n_triangles, sizeof *body.tetrahedra);
    real lo[3] = {INFINITY, INFINITY, INFINITY}, hi[3] = {-INFINITY, -INFINITY, -INFINITY}, apex[3];
    for (uint32_t v = 0; v < shape->n_vertices; v++)
        for (int k = 0; k < 3; k++) {
            const float *q = shape->positions + 3 * (size_t)v;
            real x = q[k];
            if (pose)
                x = (real)pose[4 * k] * q[0] + (real)pose[4 * k + 1] * q[1] + (real)pose[4 * k + 2] * q[2] +
                    (real)pose[4 * k + 3];
            body.positions[v][k] = x - origin[k];
            lo[k] = fminl(lo[k], x - origin[k]);
            hi[k] = fmaxl(hi[k], x - origin[k]);
        }
    for (int k = 0; k < 3; k++) apex[k] = (lo[k] + hi[k]) / 2 + off[number][k] * (hi[k] - lo[k]);
    for (uint32_t t = 0; t < body.n; t++) body.tetrahedra[t] = tetrahedron_of(apex, &body, t);
    return body;
}

static real height(const real plane[4], const real p[3]) {
    return plane[0] * p[0] + plane[1] * p[1] + plane[2] * p[2] + plane[3];
}

static int are_apart(const struct tetrahedron *a, const struct tetrahedron *b) {
    for (int k = 0; k < 3; k++)
        if (a->lo[k] > b->hi[k] || b->lo[k] > a->hi[k]) return 1;
    return 0;
}

/* ---- volume ---- */

/* Where the edge between two corners meets the plane. */
static void cut_edge(const real p[3], real at_p, const real q[3], real at_q, real out[3]) {
    const real t = at_p / (at_p - at_q);
    for (int k = 0; k < 3; k++) out[k] = p[k] + t * (q[k] - p[k]);
}

/* The volume of the part of a tetrahedron where all planes from number `plane` on are <= 0. */
static real cut_volume(real p[4][3], const struct tetrahedron *by, int plane) {
    if (plane == 4) return fabsl(determinant(p)) / 6;
    real in[4][3], out[4][3], at_in[4], at_out[4];
    int n_in = 0, n_out = 0;
    for (int i = 0; i < 4; i++) {
        const real at = height(by->plane[plane], p[i]);
        if (at <= 0) {
            memcpy(in[n_in], p[i], sizeof in[0]);
            at_in[n_in++] = at;
        } else {
            memcpy(out[n_out], p[i], sizeof out[0]);
            at_out[n_out++] = at;
        }
    }
    if (n_in == 0) return 0;
    if (n_in == 4) return cut_volume(p, by, plane + 1);
    real part[4][3], volume = 0;
    if (n_in == 1) {
        memcpy(part[0], in[0], sizeof part[0]);
        for (int i = 0; i < 3; i++) cut_edge(in[0], at_in[0], out[i], at_out[i], part[i + 1]);
        return cut_volume(part, by, plane + 1);
    }
    real prism[6][3]; /* two triangles, 0 1 2 and 3 4 5; three tetrahedra */
    if (n_in == 3) {
        for (int i = 0; i < 3; i++) {
            memcpy(prism[i], in[i], sizeof part[0]);
            cut_edge(in[i], at_in[i], out[0], at_out[0], prism[i + 3]);
        }
    } else {
        for (int i = 0; i < 2; i++) {
            memcpy(prism[3 * i], in[i], sizeof part[0]);
            for (int j = 0; j < 2; j++) cut_edge(in[i], at_in[i], out[j], at_out[j], prism[3 * i + j + 1]);
        }
    }
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 4; j++) memcpy(part[j], prism[i + j], sizeof part[0]);
        volume += cut_volume(part, by, plane + 1);
    }
    return volume;
}

static real shared_volume(const struct body *a, const struct body *b) {
    real sum = 0;
    for (uint32_t t = 0; t < a->n; t++)
        for (uint32_t u = 0; u < b->n; u++) {
            struct tetrahedron *of_a = &a->tetrahedra[t];
            const struct tetrahedron *of_b = &b->tetrahedra[u];
            if (of_a->sign && of_b->sign && !are_apart(of_a, of_b))
                sum += of_a->sign * of_b->sign * cut_volume(of_a->corner, of_b, 0);
        }
    return sum;
}

/* ---- gradient ---- */

struct polygon {
    real weight[8][3]; /* barycentric, of the triangle's corners */
    int n;
};

static real value_at(const real weight[3], const real at[3]) {
    return weight[0] * at[0] + weight[1] * at[1] + weight[2] * at[2];
}

/* Keeps the part where the linear function with these values at the triangle's corners is <= 0. */
static void cut_polygon(struct polygon *polygon, const real at[3]) {
    struct polygon kept = {.n = 0};
    for (int i = 0; i < polygon->n; i++) {
        const real *a = polygon->weight[i], *b = polygon->weight[(i + 1) % polygon->n];
        const real at_a = value_at(a, at), at_b = value_at(b, at);
        if (at_a <= 0) memcpy(kept.weight[kept.n++], a, sizeof *kept.weight);
        if ((at_a <= 0) != (at_b <= 0)) cut_edge(a, at_a, b, at_b, kept.weight[kept.n++]);
    }
    *polygon = kept;
}

/* Adds up the integrals of the triangle's three weights over its part inside one tetrahedron; its area is 1/2. */
static void add_part(real p[3][3], const struct tetrahedron *by, real integral[3]) {
    struct polygon polygon = {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}, 3};
    for (int i = 0; i < 4 && polygon.n; i++) {
        real at[3];
        for (int c = 0; c < 3; c++) at[c] = height(by->plane[i], p[c]);
        cut_polygon(&polygon, at);
    }
    for (int i = 1; i + 1 < polygon.n; i++) {
        const real *a = polygon.weight[0], *b = polygon.weight[i], *c = polygon.weight[i + 1];
        const real area = ((b[1] - a[1]) * (c[2] - a[2]) - (b[2] - a[2]) * (c[1] - a[1])) / 2;
        for (int k = 0; k < 3; k++) integral[k] += by->sign * area * (a[k] + b[k] + c[k]) / 3;
    }
}

static double *gradient_of(const struct body *a, const struct body *b, uint32_t n_vertices) {
    double *gradient = shape_alloc(n_vertices, 3 * sizeof *gradient);
    for (uint32_t t = 0; t < a->n; t++) {
        const uint32_t *vertex = a->triangles + 3 * (size_t)t;
        real p[3][3], integral[3] = {0, 0, 0}, lo[3], hi[3];
        for (int c = 0; c < 3; c++) memcpy(p[c], a->positions[vertex[c]], sizeof p[c]);
        for (int k = 0; k < 3; k++) {
            lo[k] = fminl(p[0][k], fminl(p[1][k], p[2][k]));
            hi[k] = fmaxl(p[0][k], fmaxl(p[1][k], p[2][k]));
        }
        for (uint32_t u = 0; u < b->n; u++) {
            const struct tetrahedron *by = &b->tetrahedra[u];
            int is_apart = !by->sign;
            for (int k = 0; k < 3; k++) is_apart |= lo[k] > by->hi[k] || by->lo[k] > hi[k];
            if (!is_apart) add_part(p, by, integral);
        }
        for (int k = 0; k < 3; k++) {
            const int i = (k + 1) % 3, j = (k + 2) % 3;
            const real normal = (p[1][i] - p[0][i]) * (p[2][j] - p[0][j]) - (p[1][j] - p[0][j]) * (p[2][i] - p[0][i]);
            for (int c = 0; c < 3; c++) gradient[3 * (size_t)vertex[c] + (size_t)k] += (double)(normal * integral[c]);
        }
    }
    return gradient;
}

struct overlap overlap_find(const struct shape *const shapes[2], const double *const poses[2], int wants_gradient) {
    struct overlap overlap = {.volume = 0};
    struct body body[2];
    real origin[3] = {0, 0, 0};
    for (int k = 0; k < 3 && poses && poses[0]; k++) origin[k] = poses[0][4 * k + 3];
    for (int i = 0; i < 2; i++) body[i] = body_of(shapes[i], poses ? poses[i] : NULL, origin, i);
    overlap.volume = shared_volume(&body[0], &body[1]);
    for (int i = 0; i < 2 && wants_gradient; i++)
        overlap.gradient[i] = gradient_of(&body[i], &body[1 - i], shapes[i]->n_vertices);
    for (int i = 0; i < 2; i++) {
        free(body[i].positions);
        free(body[i].tetrahedra);
    }
    return overlap;
}

void overlap_free(struct overlap *overlap) {
    for (int i = 0; i < 2; i++) {
        free(overlap->gradient[i]);
        overlap->gradient[i] = NULL;
    }
}

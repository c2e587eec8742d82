/* cut.c - cuts triangles at planes, axis after axis, and adds up the pieces of each cube. */
#include "gpu/methods/voxtree/cut.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/array.h"
#include "gpu/base/cancel.h"

/* A triangle has 3 corners; each of six planes adds one at most. */
enum { MAX_CORNERS = 9 };

typedef struct polygon {
    int n;
    double p[MAX_CORNERS][3]; /* in sides of cubes */
} polygon;

struct cutter {
    ct_cut *cut;
    uint32_t max_cubes;
    ct_status status;
    double area[3]; /* the triangle's normal, of length 1 */
    double across;  /* largest component of area */
    int axis;       /* of it */
};

/* ---- cubes ---- */

/* Where a cube's index stands. NULL: no memory. */
static uint32_t *place_of(ct_cut *cut, uint32_t x, uint32_t y, uint32_t z) {
    uint32_t *run = &cut->runs[((size_t)y * cut->n + x) * cut->n_runs + z / CT_CUT_RUN];
    if (!*run) {
        if (!ct_array_grow(&cut->place, &cut->place_capacity, cut->n_places + (size_t)1)) return NULL;
        memset(cut->place[cut->n_places], 0, sizeof *cut->place);
        *run = ++cut->n_places;
    }
    return &cut->place[*run - 1][z % CT_CUT_RUN];
}

/* The sums of a cube; NULL: no memory, or too many cubes. */
static ct_cut_cube *cube_at(struct cutter *c, uint32_t x, uint32_t y, uint32_t z) {
    ct_cut *cut = c->cut;
    uint32_t *place = place_of(cut, x, y, z);
    if (place && *place) return &cut->cubes[*place - 1];
    if (cut->n_cubes == c->max_cubes)
        c->status = CT_LIMIT_EXCEEDED;
    else if (!place || !ct_array_grow(&cut->cubes, &cut->cube_capacity, cut->n_cubes + (size_t)1))
        c->status = CT_OUT_OF_MEMORY;
    if (c->status) return NULL;
    cut->cubes[cut->n_cubes] = (ct_cut_cube){0};
    *place = ++cut->n_cubes;
    return &cut->cubes[*place - 1];
}

/* Plain comparisons and conversions: the library's functions are calls, and take half of the time. */
static double clamp(double x, double lo, double hi) {
    return x < lo ? lo : x > hi ? hi : x;
}

static int64_t steps(double x) {
    const double scaled = x * (double)((int64_t)1 << CT_CUT_BITS);
    return (int64_t)(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
}

/* Adds a piece of the triangle that lies in one cube. */
static void add_piece(struct cutter *c, const polygon *piece, const uint32_t at[3]) {
    if (CT_POLL_EVERY(++c->cut->n_pieces, 256) && ct_is_cancelled_at("voxels", c->cut->n_cubes))
        c->status = CT_CANCELLED;
    const int k = c->axis, i = (k + 1) % 3, j = (k + 2) % 3;
    double area = 0, center[3] = {0}; /* projected along the normal's largest component */
    for (int v = 1; v + 1 < piece->n; v++) {
        const double *o = piece->p[0], *p = piece->p[v], *q = piece->p[v + 1];
        const double part = (p[i] - o[i]) * (q[j] - o[j]) - (p[j] - o[j]) * (q[i] - o[i]);
        area += part;
        for (int m = 0; m < 3; m++) center[m] += part * (o[m] + p[m] + q[m]);
    }
    const double scale = 0.5 / c->across; /* of the true area; the sign is that of across */
    const double size = area * scale;
    if (c->status || !(size > 0)) return;
    const double third = 1 / (3 * area);
    ct_cut_cube *cube = cube_at(c, at[0], at[1], at[2]);
    if (!cube) return;
    for (int m = 0; m < 3; m++) {
        const double inside = clamp(center[m] * third - at[m], 0, 1);
        cube->area[m] += steps(size * c->area[m]);
        cube->moment[m] += steps(size * inside);
        if (m == 2) cube->below += steps(size * c->area[2] * inside);
    }
    cube->size += steps(size);
}

/* ---- cutting ---- */

/* The part of a convex polygon with p[axis] >= plane, or <= plane. */
static void cut_at(const polygon *in, int axis, double plane, bool keeps_above, polygon *out) {
    out->n = 0;
    for (int v = 0; v < in->n; v++) {
        const double *p = in->p[v], *q = in->p[v + 1 < in->n ? v + 1 : 0];
        const double a = keeps_above ? p[axis] - plane : plane - p[axis];
        const double b = keeps_above ? q[axis] - plane : plane - q[axis];
        if (a >= 0) memcpy(out->p[out->n++], p, sizeof out->p[0]);
        if ((a > 0 && b < 0) || (a < 0 && b > 0)) {
            /* From the lower end in both directions, so that neighbours cut a shared edge alike. */
            const bool is_up = p[axis] < q[axis];
            const double *from = is_up ? p : q, *to = is_up ? q : p;
            const double t = (plane - from[axis]) / (to[axis] - from[axis]);
            double *made = out->p[out->n++];
            for (int m = 0; m < 3; m++) made[m] = from[m] + t * (to[m] - from[m]);
            made[axis] = plane;
        }
    }
}

/* The cubes along an axis that a polygon reaches into. One that lies in the plane between two belongs to the one that
 * its inside faces. */
static void find_range(const struct cutter *c, const polygon *polygon, int axis, uint32_t range[2]) {
    double lo = polygon->p[0][axis], hi = lo;
    for (int v = 1; v < polygon->n; v++) {
        const double x = polygon->p[v][axis];
        if (x < lo) lo = x;
        if (x > hi) hi = x;
    }
    /* Coordinates are from 0 to n. */
    const uint32_t last = c->cut->n - 1;
    uint32_t first = (uint32_t)lo, end = (uint32_t)hi;
    if (hi == end && end > first) end--;
    if (lo == hi && lo == first && first > 0 && c->area[axis] > 0) first = end = first - 1;
    range[0] = first < last ? first : last;
    range[1] = end < last ? end : last;
}

static void cut_along(struct cutter *c, const polygon *whole, int axis, uint32_t at[3]) {
    if (axis == 3) {
        add_piece(c, whole, at);
        return;
    }
    uint32_t range[2];
    find_range(c, whole, axis, range);
    for (uint32_t i = range[0]; i <= range[1] && !c->status; i++) {
        polygon above, between;
        const polygon *piece = whole;
        if (i > range[0]) {
            cut_at(piece, axis, i, true, &above);
            piece = &above;
        }
        if (i < range[1]) {
            cut_at(piece, axis, i + 1, false, &between);
            piece = &between;
        }
        at[axis] = i;
        if (piece->n >= 3) cut_along(c, piece, axis + 1, at);
    }
}

static bool measure_triangle(struct cutter *c, const polygon *p) {
    double e[2][3], length = 0;
    for (int k = 0; k < 3; k++) {
        e[0][k] = p->p[1][k] - p->p[0][k];
        e[1][k] = p->p[2][k] - p->p[0][k];
    }
    for (int k = 0; k < 3; k++) {
        const int i = (k + 1) % 3, j = (k + 2) % 3;
        c->area[k] = e[0][i] * e[1][j] - e[0][j] * e[1][i];
        length += c->area[k] * c->area[k];
    }
    if (!(length > 0)) return false;
    length = sqrt(length);
    c->axis = 0;
    for (int k = 0; k < 3; k++) {
        c->area[k] /= length;
        if (fabs(c->area[k]) > fabs(c->area[c->axis])) c->axis = k;
    }
    c->across = c->area[c->axis];
    return true;
}

double ct_count_pieces(const ct_mesh *mesh, double size) {
    /* A plane patch meets as many cubes as its shadows along the axes have area, and half as many as its border is long
     * along the axes; all in cubes. */
    double n_pieces = 0;
    for (uint32_t t = 0; t < mesh->n_triangles; t++) {
        const uint32_t *corner = mesh->triangles + 3 * (size_t)t;
        const float *p = mesh->positions + 3 * (size_t)corner[0], *q = mesh->positions + 3 * (size_t)corner[1],
                    *r = mesh->positions + 3 * (size_t)corner[2];
        if (CT_POLL_EVERY(t, 4096) && ct_is_cancelled()) break;
        double e[2][3], border = 0, shadow = 0;
        for (int k = 0; k < 3; k++) {
            e[0][k] = ((double)q[k] - (double)p[k]) / size;
            e[1][k] = ((double)r[k] - (double)p[k]) / size;
            border += fabs(e[0][k]) + fabs(e[1][k]) + fabs(e[0][k] - e[1][k]);
        }
        for (int k = 0; k < 3; k++) {
            const int i = (k + 1) % 3, j = (k + 2) % 3;
            shadow += fabs(e[0][i] * e[1][j] - e[0][j] * e[1][i]);
        }
        n_pieces += 1 + 0.5 * border + 0.5 * shadow;
    }
    return n_pieces;
}

ct_status ct_cut_mesh(const ct_mesh *mesh, const double origin[3], double size, uint32_t n, uint32_t max_cubes,
                      ct_cut *cut) {
    *cut = (ct_cut){.n = n, .n_runs = (n + CT_CUT_RUN - 1) / CT_CUT_RUN};
    cut->runs = calloc((size_t)n * n * cut->n_runs, sizeof *cut->runs);
    if (!cut->runs) return CT_OUT_OF_MEMORY;
    struct cutter c = {.cut = cut, .max_cubes = max_cubes};
    for (uint32_t t = 0; t < mesh->n_triangles && !c.status; t++) {
        polygon triangle = {.n = 3};
        if (CT_POLL_EVERY(t, 256) && ct_is_cancelled_at("voxels", cut->n_cubes)) return CT_CANCELLED;
        for (int v = 0; v < 3; v++) {
            const float *p = mesh->positions + 3 * (size_t)mesh->triangles[3 * (size_t)t + (size_t)v];
            for (int k = 0; k < 3; k++) triangle.p[v][k] = clamp(((double)p[k] - origin[k]) / size, 0, n);
        }
        uint32_t at[3];
        if (measure_triangle(&c, &triangle)) cut_along(&c, &triangle, 0, at);
    }
    return c.status;
}

void ct_cut_free(ct_cut *cut) {
    free(cut->cubes);
    free(cut->runs);
    free(cut->place);
    *cut = (ct_cut){0};
}

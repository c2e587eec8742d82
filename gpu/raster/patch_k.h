/* patch_k.h - triangles as the OpenGL rasteriser draws them: each as rectangles of samples, which OpenGL fills, with
 * what a shader needs to decide exactly which of these samples the triangle covers, and to make their fragments. For
 * the CPU and for CUDA, which both make them.
 */
#ifndef CT_PATCH_K_H
#define CT_PATCH_K_H

#include <assert.h>
#include <stddef.h>

#include "gpu/raster/raster_k.h"
#include "gpu/view/view_k.h"

/* A part of a view: some of its rows. The same layout as in patch_vertex.glsl. */
typedef struct ct_draw_region {
    int32_t left, bottom; /* where it lies in the picture that holds all tiles of a drawing, in pixels; set by it */
    int32_t columns, first_row, rows;
    int32_t first_ray; /* index of its first ray among those of all tiles; rays are numbered row by row */
    int32_t shift_u, shift_v;
} ct_draw_region;

/* Flags of a patch; the first three are ct_edge_inside of each edge. */
#define CT_PATCH_INSIDE    7u
#define CT_PATCH_CLOCKWISE 8u  /* a ray enters the body here */
#define CT_PATCH_BEFORE    16u /* before the window's depths, of a body that is CT_INITIAL_COUNTED: not kept */

/* The same layout as in patch_vertex.glsl. */
typedef struct ct_patch {
    int32_t xb, yb, xc, yc; /* corners 1 and 2 in (u, v), relative to corner 0; negated where clockwise */
    int32_t x0, y0, z0;     /* corner 0 */
    uint32_t tag;
    int32_t dz1, dz2; /* depths of corners 1 and 2, relative to corner 0 */
    double inverse;   /* 1 over twice the area */
    uint16_t u0, u1;  /* samples of the rectangle: columns [u0, u1), rows [v0, v1) of the view */
    uint16_t v0, v1;
    uint32_t tile;
    uint32_t flags;
} ct_patch;

static_assert(sizeof(ct_patch) == 64 && offsetof(ct_patch, inverse) == 40, "the shader's layout");
static_assert(sizeof(ct_draw_region) == 32, "the shader's layout");
static_assert(sizeof(ct_linked_fragment) == 20, "the shader's layout");

typedef struct ct_range {
    double lo, hi;
} ct_range;

CT_FN void ct_range_widen(ct_range *r, double x) {
    if (x < r->lo) r->lo = x;
    if (x > r->hi) r->hi = x;
}

/* Along axis u, the extent of what lies between v0 and v1 of the triangle q. */
CT_FN ct_range ct_range_between(const int32_t *const q[3], int u, int v, int32_t v0, int32_t v1) {
    ct_range r = {1e300, -1e300};
    for (int k = 0; k < 3; k++) {
        const int32_t *a = q[k], *b = q[(k + 1) % 3];
        if (a[v] >= v0 && a[v] <= v1) ct_range_widen(&r, a[u]);
        const int32_t limit[2] = {v0, v1};
        for (int i = 0; i < 2; i++)
            if ((a[v] < limit[i]) != (b[v] < limit[i]))
                ct_range_widen(&r, a[u] + ((double)limit[i] - a[v]) / ((double)b[v] - a[v]) * ((double)b[u] - a[u]));
    }
    return r;
}

/* Below so many samples it costs less to try them all than to know better. */
#define CT_FEW_SAMPLES 16

/* The columns of a rectangle whose rows are known. May be none. */
CT_FN void ct_fit_columns(ct_patch *p, const int32_t *const q[3], const ct_lattice *lu, const ct_lattice *lv, int u,
                          int v) {
    if ((p->u1 - p->u0) * (p->v1 - p->v0) <= CT_FEW_SAMPLES) return;
    const ct_range r =
        ct_range_between(q, u, v, ct_sample_coord(p->v0, lv->shift), ct_sample_coord(p->v1 - 1, lv->shift));
    if (r.lo > r.hi) {
        p->u1 = p->u0;
        return;
    }
    /* The quotient is off by far less than a unit. */
    p->u0 = (uint16_t)ct_samples_below((int32_t)r.lo - 2, lu->shift, lu->n);
    p->u1 = (uint16_t)ct_samples_below((int32_t)r.hi + 2, lu->shift, lu->n);
}

/* The part in rows [first_row, end_row) of the triangle with corners q, on view w: all of *p but tag and tile. 0: none.
 * counted: crossings before the window's depths are. */
CT_FN int ct_make_patch(ct_patch *p, const ct_window *window, int w, int counted, const int32_t *const q[3],
                        int32_t first_row, int32_t end_row) {
    const int u = ct_view_u(w), v = ct_view_v(w);
    const ct_lattice *lu = &window->axis[u], *lv = &window->axis[v];
    int32_t v0 = ct_samples_below(ct_min3(q[0][v], q[1][v], q[2][v]), lv->shift, lv->n);
    int32_t v1 = ct_samples_below(ct_max3(q[0][v], q[1][v], q[2][v]), lv->shift, lv->n);
    p->u0 = (uint16_t)ct_samples_below(ct_min3(q[0][u], q[1][u], q[2][u]), lu->shift, lu->n);
    p->u1 = (uint16_t)ct_samples_below(ct_max3(q[0][u], q[1][u], q[2][u]), lu->shift, lu->n);
    if (v0 < first_row) v0 = first_row;
    if (v1 > end_row) v1 = end_row;
    if (v0 >= v1 || p->u0 >= p->u1) return 0;
    p->v0 = (uint16_t)v0;
    p->v1 = (uint16_t)v1;
    ct_fit_columns(p, q, lu, lv, u, v);
    if (p->u0 >= p->u1) return 0;

    /* With steps of one unit they are the coordinates of the corners. */
    ct_triangle_setup s;
    if (!ct_make_setup(&s, q[0], q[1], q[2], u, v, w, 0, 0, 0, 0)) return 0;
    p->xb = (int32_t)s.step_v[2];
    p->yb = (int32_t)-s.step_u[2];
    p->xc = (int32_t)-s.step_v[1];
    p->yc = (int32_t)s.step_u[1];
    p->x0 = q[0][u];
    p->y0 = q[0][v];
    p->z0 = s.z0;
    p->dz1 = (int32_t)s.dz1;
    p->dz2 = (int32_t)s.dz2;
    p->inverse = s.inverse;
    p->flags = s.ccw < 0 ? CT_PATCH_CLOCKWISE : 0;
    for (int k = 0; k < 3; k++)
        if (ct_edge_inside(&s, k)) p->flags |= 1u << k;
    if (counted && ct_max3(q[0][w], q[1][w], q[2][w]) < window->axis[w].lo) p->flags |= CT_PATCH_BEFORE;
    return 1;
}

/* ---- for CUDA, which tells OpenGL what to draw without the host ---- */

/* Patches that one command draws: indices are made for so many. */
#define CT_COMMAND_PATCHES (1u << 17)

/* OpenGL's parameters of a draw call. */
typedef struct ct_draw_command {
    uint32_t indices, instances, first_index;
    int32_t first_vertex;
    uint32_t first_instance;
} ct_draw_command;

/* Side of the picture in pixels, as wide as the widest view. Nothing is stored in it, so tiles may lie over each other;
 * they only have to lie apart enough for OpenGL to have work all over it. */
#define CT_PICTURE_SIDE 4096

#endif

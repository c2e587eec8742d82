/* quad_k.h - quads: the form in which the OpenGL rasteriser draws triangles. For the CPU and for CUDA, which both
 * make them.
 *
 *           +-------+
 *     .   . | . /\. | .   .    bin 1
 *       +---+--/--\-+---+
 *     . | .  /.   . \ . | .    bin 0
 *       |  /__________\ |
 *       +---------------+         . samples
 *
 * OpenGL's own coverage of triangles depends on the driver's sub-pixel precision. So OpenGL draws rectangles of whole
 * samples, whose coverage is certain, and the fragment shader decides exactly which of these samples the triangle
 * covers (ct_covers). A triangle that spans the rows of several bins has a quad in each, as narrow as the triangle is
 * in the bin's rows.
 */
#ifndef CT_QUAD_K_H
#define CT_QUAD_K_H

#include <assert.h>
#include <stddef.h>

#include "gpu/view/raster_k.h"
#include "gpu/view/view_k.h"

/* The rectangle of the framebuffer into which rows of a view are drawn; one pixel is one sample. The same layout as in
 * quad_vertex.glsl. */
typedef struct ct_draw_region {
    int32_t left, bottom;             /* pixels, in the framebuffer that all regions of a drawing share */
    int32_t columns, first_row, rows; /* of the view */
    int32_t first_ray;                /* index of the first ray among the drawing's; rays are numbered row by row */
    int32_t shift_u, shift_v;
} ct_draw_region;

/* Flags of a quad. */
#define CT_QUAD_CLOCKWISE 8u  /* clockwise in (u, v): rays enter the body here */
#define CT_QUAD_BEFORE    16u /* in front of the window: add to the initial winding number, make no fragments */

/* The same layout as in quad_vertex.glsl. */
typedef struct ct_quad {
    int32_t xb, yb, xc, yc; /* corners 1 and 2 in (u, v), relative to corner 0; negated where clockwise */
    int32_t x0, y0, z0;     /* corner 0 */
    uint32_t tag;           /* of its fragments */
    int32_t dz1, dz2;       /* depths of corners 1 and 2, relative to corner 0 */
    double inverse;         /* 1 over twice the area */
    uint16_t u0, u1;        /* columns [u0, u1) of the view */
    uint16_t v0, v1;        /* rows [v0, v1) of the view */
    uint32_t region;        /* index of its ct_draw_region */
    uint32_t flags;
} ct_quad;

static_assert(sizeof(ct_quad) == 64 && offsetof(ct_quad, inverse) == 40, "the shader's layout");
static_assert(sizeof(ct_draw_region) == 32, "the shader's layout");
static_assert(sizeof(ct_linked_fragment) == 20, "the shader's layout");

typedef struct ct_range {
    double lo, hi;
} ct_range;

CT_FN void ct_range_widen(ct_range *r, double x) {
    if (x < r->lo) r->lo = x;
    if (x > r->hi) r->hi = x;
}

/* The extent along u of the part of triangle q between v0 and v1; lo > hi if that part is empty. */
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

/* Up to this many samples, testing them all is cheaper than computing a narrower rectangle. */
#define CT_FEW_SAMPLES 16

/* Narrows the columns of a quad to the triangle's extent in its rows. May leave none (u0 == u1). */
CT_FN void ct_fit_columns(ct_quad *p, const int32_t *const q[3], const ct_lattice *lu, const ct_lattice *lv, int u,
                          int v) {
    if ((p->u1 - p->u0) * (p->v1 - p->v0) <= CT_FEW_SAMPLES) return;
    const ct_range r =
        ct_range_between(q, u, v, ct_sample_coord(p->v0, lv->shift), ct_sample_coord(p->v1 - 1, lv->shift));
    if (r.lo > r.hi) {
        p->u1 = p->u0;
        return;
    }
    /* Two units of margin: the quotient's rounding error is far below one unit. */
    p->u0 = (uint16_t)ct_samples_below((int32_t)r.lo - 2, lu->shift, lu->n);
    p->u1 = (uint16_t)ct_samples_below((int32_t)r.hi + 2, lu->shift, lu->n);
}

/* Fills *p, except tag and region, for the triangle with corners q in rows [first_row, end_row) of view w. Returns 0 if
 * it covers no samples there. counts_before: triangles in front of the window get CT_QUAD_BEFORE (CT_INITIAL_COUNTED).
 */
CT_FN int ct_make_quad(ct_quad *p, const ct_window *window, int w, int counts_before, const int32_t *const q[3],
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

    /* With shifts of 0 the setup's steps are differences of the corners' coordinates, negated where clockwise. */
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
    p->flags = s.ccw < 0 ? CT_QUAD_CLOCKWISE : 0;
    for (int k = 0; k < 3; k++)
        if (ct_edge_inside(&s, k)) p->flags |= 1u << k;
    if (counts_before && ct_max3(q[0][w], q[1][w], q[2][w]) < window->axis[w].lo) p->flags |= CT_QUAD_BEFORE;
    return 1;
}

/* ---- indirect drawing: CUDA writes the draw commands, without the host ---- */

/* Most quads of one draw command: the index buffer has indices for this many (3 MiB). */
#define CT_COMMAND_QUADS (1u << 17)

/* A DrawElementsIndirectCommand, as OpenGL defines it. */
typedef struct ct_draw_command {
    uint32_t indices, instances, first_index;
    int32_t first_vertex;
    uint32_t first_instance;
} ct_draw_command;

/* Side of the framebuffer in pixels, the width of the widest view (CT_MAX_RESOLUTION). It has no attachments, so draw
 * regions may overlap; they are only spread out so that all of the GPU's raster units have work. */
#define CT_FRAMEBUFFER_SIDE 4096

#endif

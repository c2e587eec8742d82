/* rect_k.h - rectangles of lattice coordinates, and which of them a triangle meets in the projection along an axis;
 * exact. Pixels and tiles of the method EBPI. */
#ifndef CT_EBPI_RECT_K_H
#define CT_EBPI_RECT_K_H

#include "gpu/view/raster_k.h"

/* Rectangle of lattice coordinates, its ends included. */
typedef struct ct_ebpi_rect {
    int32_t u0, u1, v0, v1;
} ct_ebpi_rect;

/* A vertex lies in a rectangle in the projection. */
CT_FN int ct_ebpi_is_in(const int32_t *p, int32_t u, int32_t v, const ct_ebpi_rect *rect) {
    return p[u] >= rect->u0 && p[u] <= rect->u1 && p[v] >= rect->v0 && p[v] <= rect->v1;
}

/* A rectangle lies wholly on one side of the line through a and b in the projection, and nowhere on it. */
CT_FN int ct_ebpi_is_beside_line(const int32_t *a, const int32_t *b, int32_t u, int32_t v, const ct_ebpi_rect *rect) {
    const int64_t du = (int64_t)b[u] - a[u], dv = (int64_t)b[v] - a[v];
    int has_left = 0, has_right = 0;
    for (int k = 0; k < 4; k++) {
        const int64_t at_u = (k & 1 ? rect->u1 : rect->u0) - a[u], at_v = (k & 2 ? rect->v1 : rect->v0) - a[v];
        const int64_t side = du * at_v - dv * at_u;
        has_left = has_left || side >= 0;
        has_right = has_right || side <= 0;
    }
    return !has_left || !has_right;
}

/* The rectangle lies wholly on the outer side of the edge from a to b of a triangle with the opposite corner c. */
CT_FN int ct_ebpi_is_beyond_edge(const int32_t *a, const int32_t *b, const int32_t *c, int32_t u, int32_t v,
                                 const ct_ebpi_rect *rect) {
    const int64_t du = b[u] - a[u], dv = b[v] - a[v];
    const int64_t inside = du * (c[v] - a[v]) - dv * (c[u] - a[u]);
    if (inside == 0) return ct_ebpi_is_beside_line(a, b, u, v, rect); /* seen edge-on: a segment */
    /* The corner of the rectangle that is furthest inwards. */
    const int is_left = inside > 0;
    const int64_t at_u = (dv < 0) == is_left ? rect->u1 : rect->u0, at_v = (du > 0) == is_left ? rect->v1 : rect->v0;
    const int64_t side = du * (at_v - a[v]) - dv * (at_u - a[u]);
    return is_left ? side < 0 : side > 0;
}

/* A triangle meets a rectangle in the projection along the third axis, its edges included. */
CT_FN int ct_ebpi_triangle_meets(const int32_t *a, const int32_t *b, const int32_t *c, int32_t u, int32_t v,
                                 const ct_ebpi_rect *rect) {
    if (ct_max3(a[u], b[u], c[u]) < rect->u0 || ct_min3(a[u], b[u], c[u]) > rect->u1 ||
        ct_max3(a[v], b[v], c[v]) < rect->v0 || ct_min3(a[v], b[v], c[v]) > rect->v1)
        return 0;
    if (ct_ebpi_is_in(a, u, v, rect) || ct_ebpi_is_in(b, u, v, rect) || ct_ebpi_is_in(c, u, v, rect)) return 1;
    return !ct_ebpi_is_beyond_edge(a, b, c, u, v, rect) && !ct_ebpi_is_beyond_edge(b, c, a, u, v, rect) &&
           !ct_ebpi_is_beyond_edge(c, a, b, u, v, rect);
}

#endif

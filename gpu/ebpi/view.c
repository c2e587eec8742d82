/* view.c - plans the pixels of a view, and where the lists of their faces lie. */
#include "gpu/ebpi/view.h"

#include "gpu/raster/raster_k.h"

ct_ebpi_view ct_ebpi_view_plan(const ct_window *window, int axis, int32_t most) {
    ct_ebpi_view view = {.axis = axis, .u = ct_view_u(axis), .v = ct_view_v(axis)};
    const ct_lattice *u = &window->axis[view.u], *v = &window->axis[view.v];
    const int32_t longer = u->n > v->n ? u->n : v->n;
    view.lo = window->axis[axis].lo - 1;
    view.hi = window->axis[axis].hi + 1;
    view.pitch_shift[0] = u->shift;
    view.pitch_shift[1] = v->shift;
    while (((longer - 1) >> view.pixel_shift) + 1 > most) view.pixel_shift++;
    view.columns = ((u->n - 1) >> view.pixel_shift) + 1;
    view.rows = ((v->n - 1) >> view.pixel_shift) + 1;
    return view;
}

ct_ebpi_rect ct_ebpi_pixel_rect(const ct_ebpi_view *view, int32_t column, int32_t row) {
    const int u = view->pixel_shift + view->pitch_shift[0], v = view->pixel_shift + view->pitch_shift[1];
    return (ct_ebpi_rect){column << u, (column + 1) << u, row << v, (row + 1) << v};
}

/* The rectangle lies wholly on the outer side of the edge from a to b of a triangle with the opposite corner c. */
static bool is_beyond_edge(const int32_t *a, const int32_t *b, const int32_t *c, int u, int v,
                           const ct_ebpi_rect *rect) {
    const int64_t du = b[u] - a[u], dv = b[v] - a[v];
    const int64_t inside = du * (c[v] - a[v]) - dv * (c[u] - a[u]);
    if (inside == 0) return ct_ebpi_is_beside_line(a, b, u, v, rect); /* seen edge-on: a segment */
    /* The corner of the rectangle that is furthest inwards. */
    const bool is_left = inside > 0;
    const int64_t at_u = (dv < 0) == is_left ? rect->u1 : rect->u0, at_v = (du > 0) == is_left ? rect->v1 : rect->v0;
    const int64_t side = du * (at_v - a[v]) - dv * (at_u - a[u]);
    return is_left ? side < 0 : side > 0;
}

bool ct_ebpi_face_meets(const ct_ebpi_view *view, const int32_t *const corner[3], const ct_ebpi_rect *rect) {
    const int u = view->u, v = view->v;
    const int32_t *a = corner[0], *b = corner[1], *c = corner[2];
    if (ct_max3(a[u], b[u], c[u]) < rect->u0 || ct_min3(a[u], b[u], c[u]) > rect->u1 ||
        ct_max3(a[v], b[v], c[v]) < rect->v0 || ct_min3(a[v], b[v], c[v]) > rect->v1)
        return false;
    if (ct_ebpi_is_in(a, u, v, rect) || ct_ebpi_is_in(b, u, v, rect) || ct_ebpi_is_in(c, u, v, rect)) return true;
    return !is_beyond_edge(a, b, c, u, v, rect) && !is_beyond_edge(b, c, a, u, v, rect) &&
           !is_beyond_edge(c, a, b, u, v, rect);
}

/* ---- lists ---- */

/* A part is large enough to be worth the counters of all pixels. */
enum { PART_TRIANGLES = 1 << 15 };

bool ct_ebpi_view_begin(ct_ebpi_view *view, const ct_ebpi_body body[2], ct_arena *arena, ct_budget *budget) {
    const size_t pixels = (size_t)view->columns * (size_t)view->rows;
    view->body = body;
    view->first = ct_arena_alloc(arena, budget, (pixels + 1) * sizeof *view->first);
    for (int b = 0; b < 2; b++) {
        const uint32_t parts = (body[b].n_triangles + PART_TRIANGLES - 1) / PART_TRIANGLES;
        view->parts[b] = parts < CT_EBPI_MOST_PARTS ? parts : CT_EBPI_MOST_PARTS;
        view->next[b] = ct_arena_alloc(arena, budget, view->parts[b] * pixels * sizeof *view->next[b]);
    }
    return view->first && view->next[0] && view->next[1];
}

bool ct_ebpi_view_place(ct_ebpi_view *view, ct_arena *arena, ct_budget *budget) {
    const size_t pixels = (size_t)view->columns * (size_t)view->rows;
    uint64_t n = 0;
    for (size_t p = 0; p < pixels; p++) {
        view->first[p] = (uint32_t)n;
        for (int b = 0; b < 2; b++)
            for (uint32_t part = 0; part < view->parts[b]; part++) {
                uint32_t *next = &view->next[b][part * pixels + p];
                const uint32_t count = *next;
                *next = (uint32_t)n;
                n += count;
            }
    }
    if (n > UINT32_MAX) return false;
    view->first[pixels] = (uint32_t)n;
    view->faces = ct_arena_alloc(arena, budget, n ? n * sizeof *view->faces : 1);
    return view->faces != NULL;
}

/* span_world_k.h - a span on the lattice as its two end points in the world, for those who ask to see spans. */
#ifndef CT_SPAN_WORLD_K_H
#define CT_SPAN_WORLD_K_H

#include "gpu/include/contact.h"
#include "gpu/view/view_k.h"

CT_FN void ct_span_to_world(const ct_window *window, int view, int32_t column, int32_t row, int32_t lower,
                            int32_t upper, int lower_body, ct_span *s) {
    const int w = view, u = ct_view_u(w), v = ct_view_v(w);
    const ct_lattice *a = window->axis;
    s->lower[u] = s->upper[u] = (float)(a[u].origin + (column + 0.5) * a[u].pitch);
    s->lower[v] = s->upper[v] = (float)(a[v].origin + (row + 0.5) * a[v].pitch);
    s->lower[w] = (float)(a[w].origin + lower * a[w].unit);
    s->upper[w] = (float)(a[w].origin + upper * a[w].unit);
    s->axis = (uint32_t)w;
    s->lower_body = (uint32_t)lower_body;
}

#endif

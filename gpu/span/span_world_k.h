/* span_world_k.h - a span on the lattice as its two end points in the world, for callers that ask for spans. */
#ifndef CT_SPAN_WORLD_K_H
#define CT_SPAN_WORLD_K_H

#include "gpu/include/contact.h"
#include "gpu/view/view_k.h"

/* u, v: the ray's lattice coordinates; lower, upper: depths of the span's ends. */
CT_FN void ct_span_to_world(const ct_window *window, int view, int32_t u, int32_t v, int32_t lower, int32_t upper,
                            int lower_body, ct_span *s) {
    const int axis_u = ct_view_u(view), axis_v = ct_view_v(view);
    const ct_lattice *a = window->axis;
    s->lower[axis_u] = s->upper[axis_u] = (float)(a[axis_u].origin + u * a[axis_u].unit);
    s->lower[axis_v] = s->upper[axis_v] = (float)(a[axis_v].origin + v * a[axis_v].unit);
    s->lower[view] = (float)(a[view].origin + lower * a[view].unit);
    s->upper[view] = (float)(a[view].origin + upper * a[view].unit);
    s->axis = (uint32_t)view;
    s->lower_body = (uint32_t)lower_body;
}

#endif

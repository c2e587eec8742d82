/* front_winding.c - winding numbers of loops around samples. */
#include "gpu/methods/ldi/front_winding.h"

#include "gpu/base/large.h"
#include "gpu/methods/ldi/front_winding_k.h"

/* The samples of a view in that plane. */
struct samples {
    ct_front_plane plane;
    size_t step_across, step_along; /* in the array */
    int32_t *winding;
};

/* So far an element counts the edges that are beyond it and not beyond the next: adds up what is beyond. */
static void add_up_along(const struct samples *s) {
    for (int32_t j = s->plane.n_along - 2; j >= 0 && !(CT_POLL_EVERY(j, 64) && ct_is_cancelled()); j--)
        for (int32_t i = 0; i < s->plane.n_across; i++) {
            int32_t *at = s->winding + (size_t)i * s->step_across + (size_t)j * s->step_along;
            *at += at[s->step_along];
        }
}

/* Returns the samples that it looked at. */
static uint32_t add_triangle(const struct samples *s, const int32_t *const q[3], int view, int32_t begin) {
    ct_front_edge edge;
    if (!ct_find_front_edge(&s->plane, q[0], q[1], q[2], view, begin, &edge)) return 0;
    for (int32_t i = edge.first; i < edge.end; i++) {
        const int32_t n = ct_samples_before_edge(&s->plane, &edge, i);
        if (n > 0) s->winding[(size_t)i * s->step_across + (size_t)(n - 1) * s->step_along] += edge.sign;
    }
    return edge.end > edge.first ? (uint32_t)(edge.end - edge.first) : 0;
}

void ct_count_front_winding(const ct_front_loops *loops, const ct_window *window, int view, int32_t *winding) {
    const ct_tile tile = ct_uniform_tile(window, view);
    const size_t row = (size_t)tile.n_u;
    const struct samples s = {ct_front_plane_of(window, view, loops->along_u), loops->along_u ? row : 1,
                              loops->along_u ? 1 : row, winding};
    enum { POLL_SAMPLES = 1 << 15, POLL_TRIANGLE = 8 }; /* a triangle costs as much as so many samples */
    uint32_t looked_at = 0;
    if (!ct_fill_large(winding, 0, row * (size_t)tile.n_v * sizeof *winding)) return;
    for (size_t r = 0; r < loops->n_runs; r++)
        for (uint32_t t = loops->runs[r].first; t < loops->runs[r].end; t++) {
            const uint32_t *k = loops->triangles + 3 * (size_t)t;
            const int32_t *const q[3] = {loops->coords[k[0]], loops->coords[k[1]], loops->coords[k[2]]};
            looked_at += POLL_TRIANGLE + add_triangle(&s, q, view, window->axis[view].lo);
            if (looked_at < POLL_SAMPLES) continue;
            looked_at = 0;
            if (ct_is_cancelled()) return;
        }
    add_up_along(&s);
}

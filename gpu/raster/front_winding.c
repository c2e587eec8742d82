/* front_winding.c - winding numbers of loops around samples. */
#include "gpu/raster/front_winding.h"

#include <string.h>

/* The view's plane with its two axes named by what they are for: edges are counted along `along`, sample by sample
 * across `across`. */
struct plane {
    int32_t shift_across, shift_along, n_across, n_along;
    size_t step_across, step_along; /* of samples in the array */
    bool along_u;
    int32_t *winding;
};

/* An edge end in that plane. */
struct point {
    int64_t across, along;
};

/* The number of samples along the line of sample `i` that have the edge beyond them. low and high: its ends, in rising
 * order across, one on each side of the line. */
static int64_t samples_before_edge(const struct plane *p, struct point low, struct point high, int32_t i) {
    const int64_t width = high.across - low.across, rise = high.along - low.along;
    const int64_t at = ct_sample_coord(i, p->shift_across) - low.across;
    /* Sample j lies before the edge where value + j * step < 0; where it is 0 the sample's displacement decides. */
    const int64_t value = width * (ct_sample_coord(0, p->shift_along) - low.along) - rise * at;
    const int64_t step = width << p->shift_along;
    /* Along v the displacement is (e, e^2): e moves the line across, so a rising edge lies beyond. Along u it is the
     * sample that moves by e, beyond the edge. */
    const int64_t limit = !p->along_u && rise > 0 ? -value : -value - 1; /* before, where j * step <= limit */
    if (limit < 0) return 0;
    const int64_t n = limit / step + 1;
    return n < p->n_along ? n : p->n_along;
}

/* Adds the edge from a to b: +1 for all samples that it passes beyond in one direction, -1 in the other. */
static void add_edge(const struct plane *p, struct point a, struct point b) {
    const bool is_rising = b.across > a.across;
    const struct point low = is_rising ? a : b, high = is_rising ? b : a;
    const int32_t first = ct_samples_below((int32_t)low.across, p->shift_across, p->n_across);
    const int32_t end = ct_samples_below((int32_t)high.across, p->shift_across, p->n_across);
    /* Seen from a sample, an edge beyond it along u that rises in v turns counter-clockwise, one beyond it along v that
     * rises in u clockwise. */
    const int32_t sign = is_rising == p->along_u ? 1 : -1;
    for (int32_t i = first; i < end; i++) {
        const int64_t n = samples_before_edge(p, low, high, i);
        if (n > 0) p->winding[(size_t)i * p->step_across + (size_t)(n - 1) * p->step_along] += sign;
    }
}

/* So far an element counts the edges that are beyond it and not beyond the next: adds up what is beyond. */
static void add_up_along(const struct plane *p) {
    for (int32_t j = p->n_along - 2; j >= 0; j--)
        for (int32_t i = 0; i < p->n_across; i++) {
            int32_t *at = p->winding + (size_t)i * p->step_across + (size_t)j * p->step_along;
            *at += at[p->step_along];
        }
}

static struct point point_of(const struct plane *p, const int32_t *q, int u, int v) {
    return p->along_u ? (struct point){q[v], q[u]} : (struct point){q[u], q[v]};
}

/* Adds the edge of a triangle that straddles: the one whose ends both lie in front. A triangle with one corner in front
 * has none; the neighbour across its edge straddles as well. */
static void add_triangle(const struct plane *p, const int32_t *const q[3], int view, int32_t begin) {
    const int u = ct_view_u(view), v = ct_view_v(view);
    const bool in_front[3] = {q[0][view] < begin, q[1][view] < begin, q[2][view] < begin};
    if (in_front[0] + in_front[1] + in_front[2] != 2) return;
    const int first = !in_front[0] ? 1 : !in_front[1] ? 2 : 0;
    add_edge(p, point_of(p, q[first], u, v), point_of(p, q[(first + 1) % 3], u, v));
}

void ct_count_front_winding(const ct_front_loops *loops, const ct_window *window, int view, int32_t *winding) {
    const ct_tile tile = ct_uniform_tile(window, view);
    const size_t row = (size_t)tile.n_u;
    const struct plane u = {tile.shift_v, tile.shift_u, tile.n_v, tile.n_u, row, 1, true, winding};
    const struct plane v = {tile.shift_u, tile.shift_v, tile.n_u, tile.n_v, 1, row, false, winding};
    const struct plane *p = loops->along_u ? &u : &v;
    memset(winding, 0, row * (size_t)tile.n_v * sizeof *winding);
    for (size_t r = 0; r < loops->n_runs; r++)
        for (uint32_t t = loops->runs[r].first; t < loops->runs[r].end; t++) {
            const uint32_t *k = loops->triangles + 3 * (size_t)t;
            const int32_t *const q[3] = {loops->coords[k[0]], loops->coords[k[1]], loops->coords[k[2]]};
            add_triangle(p, q, view, window->axis[view].lo);
        }
    add_up_along(p);
}

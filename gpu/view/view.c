/* view.c - window planning. */
#include "gpu/view/view.h"

#include <math.h>

#include "gpu/base/fail.h"

static const char axis_name[3] = {'x', 'y', 'z'};

static ct_status plan_axis(int axis, double lo, double hi, double body_lo, double body_hi,
                           const ct_scene_settings *settings, ct_lattice *lattice, ct_error *error) {
    double reach = fmax(hi - body_lo, body_hi - lo); /* from any point of the window to any point of a body */
    double finest = ldexp(reach, 1 - CT_COORD_BITS);
    double n, pitch, origin = lo;
    if (settings->pixel_size > 0) {
        pitch = settings->pixel_size;
        if (pitch < finest)
            return ct_fail(error, CT_OUT_OF_RANGE, "pixel_size",
                           "pixel_size %g m is finer than positions can be told apart along %c, where the bodies reach "
                           "over %g m: at least %g m is needed",
                           pitch, axis_name[axis], reach, finest);
        double first = floor(lo / pitch);
        n = ceil(hi / pitch) - first;
        if (n < 1) n = 1;
        if (n > CT_MAX_RESOLUTION)
            return ct_fail(error, CT_LIMIT_EXCEEDED, "pixel_size",
                           "pixel_size %g m needs %.0f samples along %c, where the boxes overlap over %g m: at most %d "
                           "are allowed, so use at least %g m",
                           pitch, n, axis_name[axis], hi - lo, CT_MAX_RESOLUTION, (hi - lo) / (CT_MAX_RESOLUTION - 1));
        origin = first * pitch;
        reach += 2 * pitch; /* the window begins up to a pitch before lo and ends up to a pitch after hi */
    } else {
        n = settings->resolution[axis];
        pitch = (hi - lo) / n;
        if (pitch < finest) {
            pitch = finest;
            n = fmin(n, ceil((hi - lo) / pitch));
        }
    }
    int shift = ilogb(ldexp(pitch / reach, CT_COORD_BITS));
    if (shift > CT_COORD_BITS) shift = CT_COORD_BITS;
    if (shift < 1) shift = 1; /* pitch == finest, up to rounding */
    lattice->origin = origin;
    lattice->pitch = pitch;
    lattice->scale = ldexp(1, shift) / pitch;
    lattice->unit = ldexp(pitch, -shift);
    lattice->shift = shift;
    lattice->n = (int32_t)n;
    lattice->lo = (int32_t)floor((lo - origin) * lattice->scale) - 1;
    lattice->hi = (int32_t)ceil((hi - origin) * lattice->scale) + 1;
    return CT_OK;
}

ct_status ct_view_plan(const ct_box *a, const ct_box *b, const ct_scene_settings *settings, ct_window *window,
                       ct_error *error) {
    for (int i = 0; i < 3; i++) {
        double lo = fmax(a->lo[i], b->lo[i]), hi = fmin(a->hi[i], b->hi[i]);
        double body_lo = fmin(a->lo[i], b->lo[i]), body_hi = fmax(a->hi[i], b->hi[i]);
        ct_status status = plan_axis(i, lo, hi, body_lo, body_hi, settings, &window->axis[i], error);
        if (status) return status;
    }
    return CT_OK;
}

/* view_k.h - the window and lattice of a pair, and the conversion of positions to lattice coordinates.
 *
 *     |------o------|------o------|------o------|   an axis with n = 3 samples (o)
 *     ^      ^      ^
 *     |      |      lattice coordinate 2^shift: one pitch
 *     |      sample 0, lattice coordinate 2^(shift - 1)
 *     origin, lattice coordinate 0
 *
 * Each axis of a window has n samples at the centres of n intervals of one pitch. A view looks along one axis; its rays
 * are the samples of the other two. Positions are snapped once per pair to integers, and all three views use these.
 * Coverage is then exact, so no ray passes between two adjacent triangles, and depth differences lose no digits far
 * from the world's origin.
 *
 * Why three views: a view along w yields only the w component of the volume's derivative with respect to a vertex;
 * three orthogonal views are necessary and sufficient for the gradient (Faure 2008, section 3.2). Each view also yields
 * the volume, and the spread of the three estimates its error.
 */
#ifndef CT_VIEW_K_H
#define CT_VIEW_K_H

#include <math.h>

#include "gpu/base/box.h"
#include "gpu/base/kernel.h"

/* Lattice coordinates are within +-2^28 or a few units more, because ct_plan_axis chooses the shift accordingly. So
 * differences fit in int32 and edge functions in int64. */
#define CT_COORD_BITS 28

typedef struct ct_lattice {
    double origin;  /* m, world coordinate of lattice coordinate 0, the lower end of the window */
    double pitch;   /* m between samples */
    double scale;   /* units per metre, 2^shift / pitch */
    double unit;    /* m per unit, pitch / 2^shift */
    int32_t shift;  /* 1..28 */
    int32_t n;      /* samples */
    int32_t lo, hi; /* ends of the boxes' overlap in lattice coordinates, rounded outwards */
    double across;  /* length, in pitches, of the part that the samples span: n, or less on a pixel lattice */
} ct_lattice;

typedef struct ct_window {
    ct_lattice axis[3];
} ct_window;

/* The other two axes of the view along w; (u, v, w) is right-handed, so a triangle that is counter-clockwise in (u, v)
 * has its outward normal along +w and a ray leaves the body there. */
CT_FN int ct_view_u(int w) {
    return w == 2 ? 0 : w + 1;
}
CT_FN int ct_view_v(int w) {
    return w == 0 ? 2 : w - 1;
}

/* Lattice coordinate of sample i. */
CT_FN int32_t ct_sample_coord(int32_t i, int32_t shift) {
    return (int32_t)((2 * (uint32_t)i + 1) << (shift - 1));
}

/* The number of samples strictly below lattice coordinate q. A triangle that spans [q0, q1) along an axis can cover
 * exactly the samples ct_samples_below(q0) .. ct_samples_below(q1) - 1 of it. */
CT_FN int32_t ct_samples_below(int32_t q, int32_t shift, int32_t n) {
    int32_t c = (q + (1 << (shift - 1)) - 1) >> shift;
    return c < 0 ? 0 : c > n ? n : c;
}

/* World coordinate of a vertex of a rigid body; `row` is a row of the pose. In double, without rounding to float. */
CT_FN double ct_pose_coord(const double *row, float x, float y, float z) {
    return row[0] * x + row[1] * y + row[2] * z + row[3];
}

CT_FN int32_t ct_snap(double p, double origin, double scale) {
    return ct_round_i32((p - origin) * scale);
}

/* ---- planning ---- */

/* The overlap of two boxes, which must meet. */
CT_FN ct_box ct_overlap(const ct_box *a, const ct_box *b) {
    ct_box box;
    for (int k = 0; k < 3; k++) {
        box.lo[k] = fmax(a->lo[k], b->lo[k]) + 0.0;
        box.hi[k] = fmin(a->hi[k], b->hi[k]) + 0.0;
    }
    return box;
}

typedef enum ct_plan_status {
    CT_PLAN_OK,
    CT_PLAN_TOO_FINE, /* pixel_size is below `finest` */
    CT_PLAN_TOO_MANY, /* pixel_size needs `samples`, more than max_samples */
} ct_plan_status;

/* The numbers behind a failed plan, for its error message. */
typedef struct ct_plan_need {
    double lo, hi; /* m, ends of the samples */
    double reach;  /* m, the largest distance from a point of the window to a point of a body */
    double finest; /* m, the smallest pitch possible */
    double samples;
} ct_plan_need;

/* Plans axis k of the window of two bodies. part: the part of their boxes' overlap that the samples span. The depths of
 * the view along the axis are the overlap's, and precision follows from them: with pixel_size a part's samples give
 * what they give in the whole overlap. If pixel_size is 0, `resolution` samples. */
CT_FN ct_plan_status ct_plan_axis(const ct_box *a, const ct_box *b, const ct_box *part, int k, double pixel_size,
                                  double resolution, double max_samples, ct_lattice *lattice, ct_plan_need *need) {
    const double begin = fmax(a->lo[k], b->lo[k]), end = fmin(a->hi[k], b->hi[k]);
    const double lo = part->lo[k] + 0.0, hi = part->hi[k] + 0.0; /* + 0.0 turns -0 into 0 */
    double reach = fmax(end - fmin(a->lo[k], b->lo[k]), fmax(a->hi[k], b->hi[k]) - begin);
    double finest = ldexp(reach, 1 - CT_COORD_BITS);
    double n = resolution, pitch, origin = lo;
    need->lo = lo;
    need->hi = hi;
    need->reach = reach;
    need->finest = finest;
    if (pixel_size > 0) {
        pitch = pixel_size;
        if (pitch < finest) return CT_PLAN_TOO_FINE;
        double first = floor(lo / pitch);
        n = ceil(hi / pitch) - first;
        if (n < 1) n = 1;
        need->samples = n;
        if (n > max_samples) return CT_PLAN_TOO_MANY;
        origin = first * pitch;
        reach += 2 * pitch; /* the grid extends the window by up to a pitch at each end */
    } else {
        pitch = (hi - lo) / n;
        if (pitch < finest) {
            pitch = finest;
            n = fmin(n, ceil((hi - lo) / pitch));
        }
    }
    int shift = ilogb(ldexp(pitch / reach, CT_COORD_BITS));
    if (shift > CT_COORD_BITS) shift = CT_COORD_BITS;
    if (shift < 1) shift = 1; /* pitch is `finest` up to rounding */
    lattice->origin = origin;
    lattice->pitch = pitch;
    lattice->scale = ldexp(1.0, shift) / pitch;
    lattice->unit = ldexp(pitch, -shift);
    lattice->shift = shift;
    lattice->n = (int32_t)n;
    lattice->across = fmin((hi - lo) / pitch, n);
    lattice->lo = (int32_t)floor((begin - origin) * lattice->scale) - 1;
    lattice->hi = (int32_t)ceil((end - origin) * lattice->scale) + 1;
    return CT_PLAN_OK;
}

#endif

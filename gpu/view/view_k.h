/* view_k.h - the window and lattice of a pair, and how positions become lattice coordinates.
 *
 * Each axis of a pair's window has samples at the centres of `n` intervals of `pitch`; the view along one axis casts
 * its rays at the samples of the other two. Positions are snapped once per pair to integers, `2^shift` units to a
 * pitch, and all three views work on those: coverage is then exact (no ray slips between two triangles), and a depth
 * difference does not depend on how far from the origin the world coordinates are.
 */
#ifndef CT_VIEW_K_H
#define CT_VIEW_K_H

#include <math.h>

#include "gpu/base/box.h"
#include "gpu/base/kernel.h"

/* Lattice coordinates stay within +-2^28 or a few units more (ct_view_plan chooses the shift), so that differences fit
 * in int32 with room and edge functions in int64. */
#define CT_COORD_BITS 28

typedef struct ct_lattice {
    double origin;  /* m, world coordinate of lattice coordinate 0, where the window begins */
    double pitch;   /* m between samples */
    double scale;   /* units per metre, 2^shift / pitch */
    double unit;    /* m per unit, pitch / 2^shift */
    int32_t shift;  /* 1..28 */
    int32_t n;      /* samples */
    int32_t lo, hi; /* lattice coordinates within which the boxes of both bodies overlap, rounded outwards */
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

/* World position of a body's vertex, in double: rigid bodies are posed here, every step, and never rounded to float. */
CT_FN double ct_pose_coord(const double *row, float x, float y, float z) {
    return row[0] * x + row[1] * y + row[2] * z + row[3];
}

CT_FN int32_t ct_snap(double p, double origin, double scale) {
    return ct_round_i32((p - origin) * scale);
}

/* ---- planning ---- */

typedef enum ct_plan_status {
    CT_PLAN_OK,
    CT_PLAN_TOO_FINE, /* the pitch asked for is below `finest` */
    CT_PLAN_TOO_MANY, /* it needs `samples`, more than are allowed */
} ct_plan_status;

/* What a refused plan was about. */
typedef struct ct_plan_need {
    double lo, hi; /* m, where both boxes are */
    double reach;  /* m, from any point of the window to any point of a body */
    double finest; /* m */
    double samples;
} ct_plan_need;

/* One axis of a pair's window: both boxes' ends along it, the pitch wished for, or (0) the number of samples. */
CT_FN ct_plan_status ct_plan_axis(double a_lo, double a_hi, double b_lo, double b_hi, double pixel_size,
                                  double resolution, double max_samples, ct_lattice *lattice, ct_plan_need *need) {
    double lo = fmax(a_lo, b_lo) + 0.0, hi = fmin(a_hi, b_hi) + 0.0; /* + 0.0: there is but one zero */
    double reach = fmax(hi - fmin(a_lo, b_lo), fmax(a_hi, b_hi) - lo);
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
        reach += 2 * pitch; /* the window begins up to a pitch before lo and ends up to a pitch after hi */
    } else {
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
    lattice->scale = ldexp(1.0, shift) / pitch;
    lattice->unit = ldexp(pitch, -shift);
    lattice->shift = shift;
    lattice->n = (int32_t)n;
    lattice->lo = (int32_t)floor((lo - origin) * lattice->scale) - 1;
    lattice->hi = (int32_t)ceil((hi - origin) * lattice->scale) + 1;
    return CT_PLAN_OK;
}

#endif

/* view_k.h - the window and lattice of a pair, and how positions become lattice coordinates.
 *
 * Each axis of a pair's window has samples at the centres of `n` intervals of `pitch`; the view along one axis casts
 * its rays at the samples of the other two. Positions are snapped once per pair to integers, `2^shift` units to a
 * pitch, and all three views work on those: coverage is then exact (no ray slips between two triangles), and a depth
 * difference does not depend on how far from the origin the world coordinates are.
 */
#ifndef CT_VIEW_K_H
#define CT_VIEW_K_H

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
 * exactly the samples ct_cell(q0) .. ct_cell(q1) - 1 of it. */
CT_FN int32_t ct_cell(int32_t q, int32_t shift, int32_t n) {
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

#endif

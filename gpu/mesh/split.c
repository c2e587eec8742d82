/* split.c - which doubles float32 holds, and where from the others are told. */
#include "gpu/mesh/split.h"

#include <math.h>

#include "gpu/base/cancel.h"
#include "gpu/mesh/digits.h"

enum { POLL = 1 << 14 };

bool ct_are_floats(const void *doubles, size_t n, double scale) {
    for (size_t i = 0; i < n; i++) {
        if (CT_POLL_EVERY(i, POLL) && ct_is_cancelled()) return true;
        const double x = ct_load_double(doubles, i) * scale;
        if (x != (double)(float)x && !isnan(x)) return false;
    }
    return true;
}

void ct_choose_split_origin(const void *doubles, size_t n, double scale, double origin[3]) {
    double lo[3] = {INFINITY, INFINITY, INFINITY}, hi[3] = {-INFINITY, -INFINITY, -INFINITY};
    memset(origin, 0, 3 * sizeof *origin);
    for (size_t i = 0; i < 3 * n; i++) {
        if (CT_POLL_EVERY(i, POLL) && ct_is_cancelled()) return;
        const double x = ct_load_double(doubles, i) * scale;
        if (!isfinite(x)) return;
        lo[i % 3] = fmin(lo[i % 3], x);
        hi[i % 3] = fmax(hi[i % 3], x);
    }
    if (n) ct_choose_box_origin(lo, hi, origin);
}

void ct_choose_box_origin(const double lo[3], const double hi[3], double origin[3]) {
    double extent = 0, away = 0;
    memset(origin, 0, 3 * sizeof *origin);
    for (int k = 0; k < 3; k++) {
        extent = fmax(extent, hi[k] - lo[k]);
        away = fmax(away, fmax(fabs(lo[k]), fabs(hi[k])));
    }
    /* Nearer than this float32 is as fine about one as about the other, but for a bit or two. */
    if (!(away > CT_FAR * extent) || !(extent > 0)) return;
    int exponent;
    frexp(extent, &exponent);
    const double step = ldexp(1, exponent - 4); /* so that few bits of the origin are set */
    for (int k = 0; k < 3; k++) origin[k] = rint((0.5 * lo[k] + 0.5 * hi[k]) / step) * step;
}

/* Steps to the nearest rotation, each of which leaves the square of what a matrix is off. */
static void make_rotation(double pose[12]) {
    enum { STEPS = 3 }; /* from CT_POSE_OFF to rounding */
    for (int step = 0; step < STEPS; step++) {
        double off[3][3], change[3][3], worst = 0;
        for (int a = 0; a < 3; a++)
            for (int b = 0; b < 3; b++) {
                off[a][b] = pose[a] * pose[b] + pose[4 + a] * pose[4 + b] + pose[8 + a] * pose[8 + b] - (a == b);
                worst = fmax(worst, fabs(off[a][b]));
            }
        if (!(worst > 1e-12)) return; /* rounding stays as it is */
        for (int i = 0; i < 3; i++)
            for (int b = 0; b < 3; b++)
                change[i][b] =
                    (pose[4 * i] * off[0][b] + pose[4 * i + 1] * off[1][b] + pose[4 * i + 2] * off[2][b]) / 2;
        for (int i = 0; i < 3; i++)
            for (int b = 0; b < 3; b++) pose[4 * i + b] -= change[i][b];
    }
}

void ct_pose_from_origin(const double given[12], const double origin[3], double pose[12]) {
    memcpy(pose, given, 12 * sizeof *pose);
    make_rotation(pose);
    for (int k = 0; k < 3; k++)
        pose[4 * k + 3] += pose[4 * k] * origin[0] + pose[4 * k + 1] * origin[1] + pose[4 * k + 2] * origin[2];
}

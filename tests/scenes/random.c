/* random.c - random numbers, poses and trigonometry for shapes, with the same bits on every platform. */
#include <math.h>
#include <string.h>

#include "tests/scenes/build.h"

uint64_t shape_random(uint64_t *rng) {
    uint64_t z = *rng += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

double shape_uniform(uint64_t *rng, double lo, double hi) {
    return lo + (hi - lo) * ((double)(shape_random(rng) >> 11) * 0x1p-53);
}

/* Taylor series on an eighth of a turn. */
void shape_turn(double turns, double *cosine, double *sine) {
    turns -= floor(turns);
    int quarter = (int)(4 * turns + 0.5);
    double x = (turns - quarter * 0.25) * 6.283185307179586477, xx = x * x;
    double c = 1, s = 1, term = 1;
    for (int k = 1; k < 12; k++) {
        term *= -xx / ((2 * k - 1) * (2 * k));
        c += term;
        s += term / (2 * k + 1);
    }
    s *= x;
    const double cosines[4] = {c, -s, -c, s}, sines[4] = {s, c, -s, -c};
    *cosine = cosines[quarter & 3];
    *sine = sines[quarter & 3];
}

void shape_pose_identity(double pose[12]) {
    static const double identity[12] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0};
    memcpy(pose, identity, sizeof identity);
}

static void pose_of_quaternion(const double q[4], double pose[12]) {
    double w = q[0], x = q[1], y = q[2], z = q[3];
    const double r[3][3] = {{1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)},
                            {2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)},
                            {2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)}};
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) pose[4 * i + k] = r[i][k];
}

void shape_pose_random(uint64_t *rng, double reach, double pose[12]) {
    double q[4], length;
    do { /* uniform on the sphere in four dimensions, by rejection */
        length = 0;
        for (int i = 0; i < 4; i++) {
            q[i] = shape_uniform(rng, -1, 1);
            length += q[i] * q[i];
        }
    } while (length > 1 || length < 0.01);
    length = sqrt(length);
    for (int i = 0; i < 4; i++) q[i] /= length;
    pose_of_quaternion(q, pose);
    for (int i = 0; i < 3; i++) pose[4 * i + 3] = shape_uniform(rng, -reach, reach);
}

void shape_pose_axis(const double axis[3], double turns, const double translation[3], double pose[12]) {
    double length = sqrt(axis[0] * axis[0] + axis[1] * axis[1] + axis[2] * axis[2]);
    double q[4], sine;
    shape_turn(turns / 2, &q[0], &sine);
    for (int i = 0; i < 3; i++) q[i + 1] = sine * axis[i] / length;
    pose_of_quaternion(q, pose);
    for (int i = 0; i < 3; i++) pose[4 * i + 3] = translation[i];
}

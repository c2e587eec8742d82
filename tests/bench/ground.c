/* ground.c - tori that lie on a wavy slab. */
#include "tests/bench/ground.h"

/* m. 64 x 64 tori, each 0.4 m wide, have 0.1 m between them. */
static const double side = 32, thickness = 1, wave = 0.1, ring_radius = 0.15, tube_radius = 0.05;
enum { WAVES = 3 };

/* m, how deep a torus sinks in at its middle. The slope of the waves takes up to 0.009 of it at the ring's far side,
 * the coarse slab, which cuts crests off, 0.006. */
static const double depth = 0.02;
const double ground_reach = 0.002;

struct shape ground_slab(int n) {
    return shape_slab(side, thickness, wave, WAVES, n);
}

struct shape ground_torus(void) {
    return shape_torus(ring_radius, tube_radius, 32, 16);
}

void ground_torus_pose(unsigned i, unsigned n, double pose[12]) {
    const double up[3] = {0, 0, 1}, golden = 0.6180339887498949;
    unsigned row = 1;
    while (row * row < n) row++;
    double cell = side / row, x = (i % row + 0.5) * cell - side / 2, y = (double)(i / row) * cell + (cell - side) / 2;
    const double center[3] = {x, y, shape_slab_top(side, wave, WAVES, x, y) + tube_radius - depth};
    shape_pose_axis(up, golden * i, center, pose);
}

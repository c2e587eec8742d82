/* poses.h - where bodies begin that several benches have, row-major 3x4 [R|t]. */
#ifndef TESTS_BENCH_POSES_H
#define TESTS_BENCH_POSES_H

/* Placements with a deep, general overlap: no axis in common, 46 % of the first body's volume inside the second. */
static const double bunny_pose[12] = {0.9130000879626036, -0.325463842611161,  0.24597586575323946, 0,
                                      0.3522330463149753, 0.9330769907404642,  -0.0727956759319679, 0,
                                      -0.205822060197518, 0.15310328704341084, 0.9665384953702322,  0};
static const double cube_pose[12] = {0.9659258262890683,  -0.1830127018922193, 0.1830127018922193,  0.9,
                                     0.1830127018922193,  0.9829629131445341,  0.01703708685546584, 0.5,
                                     -0.1830127018922193, 0.01703708685546584, 0.9829629131445341,  0.4};

#endif

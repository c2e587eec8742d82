/* trajectory.h - where rigid bodies are over time, read from a CSV file: for contactctl judge. */
#ifndef CONTACTCTL_TRAJECTORY_H
#define CONTACTCTL_TRAJECTORY_H

#include "client_c/ctl/ctl.h"

typedef struct ctl_trajectory {
    size_t n_frames, n_bodies;
    double *times; /* [n_frames] s, rising */
    double *poses; /* [n_frames][n_bodies][12], row-major [R|t] */
} ctl_trajectory;

/* Reads columns time, body, x, y, z, qx, qy, qz, qw, in any order and among others; a row for each body and time.
 * names: [n] of the bodies; one without any row rests at the origin. An exit code; after a message EXIT_USAGE: the
 * file cannot be read, EXIT_REFUSED: it holds something else. *out is freed by ctl_trajectory_free, whatever the code
 * is. */
int ctl_read_trajectory(const char *path, const char *const *names, size_t n, ctl_trajectory *out);
void ctl_trajectory_free(ctl_trajectory *trajectory);

#endif

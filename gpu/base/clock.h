/* clock.h - the clock that phases are timed with. */
#ifndef CT_CLOCK_H
#define CT_CLOCK_H

#include <time.h>

/* Seconds since some fixed moment, never going backwards. */
static inline double ct_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif

/* clock.h - monotonic time, for deadlines, leases and measurements. */
#ifndef SERVER_CLOCK_H
#define SERVER_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* A time that lies so much later, though not after now: for what is measured from it, the time between did not pass. */
static inline uint64_t clock_later(uint64_t then_ns, uint64_t by_ns, uint64_t now_ns) {
    return then_ns + by_ns < now_ns ? then_ns + by_ns : now_ns;
}

#endif

/* spin.h - how long to look for a message before sleeping: for the C client, which waits for answers, and for the
 * server's stream, which waits for requests.
 *
 * A core that sleeps takes 50 us and more to wake on many (virtual) machines, as long as a small step takes to compute.
 * Who looks again and again instead is there at once, but keeps a core busy. So a wait spins only for a bounded while,
 * gives the core away between two looks, and spins at all only while waits lately ended within that bound: the process
 * of long steps sleeps, and so does an idle one.
 */
#ifndef CONTACTD_SPIN_H
#define CONTACTD_SPIN_H

#include <sched.h>
#include <stdint.h>

typedef struct wire_spin {
    uint64_t bound_ns; /* of one wait; 0: never spin */
    uint32_t credit;   /* 0: waits were too long lately */
    uint32_t waits;
} wire_spin;

/* On a single core whoever is waited for could not run meanwhile: there it is always 0. */
static inline void wire_spin_init(wire_spin *spin, uint32_t bound_us) {
    cpu_set_t cores;
    int n = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 2; /* fails beyond 1,024 cores */
    spin->bound_ns = n > 1 ? (uint64_t)bound_us * 1000u : 0;
    spin->credit = 1;
    spin->waits = 0;
}

/* How long the wait that begins now may spin, ns. Now and then one is tried although the last ones were long: asleep,
 * a wait seems longer than it would be. */
static inline uint64_t wire_spin_begin(wire_spin *spin) {
    enum { TRY_EVERY = 64 };
    return spin->credit || ++spin->waits % TRY_EVERY == 0 ? spin->bound_ns : 0;
}

/* A wait has ended with a message. */
static inline void wire_spin_end(wire_spin *spin, uint64_t waited_ns) {
    enum { MOST = 8 };
    if (waited_ns > spin->bound_ns)
        spin->credit /= 2;
    else if (spin->credit < MOST)
        spin->credit++;
}

/* Between two looks. */
static inline void wire_spin_pause(void) {
    sched_yield();
}

#endif

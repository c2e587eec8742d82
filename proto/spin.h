/* spin.h - how long to look for a message before sleeping: for the C client, which waits for answers, and for the
 * server's stream, which waits for requests.
 *
 * A core that sleeps takes 50 us and more to wake on many (virtual) machines, as long as a small step takes to compute.
 * Who looks again and again instead is there at once, but keeps a core busy. So a wait spins only for a bounded while
 * and gives the core away between two looks. Where a wait that spun was in vain, the next ones sleep at once, more of
 * them each time: a process of long steps sleeps, and so does one among many that want the cores, where the one who
 * sleeps is let in before the one who gave its turn away.
 */
#ifndef CONTACTD_SPIN_H
#define CONTACTD_SPIN_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct wire_spin {
    uint64_t bound_ns; /* of one wait; 0: never spin */
    uint32_t pause;    /* waits that slept after the last one in vain; halved by each that was not */
    uint32_t left;     /* of these */
    bool spins;        /* the wait that runs */
} wire_spin;

/* On a single core whoever is waited for could not run meanwhile: there it never spins. */
static inline void wire_spin_init(wire_spin *spin, uint32_t bound_us) {
    cpu_set_t cores;
    int n = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 2; /* fails beyond 1,024 cores */
    spin->bound_ns = n > 1 ? (uint64_t)bound_us * 1000u : 0;
    spin->pause = spin->left = 0;
    spin->spins = false;
}

/* How long the wait that begins now may spin, ns. */
static inline uint64_t wire_spin_begin(wire_spin *spin) {
    spin->spins = spin->bound_ns && spin->left == 0;
    if (spin->left) spin->left--;
    return spin->spins ? spin->bound_ns : 0;
}

/* The wait has ended with a message. */
static inline void wire_spin_end(wire_spin *spin, uint64_t waited_ns) {
    const uint32_t most = 1024;
    if (!spin->spins) return;
    if (waited_ns <= spin->bound_ns) {
        spin->pause /= 2;
    } else {
        spin->pause = spin->pause == 0 ? 1 : spin->pause < most ? 2 * spin->pause : most;
        spin->left = spin->pause;
    }
}

/* Between two looks. */
static inline void wire_spin_pause(void) {
    sched_yield();
}

#endif

/* spin.h - how long to look for a message before sleeping: for the C client, which waits for answers, and for the
 * server's stream, which waits for requests.
 *
 * A core that sleeps takes 50 us and more to wake on many (virtual) machines, as long as a small step takes to compute,
 * and some 300 us where the host is busy. Who looks again and again instead is there at once, but keeps a core busy. So
 * a wait spins only for a bounded while and gives the core away between two looks. Where a wait that spun was in vain,
 * the next ones sleep at once, more of them each time: a process of long steps sleeps, and so does one among many that
 * want the cores, where the one who sleeps is let in before the one who gave its turn away.
 *
 * In vain was what took longer than the bound, or much longer than waits that sleep take: that tells a busy machine,
 * where it is better to sleep, from one on which both sides sleep and are slow for that, so that the first one to spin
 * gains. The bounds are to be longer than a small step takes then (1 to 1.5 ms on a busy host).
 */
#ifndef CONTACTD_SPIN_H
#define CONTACTD_SPIN_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct wire_spin {
    uint64_t bound_ns; /* of one wait; 0: never spin */
    uint64_t slept_ns; /* what waits that slept took, the last eight or so on average; 0: none yet */
    uint32_t pause;    /* waits that slept after the last one in vain; halved by each that was not */
    uint32_t left;     /* of these */
    bool spins;        /* the wait that runs */
} wire_spin;

/* On a single core too: whoever is waited for gets the turns that are given away. */
static inline void wire_spin_init(wire_spin *spin, uint32_t bound_us) {
    spin->bound_ns = (uint64_t)bound_us * 1000u;
    spin->slept_ns = 0;
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
    if (!spin->spins) {
        spin->slept_ns = spin->slept_ns ? spin->slept_ns - spin->slept_ns / 8 + waited_ns / 8 : waited_ns;
    } else if (waited_ns <= spin->bound_ns && (!spin->slept_ns || waited_ns / 2 <= spin->slept_ns)) {
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

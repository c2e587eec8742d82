/* spin.h - how long a wait for a message busy-polls before it sleeps: for the C client, which waits for answers, and
 * for the server's stream, which waits for requests.
 *
 * A sleeping core takes 50 us and more to wake on many (virtual) machines, as long as a small step takes to compute,
 * and about 300 us on a busy host. A thread that busy-polls sees the message at once, but keeps a core busy. So a wait
 * spins only up to a bound, and calls sched_yield between two looks. A wait that exceeds its bound counts as failed:
 * the next waits sleep at once, twice as many after each further failure. So a process of long steps sleeps. So does a
 * process on a machine whose cores are all wanted: the kernel runs a thread that slept before one that yielded.
 *
 * A wait also counts as failed if it took more than twice as long as waits that sleep take on average. That tells a
 * busy machine, where sleeping is better, from one where both sides sleep and are slow for that reason, where the first
 * one to spin gains. The bound should exceed a small step's time in that case (1 to 1.5 ms on a busy host).
 */
#ifndef CONTACTD_SPIN_H
#define CONTACTD_SPIN_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct wire_spin {
    uint64_t bound_ns; /* of one wait; 0: never spin */
    uint64_t slept_ns; /* smoothed duration of waits that slept (about the last eight); 0: none yet */
    uint32_t backoff;  /* waits that sleep after a failed spin; doubled by each failure, halved by each success */
    uint32_t left;     /* of these, still to come */
    bool spins;        /* the present wait does */
} wire_spin;

/* On one core too: there, sched_yield lets the peer run. */
static inline void wire_spin_init(wire_spin *spin, uint32_t bound_us) {
    spin->bound_ns = (uint64_t)bound_us * 1000u;
    spin->slept_ns = 0;
    spin->backoff = spin->left = 0;
    spin->spins = false;
}

/* A wait begins. Returns how long it may spin, ns. */
static inline uint64_t wire_spin_begin(wire_spin *spin) {
    spin->spins = spin->bound_ns && spin->left == 0;
    if (spin->left) spin->left--;
    return spin->spins ? spin->bound_ns : 0;
}

/* The wait has ended with a message. */
static inline void wire_spin_end(wire_spin *spin, uint64_t waited_ns) {
    const uint32_t max_backoff = 1024;
    if (!spin->spins) {
        spin->slept_ns = spin->slept_ns ? spin->slept_ns - spin->slept_ns / 8 + waited_ns / 8 : waited_ns;
    } else if (waited_ns <= spin->bound_ns && (!spin->slept_ns || waited_ns / 2 <= spin->slept_ns)) {
        spin->backoff /= 2;
    } else {
        spin->backoff = spin->backoff == 0 ? 1 : spin->backoff < max_backoff ? 2 * spin->backoff : max_backoff;
        spin->left = spin->backoff;
    }
}

/* Between two looks. */
static inline void wire_spin_pause(void) {
    sched_yield();
}

#endif

/* courier.h - the thread on which ZeroMQ sends and receives, and whether it interrupts others: for the C client and for
 * the server's stream, each of which has one.
 *
 * Where both sides of a connection look for messages awake (spin.h), every core has someone on it who gives his turn
 * away at each look. The kernel cannot know that: it interrupts him for the thread that is to carry the next message,
 * and on a virtual machine an interrupt to another core holds up whoever sends it for 10 to 20 us, four times a round
 * trip. A thread of the policy SCHED_BATCH interrupts nobody, and runs when the next turn is given away. Both sides
 * need to do so: a third of a small step's round trip is saved then. But where others compute on all cores it runs
 * late, by a tick of the kernel's clock or some. So it gives way only while its side looks for messages awake.
 *
 * A courier that has another policy than the usual one, SCHED_OTHER, was given it on purpose, and is left alone. */
#ifndef CONTACTD_COURIER_H
#define CONTACTD_COURIER_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

typedef struct wire_courier {
    int32_t thread; /* 0: not known, or to be left alone */
    bool gives_way;
} wire_courier;

/* To be called by the courier itself: by the free function of a message that it has sent. */
static inline void wire_courier_is_here(wire_courier *courier) {
    __atomic_store_n(&courier->thread, (int32_t)gettid(), __ATOMIC_RELAXED);
}

/* By one thread at a time. */
static inline void wire_courier_give_way(wire_courier *courier, bool give_way) {
    if (courier->gives_way == give_way) return;
    const int32_t thread = __atomic_load_n(&courier->thread, __ATOMIC_RELAXED);
    if (thread == 0) return;
    struct sched_param none;
    none.sched_priority = 0;
    courier->gives_way = give_way;
    /* The caller itself it is if a message could not be sent and was freed at once. */
    if (thread != (int32_t)gettid() && sched_getscheduler(thread) == (give_way ? SCHED_OTHER : SCHED_BATCH) &&
        sched_setscheduler(thread, give_way ? SCHED_BATCH : SCHED_OTHER, &none) == 0)
        return;
    courier->gives_way = false;
    __atomic_store_n(&courier->thread, 0, __ATOMIC_RELAXED);
}

#endif

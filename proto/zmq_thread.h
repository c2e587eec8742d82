/* zmq_thread.h - the scheduling policy of ZeroMQ's I/O thread, for the C client and the server's stream, each of which
 * has one such thread.
 *
 * While both sides of a connection busy-poll (spin.h), every core runs a thread that calls sched_yield at each look.
 * The kernel does not know that: to run the ZeroMQ thread it interrupts another core, and on a virtual machine sending
 * that interrupt takes 10 to 20 us, four times a round trip. A thread of the policy SCHED_BATCH causes no such
 * interrupt; it runs at the next sched_yield. With both sides in that policy a small step's round trip takes a third
 * less. Where other threads compute on all cores, a SCHED_BATCH thread starts up to a few ticks of the kernel's clock
 * late. So it has this policy only while its side busy-polls.
 *
 * A thread whose policy is neither SCHED_OTHER nor the one set here was given it on purpose, and is not changed. */
#ifndef CONTACTD_ZMQ_THREAD_H
#define CONTACTD_ZMQ_THREAD_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

typedef struct wire_zmq_thread {
    int32_t id; /* of the kernel; 0: not known, or not to be changed */
    bool is_batch;
} wire_zmq_thread;

/* Called on the ZeroMQ thread: by the free function of a message that it has sent. */
static inline void wire_zmq_thread_register(wire_zmq_thread *thread) {
    __atomic_store_n(&thread->id, (int32_t)gettid(), __ATOMIC_RELAXED);
}

/* Sets the policy to SCHED_BATCH, or back to SCHED_OTHER. By one thread at a time. */
static inline void wire_zmq_thread_set_batch(wire_zmq_thread *thread, bool to_batch) {
    if (thread->is_batch == to_batch) return;
    const int32_t id = __atomic_load_n(&thread->id, __ATOMIC_RELAXED);
    if (id == 0) return;
    struct sched_param none;
    none.sched_priority = 0;
    thread->is_batch = to_batch;
    /* A message that could not be sent is freed at once, by the caller's own thread, which then registered itself. */
    if (id != (int32_t)gettid() && sched_getscheduler(id) == (to_batch ? SCHED_OTHER : SCHED_BATCH) &&
        sched_setscheduler(id, to_batch ? SCHED_BATCH : SCHED_OTHER, &none) == 0)
        return;
    thread->is_batch = false;
    __atomic_store_n(&thread->id, 0, __ATOMIC_RELAXED);
}

#endif

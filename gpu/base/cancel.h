/* cancel.h - the poll that every loop whose length follows from input makes, and what a thread works for. For every
 * part of the engine; contact_cancel.h is the caller's side.
 *
 * A function that finds itself cancelled ends as if memory had run out: it frees what it holds and returns false, NULL
 * or CT_OUT_OF_MEMORY. ct_fail and ct_failure tell the two apart, so that no signature has to.
 *
 * Polls are at most 5 ms apart on a slow machine, and up to four of them may pass before one sees that time is over. One
 * costs some ns, so a loop of cheap iterations polls every few thousand of them (CT_POLL_EVERY). */
#ifndef CT_CANCEL_H
#define CT_CANCEL_H

#include "gpu/include/contact.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a thread works for now. */
typedef struct ct_working {
    ct_cancel *cancel; /* NULL: nothing ends its work early */
    const char *phase; /* static; NULL: none was entered */
    uint32_t body[2];  /* of the pair; 0: none */
    bool is_in_task;   /* of a pool of threads (device/pool.h) */
} ct_working;

/* By initial-exec no poll calls a function. It takes the room of all of the library's thread-local variables from what
 * the C library has left over (some 1600 bytes) when a running program opens libcontact.so, as Python does. CUDA's runtime
 * has 8 KiB of them, for which there is no room. In programs with libcontact.a the linker makes both the same. */
#ifdef CT_HAVE_CUDA
#define CT_TLS_MODEL "global-dynamic"
#else
#define CT_TLS_MODEL "initial-exec"
#endif
extern __thread ct_working ct_thread_working __attribute__((tls_model(CT_TLS_MODEL)));

/* Whether work for `cancel` is to end; sets its reason when its time has passed. */
bool ct_cancel_check(const ct_working *working, const char *what, uint64_t count);

/* The poll. True from the first time on that it was true. */
static inline bool ct_is_cancelled(void) {
    return ct_thread_working.cancel && ct_cancel_check(&ct_thread_working, 0, 0);
}

/* The poll of a loop that counts: `what` (static, plural: "crossings") and how many there were so far go into the
 * error.
 */
static inline bool ct_is_cancelled_at(const char *what, uint64_t count) {
    return ct_thread_working.cancel && ct_cancel_check(&ct_thread_working, what, count);
}

/* For loops of cheap iterations: true every n-th i (n a power of 2), where to poll. */
#define CT_POLL_EVERY(i, n) (((i) & ((n)-1)) == 0)

/* Names what the thread does from here on, for errors and for who looks at running steps: "finding patches". Static. */
static inline void ct_enter_phase(const char *phase) {
    ct_thread_working.phase = phase;
}

/* The thread works for a pair, or for a scene's step (bodies 0); returns what it worked for before, for
 * ct_work_back. cancel NULL: keeps the thread's own. */
static inline ct_working ct_work_for(ct_cancel *cancel, uint32_t body_a, uint32_t body_b) {
    const ct_working before = ct_thread_working;
    if (cancel) ct_thread_working.cancel = cancel;
    ct_thread_working.body[0] = body_a;
    ct_thread_working.body[1] = body_b;
    return before;
}
static inline void ct_work_back(ct_working before) {
    ct_thread_working = before;
}

/* Why something failed that fails for want of memory, or because it was cancelled. */
static inline ct_status ct_failure(void) {
    return ct_is_cancelled() ? CT_CANCELLED : CT_OUT_OF_MEMORY;
}

/* Whether a poll has said that the work is cancelled. */
bool ct_cancel_was_seen(const ct_cancel *cancel);

/* Fills *error with where the thread's work was cancelled; returns CT_CANCELLED. */
ct_status ct_fail_cancelled(ct_error *error);

#ifdef __cplusplus
}
#endif
#endif

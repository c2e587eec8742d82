/* polls.h - watches how the engine polls its ct_cancel: counts polls, and finds what runs long without one, or
 * goes on after one that said to end. For programs that are linked with
 * --wrap=ct_cancel_check (the Makefile's POLLS_WATCHED).
 *
 * Times are processor time of the thread, so that whatever else the machine does counts little.
 */
#ifndef POLLS_H
#define POLLS_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/include/contact.h"

void polls_begin(void); /* a call is to be watched from now on, with a ct_cancel of its own */

typedef struct polls_seen {
    uint64_t polls;
    double longest; /* s, processor time of a thread between two of its polls, or between a poll and polls_end */
    double
        goes_on; /* s, processor time of all threads from the first poll that said to end to polls_end; 0: none did */
    const char *phase; /* that the thread had entered at the end of the longest time; NULL: none */
} polls_seen;

/* The call has returned. On the thread of polls_begin. */
polls_seen polls_end(void);

/* ---- where ---- */

enum { POLLS_DEPTH = 24, POLLS_STACKS = 256 };

typedef struct polls_stack {
    void *frames[POLLS_DEPTH]; /* innermost first */
    int depth;
    bool is_after; /* the call was to end */
    double since;  /* s of the thread's processor time since its last poll, or of the process's since the end */
} polls_stack;

typedef struct polls_stacks {
    uint32_t n; /* may be more than there is room for */
    polls_stack of[POLLS_STACKS];
} polls_stacks;

/* From now on looks at the threads some hundred times a second of processor time, and keeps the stacks of those that
 * have not polled for `seconds`, or that go on for so long after the end. `to` may be shared with another process.
 * Takes SIGPROF. */
void polls_sample(polls_stacks *to, double seconds);

#endif

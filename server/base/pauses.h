/* pauses.h - whether the process was stopped for a while, as by a debugger, SIGSTOP, a container that is paused or a
 * machine that is moved: time that counts for no limit. The kernel tells nobody; but a thread that does nothing else
 * than sleep and look at the clock sees that it looks late. While it is not late, however busy the machine, nothing was
 * stopped. (Of a machine that is suspended, CLOCK_MONOTONIC counts no time in the first place.) */
#ifndef SERVER_PAUSES_H
#define SERVER_PAUSES_H

#include <stdbool.h>
#include <stdint.h>

#define PAUSES_LOOK_NS UINT64_C(250000000) /* between two looks */

/* By one thread, every PAUSES_LOOK_NS; times are of clock_ns(). */
void pauses_look(uint64_t now_ns);
/* It has other things to do, until it looks again. */
void pauses_rest(void);
/* Any thread: whether the process was stopped between then and now, for a second or longer; also where the thread that
 * looks has not run since. */
bool pauses_were(uint64_t then_ns, uint64_t now_ns);

#endif

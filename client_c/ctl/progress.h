/* progress.h - how far a command is, in the last line of the terminal. Nothing is shown where stderr is no terminal,
 * of what takes less than a second, and once it has ended. One at a time, from the main thread. */
#ifndef CONTACTCTL_PROGRESS_H
#define CONTACTCTL_PROGRESS_H

#include <stdint.h>

typedef enum progress_kind {
    PROGRESS_WAITS,  /* for what does not say how far it is: the time is shown. total: 0 */
    PROGRESS_COUNTS, /* total: where progress_reach ends */
    PROGRESS_LASTS,  /* total: milliseconds */
    PROGRESS_SENDS,  /* total: bytes to a server, whose answer then takes its time */
} progress_kind;

/* The format names what is done, or sent. */
void progress_begin(progress_kind kind, uint64_t total, const char *format, ...) __attribute__((format(printf, 3, 4)));
void progress_reach(uint64_t done);
/* Wipes the line. Nothing where none has begun. */
void progress_end(void);

#endif

/* duration.h - reads a time that an operator wrote. For options and the list of principals. */
#ifndef SERVER_DURATION_H
#define SERVER_DURATION_H

#include <stdbool.h>
#include <stdint.h>

#define DURATION_MOST_MS INT64_C(86400000) /* a day */
#define DURATION_SHAPE   "a time from 1 ms to a day, such as 10 (seconds), 0.5, 250ms, 30s or 2m"

/* In ms, rounded up. False: it is no DURATION_SHAPE. */
bool duration_read(const char *text, uint64_t *ms);

#endif

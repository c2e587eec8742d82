/* failures.h - how many attempts to get in failed lately, by address, and who got in from where. Of fixed size: where
 * more addresses come than it has places for, those with the fewest failures make room. For guard.c. */
#ifndef SERVER_GUARD_FAILURES_H
#define SERVER_GUARD_FAILURES_H

#include <stdbool.h>
#include <stdint.h>

typedef struct failures failures;

failures *failures_new(void); /* NULL: out of memory */
void failures_free(failures **failures);

/* For how long attempts from there are refused unseen, in ns; 0: they are not. */
uint64_t failures_wait_ns(failures *failures, const char *address, uint64_t now_ns);
void failures_note(failures *failures, const char *address, uint64_t now_ns);
void failures_note_success(failures *failures, const char *address, uint32_t principal);
/* Whether the principal got in from the address before, as far as is remembered. */
bool failures_knows(failures *failures, const char *address, uint32_t principal);

/* See guard_origin. */
uint32_t failures_origin(const failures *failures, const char *address);

#endif

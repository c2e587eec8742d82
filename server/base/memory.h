/* memory.h - how much memory this process may use and does use, and giving freed memory back to the system. */
#ifndef SERVER_MEMORY_H
#define SERVER_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes of this process that lie in the machine's memory; 0: unknown. Takes a few microseconds. */
uint64_t memory_resident_bytes(void);

/* The C library keeps freed memory for later. This object decides when to return it: once the bytes in use have fallen
 * far below their highest value, so that a client that sends at a steady rate causes no page faults. */
typedef struct memory_trimmer {
    uint64_t peak_bytes; /* highest value since the last trim */
    uint64_t trimmed_ns; /* of clock_ns() */
} memory_trimmer;

/* Called a few times a second with the bytes in use now. True: it is time to call memory_trim. */
bool memory_should_trim(memory_trimmer *trimmer, uint64_t bytes_in_use, uint64_t now_ns);
/* So many bytes were freed at once: whether that is worth a memory_trim. */
bool memory_is_worth_trimming(uint64_t freed_bytes);
/* Returns freed memory to the system. Takes milliseconds: not for an I/O thread. */
void memory_trim(void);

#endif

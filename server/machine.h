/* machine.h - what this process may use of the machine: memory and processors, as control groups and affinity limit
 * them.
 *
 * A container limits its processes by control groups, version 1 or 2. A process that uses more memory than its group
 * has is killed; one that runs more threads than it has processors is slow.
 */
#ifndef SERVER_MACHINE_H
#define SERVER_MACHINE_H

#include <stdint.h>

typedef struct machine {
    uint64_t memory_bytes; /* the machine's memory, or the group's limit where that is less */
    uint32_t processors; /* that the process may run on, or the group's quota of time where that is less; at least 1 */
} machine;

/* root: "" but in tests, where <root>/proc/self/cgroup and <root>/sys/fs/cgroup stand for the system's. */
void machine_find(machine *out, const char *root);

#endif

/* machine.h - what this process may use of the machine: memory and processors, as control groups, resource limits and
 * affinity limit them.
 *
 * A container limits its processes by control groups, version 1 or 2. A process that uses more memory than its group
 * has is killed; one that runs more threads than it has processors is slow. A shell or a service manager may limit its
 * address space (ulimit -v, RLIMIT_AS) or its data (ulimit -d, RLIMIT_DATA); then allocations fail. Of these, the
 * stacks of threads take a part before any memory is used.
 */
#ifndef SERVER_MACHINE_H
#define SERVER_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct machine {
    uint64_t memory_bytes;  /* the machine's memory, or the least of its limits where that is less */
    bool has_few_addresses; /* RLIMIT_AS or RLIMIT_DATA sets memory_bytes */
    uint32_t processors; /* that the process may run on, or the group's quota of time where that is less; at least 1 */
} machine;

/* root: "" but in tests, where <root>/proc/self/cgroup and <root>/sys/fs/cgroup stand for the system's. */
void machine_find(machine *out, const char *root);

/* What a resource limit of so many bytes leaves for memory: without programs, libraries and the stacks of the server's
 * threads. At least a quarter of it. */
uint64_t machine_usable_of_limit(uint64_t limit_bytes, uint64_t stack_bytes, uint32_t processors);

#endif

/* memory.c - see memory.h. */
#include "server/base/memory.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

/* Less than this is not worth a trim, which walks the whole heap. */
#define TRIM_BYTES    (UINT64_C(16) << 20)
#define TRIM_EVERY_NS UINT64_C(2000000000)

uint64_t memory_resident_bytes(void) {
    char text[128];
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0) return 0;
    text[n] = 0;
    char *resident = NULL;
    strtoull(text, &resident, 10); /* the first number is the size of the address space */
    return strtoull(resident, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

bool memory_should_trim(memory_trimmer *trimmer, uint64_t bytes_in_use, uint64_t now_ns) {
    if (bytes_in_use > trimmer->peak_bytes) trimmer->peak_bytes = bytes_in_use;
    uint64_t fallen = trimmer->peak_bytes - bytes_in_use;
    if (fallen < TRIM_BYTES || fallen < trimmer->peak_bytes / 4 || now_ns - trimmer->trimmed_ns < TRIM_EVERY_NS)
        return false;
    trimmer->peak_bytes = bytes_in_use;
    trimmer->trimmed_ns = now_ns;
    return true;
}

bool memory_is_worth_trimming(uint64_t freed_bytes) {
    return freed_bytes >= TRIM_BYTES;
}

void memory_trim(void) {
    malloc_trim(0);
}

/* machine.c - see machine.h. A group's limit is the least of its own and its ancestors'. */
#include "server/base/machine.h"

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    PATH_BYTES = 4096,
    SERVER_THREADS = 24,     /* beside those that compute, of which there are as many as processors */
    MAPPED_BYTES = 64 << 20, /* by the program and its libraries, and the least that malloc reserves */
};

/* The first line of a small file, without its end. False: there is none. */
static bool read_line(const char *folder, const char *name, char *line, size_t size) {
    char path[PATH_BYTES + 64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    if (!file) return false;
    bool good = fgets(line, (int)size, file) != NULL;
    fclose(file);
    if (good) line[strcspn(line, "\n")] = 0;
    return good;
}

/* A number at the begin of text. False: "max", or -1, which mean no limit. */
static bool read_number(const char *text, uint64_t *out, const char **end) {
    if (*text < '0' || *text > '9') return false;
    char *after;
    errno = 0;
    *out = strtoull(text, &after, 10);
    *end = after;
    return errno == 0;
}

static void lower_memory(machine *out, const char *folder, const char *name) {
    char line[128];
    const char *end;
    uint64_t bytes;
    if (!read_line(folder, name, line, sizeof line) || !read_number(line, &bytes, &end)) return;
    if (bytes > 0 && bytes < out->memory_bytes) out->memory_bytes = bytes;
}

static void lower_processors(machine *out, uint64_t quota_us, uint64_t period_us) {
    if (quota_us == 0 || period_us == 0) return;
    uint64_t n = (quota_us + period_us - 1) / period_us;
    if (n < out->processors) out->processors = (uint32_t)n;
}

static void read_v1_quota(machine *out, const char *folder) {
    char quota[64], period[64];
    const char *end;
    uint64_t quota_us, period_us;
    if (read_line(folder, "cpu.cfs_quota_us", quota, sizeof quota) && read_number(quota, &quota_us, &end) &&
        read_line(folder, "cpu.cfs_period_us", period, sizeof period) && read_number(period, &period_us, &end))
        lower_processors(out, quota_us, period_us);
}

/* "200000 100000": quota and period. */
static void read_v2_quota(machine *out, const char *folder) {
    char line[128];
    const char *end;
    uint64_t quota_us, period_us;
    if (read_line(folder, "cpu.max", line, sizeof line) && read_number(line, &quota_us, &end) && *end == ' ' &&
        read_number(end + 1, &period_us, &end))
        lower_processors(out, quota_us, period_us);
}

static void read_v1_memory(machine *out, const char *folder) {
    lower_memory(out, folder, "memory.limit_in_bytes");
}

static void read_v2(machine *out, const char *folder) {
    lower_memory(out, folder, "memory.max");
    read_v2_quota(out, folder);
}

/* Reads the group's folder and those above it, up to the mount. In a container the path may name a folder of the
 * host's, and only the mount itself exists: it is the container's group then. */
static void read_up(machine *out, const char *mount, const char *group, void (*read)(machine *, const char *)) {
    char path[PATH_BYTES];
    int n = snprintf(path, sizeof path, "%s%s", mount, group);
    if (n < 0 || n >= (int)sizeof path) n = snprintf(path, sizeof path, "%s", mount);
    size_t top = strlen(mount);
    while (n > (int)top && path[n - 1] == '/') path[--n] = 0;
    for (;;) {
        read(out, path);
        char *slash = strrchr(path, '/');
        if (!slash || (size_t)(slash - path) < top) return;
        *slash = 0;
    }
}

static bool has_controller(const char *list, const char *name) {
    size_t length = strlen(name);
    for (const char *at = list; (at = strstr(at, name)); at += length) {
        bool begins = at == list || at[-1] == ',', ends = at[length] == 0 || at[length] == ',';
        if (begins && ends) return true;
    }
    return false;
}

/* A line of /proc/self/cgroup, "4:memory:/a/b" or "0::/a/b". */
static void read_group(machine *out, const char *root, char *line) {
    char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group) return;
    char mount[PATH_BYTES];
    *group++ = 0;
    controllers++;
    group[strcspn(group, "\n")] = 0;
    if (!*controllers) {
        snprintf(mount, sizeof mount, "%s/sys/fs/cgroup", root);
        read_up(out, mount, group, read_v2);
        snprintf(mount, sizeof mount, "%s/sys/fs/cgroup/unified", root);
        read_up(out, mount, group, read_v2);
    }
    if (has_controller(controllers, "memory")) {
        snprintf(mount, sizeof mount, "%s/sys/fs/cgroup/memory", root);
        read_up(out, mount, group, read_v1_memory);
    }
    if (has_controller(controllers, "cpu")) {
        snprintf(mount, sizeof mount, "%s/sys/fs/cgroup/cpu", root); /* where it is shared, a link to cpu,cpuacct */
        read_up(out, mount, group, read_v1_quota);
    }
}

static uint32_t count_processors(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return (uint32_t)CPU_COUNT(&set);
    long online = sysconf(_SC_NPROCESSORS_ONLN); /* more than fit into the set */
    return online > 0 ? (uint32_t)online : 1;
}

uint64_t machine_usable_of_limit(uint64_t limit_bytes, uint64_t stack_bytes, uint32_t processors) {
    const uint64_t taken = MAPPED_BYTES + (SERVER_THREADS + (uint64_t)processors) * stack_bytes;
    const uint64_t least = limit_bytes / 4;
    return limit_bytes > taken + least ? limit_bytes - taken : least;
}

static void lower_to_limit(machine *out, __rlimit_resource_t resource) {
    struct rlimit limit, stack;
    if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
    const bool has_stack = getrlimit(RLIMIT_STACK, &stack) == 0 && stack.rlim_cur != RLIM_INFINITY;
    uint64_t bytes = machine_usable_of_limit(limit.rlim_cur, has_stack ? stack.rlim_cur : 8 << 20, out->processors);
    if (bytes >= out->memory_bytes) return;
    out->memory_bytes = bytes;
    out->has_few_addresses = true;
}

void machine_find(machine *out, const char *root) {
    char path[PATH_BYTES], line[PATH_BYTES];
    out->memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    out->processors = count_processors();
    out->has_few_addresses = false;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) read_group(out, root, line);
    if (file) fclose(file);
    lower_to_limit(out, RLIMIT_AS);
    lower_to_limit(out, RLIMIT_DATA);
}

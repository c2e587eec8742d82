/* process.c - see process.h. */
#include "server/metrics/process.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static void write_one(FILE *out, const char *name, const char *type, const char *help, double value) {
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n%s %.17g\n", name, help, name, type, name, value);
}

/* When the system started, in seconds of the epoch. */
static bool read_boot_time(uint64_t *out) {
    FILE *file = fopen("/proc/stat", "re");
    char line[256];
    bool found = false;
    while (file && !found && fgets(line, sizeof line, file)) found = sscanf(line, "btime %" SCNu64, out) == 1;
    if (file) fclose(file);
    return found;
}

/* Fields 14, 15, 22, 23 and 24 of proc(5)'s stat, counted from behind the program's name, which may have blanks. */
static void write_stat(FILE *out) {
    FILE *file = fopen("/proc/self/stat", "re");
    char text[1024];
    size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file) fclose(file);
    text[n] = 0;
    const char *rest = strrchr(text, ')');
    uint64_t user, system, start, virtual, boot;
    int64_t resident;
    if (!rest || sscanf(rest + 1,
                        " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64
                        " %*d %*d %*d %*d %*d %*d %" SCNu64 " %" SCNu64 " %" SCNd64,
                        &user, &system, &start, &virtual, &resident) != 5)
        return;
    double ticks = (double)sysconf(_SC_CLK_TCK);
    write_one(out, "process_cpu_seconds_total", "counter", "Processor time, of user and system",
              (double)(user + system) / ticks);
    write_one(out, "process_virtual_memory_bytes", "gauge", "Virtual memory", (double)virtual);
    write_one(out, "process_resident_memory_bytes", "gauge", "Resident memory",
              (double)resident * (double)sysconf(_SC_PAGESIZE));
    if (!read_boot_time(&boot)) return;
    write_one(out, "process_start_time_seconds", "gauge", "Start of the process, since the Unix epoch",
              (double)boot + (double)start / ticks);
}

static void write_files(FILE *out) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        write_one(out, "process_max_fds", "gauge", "Files that may be open at once", (double)limit.rlim_cur);
    DIR *folder = opendir("/proc/self/fd");
    if (!folder) return;
    uint32_t n = 0;
    for (const struct dirent *entry; (entry = readdir(folder));) n += entry->d_name[0] != '.';
    closedir(folder);
    write_one(out, "process_open_fds", "gauge", "Files open now", n - 1); /* without the folder's own */
}

void process_write(FILE *out) {
    write_stat(out);
    write_files(out);
}

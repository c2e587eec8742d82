/* files.c - files that are whole or not there. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "server/base/log.h"
#include "server/state/internal.h"

static int write_all(int fd, const void *data, size_t size) {
    for (size_t done = 0; done < size;) {
        ssize_t n = write(fd, (const char *)data + done, size - done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno;
        done += (size_t)n;
    }
    return 0;
}

int state_write_file(int folder_fd, const char *temporary, const char *name, const state_part *parts, size_t n) {
    int fd = openat(folder_fd, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return errno;
    return state_fill_file(folder_fd, fd, temporary, name, parts, n);
}

int state_fill_file(int folder_fd, int fd, const char *temporary, const char *name, const state_part *parts, size_t n) {
    int why = 0;
    size_t size = 0;
    for (size_t i = 0; i < n; i++) size += parts[i].size;
    for (size_t i = 0; i < n && !why; i++) why = write_all(fd, parts[i].data, parts[i].size);
    if (!why && ftruncate(fd, (off_t)size) != 0) why = errno; /* it may have been made longer, to have the space */
    if (!why && fsync(fd) != 0) why = errno;
    if (close(fd) != 0 && !why) why = errno;
    if (!why && renameat(folder_fd, temporary, folder_fd, name) != 0) why = errno;
    if (why)
        unlinkat(folder_fd, temporary, 0);
    else if (fsync(folder_fd) != 0) /* the name, too */
        why = errno;
    return why;
}

void *state_read_file(int folder_fd, const char *name, size_t most, size_t *size) {
    int fd = openat(folder_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return NULL;
    struct stat facts;
    char *bytes = NULL;
    int why = fstat(fd, &facts) != 0 ? errno : !S_ISREG(facts.st_mode) ? EINVAL : 0;
    if (!why && (uint64_t)facts.st_size > most) why = EFBIG;
    if (!why && !(bytes = malloc((size_t)facts.st_size + 1))) why = ENOMEM;
    *size = 0;
    while (!why && *size < (size_t)facts.st_size) {
        ssize_t n = read(fd, bytes + *size, (size_t)facts.st_size - *size);
        if (n < 0 && errno != EINTR) why = errno;
        if (n == 0) break;
        if (n > 0) *size += (size_t)n;
    }
    close(fd);
    if (why) {
        free(bytes);
        errno = why;
        return NULL;
    }
    bytes[*size] = 0;
    return bytes;
}

bool state_is_passing(int why) {
    return why == ENOMEM || why == EMFILE || why == ENFILE;
}

bool state_is_full(int why) {
    return why == ENOSPC || why == EDQUOT;
}

static uint64_t ns_of(const struct timespec *time) {
    const time_t last = (time_t)9000000000; /* in the year 2255: a file may have any time */
    const time_t s = time->tv_sec < 0 ? 0 : time->tv_sec < last ? time->tv_sec : last;
    return (uint64_t)s * 1000000000 + (uint64_t)time->tv_nsec;
}

uint64_t state_next_use(state *state) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const uint64_t ns = ns_of(&now);
    state->newest_ns = ns > state->newest_ns ? ns : state->newest_ns + 1;
    return state->newest_ns;
}

uint64_t state_file_use(state *state, const struct timespec *time) {
    const uint64_t ns = ns_of(time);
    if (ns > state->newest_ns) state->newest_ns = ns;
    return ns;
}

void state_note_failure(state *state, const char *what, int why) {
    metrics_add(state->metrics, METRICS_STATE_FAILURES, 1);
    log_warn("state", "%s: %s cannot be kept: %s; the server goes on without it", state->folder, what, strerror(why));
}

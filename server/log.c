/* log.c - formats a line on the stack and writes it with one call. */
#include "server/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINE_BYTES 2048
#define CUT_MARK   " [cut]"

static const char *const level_names[] = {"error", "warn", "info", "debug"};

static struct {
    atomic_int fd;
    atomic_int level;
    atomic_bool json;
} out = {STDERR_FILENO, LOG_LEVEL_INFO, false};

bool log_open(const char *format, const char *level, const char *path, char *message, size_t size) {
    int wanted = -1;
    for (int i = 0; i < 4; i++) {
        if (strcmp(level, level_names[i]) == 0) wanted = i;
    }
    bool json = strcmp(format, "json") == 0;
    if (wanted < 0 || (!json && strcmp(format, "text") != 0)) {
        snprintf(message, size, "log level \"%s\" or format \"%s\" is not one that exists", level, format);
        return false;
    }
    int fd = STDERR_FILENO;
    if (path[0]) {
        fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        if (fd < 0) {
            snprintf(message, size, "the log file %s cannot be written: %s", path, strerror(errno));
            return false;
        }
    }
    log_close();
    atomic_store(&out.fd, fd);
    atomic_store(&out.level, wanted);
    atomic_store(&out.json, json);
    return true;
}

void log_close(void) {
    int fd = atomic_exchange(&out.fd, STDERR_FILENO);
    if (fd != STDERR_FILENO) close(fd);
}

bool log_enabled(log_level level) {
    return (int)level <= atomic_load_explicit(&out.level, memory_order_relaxed);
}

/* Appends text; where it does not fit, what fits. Returns the new length, at most limit. */
static size_t append(char *line, size_t length, size_t limit, const char *text) {
    size_t room = limit - length, n = strlen(text);
    if (n > room) n = room;
    memcpy(line + length, text, n);
    return length + n;
}

/* Appends text as the inside of a JSON string, or with control characters made visible. */
static size_t append_escaped(char *line, size_t length, size_t limit, const char *text, bool json) {
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        char piece[8] = {(char)*c, 0};
        if (json && (*c == '"' || *c == '\\')) {
            snprintf(piece, sizeof piece, "\\%c", *c);
        } else if (*c < 0x20 || *c == 0x7f) {
            snprintf(piece, sizeof piece, json ? "\\u%04x" : "\\x%02x", *c);
        }
        if (strlen(piece) > limit - length) break;
        length = append(line, length, limit, piece);
    }
    return length;
}

void log_line(log_level level, const char *part, const char *format, ...) {
    if (!log_enabled(level)) return;
    int saved = errno;
    bool json = atomic_load_explicit(&out.json, memory_order_relaxed);

    char text[LINE_BYTES / 2];
    va_list arguments;
    va_start(arguments, format);
    int wanted = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (wanted < 0) text[0] = 0;
    if (wanted >= (int)sizeof text) memcpy(text + sizeof text - sizeof CUT_MARK, CUT_MARK, sizeof CUT_MARK);

    struct timespec now;
    struct tm utc;
    char stamp[64];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    size_t n = strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(stamp + n, sizeof stamp - n, ".%03dZ", (int)(now.tv_nsec / 1000000));

    char line[LINE_BYTES], head[160];
    const char *tail = json ? "\"}\n" : "\n";
    size_t limit = sizeof line - strlen(tail);
    snprintf(head, sizeof head,
             json ? "{\"time\":\"%s\",\"level\":\"%s\",\"part\":\"%s\",\"message\":\"" : "%s %-5s %s: ", stamp,
             level_names[level], part);
    size_t length = append(line, 0, limit, head);
    length = append_escaped(line, length, limit, text, json);
    length = append(line, length, sizeof line, tail);
    /* A log that cannot be written (a full disk) must not stop the service: nothing better can be done with a failure.
     */
    if (write(atomic_load_explicit(&out.fd, memory_order_relaxed), line, length) < 0) errno = 0;
    errno = saved;
}

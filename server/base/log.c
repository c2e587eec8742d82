/* log.c - formats a line on the stack and writes it with one call. */
#include "server/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "server/base/json_out.h"

#define LINE_BYTES 2048
#define CUT_MARK   " [cut]"

static const char *const level_names[] = {"audit", "error", "warn", "info", "debug"};

static struct {
    atomic_int fd;
    atomic_int level;
    atomic_bool json;
    char *path;                             /* NULL: standard error */
    atomic_uint_fast64_t lost, lost_unsaid; /* lines, in all and since it was last said how many */
    atomic_int lost_cause;                  /* errno */
    atomic_bool is_torn;                    /* the last line was written in part */
} out = {.fd = STDERR_FILENO, .level = LOG_LEVEL_INFO};

static int open_file(const char *path, char *message, size_t size) {
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0) snprintf(message, size, "the log file %s cannot be written: %s", path, strerror(errno));
    return fd;
}

bool log_open(const char *format, const char *level, const char *path, char *message, size_t size) {
    int wanted = -1;
    for (int i = LOG_LEVEL_ERROR; i <= LOG_LEVEL_DEBUG; i++) {
        if (strcmp(level, level_names[i]) == 0) wanted = i;
    }
    bool json = strcmp(format, "json") == 0;
    if (wanted < 0 || (!json && strcmp(format, "text") != 0)) {
        snprintf(message, size, "log level \"%s\" or format \"%s\" is not one that exists", level, format);
        return false;
    }
    char *copy = path[0] ? strdup(path) : NULL;
    int fd = copy ? open_file(path, message, size) : STDERR_FILENO;
    if (fd < 0) {
        free(copy);
        return false;
    }
    log_close();
    out.path = copy;
    atomic_store(&out.fd, fd);
    atomic_store(&out.level, wanted);
    atomic_store(&out.json, json);
    return true;
}

bool log_reopen(char *message, size_t size) {
    if (!out.path) return true;
    int fd = open_file(out.path, message, size);
    if (fd < 0) return false;
    dup2(fd, atomic_load(&out.fd)); /* other threads may be writing: the descriptor's number stays valid */
    close(fd);
    return true;
}

void log_close(void) {
    int fd = atomic_exchange(&out.fd, STDERR_FILENO);
    if (fd != STDERR_FILENO) close(fd);
    free(out.path);
    out.path = NULL;
}

uint64_t log_lost_lines(void) {
    return atomic_load(&out.lost);
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

/* Appends text with control characters made visible. */
static size_t append_visible(char *line, size_t length, size_t limit, const char *text) {
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        char piece[8] = {(char)*c, 0};
        if (*c < 0x20 || *c == 0x7f) snprintf(piece, sizeof piece, "\\x%02x", *c);
        if (strlen(piece) > limit - length) break;
        length = append(line, length, limit, piece);
    }
    return length;
}

static bool write_line(const char *line, size_t length) {
    int fd = atomic_load_explicit(&out.fd, memory_order_relaxed);
    if (atomic_load(&out.is_torn)) {
        if (write(fd, "\n", 1) != 1) return false;
        atomic_store(&out.is_torn, false);
    }
    ssize_t written = write(fd, line, length);
    if (written == (ssize_t)length) return true;
    if (written > 0) atomic_store(&out.is_torn, true);
    atomic_store(&out.lost_cause, written < 0 ? errno : ENOSPC);
    return false;
}

/* A log that cannot be written must not stop the service, nor lose lines unnoticed. */
static void note_lost_line(void) {
    atomic_fetch_add(&out.lost, 1);
    atomic_fetch_add(&out.lost_unsaid, 1);
}

static void make_stamp(char *stamp, size_t size) {
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    size_t n = strftime(stamp, size, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(stamp + n, size - n, ".%03dZ", (int)(now.tv_nsec / 1000000));
}

/* " (session 7, scene 9, ...)", or nothing. Bounded: numbers, codes and trace ids, no text of clients. */
static void format_fields(const log_fields *fields, char *to, size_t size) {
    size_t n = 0;
    to[0] = 0;
    if (!fields) return;
#define FIELD(...) n += (size_t)snprintf(to + n, n < size ? size - n : 0, __VA_ARGS__)
#define BETWEEN    (n ? ", " : " (")
    if (fields->session) FIELD("%ssession %" PRIu64, BETWEEN, fields->session);
    if (fields->scene) FIELD("%sscene %" PRIu64, BETWEEN, fields->scene);
    if (fields->code) FIELD("%s%.40s", BETWEEN, fields->code);
    if (fields->duration_s >= 0) FIELD("%s%.6f s", BETWEEN, fields->duration_s);
    if (fields->trace && fields->trace[0]) FIELD("%strace %.32s", BETWEEN, fields->trace);
    if (n) FIELD(")");
#undef BETWEEN
#undef FIELD
}

static size_t format_text(char line[LINE_BYTES], log_level level, const char *part, const log_fields *fields,
                          const char *text) {
    char stamp[64], head[160], tail[256];
    make_stamp(stamp, sizeof stamp);
    format_fields(fields, tail, sizeof tail - 1);
    memcpy(tail + strlen(tail), "\n", 2);
    snprintf(head, sizeof head, "%s %-5s %s: ", stamp, level_names[level], part);
    size_t length = append(line, 0, LINE_BYTES, head);
    length = append_visible(line, length, LINE_BYTES - strlen(tail), text);
    return append(line, length, LINE_BYTES, tail);
}

static void write_json(json_out *to, log_level level, const char *part, const log_fields *fields, const char *text) {
    char stamp[64];
    make_stamp(stamp, sizeof stamp);
    json_out_object(to, NULL);
    json_out_string(to, "time", stamp);
    json_out_string(to, "level", level_names[level]);
    json_out_string(to, "part", part);
    json_out_string(to, "message", text);
    if (fields && fields->session) json_out_integer(to, "session", fields->session);
    if (fields && fields->scene) json_out_integer(to, "scene", fields->scene);
    if (fields && fields->code) json_out_string(to, "code", fields->code);
    if (fields && fields->duration_s >= 0) json_out_number(to, "duration_s", fields->duration_s);
    if (fields && fields->trace && fields->trace[0]) json_out_string(to, "trace_id", fields->trace);
    json_out_object_end(to);
}

/* Escapes may make the text too long for the line: it is halved until it fits, so that the line stays valid JSON. */
static size_t format_json(char line[LINE_BYTES], log_level level, const char *part, const log_fields *fields,
                          char *text) {
    json_out to;
    for (size_t n = strlen(text) / 2;; n /= 2) {
        json_out_init_fixed(&to, line, LINE_BYTES - 1);
        write_json(&to, level, part, fields, text);
        if (to.state == JSON_OUT_OK || n < sizeof CUT_MARK) break;
        memcpy(text + n, CUT_MARK, sizeof CUT_MARK);
    }
    line[to.size] = '\n';
    return to.size + 1;
}

/* The text may be cut. */
static size_t format_line(char line[LINE_BYTES], log_level level, const char *part, const log_fields *fields,
                          char *text) {
    bool json = atomic_load_explicit(&out.json, memory_order_relaxed);
    return json ? format_json(line, level, part, fields, text) : format_text(line, level, part, fields, text);
}

/* Says how many lines were lost, if the log can be written again. False: it cannot. */
static bool say_lost_lines(void) {
    char line[LINE_BYTES], text[160];
    uint64_t lost = atomic_exchange(&out.lost_unsaid, 0);
    if (!lost) return true;
    snprintf(text, sizeof text, "%" PRIu64 " lines could not be written here: %s", lost,
             strerror(atomic_load(&out.lost_cause)));
    if (write_line(line, format_line(line, LOG_LEVEL_WARN, "log", NULL, text))) return true;
    atomic_fetch_add(&out.lost_unsaid, lost);
    return false;
}

__attribute__((format(printf, 4, 0))) static void
write_event(log_level level, const char *part, const log_fields *fields, const char *format, va_list arguments) {
    if (!log_enabled(level)) return;
    int saved = errno;
    char text[LINE_BYTES / 2], line[LINE_BYTES];
    int wanted = vsnprintf(text, sizeof text, format, arguments);
    if (wanted < 0) text[0] = 0;
    if (wanted >= (int)sizeof text) memcpy(text + sizeof text - sizeof CUT_MARK, CUT_MARK, sizeof CUT_MARK);
    size_t length = format_line(line, level, part, fields, text);
    if (!say_lost_lines() || !write_line(line, length)) note_lost_line();
    errno = saved;
}

void log_line(log_level level, const char *part, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    write_event(level, part, NULL, format, arguments);
    va_end(arguments);
}

void log_event(log_level level, const char *part, const log_fields *fields, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    write_event(level, part, fields, format, arguments);
    va_end(arguments);
}

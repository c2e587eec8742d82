/* log.h - the server's log: text or JSON lines to standard error or a file.
 *
 * One log per process, like standard error itself. Lines are written whole by one write(2), from any thread, without
 * allocating; what does not fit 2 KiB is cut and says so. Before log_open, lines go to standard error as text. Lines
 * that cannot be written (the disk is full) are counted, and the next line that can be is preceded by one that says how
 * many.
 */
#ifndef SERVER_LOG_H
#define SERVER_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* AUDIT lines are written whatever --log-level says. */
typedef enum log_level { LOG_LEVEL_AUDIT, LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG } log_level;

/* format "text" or "json", level "error|warn|info|debug", path "" for standard error. False: message says why. */
bool log_open(const char *format, const char *level, const char *path, char *message, size_t size);
/* Opens the file anew, so that a renamed one is let go of. Does nothing where the log goes to standard error. False:
 * message says why, and the log goes on in the old file. One caller at a time. */
bool log_reopen(char *message, size_t size);
void log_close(void);
uint64_t log_lost_lines(void); /* since the process started */
bool log_enabled(log_level level);

/* part: which part of the server speaks, e.g. "stream". */
__attribute__((format(printf, 3, 4))) void log_line(log_level level, const char *part, const char *format, ...);

/* Who was refused, and who did what to the server or to what belongs to others. */
#define log_audit(...) log_line(LOG_LEVEL_AUDIT, "audit", __VA_ARGS__)
/* What a line is about, for those who search a JSON log; text lines have it in brackets at their end. */
typedef struct log_fields {
    uint64_t session;  /* its number; 0: none */
    uint64_t scene;    /* 0: none */
    const char *code;  /* of an error, or "OK"; NULL: none */
    double duration_s; /* below 0: none */
    const char *trace; /* id of a trace; NULL or empty: none */
} log_fields;
__attribute__((format(printf, 4, 5))) void log_event(log_level level, const char *part, const log_fields *fields,
                                                     const char *format, ...);

#define log_error(part, ...) log_line(LOG_LEVEL_ERROR, part, __VA_ARGS__)
#define log_warn(part, ...)  log_line(LOG_LEVEL_WARN, part, __VA_ARGS__)
#define log_info(part, ...)  log_line(LOG_LEVEL_INFO, part, __VA_ARGS__)
#define log_debug(part, ...)                                                                                           \
    do {                                                                                                               \
        if (log_enabled(LOG_LEVEL_DEBUG)) log_line(LOG_LEVEL_DEBUG, part, __VA_ARGS__);                                \
    } while (0)

#endif

/* progress.c - see progress.h. A thread draws the line, as the main thread waits in the client library. */
#include "client_c/ctl/progress.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    QUIET_MS = 1000,
    REDRAW_MS = 100,
    CELLS = 24, /* of the bar */
    AFTER = 96, /* bytes after the name */
    MOST_LINE = 400,
    MOST_SOCKETS = 64, /* descriptors that are looked at: contactctl has about 20 */
};

static struct {
    progress_kind kind;
    uint64_t total, sent_before;
    char what[200];
    struct timespec began;
    atomic_uint_fast64_t reached;
    bool is_running, is_drawn;
    pthread_t thread;
    pthread_mutex_t lock; /* of is_ended */
    pthread_cond_t ended;
    bool is_ended;
} line = {.lock = PTHREAD_MUTEX_INITIALIZER};

static double elapsed_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - line.began.tv_sec) + (double)(now.tv_nsec - line.began.tv_nsec) * 1e-9;
}

/* Bytes that the other ends of this process's TCP connections have confirmed. ZeroMQ takes a message whole and does
 * not say how much of it has left; the system does. 0 over ipc. */
static uint64_t confirmed_bytes(void) {
    uint64_t sum = 0;
    for (int fd = 0; fd < MOST_SOCKETS; fd++) {
        struct tcp_info info = {0};
        socklen_t size = sizeof info;
        if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) continue;
        if (size >= offsetof(struct tcp_info, tcpi_bytes_acked) + sizeof info.tcpi_bytes_acked)
            sum += info.tcpi_bytes_acked;
    }
    return sum;
}

static uint64_t done_so_far(void) {
    if (line.kind == PROGRESS_LASTS) return (uint64_t)(elapsed_s() * 1000);
    if (line.kind == PROGRESS_COUNTS) return atomic_load(&line.reached);
    const uint64_t now = line.kind == PROGRESS_SENDS ? confirmed_bytes() : 0;
    return now > line.sent_before ? now - line.sent_before : 0; /* less: the connection was lost and made again */
}

/* ---- the line ---- */

static size_t terminal_width(void) {
    struct winsize size;
    const bool is_known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    return is_known ? size.ws_col : 80;
}

static const char *duration(double seconds, char text[32]) {
    const unsigned long whole = (unsigned long)seconds;
    if (whole < 60)
        snprintf(text, 32, "%lu s", whole);
    else
        snprintf(text, 32, "%lu min %lu s", whole / 60, whole % 60);
    return text;
}

/* The bar and what is left. */
static void describe_share(double share, char after[AFTER]) {
    char bar[CELLS + 1] = "", time[32];
    memset(bar, '-', CELLS);
    memset(bar, '#', (size_t)(share * CELLS));
    snprintf(after, AFTER, " [%s] %3.0f %%, %s left", bar, 100 * share,
             duration(elapsed_s() * (1 - share) / share, time));
}

/* What stands before the name, and after it. */
static const char *describe(char after[AFTER]) {
    const bool is_sent = line.kind == PROGRESS_SENDS;
    const uint64_t done = done_so_far();
    char time[32];
    if (done > 0 && !(is_sent && done >= line.total)) {
        describe_share(done < line.total ? (double)done / (double)line.total : 1, after);
        return is_sent ? "sending " : "";
    }
    const bool is_answered_next = done > 0;
    snprintf(after, AFTER, "%s, %s", is_answered_next ? " is sent; the server works on it" : "",
             duration(elapsed_s(), time));
    return is_sent && !is_answered_next ? "sending " : "";
}

/* Bytes of UTF-8 take no more columns than there are. Control characters may be in a file's name. */
static void clip(char *text, size_t most) {
    size_t n = strlen(text);
    if (n > most) {
        for (n = most; n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80;) n--; /* not within a character */
        text[n] = 0;
    }
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127) *c = '?';
}

/* A line that is as long as the terminal is wide could not be wiped: the name is cut first. */
static void compose(char out[MOST_LINE], size_t width) {
    char what[sizeof line.what], after[AFTER];
    const char *before = describe(after);
    const size_t rest = strlen(before) + strlen(after);
    memcpy(what, line.what, sizeof what);
    clip(what, width > rest ? width - 1 - rest : 0);
    snprintf(out, MOST_LINE, "%s%s%s", before, what, after);
    clip(out, width - 1);
}

static void put(const char *text) {
    for (size_t n = strlen(text); n > 0;) {
        const ssize_t written = write(STDERR_FILENO, text, n);
        if (written <= 0) return; /* it is only a picture */
        text += written;
        n -= (size_t)written;
    }
}

static void draw(void) {
    char text[MOST_LINE], all[MOST_LINE + 8];
    const pid_t foreground = tcgetpgrp(STDERR_FILENO); /* -1: it is not the terminal that controls this process */
    if (foreground > 0 && foreground != getpgrp()) return;
    compose(text, terminal_width());
    snprintf(all, sizeof all, "\r%s\033[K", text);
    put(all);
    line.is_drawn = true;
}

/* ---- the thread ---- */

/* True: it has ended. */
static bool wait_for_end(struct timespec *until, long ms) {
    until->tv_nsec += ms % 1000 * 1000000;
    until->tv_sec += ms / 1000 + until->tv_nsec / 1000000000;
    until->tv_nsec %= 1000000000;
    pthread_mutex_lock(&line.lock);
    while (!line.is_ended && pthread_cond_timedwait(&line.ended, &line.lock, until) == 0) {
    }
    const bool is_ended = line.is_ended;
    pthread_mutex_unlock(&line.lock);
    return is_ended;
}

static void *draw_until_end(void *unused) {
    struct timespec next = line.began;
    for (long ms = QUIET_MS; !wait_for_end(&next, ms); ms = REDRAW_MS) draw();
    return unused;
}

/* Signals are for the main thread. */
static bool start_thread(void) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool is_started = pthread_create(&line.thread, NULL, draw_until_end, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return is_started;
}

static bool has_line(void) {
    const char *terminal = getenv("TERM");
    return isatty(STDERR_FILENO) && !(terminal && strcmp(terminal, "dumb") == 0);
}

void progress_begin(progress_kind kind, uint64_t total, const char *format, ...) {
    progress_end();
    if (!has_line()) return;
    va_list args;
    va_start(args, format);
    vsnprintf(line.what, sizeof line.what, format, args);
    va_end(args);
    line.kind = kind;
    line.total = total;
    line.sent_before = kind == PROGRESS_SENDS ? confirmed_bytes() : 0;
    line.is_drawn = line.is_ended = false;
    atomic_store(&line.reached, 0);
    clock_gettime(CLOCK_MONOTONIC, &line.began);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&line.ended, &monotonic);
    pthread_condattr_destroy(&monotonic);
    line.is_running = start_thread();
}

void progress_reach(uint64_t done) {
    atomic_store(&line.reached, done);
}

void progress_end(void) {
    if (!line.is_running) return;
    pthread_mutex_lock(&line.lock);
    line.is_ended = true;
    pthread_cond_signal(&line.ended);
    pthread_mutex_unlock(&line.lock);
    pthread_join(line.thread, NULL);
    pthread_cond_destroy(&line.ended);
    line.is_running = false;
    if (line.is_drawn) put("\r\033[K");
}

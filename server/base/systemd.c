/* systemd.c - see systemd.h. */
#include "server/base/systemd.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "server/base/log.h"

enum {
    FIRST_SOCKET = 3,   /* the protocol's: passed sockets follow standard input, output and error */
    SAYS_PER_LIMIT = 4, /* so that one late or lost message does not end the server */
};

static struct {
    int fd;                  /* -1: no one listens */
    uint64_t alive_every_ns; /* 0: not watched */
    uint64_t alive_at_ns;
} manager = {.fd = -1};

/* ---- sockets that are passed */

/* The number in an environment variable. False: there is none. */
static bool read_number(const char *name, uint64_t *out) {
    const char *text = getenv(name);
    char *end;
    if (!text || *text < '0' || *text > '9') return false;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return errno == 0 && !*end;
}

static bool is_for_this_process(const char *variable) {
    uint64_t pid;
    return read_number(variable, &pid) && pid == (uint64_t)getpid();
}

static bool is_listening(int fd) {
    int value = 0;
    socklen_t size = sizeof value;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, &size) != 0 || value != SOCK_STREAM) return false;
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &value, &size) == 0 && value;
}

static bool take_socket(passed_sockets *out, int fd, const char *name, size_t length, server_error *error) {
    char object[64];
    snprintf(object, sizeof object, "passed socket %d (%.*s)", fd - FIRST_SOCKET + 1, length > 24 ? 24 : (int)length,
             name);
    const bool is_stream = length == 6 && memcmp(name, "stream", 6) == 0;
    const bool is_http = length == 4 && memcmp(name, "http", 4) == 0;
    if (!is_stream && !is_http) {
        return server_fail(error, CONTACTD_INVALID_ARGUMENT, object, "LISTEN_FDNAMES",
                           "expected FileDescriptorName=stream or FileDescriptorName=http in the socket unit");
    }
    if (!is_listening(fd)) {
        return server_fail(error, CONTACTD_INVALID_ARGUMENT, object, "LISTEN_FDS",
                           "it accepts no connections: the socket unit needs ListenStream= and Accept=no");
    }
    if ((is_http && out->http >= 0) || (is_stream && out->n_stream == SYSTEMD_MAX_SOCKETS)) {
        return server_fail(error, CONTACTD_INVALID_ARGUMENT, object, "LISTEN_FDS",
                           "too many sockets of this name: at most %d for stream, one for http", SYSTEMD_MAX_SOCKETS);
    }
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 || fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0) {
        return server_fail(error, CONTACTD_INTERNAL, object, "LISTEN_FDS", "%s", strerror(errno));
    }
    if (is_http) {
        out->http = fd;
    } else {
        out->stream[out->n_stream++] = fd;
    }
    return true;
}

bool systemd_take_sockets(passed_sockets *out, server_error *error) {
    *out = (passed_sockets){.http = -1};
    uint64_t n = 0;
    bool good = true;
    if (is_for_this_process("LISTEN_PID") && read_number("LISTEN_FDS", &n)) {
        const char *name = getenv("LISTEN_FDNAMES");
        if (!name) name = "";
        for (uint64_t i = 0; good && i < n; i++) {
            size_t length = strcspn(name, ":");
            good = take_socket(out, FIRST_SOCKET + (int)i, name, length, error);
            name += length + (name[length] == ':');
        }
    }
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    return good;
}

/* ---- notifications */

static void say(const char *text) {
    if (manager.fd < 0) return;
    if (send(manager.fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
        log_warn("main", "the service manager could not be told %.40s: %s", text, strerror(errno));
    }
}

static bool connect_to(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const size_t length = strlen(path);
    if (length < 2 || length >= sizeof address.sun_path) {
        errno = EINVAL;
        return false;
    }
    memcpy(address.sun_path, path, length);
    if (path[0] == '@') address.sun_path[0] = 0; /* an abstract name */
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
    manager.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (manager.fd < 0) return false;
    if (connect(manager.fd, (struct sockaddr *)&address, size) == 0) return true;
    int cause = errno;
    systemd_close();
    errno = cause;
    return false;
}

bool systemd_open(server_error *error) {
    const char *path = getenv("NOTIFY_SOCKET");
    bool good = !path || connect_to(path);
    if (!good) {
        server_fail(error, CONTACTD_INVALID_ARGUMENT, "service manager", "NOTIFY_SOCKET", "%.100s: %s", path,
                    strerror(errno));
    }
    uint64_t limit_us = 0;
    const bool is_watched = !getenv("WATCHDOG_PID") || is_for_this_process("WATCHDOG_PID");
    if (is_watched && read_number("WATCHDOG_USEC", &limit_us))
        manager.alive_every_ns = limit_us * 1000 / SAYS_PER_LIMIT;
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
    return good;
}

void systemd_close(void) {
    if (manager.fd >= 0) close(manager.fd);
    manager.fd = -1;
}

void systemd_say_ready(const char *status) {
    char text[512];
    snprintf(text, sizeof text, "READY=1\nSTATUS=%s", status);
    say(text);
}

void systemd_say_stopping(uint64_t limit_ms) {
    char text[128];
    snprintf(text, sizeof text, "STOPPING=1\nSTATUS=answering what is queued\nEXTEND_TIMEOUT_USEC=%" PRIu64,
             limit_ms * 1000);
    say(text);
}

void systemd_say_alive(uint64_t now_ns) {
    if (manager.fd < 0 || !manager.alive_every_ns || now_ns < manager.alive_at_ns) return;
    manager.alive_at_ns = now_ns + manager.alive_every_ns;
    say("WATCHDOG=1");
}

/* reach.c - whether anything listens at an address, for contactctl. ZeroMQ tries a refused connection again until the
 * time is over; a person at a terminal wants to be told at once. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "client_c/ctl/ctl.h"

enum { PATIENCE_MS = 1000 };

/* Closes fd. */
static ctl_reach finish(int fd, int result) {
    int error = result == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
        struct pollfd wait = {.fd = fd, .events = POLLOUT};
        socklen_t size = sizeof error;
        if (poll(&wait, 1, PATIENCE_MS) != 1 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
            error = ETIMEDOUT;
    }
    close(fd);
    if (error == 0 || error == EAGAIN) return REACH_OPEN; /* EAGAIN: a local socket's queue is full */
    return error == ECONNREFUSED || error == ENOENT ? REACH_REFUSED : REACH_UNKNOWN;
}

static ctl_reach reach_tcp(const char *rest) { /* "HOST:PORT", "[V6]:PORT" */
    char host[256];
    const char *colon = strrchr(rest, ':');
    if (!colon || (size_t)(colon - rest) >= sizeof host || strchr(rest, ';')) return REACH_UNKNOWN;
    bool bracketed = rest[0] == '[' && colon > rest && colon[-1] == ']';
    snprintf(host, sizeof host, "%.*s", (int)(colon - rest) - 2 * bracketed, rest + bracketed);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    int failed = getaddrinfo(host, colon + 1, &hints, &found);
    if (failed) return failed == EAI_NONAME ? REACH_NO_HOST : REACH_UNKNOWN;
    ctl_reach all = REACH_REFUSED;
    for (const struct addrinfo *a = found; a && all != REACH_OPEN; a = a->ai_next) {
        int fd = socket(a->ai_family, a->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, a->ai_protocol);
        ctl_reach one = fd < 0 ? REACH_UNKNOWN : finish(fd, connect(fd, a->ai_addr, a->ai_addrlen));
        if (one != REACH_REFUSED) all = one;
    }
    freeaddrinfo(found);
    return all;
}

static ctl_reach reach_ipc(const char *path) {
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    if (*path == '@' || strlen(path) >= sizeof to.sun_path) return REACH_UNKNOWN;
    memcpy(to.sun_path, path, strlen(path));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    return fd < 0 ? REACH_UNKNOWN : finish(fd, connect(fd, (const struct sockaddr *)&to, sizeof to));
}

ctl_reach ctl_reach_address(const char *address) {
    if (strncmp(address, "tcp://", 6) == 0) return reach_tcp(address + 6);
    return strncmp(address, "ipc://", 6) == 0 ? reach_ipc(address + 6) : REACH_UNKNOWN;
}

const char *ctl_reach_text(ctl_reach reach) {
    switch (reach) {
    case REACH_OPEN:
        return "something listens there, but it does not speak contactd's stream protocol";
    case REACH_REFUSED:
        return "nothing listens there";
    case REACH_NO_HOST:
        return "the host's name does not resolve";
    case REACH_UNKNOWN:
        break;
    }
    return NULL;
}

bool ctl_is_refused(const char *server, char *seen, size_t size) {
    for (const char *at = server; *at;) {
        size_t n = strcspn(at, ",");
        char address[512];
        if (n >= sizeof address) return false;
        memcpy(address, at, n);
        address[n] = 0;
        if (ctl_reach_address(address + strspn(address, " ")) != REACH_REFUSED) return false;
        at += n + (at[n] == ',');
    }
    snprintf(seen, size, "%s refused: nothing listens at %s",
             strchr(server, ',') ? "the connections were" : "the connection was", server);
    return *server != 0;
}

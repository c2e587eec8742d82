/* reach.c - whether anything listens at an address, for contactctl. ZeroMQ tries a refused connection again until the
 * time is over; a person at a terminal wants to be told at once. */
#include <dirent.h>
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
#include "proto/endpoint.h"

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

const char *ctl_whole_address(const char *server) {
    static char *whole;
    const char *scheme = endpoint_scheme_of(server);
    return *scheme && asprintf(&whole, "%s%s", scheme, server) > 0 ? whole : server;
}

ctl_reach ctl_reach_address(const char *address) {
    if (strncmp(address, "tcp://", 6) == 0 || *endpoint_scheme_of(address)) {
        const char *rest = strncmp(address, "tcp://", 6) == 0 ? address + 6 : address;
        return endpoint_ends_with_port(rest, 1) ? reach_tcp(rest) : REACH_UNKNOWN;
    }
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

/* ---- of all addresses that --server gives ---- */

/* What is known of several: the first that may be there, or where none is, the last. */
static ctl_reach both(ctl_reach a, ctl_reach b) {
    return a == REACH_REFUSED || a == REACH_NO_HOST ? b : a;
}

/* A file's lines, as the client library reads them (servers.c). REACH_UNKNOWN: it has no address, or cannot be read. */
static ctl_reach reach_file(const char *path) {
    char line[512];
    ctl_reach all = REACH_REFUSED;
    bool is_empty = true;
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "#\r\n")] = 0;
        char *address = line + strspn(line, " \t");
        address[strcspn(address, " \t")] = 0;
        if (!*address) continue;
        all = both(all, ctl_reach_address(address));
        is_empty = false;
    }
    if (file) fclose(file);
    return is_empty ? REACH_UNKNOWN : all;
}

/* A folder's files, but those that are being written: with a dot first, or a suffix that is no number. */
static ctl_reach reach_folder(const char *path) {
    char inner[4096];
    ctl_reach all = REACH_REFUSED;
    bool is_empty = true;
    DIR *folder = opendir(path);
    if (!folder) return reach_file(path);
    for (const struct dirent *entry; (entry = readdir(folder));) {
        const char *suffix = strrchr(entry->d_name, '.');
        if (entry->d_name[0] == '.' || (suffix && strspn(suffix + 1, "0123456789") != strlen(suffix + 1))) continue;
        snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
        all = both(all, reach_file(inner));
        is_empty = false;
    }
    closedir(folder);
    return is_empty ? REACH_UNKNOWN : all;
}

static ctl_reach reach_source(const char *source) {
    if (strncmp(source, "file:", 5) == 0) return reach_folder(source + 5);
    return strncmp(source, "dns://", 6) == 0 ? reach_tcp(source + 6) : ctl_reach_address(source);
}

bool ctl_is_refused(const char *server, char *seen, size_t size) {
    ctl_reach all = REACH_REFUSED;
    for (const char *at = server; *at;) {
        size_t n = strcspn(at, ",");
        char source[512];
        if (n >= sizeof source) return false;
        memcpy(source, at, n);
        source[n] = 0;
        all = reach_source(source + strspn(source, " "));
        if (all != REACH_REFUSED && all != REACH_NO_HOST) return false;
        at += n + (at[n] == ',');
    }
    const bool is_several = strchr(server, ',') || strncmp(server, "file:", 5) == 0;
    if (all == REACH_NO_HOST && !is_several)
        snprintf(seen, size, "the host's name does not resolve: %s", server);
    else
        snprintf(seen, size, "%s refused: nothing listens at %s",
                 is_several ? "the connections were" : "the connection was", server);
    return *server != 0;
}

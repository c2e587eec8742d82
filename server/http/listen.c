/* listen.c - see listen.h. */
#include "server/http/listen.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* "[::1]:80" -> "::1", "80". False: no such shape. */
static bool split(const char *text, char *host, size_t host_size, char *port, size_t port_size) {
    const char *colon = strrchr(text, ':');
    if (!colon || colon == text) return false;
    size_t length = (size_t)(colon - text);
    if (text[0] == '[') {
        if (colon[-1] != ']' || length < 3) return false;
        text++;
        length -= 2;
    } else if (memchr(text, ':', length)) {
        return false; /* IPv6 without brackets: which colon is the port's? */
    }
    size_t digits = strlen(colon + 1);
    if (digits == 0 || digits > 5 || strspn(colon + 1, "0123456789") != digits || atoi(colon + 1) > 65535) return false;
    if (length >= host_size || digits >= port_size) return false;
    memcpy(host, text, length);
    host[length] = 0;
    memcpy(port, colon + 1, digits + 1);
    return true;
}

static int bind_to(const struct addrinfo *info) {
    int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -1;
    /* On Linux this allows a restart while old connections linger, and still no second listener. */
    int on = 1, failed = setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (info->ai_family == AF_INET6) failed |= setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    if (!failed && bind(fd, info->ai_addr, info->ai_addrlen) == 0 && listen(fd, 128) == 0) return fd;
    int saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

static bool describe(listener *out) {
    struct sockaddr_storage bound;
    socklen_t size = sizeof bound;
    char host[64], port[8];
    if (getsockname(out->fd, (struct sockaddr *)&bound, &size) != 0 ||
        getnameinfo((struct sockaddr *)&bound, size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return false;
    out->ipv6 = bound.ss_family == AF_INET6;
    if (out->ipv6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&bound;
        out->loopback = IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
    } else {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)&bound;
        out->loopback = (ntohl(v4->sin_addr.s_addr) >> 24) == 127;
    }
    snprintf(out->address, sizeof out->address, out->ipv6 ? "[%.60s]:%s" : "%.60s:%s", host, port);
    return true;
}

bool listener_open(listener *out, const char *text, server_error *error) {
    char host[256], port[8], object[96];
    snprintf(object, sizeof object, "address %.80s", text);
    if (!split(text, host, sizeof host, port, sizeof port))
        return server_fail(error, CONTACTD_INVALID_ARGUMENT, object, "http",
                           "--http \"%s\" is not HOST:PORT, as in 127.0.0.1:8080, localhost:0 or [::1]:8080", text);
    struct addrinfo hints = {.ai_flags = AI_NUMERICSERV | AI_PASSIVE, .ai_socktype = SOCK_STREAM}, *list = NULL;
    int code = getaddrinfo(host, port, &hints, &list);
    if (code != 0)
        return server_fail(error, CONTACTD_INVALID_ARGUMENT, object, "http", "cannot find the host of --http %s: %s",
                           text, gai_strerror(code));
    *out = (listener){.fd = -1};
    int why = 0;
    for (const struct addrinfo *info = list; info && out->fd < 0; info = info->ai_next) {
        out->fd = bind_to(info);
        if (out->fd < 0 && (!why || errno == EADDRINUSE)) why = errno;
    }
    freeaddrinfo(list);
    if (out->fd < 0)
        return server_fail(error, why == EADDRINUSE ? CONTACTD_CONFLICT : CONTACTD_INVALID_ARGUMENT, object, "http",
                           "cannot listen on --http %s: %s%s", text, strerror(why),
                           why == EADDRINUSE
                               ? "; another program, perhaps another contactd, has that port: stop it, or "
                                 "choose another port (0: any free one)"
                           : why == EADDRNOTAVAIL ? "; it is no address of this machine"
                           : why == EACCES        ? "; ports below 1024 need a privilege"
                                                  : "");
    if (describe(out)) return true;
    server_fail(error, CONTACTD_INTERNAL, object, "http", "cannot read the bound address: %s", strerror(errno));
    close(out->fd);
    return false;
}

bool listener_take(listener *out, int fd, server_error *error) {
    struct sockaddr_storage bound;
    socklen_t size = sizeof bound;
    *out = (listener){.fd = fd};
    bool is_tcp = getsockname(fd, (struct sockaddr *)&bound, &size) == 0 &&
                  (bound.ss_family == AF_INET || bound.ss_family == AF_INET6);
    if (is_tcp && describe(out)) return true;
    return server_fail(error, CONTACTD_INVALID_ARGUMENT, "passed socket", "http", "HTTP is served over TCP alone");
}

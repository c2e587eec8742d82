/* endpoint.h - what ZeroMQ does not say of addresses, for server and clients. It reads ports as far as they are numbers,
 * and keeps 16 bits: it takes 99999 for 34463, and 12x for 12. It replaces a socket file that it finds, and so takes over
 * that of another server. */
#ifndef CONTACTD_ENDPOINT_H
#define CONTACTD_ENDPOINT_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Whether HOST:PORT ends with a port from `least` to 65535. */
static inline bool endpoint_ends_with_port(const char *text, unsigned least) {
    const char *colon = strrchr(text, ':');
    const size_t n = colon ? strspn(colon + 1, "0123456789") : 0;
    if (n < 1 || n > 5 || colon[1 + n]) return false;
    const unsigned long port = strtoul(colon + 1, NULL, 10);
    return port >= least && port <= 65535;
}

/* Whether the address is tcp://HOST:PORT with a port from `least` to 65535, or of another kind. */
static inline bool endpoint_has_port(const char *endpoint, unsigned least) {
    return strncmp(endpoint, "tcp://", 6) != 0 || endpoint_ends_with_port(endpoint + 6, least);
}

/* The same of an address to listen on, where "*" and 0 are any free port. */
static inline bool endpoint_can_listen(const char *endpoint) {
    const size_t n = strlen(endpoint);
    return endpoint_has_port(endpoint, 0) || (n > 2 && strcmp(endpoint + n - 2, ":*") == 0);
}

/* What makes an address of HOST:PORT, to be put before it; "" before all else. */
static inline const char *endpoint_scheme_of(const char *text) {
    const char *end = strrchr(text, ':');
    if (!end || end == text || !end[1] || end[1 + strspn(end + 1, "0123456789")] || strpbrk(text, "/,;* \t")) return "";
    const bool is_v6 = *text == '[' && end - text > 2 && end[-1] == ']';
    return is_v6 || strcspn(text, ":[]") == (size_t)(end - text) ? "tcp://" : "";
}

/* Whether a server listens at ipc://PATH: only a connection tells. False of other addresses. */
static inline bool endpoint_is_served(const char *endpoint) {
    struct sockaddr_un address;
    memset(&address, 0, sizeof address);
    address.sun_family = AF_UNIX;
    if (strncmp(endpoint, "ipc://", 6) != 0 || strlen(endpoint + 6) >= sizeof address.sun_path) return false;
    memcpy(address.sun_path, endpoint + 6, strlen(endpoint + 6) + 1);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool served = fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
    if (fd >= 0) close(fd);
    return served;
}

#endif

/* listen.h - from "127.0.0.1:8080" to a listening socket, with an error a person can act on. */
#ifndef CONTACTD_HTTP_LISTEN_H
#define CONTACTD_HTTP_LISTEN_H

#include <stdbool.h>

#include "server/base/error.h"

typedef struct listener {
    int fd;
    bool ipv6;
    bool loopback;    /* bound to an address that only this machine reaches */
    char address[72]; /* as bound: "127.0.0.1:41873", "[::1]:8080" */
} listener;

/* text: HOST:PORT with a name, an IPv4 address or a bracketed IPv6 address; port 0: any free one. The caller closes fd.
 */
bool listener_open(listener *out, const char *text, server_error *error);

/* Takes over a listening socket that was passed to the process; it is the listener's from then on. False: it is no TCP
 * socket. */
bool listener_take(listener *out, int fd, server_error *error);

#endif

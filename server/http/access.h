/* access.h - which requests a browser may have been tricked into: the Host of a DNS rebinding attack, and cross-site
 * requests that change something. Pure. */
#ifndef CONTACTD_HTTP_ACCESS_H
#define CONTACTD_HTTP_ACCESS_H

#include <stdbool.h>

#include "server/http/problem.h"

typedef struct access_request {
    const char *host; /* headers as received; NULL: absent */
    const char *origin;
    const char *sec_fetch_site;
    bool changes;  /* POST, PATCH, DELETE */
    bool loopback; /* the server listens on a loopback address only */
} access_request;

/* On a loopback server the Host must name this machine: "localhost", a name under it, 127.x.y.z or [::1], with or
 * without a port. A request that changes something and comes from a browser must come from a page of this server.
 * False: *p says why (400 or 403). */
bool access_check(const access_request *request, problem *p);

#endif

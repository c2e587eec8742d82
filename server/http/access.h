/* access.h - which requests a browser may have been tricked into: the Host of a DNS rebinding attack, and cross-site
 * requests that change or compute something. And the token of a request. Pure. */
#ifndef CONTACTD_HTTP_ACCESS_H
#define CONTACTD_HTTP_ACCESS_H

#include <stdbool.h>

#include "server/http/problem.h"

typedef struct access_request {
    const char *host; /* headers as received; NULL: absent */
    const char *origin;
    const char *sec_fetch_site;
    bool changes;             /* POST, PATCH, DELETE */
    bool computes;            /* GET that takes work: a picture */
    bool loopback;            /* the server listens on a loopback address only */
    const char *const *names; /* [n_names] hosts of --http-host */
    size_t n_names;
} access_request;

/* The Host must be one of the names, or this machine: "localhost", a name under it, 127.x.y.z or [::1], with or without
 * a port. A server that other machines reach also answers to any address, as DNS rebinding needs a name. A request that
 * changes something and comes from a browser must come from a page of this server; one that computes, and of which the
 * browser tells where it comes from, too. False: *p says why (400 or 403). */
bool access_check(const access_request *request, problem *p);

/* The token in the header Authorization ("Bearer TOKEN"), in it and not NUL-terminated. NULL: there is none. */
const char *access_token(const char *authorization, size_t *size);

#endif

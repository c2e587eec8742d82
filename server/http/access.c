/* access.c - see access.h. */
#include "server/http/access.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "server/http/text.h"

/* "name:80", "[::1]:80" -> the name without port and brackets. False: not a host with an optional port. */
static bool host_name(const char *host, char *out, size_t size) {
    bool bracket = host[0] == '[';
    size_t length = bracket ? strcspn(host, "]") : strcspn(host, ":");
    const char *rest = host + length;
    if (bracket) {
        if (*rest != ']') return false;
        rest++;
        host++;
        length--;
    }
    if (*rest == ':') {
        if (strlen(rest + 1) != strspn(rest + 1, "0123456789") || strlen(rest + 1) > 5) return false;
    } else if (*rest) {
        return false;
    }
    if (length == 0 || length >= size) return false;
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)host[i]) && !strchr(bracket ? ":." : "-._", host[i])) return false;
    memcpy(out, host, length);
    out[length] = 0;
    return true;
}

/* Where other machines may come in, an address: a page of another site can only be reached by its name. */
static bool is_address_of(const char *name, bool loopback) {
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, name, &v4) == 1) return !loopback || (ntohl(v4.s_addr) >> 24) == 127;
    return inet_pton(AF_INET6, name, &v6) == 1 && (!loopback || IN6_IS_ADDR_LOOPBACK(&v6));
}

static bool names_this_machine(const char *name) {
    size_t n = strlen(name), suffix = strlen(".localhost");
    return strcasecmp(name, "localhost") == 0 || (n > suffix && strcasecmp(name + n - suffix, ".localhost") == 0);
}

static bool is_ours(const access_request *request, const char *name) {
    if (is_address_of(name, request->loopback) || names_this_machine(name)) return true;
    for (size_t i = 0; i < request->n_names; i++) {
        if (strcasecmp(name, request->names[i]) == 0) return true;
    }
    return false;
}

/* Whether origin ("http://name:8080") has the authority that the request was sent to. A browser leaves the scheme's own
 * port out of both. */
static bool same_authority(const char *origin, const char *host) {
    const char *authority = strstr(origin, "://");
    return authority && strcasecmp(authority + 3, host) == 0;
}

bool access_check(const access_request *request, problem *p) {
    char name[256], shown[300];
    if (!request->host || !host_name(request->host, name, sizeof name))
        return problem_set(p, CONTACTD_MALFORMED, "Host", "the header Host is %s; expected a host and, if any, a port",
                           request->host ? "not an authority" : "missing");
    if (!is_ours(request, name))
        return problem_set_http(p, CONTACTD_FORBIDDEN, 403, "the request names another host", "Host",
                                "this server answers to %s and the names in --http-host, not to %s; use one of these, "
                                "or add the name",
                                request->loopback ? "localhost, 127.0.0.1, [::1]" : "its addresses, localhost",
                                text_clean(name, shown, sizeof shown));
    if (!request->changes && !request->computes) return true;
    const char *site = request->sec_fetch_site;
    if (site && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0)
        return problem_set_http(p, CONTACTD_FORBIDDEN, 403,
                                request->changes ? "cross-site requests change nothing here"
                                                 : "cross-site requests compute nothing here",
                                "Sec-Fetch-Site",
                                "a page of another site sent this request (Sec-Fetch-Site: %s); send it from a program "
                                "or from a page of this server",
                                text_clean(site, shown, 64));
    if (!request->changes) return true;
    if (request->origin && !same_authority(request->origin, request->host))
        return problem_set_http(p, CONTACTD_FORBIDDEN, 403, "cross-site requests change nothing here", "Origin",
                                "a page of %s sent this request to %s; send it from a program or from a page of this "
                                "server",
                                text_clean(request->origin, shown, 200), name);
    return true;
}

const char *access_token(const char *authorization, size_t *size) {
    static const char scheme[] = "Bearer";
    *size = 0;
    if (!authorization || strncasecmp(authorization, scheme, sizeof scheme - 1) != 0) return NULL;
    const char *token = authorization + sizeof scheme - 1;
    if (*token != ' ') return NULL;
    token += strspn(token, " ");
    *size = strcspn(token, " \t");
    return *size && !token[*size] ? token : NULL;
}

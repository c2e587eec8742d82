/* router.h - every resource there is, its methods, and which one a request means. Pure: no sockets, no memory.
 *
 * proto/openapi.json describes the same list; a unit test holds the two together. */
#ifndef CONTACTD_HTTP_ROUTER_H
#define CONTACTD_HTTP_ROUTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/http/problem.h"

enum { HTTP_GET = 1, HTTP_POST = 2, HTTP_PATCH = 4, HTTP_DELETE = 8 }; /* HEAD goes where GET goes */

/* name, path, methods. A segment in braces is a parameter. */
#define HTTP_ROUTES(X)                                                                                                 \
    X(PAGE, "/", HTTP_GET)                                                                                             \
    X(PAGE_SCRIPT, "/page.js", HTTP_GET)                                                                               \
    X(PAGE_STYLE, "/page.css", HTTP_GET)                                                                               \
    X(OPENAPI, "/openapi.json", HTTP_GET)                                                                              \
    X(HEALTH, "/healthz", HTTP_GET)                                                                                    \
    X(READY, "/readyz", HTTP_GET)                                                                                      \
    X(METRICS, "/metrics", HTTP_GET)                                                                                   \
    X(STATUS, "/v1/status", HTTP_GET)                                                                                  \
    X(DEVICES, "/v1/devices", HTTP_GET)                                                                                \
    X(DRAIN, "/v1/drain", HTTP_POST)                                                                                   \
    X(SESSIONS, "/v1/sessions", HTTP_GET)                                                                              \
    X(MESHES, "/v1/meshes", HTTP_GET | HTTP_POST)                                                                      \
    X(MESH, "/v1/meshes/{mesh}", HTTP_GET | HTTP_DELETE)                                                               \
    X(OVERLAP, "/v1/overlap", HTTP_POST)                                                                               \
    X(SCENES, "/v1/scenes", HTTP_GET | HTTP_POST)                                                                      \
    X(SCENE, "/v1/scenes/{scene}", HTTP_GET | HTTP_PATCH | HTTP_DELETE)                                                \
    X(BODIES, "/v1/scenes/{scene}/bodies", HTTP_GET | HTTP_POST)                                                       \
    X(BODY, "/v1/scenes/{scene}/bodies/{body}", HTTP_GET | HTTP_PATCH | HTTP_DELETE)                                   \
    X(STEP, "/v1/scenes/{scene}/step", HTTP_POST)                                                                      \
    X(STATS, "/v1/scenes/{scene}/stats", HTTP_GET)                                                                     \
    X(SNAPSHOT, "/v1/scenes/{scene}/snapshot.png", HTTP_GET)

typedef enum http_route {
#define HTTP_ROUTE_ENUM(name, path, methods) ROUTE_##name,
    HTTP_ROUTES(HTTP_ROUTE_ENUM)
#undef HTTP_ROUTE_ENUM
        ROUTE_COUNT
} http_route;

const char *route_path(http_route route);
uint32_t route_methods(http_route route);

/* "GET" -> HTTP_GET, "HEAD" -> HTTP_GET; 0: a method that no resource has. */
uint32_t route_method(const char *method);

/* Writes "GET, HEAD, POST" and returns out. size >= 40. */
const char *route_allow(uint32_t methods, char *out, size_t size);

typedef struct route_match {
    http_route route;
    uint32_t method;       /* one of HTTP_... */
    char parameter[2][80]; /* as in the path, in order; never empty where the route has it */
} route_match;

/* path: without the query, as received (percent signs and all; no resource's path needs any). False: *p says NOT_FOUND,
 * or METHOD_NOT_ALLOWED with p->allow. */
bool route_find(const char *method, const char *path, route_match *match, problem *p);

/* Parameters. False: *p says that the resource cannot exist (NOT_FOUND). */
bool route_scene(const route_match *match, uint64_t *scene, problem *p);
bool route_body(const route_match *match, uint32_t *body, problem *p); /* of ROUTE_BODY */

/* A decimal number >= 1 and <= max without sign, leading zero or anything after it. */
bool route_number(const char *text, uint64_t max, uint64_t *out);

#endif

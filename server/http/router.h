/* router.h - every resource there is, what holds of it, and which one a request means. Pure: no sockets, no memory.
 *
 * A resource is one row here, its function, and its description in proto/openapi.json; a unit test holds the
 * description to the row: methods, who may ask, query parameters, bodies. */
#ifndef CONTACTD_HTTP_ROUTER_H
#define CONTACTD_HTTP_ROUTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/http/problem.h"

enum { HTTP_GET = 1, HTTP_POST = 2, HTTP_PATCH = 4, HTTP_DELETE = 8 }; /* HEAD goes where GET goes */

enum { HTTP_ANY = HTTP_GET | HTTP_POST | HTTP_PATCH | HTTP_DELETE };

/* Query parameters, in words; the last list is that of query.c. */
#define HTTP_QUERY_PAGE     "limit after"
#define HTTP_QUERY_SCENES   HTTP_QUERY_PAGE " find"
#define HTTP_QUERY_MESH     "name repair max_hole weld scale unit open_direction closing resolution"
#define HTTP_QUERY_HISTORY  "seconds"
#define HTTP_QUERY_LIVE     "rate points surface"
#define HTTP_QUERY_CONTACTS "offset limit sort body"
#define HTTP_QUERY_SNAPSHOT                                                                                            \
    "width height contact show resolution azimuth elevation up eye target zoom field_of_view opacity background"

/* The columns:
 * - name, path; a segment in braces is a parameter;
 * - methods;
 * - who may ask: http_auth, without AUTH_;
 * - methods that wait, compute or free memory, and belong to the service's workers, and which: work_kind, without WORK_. A
 *   mesh may have to be read from the state folder, whatever is asked of it. The others are answered from memory at once;
 * - query parameters of GET, and of POST;
 * - the function that answers, in handlers.c or handlers.h. A snapshot has two instead: handler_begin_picture. */
#define HTTP_ROUTES(X)                                                                                                 \
    X(PAGE, "/", HTTP_GET, NONE, 0, NONE, "", "", page)                                                                \
    X(PAGE_SCRIPT, "/page.js", HTTP_GET, NONE, 0, NONE, "", "", page_script)                                           \
    X(PAGE_STYLE, "/page.css", HTTP_GET, NONE, 0, NONE, "", "", page_style)                                            \
    X(DOCS, "/docs", HTTP_GET, NONE, 0, NONE, "", "", page_docs)                                                       \
    X(PAGE_MODULE, "/page/{module}", HTTP_GET, NONE, 0, NONE, "", "", page_module)                                     \
    X(OPENAPI, "/openapi.json", HTTP_GET, NONE, 0, NONE, "", "", openapi)                                              \
    X(HEALTH, "/healthz", HTTP_GET, NONE, 0, NONE, "", "", healthy)                                                    \
    X(READY, "/readyz", HTTP_GET, NONE, 0, NONE, "", "", ready)                                                        \
    X(METRICS, "/metrics", HTTP_GET, METRICS, 0, NONE, "", "", prometheus)                                             \
    X(STATUS, "/v1/status", HTTP_GET, PRINCIPAL, 0, NONE, "", "", facts)                                               \
    X(DEVICES, "/v1/devices", HTTP_GET, PRINCIPAL, 0, NONE, "", "", facts)                                             \
    X(HISTORY, "/v1/history", HTTP_GET, PRINCIPAL, 0, NONE, HTTP_QUERY_HISTORY, "", server_history)                    \
    X(DRAIN, "/v1/drain", HTTP_POST, PRINCIPAL, 0, NONE, "", "", drain)                                                \
    X(SESSIONS, "/v1/sessions", HTTP_GET, PRINCIPAL, 0, NONE, HTTP_QUERY_PAGE, "", list_sessions)                      \
    X(MESHES, "/v1/meshes", HTTP_GET | HTTP_POST, PRINCIPAL, HTTP_POST, MESHES, HTTP_QUERY_PAGE, HTTP_QUERY_MESH,      \
      handle_mesh_routes)                                                                                              \
    X(MESH, "/v1/meshes/{mesh}", HTTP_GET | HTTP_DELETE, PRINCIPAL, HTTP_ANY, MESHES, "", "", handle_mesh_routes)      \
    X(GEOMETRY, "/v1/meshes/{mesh}/geometry", HTTP_GET, PRINCIPAL, HTTP_ANY, MESHES, "", "", handle_mesh_routes)       \
    X(OVERLAP, "/v1/overlap", HTTP_POST, PRINCIPAL, HTTP_ANY, SCENES, "", "", handle_overlap)                          \
    X(SCENES, "/v1/scenes", HTTP_GET | HTTP_POST, PRINCIPAL, HTTP_POST, SCENES, HTTP_QUERY_SCENES, "",                 \
      handle_scene_routes)                                                                                             \
    X(SCENE, "/v1/scenes/{scene}", HTTP_GET | HTTP_PATCH | HTTP_DELETE, PRINCIPAL, HTTP_PATCH | HTTP_DELETE, COMMANDS, \
      "", "", handle_scene_routes)                                                                                     \
    X(BODIES, "/v1/scenes/{scene}/bodies", HTTP_GET | HTTP_POST, PRINCIPAL, HTTP_ANY, COMMANDS, "", "",                \
      handle_scene_routes)                                                                                             \
    X(BODY, "/v1/scenes/{scene}/bodies/{body}", HTTP_GET | HTTP_PATCH | HTTP_DELETE, PRINCIPAL, HTTP_ANY, COMMANDS,    \
      "", "", handle_scene_routes)                                                                                     \
    X(STEP, "/v1/scenes/{scene}/step", HTTP_POST, PRINCIPAL, HTTP_ANY, COMMANDS, "", "", handle_step)                  \
    X(STATS, "/v1/scenes/{scene}/stats", HTTP_GET, PRINCIPAL, 0, NONE, "", "", handle_scene_routes)                    \
    X(CONTACTS, "/v1/scenes/{scene}/contacts", HTTP_GET, PRINCIPAL, HTTP_ANY, COMMANDS, HTTP_QUERY_CONTACTS, "",       \
      handle_contacts)                                                                                                 \
    X(LIVE, "/v1/scenes/{scene}/live", HTTP_GET, PRINCIPAL, 0, NONE, HTTP_QUERY_LIVE, "", handle_live)                 \
    X(SNAPSHOT, "/v1/scenes/{scene}/snapshot.png", HTTP_GET, PRINCIPAL, HTTP_ANY, PICTURES, HTTP_QUERY_SNAPSHOT, "",   \
      NULL)

typedef enum http_route {
#define HTTP_ROUTE_ENUM(name, ...) ROUTE_##name,
    HTTP_ROUTES(HTTP_ROUTE_ENUM)
#undef HTTP_ROUTE_ENUM
        ROUTE_COUNT
} http_route;

const char *route_path(http_route route);
/* Its query parameters, in words between blanks: "limit after"; "": none. method: one of HTTP_... */
const char *route_query(http_route route, uint32_t method);

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

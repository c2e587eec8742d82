/* handlers.h - what each resource does: a whole request in, an answer or a problem out. Knows nothing of sockets. */
#ifndef CONTACTD_HTTP_HANDLERS_H
#define CONTACTD_HTTP_HANDLERS_H

#include "server/base/json_out.h"
#include "server/core/service.h"
#include "server/http/media.h"
#include "server/http/repeats.h"
#include "server/http/requests.h"
#include "server/http/router.h"

typedef struct http_request {
    route_match match;
    identity who;
    uint32_t generation; /* of the list of principals that it was looked up in */
    const char *query;   /* what follows the '?', as received; "" if nothing */
    media media;
    const char *body; /* NULL where there is none */
    size_t size;
    uint64_t received_ns;        /* of clock_ns(), when it was complete */
    ct_cancel *left;             /* requested once the client has left: what is computed for it ends */
    const char *if_match;        /* the header as received; NULL: absent */
    const char *idempotency_key; /* the same */
    repeats *repeats;
    struct live *live;
} http_request;

/* How a source tells that it has nothing to send now, and that it has again. */
typedef struct http_sleeper {
    void (*sleep)(void *of);    /* by `read`, which then returns HTTP_SOURCE_WAITS */
    void (*wake)(void *of);     /* on any thread; once for each sleep */
    bool (*has_left)(void *of); /* while it sleeps: whether the client has gone, which nobody else looks for then */
    void *of;
} http_sleeper;
#define HTTP_SOURCE_WAITS SIZE_MAX

/* Content that is made while it is sent. */
typedef struct http_source {
    /* Copies what there is from `at` on to `to`, `most` bytes at most; returns how many, 0 at the end. */
    size_t (*read)(void *context, uint64_t at, char *to, size_t most);
    void (*close)(void *context);
    /* Before the first read: of a source that may wait, whose size is not known. NULL: it does not. */
    void (*attach)(void *context, const http_sleeper *sleeper);
    void *context;
} http_source;

typedef struct http_answer {
    int status;
    const char *type;   /* Content-Type; NULL: no content */
    char *data;         /* malloc'd, handed over to the caller; NULL: fixed */
    const void *fixed;  /* or this, which stays */
    http_source source; /* or this, handed over; read NULL: none */
    uint64_t size;
    char location[96]; /* of what was made; may be empty */
    char etag[64];     /* may be empty */
    bool page;         /* for browsers: send the page's policies along */
    bool is_lasting;   /* what this path names never changes: the client may keep it */
} http_answer;

/* Most requests are answered from memory at once, on libmicrohttpd's threads. True: this one waits, computes or frees
 * memory, and belongs to the service's workers. */
bool handler_is_slow(const route_match *match, work_kind *kind);

bool handler_takes_body(const route_match *match); /* POST, PATCH */

/* All but pictures. False: *p says why, and there is no answer. */
bool handler_run(const service *service, const http_request *request, http_answer *answer, problem *p);

/* The parts of handler_run that have files of their own. */
bool handle_mesh_routes(const service *service, const http_request *request, http_answer *answer, problem *p);
bool handle_scene_routes(const service *service, const http_request *request, http_answer *answer, problem *p);
bool handle_overlap(const service *service, const http_request *request, http_answer *answer, problem *p);
bool handle_live(const service *service, const http_request *request, http_answer *answer, problem *p);
bool handle_contacts(const service *service, const http_request *request, http_answer *answer, problem *p);
bool handle_step(const service *service, const http_request *request, http_answer *answer, problem *p);

/* Pictures (ROUTE_SNAPSHOT) are made in two parts, so that no thread waits for the scheduler in between. The first
 * fills a command, which the caller submits; the second, on a worker, draws the snapshot that the command took, and
 * frees it. False: *p says why. */
bool handler_begin_picture(const service *service, const http_request *request, command *command, problem *p);
bool handler_end_picture(const service *service, command *command, http_answer *answer, problem *p);

/* One page of a list. */
typedef struct pager {
    page_request page;
    uint32_t n;    /* items on it */
    uint64_t last; /* id of the last one */
    bool has_more;
} pager;
/* Whether the item is on the page; items come in rising order of id. */
bool pager_takes(pager *pager, uint64_t id);
/* "next": what the next page's `after` is, if there is one. */
void pager_finish(const pager *pager, json_out *out);

/* Ends a JSON answer. TOO_LARGE beyond the limit it was begun with. */
bool handler_finish(json_out *out, int status, http_answer *answer, problem *p);
/* Finds a mesh by number or hash as a path or a body names it. out and mesh as in registry_find_mesh. */
bool handler_find_mesh(const service *service, const identity *who, const char *text, mesh_record *out, problem *p);

/* The authentication that a request needs. */
typedef enum http_auth {
    AUTH_NONE,      /* probes, and documents that are the same for all */
    AUTH_METRICS,   /* as --http-metrics says */
    AUTH_PRINCIPAL, /* a principal, whatever its role */
} http_auth;
http_auth handler_auth(const route_match *match);
bool handler_computes(const route_match *match); /* work that another site's page must not cause, also by GET */

#endif

/* server.c - the only file that knows libmicrohttpd: receives requests whole and bounded, has them carried out by
 * handlers.h (at once, or by the service's workers), and sends the answers. See http.h. */
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/trace.h"
#include "server/base/clock.h"
#include "server/base/log.h"
#include "server/core/picture.h"
#include "server/guard/shares.h"
#include "server/http/access.h"
#include "server/http/framing.h"
#include "server/http/handlers.h"
#include "server/http/http.h"
#include "server/http/listen.h"
#include "server/http/live.h"
#include "server/http/text.h"
#include "server/http/tls.h"
#include "server/http/watch.h"

enum {
    IO_THREADS = 2,
    BODIES_AT_ONCE = 4,       /* of the largest size allowed, before uploads are told to come again */
    HEADER_MEMORY = 64 << 10, /* of a connection, for the request's header */
    LAST_ANSWERS_MS = 2000,   /* on stopping, for clients to take the answers that are ready */
};

struct http_server {
    const service *service;
    tls *tls; /* NULL: not encrypted */
    const char *routes[ROUTE_COUNT];
    listener listener;
    struct MHD_Daemon *daemon;
    watch *watch;
    repeats *repeats;
    struct live *live;
    atomic_bool stopping;
    atomic_uint exchanges; /* requests between their first line and the end of their answer */
    atomic_uint snapshots; /* that the scheduler has yet to take */
    pthread_mutex_t bodies_lock;
    shares bodies; /* [bodies_lock] bytes of bodies being received or carried out, by principal */
};

typedef struct exchange { /* one request and its answer */
    work work;            /* first, so that a work is its exchange */
    http_server *server;
    struct MHD_Connection *connection;
    watched *watched;
    char *target;        /* of the request line, as received */
    const char *uri;     /* in it: without scheme and authority */
    char authority[256]; /* of a target in the form that proxies use; may be empty */
    bool begun;          /* the header was looked at */
    bool discards;       /* what is still received is of no use */
    bool closes;         /* nothing that follows on the connection is read as a request */
    bool is_chunked;
    bool is_routed; /* request.match is set */
    bool done;      /* carried out: request.answer or problem says what to send */
    uint64_t limit, received, begun_ns;
    size_t capacity;
    http_request request;
    char *body;
    command command; /* of a picture */
    ct_cancel left;  /* requested once the client has left */
    http_answer answer;
    problem problem;
} exchange;

/* ---- answers ---- */

static void header(struct MHD_Response *response, const char *name, const char *value) {
    if (MHD_add_response_header(response, name, value) != MHD_YES)
        log_error("http", "no memory for the header %s of an answer", name);
}

/* Of every answer: nothing here is for other sites, nor for caches, nor to be taken for another type; and a server that
 * has a certificate is not asked in the clear (browsers keep that for a year). */
static void common_headers(struct MHD_Response *response, const http_answer *answer, bool is_encrypted) {
    if (is_encrypted) header(response, "Strict-Transport-Security", "max-age=31536000");
    header(response, "X-Content-Type-Options", "nosniff");
    header(response, "Cross-Origin-Resource-Policy", "same-origin");
    header(response, "Cache-Control",
           answer->is_lasting ? "private, max-age=31536000, immutable"
           : answer->page     ? "no-cache"
                              : "no-store");
    if (!answer->page) return;
    header(response, "Content-Security-Policy",
           "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
           "base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
    header(response, "X-Frame-Options", "DENY");
    header(response, "Referrer-Policy", "no-referrer");
}

static void problem_headers(struct MHD_Response *response, const problem *p) {
    char text[64];
    uint32_t seconds = problem_retry_after(p);
    if (seconds) {
        snprintf(text, sizeof text, "%u", seconds);
        header(response, "Retry-After", text);
    }
    if (p->accepts_identity) header(response, "Accept-Encoding", "identity");
    if (p->asks_token) header(response, "WWW-Authenticate", "Bearer realm=\"contactd\"");
    if (p->allow) header(response, "Allow", route_allow(p->allow, text, sizeof text));
}

static const char *request_header(exchange *x, const char *name) {
    return MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, name);
}

static void log_answer(exchange *x) {
    if (!log_enabled(LOG_LEVEL_DEBUG)) return;
    char trace[TRACE_ID + 1];
    uint64_t scene = 0;
    const route_match *match = &x->request.match;
    bool has_scene = x->is_routed && strstr(route_path(match->route), "{scene}");
    if (has_scene) route_number(match->parameter[0], UINT64_C(1) << 52, &scene);
    trace_id(request_header(x, "traceparent"), trace);
    log_fields fields = {.scene = scene,
                         .code = server_code_name(x->problem.code),
                         .duration_s = (double)(clock_ns() - x->begun_ns) * 1e-9,
                         .trace = trace};
    log_event(LOG_LEVEL_DEBUG, "http", &fields, "%d %s", x->answer.status, x->uri);
}

/* A source, and the connection that it is sent over. */
typedef struct sender {
    http_source source;
    struct MHD_Connection *connection;
    watched *watched;
    metrics *metrics;
} sender;

static void put_to_sleep(void *of) {
    MHD_suspend_connection(of);
}

static void wake_up(void *of) {
    MHD_resume_connection(of);
}

static bool has_client_left(void *of) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(of, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct pollfd fd = {.fd = info ? info->connect_fd : -1, .events = POLLRDHUP};
    return poll(&fd, 1, 0) > 0;
}

static ssize_t read_source(void *context, uint64_t at, char *to, size_t most) {
    const sender *sender = context;
    const size_t n = sender->source.read(sender->source.context, at, to, most);
    if (n == 0) return MHD_CONTENT_READER_END_OF_STREAM;
    if (!sender->source.attach) return (ssize_t)n;
    watch_set(sender->watched, WATCH_GRACE_NS); /* it says something every ten seconds */
    if (n == HTTP_SOURCE_WAITS) return 0;
    metrics_add(sender->metrics, METRICS_HTTP_OUT, n);
    return (ssize_t)n;
}

static void close_source(void *context) {
    sender *sender = context;
    sender->source.close(sender->source.context);
    free(sender);
}

static struct MHD_Response *make_stream(const exchange *x) {
    enum { AT_ONCE = 64 << 10 };
    const http_source *source = &x->answer.source;
    sender *sender = malloc(sizeof *sender);
    if (!sender) return NULL;
    *sender = (struct sender){*source, x->connection, x->watched, x->server->service->metrics};
    const uint64_t size = source->attach ? MHD_SIZE_UNKNOWN : x->answer.size;
    struct MHD_Response *response = MHD_create_response_from_callback(size, AT_ONCE, read_source, sender, close_source);
    if (!response)
        free(sender);
    else if (source->attach)
        source->attach(source->context, &(http_sleeper){put_to_sleep, wake_up, has_client_left, x->connection});
    return response;
}

/* Takes what the answer owns. NULL: no memory. */
static struct MHD_Response *make_response(exchange *x) {
    http_answer *answer = &x->answer;
    struct MHD_Response *response = NULL;
    if (answer->source.read) {
        response = make_stream(x);
        if (response) answer->source = (http_source){.read = NULL};
    } else if (answer->data) {
        response = MHD_create_response_from_buffer((size_t)answer->size, answer->data, MHD_RESPMEM_MUST_FREE);
        if (response) answer->data = NULL;
    } else {
        response = MHD_create_response_from_buffer((size_t)answer->size, (void *)(uintptr_t)answer->fixed,
                                                   MHD_RESPMEM_PERSISTENT);
    }
    return response;
}

static enum MHD_Result send_answer(exchange *x) {
    http_answer *answer = &x->answer;
    bool failed = x->problem.code != CONTACTD_OK;
    if (failed) {
        *answer = (http_answer){.status = problem_status(&x->problem), .type = "application/problem+json"};
        size_t size = 0;
        answer->data = problem_document(&x->problem, &size);
        answer->size = size;
        if (!answer->data) return MHD_NO;
        metrics_count_error(x->server->service->metrics, x->problem.code);
    }
    struct MHD_Response *response = make_response(x);
    if (!response) return MHD_NO;
    common_headers(response, answer, x->server->tls != NULL);
    if (answer->type) header(response, "Content-Type", answer->type);
    if (answer->etag[0]) header(response, "ETag", answer->etag);
    if (answer->location[0]) header(response, "Location", answer->location);
    if (failed) problem_headers(response, &x->problem);
    if (x->closes || atomic_load(&x->server->stopping)) header(response, "Connection", "close");
    metrics_add(x->server->service->metrics, METRICS_HTTP_OUT, answer->size);
    watch_begin(x->watched, WATCH_ANSWERING, watch_transfer_ns(answer->size));
    enum MHD_Result result = MHD_queue_response(x->connection, (unsigned)answer->status, response);
    MHD_destroy_response(response);
    if (x->is_routed) metrics_count_http(x->server->service->metrics, x->request.match.route, (unsigned)answer->status);
    log_answer(x);
    return result;
}

/* ---- bodies ---- */

static void drop_body(exchange *x) {
    free(x->body);
    pthread_mutex_lock(&x->server->bodies_lock);
    shares_give(&x->server->bodies, x->request.who.principal, x->capacity);
    pthread_mutex_unlock(&x->server->bodies_lock);
    x->body = NULL;
    x->capacity = x->request.size = 0;
}

/* Counts `more` bytes of a body, if they are within the limit of all and the principal's share of it. */
static bool take_body_bytes(exchange *x, size_t more) {
    shares *bodies = &x->server->bodies;
    const identity *who = &x->request.who;
    char share[160] = "";
    pthread_mutex_lock(&x->server->bodies_lock);
    bool good = shares_know(bodies, who) && shares_allow(bodies, who, more);
    if (good) {
        shares_take(bodies, who->principal, more);
    } else if (who->principal) {
        snprintf(share, sizeof share, " (%llu MiB of them of %s, whose share is %llu MiB)",
                 (unsigned long long)(shares_used(bodies, who->principal) >> 20), who->name,
                 (unsigned long long)(shares_part(bodies, who) >> 20));
    }
    uint64_t used = bodies->used;
    pthread_mutex_unlock(&x->server->bodies_lock);
    if (good) return true;
    problem_set_http(&x->problem, CONTACTD_BUSY, 503, "too many uploads at once", NULL,
                     "uploads hold %llu of %llu MiB (%d times --max-message)%s; send this one again later",
                     (unsigned long long)(used >> 20), (unsigned long long)(bodies->limit >> 20), BODIES_AT_ONCE,
                     share);
    x->problem.retry_after_ms = 2000;
    return false;
}

static bool grow(exchange *x, size_t need) {
    size_t capacity = x->capacity ? x->capacity : 4096;
    while (capacity < need) capacity *= 2;
    if (capacity > x->limit) capacity = x->limit;
    if (!take_body_bytes(x, capacity - x->capacity)) return false;
    char *body = realloc(x->body, capacity);
    if (!body) {
        pthread_mutex_lock(&x->server->bodies_lock);
        shares_give(&x->server->bodies, x->request.who.principal, capacity - x->capacity);
        pthread_mutex_unlock(&x->server->bodies_lock);
        return problem_set(&x->problem, CONTACTD_OUT_OF_MEMORY, NULL, "no memory for a body of %zu bytes", need);
    }
    x->body = body;
    x->capacity = capacity;
    return true;
}

/* libmicrohttpd 1.0 refuses by itself what framing.h looks for between a header's fields. */
static bool parses_in_place(void) {
    return strncmp(MHD_get_version(), "0.", 2) == 0;
}

/* Of a body that is discarded, before the client is cut. */
static uint64_t most_received(const exchange *x) {
    return 2 * x->limit + (1 << 20);
}

static bool too_large(exchange *x) {
    return problem_set(&x->problem, CONTACTD_TOO_LARGE, NULL,
                       "the body is larger than %llu bytes, the most that this server takes (--max-message)",
                       (unsigned long long)x->limit);
}

/* libmicrohttpd takes no answer within a body. This one is short enough to pass at once, before the connection is
 * closed. */
static void answer_within_body(exchange *x) {
    static const char text[] = "HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    if (x->server->tls) {
        if (info) tls_send(info->tls_session, text, sizeof text - 1);
        return;
    }
    info = MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (info && send(info->connect_fd, text, sizeof text - 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        log_debug("http", "a client left before it was told that its chunk is too large");
}

static enum MHD_Result receive(exchange *x, const char *bytes, size_t n) {
    if (x->is_chunked && parses_in_place() && framing_chunk_size(bytes) > most_received(x)) {
        problem_set(&x->problem, CONTACTD_TOO_LARGE, NULL, "a chunk claims more bytes than a request may have");
        metrics_count_error(x->server->service->metrics, x->problem.code);
        answer_within_body(x);
        return MHD_NO;
    }
    x->received += n;
    metrics_add(x->server->service->metrics, METRICS_HTTP_IN, n);
    watch_note_received(x->watched, x->received);
    if (!x->discards) {
        size_t need = x->request.size + n;
        bool ok = need > x->limit ? too_large(x) : need <= x->capacity || grow(x, need);
        if (ok) {
            memcpy(x->body + x->request.size, bytes, n);
            x->request.size = need;
        } else {
            drop_body(x);
            x->discards = true;
        }
    }
    /* A refused client reads the answer only after it has sent everything. One that sends far more than the limit is
     * cut. */
    return x->received > most_received(x) ? MHD_NO : MHD_YES;
}

/* ---- requests ---- */

static enum MHD_Result take_field(void *context, enum MHD_ValueKind kind, const char *name, size_t name_size,
                                  const char *value, size_t value_size) {
    (void)kind;
    return framing_take(context, name, name_size, value ? value : "", value_size) ? MHD_YES : MHD_NO;
}

static bool check_framing(exchange *x, const char *version) {
    framing framing;
    x->closes = true;
    if (!framing_begin(&framing, x->target, version, parses_in_place(), &x->problem)) return false;
    MHD_get_connection_values_n(x->connection, MHD_HEADER_KIND, take_field, &framing);
    if (x->problem.code != CONTACTD_OK) return false;
    if (!framing_end(&framing, version, x->authority[0] ? x->authority : NULL)) return false;
    /* Where a chunk ends is libmicrohttpd's to find, and it is lenient there. */
    x->is_chunked = x->closes = framing.coding != NULL;
    return true;
}

static bool check_length(exchange *x) {
    const char *length = request_header(x, "Content-Length"), *coding = request_header(x, "Transfer-Encoding");
    if (!handler_takes_body(&x->request.match)) {
        x->discards = true;
        return true;
    }
    if (!length && !coding)
        return problem_set_http(&x->problem, CONTACTD_MALFORMED, 411, "the length of the body is not given",
                                "Content-Length", "expected Content-Length, or Transfer-Encoding: chunked");
    return !length || strtoull(length, NULL, 10) <= x->limit || too_large(x);
}

static bool check_coding(exchange *x) {
    const char *coding = request_header(x, "Content-Encoding");
    if (!coding || strcasecmp(coding, "identity") == 0) return true;
    char shown[64];
    x->problem.accepts_identity = true;
    return problem_set_http(&x->problem, CONTACTD_UNSUPPORTED, 415, "a body of this coding is not taken here",
                            "Content-Encoding", "Content-Encoding is %s; send the body as it is, not compressed",
                            text_clean(coding, shown, sizeof shown));
}

static void address_of(exchange *x, char text[64]) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *address = info ? info->client_addr : NULL;
    text[0] = 0;
    if (!address) return;
    socklen_t size = address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    if (getnameinfo(address, size, text, 64, NULL, 0, NI_NUMERICHOST) != 0) text[0] = 0;
}

/* wait_ms: of GUARD_LIMITED. */
static bool refuse_token(exchange *x, guard_verdict verdict, uint32_t wait_ms, bool sent, const char *address) {
    metrics_add(x->server->service->metrics, METRICS_HTTP_UNAUTHENTICATED, 1);
    if (verdict == GUARD_LIMITED) {
        problem_set_http(&x->problem, CONTACTD_BUSY, 429, "too many failed attempts", "Authorization",
                         "too many attempts from %s failed: wait %u s before the next one", address,
                         (wait_ms + 999) / 1000);
        x->problem.retry_after_ms = wait_ms;
        return false;
    }
    x->problem.asks_token = true;
    if (!sent)
        return problem_set(&x->problem, CONTACTD_UNAUTHENTICATED, "Authorization",
                           "the request has no token; expected the header Authorization: Bearer TOKEN, where the list "
                           "of principals (--principals) has the token's hash");
    char more[GUARD_UNSEEN_TEXT];
    log_audit("a request from %s was refused: its token is not in --principals%s", address,
              guard_unseen_text(x->server->service->guard, more));
    return problem_set(&x->problem, CONTACTD_UNAUTHENTICATED, "Authorization",
                       "the token is not one of those in the list of principals (--principals)");
}

/* Finds the principal, where one is needed. */
static bool check_principal(exchange *x) {
    const service *service = x->server->service;
    http_request *request = &x->request;
    request->who = (identity){.role = ROLE_UNRESTRICTED};
    request->generation = guard_generation(service->guard);
    http_auth auth = handler_auth(&request->match);
    bool is_open = auth == AUTH_NONE || (auth == AUTH_METRICS && strcmp(service->config->http_metrics, "open") == 0);
    if (is_open) return true;
    char address[64];
    size_t size;
    const char *token = access_token(request_header(x, "Authorization"), &size);
    address_of(x, address);
    if (!guard_has_tokens(service->guard)) {
        request->who.origin = guard_origin(service->guard, address);
        return true;
    }
    if (!token) return refuse_token(x, GUARD_UNKNOWN, 0, false, address);
    bool found = guard_find_token(service->guard, token, size, &request->who);
    uint32_t wait_ms;
    guard_verdict verdict =
        guard_judge(service->guard, address, found ? &request->who : NULL, GUARD_TOLD, clock_ns(), &wait_ms);
    return verdict == GUARD_ADMITTED || refuse_token(x, verdict, wait_ms, true, address);
}

/* Acts of operators and admins, and what anyone changes over HTTP but by steps. */
static void audit(const exchange *x) {
    const http_request *request = &x->request;
    if (request->match.method == HTTP_GET || request->match.route == ROUTE_STEP || !request->who.principal) return;
    /* What is another's is not found. */
    bool is_refused = x->problem.code == CONTACTD_FORBIDDEN || x->problem.code == CONTACTD_NOT_FOUND;
    if (x->problem.code != CONTACTD_OK && !is_refused) return;
    static const char *const methods[] = {[HTTP_POST] = "POST", [HTTP_PATCH] = "PATCH", [HTTP_DELETE] = "DELETE"};
    log_audit("%s (%s) over HTTP: %s %.*s: %s", request->who.name, role_name(request->who.role),
              methods[request->match.method], (int)strcspn(x->uri, "?"), x->uri,
              x->problem.code == CONTACTD_OK ? "done" : "refused");
}

static bool check(exchange *x, const char *method) {
    const config *config = x->server->service->config;
    http_request *request = &x->request;
    access_request access = {
        .host = request_header(x, "Host"),
        .origin = request_header(x, "Origin"),
        .sec_fetch_site = request_header(x, "Sec-Fetch-Site"),
        .changes = route_method(method) != HTTP_GET,
        .loopback = x->server->listener.loopback,
        .names = (const char *const *)config->http_host.items,
        .n_names = config->http_host.n,
    };
    char path[512];
    snprintf(path, sizeof path, "%.*s", (int)strcspn(x->uri, "?"), x->uri);
    request->query = x->uri + strcspn(x->uri, "?");
    if (*request->query) request->query++;
    if (!access_check(&access, &x->problem)) return false;
    if (atomic_load(&x->server->stopping))
        return problem_set(&x->problem, CONTACTD_SHUTTING_DOWN, NULL, "the server is shutting down");
    if (strcspn(x->uri, "?") >= sizeof path)
        return problem_set_http(&x->problem, CONTACTD_NOT_FOUND, 404, "no such resource", NULL,
                                "the path is longer than any resource's; /openapi.json lists what there is");
    if (!route_find(method, path, &request->match, &x->problem)) return false;
    x->is_routed = true;
    access.computes = handler_computes(&request->match);
    if (!access_check(&access, &x->problem) || !check_principal(x) || !check_length(x)) return false;
    return !handler_takes_body(&request->match) ||
           (check_coding(x) && media_find(request_header(x, "Content-Type"), request->match.route == ROUTE_MESHES,
                                          &request->media, &x->problem));
}

/* The last connections are for probes alone, so that a supervisor or a load balancer always learns how the server is.
 */
static bool check_crowd(exchange *x) {
    http_route route = x->request.match.route;
    if (route == ROUTE_HEALTH || route == ROUTE_READY || route == ROUTE_METRICS) return true;
    if (!watch_is_crowded(x->server->watch)) return true;
    problem_set_http(&x->problem, CONTACTD_BUSY, 503, "too many connections", NULL,
                     "as many requests as may wait are waiting for answers; send this one again later");
    x->problem.retry_after_ms = 1000;
    return false;
}

/* The header is complete. A request that is refused is answered before its body is sent, where the client waits for
 * that. */
static enum MHD_Result begin(exchange *x, const char *method, const char *version) {
    const char *length = request_header(x, "Content-Length");
    x->begun = true;
    x->begun_ns = clock_ns();
    x->limit = x->server->service->config->max_message;
    metrics_add(x->server->service->metrics, METRICS_HTTP_REQUESTS, 1);
    watch_begin(x->watched, WATCH_RECEIVING, WATCH_GRACE_NS);
    if (!check_framing(x, version)) {
        x->discards = true;
        return send_answer(x); /* before the body, so that libmicrohttpd reads nothing more from the connection */
    }
    if (check(x, method) && check_crowd(x)) return MHD_YES;
    x->discards = true;
    bool is_far_too_large = length && strtoull(length, NULL, 10) > 2 * x->limit;
    if (is_far_too_large || request_header(x, "Expect")) return send_answer(x);
    return MHD_YES;
}

/* Sets the problem where the workers did not take a work. */
static bool take_outcome(exchange *x, workers_outcome outcome) {
    if (outcome == WORKERS_QUEUED) return true;
    if (outcome == WORKERS_CLOSED)
        return problem_set(&x->problem, CONTACTD_SHUTTING_DOWN, NULL, "the server is shutting down");
    return problem_set(&x->problem, CONTACTD_BUSY, NULL, "as many requests of this kind as may wait are waiting");
}

static void finish(exchange *x) {
    audit(x);
    x->done = true;
    drop_body(x);
}

static void suspend(exchange *x) {
    ct_cancel_init(&x->left, 0);
    x->request.left = x->work.left = &x->left;
    watch_leave(x->server->watch, x->watched, &x->left);
    MHD_suspend_connection(x->connection);
}

static void resume(exchange *x) {
    watch_leave(x->server->watch, x->watched, NULL);
    MHD_resume_connection(x->connection); /* after this x may be freed */
}

static void finish_suspended(exchange *x) {
    finish(x);
    resume(x);
}

static void carry_out(exchange *x) {
    handler_run(x->server->service, &x->request, &x->answer, &x->problem);
    finish(x);
}

static void carry_out_work(work *work) {
    exchange *x = (exchange *)work;
    handler_run(x->server->service, &x->request, &x->answer, &x->problem);
    finish_suspended(x);
}

/* ---- pictures ---- */

static void draw(work *work) { /* on a worker */
    exchange *x = (exchange *)work;
    handler_end_picture(x->server->service, &x->command, &x->answer, &x->problem);
    finish_suspended(x);
}

static bool take_picture(exchange *x, workers_outcome outcome) {
    if (outcome != WORKERS_FULL) return take_outcome(x, outcome);
    server_error error = {0};
    picture_fail_full(&error);
    return problem_take(&x->problem, &error);
}

static void on_snapshot(command *command) { /* on a thread of the scheduler */
    exchange *x = command->context;
    http_server *server = x->server;
    x->work.run = draw;
    if (command->error.code != CONTACTD_OK) {
        problem_take(&x->problem, &command->error);
        finish_suspended(x);
    } else if (!take_picture(x, workers_add(server->service->workers, WORK_PICTURES, &x->request.who, &x->work))) {
        ct_snapshot_free(&command->out.snapshot);
        finish_suspended(x);
    }
    atomic_fetch_sub(&server->snapshots, 1);
}

/* While the scheduler takes the snapshot, no thread waits for it: however many ask for pictures of a scene that is
 * busy, other requests find a thread, and so do pictures of other scenes. */
static enum MHD_Result begin_picture(exchange *x) {
    scheduler *scheduler = x->server->service->scheduler;
    if (!handler_begin_picture(x->server->service, &x->request, &x->command, &x->problem)) {
        finish(x);
        return send_answer(x);
    }
    x->command.done = on_snapshot;
    x->command.context = x;
    suspend(x);
    x->command.left = &x->left;
    atomic_fetch_add(&x->server->snapshots, 1);
    if (scheduler_submit(scheduler, &x->command) == SUBMIT_QUEUED) {
        scheduler_kick(scheduler);
        return MHD_YES;
    }
    atomic_fetch_sub(&x->server->snapshots, 1);
    problem_take(&x->problem, &x->command.error);
    finish_suspended(x); /* complete() is then called again */
    return MHD_YES;
}

/* The request is complete. */
static enum MHD_Result complete(exchange *x) {
    if (x->done || x->problem.code != CONTACTD_OK) return send_answer(x);
    watch_begin(x->watched, WATCH_ANSWERING, 0);
    watch_clear(x->watched); /* from here on the client waits */
    x->request.if_match = request_header(x, "If-Match");
    x->request.idempotency_key = request_header(x, "Idempotency-Key");
    x->request.repeats = x->server->repeats;
    x->request.live = x->server->live;
    x->request.body = x->body ? x->body : "";
    x->request.received_ns = clock_ns();
    work_kind kind;
    if (x->request.match.route == ROUTE_SNAPSHOT) return begin_picture(x);
    if (!handler_is_slow(&x->request.match, &kind)) {
        carry_out(x);
        return send_answer(x);
    }
    x->work.run = carry_out_work;
    suspend(x);
    if (!take_outcome(x, workers_add(x->server->service->workers, kind, &x->request.who, &x->work)))
        resume(x); /* this function is then called again */
    return MHD_YES;
}

/* ---- libmicrohttpd's calls ---- */

static void *on_uri(void *context, const char *uri, struct MHD_Connection *connection) {
    exchange *x = calloc(1, sizeof *x);
    if (!x) return NULL;
    x->target = strdup(uri ? uri : "");
    if (!x->target) {
        free(x);
        return NULL;
    }
    if (!framing_split_uri(x->target, &x->uri, x->authority, sizeof x->authority))
        x->authority[0] = '/'; /* no Host is equal to that */
    x->server = context;
    x->connection = connection;
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    x->watched = info ? info->socket_context : NULL;
    atomic_fetch_add(&x->server->exchanges, 1);
    return x;
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *upload, size_t *upload_size, void **state) {
    exchange *x = *state;
    (void)context, (void)connection, (void)url;
    if (!x) return MHD_NO; /* out of memory in on_uri */
    if (!x->begun) return begin(x, method, version);
    if (*upload_size) {
        enum MHD_Result result = receive(x, upload, *upload_size);
        *upload_size = 0;
        return result;
    }
    return complete(x);
}

static void on_completed(void *context, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode why) {
    exchange *x = *state;
    (void)context, (void)connection, (void)why;
    if (!x) return;
    watch_begin(x->watched, WATCH_NO_REQUEST, WATCH_IDLE_NS);
    drop_body(x);
    free(x->answer.data);
    if (x->answer.source.read) x->answer.source.close(x->answer.source.context);
    free(x->target);
    atomic_fetch_sub(&x->server->exchanges, 1);
    free(x);
    *state = NULL;
}

static void on_connection(void *context, struct MHD_Connection *connection, void **socket_context,
                          enum MHD_ConnectionNotificationCode what) {
    http_server *server = context;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        *socket_context = info ? watch_add(server->watch, info->connect_fd) : NULL;
    } else {
        watch_remove(server->watch, *socket_context);
        *socket_context = NULL;
    }
}

/* Paths need no escapes, and the one query parameter there is unescapes itself: leave everything as it was sent. */
static size_t keep_escapes(void *context, struct MHD_Connection *connection, char *text) {
    (void)context, (void)connection;
    return strlen(text);
}

__attribute__((format(printf, 2, 0))) static void on_log(void *context, const char *format, va_list arguments) {
    char line[512];
    (void)context;
    vsnprintf(line, sizeof line, format, arguments);
    line[strcspn(line, "\n")] = 0;
    log_debug("http", "%s", line);
}

/* ---- starting and stopping ---- */

static bool start_daemon(http_server *server) {
    /* Not epoll: libmicrohttpd's edge-triggered loop may miss that a client has closed its side, and then holds the
     * connection until it times out. At this number of connections poll costs next to nothing. */
    unsigned flags = MHD_USE_POLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    if (server->listener.ipv6) flags |= MHD_USE_IPv6;
    if (server->tls) flags |= MHD_USE_TLS;
    struct MHD_OptionItem encryption[] = {
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)tls_priorities},
        {MHD_OPTION_HTTPS_CERT_CALLBACK, 0, tls_certificate_callback()},
        {MHD_OPTION_END, 0, NULL},
    };
    struct MHD_OptionItem *more = server->tls ? encryption : &encryption[2];
    server->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, on_request, server, MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL, MHD_OPTION_LISTEN_SOCKET,
        server->listener.fd, MHD_OPTION_THREAD_POOL_SIZE, (unsigned)IO_THREADS, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)server->service->http_connections, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)(WATCH_IDLE_NS / 1000000000), MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEADER_MEMORY,
        MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_URI_LOG_CALLBACK, on_uri, server, MHD_OPTION_NOTIFY_COMPLETED,
        on_completed, server, MHD_OPTION_NOTIFY_CONNECTION, on_connection, server, MHD_OPTION_UNESCAPE_CALLBACK,
        keep_escapes, NULL, MHD_OPTION_ARRAY, more, MHD_OPTION_END);
    return server->daemon != NULL;
}

/* Loads the certificate. Refuses an address that other machines reach without TLS and tokens, unless --insecure. */
static bool secure(http_server *server, server_error *error) {
    const config *config = server->service->config;
    bool cert = config->http_cert[0], key = config->http_key[0];
    if (cert != key)
        return server_fail(error, CONTACTD_INVALID_ARGUMENT, cert ? "--http-cert" : "--http-key",
                           cert ? "http-cert" : "http-key", "%s is given without %s; HTTPS needs both",
                           cert ? "--http-cert" : "--http-key", cert ? "--http-key" : "--http-cert");
    if (cert && MHD_is_feature_supported(MHD_FEATURE_HTTPS_CERT_CALLBACK) != MHD_YES)
        return server_fail(error, CONTACTD_UNSUPPORTED, "--http-cert", "http-cert",
                           "this build of libmicrohttpd has no TLS: install one that was built with GnuTLS");
    if (cert && !tls_open(&server->tls, config->http_cert, config->http_key, error)) return false;
    if (server->listener.loopback || config->insecure || (cert && guard_has_tokens(server->service->guard))) {
        if (!server->listener.loopback && !(cert && guard_has_tokens(server->service->guard)))
            log_warn("http", "--insecure: http%s://%s can be reached from other machines, %s", cert ? "s" : "",
                     server->listener.address,
                     guard_has_tokens(server->service->guard) ? "and tokens are sent in the clear"
                                                              : "and whoever reaches it may use it");
        return true;
    }
    return server_fail(error, CONTACTD_FORBIDDEN, server->listener.address, "insecure",
                       "other machines can reach this address: give --http-cert and --http-key, and --principals with "
                       "tokens (NAME ROLE token=sha256:HASH), listen on 127.0.0.1, or say --insecure if you trust the "
                       "network");
}

bool http_server_reload(http_server *server, server_error *error) {
    return !server || !server->tls || tls_reload(server->tls, error);
}

static void free_server(http_server *server) {
    watch_stop(&server->watch);
    repeats_free(&server->repeats);
    live_stop(&server->live);
    tls_close(&server->tls);
    shares_free(&server->bodies);
    pthread_mutex_destroy(&server->bodies_lock);
    free(server);
}

bool http_server_start(const service *service, http_server **out, server_error *error) {
    *out = NULL;
    const int passed = service->sockets ? service->sockets->http : -1;
    if (passed < 0 && strcmp(service->config->http, "off") == 0) return true;
    http_server *server = calloc(1, sizeof *server);
    if (!server) return server_fail(error, CONTACTD_OUT_OF_MEMORY, "http", "", "no memory for the HTTP server");
    server->service = service;
    if (passed >= 0 ? !listener_take(&server->listener, passed, error)
                    : !listener_open(&server->listener, service->config->http, error)) {
        free(server);
        return false;
    }
    pthread_mutex_init(&server->bodies_lock, NULL);
    shares_init(&server->bodies, BODIES_AT_ONCE * service->config->max_message);
    if (!secure(server, error)) {
        close(server->listener.fd);
        free_server(server);
        return false;
    }
    for (int route = 0; route < ROUTE_COUNT; route++) server->routes[route] = route_path((http_route)route);
    metrics_name_routes(service->metrics, server->routes, ROUTE_COUNT);
    /* A quarter is left for probes, which come when all others wait for answers. */
    server->watch = watch_start(service->http_connections - service->http_connections / 4);
    server->repeats = repeats_new();
    server->live = live_start(service);
    if (!server->watch || !server->repeats || !server->live || !start_daemon(server)) {
        close(server->listener.fd);
        free_server(server);
        return server_fail(error, CONTACTD_OUT_OF_MEMORY, "http", "",
                           "cannot start the HTTP server: no memory, or no threads (see ulimit -u)");
    }
    *out = server;
    return true;
}

const char *http_server_address(const http_server *server) {
    return server->listener.address;
}

void http_server_stop(http_server **where) {
    http_server *server = *where;
    if (!server) return;
    MHD_socket listening = MHD_quiesce_daemon(server->daemon);
    atomic_store(&server->stopping, true);
    live_end(server->live);
    while (atomic_load(&server->snapshots)) usleep(5000); /* the scheduler takes no new ones, and ends those it has */
    workers_drain(server->service->workers);
    for (int ms = 0; atomic_load(&server->exchanges) && ms < LAST_ANSWERS_MS; ms += 5) usleep(5000);
    MHD_stop_daemon(server->daemon);
    if (listening != MHD_INVALID_SOCKET) close(listening); /* ours again, once no thread polls it any more */
    free_server(server);
    *where = NULL;
}

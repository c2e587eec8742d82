/* handlers.c - the page, health, metrics and status; and which file does the rest. See handlers.h. */
#include "server/http/handlers.h"

#include <stdlib.h>
#include <string.h>

#include "server/core/history.h"
#include "server/core/reports.h"
#include "server/http/answers.h"
#include "server/http/assets.h"
#include "server/http/text.h"

bool handler_takes_body(const route_match *match) {
    return match->method == HTTP_POST || match->method == HTTP_PATCH;
}

bool handler_finish(json_out *out, int status, http_answer *answer, problem *p) {
    if (out->state == JSON_OUT_OK) {
        *answer = (http_answer){.status = status, .type = "application/json", .data = out->data, .size = out->size};
        return true;
    }
    json_out_state state = out->state;
    size_t limit = out->limit;
    json_out_free(out);
    if (state == JSON_OUT_NO_MEMORY) return problem_set(p, CONTACTD_OUT_OF_MEMORY, NULL, "no memory for the answer");
    return problem_set(p, CONTACTD_TOO_LARGE, "want",
                       "the answer would be larger than %zu bytes (--max-message); ask for less, or use the stream",
                       limit);
}

bool pager_takes(pager *pager, uint64_t id) {
    if (pager->has_more || id <= pager->page.after) return false;
    if (pager->page.limit && pager->n == pager->page.limit) {
        pager->has_more = true;
        return false;
    }
    pager->n++;
    pager->last = id;
    return true;
}

void pager_finish(const pager *pager, json_out *out) {
    if (pager->has_more) json_out_integer(out, "next", pager->last);
}

static bool list_sessions(const service *service, const http_request *request, http_answer *answer, problem *p) {
    session_record *sessions = NULL;
    size_t n = 0;
    server_error error = {0};
    pager pager = {0};
    json_out out;
    if (!request_page(request->query, &pager.page, p)) return false;
    if (!registry_list_sessions(service->registry, &sessions, &n, &error)) return problem_take(p, &error);
    json_out_init(&out, SIZE_MAX);
    json_out_object(&out, NULL);
    json_out_array(&out, "sessions");
    for (size_t i = 0; i < n; i++) {
        bool visible = report_shows_session(&sessions[i], &request->who);
        if (visible && pager_takes(&pager, sessions[i].number)) report_session(&out, service, &sessions[i]);
    }
    json_out_array_end(&out);
    pager_finish(&pager, &out);
    json_out_object_end(&out);
    free(sessions);
    return handler_finish(&out, 200, answer, p);
}

static bool drain(const service *service, const http_request *request, http_answer *answer, problem *p) {
    server_error error = {0};
    json_out out;
    if (request->size)
        return problem_set(p, CONTACTD_INVALID_ARGUMENT, "body", "draining takes no body, expected an empty one");
    if (!service_drain(service, &request->who, &error)) return problem_take(p, &error);
    json_out_init(&out, 1 << 10);
    json_out_object(&out, NULL);
    json_out_bool(&out, "draining", true);
    json_out_object_end(&out);
    return handler_finish(&out, 202, answer, p);
}

static bool fixed(http_answer *answer, const char *type, asset data) {
    *answer = (http_answer){.status = 200, .type = type, .fixed = data.bytes, .size = data.size, .page = true};
    return true;
}

static bool page(const service *service, const http_request *request, http_answer *answer, problem *p) {
    (void)service, (void)request, (void)p;
    return fixed(answer, "text/html; charset=utf-8", asset_page());
}

static bool page_script(const service *service, const http_request *request, http_answer *answer, problem *p) {
    (void)service, (void)request, (void)p;
    return fixed(answer, "text/javascript; charset=utf-8", asset_script());
}

static bool page_style(const service *service, const http_request *request, http_answer *answer, problem *p) {
    (void)service, (void)request, (void)p;
    return fixed(answer, "text/css; charset=utf-8", asset_style());
}

static bool page_docs(const service *service, const http_request *request, http_answer *answer, problem *p) {
    (void)service, (void)request, (void)p;
    return fixed(answer, "text/html; charset=utf-8", asset_docs());
}

static bool page_module(const service *service, const http_request *request, http_answer *answer, problem *p) {
    (void)service;
    const char *name = request->match.parameter[0];
    asset module = asset_module(name);
    char shown[100];
    if (!module.bytes)
        return problem_set_http(p, CONTACTD_NOT_FOUND, 404, "no such module", "module",
                                "the page has no module %s; / names those that it has",
                                text_clean(name, shown, sizeof shown));
    return fixed(answer, "text/javascript; charset=utf-8", module);
}

static bool openapi(const service *service, const http_request *request, http_answer *answer, problem *p) {
    (void)service, (void)request, (void)p;
    return fixed(answer, "application/json", asset_openapi());
}

static bool ready(const service *service, const http_request *request, http_answer *answer, problem *p) {
    (void)request;
    char reason[256];
    scheduler_facts facts;
    json_out out;
    scheduler_get_facts(service->scheduler, &facts);
    if (facts.draining)
        return problem_set_http(p, CONTACTD_SHUTTING_DOWN, 503, "not ready", NULL, "the server is shutting down");
    if (!scheduler_ready(service->scheduler, reason, sizeof reason))
        return problem_set_http(p, CONTACTD_DEVICE_ERROR, 503, "not ready", NULL, "%s", reason);
    json_out_init(&out, 1 << 10);
    json_out_object(&out, NULL);
    json_out_bool(&out, "ready", true);
    json_out_object_end(&out);
    return handler_finish(&out, 200, answer, p);
}

static bool healthy(const service *service, const http_request *request, http_answer *answer, problem *p) {
    (void)request;
    json_out out;
    double silence = service_io_silence(service);
    if (silence > SERVICE_IO_SILENCE_S)
        return problem_set_http(p, CONTACTD_INTERNAL, 503, "the stream hangs", NULL,
                                "the thread that serves simulators has not gone round its loop for %.0f s: restart the "
                                "server",
                                silence);
    json_out_init(&out, 1 << 10);
    json_out_object(&out, NULL);
    json_out_string(&out, "status", "ok");
    json_out_object_end(&out);
    return handler_finish(&out, 200, answer, p);
}

static bool prometheus(const service *service, const http_request *request, http_answer *answer, problem *p) {
    (void)request;
    *answer = (http_answer){.status = 200, .type = METRICS_CONTENT_TYPE};
    answer->data = service_metrics_text(service, &answer->size);
    return answer->data || problem_set(p, CONTACTD_OUT_OF_MEMORY, NULL, "no memory for the metrics");
}

static bool facts(const service *service, const http_request *request, http_answer *answer, problem *p) {
    service_status status;
    json_out out;
    service_get_status(service, &status);
    json_out_init(&out, 1 << 22); /* lists all that runs */
    if (request->match.route == ROUTE_STATUS)
        report_status(&out, service, &status, &request->who);
    else
        report_devices(&out, &status);
    return handler_finish(&out, 200, answer, p);
}

static bool server_history(const service *service, const http_request *request, http_answer *answer, problem *p) {
    query_field field[] = {{.name = "seconds"}, {.name = NULL}};
    uint64_t seconds = 600;
    json_out out;
    if (!request_fields(request->query, field, HTTP_QUERY_HISTORY, p) ||
        !request_whole(&field[0], 1, HISTORY_SECONDS, &seconds, p))
        return false;
    json_out_init(&out, SIZE_MAX);
    history_write(service->history, &out, (uint32_t)seconds, &request->who);
    return handler_finish(&out, 200, answer, p);
}

/* Lists and POST /v1/meshes have parameters; elsewhere one that does nothing would be a silent mistake. */
static bool no_query(const http_request *request, problem *p) {
    text_view name, value;
    const char *query = request->query;
    char shown[64], raw[64];
    if (!text_next_parameter(&query, &name, &value)) return true;
    size_t n = name.size < sizeof raw - 1 ? name.size : sizeof raw - 1;
    memcpy(raw, name.data, n);
    raw[n] = 0;
    text_clean(raw, shown, sizeof shown);
    return problem_set(p, CONTACTD_INVALID_ARGUMENT, shown, "unknown query parameter %s; this resource takes none",
                       shown);
}

/* ---- the routes ---- */

typedef bool handler(const service *service, const http_request *request, http_answer *answer, problem *p);

enum { WORK_NONE = -1 }; /* of a route none of whose methods is slow */

static const struct {
    http_auth auth;
    uint32_t slow; /* methods */
    int work;      /* work_kind */
    handler *run;  /* NULL: a picture */
} routes[ROUTE_COUNT] = {
#define HTTP_ROUTE_ROW(name, path, methods, auth, slow, work, get_query, post_query, run)                              \
    {AUTH_##auth, slow, WORK_##work, run},
    HTTP_ROUTES(HTTP_ROUTE_ROW)
#undef HTTP_ROUTE_ROW
};

bool handler_is_slow(const route_match *match, work_kind *kind) {
    if (!(routes[match->route].slow & match->method)) return false;
    *kind = (work_kind)routes[match->route].work;
    return true;
}

http_auth handler_auth(const route_match *match) {
    return routes[match->route].auth;
}

bool handler_computes(const route_match *match) {
    work_kind kind;
    return handler_is_slow(match, &kind);
}

bool handler_run(const service *service, const http_request *request, http_answer *answer, problem *p) {
    const route_match *match = &request->match;
    if (!*route_query(match->route, match->method) && !no_query(request, p)) return false;
    handler *run = routes[match->route].run;
    if (!run) return problem_set(p, CONTACTD_INTERNAL, NULL, "no handler for %s", route_path(match->route));
    return run(service, request, answer, p);
}

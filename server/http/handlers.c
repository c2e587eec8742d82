/* handlers.c - the page, health, metrics and status; and which file does the rest. See handlers.h. */
#include "server/http/handlers.h"

#include <stdlib.h>
#include <string.h>

#include "server/core/reports.h"
#include "server/http/answers.h"
#include "server/http/assets.h"
#include "server/http/text.h"

bool handler_is_slow(const route_match *match, work_kind *kind) {
    switch (match->route) {
    case ROUTE_MESHES:
        *kind = WORK_MESHES;
        return match->method == HTTP_POST;
    case ROUTE_MESH:
        *kind = WORK_MESHES; /* it may have to be read from the state folder */
        return true;
    case ROUTE_SCENES:
        *kind = WORK_SCENES;
        return match->method == HTTP_POST;
    case ROUTE_SCENE:
        *kind = WORK_COMMANDS;
        return match->method != HTTP_GET;
    case ROUTE_OVERLAP:
        *kind = WORK_SCENES;
        return true;
    case ROUTE_BODIES:
    case ROUTE_BODY:
    case ROUTE_STEP:
        *kind = WORK_COMMANDS;
        return true;
    case ROUTE_SNAPSHOT:
        *kind = WORK_PICTURES;
        return true;
    default:
        return false;
    }
}

http_auth handler_auth(const route_match *match) {
    switch (match->route) {
    case ROUTE_PAGE:
    case ROUTE_PAGE_SCRIPT:
    case ROUTE_PAGE_STYLE:
    case ROUTE_OPENAPI:
    case ROUTE_HEALTH:
    case ROUTE_READY:
        return AUTH_NONE;
    case ROUTE_METRICS:
        return AUTH_METRICS;
    default:
        return AUTH_PRINCIPAL;
    }
}

bool handler_computes(const route_match *match) {
    work_kind kind;
    return handler_is_slow(match, &kind);
}

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

static bool ready(const service *service, http_answer *answer, problem *p) {
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

static bool healthy(const service *service, http_answer *answer, problem *p) {
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

static bool prometheus(const service *service, http_answer *answer, problem *p) {
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

bool handler_run(const service *service, const http_request *request, http_answer *answer, problem *p) {
    http_route route = request->match.route;
    bool lists = request->match.method == HTTP_GET &&
                 (route == ROUTE_MESHES || route == ROUTE_SCENES || route == ROUTE_SESSIONS);
    bool query = lists || (route == ROUTE_MESHES && request->match.method == HTTP_POST);
    if (!query && !no_query(request, p)) return false;
    switch (route) {
    case ROUTE_PAGE:
        return fixed(answer, "text/html; charset=utf-8", asset_page());
    case ROUTE_PAGE_SCRIPT:
        return fixed(answer, "text/javascript; charset=utf-8", asset_script());
    case ROUTE_PAGE_STYLE:
        return fixed(answer, "text/css; charset=utf-8", asset_style());
    case ROUTE_OPENAPI:
        return fixed(answer, "application/json", asset_openapi());
    case ROUTE_HEALTH:
        return healthy(service, answer, p);
    case ROUTE_READY:
        return ready(service, answer, p);
    case ROUTE_METRICS:
        return prometheus(service, answer, p);
    case ROUTE_STATUS:
    case ROUTE_DEVICES:
        return facts(service, request, answer, p);
    case ROUTE_DRAIN:
        return drain(service, request, answer, p);
    case ROUTE_SESSIONS:
        return list_sessions(service, request, answer, p);
    case ROUTE_MESHES:
    case ROUTE_MESH:
        return handle_mesh_routes(service, request, answer, p);
    case ROUTE_SCENES:
    case ROUTE_SCENE:
    case ROUTE_BODIES:
    case ROUTE_BODY:
    case ROUTE_STATS:
        return handle_scene_routes(service, request, answer, p);
    case ROUTE_STEP:
        return handle_step(service, request, answer, p);
    case ROUTE_OVERLAP:
        return handle_overlap(service, request, answer, p);
    case ROUTE_SNAPSHOT: /* see handler_begin_picture */
    case ROUTE_COUNT:
        break;
    }
    return problem_set(p, CONTACTD_INTERNAL, NULL, "no handler for %s", route_path(route));
}

/* handle_scenes.c - /v1/scenes and what is below, but for steps. See handlers.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/core/picture.h"
#include "server/core/reports.h"
#include "server/http/answers.h"
#include "server/http/handlers.h"
#include "server/http/requests.h"

static bool execute(const service *service, const http_request *request, command *command, problem *p) {
    command->session = SESSION_NONE;
    command->who = request->who;
    if (command->kind != COMMAND_CLOSE) command->left = request->left;
    return scheduler_execute(service->scheduler, command) || problem_take(p, &command->error);
}

/* Of settings and bodies: statistics do not change it. */
static void write_etag(const scene_record *scene, char *out, size_t size) {
    snprintf(out, size, "\"%llu-%llu\"", (unsigned long long)scene->handle, (unsigned long long)scene->version);
}

/* Whether a header If-Match, "*" or tags between commas, has the tag (RFC 9110, 13.1.1; weak tags match nothing). */
static bool is_matched(const char *header, const char *tag) {
    for (const char *at = header; *at;) {
        at += strspn(at, " \t,");
        size_t n = strcspn(at, ",");
        while (n && (at[n - 1] == ' ' || at[n - 1] == '\t')) n--;
        if ((n == 1 && *at == '*') || (n == strlen(tag) && memcmp(at, tag, n) == 0)) return true;
        at += strcspn(at, ",");
    }
    return false;
}

static bool changed_meanwhile(problem *p, uint64_t scene) {
    problem_set_http(p, CONTACTD_CONFLICT, 412, "the scene is not the one that If-Match names", "If-Match",
                     "the scene was changed after that ETag was given: get it again, and decide anew");
    snprintf(p->object, sizeof p->object, "scene %llu", (unsigned long long)scene);
    return false;
}

static bool scene_answer(const scene_record *scene, int status, http_answer *answer, problem *p) {
    json_out out;
    json_out_init(&out, 1 << 16);
    answer_scene(&out, scene);
    if (!handler_finish(&out, status, answer, p)) return false;
    write_etag(scene, answer->etag, sizeof answer->etag);
    return true;
}

/* Whether its number begins with the text, or its name has it, in capitals or not. */
static bool is_found(const scene_record *scene, const char *text) {
    char number[24];
    snprintf(number, sizeof number, "%llu", (unsigned long long)scene->handle);
    return strncmp(number, text, strlen(text)) == 0 || strcasestr(scene->name, text);
}

static bool list_scenes(const service *service, const http_request *request, http_answer *answer, problem *p) {
    scene_record *scenes = NULL;
    size_t n = 0;
    server_error error = {0};
    json_out out;
    pager pager = {0};
    scene_list_request wanted;
    if (!request_scene_list(request->query, &wanted, p)) return false;
    pager.page = wanted.page;
    if (!registry_list_scenes(service->registry, &scenes, &n, &error)) return problem_take(p, &error);
    json_out_init(&out, SIZE_MAX);
    json_out_object(&out, NULL);
    json_out_array(&out, "scenes");
    for (size_t i = 0; i < n; i++) {
        bool listed = scene_is_visible(&scenes[i], &request->who) && is_found(&scenes[i], wanted.find);
        if (listed && pager_takes(&pager, scenes[i].handle)) answer_scene(&out, &scenes[i]);
    }
    json_out_array_end(&out);
    pager_finish(&pager, &out);
    json_out_object_end(&out);
    free(scenes);
    return handler_finish(&out, 200, answer, p);
}

static bool open_scene(const service *service, const http_request *request, http_answer *answer, problem *p) {
    scene_request scene;
    if (!request_scene(request->body, request->size, &scene, p)) return false;
    command command = {.kind = COMMAND_OPEN};
    command.in.open.name = scene.name;
    command.in.open.settings = scene.settings;
    uint64_t ttl_ms = service->config->http_scene_ttl;
    command.in.open.ttl_s = scene.has_ttl ? scene.ttl_s : (uint32_t)((ttl_ms + 999) / 1000);
    if (!execute(service, request, &command, p)) return false;
    if (!scene_answer(&command.out.scene, 201, answer, p)) return false;
    snprintf(answer->location, sizeof answer->location, "/v1/scenes/%llu",
             (unsigned long long)command.out.scene.handle);
    return true;
}

static bool get_scene(const service *service, const http_request *request, uint64_t scene, bool stats,
                      http_answer *answer, problem *p) {
    scene_record record;
    server_error error = {0};
    if (!registry_scene(service->registry, scene, &record, &error)) return problem_take(p, &error);
    if (!scene_is_visible(&record, &request->who)) {
        registry_fail_scene(scene, &error);
        return problem_take(p, &error);
    }
    if (!stats) return scene_answer(&record, 200, answer, p);
    float latencies[REGISTRY_RECENT];
    size_t n;
    if (!registry_scene_latencies(service->registry, scene, latencies, &n, &error)) return problem_take(p, &error);
    json_out out;
    json_out_init(&out, 1 << 16);
    answer_stats(&out, &record, latencies, n);
    return handler_finish(&out, 200, answer, p);
}

static bool patch_scene(const service *service, uint64_t scene, const http_request *request, http_answer *answer,
                        problem *p) {
    command command = {.kind = COMMAND_CONFIGURE, .scene = scene};
    if (!request_settings(request->body, request->size, &command.in.configure.settings, p)) return false;
    if (request->if_match) {
        scene_record record;
        server_error error = {0};
        char tag[64];
        if (!registry_scene(service->registry, scene, &record, &error)) return problem_take(p, &error);
        write_etag(&record, tag, sizeof tag);
        bool visible = scene_is_visible(&record, &request->who); /* if not, the command is refused */
        if (visible && !is_matched(request->if_match, tag)) return changed_meanwhile(p, scene);
        command.in.configure.if_version = record.version;
    }
    state_place place;
    server_error no_place = {0};
    if (!service_take_place(service, &place, &no_place)) return problem_take(p, &no_place);
    command.session = SESSION_NONE;
    command.who = request->who;
    command.left = request->left;
    if (!scheduler_execute(service->scheduler, &command)) {
        service_leave_place(service, &place);
        bool stale = command.error.code == CONTACTD_CONFLICT && strcmp(command.error.field, "version") == 0;
        return stale ? changed_meanwhile(p, scene) : problem_take(p, &command.error);
    }
    service_keep_settings(service, &place, &command.out.scene);
    return scene_answer(&command.out.scene, 200, answer, p);
}

static bool close_scene(const service *service, const http_request *request, uint64_t scene, http_answer *answer,
                        problem *p) {
    command command = {.kind = COMMAND_CLOSE, .scene = scene};
    if (!execute(service, request, &command, p)) return false;
    *answer = (http_answer){.status = 204};
    return true;
}

/* ---- bodies ---- */

static bool list_bodies(const service *service, const http_request *request, uint64_t scene, body_record **bodies,
                        size_t *n, problem *p) {
    command command = {.kind = COMMAND_LIST_BODIES, .scene = scene};
    if (!execute(service, request, &command, p)) return false;
    *bodies = command.out.bodies.items;
    *n = command.out.bodies.n;
    return true;
}

static bool get_bodies(const service *service, const http_request *request, uint64_t scene, http_answer *answer,
                       problem *p) {
    body_record *bodies;
    size_t n;
    json_out out;
    if (!list_bodies(service, request, scene, &bodies, &n, p)) return false;
    json_out_init(&out, SIZE_MAX);
    report_bodies(&out, scene, bodies, n);
    free(bodies);
    return handler_finish(&out, 200, answer, p);
}

static bool get_body(const service *service, const http_request *request, uint64_t scene, uint32_t body, int status,
                     http_answer *answer, problem *p) {
    body_record *bodies;
    size_t n, i = 0;
    json_out out;
    if (!list_bodies(service, request, scene, &bodies, &n, p)) return false;
    while (i < n && bodies[i].body != body) i++;
    if (i == n) {
        free(bodies);
        problem_set(p, CONTACTD_NOT_FOUND, "body", "scene %llu has no body %u; GET .../bodies lists its bodies",
                    (unsigned long long)scene, body);
        snprintf(p->object, sizeof p->object, "body %u", body);
        return false;
    }
    json_out_init(&out, 1 << 16);
    report_body(&out, scene, &bodies[i]);
    free(bodies);
    return handler_finish(&out, status, answer, p);
}

static bool add_body(const service *service, uint64_t scene, const http_request *request, http_answer *answer,
                     problem *p) {
    body_request body;
    mesh_record mesh = {0};
    if (!request_body(request->body, request->size, &body, p)) return false;
    command command = {.kind = COMMAND_ADD_BODY, .scene = scene};
    bool ok = body.mesh || body.options.kind == CT_BODY_HALF_SPACE ||
              handler_find_mesh(service, &request->who, body.mesh_hash, &mesh, p);
    command.in.add_body.mesh = body.mesh ? body.mesh : mesh.handle;
    command.in.add_body.options = body.options;
    ok = ok && execute(service, request, &command, p);
    request_body_free(&body);
    if (!ok || !get_body(service, request, scene, command.out.body, 201, answer, p)) return false;
    snprintf(answer->location, sizeof answer->location, "/v1/scenes/%llu/bodies/%u", (unsigned long long)scene,
             command.out.body);
    return true;
}

static bool set_mesh(const service *service, uint64_t scene, uint32_t body, const http_request *request,
                     const body_patch *wanted, problem *p) {
    mesh_record mesh = {0};
    if (!wanted->mesh && !handler_find_mesh(service, &request->who, wanted->mesh_hash, &mesh, p)) return false;
    command command = {.kind = COMMAND_REPLACE_MESH, .scene = scene};
    command.in.replace_mesh.body = body;
    command.in.replace_mesh.mesh = wanted->mesh ? wanted->mesh : mesh.handle;
    return execute(service, request, &command, p);
}

static bool set_material(const service *service, uint64_t scene, uint32_t body, const http_request *request,
                         const body_patch *wanted, problem *p) {
    command command = {.kind = COMMAND_SET_MATERIAL, .scene = scene};
    command.in.set_material.body = body;
    command.in.set_material.other = wanted->other;
    command.in.set_material.material = wanted->material;
    return execute(service, request, &command, p);
}

/* A PATCH of a body gives it another mesh or material, or a pair with it a material of its own. */
static bool patch_body(const service *service, uint64_t scene, uint32_t body, const http_request *request,
                       http_answer *answer, problem *p) {
    body_patch wanted;
    return request_body_patch(request->body, request->size, &wanted, p) &&
           (!wanted.has_material || set_material(service, scene, body, request, &wanted, p)) &&
           (!wanted.has_mesh || set_mesh(service, scene, body, request, &wanted, p)) &&
           get_body(service, request, scene, body, 200, answer, p);
}

static bool remove_body(const service *service, const http_request *request, uint64_t scene, uint32_t body,
                        http_answer *answer, problem *p) {
    command command = {.kind = COMMAND_REMOVE_BODY, .scene = scene};
    command.in.remove_body.body = body;
    if (!execute(service, request, &command, p)) return false;
    *answer = (http_answer){.status = 204};
    return true;
}

/* ---- which ---- */

bool handle_scene_routes(const service *service, const http_request *request, http_answer *answer, problem *p) {
    const route_match *match = &request->match;
    bool reads = match->method == HTTP_GET;
    uint64_t scene;
    uint32_t body;
    if (match->route == ROUTE_SCENES)
        return reads ? list_scenes(service, request, answer, p) : open_scene(service, request, answer, p);
    if (!route_scene(match, &scene, p)) return false;
    switch (match->route) {
    case ROUTE_STATS:
        return get_scene(service, request, scene, true, answer, p);
    case ROUTE_BODIES:
        return reads ? get_bodies(service, request, scene, answer, p) : add_body(service, scene, request, answer, p);
    case ROUTE_BODY:
        if (!route_body(match, &body, p)) return false;
        if (match->method == HTTP_PATCH) return patch_body(service, scene, body, request, answer, p);
        return reads ? get_body(service, request, scene, body, 200, answer, p)
                     : remove_body(service, request, scene, body, answer, p);
    default:
        break; /* ROUTE_SCENE */
    }
    if (match->method == HTTP_PATCH) return patch_scene(service, scene, request, answer, p);
    return reads ? get_scene(service, request, scene, false, answer, p)
                 : close_scene(service, request, scene, answer, p);
}

/* ---- pictures ---- */

bool handler_begin_picture(const service *service, const http_request *request, command *command, problem *p) {
    server_error error = {0};
    *command = (struct command){.kind = COMMAND_SNAPSHOT, .session = SESSION_NONE, .who = request->who};
    if (!route_scene(&request->match, &command->scene, p) ||
        !request_snapshot(request->query, &command->in.snapshot.options, p))
        return false;
    return picture_check(&command->in.snapshot.options, service->workers, &request->who, &error) ||
           problem_take(p, &error);
}

bool handler_end_picture(const service *service, command *command, http_answer *answer, problem *p) {
    picture picture;
    server_error error = {0};
    if (!picture_make(&command->out.snapshot, &command->in.snapshot.options, command->scene, service->metrics, &picture,
                      &error))
        return problem_take(p, &error);
    *answer = (http_answer){.status = 200, .type = "image/png", .data = (char *)picture.png, .size = picture.size};
    return true;
}

/* ---- steps ---- */

static bool run_step(const service *service, const http_request *request, http_answer *answer, problem *p) {
    uint64_t scene;
    step_request step;
    service_status status;
    if (!route_scene(&request->match, &scene, p) || !request_step(request->body, request->size, &step, p)) return false;
    command command = {.kind = COMMAND_STEP, .scene = scene};
    command.in.step.want = step.want;
    command.in.step.time_budget_s = step.time_budget_us * 1e-6;
    command.in.step.tolerance = step.tolerance;
    command.in.step.updates = step.updates;
    command.in.step.n_updates = step.n_updates;
    command.in.step.directions = step.directions;
    command.in.step.n_directions = step.n_directions;
    command.in.step.velocities = step.velocities;
    command.in.step.n_velocities = step.n_velocities;
    command.in.step.viscosity = step.viscosity;
    command.received_ns = request->received_ns;
    if (step.deadline_us) command.deadline_ns = request->received_ns + step.deadline_us * 1000;
    bool ok = execute(service, request, &command, p);
    request_step_free(&step);
    if (ok) {
        json_out out;
        service_get_status(service, &status);
        json_out_init(&out, service->config->max_message);
        answer_step(&out, scene, command.out.step.answer, status.devices[0].backend);
        ok = handler_finish(&out, 200, answer, p);
    }
    step_answer_release(&command.out.step.answer);
    return ok;
}

bool handle_step(const service *service, const http_request *request, http_answer *answer, problem *p) {
    if (!request->idempotency_key) return run_step(service, request, answer, p);
    repeat_request repeat = {.principal = request->who.principal,
                             .key = request->idempotency_key,
                             .body = request->body,
                             .size = request->size};
    char *kept = NULL;
    size_t size = 0;
    if (!route_scene(&request->match, &repeat.scene, p)) return false;
    switch (repeats_begin(request->repeats, &repeat, &kept, &size, p)) {
    case REPEAT_REFUSED:
        return false;
    case REPEAT_ANSWERED:
        *answer = (http_answer){.status = 200, .type = "application/json", .data = kept, .size = size};
        return true;
    case REPEAT_FIRST:
        break;
    }
    bool ok = run_step(service, request, answer, p);
    repeats_end(request->repeats, &repeat, ok ? answer->data : NULL, ok ? answer->size : 0);
    return ok;
}

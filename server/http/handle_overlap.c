/* handle_overlap.c - /v1/overlap: the intersection of two meshes in one request, by a scene of its own. See handlers.h.
 */
#include <string.h>

#include "server/http/answers.h"
#include "server/http/handlers.h"
#include "server/http/requests.h"

enum { SCENE_TTL_S = 60 }; /* should closing it fail */

static bool execute(const service *service, const http_request *request, command *command, problem *p) {
    command->session = SESSION_NONE;
    command->who = request->who;
    if (command->kind != COMMAND_CLOSE) command->left = request->left;
    return scheduler_execute(service->scheduler, command) || problem_take(p, &command->error);
}

static bool add_body(const service *service, const http_request *request, uint64_t scene, const body_request *body,
                     problem *p) {
    mesh_record mesh = {0};
    if (!body->mesh && !handler_find_mesh(service, &request->who, body->mesh_hash, &mesh, p)) return false;
    command command = {.kind = COMMAND_ADD_BODY, .scene = scene};
    command.in.add_body.mesh = body->mesh ? body->mesh : mesh.handle;
    command.in.add_body.options = body->options;
    return execute(service, request, &command, p);
}

static bool step(const service *service, const http_request *request, uint64_t scene, http_answer *answer, problem *p) {
    command command = {.kind = COMMAND_STEP, .scene = scene, .received_ns = request->received_ns};
    command.in.step.want = CT_WANT_FRAME;
    service_status status;
    bool ok = execute(service, request, &command, p);
    if (ok) {
        json_out out;
        service_get_status(service, &status);
        json_out_init(&out, service->config->max_message);
        answer_overlap(&out, command.out.step.answer, status.devices[0].backend);
        ok = handler_finish(&out, 200, answer, p);
    }
    step_answer_release(&command.out.step.answer);
    return ok;
}

bool handle_overlap(const service *service, const http_request *request, http_answer *answer, problem *p) {
    overlap_request overlap;
    if (!request_overlap(request->body, request->size, &overlap, p)) return false;
    command open = {.kind = COMMAND_OPEN};
    open.in.open.name = "overlap";
    open.in.open.settings = overlap.settings;
    open.in.open.ttl_s = SCENE_TTL_S;
    if (!execute(service, request, &open, p)) return false;
    const uint64_t scene = open.out.scene.handle;
    const bool ok = add_body(service, request, scene, &overlap.body[0], p) &&
                    add_body(service, request, scene, &overlap.body[1], p) && step(service, request, scene, answer, p);
    command close = {.kind = COMMAND_CLOSE, .scene = scene};
    problem ignored = {0}; /* it was closed already, or ends by itself */
    execute(service, request, &close, &ignored);
    return ok;
}

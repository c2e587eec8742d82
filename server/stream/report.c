/* report.c - what operators ask for: the documents that HTTP answers, over the stream. Sessions and the status are read
 * from memory at once; a scene's bodies are listed by its command, and made into a document on a worker. */
#include <stdlib.h>

#include "server/core/contacts.h"
#include "server/core/reports.h"
#include "server/stream/internal.h"

bool report_needs_command(const request *request) {
    const wire_report_kind kind = request->message.u.get_report.kind;
    return request->message.type == WIRE_GET_REPORT && (kind == WIRE_REPORT_BODIES || kind == WIRE_REPORT_CONTACTS);
}

/* False: *error says why there is no document, and nothing is held. */
static bool is_made(json_out *out, server_error *error) {
    if (out->state == JSON_OUT_OK) return true;
    json_out_free(out);
    return server_fail(error, CONTACTD_OUT_OF_MEMORY, "report", "", "no memory for the report");
}

static bool make_sessions(const request *request, json_out *out, server_error *error) {
    const service *service = request->stream->service;
    session_record *sessions;
    size_t n;
    if (!registry_list_sessions(service->registry, &sessions, &n, error)) return false;
    json_out_object(out, NULL);
    json_out_array(out, "sessions");
    for (size_t i = 0; i < n; i++)
        if (report_shows_session(&sessions[i], &request->who)) report_session(out, service, &sessions[i]);
    json_out_array_end(out);
    json_out_object_end(out);
    free(sessions);
    return true;
}

static bool make_status(const request *request, json_out *out) {
    service_status status;
    service_get_status(request->stream->service, &status);
    report_status(out, request->stream->service, &status, &request->who);
    return true;
}

bool report_at_once(stream *stream, request *request, server_error *error) {
    const wire_report_kind kind = request->message.u.get_report.kind;
    json_out out;
    json_out_init(&out, SIZE_MAX);
    bool good = false;
    if (kind == WIRE_REPORT_SESSIONS)
        good = make_sessions(request, &out, error);
    else if (kind == WIRE_REPORT_STATUS)
        good = make_status(request, &out);
    else
        server_fail(error, CONTACTD_INVALID_ARGUMENT, "report", "kind", "this server (%s) has no report %d",
                    SERVER_NAME, (int)kind);
    if (!good) {
        json_out_free(&out);
        return false;
    }
    if (!is_made(&out, error)) return false;
    reply_report(stream, request, &out);
    return true;
}

static bool make_contacts(request *request) {
    const contact_page all = {.limit = UINT64_MAX};
    const command *command = &request->command;
    scene_record scene;
    if (registry_scene(request->stream->service->registry, command->scene, &scene, &request->error) &&
        report_contacts(&request->report, &scene, command->out.bodies.answer, &all, &request->error))
        return true;
    json_out_free(&request->report);
    return false;
}

static void make_of_scene(work *work) { /* on a worker: there may be many */
    request *request = (struct request *)work;
    command *command = &request->command;
    json_out_init(&request->report, SIZE_MAX);
    if (!command->in.list_bodies.with_answer)
        report_bodies(&request->report, command->scene, command->out.bodies.items, command->out.bodies.n);
    if (!command->in.list_bodies.with_answer || make_contacts(request)) is_made(&request->report, &request->error);
    free(command->out.bodies.items);
    step_answer_release(&command->out.bodies.answer);
    stream_finish(request);
}

void report_hand_over(request *request) {
    request->work.run = make_of_scene;
    if (workers_add(request->stream->service->workers, WORK_COMMANDS, &request->who, &request->work) != WORKERS_QUEUED)
        make_of_scene(&request->work); /* the bodies are listed already */
}

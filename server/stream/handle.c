/* handle.c - what each request of a stream client does. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/log.h"
#include "server/base/name.h"
#include "server/stream/each.h"
#include "server/stream/internal.h"
#include "server/stream/many.h"

/* A message may take so many times its header's size once decoded. An update takes 152 bytes then, and 96 or more in a
 * header, unless updates share tables. */
#define DECODED_PER_HEADER_BYTE 4

static bool refuse(stream *stream, request *request, const server_error *error) {
    reply_error(stream, request, request->message.request, error, server_error_may_retry(error));
    stream_free_request(request);
    return false;
}

/* ---- workers ---- */

/* Why the workers did not take a work. */
static void fail_workers(const service *service, workers_outcome outcome, server_error *error) {
    if (outcome == WORKERS_CLOSED) {
        server_fail(error, CONTACTD_SHUTTING_DOWN, "server", "", "the server is shutting down");
        return;
    }
    server_fail(error, CONTACTD_BUSY, "server", "",
                "as many requests of this kind as may wait are waiting: send it again later");
    error->retry_after_ms = 100;
    metrics_add(service->metrics, METRICS_BUSY, 1);
}

/* Hands the request to the service's workers, or answers why not. */
static void hand_to_workers(stream *stream, request *request, work_kind kind, void (*run)(work *work)) {
    server_error error = {0};
    request->work.run = run;
    request->error = error;
    stream->n_outstanding++;
    workers_outcome outcome = workers_add(stream->service->workers, kind, &request->who, &request->work);
    if (outcome == WORKERS_QUEUED) return;
    stream->n_outstanding--;
    fail_workers(stream->service, outcome, &error);
    refuse(stream, request, &error);
}

/* ---- session ---- */

/* The connection of a message that was received late may have ended already. */
static void note_session(stream *stream, const request *request, uint64_t session) {
    if (!peer_note_session(request->peer, session)) scheduler_leave_session(stream->service->scheduler, session);
}

static void handle_hello(stream *stream, request *request) {
    const wire_hello *hello = &request->message.u.hello;
    server_error error = {0};
    session_record session;
    if (hello->version < WIRE_VERSION || hello->min_version > WIRE_VERSION) {
        server_fail(&error, CONTACTD_VERSION_MISMATCH, "session", "version",
                    "the client speaks versions %u to %u of the protocol, this server (%s) speaks %d",
                    hello->min_version, hello->version, SERVER_NAME, WIRE_VERSION);
    } else if (stream_is_draining(stream)) {
        server_fail(&error, CONTACTD_SHUTTING_DOWN, "server", "", "the server is shutting down");
    } else if (name_check(hello->client, "client", &error)) {
        peers_note_changes(stream->peers); /* the places of those that left before this client came are free */
        if (registry_open_session(stream->service->registry, hello->client, hello->lease_ms, &session, &error))
            registry_bind_session(stream->service->registry, session.token, request->who.principal);
    }
    if (error.code != CONTACTD_OK) {
        refuse(stream, request, &error);
        return;
    }
    if (request->who.principal)
        log_debug("stream", "client \"%s\" of %s (%s) opened a session", session.client, request->who.name,
                  role_name(request->who.role));
    else
        log_debug("stream", "client \"%s\" opened a session", session.client);
    note_session(stream, request, session.token);
    reply_welcome(stream, request, &session);
    stream_free_request(request);
}

static bool check_session(stream *stream, const request *request, server_error *error) {
    const wire_message *message = &request->message;
    if (message->epoch != stream->service->epoch) {
        return server_fail(error, CONTACTD_STATE_LOST, "session", "epoch",
                           "the message is for epoch %" PRIu64 ", this server's is %" PRIu64
                           ": say Hello, register meshes and open scenes again",
                           message->epoch, stream->service->epoch);
    }
    bool had_left;
    if (!registry_touch_session(stream->service->registry, message->session, request->who.principal, &had_left, error))
        return false;
    if (had_left) scheduler_return_session(stream->service->scheduler, message->session);
    note_session(stream, request, message->session);
    return true;
}

/* ---- meshes ---- */

/* Whether the principal's role has meshes of its own. */
static bool may_register(const request *request, server_error *error) {
    if (role_simulates(request->who.role)) return true;
    return server_fail(error, CONTACTD_FORBIDDEN, "principal", "role",
                       "%s has the role %s; registering and removing meshes takes the role simulator or admin",
                       request->who.name, role_name(request->who.role));
}

static void register_mesh(work *work) { /* on a worker */
    request *request = (struct request *)work;
    const wire_register_mesh *in = &request->message.u.register_mesh;
    registry *registry = request->stream->service->registry;
    ct_mesh_options options;
    ct_mesh_options_init(&options);
    options.repair = in->repair;
    options.max_hole = in->max_hole;
    options.scale = in->scale;
    options.weld = in->weld;
    options.closing = (ct_closing)in->closing;
    options.resolution = in->resolution;
    memcpy(options.open_direction, in->open_direction, sizeof options.open_direction);
    if (!(request->changes = calloc(1, sizeof *request->changes))) {
        server_fail(&request->error, CONTACTD_OUT_OF_MEMORY, "mesh", "repair",
                    "no memory to note what the repair or the closing does");
    } else if (in->file.dtype != WIRE_NONE) {
        registry_register_file(registry, in->file.data, in->file.count, (ct_mesh_format)in->format, in->name, &options,
                               &request->who, &request->mesh, request->changes, &request->error);
    } else {
        ct_dtype dtype = in->vertices.dtype == WIRE_F64 ? CT_F64 : CT_F32;
        registry_register_arrays(registry, in->vertices.data, dtype, in->vertices.count / 3, in->triangles.data,
                                 in->triangles.count / 3, in->name, &options, &request->who, &request->mesh,
                                 request->changes, &request->error);
    }
    if (request->error.code == CONTACTD_OUT_OF_MEMORY)
        log_warn("stream", "no memory for a mesh that was sent in %zu bytes: %s", request->bytes,
                 request->error.message);
    stream_finish(request);
}

static void handle_register_mesh(stream *stream, request *request) {
    server_error error = {0};
    bool is_draining = stream_is_draining(stream);
    if (is_draining) server_fail(&error, CONTACTD_SHUTTING_DOWN, "server", "", "the server is shutting down");
    if (!is_draining && may_register(request, &error) &&
        name_check(request->message.u.register_mesh.name, "mesh", &error)) {
        request->work.name = request->message.u.register_mesh.name;
        hand_to_workers(stream, request, WORK_MESHES, register_mesh);
    } else {
        refuse(stream, request, &error);
    }
}

/* Whether a request names a mesh, by its hash alone, that must be read from the state folder first. */
static bool is_stored(const request *request, uint64_t mesh, const char *hash) {
    return !mesh && registry_is_stored(request->stream->service->registry, hash);
}

static void restore_mesh(work *work) { /* on a worker */
    request *request = (struct request *)work;
    registry_restore_mesh(request->stream->service->registry, request->message.u.get_mesh.hash, &request->who,
                          &request->mesh, &request->error);
    stream_finish(request);
}

static bool get_mesh(stream *stream, request *request, server_error *error) {
    const wire_get_mesh *in = &request->message.u.get_mesh;
    mesh_record record;
    ct_mesh *mesh = NULL;
    if (!registry_find_mesh(stream->service->registry, in->mesh, in->hash, &request->who, &record,
                            in->with_geometry ? &mesh : NULL, error)) {
        return false;
    }
    if (mesh) {
        reply_geometry(stream, request, &record, mesh, in->takes_doubles);
    } else {
        reply_mesh(stream, request, &record, NULL);
    }
    ct_mesh_release(&mesh);
    return true;
}

static bool list_meshes(stream *stream, request *request, server_error *error) {
    mesh_record *records;
    size_t n;
    if (!registry_list_meshes(stream->service->registry, &records, &n, error)) return false;
    size_t all = n;
    n = 0;
    for (size_t i = 0; i < all; i++) {
        if (registry_may_use_mesh(stream->service->registry, records[i].handle, &request->who))
            records[n++] = records[i];
    }
    reply_meshes(stream, request, records, n);
    free(records);
    return true;
}

/* Logs acts that change the server or others' objects. Without principals every client may, so none is logged. */
static void audit(const identity *who, const char *act, uint64_t number) {
    if (who->principal) log_audit("%s (%s) %s %" PRIu64, who->name, role_name(who->role), act, number);
}

static bool remove_mesh_of(request *request, server_error *error) {
    const wire_remove_mesh *in = &request->message.u.remove_mesh;
    registry *registry = request->stream->service->registry;
    mesh_record record;
    bool found = is_stored(request, in->mesh, in->hash)
                     ? registry_restore_mesh(registry, in->hash, &request->who, &record, error)
                     : registry_find_mesh(registry, in->mesh, in->hash, &request->who, &record, NULL, error);
    if (!found) return false;
    bool others = false;
    if (!role_administers(request->who.role)) registry_disown_mesh(registry, record.handle, &request->who, &others);
    if (!others && !registry_remove_mesh(registry, record.handle, NULL, error)) return false;
    if (role_administers(request->who.role)) audit(&request->who, "removed mesh", record.handle);
    return true;
}

static void remove_mesh(work *work) { /* on a worker: a large mesh takes long to free */
    request *request = (struct request *)work;
    remove_mesh_of(request, &request->error);
    stream_finish(request);
}

/* ---- scenes ---- */

static bool get_scene(stream *stream, request *request, server_error *error) {
    scene_record record;
    uint64_t scene = request->message.u.get_scene.scene;
    if (!registry_scene(stream->service->registry, scene, &record, error)) return false;
    if (!scene_is_visible(&record, &request->who)) return registry_fail_scene(scene, error);
    reply_scene(stream, request, &record);
    return true;
}

static bool list_scenes(stream *stream, request *request, server_error *error) {
    scene_record *records;
    size_t n;
    if (!registry_list_scenes(stream->service->registry, &records, &n, error)) return false;
    size_t all = n;
    n = 0;
    for (size_t i = 0; i < all; i++) {
        if (scene_is_visible(&records[i], &request->who)) records[n++] = records[i];
    }
    reply_scenes(stream, request, records, n);
    free(records);
    return true;
}

static void fill_add_body(command *command, const wire_add_body *in) {
    ct_body_options *options = &command->in.add_body.options;
    command->kind = COMMAND_ADD_BODY;
    command->scene = in->scene;
    command->in.add_body.mesh = in->mesh;
    ct_body_options_init(options);
    if (in->kind != WIRE_BODY_NONE) options->kind = (ct_body_kind)in->kind;
    memcpy(options->pose, in->pose, sizeof options->pose);
    options->group = in->group;
    options->mask = in->mask;
    options->self_contact = in->self_contact;
    options->material = in->material;
    options->has_start = true;
    memcpy(options->start, in->start, sizeof options->start);
    options->ignore = in->ignore;
    options->n_ignore = in->n_ignore;
}

static bool fill_directions(request *request, server_error *error) {
    const wire_step *in = &request->message.u.step;
    if (in->n_directions > request->room_directions) {
        ct_direction *grown = realloc(request->directions, in->n_directions * sizeof *grown);
        if (!grown) {
            return server_fail(error, CONTACTD_OUT_OF_MEMORY, "step", "directions",
                               "no memory for %" PRIu32 " parts of directions", in->n_directions);
        }
        request->directions = grown;
        request->room_directions = in->n_directions;
    }
    stream_charge_request(request, in->n_directions * sizeof *request->directions);
    for (uint32_t i = 0; i < in->n_directions; i++) {
        const wire_direction *from = &in->directions[i];
        ct_direction *to = &request->directions[i];
        *to = (ct_direction){
            .body = from->body,
            .index = from->index,
            .values = from->values.data,
            .dtype = from->values.dtype == WIRE_F64 ? CT_F64 : CT_F32,
            .count = from->values.count / 3,
        };
        if (from->has_twist) memcpy(to->twist, from->twist, sizeof to->twist);
    }
    request->command.in.step.directions = request->directions;
    request->command.in.step.n_directions = in->n_directions;
    return true;
}

static bool fill_velocities(request *request, server_error *error) {
    const wire_step *in = &request->message.u.step;
    if (in->n_velocities > request->room_velocities) {
        ct_velocity *grown = realloc(request->velocities, in->n_velocities * sizeof *grown);
        if (!grown) {
            return server_fail(error, CONTACTD_OUT_OF_MEMORY, "step", "velocities",
                               "no memory for %" PRIu32 " velocities", in->n_velocities);
        }
        request->velocities = grown;
        request->room_velocities = in->n_velocities;
    }
    stream_charge_request(request, in->n_velocities * sizeof *request->velocities);
    for (uint32_t i = 0; i < in->n_velocities; i++) {
        const wire_direction *from = &in->velocities[i];
        ct_velocity *to = &request->velocities[i];
        *to = (ct_velocity){
            .body = from->body,
            .values = from->values.data,
            .dtype = from->values.dtype == WIRE_F64 ? CT_F64 : CT_F32,
            .count = from->values.count / 3,
        };
        if (from->has_twist) memcpy(to->twist, from->twist, sizeof to->twist);
    }
    request->command.in.step.velocities = request->velocities;
    request->command.in.step.n_velocities = in->n_velocities;
    return true;
}

static bool fill_step(request *request, server_error *error) {
    command *command = &request->command;
    const wire_step *in = &request->message.u.step;
    const uint32_t known =
        CT_WANT_ALL | CT_WANT_SPANS | CT_WANT_INERTIA | CT_WANT_SURFACE | CT_WANT_IDS | CT_WANT_POINTS;
    if (in->want & ~known) {
        return server_fail(error, CONTACTD_UNSUPPORTED, "step", "want",
                           "want asks for 0x%" PRIx32 ", of which this server knows 0x%" PRIx32, in->want, known);
    }
    if (in->n_updates > request->room_updates) {
        ct_update *grown = realloc(request->updates, in->n_updates * sizeof *grown);
        if (!grown) {
            return server_fail(error, CONTACTD_OUT_OF_MEMORY, "step", "updates", "no memory for %" PRIu32 " updates",
                               in->n_updates);
        }
        request->updates = grown;
        request->room_updates = in->n_updates;
    }
    stream_charge_request(request, in->n_updates * sizeof *request->updates);
    for (uint32_t i = 0; i < in->n_updates; i++) {
        const wire_update *from = &in->updates[i];
        ct_update *to = &request->updates[i];
        *to = (ct_update){
            .body = from->body,
            .kind = (ct_update_kind)from->kind,
            .positions = from->positions.data,
            .dtype = from->positions.dtype == WIRE_F64 ? CT_F64 : CT_F32,
            .count = from->positions.count / 3,
            .indices = from->indices.data,
            .n_indices = from->indices.count,
        };
        memcpy(to->pose, from->pose, sizeof to->pose);
    }
    command->kind = COMMAND_STEP;
    command->scene = in->scene;
    command->in.step.sequence = in->sequence;
    command->in.step.received = in->received;
    command->in.step.want = in->want;
    command->in.step.time_budget_s = in->time_budget_us * 1e-6;
    command->in.step.tolerance = in->tolerance;
    command->in.step.viscosity = in->viscosity;
    command->in.step.updates = request->updates;
    command->in.step.n_updates = in->n_updates;
    return fill_directions(request, error) && fill_velocities(request, error);
}

/* What is absent keeps its default. */
static void fill_snapshot(command *command, const wire_get_snapshot *in) {
    ct_snapshot_options *options = &command->in.snapshot.options;
    command->kind = COMMAND_SNAPSHOT;
    command->scene = in->scene;
    ct_snapshot_options_init(options);
    if (in->width) options->width = in->width;
    if (in->height) options->height = in->height;
    memcpy(options->contact, in->contact, sizeof options->contact);
    if (in->show) options->show = in->show;
    options->resolution = in->resolution;
    if (!isnan(in->azimuth)) options->azimuth = in->azimuth;
    if (!isnan(in->elevation)) options->elevation = in->elevation;
    if (!isnan(in->zoom)) options->zoom = in->zoom;
    if (!isnan(in->field_of_view)) options->field_of_view = in->field_of_view;
    if (!isnan(in->opacity)) options->opacity = in->opacity;
    if (in->has_up) memcpy(options->up, in->up, sizeof options->up);
    if (in->has_background) memcpy(options->background, in->background, sizeof options->background);
    options->has_eye = in->has_eye;
    options->has_target = in->has_target;
    memcpy(options->eye, in->eye, sizeof options->eye);
    memcpy(options->target, in->target, sizeof options->target);
}

static void draw_snapshot(work *work) { /* on a worker */
    request *request = (struct request *)work;
    command *command = &request->command;
    picture_make(&command->out.snapshot, &command->in.snapshot.options, command->scene,
                 request->stream->service->metrics, &request->picture, &request->error);
    stream_finish(request);
}

/* Queues a snapshot for drawing. On any thread. */
static void hand_over_snapshot(request *request) {
    command *command = &request->command;
    const service *service = request->stream->service;
    request->work.run = draw_snapshot;
    workers_outcome outcome = workers_add(service->workers, WORK_PICTURES, &request->who, &request->work);
    if (outcome == WORKERS_QUEUED) return;
    ct_snapshot_free(&command->out.snapshot);
    if (outcome == WORKERS_FULL)
        picture_fail_full(&command->error);
    else
        fail_workers(service, outcome, &command->error);
    stream_finish(request);
}

static void keep_settings(work *work) { /* on a worker */
    request *request = (struct request *)work;
    service_keep_settings(request->stream->service, &request->place, &request->command.out.scene);
    stream_finish(request);
}

/* Whether the answer waits until what another client configured is stored. On any thread. */
static bool hand_over_settings(request *request) {
    const command *command = &request->command;
    const service *service = request->stream->service;
    if (command->kind != COMMAND_CONFIGURE || !request->has_place) return false;
    if (command->error.code != CONTACTD_OK) {
        service_leave_place(service, &request->place);
        return false;
    }
    request->work.run = keep_settings;
    if (workers_add(service->workers, WORK_SCENES, &request->who, &request->work) != WORKERS_QUEUED)
        keep_settings(&request->work); /* it is done already, and so must be stored now */
    return true;
}

static void command_done(command *command) {
    if (hand_over_settings(command->context)) return;
    if (command->kind == COMMAND_SNAPSHOT && command->error.code == CONTACTD_OK) {
        hand_over_snapshot(command->context);
        return;
    }
    if (command->kind == COMMAND_LIST_BODIES && command->error.code == CONTACTD_OK) {
        report_hand_over(command->context);
        return;
    }
    if (command->kind == COMMAND_STEP) reply_encode_step(command->context);
    stream_finish(command->context);
}

/* Makes a command of the message. False: the message is no command, or *error says what is wrong. */
static bool fill_command(request *request, server_error *error) {
    const wire_message *message = &request->message;
    command *command = &request->command;
    command_clear(command);
    command->session = message->session;
    command->who = request->who;
    command->context = request;
    command->done = command_done;
    switch (message->type) {
    case WIRE_OPEN_SCENE:
        command->kind = COMMAND_OPEN;
        command->in.open.name = message->u.open_scene.name;
        command->in.open.settings = message->u.open_scene.settings;
        command->in.open.key = message->u.open_scene.key;
        command->in.open.revision = message->u.open_scene.revision;
        return name_check(message->u.open_scene.name, "scene", error);
    case WIRE_CONFIGURE:
        command->kind = COMMAND_CONFIGURE;
        command->scene = message->u.configure.scene;
        command->in.configure.settings = message->u.configure.settings;
        return true;
    case WIRE_ADD_BODY:
        fill_add_body(command, &message->u.add_body);
        return true;
    case WIRE_REMOVE_BODY:
        command->kind = COMMAND_REMOVE_BODY;
        command->scene = message->u.remove_body.scene;
        command->in.remove_body.body = message->u.remove_body.body;
        return true;
    case WIRE_REPLACE_MESH:
        command->kind = COMMAND_REPLACE_MESH;
        command->scene = message->u.replace_mesh.scene;
        command->in.replace_mesh.body = message->u.replace_mesh.body;
        command->in.replace_mesh.mesh = message->u.replace_mesh.mesh;
        return true;
    case WIRE_SET_MATERIAL:
        command->kind = COMMAND_SET_MATERIAL;
        command->scene = message->u.set_material.scene;
        command->in.set_material.body = message->u.set_material.body;
        command->in.set_material.other = message->u.set_material.other;
        command->in.set_material.material = message->u.set_material.material;
        return true;
    case WIRE_CLOSE_SCENE:
        command->kind = COMMAND_CLOSE;
        command->scene = message->u.close_scene.scene;
        if (message->u.close_scene.of_others) command->session = SESSION_NONE; /* which may touch every scene */
        return true;
    case WIRE_GET_REPORT:
        if (!report_needs_command(request)) return false;
        request->error = (server_error){0};
        command->kind = COMMAND_LIST_BODIES;
        command->scene = message->u.get_report.scene;
        command->in.list_bodies.with_answer = message->u.get_report.kind == WIRE_REPORT_CONTACTS;
        return true;
    case WIRE_STEP:
        return fill_step(request, error);
    case WIRE_GET_SNAPSHOT:
        request->error = (server_error){0};
        fill_snapshot(command, &message->u.get_snapshot);
        return picture_check(&command->in.snapshot.options, request->stream->service->workers, &request->who, error);
    default:
        return false;
    }
}

/* Counts the expected answer. Once the command is queued, another thread may finish the request, but this one answers
 * it and takes the count back. */
static submit_outcome submit_counted(stream *stream, request *request) {
    submit_outcome outcome = scheduler_submit(stream->service->scheduler, &request->command);
    if (outcome != SUBMIT_QUEUED || request->message.type != WIRE_STEP) return outcome;
    request->expected_bytes = request->command.expected_bytes;
    peer_expect(request->peer, request->expected_bytes);
    return outcome;
}

static void open_scene(work *work) { /* on a worker: on a device it allocates, and waits for the device's work */
    request *request = (struct request *)work;
    scheduler_submit(request->stream->service->scheduler, &request->command);
    stream_finish(request);
}

/* Whether somebody other than the scene's client configures it, where such settings are stored. */
static bool stores_settings(const stream *stream, const request *request) {
    scene_record record;
    return request->message.type == WIRE_CONFIGURE && stream->service->state &&
           registry_scene(stream->service->registry, request->command.scene, &record, NULL) &&
           record.owner != request->message.session;
}

static void
configure_and_store(work *work) { /* on a worker: before anything is changed, there must be a place for it */
    request *request = (struct request *)work;
    const service *service = request->stream->service;
    command *command = &request->command;
    request->has_place = service_take_place(service, &request->place, &command->error);
    if (request->has_place && scheduler_submit(service->scheduler, command) == SUBMIT_QUEUED) {
        scheduler_kick(service->scheduler);
        return;
    }
    if (request->has_place) service_leave_place(service, &request->place);
    stream_finish(request);
}

static void submit(stream *stream, request *request) {
    const wire_message *message = &request->message;
    request->command.received_ns = request->received_ns;
    request->has_place = false;
    if (stores_settings(stream, request)) {
        hand_to_workers(stream, request, WORK_SCENES, configure_and_store);
        return;
    }
    if (message->type == WIRE_OPEN_SCENE) {
        hand_to_workers(stream, request, WORK_SCENES, open_scene);
        return;
    }
    if (message->type == WIRE_STEP && message->u.step.deadline_us) {
        request->command.deadline_ns = request->received_ns + message->u.step.deadline_us * UINT64_C(1000);
    }
    if (message->type == WIRE_STEP) {
        uint64_t room = peer_answer_room(request->peer);
        request->command.in.step.answer_room = room ? room : 1;
        request->command.left = &request->left;
        stream_note_begin(request);
    }
    stream->n_outstanding++;
    switch (submit_counted(stream, request)) {
    case SUBMIT_REFUSED:
        stream->n_outstanding--;
        if (request->command.error.code == CONTACTD_BUSY) peer_note_refusal(request->peer);
        refuse(stream, request, &request->command.error);
        break;
    case SUBMIT_DONE: /* OPEN alone, see open_scene */
    case SUBMIT_QUEUED:
        break;
    }
}

/* ---- dispatch ---- */

/* The newest first, as clients number their messages as they like. */
static void take_back(stream *stream, const request *request) {
    struct request *found = stream->newest;
    while (found && (found->peer != request->peer || found->message.request != request->message.u.cancel.request))
        found = found->older;
    if (found) ct_cancel_request(&found->left, SCHEDULE_TAKEN_BACK);
}

static bool answer_at_once(stream *stream, request *request, server_error *error) {
    switch (request->message.type) {
    case WIRE_PING: {
        wire_message pong = {.u.pong = request->message.u.ping};
        reply(stream, request, WIRE_PONG, &pong);
        return true;
    }
    case WIRE_GET_MESH:
        return get_mesh(stream, request, error);
    case WIRE_LIST_MESHES:
        return list_meshes(stream, request, error);
    case WIRE_GET_SCENE:
        return get_scene(stream, request, error);
    case WIRE_LIST_SCENES:
        return list_scenes(stream, request, error);
    case WIRE_GET_STATUS:
        reply_status(stream, request);
        return true;
    case WIRE_GET_REPORT:
        return report_at_once(stream, request, error);
    case WIRE_CANCEL:
        take_back(stream, request);
        reply(stream, request, WIRE_DONE, &(wire_message){0});
        return true;
    case WIRE_DRAIN:
        if (!service_drain(stream->service, &request->who, error)) return false;
        reply(stream, request, WIRE_DONE, &(wire_message){0});
        return true;
    default:
        return server_fail(error, CONTACTD_MALFORMED, "message", "body", "a client does not send %s",
                           wire_type_name(request->message.type));
    }
}

/* Messages that are valid without a session: the one that begins it, and questions that need no state. */
static bool needs_session(wire_type type) {
    return type != WIRE_HELLO && type != WIRE_PING && type != WIRE_GET_STATUS;
}

/* From half of the limit on: a principal that has more than its share, and a client without principal that has a
 * quarter of the limit. The request's own bytes are counted already, and alone they are always taken. */
static bool has_too_much(const stream *stream, const request *request) {
    const shares *in_hand = &stream->in_hand;
    const identity *who = &request->who;
    if (in_hand->used > in_hand->limit) return true;
    if (in_hand->used <= in_hand->limit / 2) return false;
    if (who->principal) return shares_used(in_hand, who->principal) > shares_part(in_hand, who) + request->bytes;
    return peer_unanswered_bytes(request->peer) > in_hand->limit / 4 + request->bytes;
}

static void fail_too_much(const stream *stream, const request *request, server_error *error) {
    const shares *in_hand = &stream->in_hand;
    const identity *who = &request->who;
    if (who->principal) {
        server_fail(error, CONTACTD_BUSY, "message", "",
                    "%" PRIu64 " bytes of requests wait for their answers, %" PRIu64
                    " of them of %s, whose share is %" PRIu64 " of %" PRIu64
                    " (%d times --max-message): wait for answers, or give it more weight in --principals",
                    in_hand->used, shares_used(in_hand, who->principal), who->name, shares_part(in_hand, who),
                    in_hand->limit, UNANSWERED_MESSAGES);
    } else {
        server_fail(error, CONTACTD_BUSY, "message", "",
                    "%" PRIu64 " bytes of requests wait for their answers, %" PRIu64
                    " of them this client's, of at most %" PRIu64 " (%d times --max-message): wait for answers",
                    in_hand->used, peer_unanswered_bytes(request->peer), in_hand->limit, UNANSWERED_MESSAGES);
    }
}

static bool check_unanswered(stream *stream, const request *request, server_error *error) {
    /* A step is refused by the scheduler, and only if it is new: a repeat of one that was computed is never BUSY. */
    const bool is_step = request->message.type == WIRE_STEP || request->message.type == WIRE_STEP_MANY;
    if (!is_step && peer_answer_room(request->peer) == 0) {
        peer_note_refusal(request->peer);
        server_fail(error, CONTACTD_BUSY, "answers", "",
                    "%" PRIu64 " bytes of answers are unread by this client (at most %" PRIu64
                    ", --unread-per-client, and its principal's share of --unread-memory): read them before you ask "
                    "for more",
                    peer_unread_bytes(request->peer), stream->service->config->unread_per_client);
    } else if (has_too_much(stream, request)) {
        fail_too_much(stream, request, error);
    } else {
        return true;
    }
    error->retry_after_ms = 50;
    metrics_add(stream->service->metrics, METRICS_BUSY, 1);
    return false;
}

/* Decodes the message, the session before all that costs memory. False: *error says what is wrong with it. */
static bool decode(stream *stream, request *request, server_error *error) {
    wire_fault fault;
    wire_message *message = &request->message;
    const wire_frame *frames = request->views;
    size_t n = request->n_frames, header_bytes = n ? frames[0].size : 0;
    bool claims_session = n && wire_peek_session(frames, message) && (message->session || message->epoch);
    if (claims_session && !check_session(stream, request, error)) return false;
    bool good = wire_decode_envelope(frames, n, request->scratch, message, &fault);
    if (good) trace_id(message->traceparent, request->trace);
    if (good && !claims_session && needs_session(message->type) && !check_session(stream, request, error)) return false;
    if (good && message->type != WIRE_HELLO && !check_unanswered(stream, request, error)) return false;
    wire_scratch_set_limit(request->scratch, DECODED_PER_HEADER_BYTE * header_bytes + 4096);
    good = good && wire_decode_body(frames, n, request->scratch, message, &fault);
    if (!good) {
        message->request = fault.request;
        log_debug("stream", "a message could not be read: %s", fault.message);
        return server_fail(error, fault.code, "message", fault.field, "%s", fault.message);
    }
    stream_charge_request(request, wire_scratch_bytes(request->scratch));
    return true;
}

void stream_handle(stream *stream, request *request) {
    server_error error = {0};
    bool good = decode(stream, request, &error);
    wire_type type = request->message.type;
    if (!good) {
        refuse(stream, request, &error);
    } else if (type == WIRE_HELLO) {
        handle_hello(stream, request);
    } else if (type == WIRE_REGISTER_MESH) {
        handle_register_mesh(stream, request);
    } else if (type == WIRE_GET_MESH &&
               is_stored(request, request->message.u.get_mesh.mesh, request->message.u.get_mesh.hash)) {
        hand_to_workers(stream, request, WORK_MESHES, restore_mesh);
    } else if (type == WIRE_REMOVE_MESH && may_register(request, &error)) {
        const wire_remove_mesh *in = &request->message.u.remove_mesh;
        hand_to_workers(stream, request, is_stored(request, in->mesh, in->hash) ? WORK_MESHES : WORK_SCENES,
                        remove_mesh);
    } else if (type == WIRE_REMOVE_MESH) {
        refuse(stream, request, &error);
    } else if (type == WIRE_STEP_MANY) {
        if (!many_submit(request, &error)) refuse(stream, request, &error);
    } else if (type == WIRE_RESET_SCENES || type == WIRE_CLOSE_SCENES || type == WIRE_COPY_SCENE ||
               type == WIRE_ADD_BODIES) {
        if (!each_submit(request, &error)) refuse(stream, request, &error);
    } else if (fill_command(request, &error)) {
        request->scene = request->command.scene;
        submit(stream, request);
    } else if (error.code == CONTACTD_OK && answer_at_once(stream, request, &error)) {
        stream_free_request(request);
    } else {
        refuse(stream, request, &error);
    }
}

/* ---- answers ---- */

static void answer_step(stream *stream, request *request) {
    command *command = &request->command;
    step_answer *answer = command->out.step.answer;
    if (answer && step_answer_result(answer)) {
        reply_step(stream, request);
    } else {
        /* With an answer the number is used up, and a repeat would get the same answer: no retry. */
        reply_error(stream, request, request->message.request, &command->error,
                    !answer && server_error_may_retry(&command->error));
    }
    step_answer_release(&command->out.step.answer);
}

static void answer_command(stream *stream, request *request) {
    command *command = &request->command;
    if (command->kind == COMMAND_STEP) {
        answer_step(stream, request);
        return;
    }
    const server_error *error = &command->error;
    bool is_made_later = command->kind == COMMAND_SNAPSHOT || command->kind == COMMAND_LIST_BODIES;
    if (error->code == CONTACTD_OK && is_made_later) error = &request->error;
    if (error->code != CONTACTD_OK) {
        reply_error(stream, request, request->message.request, error, server_error_may_retry(error));
        return;
    }
    if (command->kind == COMMAND_SNAPSHOT) {
        reply_picture(stream, request);
    } else if (command->kind == COMMAND_LIST_BODIES) {
        reply_report(stream, request, &request->report);
    } else if (command->kind == COMMAND_OPEN || command->kind == COMMAND_CONFIGURE) {
        bool is_others = command->out.scene.principal != request->who.principal;
        if (command->kind == COMMAND_CONFIGURE && is_others) audit(&request->who, "configured scene", command->scene);
        reply_scene(stream, request, &command->out.scene);
    } else if (command->kind == COMMAND_ADD_BODY) {
        wire_message added = {
            .u.body_added = {command->scene, command->out.body, command->in.add_body.options.self_contact}};
        reply(stream, request, WIRE_BODY_ADDED, &added);
    } else {
        bool is_others = command->kind == COMMAND_CLOSE && request->message.u.close_scene.of_others;
        if (is_others) audit(&request->who, "closed scene", command->scene);
        reply(stream, request, WIRE_DONE, &(wire_message){0});
    }
}

/* Work that was done without a command. */
static void answer_work(stream *stream, request *request) {
    server_error error = request->error;
    if (request->message.type == WIRE_GET_MESH && error.code == CONTACTD_OK && get_mesh(stream, request, &error))
        return;
    if (error.code != CONTACTD_OK) {
        reply_error(stream, request, request->message.request, &error, server_error_may_retry(&error));
    } else if (request->message.type == WIRE_REGISTER_MESH) {
        reply_mesh(stream, request, &request->mesh, request->changes);
    } else {
        reply(stream, request, WIRE_DONE, &(wire_message){0});
    }
}

void stream_answer(stream *stream, request *request) {
    wire_type type = request->message.type;
    if (type == WIRE_REGISTER_MESH || type == WIRE_GET_MESH || type == WIRE_REMOVE_MESH) {
        answer_work(stream, request);
    } else if (type == WIRE_STEP_MANY) {
        many_reply(stream, request);
    } else if (request->each) {
        each_reply(stream, request);
    } else if (request->command.superseded) {
        reply_drop_encoded(request);
        step_answer_release(&request->command.out.step.answer);
    } else {
        answer_command(stream, request);
    }
}

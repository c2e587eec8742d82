/* reply.c - answers: encoded, and sent without waiting. Large arrays are not copied: their frames hold a reference to
 * the owner of the arrays, dropped when ZeroMQ has sent them. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/clock.h"
#include "server/base/log.h"
#include "server/stream/internal.h"

frame_owner *frame_owner_new(request *request, size_t header_size) {
    frame_owner *owner = calloc(1, sizeof *owner + header_size);
    if (!owner) return NULL;
    atomic_init(&owner->references, 1);
    owner->peer = peer_retain(request->peer);
    return owner;
}

void frame_owner_release(frame_owner *owner) {
    if (!owner || atomic_fetch_sub_explicit(&owner->references, 1, memory_order_acq_rel) != 1) return;
    if (owner->charged_bytes) peer_discharge(owner->peer, owner->charged_bytes);
    peer_release(&owner->peer);
    step_answer_release(&owner->answer);
    ct_mesh_release(&owner->mesh);
    wire_encoder_free(&owner->encoder);
    free(owner->block);
    free(owner);
}

static uint64_t bytes_of(const wire_encoded *encoded) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < encoded->n_frames; i++) bytes += encoded->frames[i].size;
    return bytes;
}

void frame_owner_charge(frame_owner *owner, const wire_encoded *encoded) {
    owner->charged_bytes = bytes_of(encoded);
    peer_charge(owner->peer, owner->charged_bytes);
}

static void frame_sent(void *data, void *hint) { /* on ZeroMQ's thread */
    frame_owner *owner = hint;
    (void)data;
    if (owner->zmq_thread) wire_zmq_thread_register(owner->zmq_thread);
    frame_owner_release(owner);
}

static bool send_part(stream *stream, request *request, zmq_msg_t *part, bool last) {
    if (zmq_msg_send(part, stream->socket, ZMQ_DONTWAIT | (last ? 0 : ZMQ_SNDMORE)) >= 0) return true;
    int cause = errno;
    zmq_msg_close(part);
    metrics_add(stream->service->metrics, cause == EAGAIN ? METRICS_REPLIES_SLOW : METRICS_REPLIES_GONE, 1);
    log_debug("stream", "an answer was dropped: %s", zmq_strerror(cause));
    if (cause == EAGAIN) peers_cut_full(stream->peers, request->peer);
    return false;
}

/* Only the first part can be refused (the client is gone, or does not read); then nothing was sent. */
static void send_frames(stream *stream, request *request, const wire_encoded *encoded, frame_owner *owner) {
    zmq_msg_t part;
    zmq_msg_init(&part);
    zmq_msg_copy(&part, &request->client);
    if (!send_part(stream, request, &part, false)) return;
    if (!owner->encoder) memcpy(owner->header, encoded->frames[0].data, encoded->frames[0].size);
    for (size_t i = 0; i < encoded->n_frames; i++) {
        const wire_frame *frame = &encoded->frames[i];
        /* ZeroMQ only reads it. */
        void *data = i == 0 && !owner->encoder ? owner->header : (void *)(uintptr_t)frame->data;
        atomic_fetch_add_explicit(&owner->references, 1, memory_order_relaxed);
        if (zmq_msg_init_data(&part, data, frame->size, frame_sent, owner) != 0) {
            atomic_fetch_sub_explicit(&owner->references, 1, memory_order_relaxed); /* the caller has one more */
            zmq_msg_init(&part); /* out of memory: an empty frame, which the client refuses to read */
        }
        if (!send_part(stream, request, &part, i + 1 == encoded->n_frames)) return;
    }
    metrics_add(stream->service->metrics, METRICS_STREAM_OUT, bytes_of(encoded));
}

/* A line for each answer, at level debug. */
static void log_answer(const request *request) {
    if (!log_enabled(LOG_LEVEL_DEBUG)) return;
    const wire_message *message = &request->message;
    log_fields fields = {.session = registry_session_number(request->stream->service->registry, message->session),
                         .scene = request->scene,
                         .code = server_code_name(request->code),
                         .duration_s = (double)(clock_ns() - request->received_ns) * 1e-9,
                         .trace = request->trace};
    log_event(LOG_LEVEL_DEBUG, "stream", &fields, "answered %s", wire_type_name(message->type));
}

void send_encoded(stream *stream, request *request, const wire_encoded *encoded, frame_owner *owner) {
    log_answer(request);
    if (!owner->charged_bytes && peer_is_overfull(request->peer, bytes_of(encoded))) {
        peers_cut_full(stream->peers, request->peer);
        metrics_add(stream->service->metrics, METRICS_REPLIES_SLOW, 1);
    } else {
        if (!owner->charged_bytes) frame_owner_charge(owner, encoded);
        send_frames(stream, request, encoded, owner);
    }
    frame_owner_release(owner);
}

/* For answers to requests that can be repeated: answers BUSY instead if unread answers leave no room for `bytes`. */
static bool has_room(stream *stream, request *request, uint64_t bytes) {
    uint64_t room = peer_answer_room(request->peer);
    if (bytes <= room || bytes <= WIRE_INLINE_BYTES) return true;
    server_error error = {0};
    server_fail(&error, CONTACTD_BUSY, "answer", "",
                "the answer has %" PRIu64
                " bytes, and the answers that this client has not read leave room for %" PRIu64
                " (--unread-per-client, --unread-memory): read them, then send the same request again",
                bytes, room);
    error.retry_after_ms = 50;
    peer_note_refusal(request->peer);
    metrics_add(stream->service->metrics, METRICS_BUSY, 1);
    reply_error(stream, request, request->message.request, &error, true);
    return false;
}

bool encode_with(wire_encoder *encoder, const request *request, wire_type type, wire_message *message,
                 wire_encoded *encoded) {
    message->type = type;
    message->request = request->message.request;
    message->epoch = request->stream->service->epoch;
    if (type != WIRE_WELCOME) message->session = request->message.session;
    return wire_encode(encoder, message, WIRE_INLINE_BYTES, encoded);
}

void reply_no_memory(stream *stream, request *request) {
    server_error error = {0};
    server_fail(
        &error, CONTACTD_OUT_OF_MEMORY, "answer", "",
        "the answer does not fit into a header of %u MiB, or there is no memory to encode it: leave out patches or "
        "cells, or ask for fewer contacts",
        WIRE_MAX_HEADER >> 20);
    reply_error(stream, request, request->message.request, &error, true);
}

static bool encode(stream *stream, request *request, wire_type type, wire_message *message, wire_encoded *encoded) {
    if (encode_with(stream->encoder, request, type, message, encoded)) return true;
    if (type != WIRE_ERROR) reply_no_memory(stream, request);
    return false;
}

/* An owner for what the stream's encoder made. NULL: there is no memory, and the client asks again later. */
static frame_owner *own_copy(stream *stream, request *request, const wire_encoded *encoded) {
    frame_owner *owner = frame_owner_new(request, encoded->frames[0].size);
    if (owner) return owner;
    metrics_add(stream->service->metrics, METRICS_REPLIES_NO_MEMORY, 1);
    log_error("stream", "no memory for an answer of %" PRIu64 " bytes: it is not sent", bytes_of(encoded));
    return NULL;
}

void reply(stream *stream, request *request, wire_type type, wire_message *message) {
    wire_encoded encoded;
    if (!encode(stream, request, type, message, &encoded)) return;
    frame_owner *owner = own_copy(stream, request, &encoded);
    if (owner) send_encoded(stream, request, &encoded, owner);
}

void reply_error(stream *stream, request *request, uint64_t number, const server_error *error, bool retry) {
    metrics_count_error(stream->service->metrics, error->code);
    log_debug("stream", "%s: %s %s: %s", server_code_name(error->code), error->object, error->field, error->message);
    wire_message message = {
        .u.error = {error->code, error->object, error->field, error->message, retry, error->retry_after_ms, NULL}};
    if (error->code == CONTACTD_SHUTTING_DOWN) message.u.error.successors = stream_successors(stream);
    request->message.request = number;
    request->code = error->code;
    reply(stream, request, WIRE_ERROR, &message);
}

static uint32_t list_methods(const service *service, const char *names[WIRE_METHODS]) {
    static_assert((int)CT_MAX_METHODS <= (int)WIRE_METHODS, "a list of methods does not fit into a message");
    ct_method methods[CT_MAX_METHODS];
    size_t n = ct_engine_methods(service->engine, methods);
    for (size_t i = 0; i < n; i++) names[i] = ct_method_name(methods[i]);
    return (uint32_t)n;
}

void reply_welcome(stream *stream, request *request, const session_record *session) {
    const service *service = stream->service;
    ct_mesh_limits limits;
    ct_mesh_limits_init(&limits);
    wire_message message = {.session = session->token,
                            .u.welcome = {
                                .version = WIRE_VERSION,
                                .epoch = service->epoch,
                                .session = session->token,
                                .server = SERVER_NAME,
                                .backend = stream->engine.backend,
                                .rasterizer = stream->engine.rasterizer,
                                .device = stream->engine.device,
                                .lease_ms = session->lease_ms,
                                .max_message_bytes = service->config->max_message,
                                .max_triangles = limits.max_triangles,
                                .max_vertices = limits.max_vertices,
                                .max_resolution = CT_MAX_RESOLUTION,
                                .max_in_flight = (uint32_t)service->config->max_in_flight,
                                .successors = stream_successors(stream),
                                .last_message = WIRE_TYPE_END - 1,
                            }};
    message.u.welcome.n_methods = list_methods(service, message.u.welcome.methods);
    frame_owner *owner = frame_owner_new(request, 0);
    wire_encoded encoded;
    if (owner && (owner->encoder = wire_encoder_new()) &&
        encode_with(owner->encoder, request, WIRE_WELCOME, &message, &encoded)) {
        owner->zmq_thread = &stream->zmq_thread;
        send_encoded(stream, request, &encoded, owner);
    } else {
        frame_owner_release(owner);
        reply_no_memory(stream, request);
    }
}

/* ---- meshes ---- */

static wire_mesh_info info_of(const mesh_record *record) {
    const ct_mesh_info *info = &record->info;
    wire_mesh_info out = {
        .mesh = record->handle,
        .hash = info->hash,
        .name = record->name,
        .vertices = info->vertices,
        .triangles = info->triangles,
        .closing_vertices = info->closing_vertices,
        .shells = info->shells,
        .doubled_shells = info->doubled_shells,
        .bytes = info->bytes,
        .volume = info->volume,
        .area = info->area,
        .lo = {info->lo[0], info->lo[1], info->lo[2]},
        .hi = {info->hi[0], info->hi[1], info->hi[2]},
        .bodies = record->bodies,
        .existed = record->existed,
        .deviation = info->deviation,
        .closed_as = (uint8_t)info->closing,
    };
    memcpy(out.center_of_mass, info->center_of_mass, sizeof out.center_of_mass);
    memcpy(out.inertia, info->inertia, sizeof out.inertia);
    return out;
}

/* As contactd.fbs has it in MeshInfo.repair. Returns how many numbers. */
static uint32_t repair_numbers(const ct_mesh_changes *changes,
                               double to[WIRE_REPAIR_COUNTS + WIRE_REPAIR_ROW * WIRE_REPAIR_ROWS]) {
    static_assert(CT_CHANGE_KINDS + 1 == WIRE_REPAIR_COUNTS && CT_CHANGE_KINDS * CT_CHANGE_EXAMPLES == WIRE_REPAIR_ROWS,
                  "the numbers have room for all");
    uint32_t n = 0;
    for (int k = 0; k < CT_CHANGE_KINDS; k++) to[n++] = (double)changes->of[k].count;
    to[n++] = (double)changes->fill_triangles;
    for (int k = 0; k < CT_CHANGE_KINDS; k++)
        for (uint64_t i = 0; i < changes->of[k].count && i < CT_CHANGE_EXAMPLES; i++) {
            const struct ct_change_example *first = &changes->of[k].first[i];
            const double row[WIRE_REPAIR_ROW] = {
                k, (double)first->index, first->at[0], first->at[1], first->at[2], first->edges};
            memcpy(to + n, row, sizeof row);
            n += WIRE_REPAIR_ROW;
        }
    return n;
}

void reply_mesh(stream *stream, request *request, const mesh_record *record, const ct_mesh_changes *changes) {
    wire_message message = {.u.mesh_info = info_of(record)};
    double repair[WIRE_REPAIR_COUNTS + WIRE_REPAIR_ROW * WIRE_REPAIR_ROWS];
    const wire_register_mesh *in =
        request->message.type == WIRE_REGISTER_MESH ? &request->message.u.register_mesh : NULL;
    if (in) message.u.mesh_info.closing = in->closing;
    if (changes && in->closing) message.u.mesh_info.deviation = changes->deviation;
    if (changes) {
        message.u.mesh_info.uneven_polygons = changes->uneven_polygons;
        message.u.mesh_info.unevenness = changes->unevenness;
    }
    if (changes && in->repair) {
        message.u.mesh_info.repair = repair;
        message.u.mesh_info.n_repair = repair_numbers(changes, repair);
        message.u.mesh_info.moved = changes->moved;
        message.u.mesh_info.self_overlap = changes->self_overlap;
    }
    reply(stream, request, WIRE_MESH_INFO, &message);
}

/* The positions of a mesh in double precision, or rounded. NULL: no memory. */
static void *copy_positions(const ct_mesh *mesh, const ct_mesh_info *info, bool takes_doubles) {
    double *wide = malloc(info->vertices * 3 * sizeof *wide);
    if (wide) ct_mesh_positions_f64(mesh, wide);
    if (!wide || takes_doubles) return wide;
    float *rounded = malloc(info->vertices * 3 * sizeof *rounded);
    for (size_t i = 0; rounded && i < 3 * info->vertices; i++) rounded[i] = (float)wide[i];
    free(wide);
    return rounded;
}

void reply_geometry(stream *stream, request *request, const mesh_record *record, ct_mesh *mesh, bool takes_doubles) {
    const ct_mesh_info *info = &record->info;
    const bool has_doubles = info->dtype == CT_F64;
    void *copy = has_doubles ? copy_positions(mesh, info, takes_doubles) : NULL;
    if (has_doubles && !copy) {
        server_error error = {0};
        server_fail(&error, CONTACTD_OUT_OF_MEMORY, "mesh", "", "no memory for %llu positions",
                    (unsigned long long)info->vertices);
        reply_error(stream, request, request->message.request, &error, true);
        return;
    }
    const wire_dtype dtype = has_doubles && takes_doubles ? WIRE_F64 : WIRE_F32;
    const void *positions = copy ? copy : ct_mesh_positions(mesh);
    wire_message message = {.u.mesh_geometry = {
                                .info = info_of(record),
                                .vertices = {dtype, info->vertices * 3, positions},
                                .triangles = {WIRE_U32, info->triangles * 3, ct_mesh_triangles(mesh)},
                            }};
    wire_encoded encoded;
    const bool is_ready = encode(stream, request, WIRE_MESH_GEOMETRY, &message, &encoded) &&
                          has_room(stream, request, bytes_of(&encoded));
    frame_owner *owner = is_ready ? own_copy(stream, request, &encoded) : NULL;
    if (!owner) {
        free(copy);
        return;
    }
    owner->mesh = ct_mesh_retain(mesh);
    owner->block = copy;
    send_encoded(stream, request, &encoded, owner);
}

void reply_meshes(stream *stream, request *request, const mesh_record *records, size_t n) {
    wire_mesh_info *infos = calloc(n + 1, sizeof *infos);
    server_error error = {0};
    if (!infos) {
        server_fail(&error, CONTACTD_OUT_OF_MEMORY, "meshes", "", "no memory for a list of %zu", n);
        reply_error(stream, request, request->message.request, &error, true);
        return;
    }
    for (size_t i = 0; i < n; i++) infos[i] = info_of(&records[i]);
    wire_message message = {.u.mesh_list = {infos, (uint32_t)n}};
    reply(stream, request, WIRE_MESH_LIST, &message);
    free(infos);
}

/* ---- scenes ---- */

wire_settings reply_settings(const ct_scene_settings *settings) {
    wire_settings all = {CT_GIVEN_ALL, *settings};
    for (int s = 0; s < CT_SETTINGS; s++)
        if (ct_setting_rows[s].is_zero_left_out && ct_setting_is_zero(&ct_setting_rows[s], settings))
            all.given &= ~CT_GIVEN(s);
    return all;
}

static wire_scene_info scene_of(const request *request, const scene_record *record) {
    return (wire_scene_info){
        .scene = record->handle,
        .name = record->name,
        .settings = reply_settings(&record->settings),
        .revision = record->revision,
        .bodies = record->bodies,
        .bytes = record->bytes,
        .steps = record->steps,
        .contacts = record->contacts,
        .running_method = record->running.method,
        .mine = record->owner == request->message.session && record->owner != SESSION_NONE,
        .owner = record->owner_name,
    };
}

void reply_scene(stream *stream, request *request, const scene_record *record) {
    wire_message message = {.u.scene_info = scene_of(request, record)};
    reply(stream, request, WIRE_SCENE_INFO, &message);
}

void reply_scenes(stream *stream, request *request, const scene_record *records, size_t n) {
    wire_scene_info *infos = calloc(n + 1, sizeof *infos);
    server_error error = {0};
    if (!infos) {
        server_fail(&error, CONTACTD_OUT_OF_MEMORY, "scenes", "", "no memory for a list of %zu", n);
        reply_error(stream, request, request->message.request, &error, true);
        return;
    }
    for (size_t i = 0; i < n; i++) infos[i] = scene_of(request, &records[i]);
    wire_message message = {.u.scene_list = {infos, (uint32_t)n}};
    reply(stream, request, WIRE_SCENE_LIST, &message);
    free(infos);
}

/* ---- pictures ---- */

void reply_picture(stream *stream, request *request) {
    picture *picture = &request->picture;
    wire_message message = {.u.snapshot = {
                                .scene = request->message.u.get_snapshot.scene,
                                .width = picture->width,
                                .height = picture->height,
                                .png = {WIRE_U8, picture->size, picture->png},
                            }};
    wire_encoded encoded;
    frame_owner *owner = NULL;
    if (encode(stream, request, WIRE_SNAPSHOT, &message, &encoded) && has_room(stream, request, bytes_of(&encoded)))
        owner = own_copy(stream, request, &encoded);
    if (!owner) {
        free(picture->png);
        return;
    }
    owner->block = picture->png;
    send_encoded(stream, request, &encoded, owner);
}

/* ---- reports ---- */

void reply_report(stream *stream, request *request, json_out *report) {
    wire_message message = {.u.report.json = {WIRE_U8, report->size, report->data}};
    wire_encoded encoded;
    frame_owner *owner = NULL;
    if (encode(stream, request, WIRE_REPORT, &message, &encoded) && has_room(stream, request, bytes_of(&encoded)))
        owner = own_copy(stream, request, &encoded);
    if (!owner) {
        json_out_free(report);
        return;
    }
    owner->block = report->data;
    send_encoded(stream, request, &encoded, owner);
}

/* ---- status ---- */

void reply_status(stream *stream, request *request) {
    const service *service = stream->service;
    service_status status;
    service_get_status(service, &status);
    wire_device devices[CT_MAX_DEVICES];
    for (size_t i = 0; i < status.n_devices; i++) {
        const ct_engine_facts *facts = &status.devices[i];
        devices[i] = (wire_device){
            .device = facts->device,
            .scenes = facts->scenes,
            .triangles = facts->triangles,
            .memory_budget = facts->memory_budget,
            .memory_used = facts->memory_used,
            .memory_meshes = facts->memory_meshes,
            .memory_bodies = facts->memory_bodies,
            .scratch_bytes = facts->scratch_bytes,
            .scratch_peak = facts->scratch_peak,
            .uploaded = facts->uploaded,
            .downloaded = facts->downloaded,
            .launches = facts->launches,
            .lost = facts->lost,
            .lost_reason = facts->lost_reason,
        };
    }
    wire_message message = {.u.status = {
                                .server = SERVER_NAME,
                                .backend = status.devices[0].backend,
                                .rasterizer = status.devices[0].rasterizer,
                                .device = status.devices[0].device,
                                .simd = status.devices[0].simd,
                                .threads = status.devices[0].threads,
                                .ready = status.ready,
                                .ready_reason = status.ready_reason,
                                .epoch = service->epoch,
                                .uptime_s = status.uptime_s,
                                .sessions = status.totals.sessions,
                                .scenes = status.totals.scenes,
                                .meshes = status.totals.meshes,
                                .bodies = status.totals.bodies,
                                .mesh_bytes = status.totals.mesh_bytes,
                                .mesh_bytes_limit = status.totals.mesh_bytes_limit,
                                .scene_bytes = status.totals.scene_bytes,
                                .scratch_bytes = status.scratch_bytes,
                                .queue_depth = status.queue.queue_depth,
                                .queue_capacity = status.queue.queue_capacity,
                                .steps = status.steps,
                                .contacts = status.contacts,
                                .max_resolution = CT_MAX_RESOLUTION,
                                .max_message_bytes = service->config->max_message,
                                .devices = devices,
                                .n_devices = (uint32_t)status.n_devices,
                                .auto_method = ct_method_name(ct_engine_auto_method(service->engine)),
                                .insecure = service->config->insecure,
                            }};
    message.u.status.n_methods = list_methods(service, message.u.status.methods);
    reply(stream, request, WIRE_STATUS, &message);
}

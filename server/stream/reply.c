/* reply.c - answers: encoded, and sent without waiting. Large arrays are not copied: their frames hold a reference to
 * the answer or mesh they belong to, dropped when ZeroMQ has sent them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "server/log.h"
#include "server/stream/internal.h"

void parcel_release(parcel *parcel) {
    if (atomic_fetch_sub_explicit(&parcel->references, 1, memory_order_acq_rel) != 1) return;
    step_answer_release(&parcel->answer);
    ct_mesh_release(&parcel->mesh);
    wire_encoder_free(&parcel->encoder);
    free(parcel->block);
    free(parcel);
}

static void frame_sent(void *data, void *hint) { /* on the courier */
    parcel *parcel = hint;
    (void)data;
    if (parcel->courier) wire_courier_is_here(parcel->courier);
    parcel_release(parcel);
}

parcel *parcel_new(step_answer *answer, ct_mesh *mesh, void *block) {
    parcel *parcel = calloc(1, sizeof *parcel);
    if (!parcel) return NULL;
    atomic_init(&parcel->references, 1);
    parcel->answer = answer ? step_answer_retain(answer) : NULL;
    parcel->mesh = mesh ? ct_mesh_retain(mesh) : NULL;
    parcel->block = block;
    return parcel;
}

static bool send_part(stream *stream, zmq_msg_t *part, bool last) {
    if (zmq_msg_send(part, stream->socket, ZMQ_DONTWAIT | (last ? 0 : ZMQ_SNDMORE)) >= 0) return true;
    int cause = errno;
    zmq_msg_close(part);
    metrics_add(stream->service->metrics, cause == EAGAIN ? METRICS_REPLIES_SLOW : METRICS_REPLIES_GONE, 1);
    log_debug("stream", "an answer was dropped: %s", zmq_strerror(cause));
    return false;
}

/* Only the first part can be refused (the client is gone, or does not read); then nothing was sent. */
void send_encoded(stream *stream, request *request, const wire_encoded *encoded, parcel *parcel) {
    zmq_msg_t part;
    zmq_msg_init(&part);
    zmq_msg_copy(&part, &request->client);
    if (!send_part(stream, &part, false)) return;
    size_t bytes = 0;
    for (size_t i = 0; i < encoded->n_frames; i++) {
        const wire_frame *frame = &encoded->frames[i];
        bool last = i + 1 == encoded->n_frames;
        bytes += frame->size;
        if (parcel && (i > 0 || parcel->encoder)) {
            atomic_fetch_add_explicit(&parcel->references, 1, memory_order_relaxed);
            /* ZeroMQ only reads it. */
            if (zmq_msg_init_data(&part, (void *)(uintptr_t)frame->data, frame->size, frame_sent, parcel) != 0) {
                parcel_release(parcel);
                zmq_msg_init(&part);
            }
        } else if (zmq_msg_init_size(&part, frame->size) == 0) {
            if (frame->size) memcpy(zmq_msg_data(&part), frame->data, frame->size);
        } else {
            zmq_msg_init(&part); /* out of memory: an empty frame, which the client refuses to read */
        }
        if (!send_part(stream, &part, last)) return;
    }
    metrics_add(stream->service->metrics, METRICS_STREAM_OUT, bytes);
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
    server_fail(&error, CONTACTD_OUT_OF_MEMORY, "answer", "", "no memory to encode the answer");
    reply_error(stream, request, request->message.request, &error, true);
}

static bool encode(stream *stream, request *request, wire_type type, wire_message *message, wire_encoded *encoded) {
    if (encode_with(stream->encoder, request, type, message, encoded)) return true;
    if (type != WIRE_ERROR) reply_no_memory(stream, request);
    return false;
}

void reply(stream *stream, request *request, wire_type type, wire_message *message) {
    wire_encoded encoded;
    if (encode(stream, request, type, message, &encoded)) send_encoded(stream, request, &encoded, NULL);
}

void reply_error(stream *stream, request *request, uint64_t number, const server_error *error, bool retry) {
    metrics_count_error(stream->service->metrics, error->code);
    log_debug("stream", "%s: %s %s: %s", server_code_name(error->code), error->object, error->field, error->message);
    wire_message message = {
        .u.error = {error->code, error->object, error->field, error->message, retry, error->retry_after_ms}};
    request->message.request = number;
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
                            }};
    message.u.welcome.n_methods = list_methods(service, message.u.welcome.methods);
    parcel *parcel = parcel_new(NULL, NULL, NULL); /* not copied, so that who has sent it is heard of */
    wire_encoded encoded;
    if (!parcel || !(parcel->encoder = wire_encoder_new()) ||
        !encode_with(parcel->encoder, request, WIRE_WELCOME, &message, &encoded)) {
        reply_no_memory(stream, request);
    } else {
        parcel->courier = &stream->courier;
        send_encoded(stream, request, &encoded, parcel);
    }
    if (parcel) parcel_release(parcel);
}

/* ---- meshes ---- */

static wire_mesh_info info_of(const mesh_record *record) {
    const ct_mesh_info *info = &record->info;
    return (wire_mesh_info){
        .mesh = record->handle,
        .hash = info->hash,
        .name = record->name,
        .vertices = info->vertices,
        .triangles = info->triangles,
        .bytes = info->bytes,
        .volume = info->volume,
        .area = info->area,
        .lo = {info->lo[0], info->lo[1], info->lo[2]},
        .hi = {info->hi[0], info->hi[1], info->hi[2]},
        .bodies = record->bodies,
        .existed = record->existed,
    };
}

void reply_mesh(stream *stream, request *request, const mesh_record *record) {
    wire_message message = {.u.mesh_info = info_of(record)};
    reply(stream, request, WIRE_MESH_INFO, &message);
}

void reply_geometry(stream *stream, request *request, const mesh_record *record, ct_mesh *mesh) {
    const ct_mesh_info *info = &record->info;
    wire_message message = {.u.mesh_geometry = {
                                .info = info_of(record),
                                .vertices = {WIRE_F32, info->vertices * 3, ct_mesh_positions(mesh)},
                                .triangles = {WIRE_U32, info->triangles * 3, ct_mesh_triangles(mesh)},
                            }};
    parcel *parcel = parcel_new(NULL, mesh, NULL);
    wire_encoded encoded;
    if (encode(stream, request, WIRE_MESH_GEOMETRY, &message, &encoded)) {
        send_encoded(stream, request, &encoded, parcel); /* without a parcel (no memory) the arrays are copied */
    }
    if (parcel) parcel_release(parcel);
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

static wire_scene_info scene_of(const request *request, const scene_record *record) {
    const ct_scene_settings *settings = &record->settings;
    return (wire_scene_info){
        .scene = record->handle,
        .name = record->name,
        .settings =
            {
                .has_method = true,
                .has_resolution = settings->resolution[0] != 0,
                .has_pixel_size = true,
                .has_stiffness = true,
                .method = (wire_method)settings->method,
                .resolution = {settings->resolution[0], settings->resolution[1], settings->resolution[2]},
                .pixel_size = settings->pixel_size,
                .stiffness = settings->stiffness,
            },
        .bodies = record->bodies,
        .bytes = record->bytes,
        .steps = record->steps,
        .contacts = record->contacts,
        .running_method = (wire_method)record->running.method,
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
    if (!encode(stream, request, WIRE_SNAPSHOT, &message, &encoded)) {
        free(picture->png);
        return;
    }
    parcel *parcel = encoded.n_frames > 1 ? parcel_new(NULL, NULL, picture->png) : NULL;
    send_encoded(stream, request, &encoded, parcel); /* without a parcel it is copied */
    if (parcel) {
        parcel_release(parcel);
    } else {
        free(picture->png);
    }
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
                            }};
    message.u.status.n_methods = list_methods(service, message.u.status.methods);
    reply(stream, request, WIRE_STATUS, &message);
}

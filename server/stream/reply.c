/* reply.c - answers: encoded, and sent without waiting. Large arrays are not copied: their frames hold a reference to
 * the answer or mesh they belong to, dropped when ZeroMQ has sent them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "server/log.h"
#include "server/stream/internal.h"

/* What array frames on their way out belong to. */
typedef struct parcel {
    atomic_uint references;
    step_answer *answer;
    ct_mesh *mesh;
    void *block; /* spans, or a picture */
} parcel;

static void parcel_release(parcel *parcel) {
    if (atomic_fetch_sub_explicit(&parcel->references, 1, memory_order_acq_rel) != 1) return;
    step_answer_release(&parcel->answer);
    ct_mesh_release(&parcel->mesh);
    free(parcel->block);
    free(parcel);
}

static void frame_sent(void *data, void *hint) { /* on one of ZeroMQ's threads */
    (void)data;
    parcel_release(hint);
}

static parcel *parcel_new(step_answer *answer, ct_mesh *mesh, void *block) {
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
static void send_encoded(stream *stream, request *request, const wire_encoded *encoded, parcel *parcel) {
    zmq_msg_t part;
    zmq_msg_init(&part);
    zmq_msg_copy(&part, &request->client);
    if (!send_part(stream, &part, false)) return;
    size_t bytes = 0;
    for (size_t i = 0; i < encoded->n_frames; i++) {
        const wire_frame *frame = &encoded->frames[i];
        bool last = i + 1 == encoded->n_frames;
        bytes += frame->size;
        if (i > 0 && parcel) {
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

static bool encode(stream *stream, request *request, wire_type type, wire_message *message, wire_encoded *encoded) {
    message->type = type;
    message->request = request->message.request;
    message->epoch = stream->service->epoch;
    if (type != WIRE_WELCOME) message->session = request->message.session;
    if (wire_encode(stream->encoder, message, WIRE_INLINE_BYTES, encoded)) return true;
    if (type != WIRE_ERROR) {
        server_error error = {0};
        server_fail(&error, CONTACTD_OUT_OF_MEMORY, "answer", "", "no memory to encode the answer");
        reply_error(stream, request, request->message.request, &error, true);
    }
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
                                .methods = {"ldi"},
                                .n_methods = 1,
                            }};
    reply(stream, request, WIRE_WELCOME, &message);
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
                .has_resolution = true,
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

/* ---- steps ---- */

static void copy_contact(wire_contact *to, const ct_contact *from) {
    *to = (wire_contact){
        .body = {from->body[0], from->body[1]},
        .volume = from->volume,
        .error_bound = from->error_bound,
        .error_estimate = from->error_estimate,
        .area = from->area,
        .depth = from->depth,
        .first = {from->first[0], from->first[1]},
        .count = {from->count[0], from->count[1]},
        .first_span = from->first_span,
        .n_spans = from->n_spans,
    };
    memcpy(to->volumes, from->volumes, sizeof to->volumes);
    memcpy(to->normal, from->normal, sizeof to->normal);
    memcpy(to->tangents, from->tangents, sizeof to->tangents);
    memcpy(to->center, from->center, sizeof to->center);
    memcpy(to->generalized, from->generalized_gradient, sizeof to->generalized);
}

static bool copy_contacts(stream *stream, const ct_result *result) {
    if (result->n_contacts > stream->room_contacts) {
        wire_contact *grown = realloc(stream->contacts, result->n_contacts * sizeof *grown);
        if (!grown) return false;
        stream->contacts = grown;
        stream->room_contacts = result->n_contacts;
    }
    for (size_t i = 0; i < result->n_contacts; i++) copy_contact(&stream->contacts[i], &result->contacts[i]);
    return true;
}

/* The wire has end points and axes apart. *block is freed by the caller. */
static bool copy_spans(const ct_result *result, wire_step_result *out, void **block) {
    size_t n = result->n_spans;
    float *points = malloc(n * (6 * sizeof(float) + 1));
    if (!points) return false;
    uint8_t *axes = (uint8_t *)(points + 6 * n);
    for (size_t i = 0; i < n; i++) {
        memcpy(points + 6 * i, result->spans[i].lower, 3 * sizeof(float));
        memcpy(points + 6 * i + 3, result->spans[i].upper, 3 * sizeof(float));
        axes[i] = (uint8_t)result->spans[i].axis;
    }
    out->spans = (wire_array){WIRE_F32, 6 * n, points};
    out->span_axes = (wire_array){WIRE_U8, n, axes};
    *block = points;
    return true;
}

void reply_step(stream *stream, request *request, step_answer *answer, bool cached) {
    const ct_result *result = step_answer_result(answer);
    uint64_t n = result->n_entries;
    wire_message message = {.u.step_result = {
                                .scene = request->message.u.step.scene,
                                .sequence = request->message.u.step.sequence,
                                .n_contacts = (uint32_t)result->n_contacts,
                                .method = (wire_method)result->method,
                                .backend = stream->engine.backend,
                                .pairs = result->pairs,
                                .rays = result->rays,
                                .fragments = result->fragments,
                                .cached = cached,
                            }};
    wire_step_result *out = &message.u.step_result;
    if (result->vertices && (result->gradient || result->weights || result->forces)) {
        out->vertices = (wire_array){WIRE_U32, n, result->vertices};
    }
    if (result->gradient) out->gradient = (wire_array){WIRE_F64, 3 * n, result->gradient};
    if (result->weights) out->weights = (wire_array){WIRE_F64, n, result->weights};
    if (result->forces) out->forces = (wire_array){WIRE_F64, 3 * n, result->forces};
    out->timings_us[0] = step_answer_queue_seconds(answer) * 1e6;
    for (int p = 0; p < CT_PHASES; p++) out->timings_us[1 + p] = result->seconds[p] * 1e6;

    void *spans = NULL;
    wire_encoded encoded;
    if (!copy_contacts(stream, result) || (result->n_spans && !copy_spans(result, out, &spans))) {
        server_error error = {0};
        server_fail(&error, CONTACTD_OUT_OF_MEMORY, "answer", "", "no memory to encode the answer");
        reply_error(stream, request, request->message.request, &error, true);
        return;
    }
    out->contacts = stream->contacts;
    if (!encode(stream, request, WIRE_STEP_RESULT, &message, &encoded)) {
        free(spans);
        return;
    }
    parcel *parcel = encoded.n_frames > 1 ? parcel_new(answer, NULL, spans) : NULL;
    send_encoded(stream, request, &encoded, parcel);
    if (parcel) {
        parcel_release(parcel);
    } else {
        free(spans);
    }
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
                            }};
    reply(stream, request, WIRE_STATUS, &message);
}

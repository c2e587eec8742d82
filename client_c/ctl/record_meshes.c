/* record_meshes.c - see record_meshes.h. */
#include "client_c/ctl/record_meshes.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

bool record_meshes_open(record_meshes *m, const ctl *ctl, void *context) {
    *m = (record_meshes){.ctl = ctl, .context = context};
    m->encoder = wire_encoder_new();
    m->scratch = wire_scratch_new();
    return m->encoder && m->scratch;
}

void record_meshes_close(record_meshes *m) {
    if (m->socket) zmq_close(m->socket);
    wire_encoder_free(&m->encoder);
    wire_scratch_free(&m->scratch);
    free(m->known);
    free(m->registering);
}

static bool grow(void *array, size_t n, size_t *room, size_t element) {
    void *old;
    if (n < *room) return true;
    memcpy(&old, array, sizeof old);
    void *grown = realloc(old, 2 * (n + 8) * element);
    if (!grown) return false;
    memcpy(array, &grown, sizeof grown);
    *room = 2 * (n + 8);
    return true;
}

/* ---- what the recording has ---- */

static bool is_known(const record_meshes *m, uint64_t mesh) {
    for (size_t i = 0; i < m->n_known; i++)
        if (m->known[i] == mesh) return true;
    return false;
}

/* A server that started anew has other handles, and maybe the same numbers for other meshes. */
static void note_epoch(record_meshes *m, uint64_t epoch) {
    if (m->epoch != epoch) m->n_known = m->n_registering = 0;
    m->epoch = epoch;
}

/* Where there is no memory for it, the mesh is fetched again, which does no harm. */
static void note_known(record_meshes *m, uint64_t mesh) {
    if (grow(&m->known, m->n_known, &m->room_known, sizeof *m->known)) m->known[m->n_known++] = mesh;
}

static void note_registering(record_meshes *m, uint32_t client, uint64_t request) {
    if (grow(&m->registering, m->n_registering, &m->room_registering, sizeof *m->registering))
        m->registering[m->n_registering++] = (record_request){client, request};
}

/* Whether the answer is that to a RegisterMesh, which is in the recording with its mesh. */
static bool take_registering(record_meshes *m, uint32_t client, uint64_t request) {
    for (size_t i = 0; i < m->n_registering; i++) {
        if (m->registering[i].client != client || m->registering[i].request != request) continue;
        m->registering[i] = m->registering[--m->n_registering];
        return true;
    }
    return false;
}

/* ---- asking the server ---- */

static bool send_request(record_meshes *m, const wire_message *request) {
    wire_encoded encoded;
    return wire_encode(m->encoder, request, WIRE_INLINE_BYTES, &encoded) && encoded.n_frames == 1 &&
           zmq_send(m->socket, encoded.frames[0].data, encoded.frames[0].size, 0) >= 0;
}

/* Waits for the answer; a message says why there is none. *frames is to be closed after true. */
static bool ask(record_meshes *m, wire_message *request, wire_message *answer, ctl_frames *frames) {
    wire_frame views[1 + WIRE_MAX_FRAMES];
    wire_fault fault;
    struct timespec now, end;
    request->request = ++m->last_request;
    bool sent = send_request(m, request);
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += m->ctl->timeout_ms / 1000 + 1;
    while (sent) {
        zmq_pollitem_t item = {.socket = m->socket, .events = ZMQ_POLLIN};
        zmq_poll(&item, 1, 100);
        if (ctl_receive(m->socket, frames)) {
            if (wire_decode(views, ctl_view_frames(frames, views), m->scratch, answer, &fault) &&
                answer->request == request->request)
                return true;
            ctl_close_frames(frames);
        }
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_sec > end.tv_sec) break;
    }
    return false;
}

/* A session for one question: the last one's may have ended. */
static bool say_hello(record_meshes *m, uint64_t *session, uint64_t *epoch) {
    ctl_frames frames;
    wire_message answer,
        hello = {.type = WIRE_HELLO, .u.hello = {WIRE_VERSION, WIRE_VERSION, "contactctl record", 1000}};
    if (!m->socket) m->socket = ctl_socket(m->ctl, m->context);
    if (!m->socket || !ask(m, &hello, &answer, &frames)) return false;
    *session = answer.u.welcome.session;
    *epoch = answer.u.welcome.epoch;
    bool is_welcome = answer.type == WIRE_WELCOME;
    ctl_close_frames(&frames);
    return is_welcome;
}

static bool fetch(record_meshes *m, uint64_t mesh, ctl_frames *out) {
    wire_message answer,
        question = {.type = WIRE_GET_MESH, .u.get_mesh = {.mesh = mesh, .with_geometry = true, .takes_doubles = true}};
    note_known(m, mesh); /* also where it cannot be had: it is not asked for again and again */
    bool is_answered = say_hello(m, &question.session, &question.epoch) && ask(m, &question, &answer, out);
    if (is_answered && answer.type == WIRE_MESH_GEOMETRY && !answer.u.mesh_geometry.info.closing_vertices) return true;
    ctl_say("record: mesh %llu was registered before the recording began, and the recording lacks it: %s",
            (unsigned long long)mesh,
            !is_answered                        ? "the server did not answer"
            : answer.type == WIRE_MESH_GEOMETRY ? "it is an open surface"
            : answer.type == WIRE_ERROR         ? answer.u.error.message
                                                : "the server's answer could not be understood");
    if (is_answered) ctl_close_frames(out);
    return false;
}

/* The mesh that the message makes known, or uses; 0: none. */
static uint64_t mesh_of(record_meshes *m, direction direction, uint32_t client, const ctl_frames *message) {
    wire_frame views[1 + WIRE_MAX_FRAMES];
    wire_message seen;
    wire_fault fault;
    const size_t n = ctl_view_frames(message, views);
    if (!wire_decode_envelope(views, n, m->scratch, &seen, &fault)) return 0;
    const bool is_request = direction == TO_SERVER;
    if (is_request && seen.type == WIRE_REGISTER_MESH) note_registering(m, client, seen.request);
    const bool uses = is_request && (seen.type == WIRE_ADD_BODY || seen.type == WIRE_REPLACE_MESH);
    const bool tells = !is_request && (seen.type == WIRE_MESH_INFO || seen.type == WIRE_WELCOME);
    if ((!uses && !tells) || !wire_decode_body(views, n, m->scratch, &seen, &fault)) return 0;
    if (seen.type == WIRE_WELCOME) {
        note_epoch(m, seen.u.welcome.epoch);
        return 0;
    }
    if (seen.type == WIRE_ADD_BODY) return seen.u.add_body.mesh;
    if (seen.type == WIRE_REPLACE_MESH) return seen.u.replace_mesh.mesh;
    const uint64_t mesh = seen.u.mesh_info.mesh;
    if (take_registering(m, client, seen.request) && !is_known(m, mesh)) note_known(m, mesh);
    return mesh;
}

bool record_meshes_fetch(record_meshes *m, direction direction, uint32_t client, const ctl_frames *message,
                         ctl_frames *out) {
    const uint64_t mesh = mesh_of(m, direction, client, message);
    return mesh && !is_known(m, mesh) && fetch(m, mesh, out);
}

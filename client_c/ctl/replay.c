/* replay.c - contactctl replay: sends the requests of a recording to a server, one after the other, and compares the
 * answers with the recorded ones bit by bit.
 *
 * Sessions and handles are the server's own, so requests get this server's. Questions (lists, status, pictures), and
 * what would end or change more than the recorded sessions' own scenes (RemoveMesh, Drain), are left out; so is what
 * the recorded server refused for the moment, or never answered. Meshes that were registered before the recording began
 * are registered from what the recorder fetched, unless the server has them. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zmq.h>

#include "client_c/ctl/progress.h"
#include "client_c/ctl/recording.h"
#include "client_c/ctl/replay_compare.h"
#include "client_c/ctl/report.h"
#include "client_c/ctl/sockets.h"

enum { SCRATCHES = 4 };

typedef struct handle_pair {
    uint64_t recorded, now;
} handle_pair;
typedef struct handle_map {
    handle_pair *pairs;
    size_t n, room;
} handle_map;

typedef struct fetched_mesh {
    uint64_t recorded; /* its handle */
    size_t message;
} fetched_mesh;

typedef struct replayed_client {
    uint32_t number;
    void *socket;
    uint64_t session, epoch;
} replayed_client;

typedef struct replay {
    ctl *ctl;
    recording recording;
    bool *is_used; /* [recording.n] answers that were compared */
    json_t *server;
    void *context;
    replayed_client *clients;
    size_t n_clients, room_clients;
    handle_map scenes, meshes;
    uint64_t recorded_epoch; /* of the server that their recorded handles are of */
    fetched_mesh *fetched;
    size_t n_fetched, room_fetched;
    wire_encoder *encoder;
    wire_scratch *scratch[SCRATCHES]; /* of the request, the recorded answer, this server's answer, a fetched mesh */
    ctl_frames incoming;
    uint64_t requests, steps, different, skipped, timed;
    char first[400]; /* difference */
} replay;

static bool grow(void *array, size_t n, size_t *room, size_t element) {
    void *old, *grown;
    if (n < *room) return true;
    memcpy(&old, array, sizeof old);
    grown = realloc(old, (*room ? 2 * *room : 16) * element);
    if (!grown) return false;
    *room = *room ? 2 * *room : 16;
    memcpy(array, &grown, sizeof grown);
    return true;
}

/* ---- handles ---- */

static bool note_handle(handle_map *map, uint64_t recorded, uint64_t now) {
    for (size_t i = 0; i < map->n; i++) {
        if (map->pairs[i].recorded != recorded) continue;
        map->pairs[i].now = now;
        return true;
    }
    if (!grow(&map->pairs, map->n, &map->room, sizeof *map->pairs)) return false;
    map->pairs[map->n++] = (handle_pair){recorded, now};
    return true;
}

/* False: it is not known. */
static bool map_handle(const handle_map *map, uint64_t *handle) {
    for (size_t i = map->n; i-- > 0;) {
        if (map->pairs[i].recorded != *handle) continue;
        *handle = map->pairs[i].now;
        return true;
    }
    return false;
}

/* ---- requests ---- */

static uint64_t *scene_of(wire_message *m) {
    switch (m->type) {
    case WIRE_CONFIGURE:
        return &m->u.configure.scene;
    case WIRE_CLOSE_SCENE:
        return &m->u.close_scene.scene;
    case WIRE_ADD_BODY:
        return &m->u.add_body.scene;
    case WIRE_REMOVE_BODY:
        return &m->u.remove_body.scene;
    case WIRE_REPLACE_MESH:
        return &m->u.replace_mesh.scene;
    case WIRE_SET_MATERIAL:
        return &m->u.set_material.scene;
    case WIRE_STEP:
        return &m->u.step.scene;
    case WIRE_COPY_SCENE:
        return &m->u.copy_scene.scene;
    case WIRE_ADD_BODIES:
        return &m->u.add_bodies.scene;
    default:
        return NULL;
    }
}

static uint64_t *mesh_of(wire_message *m) {
    uint64_t *mesh = m->type == WIRE_ADD_BODY       ? &m->u.add_body.mesh
                     : m->type == WIRE_REPLACE_MESH ? &m->u.replace_mesh.mesh
                     : m->type == WIRE_GET_MESH     ? &m->u.get_mesh.mesh
                                                    : NULL;
    return mesh && *mesh ? mesh : NULL;
}

static bool is_replayed(wire_type type) {
    return type == WIRE_HELLO || type == WIRE_REGISTER_MESH || type == WIRE_GET_MESH || type == WIRE_OPEN_SCENE ||
           type == WIRE_CONFIGURE || type == WIRE_CLOSE_SCENE || type == WIRE_ADD_BODY || type == WIRE_REMOVE_BODY ||
           type == WIRE_REPLACE_MESH || type == WIRE_SET_MATERIAL || type == WIRE_STEP || type == WIRE_STEP_MANY ||
           type == WIRE_RESET_SCENES || type == WIRE_CLOSE_SCENES || type == WIRE_COPY_SCENE || type == WIRE_ADD_BODIES;
}

/* Nothing was done for the request, and a client would send it again. */
static bool was_put_off(const wire_message *answer) {
    if (answer->type != WIRE_ERROR) return false;
    switch (answer->u.error.code) {
    case CONTACTD_BUSY:
    case CONTACTD_SHUTTING_DOWN:
    case CONTACTD_STATE_LOST:
    case CONTACTD_OUT_OF_MEMORY:
    case CONTACTD_DEVICE_ERROR:
        return true;
    default:
        return false;
    }
}

static bool was_any_timed(const wire_many_result *answer) {
    for (uint32_t i = 0; i < answer->n_errors; i++) {
        if (answer->errors[i].error.code == CONTACTD_DEADLINE_EXCEEDED) return true;
    }
    return answer->n && memchr(answer->ended, WIRE_ENDED_TIME, answer->n);
}

/* Depends on how fast the server was. */
static bool was_timed(const wire_message *request, const wire_message *answer) {
    if (answer->type == WIRE_MANY_RESULT) return was_any_timed(&answer->u.many_result);
    if (request->type != WIRE_STEP) return false;
    if (answer->type == WIRE_ERROR) return answer->u.error.code == CONTACTD_DEADLINE_EXCEEDED;
    /* What voxtree refines in the time left depends on it too, without ending for want of time. */
    const bool is_refined = request->u.step.time_budget_us && answer->u.step_result.settings.to.refine == 1;
    return is_refined || answer->u.step_result.ended == WIRE_ENDED_TIME;
}

static bool translate_list(const handle_map *map, const uint64_t *list, uint32_t n) {
    uint64_t *handles = (uint64_t *)(uintptr_t)list; /* in the decoder's scratch */
    for (uint32_t i = 0; i < n; i++) {
        if (!map_handle(map, &handles[i])) return false;
    }
    return true;
}

/* As OpenScene's: no stored settings. */
static void drop_keys(wire_copy_scene *m) {
    uint64_t *keys = (uint64_t *)(uintptr_t)m->keys;
    for (uint32_t i = 0; i < m->n; i++) keys[i] = 0;
}

/* With this server's numbers. False: it is about something that this server does not have. */
static bool translate(const replay *r, const replayed_client *client, wire_message *m) {
    uint64_t *scene = scene_of(m), *mesh = mesh_of(m);
    if (m->type != WIRE_HELLO) {
        m->session = client->session;
        m->epoch = client->epoch;
    }
    m->traceparent = NULL;
    if (m->type == WIRE_STEP_MANY) {
        m->u.step_many.deadline_us = 0;
        return translate_list(&r->scenes, m->u.step_many.scenes, m->u.step_many.n);
    }
    if (m->type == WIRE_RESET_SCENES) return translate_list(&r->scenes, m->u.reset_scenes.scenes, m->u.reset_scenes.n);
    if (m->type == WIRE_CLOSE_SCENES) return translate_list(&r->scenes, m->u.close_scenes.scenes, m->u.close_scenes.n);
    if (m->type == WIRE_ADD_BODIES && !translate_list(&r->meshes, m->u.add_bodies.meshes, m->u.add_bodies.n_meshes))
        return false;
    if (m->type == WIRE_COPY_SCENE) drop_keys(&m->u.copy_scene);
    if (m->type == WIRE_STEP) m->u.step.deadline_us = m->u.step.time_budget_us = 0;
    if (m->type == WIRE_OPEN_SCENE) m->u.open_scene.key = m->u.open_scene.revision = 0; /* no stored settings */
    return (!scene || map_handle(&r->scenes, scene)) && (!mesh || map_handle(&r->meshes, mesh));
}

/* ---- the server ---- */

static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int unanswered(const replay *r, const wire_message *request) {
    ctl_say("replay: UNREACHABLE: %s did not answer %s within %u ms", r->ctl->server, wire_type_name(request->type),
            r->ctl->timeout_ms);
    return EXIT_UNREACHABLE;
}

static bool send_request(replay *r, const replayed_client *client, const wire_message *m) {
    wire_encoded encoded;
    if (!wire_encode(r->encoder, m, WIRE_INLINE_BYTES, &encoded)) return false;
    for (size_t i = 0; i < encoded.n_frames; i++) {
        const int more = i + 1 < encoded.n_frames ? ZMQ_SNDMORE : 0;
        if (zmq_send(client->socket, encoded.frames[i].data, encoded.frames[i].size, more) < 0) return false;
    }
    return true;
}

/* An exit code; after EXIT_OK the answer is valid until the next. */
static int receive_answer(replay *r, const replayed_client *client, const wire_message *request, int64_t until,
                          wire_message *answer) {
    wire_frame frames[1 + WIRE_MAX_FRAMES];
    wire_fault fault;
    for (;;) {
        const int64_t left = until - now_ms();
        zmq_pollitem_t item = {.socket = client->socket, .events = ZMQ_POLLIN};
        if (left <= 0) return unanswered(r, request);
        zmq_poll(&item, 1, left);
        ctl_close_frames(&r->incoming);
        if (!ctl_receive(client->socket, &r->incoming)) continue;
        if (!wire_decode(frames, ctl_view_frames(&r->incoming, frames), r->scratch[2], answer, &fault)) {
            ctl_say("replay: an answer cannot be read: %s", fault.message);
            return EXIT_SERVER;
        }
        if (answer->request == request->request) return EXIT_OK;
    }
}

static void pause_ms(uint32_t ms) {
    const struct timespec wait = {ms / 1000, (long)(ms % 1000) * 1000000};
    nanosleep(&wait, NULL);
}

/* Until the server takes it. */
static int ask(replay *r, const replayed_client *client, const wire_message *request, wire_message *answer) {
    const int64_t until = now_ms() + r->ctl->timeout_ms;
    for (;;) {
        if (!send_request(r, client, request))
            return ctl_mistake("no memory to send %s", wire_type_name(request->type));
        int code = receive_answer(r, client, request, until, answer);
        if (code != EXIT_OK) return code;
        if (answer->type != WIRE_ERROR || answer->u.error.code != CONTACTD_BUSY) return EXIT_OK;
        pause_ms(answer->u.error.retry_after_ms ? answer->u.error.retry_after_ms : 20);
    }
}

static replayed_client *find_client(replay *r, uint32_t number) {
    for (size_t i = 0; i < r->n_clients; i++)
        if (r->clients[i].number == number) return &r->clients[i];
    if (!grow(&r->clients, r->n_clients, &r->room_clients, sizeof *r->clients)) return NULL;
    void *socket = ctl_socket(r->ctl, r->context);
    if (!socket) return NULL;
    r->clients[r->n_clients] = (replayed_client){.number = number, .socket = socket};
    return &r->clients[r->n_clients++];
}

/* ---- one request ---- */

/* The message that answers request i, or NULL. */
static const recorded *find_answer(replay *r, size_t i, size_t *at) {
    const recorded *request = &r->recording.messages[i];
    for (size_t j = i + 1; j < r->recording.n; j++) {
        const recorded *m = &r->recording.messages[j];
        if (m->direction != TO_CLIENT || m->client != request->client) continue;
        if (m->envelope.request != request->envelope.request || r->is_used[j]) continue;
        *at = j;
        return m;
    }
    return NULL;
}

/* Notes what this server calls what the recorded one called otherwise. */
static bool note_answer(replay *r, replayed_client *client, const wire_message *recorded, const wire_message *now) {
    if (recorded->type != now->type) return true;
    switch (now->type) {
    case WIRE_WELCOME:
        client->session = now->u.welcome.session;
        client->epoch = now->u.welcome.epoch;
        if (recorded->u.welcome.epoch != r->recorded_epoch) r->scenes.n = r->meshes.n = 0; /* it had started anew */
        r->recorded_epoch = recorded->u.welcome.epoch;
        return true;
    case WIRE_MESH_INFO:
        return note_handle(&r->meshes, recorded->u.mesh_info.mesh, now->u.mesh_info.mesh);
    case WIRE_SCENE_INFO:
        return note_handle(&r->scenes, recorded->u.scene_info.scene, now->u.scene_info.scene);
    case WIRE_SCENES_OPENED:
        for (uint32_t i = 0; i < recorded->u.scenes_opened.n && i < now->u.scenes_opened.n; i++) {
            if (!note_handle(&r->scenes, recorded->u.scenes_opened.scenes[i], now->u.scenes_opened.scenes[i]))
                return false;
        }
        return true;
    default:
        return true;
    }
}

static void note_difference(replay *r, size_t i, const wire_message *request, const char *what) {
    char step[64] = "";
    if (request->type == WIRE_STEP) snprintf(step, sizeof step, " %llu", (unsigned long long)request->u.step.sequence);
    if (r->different++ == 0)
        snprintf(r->first, sizeof r->first, "message %zu, %s%s of client %u: %s", i + 1, wire_type_name(request->type),
                 step, r->recording.messages[i].client, what);
}

/* ---- meshes that were registered before the recording began ---- */

/* False: out of memory. */
static bool find_fetched(replay *r) {
    wire_message m;
    wire_fault fault;
    for (size_t i = 0; i < r->recording.n; i++) {
        const recorded *at = &r->recording.messages[i];
        if (at->client != RECORDER || !wire_decode(at->frames, at->n_frames, r->scratch[3], &m, &fault)) continue;
        if (m.type != WIRE_MESH_GEOMETRY) continue;
        if (!grow(&r->fetched, r->n_fetched, &r->room_fetched, sizeof *r->fetched)) return false;
        r->fetched[r->n_fetched++] = (fetched_mesh){m.u.mesh_geometry.info.mesh, i};
    }
    return true;
}

/* Its triangles come in the order of the server that had it, not in that of the upload: the hash is another, and the
 * sums over them may be rounded otherwise. Answers to steps do not depend on that order. */
static void take_order_of(const wire_mesh_info *from, wire_mesh_info *to) {
    to->hash = from->hash;
    to->volume = from->volume;
    to->area = from->area;
}

/* The last one that was fetched before that message, as a server that started anew has other meshes of the same handle.
 * NULL: none was. */
static const fetched_mesh *fetched_before(const replay *r, uint64_t mesh, size_t message) {
    for (size_t i = r->n_fetched; i-- > 0;)
        if (r->fetched[i].recorded == mesh && r->fetched[i].message < message) return &r->fetched[i];
    return NULL;
}

/* Registers it with this server, if the recording has it: then answer->type is WIRE_MESH_INFO. An exit code. */
static int give_mesh(replay *r, const replayed_client *client, uint64_t mesh, size_t message, wire_message *answer) {
    wire_message m;
    wire_fault fault;
    const fetched_mesh *fetched = fetched_before(r, mesh, message);
    if (!fetched) return EXIT_OK;
    const recorded *at = &r->recording.messages[fetched->message];
    if (!wire_decode(at->frames, at->n_frames, r->scratch[3], &m, &fault)) return EXIT_OK;
    const wire_mesh_geometry *from = &m.u.mesh_geometry;
    const wire_message request = {
        .type = WIRE_REGISTER_MESH,
        .request = UINT64_MAX - fetched->message, /* the recorded ones count from 1 */
        .session = client->session,
        .epoch = client->epoch,
        .u.register_mesh = {.name = from->info.name, .vertices = from->vertices, .triangles = from->triangles}};
    int code = ask(r, client, &request, answer);
    if (code != EXIT_OK || answer->type == WIRE_MESH_INFO) return code;
    ctl_say("replay: %s does not take mesh %s of the recording: %s", r->ctl->server, from->info.hash,
            answer->type == WIRE_ERROR ? answer->u.error.message : wire_type_name(answer->type));
    return EXIT_REFUSED;
}

/* Before a request that uses a mesh by a handle which only the recorder's fetch explains. An exit code. */
static int give_used_mesh(replay *r, const replayed_client *client, size_t message, wire_message *request) {
    const uint64_t *mesh = mesh_of(request);
    wire_message answer = {.type = WIRE_NO_BODY};
    if (!mesh || map_handle(&r->meshes, &(uint64_t){*mesh})) return EXIT_OK;
    int code = give_mesh(r, client, *mesh, message, &answer);
    if (code != EXIT_OK || answer.type != WIRE_MESH_INFO) return code;
    return note_handle(&r->meshes, *mesh, answer.u.mesh_info.mesh) ? EXIT_OK : ctl_mistake("out of memory");
}

/* This server does not have a mesh that the recorded one had. */
static bool is_missing(const wire_message *request, const wire_message *recorded, const wire_message *now) {
    return request->type == WIRE_GET_MESH && recorded->type == WIRE_MESH_INFO && now->type == WIRE_ERROR;
}

static int replay_request(replay *r, size_t i) {
    const recorded *m = &r->recording.messages[i];
    wire_message request, recorded, now;
    wire_fault fault;
    char what[256];
    size_t at;
    if (!wire_decode(m->frames, m->n_frames, r->scratch[0], &request, &fault) || !is_replayed(request.type)) {
        r->skipped++;
        return EXIT_OK;
    }
    const struct recorded *answer = find_answer(r, i, &at);
    if (!answer || !wire_decode(answer->frames, answer->n_frames, r->scratch[1], &recorded, &fault) ||
        was_put_off(&recorded)) {
        r->skipped++;
        return EXIT_OK;
    }
    r->is_used[at] = true;
    replayed_client *client = find_client(r, m->client);
    if (!client) return EXIT_UNREACHABLE;
    const bool is_timed = was_timed(&request, &recorded);
    int code = give_used_mesh(r, client, i, &request);
    if (code != EXIT_OK) return code;
    if (!translate(r, client, &request)) {
        note_difference(r, i, &request, "it is about a scene or mesh that this server could not be given");
        return EXIT_OK;
    }
    code = ask(r, client, &request, &now);
    if (code == EXIT_OK && is_missing(&request, &recorded, &now))
        code = give_mesh(r, client, recorded.u.mesh_info.mesh, at, &now);
    if (code != EXIT_OK) return code;
    r->requests++;
    r->steps += request.type == WIRE_STEP_MANY ? request.u.step_many.n : request.type == WIRE_STEP;
    if (is_missing(&request, &recorded, &now)) {
        ctl_say("replay: the mesh %s was on the server before the recording began, and the recording does not have it: "
                "add it to %s first (contactctl mesh add)",
                recorded.u.mesh_info.hash, r->ctl->server);
        return EXIT_REFUSED;
    }
    if (!note_answer(r, client, &recorded, &now)) return ctl_mistake("out of memory");
    if (is_timed) {
        r->timed++;
        return EXIT_OK;
    }
    if (now.type == WIRE_MESH_INFO && recorded.type == WIRE_MESH_INFO &&
        fetched_before(r, recorded.u.mesh_info.mesh, at))
        take_order_of(&now.u.mesh_info, &recorded.u.mesh_info);
    const bool is_found_now = request.type == WIRE_GET_MESH && recorded.type == WIRE_ERROR;
    if (!is_found_now && !replay_agree(&recorded, &now, what, sizeof what)) note_difference(r, i, &request, what);
    return EXIT_OK;
}

/* ---- all of it ---- */

static int check_build(const replay *r) {
    static const char *const keys[] = {"server", "build"};
    const json_t *then = r->recording.header;
    if (json_integer_value(json_object_get(then, "protocol")) != WIRE_VERSION) {
        ctl_say("%s was recorded with protocol %lld, this contactctl speaks %d", r->ctl->args[0],
                (long long)json_integer_value(json_object_get(then, "protocol")), WIRE_VERSION);
        return EXIT_REFUSED;
    }
    bool same = true;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(ctl_text_of(then, keys[i]), ctl_text_of(r->server, keys[i])) != 0) same = false;
    if (same || r->ctl->options[OPT_ANY_BUILD]) return EXIT_OK;
    ctl_say("%s was recorded from %s, build %s, but %s runs %s, build %s: replay it against that build, or compare all "
            "the same with --any-build",
            r->ctl->args[0], ctl_text_of(then, "server"), ctl_text_of(then, "build"), r->ctl->server,
            ctl_text_of(r->server, "server"), ctl_text_of(r->server, "build"));
    return EXIT_REFUSED;
}

static void put_outcome(const replay *r) {
    if (r->ctl->json) {
        json_open(NULL, '{');
        json_text("file", r->ctl->args[0]);
        json_text("recorded_server", ctl_text_of(r->recording.header, "server"));
        json_text("recorded_build", ctl_text_of(r->recording.header, "build"));
        json_text("server", ctl_text_of(r->server, "server"));
        json_text("build", ctl_text_of(r->server, "build"));
        json_count("requests", r->requests);
        json_count("steps", r->steps);
        json_count("different", r->different);
        json_text("first_difference", r->first);
        json_count("timed", r->timed);
        json_count("skipped", r->skipped);
        json_bool("cut", r->recording.is_cut);
        json_close('}');
        return;
    }
    printf("%llu requests, %llu of them steps: %llu answers differ\n", (unsigned long long)r->requests,
           (unsigned long long)r->steps, (unsigned long long)r->different);
    if (r->different) printf("first: %s\n", r->first);
    if (r->timed)
        printf("%llu steps had run out of time when they were recorded, and were not compared\n",
               (unsigned long long)r->timed);
    if (r->skipped)
        printf("%llu requests were left out: questions, repeats, and what was refused for the moment\n",
               (unsigned long long)r->skipped);
    if (r->recording.is_cut) puts("the recording ends within a message, which was left out");
}

static void free_replay(replay *r) {
    ctl_close_frames(&r->incoming);
    for (size_t i = 0; i < r->n_clients; i++) zmq_close(r->clients[i].socket);
    if (r->context) zmq_ctx_term(r->context);
    free(r->clients);
    free(r->scenes.pairs);
    free(r->meshes.pairs);
    free(r->is_used);
    free(r->fetched);
    for (size_t i = 0; i < SCRATCHES; i++) wire_scratch_free(&r->scratch[i]);
    wire_encoder_free(&r->encoder);
    json_decref(r->server);
    recording_free(&r->recording);
}

static bool allocate(replay *r) {
    r->context = zmq_ctx_new();
    r->encoder = wire_encoder_new();
    r->is_used = calloc(r->recording.n + 1, sizeof *r->is_used);
    bool has_scratch = true;
    for (size_t i = 0; i < SCRATCHES; i++) has_scratch = (r->scratch[i] = wire_scratch_new()) && has_scratch;
    return r->context && r->encoder && r->is_used && has_scratch && find_fetched(r);
}

int ctl_replay(ctl *ctl) {
    replay r = {.ctl = ctl};
    if (!ctl_is_one_address(ctl)) return ctl_mistake("replay asks one server: --server is \"%s\"", ctl->server);
    progress_begin(PROGRESS_WAITS, 0, "reading %s", ctl->args[0]);
    int code = recording_read(ctl->args[0], &r.recording);
    progress_end();
    if (code == EXIT_OK) code = recording_describe(ctl, "replay", &r.server);
    if (code == EXIT_OK) code = check_build(&r);
    if (code == EXIT_OK && !allocate(&r)) code = ctl_mistake("out of memory");
    if (code == EXIT_OK) progress_begin(PROGRESS_COUNTS, r.recording.n, "replaying %s", ctl->args[0]);
    for (size_t i = 0; code == EXIT_OK && i < r.recording.n; i++) {
        if (r.recording.messages[i].direction == TO_SERVER) code = replay_request(&r, i);
        progress_reach(i + 1);
    }
    progress_end();
    if (code == EXIT_OK) {
        put_outcome(&r);
        if (r.different) code = EXIT_DIFFERENT;
    }
    free_replay(&r);
    return code;
}

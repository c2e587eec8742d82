/* The threads that talk to clients never do what takes long: while the workers that open scenes, read and free meshes
 * and draw pictures are held at a gate, and while the engine is, the stream's I/O thread and those of HTTP answer
 * everything else. Answers of one connection come in the order in which they were made, so an answer that overtakes
 * shows that work was not done where it was asked for, without any clock. */
#include <arpa/inet.h>
#include <math.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include "proto/codec.h"
#include "server/http/http.h"
#include "server/stream/stream.h"
#include "tests/unit/server/schedule/world.h"

enum {
    HELD = 8,      /* works that hold a kind: more than it has threads; with PICTURES fewer than may wait */
    PICTURES = 12, /* requests over HTTP: more than there are threads for HTTP, pictures and commands */
    HANGS_S = 120, /* a receive that waits for longer hangs */
};

typedef struct gate {
    atomic_bool shut;
    atomic_uint passed;
} gate;

typedef struct held {
    work work; /* first */
    gate *gate;
} held;

typedef struct bench { /* a service and one client of it */
    world *world;
    config config;
    guard *guard;
    workers *workers;
    _Atomic uint64_t io_seen_ns;
    service service;
    stream *stream;
    http_server *http;
    void *zmq, *socket;
    wire_encoder *encoder;
    wire_scratch *scratch;
    zmq_msg_t parts[1 + WIRE_MAX_FRAMES];
    size_t n_parts;
    uint64_t session, requests;
    uint64_t scene, mesh, unused_mesh;
    gate gate;
    held held[HELD];
} bench;

/* ---- gates ---- */

static void pass(gate *gate) {
    while (atomic_load(&gate->shut)) usleep(200);
    atomic_fetch_add(&gate->passed, 1);
}

static void run_held(work *work) {
    pass(((held *)work)->gate);
}

/* Until release(), no work of the kind that comes after this begins. */
static void hold(bench *bench, work_kind kind) {
    atomic_store(&bench->gate.passed, 0);
    atomic_store(&bench->gate.shut, true);
    for (int i = 0; i < HELD; i++) {
        bench->held[i] = (held){{.run = run_held}, &bench->gate};
        assert_int_equal(workers_add(bench->workers, kind, &(identity){0}, &bench->held[i].work), WORKERS_QUEUED);
    }
}

static void release(bench *bench) {
    atomic_store(&bench->gate.shut, false);
    while (atomic_load(&bench->gate.passed) < HELD) usleep(200);
}

static ct_method_run *real_run;
static gate engine_gate;

static void gated_run(ct_device *device, ct_step *steps, size_t n_steps) {
    pass(&engine_gate);
    real_run(device, steps, n_steps);
}

/* ---- the stream's client ---- */

static uint64_t post(bench *bench, wire_type type, wire_message *message) {
    wire_encoded encoded;
    message->type = type;
    message->request = ++bench->requests;
    message->session = bench->session;
    message->epoch = bench->session ? bench->service.epoch : 0;
    assert_true(wire_encode(bench->encoder, message, WIRE_INLINE_BYTES, &encoded));
    for (size_t i = 0; i < encoded.n_frames; i++) {
        int more = i + 1 < encoded.n_frames ? ZMQ_SNDMORE : 0;
        assert_int_equal(zmq_send(bench->socket, encoded.frames[i].data, encoded.frames[i].size, more),
                         (int)encoded.frames[i].size);
    }
    return message->request;
}

static void drop_parts(bench *bench) {
    while (bench->n_parts) zmq_msg_close(&bench->parts[--bench->n_parts]);
}

/* The next answer, whatever request it is for. Valid until the next call. */
static wire_message next_answer(bench *bench) {
    wire_frame frames[1 + WIRE_MAX_FRAMES];
    wire_message message;
    wire_fault fault = {0};
    drop_parts(bench);
    do {
        zmq_msg_t *part = &bench->parts[bench->n_parts];
        zmq_msg_init(part);
        if (zmq_msg_recv(part, bench->socket, 0) < 0) fail_msg("no answer in %d s", HANGS_S);
        frames[bench->n_parts++] = (wire_frame){zmq_msg_data(part), zmq_msg_size(part)};
    } while (zmq_msg_more(&bench->parts[bench->n_parts - 1]));
    if (!wire_decode(frames, bench->n_parts, bench->scratch, &message, &fault)) fail_msg("%s", fault.message);
    if (message.type == WIRE_ERROR) fail_msg("%s: %s", message.u.error.object, message.u.error.message);
    return message;
}

static wire_message expect_answer(bench *bench, uint64_t request, wire_type type) {
    wire_message answer = next_answer(bench);
    assert_int_equal(answer.request, request);
    assert_int_equal(answer.type, type);
    return answer;
}

static wire_message ask(bench *bench, wire_type type, wire_message *message, wire_type answer) {
    return expect_answer(bench, post(bench, type, message), answer);
}

static uint64_t post_mesh(bench *bench, double size) {
    struct shape box = shape_box(size, 1, 1);
    wire_message message = {.u.register_mesh = {
                                .vertices = {WIRE_F32, 3 * box.n_vertices, box.positions},
                                .triangles = {WIRE_U32, 3 * box.n_triangles, box.triangles},
                                .name = "box",
                            }};
    uint64_t request = post(bench, WIRE_REGISTER_MESH, &message);
    shape_free(&box);
    return request;
}

static wire_step step_of(uint64_t scene, uint64_t sequence) {
    return (wire_step){.scene = scene, .sequence = sequence};
}

static uint64_t open_boxes(bench *bench) {
    uint64_t scene = ask(bench, WIRE_OPEN_SCENE, &(wire_message){0}, WIRE_SCENE_INFO).u.scene_info.scene;
    for (int i = 0; i < 2; i++) {
        wire_message add = {
            .u.add_body = {
                .scene = scene, .mesh = bench->mesh, .group = 1, .mask = UINT32_MAX, .material = CT_MATERIAL_NONE}};
        add.u.add_body.kind = WIRE_BODY_RIGID;
        for (int k = 0; k < 3; k++) {
            add.u.add_body.pose[5 * k] = 1;
            add.u.add_body.pose[4 * k + 3] = 0.3 * i;
        }
        memcpy(add.u.add_body.start, add.u.add_body.pose, sizeof add.u.add_body.start);
        ask(bench, WIRE_ADD_BODY, &add, WIRE_BODY_ADDED);
    }
    return scene;
}

/* ---- set-up ---- */

static void connect_stream(bench *bench) {
    const int patience = HANGS_S * 1000, none = 0;
    bench->zmq = zmq_ctx_new();
    bench->socket = zmq_socket(bench->zmq, ZMQ_DEALER);
    bench->encoder = wire_encoder_new();
    bench->scratch = wire_scratch_new();
    zmq_setsockopt(bench->socket, ZMQ_RCVTIMEO, &patience, sizeof patience);
    zmq_setsockopt(bench->socket, ZMQ_LINGER, &none, sizeof none);
    assert_int_equal(zmq_connect(bench->socket, stream_endpoint(bench->stream, 0)), 0);
    wire_message hello = {
        .u.hello = {.version = WIRE_VERSION, .min_version = WIRE_VERSION, .client = "test", .lease_ms = 3600000}};
    bench->session = ask(bench, WIRE_HELLO, &hello, WIRE_WELCOME).u.welcome.session;
}

static int setup(void **state) {
    static char *argv[] = {"contactd",          "--http",    "127.0.0.1:0", "--stream",
                           "tcp://127.0.0.1:*", "--spin-us", "0",           NULL};
    static char *no_environment[] = {NULL};
    char message[256];
    server_error error = {0};
    bench *bench = calloc(1, sizeof *bench);
    world *world = bench->world = world_new();
    real_run = world->engine->run[0];
    world->engine->run[0] = gated_run;
    world_start(world, 64, 32, 0);
    if (config_load(&bench->config, 7, argv, no_environment, UINT64_C(1) << 32, message, sizeof message) != CONFIG_RUN)
        fail_msg("%s", message);
    assert_true(guard_open(&bench->guard, "", &error));
    bench->workers = workers_start(0);
    assert_non_null(bench->workers);
    bench->service = (service){.config = &bench->config,
                               .engine = world->engine,
                               .metrics = world->metrics,
                               .registry = world->registry,
                               .scheduler = world->scheduler,
                               .guard = bench->guard,
                               .workers = bench->workers,
                               .io_seen_ns = &bench->io_seen_ns,
                               .epoch = 77,
                               .stream_connections = 64,
                               .http_connections = 64};
    bench->stream = stream_start(&bench->service, &error);
    if (!bench->stream) fail_msg("%s", error.message);
    if (!http_server_start(&bench->service, &bench->http, &error)) fail_msg("%s", error.message);
    connect_stream(bench);
    bench->mesh = expect_answer(bench, post_mesh(bench, 1), WIRE_MESH_INFO).u.mesh_info.mesh;
    bench->unused_mesh = expect_answer(bench, post_mesh(bench, 2), WIRE_MESH_INFO).u.mesh_info.mesh;
    bench->scene = open_boxes(bench);
    *state = bench;
    return 0;
}

static int teardown(void **state) {
    bench *bench = *state;
    atomic_store(&bench->gate.shut, false);
    atomic_store(&engine_gate.shut, false);
    drop_parts(bench);
    zmq_close(bench->socket);
    zmq_ctx_term(bench->zmq);
    wire_encoder_free(&bench->encoder);
    wire_scratch_free(&bench->scratch);
    assert_true(scheduler_drain(bench->world->scheduler, HANGS_S * 1000));
    http_server_stop(&bench->http);
    stream_stop(&bench->stream, 0);
    workers_stop(&bench->workers);
    guard_close(&bench->guard);
    config_free(&bench->config);
    world_free(bench->world);
    free(bench);
    return 0;
}

/* ---- the stream ---- */

typedef struct slow_request {
    const char *name;
    work_kind kind;
    wire_type answer;
} slow_request;

enum { OPENS, REMOVES, REGISTERS, DRAWS, SLOW_REQUESTS };
static const slow_request slow_requests[SLOW_REQUESTS] = {
    [OPENS] = {"opening a scene", WORK_SCENES, WIRE_SCENE_INFO},
    [REMOVES] = {"freeing a mesh", WORK_SCENES, WIRE_DONE},
    [REGISTERS] = {"reading a mesh", WORK_MESHES, WIRE_MESH_INFO},
    [DRAWS] = {"drawing a picture", WORK_PICTURES, WIRE_SNAPSHOT},
};

static uint64_t post_slow(bench *bench, int which) {
    wire_message message = {0};
    switch (which) {
    case OPENS:
        return post(bench, WIRE_OPEN_SCENE, &message);
    case REMOVES:
        message.u.remove_mesh.mesh = bench->unused_mesh;
        return post(bench, WIRE_REMOVE_MESH, &message);
    case REGISTERS:
        return post_mesh(bench, 3);
    default:
        message.u.get_snapshot = (wire_get_snapshot){
            .scene = bench->scene, .width = 64, .height = 64, .azimuth = 0, .elevation = 0, .zoom = 1};
        message.u.get_snapshot.field_of_view = 30;
        message.u.get_snapshot.opacity = 1;
        return post(bench, WIRE_GET_SNAPSHOT, &message);
    }
}

/* Behind the held request come a ping, and a step of the scene that a picture is of: both are answered, and so would
 * the held request have been, before them, by a thread that is not held. */
static void check_others_are_answered(bench *bench, uint64_t sequence) {
    for (int i = 0; i < 3; i++) {
        wire_message ping = {.u.ping = {.nonce = 5}};
        ask(bench, WIRE_PING, &ping, WIRE_PONG);
        wire_message step = {.u.step = step_of(bench->scene, sequence + (uint64_t)i)};
        wire_message result = ask(bench, WIRE_STEP, &step, WIRE_STEP_RESULT);
        assert_int_equal(result.u.step_result.n_contacts, 1);
    }
}

/* Slow requests of other kinds, of which there is a fresh worker. */
static void check_other_kinds(bench *bench, work_kind held) {
    for (int i = 0; i < SLOW_REQUESTS; i++) {
        if (slow_requests[i].kind == held || i == REMOVES) continue;
        expect_answer(bench, post_slow(bench, i), slow_requests[i].answer);
    }
}

static void the_stream_answers_beside_slow_work(void **state) {
    bench *bench = *state;
    for (int i = 0; i < SLOW_REQUESTS; i++) {
        print_message("held: %s\n", slow_requests[i].name);
        hold(bench, slow_requests[i].kind);
        uint64_t request = post_slow(bench, i);
        check_others_are_answered(bench, 1 + 3 * (uint64_t)i);
        check_other_kinds(bench, slow_requests[i].kind);
        release(bench);
        expect_answer(bench, request, slow_requests[i].answer);
    }
}

/* What the scheduler does by itself: steps and pictures hold its threads alone. */
static void the_stream_answers_while_the_engine_computes(void **state) {
    bench *bench = *state;
    wire_message finer = {.u.configure = {.scene = bench->scene}}; /* too long for the I/O thread */
    finer.u.configure.settings.given |= CT_GIVEN(CT_SETTING_RESOLUTION);
    for (int k = 0; k < 3; k++) finer.u.configure.settings.to.resolution[k] = 256;
    ask(bench, WIRE_CONFIGURE, &finer, WIRE_SCENE_INFO);
    atomic_store(&engine_gate.shut, true);
    wire_message step = {.u.step = step_of(bench->scene, 1)};
    uint64_t stepping = post(bench, WIRE_STEP, &step), drawing = post_slow(bench, DRAWS);
    for (int i = 0; i < 3; i++) {
        wire_message ping = {.u.ping = {.nonce = 6}};
        ask(bench, WIRE_PING, &ping, WIRE_PONG);
        expect_answer(bench, post_slow(bench, OPENS), WIRE_SCENE_INFO);
    }
    atomic_store(&engine_gate.shut, false);
    expect_answer(bench, stepping, WIRE_STEP_RESULT);
    expect_answer(bench, drawing, WIRE_SNAPSHOT);
}

/* ---- HTTP ---- */

static int http_send(const bench *bench, const char *method, const char *path, const char *body) {
    struct sockaddr_in to = {.sin_family = AF_INET};
    struct timeval patience = {.tv_sec = HANGS_S};
    char host[64], text[512];
    snprintf(host, sizeof host, "%s", http_server_address(bench->http));
    char *port = strchr(host, ':');
    to.sin_port = htons((uint16_t)strtoul(port + 1, NULL, 10));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    int n = snprintf(text, sizeof text,
                     "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Type: application/json\r\n"
                     "Content-Length: %zu\r\n\r\n%s",
                     method, path, host, strlen(body), body);
    assert_int_equal(write(fd, text, (size_t)n), n);
    return fd;
}

/* The answer's status; it must be whole. */
static int http_status(int fd) {
    char text[16];
    size_t n = 0;
    while (n < sizeof text - 1) {
        ssize_t got = read(fd, text + n, sizeof text - 1 - n);
        if (got <= 0) fail_msg("no answer over HTTP in %d s", HANGS_S);
        n += (size_t)got;
    }
    text[n] = 0;
    char rest[4096];
    ssize_t got;
    while ((got = read(fd, rest, sizeof rest)) > 0) {
    }
    assert_int_equal(got, 0);
    close(fd);
    return (int)strtol(text + strlen("HTTP/1.1 "), NULL, 10);
}

static void ask_for_pictures(const bench *bench, int fds[PICTURES]) {
    char path[96];
    snprintf(path, sizeof path, "/v1/scenes/%llu/snapshot.png?width=64&height=64", (unsigned long long)bench->scene);
    for (int i = 0; i < PICTURES; i++) fds[i] = http_send(bench, "GET", path, "");
}

static void check_http_answers(const bench *bench) {
    for (int i = 0; i < 4; i++) { /* more than libmicrohttpd has threads */
        assert_int_equal(http_status(http_send(bench, "GET", "/healthz", "")), 200);
        assert_int_equal(http_status(http_send(bench, "GET", "/v1/status", "")), 200);
        assert_int_equal(http_status(http_send(bench, "POST", "/v1/scenes", "{}")), 201);
    }
}

static void http_answers_beside_drawing(void **state) {
    bench *bench = *state;
    int fds[PICTURES];
    hold(bench, WORK_PICTURES);
    ask_for_pictures(bench, fds);
    check_http_answers(bench);
    release(bench);
    for (int i = 0; i < PICTURES; i++) assert_int_equal(http_status(fds[i]), 200);
}

/* Pictures that wait for the scheduler hold neither a thread of HTTP nor one that draws. */
static void http_pictures_wait_without_a_thread(void **state) {
    bench *bench = *state;
    int fds[PICTURES];
    scheduler_facts facts;
    atomic_store(&engine_gate.shut, true);
    ask_for_pictures(bench, fds);
    for (int waited_ms = 0;; waited_ms++) {
        scheduler_get_facts(bench->world->scheduler, &facts);
        if (facts.queue_depth >= PICTURES) break;
        if (waited_ms > HANGS_S * 1000) fail_msg("%u of %d pictures are queued", facts.queue_depth, PICTURES);
        usleep(1000);
    }
    check_http_answers(bench);
    hold(bench, WORK_PICTURES);
    release(bench); /* returns when so many works of that kind have run */
    hold(bench, WORK_COMMANDS);
    release(bench);
    atomic_store(&engine_gate.shut, false);
    for (int i = 0; i < PICTURES; i++) assert_int_equal(http_status(fds[i]), 200);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_stream_answers_beside_slow_work, setup, teardown),
        cmocka_unit_test_setup_teardown(the_stream_answers_while_the_engine_computes, setup, teardown),
        cmocka_unit_test_setup_teardown(http_answers_beside_drawing, setup, teardown),
        cmocka_unit_test_setup_teardown(http_pictures_wait_without_a_thread, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

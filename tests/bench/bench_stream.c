/* bench_stream.c - times a running contactd over its stream with the C client, and weighs its memory.
 *
 *   bench_stream ENDPOINT SERVER_PID SERVER_SPIN_US SECONDS [CLIENT_SPIN_US]
 *
 * One JSON object a line: the round trip of a small step and of a ping, and of messages of the same sizes through a
 * bare ZeroMQ echo (what the machine and the transport cost), steps kept in flight, and the bytes that a registered
 * triangle takes in the server, its body's resident positions included. SERVER_SPIN_US says how the server was started,
 * so that the echo waits like it.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "client_c/contactd.h"
#include "tests/bench/echo.h"
#include "tests/bench/samples.h"
#include "tests/scenes/shapes.h"

enum { WARM_UP = 500, IN_FLIGHT = 16, MESHES = 12 };

static contactd_client *client;
static bench_echo *echo;
static uint32_t client_spin_us, server_spin_us;

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("bench_stream: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

static void must(contactd_code code, const char *what) {
    if (code) die("%s: %s: %s", what, contactd_code_name(code), client ? contactd_last_error(client)->message : "");
}

static contactd_mesh register_shape(struct shape shape, const char *name) {
    contactd_mesh mesh;
    must(contactd_register_mesh(client, name, shape.positions, shape.n_vertices, shape.triangles, shape.n_triangles,
                                &mesh),
         name);
    shape_free(&shape);
    return mesh;
}

/* ---- round trips ---- */

typedef struct boxes {
    contactd_scene scene;
    contactd_update updates[2];
} boxes;

static boxes open_boxes(contactd_mesh mesh) {
    boxes b;
    contactd_settings settings;
    contactd_settings_init(&settings);
    for (int i = 0; i < 3; i++) settings.resolution[i] = 32;
    must(contactd_open_scene(client, "boxes", &settings, &b.scene), "open scene");
    for (int i = 0; i < 2; i++) {
        contactd_body_options options;
        contactd_body_options_init(&options);
        options.rigid = true;
        contactd_body body;
        must(contactd_add_body(client, b.scene, mesh, &options, &body), "add body");
        double pose[12];
        shape_pose_axis((double[3]){1, 2, 3}, 0.3 * i, (double[3]){0.6 * i, 0.2 * i, 0.1 * i}, pose);
        b.updates[i] = contactd_move(body, pose);
    }
    return b;
}

static void move(boxes *b, unsigned k) {
    b->updates[1].pose[3] = 0.6 + 0.05 * sin(0.1 * k);
}

static void echoed(bench_samples *us, size_t request, size_t answer, bool counts) {
    double took = bench_echo_once(echo, request, answer);
    if (took < 0) die("the bare echo does not answer");
    if (counts) bench_add(us, 1e6 * took);
}

static void print_samples(const char *name, bench_samples *us, const char *more) {
    printf(
        "{\"scene\":\"%s\",\"samples\":%zu,\"us\":{\"p10\":%.6g,\"p50\":%.6g,\"p90\":%.6g,\"p99\":%.6g,\"max\":%.6g}%s}"
        "\n",
        name, us->count, bench_quantile(us, 0.1), bench_quantile(us, 0.5), bench_quantile(us, 0.9),
        bench_quantile(us, 0.99), bench_quantile(us, 1), more);
    fflush(stdout);
}

/* Steps, pings and echoes of the same sizes take turns, so that whatever else the machine does meets them all alike.
 * The first of each turn find both sides asleep, and do not count. */
static void round_trips(boxes *b, double seconds) {
    enum { TURN = 100, FIRST = 10, STEP_BYTES = 376, RESULT_BYTES = 1736, PING_BYTES = 88 };
    bench_samples step = {0}, echo_step = {0}, ping = {0}, echo_ping = {0};
    double phases[CONTACTD_PHASES] = {0};
    double end = bench_now() + 2 * seconds;
    for (unsigned k = 0; k < WARM_UP || bench_now() < end; k += TURN) {
        bool counts = k >= WARM_UP;
        for (unsigned i = 0; i < TURN; i++) {
            move(b, k + i);
            const contactd_result *result;
            double began = bench_now();
            must(contactd_step(client, b->scene, b->updates, 2, NULL, &result), "step");
            double took = bench_now() - began;
            if (result->n_contacts != 1) die("the boxes do not touch");
            if (!counts || i < FIRST) continue;
            bench_add(&step, 1e6 * took);
            for (int p = 0; p < CONTACTD_PHASES; p++) phases[p] += result->timings_us[p];
        }
        for (unsigned i = 0; i < TURN; i++) echoed(&echo_step, STEP_BYTES, RESULT_BYTES, counts && i >= FIRST);
        for (unsigned i = 0; i < TURN; i++) {
            double began = bench_now();
            must(contactd_ping(client, NULL), "ping");
            if (counts && i >= FIRST) bench_add(&ping, 1e6 * (bench_now() - began));
        }
        for (unsigned i = 0; i < TURN; i++) echoed(&echo_ping, PING_BYTES, PING_BYTES, counts && i >= FIRST);
    }
    char more[512];
    int n = snprintf(more, sizeof more, ",\"client_spin_us\":%u,\"server_spin_us\":%u,\"phases_us\":{", client_spin_us,
                     server_spin_us);
    for (int p = 0; p < CONTACTD_PHASES; p++)
        n += snprintf(more + n, sizeof more - (size_t)n, "%s\"%s\":%.4g", p ? "," : "", contactd_phase_name(p),
                      phases[p] / (double)step.count);
    snprintf(more + n, sizeof more - (size_t)n, "}");
    print_samples("round_trip_boxes", &step, more);
    print_samples("round_trip_echo", &echo_step, "");
    print_samples("round_trip_ping", &ping, "");
    print_samples("round_trip_ping_echo", &echo_ping, "");
    bench_free(&step), bench_free(&echo_step), bench_free(&ping), bench_free(&echo_ping);
}

static void pipelined(boxes *b, double seconds) {
    contactd_ticket tickets[IN_FLIGHT];
    unsigned done = 0;
    double begin = bench_now(), end = begin + seconds / 2;
    for (unsigned k = 0;; k++) {
        if (k >= IN_FLIGHT) {
            const contactd_result *result;
            must(contactd_step_wait(client, tickets[k % IN_FLIGHT], &result), "wait");
            done++;
        }
        if (bench_now() > end && k >= IN_FLIGHT) {
            for (unsigned j = 1; j < IN_FLIGHT; j++, done++)
                must(contactd_step_wait(client, tickets[(k + j) % IN_FLIGHT], &(const contactd_result *){0}), "wait");
            break;
        }
        move(b, k);
        must(contactd_step_submit(client, b->scene, b->updates, 2, NULL, &tickets[k % IN_FLIGHT]), "submit");
    }
    printf("{\"scene\":\"pipelined_boxes\",\"in_flight\":%d,\"steps_per_second\":%.6g}\n", IN_FLIGHT,
           done / (bench_now() - begin));
    fflush(stdout);
}

/* ---- memory ---- */

static double resident_bytes(long pid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/statm", pid);
    FILE *file = fopen(path, "r");
    unsigned long size, resident;
    if (!file || fscanf(file, "%lu %lu", &size, &resident) != 2) die("cannot read %s", path);
    fclose(file);
    return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

/* Registers a blob, and steps a scene with it alone: nothing to compute, but everything is where a simulation has it.
 */
static void populate(uint64_t seed, double *triangles, double *raw) {
    struct shape blob = shape_blob(1, 6, 0.2, seed);
    *triangles += blob.n_triangles;
    *raw += 12.0 * blob.n_triangles + 24.0 * blob.n_vertices; /* indices, rest positions, resident positions */
    contactd_mesh mesh = register_shape(blob, "blob");
    contactd_scene scene;
    contactd_body body;
    must(contactd_open_scene(client, "blob", NULL, &scene), "open scene");
    must(contactd_add_body(client, scene, mesh, NULL, &body), "add body");
    const contactd_result *result;
    must(contactd_step(client, scene, NULL, 0, NULL, &result), "step");
}

static void memory(long pid) {
    double triangles = 0, raw = 0;
    populate(1, &triangles, &raw); /* fills the buffers that are kept for the next message */
    contactd_status before, after;
    must(contactd_get_status(client, &before), "status");
    double resident = resident_bytes(pid);
    triangles = raw = 0;
    for (int i = 0; i < MESHES; i++) populate(2 + (uint64_t)i, &triangles, &raw);
    must(contactd_get_status(client, &after), "status");
    resident = resident_bytes(pid) - resident;
    double accounted =
        (double)(after.mesh_bytes - before.mesh_bytes) + (double)(after.scene_bytes - before.scene_bytes);
    printf("{\"scene\":\"memory\",\"triangles\":%.0f,\"rss_per_triangle\":%.4g,\"accounted_per_triangle\":%.4g,"
           "\"raw_per_triangle\":%.4g}\n",
           triangles, resident / triangles, accounted / triangles, raw / triangles);
    fflush(stdout);
}

int main(int argc, char **argv) {
    if (argc < 5 || argc > 6) die("usage: bench_stream ENDPOINT SERVER_PID SERVER_SPIN_US SECONDS [CLIENT_SPIN_US]");
    double seconds = strtod(argv[4], NULL);
    contactd_options options;
    contactd_options_init(&options);
    options.server = argv[1];
    options.name = "bench";
    options.keep_meshes = false;
    if (argc == 6) options.spin_us = (uint32_t)strtoul(argv[5], NULL, 10);
    client_spin_us = options.spin_us;
    server_spin_us = (uint32_t)strtoul(argv[3], NULL, 10);
    echo = bench_echo_start(client_spin_us, server_spin_us);
    if (!echo) return 1;
    contactd_error error = {0};
    if (contactd_connect(&options, &client, &error)) die("%s: %s", argv[1], error.message);
    boxes b = open_boxes(register_shape(shape_box(1, 1, 1), "box"));
    round_trips(&b, seconds);
    pipelined(&b, seconds);
    memory(strtol(argv[2], NULL, 10));
    contactd_close(&client);
    bench_echo_stop(&echo);
    return 0;
}

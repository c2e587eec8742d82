/* bench_stream.c - times a running contactd over its stream with the C client, and weighs its memory.
 *
 *   bench_stream ENDPOINT SERVER_PID SERVER_SPIN_US SECONDS MESHES [CLIENT_SPIN_US]
 *
 * One JSON object a line: the round trip of a small step and of a ping, of a step that sends all positions of a large
 * body (bunny_capped.ply of the folder MESHES, or a torus of its size where there is none), and of messages of the same
 * sizes through a bare ZeroMQ echo (what the machine and the transport cost), steps kept in flight, and the bytes that
 * a registered triangle takes in the server, its body's resident positions included. SERVER_SPIN_US says how the server
 * was started, so that the echo waits like it.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/bench/echo.h"
#include "tests/bench/poses.h"
#include "tests/bench/samples.h"
#include "tests/bench/session.h"

enum { WARM_UP = 500, IN_FLIGHT = 16, MESHES = 12 };

static bench_echo *echo;
static uint32_t client_spin_us, server_spin_us;

/* ---- round trips ---- */

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
static void round_trips(couple *b, double seconds) {
    enum { TURN = 100, FIRST = 10, STEP_BYTES = 376, RESULT_BYTES = 1736, PING_BYTES = 88 };
    bench_samples step = {0}, echo_step = {0}, ping = {0}, echo_ping = {0};
    double phases[CONTACTD_PHASES] = {0};
    double end = bench_now() + 2 * seconds;
    for (unsigned k = 0; !step.count || bench_now() < end; k += TURN) { /* one turn counts, however slow */
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

static void pipelined(couple *b, double seconds) {
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

/* ---- all positions sent ---- */

static void all_positions(const char *meshes, double seconds) {
    enum { TURN = 10, FIRST = 2, OVERHEAD = 512, ENTRY_BYTES = 28 };
    char path[4096];
    contactd_mesh mesh;
    snprintf(path, sizeof path, "%s/bunny_capped.ply", meshes);
    if (access(path, R_OK) == 0)
        must(contactd_register_mesh_file(client, path, &mesh), path);
    else
        mesh = register_shape(shape_torus(0.65, 0.35, 186, 187), "torus");
    contactd_settings settings;
    contactd_settings_init(&settings);
    for (int i = 0; i < 3; i++) settings.resolution[i] = 128;
    contactd_scene scene;
    contactd_body soft, cube;
    contactd_body_options options;
    must(contactd_open_scene(client, "all positions", &settings, &scene), "open scene");
    must(contactd_add_body(client, scene, mesh, NULL, &soft), "add body");
    contactd_body_options_init(&options);
    options.rigid = true;
    must(contactd_add_body(client, scene, register_shape(shape_cube(2, 1), "cube"), &options, &cube), "add body");
    contactd_geometry at_rest;
    must(contactd_get_mesh_geometry(client, mesh, &at_rest), "geometry");
    const size_t n = at_rest.n_vertices;
    float *positions = malloc(12 * n);
    if (!positions) die("out of memory");
    for (size_t v = 0; v < n; v++)
        for (size_t i = 0; i < 3; i++) {
            const double *row = bunny_pose + 4 * i;
            const float *p = at_rest.positions + 3 * v;
            positions[3 * v + i] = (float)(row[0] * (double)p[0] + row[1] * (double)p[1] + row[2] * (double)p[2]);
        }
    contactd_update updates[2] = {contactd_deform(soft, positions, n), contactd_move(cube, cube_pose)};
    contactd_step_options step_options;
    contactd_step_options_init(&step_options);
    step_options.want = CONTACTD_WANT_GRADIENT;
    bench_samples step = {0}, echo_step = {0};
    double end = bench_now() + seconds;
    for (unsigned k = 0; k < 2 * TURN || bench_now() < end; k += TURN) {
        size_t answer = 0;
        for (unsigned i = 0; i < TURN; i++) {
            const contactd_result *result;
            updates[1].pose[3] = cube_pose[3] + 0.01 * sin(0.1 * (k + i));
            double began = bench_now();
            must(contactd_step(client, scene, updates, 2, &step_options, &result), "step");
            double took = bench_now() - began;
            if (result->n_contacts != 1) die("the cube is not touched");
            const contactd_sparse *sides = result->contacts[0].sparse;
            answer = OVERHEAD + ENTRY_BYTES * (sides[0].n + sides[1].n);
            if (k > 0 && i >= FIRST) bench_add(&step, 1e6 * took);
        }
        for (unsigned i = 0; i < TURN; i++) echoed(&echo_step, OVERHEAD + 12 * n, answer, k > 0 && i >= FIRST);
    }
    print_samples("all_positions", &step, "");
    print_samples("all_positions_echo", &echo_step, "");
    bench_free(&step), bench_free(&echo_step);
    free(positions);
    must(contactd_close_scene(client, scene), "close scene");
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
    if (argc < 6 || argc > 7)
        die("usage: bench_stream ENDPOINT SERVER_PID SERVER_SPIN_US SECONDS MESHES [CLIENT_SPIN_US]");
    double seconds = strtod(argv[4], NULL);
    contactd_options defaults;
    contactd_options_init(&defaults);
    client_spin_us = argc == 7 ? (uint32_t)strtoul(argv[6], NULL, 10) : defaults.spin_us;
    server_spin_us = (uint32_t)strtoul(argv[3], NULL, 10);
    echo = bench_echo_start(client_spin_us, server_spin_us);
    if (!echo) return 1;
    connect_to(argv[1], "bench", client_spin_us);
    memory(strtol(argv[2], NULL, 10)); /* first: what other scenes leave behind is given back at any time */
    couple b = open_boxes();
    round_trips(&b, seconds);
    pipelined(&b, seconds);
    all_positions(argv[5], seconds);
    contactd_close(&client);
    bench_echo_stop(&echo);
    return 0;
}

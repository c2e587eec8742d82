/* bench_neighbour.c - what a small step waits when another client keeps the server busy with huge ones.
 *
 *   bench_neighbour ENDPOINT SECONDS MESHES
 *
 * One client steps two boxes, one step after the other. Another, a process of its own, steps two bodies of 346k
 * triangles (armadillo_346k.ply of the folder MESHES, or a torus where there is none) with two steps in flight, and
 * pauses: so the small steps are timed alone and beside it by turns. One JSON object a line. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/samples.h"
#include "tests/bench/session.h"

enum { TURNS = 6, WARM_UP = 5, LEAST = 5, IN_FLIGHT = 2 };
enum order { GO = 'g', PAUSE = 'p' };

/* ---- the neighbour's process ---- */

static void tell(int fd, const void *bytes, size_t n) {
    if (write(fd, bytes, n) != (ssize_t)n) die("the other process is gone");
}

static bool heard(int fd, void *bytes, size_t n) {
    return read(fd, bytes, n) == (ssize_t)n;
}

/* Steps until it is told to pause: says so when the first step is answered, and in the end how many there were. */
static void keep_busy(couple *c, int orders, int reports) {
    contactd_ticket tickets[IN_FLIGHT];
    uint32_t done = 0;
    for (unsigned k = 0; k < IN_FLIGHT; k++) {
        move(c, k);
        must(contactd_step_submit(client, c->scene, c->updates, 2, NULL, &tickets[k]), "submit");
    }
    struct pollfd order = {.fd = orders, .events = POLLIN};
    for (unsigned k = 0; done == 0 || poll(&order, 1, 0) == 0; k++) {
        const contactd_result *result;
        must(contactd_step_wait(client, tickets[k % IN_FLIGHT], &result), "large step");
        if (result->n_contacts != 1) die("the large bodies do not touch");
        if (done++ == 0) tell(reports, &(char){GO}, 1);
        move(c, k + IN_FLIGHT);
        must(contactd_step_submit(client, c->scene, c->updates, 2, NULL, &tickets[k % IN_FLIGHT]), "submit");
    }
    tell(reports, &done, sizeof done);
    for (unsigned k = 0; k < IN_FLIGHT; k++)
        must(contactd_step_wait(client, tickets[k], &(const contactd_result *){0}), "large step");
    char pause;
    if (heard(orders, &pause, 1)) tell(reports, &pause, 1);
}

static void be_neighbour(const char *endpoint, const char *meshes, int orders, int reports) {
    connect_to(endpoint, "neighbour", UINT32_MAX);
    char path[4096];
    contactd_mesh mesh;
    snprintf(path, sizeof path, "%s/armadillo_346k.ply", meshes);
    if (access(path, R_OK) == 0) {
        must(contactd_register_mesh_file(client, path, &mesh), path);
    } else {
        mesh = register_shape(shape_torus(0.6, 0.35, 416, 416), "torus");
    }
    couple large = open_couple(mesh, (uint32_t[3]){280, 240, 260}, 0.4, (double[3]){0.1, 0.05, 0.02});
    for (char order; heard(orders, &order, 1);) keep_busy(&large, orders, reports);
    contactd_close(&client);
}

/* ---- the small steps ---- */

typedef struct times {
    bench_samples us, queue_us;
} times;

static void time_small(couple *boxes, double seconds, times *times) {
    double end = bench_now() + seconds;
    for (unsigned k = 0; k < WARM_UP + LEAST || bench_now() < end; k++) {
        move(boxes, k);
        const contactd_result *result;
        double begin = bench_now();
        must(contactd_step(client, boxes->scene, boxes->updates, 2, NULL, &result), "small step");
        double took = bench_now() - begin;
        if (result->n_contacts != 1) die("the boxes do not touch");
        if (k < WARM_UP) continue;
        bench_add(&times->us, 1e6 * took);
        bench_add(&times->queue_us, result->timings_us[0]);
    }
}

static void print_times(const char *name, times *times, const char *more) {
    bench_samples *us = &times->us, *queue = &times->queue_us;
    printf(
        "{\"scene\":\"%s\",\"samples\":%zu,\"us\":{\"p10\":%.6g,\"p50\":%.6g,\"p90\":%.6g,\"p99\":%.6g,\"max\":%.6g},"
        "\"queue_us\":{\"p50\":%.6g,\"p99\":%.6g,\"max\":%.6g}%s}\n",
        name, us->count, bench_quantile(us, 0.1), bench_quantile(us, 0.5), bench_quantile(us, 0.9),
        bench_quantile(us, 0.99), bench_quantile(us, 1), bench_quantile(queue, 0.5), bench_quantile(queue, 0.99),
        bench_quantile(queue, 1), more);
    fflush(stdout);
    bench_free(us);
    bench_free(queue);
}

int main(int argc, char **argv) {
    if (argc != 4) die("usage: bench_neighbour ENDPOINT SECONDS MESHES");
    double seconds = strtod(argv[2], NULL);
    int orders[2], reports[2];
    if (pipe(orders) || pipe(reports)) die("no pipes");
    pid_t neighbour = fork(); /* before there are threads */
    if (neighbour < 0) die("no second process");
    if (neighbour == 0) {
        close(orders[1]);
        close(reports[0]);
        be_neighbour(argv[1], argv[3], orders[0], reports[1]);
        return 0;
    }
    close(orders[0]);
    close(reports[1]);
    connect_to(argv[1], "small", UINT32_MAX);
    couple boxes = open_boxes();
    times alone = {0}, beside = {0};
    double busy_s = 0, large_steps = 0;
    for (int turn = 0; turn < TURNS; turn++) {
        char report;
        uint32_t done;
        time_small(&boxes, seconds / TURNS, &alone);
        tell(orders[1], &(char){GO}, 1);
        if (!heard(reports[0], &report, 1)) die("the neighbour has ended");
        double begin = bench_now();
        time_small(&boxes, seconds / TURNS, &beside);
        tell(orders[1], &(char){PAUSE}, 1);
        if (!heard(reports[0], &done, sizeof done)) die("the neighbour has ended");
        busy_s += bench_now() - begin;
        large_steps += done;
        if (!heard(reports[0], &report, 1)) die("the neighbour has ended");
    }
    close(orders[1]);
    int status;
    if (waitpid(neighbour, &status, 0) != neighbour || status != 0) die("the neighbour failed");
    char more[64];
    snprintf(more, sizeof more, ",\"large_steps_per_second\":%.4g", large_steps / busy_s);
    print_times("small_alone", &alone, "");
    print_times("small_beside_large", &beside, more);
    contactd_close(&client);
    return 0;
}

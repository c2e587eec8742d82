/* bench_flood.c - what a small step waits when another principal floods the server.
 *
 *   bench_flood ENDPOINT SECONDS FLOOD_KEY
 *
 * One client, of the key in CONTACTD_CLIENT_KEY, steps two boxes, one step after the other, with a pause of 1 ms
 * between them, in which the flood fills the queue. Processes of another principal, of the key file FLOOD_KEY, keep as
 * many steps of two boxes in flight as the server takes, in many scenes, and one of them registers ever new meshes.
 * They have the lowest priority, so that they take little of the processor from the server: floods come from other
 * machines. The flood pauses, so that steps are timed alone and beside it alternately. One JSON object a line. */
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/bench/samples.h"
#include "tests/bench/session.h"

enum { ROUNDS = 8, WARM_UP = 20, CLIENTS = 4, SCENES = 16, IN_FLIGHT = 256, FLOOD_RAYS = 128 };

typedef struct orders { /* shared by all processes */
    atomic_bool is_on, ends;
    atomic_uint n_ready;
    atomic_ullong steps, meshes;
} orders;

static void nap(void) {
    nanosleep(&(struct timespec){0, 1000000}, NULL);
}

/* ---- the flood ---- */

static void flood_steps(orders *orders) {
    couple scenes[SCENES];
    static contactd_ticket tickets[IN_FLIGHT];
    contactd_mesh box = register_shape(shape_box(1, 1, 1), "box");
    for (int i = 0; i < SCENES; i++)
        scenes[i] =
            open_couple(box, (uint32_t[3]){FLOOD_RAYS, FLOOD_RAYS, FLOOD_RAYS}, 0.3, (double[3]){0.6, 0.2, 0.1});
    atomic_fetch_add(&orders->n_ready, 1);
    unsigned first = 0, next = 0;
    while (!atomic_load(&orders->ends)) {
        bool is_on = atomic_load(&orders->is_on);
        if (is_on) {
            couple *c = &scenes[next % SCENES];
            move(c, next);
            must(contactd_step_submit(client, c->scene, c->updates, 2, NULL, &tickets[next % IN_FLIGHT]), "submit");
            next++;
        }
        if (next - first == IN_FLIGHT || (!is_on && first < next)) {
            const contactd_result *result;
            must(contactd_step_wait(client, tickets[first++ % IN_FLIGHT], &result), "step of the flood");
            atomic_fetch_add(&orders->steps, 1);
        } else if (!is_on) {
            nap();
        }
    }
}

static void flood_meshes(orders *orders) {
    atomic_fetch_add(&orders->n_ready, 1);
    for (unsigned k = 0; !atomic_load(&orders->ends); k++) {
        while (!atomic_load(&orders->is_on) && !atomic_load(&orders->ends)) nap();
        register_shape(shape_torus(0.6 + 1e-4 * k, 0.3, 100, 100), "torus");
        atomic_fetch_add(&orders->meshes, 1);
    }
}

static pid_t start_flood(const char *endpoint, const char *key, orders *orders, bool steps) {
    pid_t pid = fork();
    if (pid < 0) die("no second process");
    if (pid > 0) return pid;
    setenv("CONTACTD_CLIENT_KEY", key, 1);
    if (setpriority(PRIO_PROCESS, 0, 19)) die("no lower priority"); /* as if the flood came from another machine */
    connect_to(endpoint, "flood", 0);
    (steps ? flood_steps : flood_meshes)(orders);
    contactd_close(&client);
    _exit(0);
}

/* ---- the neighbour ---- */

typedef struct times {
    bench_samples us, queue_us, batch_us; /* of the whole step; of it, in the queue and in the engine */
} times;

static void add_times(times *times, double seconds, const contactd_result *result) {
    double batch_us = 0;
    for (int p = 1; p < CONTACTD_PHASES; p++) batch_us += result->wall_us[p];
    bench_add(&times->us, 1e6 * seconds);
    bench_add(&times->queue_us, result->wall_us[0]);
    bench_add(&times->batch_us, batch_us);
}

static void time_steps(couple *boxes, double seconds, times *times) {
    double end = bench_now() + seconds;
    for (unsigned k = 0; k <= WARM_UP || bench_now() < end; k++) {
        move(boxes, k);
        const contactd_result *result;
        double begin = bench_now();
        must(contactd_step(client, boxes->scene, boxes->updates, 2, NULL, &result), "step");
        double took = bench_now() - begin;
        if (k >= WARM_UP) add_times(times, took, result);
        nap();
    }
}

static void print_quantiles(const char *name, bench_samples *us) {
    printf(",\"%s\":{\"p50\":%.6g,\"p90\":%.6g,\"p99\":%.6g,\"max\":%.6g}", name, bench_quantile(us, 0.5),
           bench_quantile(us, 0.9), bench_quantile(us, 0.99), bench_quantile(us, 1));
    bench_free(us);
}

static void print_times(const char *name, times *times, const char *more) {
    printf("{\"scene\":\"%s\",\"samples\":%zu", name, times->us.count);
    print_quantiles("us", &times->us);
    print_quantiles("queue_us", &times->queue_us);
    print_quantiles("batch_us", &times->batch_us);
    printf("%s}\n", more);
}

int main(int argc, char **argv) {
    if (argc != 4) die("usage: bench_flood ENDPOINT SECONDS FLOOD_KEY");
    double seconds = strtod(argv[2], NULL), busy_s = 0;
    orders *orders = mmap(NULL, sizeof *orders, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (orders == MAP_FAILED) die("no memory");
    pid_t flood[CLIENTS + 1];
    for (int i = 0; i <= CLIENTS; i++) flood[i] = start_flood(argv[1], argv[3], orders, i < CLIENTS);
    connect_to(argv[1], "neighbour", UINT32_MAX);
    couple boxes = open_boxes();
    while (atomic_load(&orders->n_ready) < CLIENTS + 1) nap();
    times alone = {0}, beside = {0};
    for (int round = 0; round < ROUNDS; round++) {
        time_steps(&boxes, seconds / ROUNDS, &alone);
        unsigned long long before = atomic_load(&orders->steps);
        double begin = bench_now();
        atomic_store(&orders->is_on, true);
        while (atomic_load(&orders->steps) < before + CLIENTS) nap();
        time_steps(&boxes, seconds / ROUNDS, &beside);
        atomic_store(&orders->is_on, false);
        busy_s += bench_now() - begin;
        for (unsigned long long last = 0, now; (now = atomic_load(&orders->steps)) != last; last = now)
            nanosleep(&(struct timespec){0, 50000000}, NULL); /* until the flood has its answers */
    }
    atomic_store(&orders->ends, true);
    for (int i = 0; i <= CLIENTS; i++) {
        int status;
        if (waitpid(flood[i], &status, 0) != flood[i] || status != 0) die("the flood failed");
    }
    char more[128];
    snprintf(more, sizeof more, ",\"flood_steps_per_second\":%.4g,\"flood_meshes_per_second\":%.3g",
             (double)atomic_load(&orders->steps) / busy_s, (double)atomic_load(&orders->meshes) / busy_s);
    print_times("alone", &alone, "");
    print_times("beside_flood", &beside, more);
    contactd_close(&client);
    return 0;
}

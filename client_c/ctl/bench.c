/* bench.c - contactctl bench: what a step of two boxes costs from here, round trip, and how many go through. */
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "client_c/ctl/ctl.h"
#include "client_c/ctl/progress.h"

enum { MOST = 1 << 20, WARM_UP = 200 };

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int rising(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

typedef struct bench {
    ctl *ctl;
    contactd_scene scene;
    contactd_body moving;
    contactd_step_options options;
    double *latency; /* us */
    size_t n;
    double one_by_one, pipelined; /* steps per second */
    uint32_t in_flight;
} bench;

/* The moving box slides a little, so that no step repeats the last one. */
static contactd_update update_of(const bench *b, size_t step) {
    double pose[12] = {1, 0, 0, 0.5 + 1e-4 * (double)(step % 1000), 0, 1, 0, 0.25, 0, 0, 1, 0.125};
    return contactd_move(b->moving, pose);
}

static int set_up(bench *b, const contactd_settings *settings) {
    ctl *ctl = b->ctl;
    contactd_mesh box;
    int code = ctl_register_box(ctl, "bench box", (const double[]){0, 0, 0}, (const double[]){1, 1, 1}, &box);
    if (code != EXIT_OK) return code;
    contactd_body fixed;
    contactd_body_options rigid;
    contactd_body_options_init(&rigid);
    rigid.rigid = true;
    if (contactd_open_scene(ctl->client, "contactctl bench", settings, &b->scene) ||
        contactd_add_body(ctl->client, b->scene, box, &rigid, &fixed) ||
        contactd_add_body(ctl->client, b->scene, box, &rigid, &b->moving))
        return ctl_error(ctl, "scene");
    contactd_step_options_init(&b->options);
    b->options.want = CONTACTD_WANT_FRAME | CONTACTD_WANT_GRADIENT;
    return EXIT_OK;
}

static int measure_latency(bench *b, double seconds) {
    const contactd_result *result;
    double began = 0;
    for (size_t i = 0; i < MOST + WARM_UP; i++) {
        contactd_update update = update_of(b, i);
        if (i == WARM_UP) began = now_s();
        if (contactd_step(b->ctl->client, b->scene, &update, 1, &b->options, &result)) return ctl_error(b->ctl, "step");
        if (i < WARM_UP) continue;
        b->latency[b->n++] = result->latency_us;
        if (now_s() - began > seconds) break;
    }
    b->one_by_one = (double)b->n / (now_s() - began);
    qsort(b->latency, b->n, sizeof *b->latency, rising);
    return EXIT_OK;
}

static int measure_rate(bench *b, double seconds) {
    contactd_server server;
    contactd_ticket tickets[64] = {0};
    const contactd_result *result;
    contactd_get_server(b->ctl->client, &server);
    b->in_flight = server.max_in_flight < 64 ? server.max_in_flight : 64;
    if (b->in_flight == 0) b->in_flight = 1;
    size_t sent = 0, answered = 0;
    double began = now_s();
    while (now_s() - began < seconds || answered < sent) {
        bool more = now_s() - began < seconds && sent - answered < b->in_flight;
        contactd_update update = update_of(b, sent);
        if (more) {
            if (contactd_step_submit(b->ctl->client, b->scene, &update, 1, &b->options, &tickets[sent % b->in_flight]))
                return ctl_error(b->ctl, "step");
            sent++;
        } else {
            if (contactd_step_wait(b->ctl->client, tickets[answered % b->in_flight], &result))
                return ctl_error(b->ctl, "step");
            answered++;
        }
    }
    b->pipelined = (double)answered / (now_s() - began);
    return EXIT_OK;
}

static double percentile(const bench *b, double p) {
    return b->latency[(size_t)((double)(b->n - 1) * p)];
}

static void print(const bench *b) {
    static const struct {
        const char *name;
        double p;
    } rows[] = {{"min", 0}, {"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"max", 1}};
    enum { ROWS = sizeof rows / sizeof *rows };
    if (b->ctl->json) {
        json_open(NULL, '{');
        json_text("server", b->ctl->server);
        json_count("steps", b->n);
        json_count("spin_us", b->ctl->spin_us);
        json_open("latency_us", '{');
        for (int i = 0; i < ROWS; i++) json_number(rows[i].name, percentile(b, rows[i].p));
        json_close('}');
        json_number("steps_per_s", b->one_by_one);
        json_number("steps_per_s_pipelined", b->pipelined);
        json_count("in_flight", b->in_flight);
        json_close('}');
        return;
    }
    printf("two boxes of 12 triangles, volume, frame and gradient: %zu steps, looking %u us before sleeping\n", b->n,
           b->ctl->spin_us);
    printf("round trip  ");
    for (int i = 0; i < ROWS; i++)
        printf("%s %.0f us%s", rows[i].name, percentile(b, rows[i].p), i + 1 < ROWS ? ", " : "\n");
    printf("rate        %.0f steps/s one by one, %.0f with %u in flight\n", b->one_by_one, b->pipelined, b->in_flight);
}

int ctl_bench(ctl *ctl) {
    double seconds = 2;
    contactd_settings settings;
    if (!ctl_settings(ctl, &settings) || !ctl_number(ctl, OPT_SECONDS, &seconds)) return EXIT_USAGE;
    if (!(seconds > 0 && seconds <= 3600))
        return ctl_mistake("--seconds is %g, expected > 0 and at most 3600", seconds);
    contactd_options defaults;
    contactd_options_init(&defaults);
    double spin_us = defaults.spin_us;
    if (!ctl_number(ctl, OPT_SPIN, &spin_us)) return EXIT_USAGE;
    if (!(spin_us >= 0 && spin_us <= 1e6 && spin_us == floor(spin_us)))
        return ctl_mistake("--spin-us is %g, expected a whole number from 0 to 1000000", spin_us);
    ctl->spin_us = (uint32_t)spin_us;
    if (!ctl->options[OPT_RESOLUTION])
        for (int i = 0; i < 3; i++) settings.resolution[i] = 32;
    int code = ctl_connect(ctl);
    if (code != EXIT_OK) return code;
    bench b = {.ctl = ctl, .latency = malloc(MOST * sizeof *b.latency)};
    if (!b.latency) {
        ctl_say("out of memory");
        return EXIT_SERVER;
    }
    code = set_up(&b, &settings);
    progress_begin(PROGRESS_LASTS, (uint64_t)(1500 * seconds), "measuring");
    if (code == EXIT_OK) code = measure_latency(&b, seconds);
    if (code == EXIT_OK) code = measure_rate(&b, seconds / 2);
    progress_end();
    if (code == EXIT_OK) print(&b);
    free(b.latency);
    return code;
}

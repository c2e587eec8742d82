/* top.c - contactctl top: what the server does now. All rates and latencies are of the interval between two reports. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "client_c/ctl/report.h"

enum { LANES = 2, MAX_BOUNDS = 64, HEAD_ROWS = 8, DEFAULT_ROWS = 20, TEXT = 64 };
static const char *const lane_names[LANES] = {"small", "large"};

typedef struct latencies { /* counts since the server's start, or their differences */
    double bounds[MAX_BOUNDS], sum;
    uint64_t counts[MAX_BOUNDS + 1], steps;
    size_t n;
} latencies;

typedef struct lane {
    uint64_t depth, running, batches, steps;
    latencies latency;
} lane;

typedef struct scene_row {
    uint64_t id, steps;
    uint32_t bodies, contacts;
    char name[TEXT], owner[TEXT], method[16];
    double rate; /* steps per second */
} scene_row;

typedef struct view { /* what the server said at a time */
    json_t *status;
    double at_s;
    lane lanes[LANES];
    uint64_t steps, contacts;
    scene_row *scenes; /* [n], in rising order of id */
    size_t n;
} view;

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- asking ---- */

static void take_latencies(const json_t *from, latencies *out) {
    const json_t *bounds = json_object_get(from, "bounds"), *counts = json_object_get(from, "counts");
    *out = (latencies){.sum = json_number_value(json_object_get(from, "sum")), .steps = ctl_count_of(from, "steps")};
    if (json_array_size(bounds) > MAX_BOUNDS || json_array_size(counts) != json_array_size(bounds) + 1) return;
    out->n = json_array_size(bounds);
    for (size_t i = 0; i < out->n; i++) out->bounds[i] = json_number_value(json_array_get(bounds, i));
    for (size_t i = 0; i <= out->n; i++) out->counts[i] = (uint64_t)json_integer_value(json_array_get(counts, i));
}

static void take_status(view *v) {
    const json_t *lanes = json_object_get(v->status, "lanes");
    v->steps = ctl_count_of(v->status, "steps");
    v->contacts = ctl_count_of(v->status, "contacts");
    for (int i = 0; i < LANES; i++) {
        const json_t *from = json_object_get(lanes, lane_names[i]);
        v->lanes[i] = (lane){.depth = ctl_count_of(from, "depth"),
                             .running = ctl_count_of(from, "running"),
                             .batches = ctl_count_of(from, "batches"),
                             .steps = ctl_count_of(from, "steps")};
        take_latencies(json_object_get(from, "latency_us"), &v->lanes[i].latency);
    }
}

static int take_scenes(ctl *ctl, view *v) {
    const contactd_scene_info *list;
    size_t n;
    if (contactd_list_scenes(ctl->client, &list, &n)) return ctl_error(ctl, "top");
    v->scenes = calloc(n + 1, sizeof *v->scenes);
    if (!v->scenes) return ctl_mistake("out of memory");
    for (; v->n < n; v->n++) {
        const contactd_scene_info *from = &list[v->n];
        scene_row *to = &v->scenes[v->n];
        *to = (scene_row){.id = from->id, .steps = from->steps, .bodies = from->bodies, .contacts = from->contacts};
        snprintf(to->name, sizeof to->name, "%s", from->name);
        snprintf(to->owner, sizeof to->owner, "%s", from->owner);
        snprintf(to->method, sizeof to->method, "%s", from->running_method);
    }
    return EXIT_OK;
}

static int take_view(ctl *ctl, view *v) {
    *v = (view){0};
    int code = ctl_get_report(ctl, CONTACTD_REPORT_STATUS, 0, "top", &v->status);
    v->at_s = now_s();
    if (code != EXIT_OK) return code;
    take_status(v);
    return take_scenes(ctl, v);
}

static void free_view(view *v) {
    json_decref(v->status);
    free(v->scenes);
    *v = (view){0};
}

/* ---- differences ---- */

static bool is_same_server(const view *a, const view *b) {
    return strcmp(ctl_text_of(a->status, "epoch"), ctl_text_of(b->status, "epoch")) == 0;
}

static latencies latencies_since(const latencies *before, const latencies *now) {
    latencies out = *now;
    if (before->n != now->n) return out;
    out.steps -= before->steps;
    out.sum -= before->sum;
    for (size_t i = 0; i <= out.n; i++) out.counts[i] -= before->counts[i];
    return out;
}

/* The latency that a share q of the steps did not exceed, in us, linear within its bucket; beyond the last bound, that
 * bound. NaN: no step. */
static double quantile(const latencies *l, double q) {
    double rank = q * (double)l->steps, below = 0;
    if (!l->steps) return NAN;
    for (size_t i = 0; i < l->n; i++) {
        const double count = (double)l->counts[i], lower = i ? l->bounds[i - 1] : 0;
        if (count > 0 && below + count >= rank) return lower + (l->bounds[i] - lower) * (rank - below) / count;
        below += count;
    }
    return l->n ? l->bounds[l->n - 1] : NAN;
}

static int by_rate(const void *a, const void *b) {
    const scene_row *x = a, *y = b;
    if (x->rate != y->rate) return x->rate < y->rate ? 1 : -1;
    return (x->id > y->id) - (x->id < y->id);
}

/* Both lists are in rising order of id, and are not afterwards. */
static void rate_scenes(const view *before, view *now, double seconds) {
    for (size_t i = 0, k = 0; i < now->n; i++) {
        scene_row *scene = &now->scenes[i];
        while (k < before->n && before->scenes[k].id < scene->id) k++;
        const bool was_there = k < before->n && before->scenes[k].id == scene->id;
        scene->rate = (double)(scene->steps - (was_there ? before->scenes[k].steps : 0)) / seconds;
    }
}

/* ---- showing ---- */

typedef struct rates {
    double seconds, steps, contacts; /* per second */
    struct {
        double steps, per_batch, mean, p50, p90, p99;
        uint64_t answered;
    } lanes[LANES];
} rates;

static rates rates_of(const view *before, const view *now) {
    rates out = {.seconds = now->at_s - before->at_s};
    out.steps = (double)(now->steps - before->steps) / out.seconds;
    out.contacts = (double)(now->contacts - before->contacts) / out.seconds;
    for (int i = 0; i < LANES; i++) {
        const lane *a = &before->lanes[i], *b = &now->lanes[i];
        const latencies l = latencies_since(&a->latency, &b->latency);
        const uint64_t batches = b->batches - a->batches;
        out.lanes[i].answered = l.steps;
        out.lanes[i].steps = (double)(b->steps - a->steps) / out.seconds;
        out.lanes[i].per_batch = batches ? (double)(b->steps - a->steps) / (double)batches : NAN;
        out.lanes[i].mean = l.steps ? l.sum / (double)l.steps : NAN;
        out.lanes[i].p50 = quantile(&l, 0.5);
        out.lanes[i].p90 = quantile(&l, 0.9);
        out.lanes[i].p99 = quantile(&l, 0.99);
    }
    return out;
}

static void put_json(const view *v, const rates *r) {
    json_open(NULL, '{');
    json_text("server", ctl_text_of(v->status, "server"));
    json_number("uptime_s", json_number_value(json_object_get(v->status, "uptime_s")));
    json_bool("ready", json_is_true(json_object_get(v->status, "ready")));
    json_bool("draining", json_is_true(json_object_get(v->status, "draining")));
    json_number("interval_s", r->seconds);
    json_count("sessions", ctl_count_of(v->status, "sessions"));
    json_count("scenes", ctl_count_of(v->status, "scenes"));
    json_count("bodies", ctl_count_of(v->status, "bodies"));
    json_count("queue_depth", ctl_count_of(v->status, "queue_depth"));
    json_count("queue_capacity", ctl_count_of(v->status, "queue_capacity"));
    json_number("steps_per_s", r->steps);
    json_number("contacts_per_s", r->contacts);
    json_open("lanes", '{');
    for (int i = 0; i < LANES; i++) {
        json_open(lane_names[i], '{');
        json_count("depth", v->lanes[i].depth);
        json_count("running", v->lanes[i].running);
        json_number("steps_per_s", r->lanes[i].steps);
        json_number("steps_per_batch", r->lanes[i].per_batch);
        json_open("latency_us", '{');
        json_count("steps", r->lanes[i].answered);
        json_number("mean", r->lanes[i].mean);
        json_number("p50", r->lanes[i].p50);
        json_number("p90", r->lanes[i].p90);
        json_number("p99", r->lanes[i].p99);
        json_close('}');
        json_close('}');
    }
    json_close('}');
    json_open("busiest", '[');
    for (size_t i = 0; i < v->n && i < DEFAULT_ROWS; i++) {
        const scene_row *s = &v->scenes[i];
        json_open(NULL, '{');
        json_count("id", s->id);
        json_text("name", s->name);
        json_text("owner", s->owner);
        json_text("running_method", s->method);
        json_count("bodies", s->bodies);
        json_count("contacts", s->contacts);
        json_count("steps", s->steps);
        json_number("steps_per_s", s->rate);
        json_close('}');
    }
    json_close(']');
    json_close('}');
}

/* A number of microseconds in eight columns, "-" where there is none. */
static void put_us(double us) {
    if (isnan(us))
        printf(" %8s", "-");
    else
        printf(" %8.0f", us);
}

static size_t rows_for_scenes(bool is_live) {
    struct winsize size;
    if (!is_live || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row <= HEAD_ROWS + 1) return DEFAULT_ROWS;
    return (size_t)size.ws_row - HEAD_ROWS - 1;
}

static void put_table(const ctl *ctl, const view *v, const rates *r, bool is_live) {
    if (is_live) fputs("\033[H\033[J", stdout); /* home, clear */
    printf("%s at %s, up %.0f s%s%s\n", ctl_text_of(v->status, "server"), ctl->server,
           json_number_value(json_object_get(v->status, "uptime_s")),
           json_is_true(json_object_get(v->status, "ready")) ? "" : ", NOT READY",
           json_is_true(json_object_get(v->status, "draining")) ? ", DRAINING" : "");
    printf("%" PRIu64 " sessions, %" PRIu64 " scenes, %" PRIu64 " bodies; queue %" PRIu64 " of %" PRIu64
           "; %.0f steps/s, %.0f contacts/s\n\n",
           ctl_count_of(v->status, "sessions"), ctl_count_of(v->status, "scenes"), ctl_count_of(v->status, "bodies"),
           ctl_count_of(v->status, "queue_depth"), ctl_count_of(v->status, "queue_capacity"), r->steps, r->contacts);
    printf("%-8s %6s %8s %10s %8s %8s %8s %8s %8s\n", "LANE", "DEPTH", "RUNNING", "STEPS/s", "/BATCH", "MEAN us",
           "P50 us", "P90 us", "P99 us");
    for (int i = 0; i < LANES; i++) {
        printf("%-8s %6" PRIu64 " %8" PRIu64 " %10.0f", lane_names[i], v->lanes[i].depth, v->lanes[i].running,
               r->lanes[i].steps);
        if (isnan(r->lanes[i].per_batch))
            printf(" %8s", "-");
        else
            printf(" %8.1f", r->lanes[i].per_batch);
        put_us(r->lanes[i].mean);
        put_us(r->lanes[i].p50);
        put_us(r->lanes[i].p90);
        put_us(r->lanes[i].p99);
        putchar('\n');
    }
    printf("\n%-18s %-16s %-24s %-8s %7s %9s %10s\n", "SCENE", "NAME", "OWNER", "METHOD", "BODIES", "CONTACTS",
           "STEPS/s");
    const size_t rows = rows_for_scenes(is_live);
    for (size_t i = 0; i < v->n && i < rows; i++) {
        const scene_row *s = &v->scenes[i];
        printf("%-18" PRIu64 " %-16.16s %-24.24s %-8s %7u %9u %10.1f\n", s->id, s->name, s->owner, s->method, s->bodies,
               s->contacts, s->rate);
    }
    if (v->n > rows) printf("and %zu more\n", v->n - rows);
}

/* The next one replaces *before, with its scenes in their order. */
static int show_next(ctl *ctl, view *before, bool is_live) {
    view now;
    int code = take_view(ctl, &now);
    if (code == EXIT_OK && is_same_server(before, &now)) {
        rates r = rates_of(before, &now);
        rate_scenes(before, &now, r.seconds);
        scene_row *sorted = malloc((now.n + 1) * sizeof *sorted);
        if (sorted) {
            memcpy(sorted, now.scenes, now.n * sizeof *sorted);
            qsort(sorted, now.n, sizeof *sorted, by_rate);
            view shown = now;
            shown.scenes = sorted;
            if (ctl->json)
                put_json(&shown, &r);
            else
                put_table(ctl, &shown, &r, is_live);
            free(sorted);
        } else {
            code = ctl_mistake("out of memory");
        }
        fflush(stdout);
    }
    free_view(before);
    *before = now;
    return code;
}

int ctl_top(ctl *ctl) {
    double seconds = 1;
    if (!ctl_number(ctl, OPT_INTERVAL, &seconds)) return EXIT_USAGE;
    if (!(seconds >= 0.01 && seconds <= 3600))
        return ctl_mistake("--interval is %g, expected 0.01 to 3600 seconds", seconds);
    const struct timespec wait = {(time_t)seconds, (long)(fmod(seconds, 1) * 1e9)};
    const bool is_live = !ctl->json && !ctl->options[OPT_ONCE] && isatty(STDOUT_FILENO);
    view before = {0};
    int code = ctl_connect(ctl);
    if (code == EXIT_OK) code = take_view(ctl, &before);
    while (code == EXIT_OK && !ferror(stdout)) {
        nanosleep(&wait, NULL);
        code = show_next(ctl, &before, is_live);
        if (ctl->options[OPT_ONCE]) break;
    }
    free_view(&before);
    return code;
}

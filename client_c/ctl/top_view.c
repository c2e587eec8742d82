/* top_view.c - see top_view.h. */
#include "client_c/ctl/top_view.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *const top_lane_names[LANES] = {"small", "large"};

double top_now_s(void) {
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
        const json_t *from = json_object_get(lanes, top_lane_names[i]);
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
        snprintf(to->method, sizeof to->method, "%s", contactd_method_name(from->running_method));
    }
    return EXIT_OK;
}

int top_take_view(ctl *ctl, view *v) {
    *v = (view){0};
    int code = ctl_get_report(ctl, CONTACTD_REPORT_STATUS, 0, "top", &v->status);
    v->at_s = top_now_s();
    if (code != EXIT_OK) return code;
    take_status(v);
    return take_scenes(ctl, v);
}

void top_free_view(view *v) {
    json_decref(v->status);
    free(v->scenes);
    *v = (view){0};
}

/* ---- differences ---- */

bool top_is_same_server(const view *a, const view *b) {
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

/* Lanes have the same bounds. */
static void add_latencies(const latencies *of, latencies *all) {
    const latencies before = *all;
    *all = *of;
    if (before.n != of->n) return;
    all->steps += before.steps;
    all->sum += before.sum;
    for (size_t i = 0; i <= all->n; i++) all->counts[i] += before.counts[i];
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

/* Of equal ones the busiest first. */
static int by_count(uint32_t a, uint32_t b, const void *rows_a, const void *rows_b) {
    return a != b ? (a < b ? 1 : -1) : by_rate(rows_a, rows_b);
}

static int by_bodies(const void *a, const void *b) {
    return by_count(((const scene_row *)a)->bodies, ((const scene_row *)b)->bodies, a, b);
}

static int by_contacts(const void *a, const void *b) {
    return by_count(((const scene_row *)a)->contacts, ((const scene_row *)b)->contacts, a, b);
}

static int by_name(const void *a, const void *b) {
    const int order = strcmp(((const scene_row *)a)->name, ((const scene_row *)b)->name);
    return order ? order : by_rate(a, b);
}

void top_sort(scene_row *scenes, size_t n, top_order order) {
    static int (*const orders[])(const void *, const void *) = {
        [TOP_BY_RATE] = by_rate, [TOP_BY_BODIES] = by_bodies, [TOP_BY_CONTACTS] = by_contacts, [TOP_BY_NAME] = by_name};
    if (n) qsort(scenes, n, sizeof *scenes, orders[order]);
}

/* Both lists are in rising order of id, and are not afterwards. */
void top_rate_scenes(const view *before, view *now, double seconds) {
    for (size_t i = 0, k = 0; i < now->n; i++) {
        scene_row *scene = &now->scenes[i];
        while (k < before->n && before->scenes[k].id < scene->id) k++;
        const bool was_there = k < before->n && before->scenes[k].id == scene->id;
        scene->rate = (double)(scene->steps - (was_there ? before->scenes[k].steps : 0)) / seconds;
    }
}

rates top_rates_of(const view *before, const view *now) {
    rates out = {.seconds = now->at_s - before->at_s};
    latencies all = {0};
    out.steps = (double)(now->steps - before->steps) / out.seconds;
    out.contacts = (double)(now->contacts - before->contacts) / out.seconds;
    for (int i = 0; i < LANES; i++) {
        const lane *a = &before->lanes[i], *b = &now->lanes[i];
        const latencies l = latencies_since(&a->latency, &b->latency);
        add_latencies(&l, &all);
        const uint64_t batches = b->batches - a->batches;
        out.lanes[i].answered = l.steps;
        out.lanes[i].steps = (double)(b->steps - a->steps) / out.seconds;
        out.lanes[i].per_batch = batches ? (double)(b->steps - a->steps) / (double)batches : NAN;
        out.lanes[i].mean = l.steps ? l.sum / (double)l.steps : NAN;
        out.lanes[i].p50 = quantile(&l, 0.5);
        out.lanes[i].p90 = quantile(&l, 0.9);
        out.lanes[i].p99 = quantile(&l, 0.99);
    }
    out.p50 = quantile(&all, 0.5);
    out.p99 = quantile(&all, 0.99);
    return out;
}

/* history.c - see history.h. A sample is the difference of the metrics' counters to those of a second before, so that
 * its percentiles are the interval's. */
#include "server/core/history.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/base/clock.h"

/* Of both methods that rasterise and those that do not: see ct_phase. */
static const char *const phase_names[METRICS_PHASES] = {"queue",   "updates",  "pairs",   "crossing",
                                                        "summing", "contacts", "download"};

typedef struct sample {
    double time;                       /* s since 1970 */
    float steps_per_s, p50_ms, p99_ms; /* percentiles NaN: no step ended */
    float phase_ms[METRICS_PHASES];    /* of a step, in the mean */
    uint32_t queue, running;
    uint64_t memory;
    /* A second; no whole number, as one step in a long interval is more than none. */
    float steps_of[METRICS_PRINCIPALS];
} sample;

/* What the metrics had counted. */
typedef struct counts {
    uint64_t ns; /* of clock_ns() */
    uint64_t latencies[METRICS_BOUNDS + 1];
    double phase_s[METRICS_PHASES];
    uint64_t steps, steps_of[METRICS_PRINCIPALS];
} counts;

struct history {
    const metrics *metrics;
    registry *registry;
    scheduler *scheduler;
    ct_engine *engine;
    guard *guard;
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t wake;
    bool is_stopping;
    uint32_t n;                      /* samples taken since the start */
    sample samples[HISTORY_SECONDS]; /* the n-th at n modulo their number */
};

/* ---- taking samples ---- */

static void count(const history *history, counts *out) {
    out->ns = clock_ns();
    memset(out->latencies, 0, sizeof out->latencies);
    for (int large = 0; large < 2; large++) {
        metrics_latencies of_lane;
        metrics_get_latencies(history->metrics, large, &of_lane);
        for (int i = 0; i <= METRICS_BOUNDS; i++) out->latencies[i] += of_lane.counts[i];
    }
    for (unsigned p = 0; p < METRICS_PHASES; p++) out->phase_s[p] = metrics_phase_seconds(history->metrics, p);
    out->steps = metrics_counter_value(history->metrics, METRICS_STEPS);
    metrics_get_principals(history->metrics, NULL, out->steps_of);
}

/* ms: below which a part of the interval's steps took, on the line between the bounds on either side. NaN: there were
 * none; the last bound: more. */
static float percentile(const uint64_t steps[METRICS_BOUNDS + 1], const double *bounds_s, double part) {
    uint64_t all = 0, below = 0;
    for (int i = 0; i <= METRICS_BOUNDS; i++) all += steps[i];
    if (!all) return NAN;
    const double rank = part * (double)all;
    int i = 0;
    while (i < METRICS_BOUNDS && (double)(below + steps[i]) < rank) below += steps[i++];
    if (i == METRICS_BOUNDS) return (float)(1e3 * bounds_s[METRICS_BOUNDS - 1]);
    const double from = i ? bounds_s[i - 1] : 0, share = (rank - (double)below) / (double)steps[i];
    return (float)(1e3 * (from + share * (bounds_s[i] - from)));
}

static void fill(const history *history, const counts *before, const counts *now, sample *out) {
    const double seconds = 1e-9 * (double)(now->ns - before->ns);
    const uint64_t steps = now->steps - before->steps;
    metrics_latencies latencies;
    uint64_t ended[METRICS_BOUNDS + 1];
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    *out = (sample){.time = (double)at.tv_sec + 1e-9 * (double)at.tv_nsec,
                    .steps_per_s = (float)((double)steps / seconds)};
    for (int i = 0; i <= METRICS_BOUNDS; i++) ended[i] = now->latencies[i] - before->latencies[i];
    metrics_get_latencies(history->metrics, false, &latencies);
    out->p50_ms = percentile(ended, latencies.bounds_s, 0.5);
    out->p99_ms = percentile(ended, latencies.bounds_s, 0.99);
    for (unsigned p = 0; p < METRICS_PHASES; p++)
        out->phase_ms[p] = steps ? (float)(1e3 * (now->phase_s[p] - before->phase_s[p]) / (double)steps) : NAN;
    for (int i = 0; i < METRICS_PRINCIPALS; i++)
        out->steps_of[i] = (float)((double)(now->steps_of[i] - before->steps_of[i]) / seconds);
    scheduler_facts queue;
    registry_totals totals;
    scheduler_get_facts(history->scheduler, &queue);
    registry_get_totals(history->registry, &totals);
    out->queue = queue.queue_depth;
    out->running = queue.lanes[SCHEDULE_SMALL].busy + queue.lanes[SCHEDULE_LARGE].busy;
    out->memory = totals.mesh_bytes + totals.scene_bytes;
    for (size_t i = 0; i < ct_engine_device_count(history->engine); i++) {
        ct_engine_facts facts;
        ct_engine_get_facts(history->engine, i, &facts);
        out->memory += facts.scratch_bytes;
    }
}

static void wait_a_second(history *history) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec++;
    while (!history->is_stopping && pthread_cond_timedwait(&history->wake, &history->lock, &until) == 0) continue;
}

static void *run(void *argument) {
    history *history = argument;
    counts before, now;
    count(history, &before);
    pthread_mutex_lock(&history->lock);
    for (;;) {
        wait_a_second(history);
        if (history->is_stopping) break;
        sample *to = &history->samples[history->n % HISTORY_SECONDS];
        count(history, &now);
        fill(history, &before, &now, to);
        before = now;
        history->n++;
    }
    pthread_mutex_unlock(&history->lock);
    return NULL;
}

history *history_start(const metrics *metrics, registry *registry, scheduler *scheduler, ct_engine *engine,
                       guard *guard) {
    history *history = calloc(1, sizeof *history);
    if (!history) return NULL;
    history->metrics = metrics;
    history->registry = registry;
    history->scheduler = scheduler;
    history->engine = engine;
    history->guard = guard;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&history->lock, NULL);
    pthread_cond_init(&history->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    if (pthread_create(&history->thread, NULL, run, history) == 0) return history;
    pthread_mutex_destroy(&history->lock);
    pthread_cond_destroy(&history->wake);
    free(history);
    return NULL;
}

void history_stop(history **where) {
    history *history = *where;
    *where = NULL;
    if (!history) return;
    pthread_mutex_lock(&history->lock);
    history->is_stopping = true;
    pthread_cond_signal(&history->wake);
    pthread_mutex_unlock(&history->lock);
    pthread_join(history->thread, NULL);
    pthread_mutex_destroy(&history->lock);
    pthread_cond_destroy(&history->wake);
    free(history);
}

/* ---- writing ---- */

/* The last samples, the oldest first. */
typedef struct range {
    const history *history;
    uint32_t first, n;
} range;

static const sample *sample_at(const range *range, uint32_t i) {
    return &range->history->samples[(range->first + i) % HISTORY_SECONDS];
}

static void write_floats(json_out *out, const char *name, const range *range, size_t offset) {
    json_out_array(out, name);
    for (uint32_t i = 0; i < range->n; i++)
        json_out_float(out, NULL, *(const float *)(const void *)((const char *)sample_at(range, i) + offset));
    json_out_array_end(out);
}

static void write_integers(json_out *out, const char *name, const range *range, size_t offset) {
    json_out_array(out, name);
    for (uint32_t i = 0; i < range->n; i++)
        json_out_integer(out, NULL, *(const uint32_t *)(const void *)((const char *)sample_at(range, i) + offset));
    json_out_array_end(out);
}

static bool has_steps(const range *range, int which) {
    for (uint32_t i = 0; i < range->n; i++)
        if (sample_at(range, i)->steps_of[which] > 0) return true;
    return false;
}

static void write_principals(json_out *out, const range *range, const identity *who) {
    uint32_t principals[METRICS_PRINCIPALS];
    const int n = metrics_get_principals(range->history->metrics, principals, NULL);
    json_out_object(out, "principals");
    for (int k = 0; k < n; k++) {
        char name[IDENTITY_NAME] = "";
        const bool is_rest = k == METRICS_PRINCIPALS - 1;
        const bool is_visible = role_operates(who->role) || (!is_rest && principals[k] == who->principal);
        if (!is_visible || !has_steps(range, k)) continue;
        if (!is_rest && principals[k]) guard_name(range->history->guard, principals[k], name);
        write_floats(out,
                     is_rest   ? "others"
                     : name[0] ? name
                               : "no principal",
                     range, offsetof(sample, steps_of) + (size_t)k * sizeof(float));
    }
    json_out_object_end(out);
}

void history_write(history *history, json_out *out, uint32_t seconds, const identity *who) {
    pthread_mutex_lock(&history->lock);
    const uint32_t kept = history->n < HISTORY_SECONDS ? history->n : HISTORY_SECONDS;
    range range = {.history = history, .n = kept < seconds ? kept : seconds};
    range.first = history->n - range.n;
    json_out_object(out, NULL);
    json_out_integer(out, "interval_s", 1);
    json_out_array(out, "time");
    for (uint32_t i = 0; i < range.n; i++) json_out_number(out, NULL, sample_at(&range, i)->time);
    json_out_array_end(out);
    json_out_object(out, "series");
    write_floats(out, "steps_per_s", &range, offsetof(sample, steps_per_s));
    write_floats(out, "latency_p50_ms", &range, offsetof(sample, p50_ms));
    write_floats(out, "latency_p99_ms", &range, offsetof(sample, p99_ms));
    write_integers(out, "queue", &range, offsetof(sample, queue));
    json_out_array(out, "memory_bytes");
    for (uint32_t i = 0; i < range.n; i++) json_out_integer(out, NULL, sample_at(&range, i)->memory);
    json_out_array_end(out);
    write_integers(out, "running_steps", &range, offsetof(sample, running));
    json_out_object(out, "phases_ms");
    for (unsigned p = 0; p < METRICS_PHASES; p++)
        write_floats(out, phase_names[p], &range, offsetof(sample, phase_ms) + p * sizeof(float));
    json_out_object_end(out);
    write_principals(out, &range, who);
    json_out_object_end(out);
    json_out_object_end(out);
    pthread_mutex_unlock(&history->lock);
}

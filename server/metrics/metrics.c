/* metrics.c - atomics for recording, and the Prometheus text made of the tables in metrics.h. */
#include "server/metrics/metrics.h"

#include <assert.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/metrics/process.h"

/* Upper bounds of the buckets, from a tiny step's phases to a stalled queue. */
static const double bounds[] = {5e-6, 1e-5,   2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3,
                                1e-2, 2.5e-2, 5e-2,   0.1,  0.25, 0.5,    1.0,  2.5,  10.0};
static_assert(sizeof bounds / sizeof bounds[0] == METRICS_BOUNDS, "bounds");
enum { N_BOUNDS = METRICS_BOUNDS, N_CODES = 32, N_WARNINGS = 16 };

static const char *const phase_names[METRICS_PHASES] = {"queue", "upload",  "broadphase", "raster",
                                                        "span",  "contact", "download"};

/* Batches: up to 1, 2, 4 ... 512 steps, and no batch has more. */
enum { N_SIZES = 10 };
static const char *const lane_names[2] = {"small", "large"};

typedef struct sizes {
    atomic_uint_fast64_t buckets[N_SIZES + 1];
    atomic_uint_fast64_t sum;
} sizes;

typedef struct histogram {
    atomic_uint_fast64_t buckets[N_BOUNDS + 1];
    atomic_uint_fast64_t sum_ns;
} histogram;

/* That the HTTP side answers with; any other counts to the last one's column. */
static const unsigned http_statuses[] = {200, 201, 202, 204, 400, 401, 403, 404, 405, 409, 411,
                                         412, 413, 415, 422, 429, 500, 501, 503, 504, 0};
enum { N_STATUSES = sizeof http_statuses / sizeof http_statuses[0] };

struct metrics {
    atomic_uint_fast64_t counters[METRICS_N_COUNTERS];
    atomic_uint_fast64_t gauges[METRICS_N_GAUGES]; /* a double's bits */
    atomic_uint_fast64_t errors[N_CODES];
    atomic_uint_fast64_t warnings[N_WARNINGS];
    histogram phases[METRICS_PHASES], wall[METRICS_PHASES];
    sizes batches[2];                                        /* by lane */
    histogram latencies[2];                                  /* by lane */
    atomic_uint_fast64_t principals[METRICS_PRINCIPALS - 1]; /* 1 + number; 0: free, as are those behind it */
    atomic_uint_fast64_t steps_of[METRICS_PRINCIPALS];
    atomic_uint_fast64_t http[METRICS_MAX_ROUTES][N_STATUSES];
    const char *const *routes;
    unsigned n_routes;
};

metrics *metrics_new(void) {
    return calloc(1, sizeof(metrics));
}

void metrics_free(metrics **metrics) {
    free(*metrics);
    *metrics = NULL;
}

static void add(atomic_uint_fast64_t *to, uint64_t amount) {
    atomic_fetch_add_explicit(to, amount, memory_order_relaxed);
}

static uint64_t value_of(const atomic_uint_fast64_t *from) {
    return atomic_load_explicit((atomic_uint_fast64_t *)(uintptr_t)from, memory_order_relaxed);
}

void metrics_add(metrics *metrics, metrics_counter counter, uint64_t amount) {
    add(&metrics->counters[counter], amount);
}

void metrics_set_counter(metrics *metrics, metrics_counter counter, uint64_t value) {
    atomic_store_explicit(&metrics->counters[counter], value, memory_order_relaxed);
}

uint64_t metrics_counter_value(const metrics *metrics, metrics_counter counter) {
    return value_of(&metrics->counters[counter]);
}

void metrics_count_error(metrics *metrics, contactd_code code) {
    if (code != CONTACTD_OK && (unsigned)code < N_CODES) add(&metrics->errors[code], 1);
}

void metrics_count_warning(metrics *metrics, ct_warning_code code) {
    if ((unsigned)code < N_WARNINGS) add(&metrics->warnings[code], 1);
}

void metrics_set(metrics *metrics, metrics_gauge gauge, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    atomic_store_explicit(&metrics->gauges[gauge], bits, memory_order_relaxed);
}

void metrics_observe(metrics_tally *tally, double seconds) {
    if (!(seconds >= 0)) return;
    unsigned i = 0;
    while (i < N_BOUNDS && seconds > bounds[i]) i++;
    tally->buckets[i]++;
    tally->sum_ns += (uint64_t)(seconds * 1e9 + 0.5);
}

static void add_tally(histogram *to, const metrics_tally *tally) {
    for (unsigned i = 0; i <= N_BOUNDS; i++)
        if (tally->buckets[i]) add(&to->buckets[i], tally->buckets[i]);
    add(&to->sum_ns, tally->sum_ns);
}

void metrics_add_steps(metrics *metrics, bool large, metrics_steps *steps) {
    for (unsigned p = 0; p < METRICS_PHASES; p++) {
        add_tally(&metrics->phases[p], &steps->phases[p]);
        add_tally(&metrics->wall[p], &steps->wall[p]);
    }
    add_tally(&metrics->latencies[large], &steps->latencies);
    add(&metrics->counters[METRICS_STEPS], steps->steps);
    add(&metrics->counters[METRICS_CONTACTS], steps->contacts);
    add(&metrics->counters[METRICS_RAYS], steps->rays);
    add(&metrics->counters[METRICS_FRAGMENTS], steps->fragments);
    *steps = (metrics_steps){0};
}

void metrics_get_latencies(const metrics *metrics, bool large, metrics_latencies *out) {
    const histogram *from = &metrics->latencies[large];
    *out = (metrics_latencies){.bounds_s = bounds, .sum_s = (double)value_of(&from->sum_ns) * 1e-9};
    for (unsigned i = 0; i <= N_BOUNDS; i++) out->steps += out->counts[i] = value_of(&from->buckets[i]);
}

double metrics_phase_seconds(const metrics *metrics, unsigned phase) {
    return 1e-9 * (double)value_of(&metrics->phases[phase].sum_ns);
}

void metrics_count_principal(metrics *metrics, uint32_t principal, uint64_t steps) {
    int i = 0;
    for (; i < METRICS_PRINCIPALS - 1; i++) {
        uint_fast64_t there = atomic_load_explicit(&metrics->principals[i], memory_order_relaxed);
        if (!there) atomic_compare_exchange_strong(&metrics->principals[i], &there, (uint_fast64_t)principal + 1);
        if (!there || there == (uint_fast64_t)principal + 1) break;
    }
    add(&metrics->steps_of[i], steps);
}

int metrics_get_principals(const metrics *metrics, uint32_t principals[METRICS_PRINCIPALS],
                           uint64_t steps[METRICS_PRINCIPALS]) {
    int n = 0;
    for (int i = 0; i < METRICS_PRINCIPALS; i++) {
        const uint64_t who = i < METRICS_PRINCIPALS - 1 ? value_of(&metrics->principals[i]) : 0;
        const uint64_t count = value_of(&metrics->steps_of[i]);
        if (who || count) n = i + 1;
        if (principals) principals[i] = who ? (uint32_t)(who - 1) : 0;
        if (steps) steps[i] = count;
    }
    return n;
}

void metrics_name_routes(metrics *metrics, const char *const *names, unsigned n) {
    metrics->routes = names;
    metrics->n_routes = n < METRICS_MAX_ROUTES ? n : METRICS_MAX_ROUTES;
}

void metrics_count_http(metrics *metrics, unsigned route, unsigned status) {
    unsigned i = 0;
    while (i + 1 < N_STATUSES && http_statuses[i] != status) i++;
    if (route < metrics->n_routes) add(&metrics->http[route][i], 1);
}

void metrics_count_batch(metrics *metrics, bool large, uint64_t steps) {
    sizes *sizes = &metrics->batches[large];
    unsigned i = 0;
    while (i < N_SIZES && steps > UINT64_C(1) << i) i++;
    add(&sizes->buckets[i], 1);
    add(&sizes->sum, steps);
    add(&metrics->counters[large ? METRICS_LARGE_STEPS : METRICS_SMALL_STEPS], steps);
}

/* ---- the text ---- */

typedef struct row {
    const char *name, *label, *help;
} row;

static const row counter_rows[] = {
#define ROW(id, name, label, help) {name, label, help},
    METRICS_COUNTERS(ROW)};
static const row gauge_rows[] = {METRICS_GAUGES(ROW)};
#undef ROW

static void head(FILE *out, const char *name, const char *type, const char *help) {
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void sample_name(FILE *out, const row *row) {
    fputs(row->name, out);
    if (row->label[0]) fprintf(out, "{%s}", row->label);
}

static void write_errors(const metrics *metrics, FILE *out) {
    static const struct {
        const char *name;
        unsigned number;
    } codes[] = {
#define CODE(name, number, http, retry, text) {#name, number},
        CONTACTD_ERROR_MAP(CODE)
#undef CODE
    };
    head(out, "contactd_errors_total", "counter", "Requests answered with an error");
    for (size_t i = 1; i < sizeof codes / sizeof codes[0]; i++) {
        fprintf(out, "contactd_errors_total{code=\"%s\"} %" PRIu64 "\n", codes[i].name,
                value_of(&metrics->errors[codes[i].number]));
    }
}

static void write_warnings(const metrics *metrics, FILE *out) {
    static const ct_warning_code codes[] = {
#define CODE(name, number, text) CT_WARNING_##name,
        CT_WARNING_MAP(CODE)
#undef CODE
    };
    head(out, "contactd_step_warnings_total", "counter", "Warnings of steps: one for each body and step concerned");
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        fprintf(out, "contactd_step_warnings_total{code=\"%s\"} %" PRIu64 "\n", ct_warning_name(codes[i]),
                value_of(&metrics->warnings[codes[i]]));
    }
}

/* label: e.g. phase="raster". */
static void write_histogram(FILE *out, const char *name, const char *label, const histogram *histogram) {
    uint64_t count = 0;
    for (unsigned i = 0; i < N_BOUNDS; i++) {
        count += value_of(&histogram->buckets[i]);
        fprintf(out, "%s_bucket{%s,le=\"%g\"} %" PRIu64 "\n", name, label, bounds[i], count);
    }
    count += value_of(&histogram->buckets[N_BOUNDS]);
    fprintf(out, "%s_bucket{%s,le=\"+Inf\"} %" PRIu64 "\n", name, label, count);
    fprintf(out, "%s_sum{%s} %.9f\n", name, label, (double)value_of(&histogram->sum_ns) * 1e-9);
    fprintf(out, "%s_count{%s} %" PRIu64 "\n", name, label, count);
}

static void write_phases(const histogram phases[METRICS_PHASES], const char *name, const char *help, FILE *out) {
    char label[64];
    head(out, name, "histogram", help);
    for (unsigned p = 0; p < METRICS_PHASES; p++) {
        snprintf(label, sizeof label, "phase=\"%s\"", phase_names[p]);
        write_histogram(out, name, label, &phases[p]);
    }
}

static void write_latencies(const metrics *metrics, FILE *out) {
    const char *name = "contactd_step_latency_seconds";
    char label[64];
    head(out, name, "histogram", "From a step's message to its result, by lane");
    for (unsigned lane = 0; lane < 2; lane++) {
        snprintf(label, sizeof label, "lane=\"%s\"", lane_names[lane]);
        write_histogram(out, name, label, &metrics->latencies[lane]);
    }
}

/* Only what was counted: most routes have few of the statuses. */
static void write_http(const metrics *metrics, FILE *out) {
    head(out, "contactd_http_requests_total", "counter", "Requests over HTTP that were answered, by route and status");
    for (unsigned route = 0; route < metrics->n_routes; route++) {
        for (unsigned i = 0; i < N_STATUSES; i++) {
            uint64_t n = value_of(&metrics->http[route][i]);
            char status[12] = "other";
            if (http_statuses[i]) snprintf(status, sizeof status, "%u", http_statuses[i]);
            if (n)
                fprintf(out, "contactd_http_requests_total{route=\"%s\",status=\"%s\"} %" PRIu64 "\n",
                        metrics->routes[route], status, n);
        }
    }
}

static void write_build(FILE *out) {
    head(out, "contactd_build_info", "gauge", "1: which build this is");
    fputs("contactd_build_info{version=\"" CONTACTD_VERSION "\",compiler=\"" __VERSION__ "\"} 1\n", out);
}

static void write_batches(const metrics *metrics, FILE *out) {
    const char *name = "contactd_batch_steps";
    head(out, name, "histogram", "Steps of the batches that ran, by lane");
    for (unsigned lane = 0; lane < 2; lane++) {
        const sizes *sizes = &metrics->batches[lane];
        uint64_t count = 0;
        for (unsigned i = 0; i < N_SIZES; i++) {
            count += value_of(&sizes->buckets[i]);
            fprintf(out, "%s_bucket{lane=\"%s\",le=\"%u\"} %" PRIu64 "\n", name, lane_names[lane], 1u << i, count);
        }
        count += value_of(&sizes->buckets[N_SIZES]);
        fprintf(out, "%s_bucket{lane=\"%s\",le=\"+Inf\"} %" PRIu64 "\n", name, lane_names[lane], count);
        fprintf(out, "%s_sum{lane=\"%s\"} %" PRIu64 "\n", name, lane_names[lane], value_of(&sizes->sum));
        fprintf(out, "%s_count{lane=\"%s\"} %" PRIu64 "\n", name, lane_names[lane], count);
    }
}

static void label_value(FILE *out, const char *text) {
    for (; *text; text++) {
        if (*text == '\\' || *text == '"') fputc('\\', out);
        if (*text == '\n') {
            fputs("\\n", out);
        } else {
            fputc(*text, out);
        }
    }
}

static void write_devices(const ct_engine_facts *devices, size_t n, FILE *out) {
    head(out, "contactd_device_info", "gauge", "1 for each device: what computes on it");
    for (size_t i = 0; i < n; i++) {
        fprintf(out, "contactd_device_info{device=\"%zu\",backend=\"%s\",rasterizer=\"%s\",name=\"", i,
                devices[i].backend, devices[i].rasterizer);
        label_value(out, devices[i].device);
        fputs("\"} 1\n", out);
    }
#define ROW(member, name, type, help)                                                                                  \
    head(out, name, type, help);                                                                                       \
    for (size_t i = 0; i < n; i++)                                                                                     \
        fprintf(out, "%s{device=\"%zu\"} %" PRIu64 "\n", name, i, (uint64_t)devices[i].member);
    METRICS_DEVICES(ROW)
#undef ROW
}

char *metrics_text(const metrics *metrics, const ct_engine_facts *devices, size_t n_devices, size_t *size) {
    char *text = NULL;
    FILE *out = open_memstream(&text, size);
    if (!out) return NULL;
    for (unsigned i = 0; i < METRICS_N_COUNTERS; i++) {
        const row *row = &counter_rows[i];
        if (i == 0 || strcmp(row->name, counter_rows[i - 1].name) != 0) head(out, row->name, "counter", row->help);
        sample_name(out, row);
        fprintf(out, " %" PRIu64 "\n", value_of(&metrics->counters[i]));
    }
    for (unsigned i = 0; i < METRICS_N_GAUGES; i++) {
        uint64_t bits = value_of(&metrics->gauges[i]);
        double value;
        memcpy(&value, &bits, sizeof value);
        if (i == 0 || strcmp(gauge_rows[i].name, gauge_rows[i - 1].name) != 0) {
            head(out, gauge_rows[i].name, "gauge", gauge_rows[i].help);
        }
        sample_name(out, &gauge_rows[i]);
        fprintf(out, " %.17g\n", value);
    }
    write_devices(devices, n_devices, out);
    write_errors(metrics, out);
    write_warnings(metrics, out);
    write_phases(metrics->phases, "contactd_phase_seconds",
                 "Time of a step by phase: waiting, then the engine's, summed over its threads", out);
    write_phases(metrics->wall, "contactd_phase_wall_seconds",
                 "Time of a step by phase, by the clock: waiting, then its part of the time that its batch took", out);
    write_batches(metrics, out);
    write_latencies(metrics, out);
    write_http(metrics, out);
    write_build(out);
    process_write(out);
    bool failed = ferror(out) != 0;
    if (fclose(out) != 0 || failed) {
        free(text);
        return NULL;
    }
    return text;
}

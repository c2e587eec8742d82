/* engine.c - what the scenes of bench_engine share. */
#include "tests/bench/engine.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *meshes_dir = "../shared/meshes", *backend = "cpu", *only;
double seconds_per_run = 3;
unsigned max_threads = 2;
bool was_wanted;

void die(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("bench_engine: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

static double read_number(const char *option, const char *text, double least, double most) {
    char *end;
    const double value = strtod(text, &end);
    if (end == text || *end || !(value >= least && value <= most)) die("%s %s: %g to %g", option, text, least, most);
    return value;
}

void read_options(int argc, char **argv) {
    for (int i = 1; i < argc; i += 2) {
        const char *option = argv[i], *value = argv[i + 1]; /* argv ends with NULL */
        const bool is_help = strcmp(option, "--help") == 0;
        if (is_help || !value) {
            fputs("usage: bench_engine [--backend cpu|cuda] [--only SCENE] [--meshes DIR] [--seconds S] "
                  "[--threads N]\n",
                  is_help ? stdout : stderr);
            exit(is_help ? 0 : 2);
        }
        if (!strcmp(option, "--meshes"))
            meshes_dir = value;
        else if (!strcmp(option, "--seconds"))
            seconds_per_run = read_number(option, value, 0, 1e6);
        else if (!strcmp(option, "--backend"))
            backend = value;
        else if (!strcmp(option, "--only"))
            only = value;
        else if (!strcmp(option, "--threads"))
            max_threads = (unsigned)read_number(option, value, 1, 1024);
        else
            die("unknown option %s", option);
    }
}

bool is_wanted(const char *scene) {
    const bool wanted = !only || strcmp(only, scene) == 0;
    was_wanted = was_wanted || wanted;
    return wanted;
}

ct_mesh *read_mesh_file(const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", meshes_dir, name);
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    void *bytes = malloc((size_t)size);
    if (!bytes || fread(bytes, 1, (size_t)size, file) != (size_t)size) die("cannot read %s", path);
    fclose(file);
    ct_mesh_limits limits;
    ct_mesh_limits_init(&limits);
    ct_error error = {0};
    ct_mesh *mesh = NULL;
    if (ct_mesh_read(bytes, (size_t)size, CT_FORMAT_AUTO, &limits, &mesh, &error)) die("%s: %s", path, error.message);
    free(bytes);
    return mesh;
}

ct_engine *make_engine(const runner *runner) {
    ct_error error = {0};
    ct_engine_options options;
    ct_engine_options_init(&options);
    options.backend = runner->backend;
    options.threads = runner->threads;
    options.simd = runner->simd;
    if (runner->rasterizer) options.rasterizer = runner->rasterizer;
    options.devices = "0";
    ct_engine *engine = NULL;
    if (ct_engine_create(&options, &engine, &error) == CT_OK) return engine;
    fprintf(stderr, "bench_engine: %s\n", error.message);
    exit(error.status == CT_UNSUPPORTED ? NO_BACKEND : 1);
}

/* ---- the outcome of a run ---- */

void add_result(run_totals *totals, const ct_result *result) {
    for (int p = 0; p < CT_PHASES; p++) totals->phases[p] += result->seconds[p];
    totals->rays += result->rays;
    totals->fragments += result->fragments;
    totals->contacts += result->n_contacts;
    totals->entries += result->n_entries;
    totals->cells += result->n_cells;
    for (size_t c = 0; c < result->n_contacts; c++) totals->volume += result->contacts[c].volume;
}

static uint64_t hash_bytes(uint64_t hash, const void *data, size_t size) {
    const unsigned char *bytes = data;
    for (size_t i = 0; i < size; i++) hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}

void hash_result(run_totals *totals, const ct_result *result) {
    uint64_t hash = totals->hash ? totals->hash : 0xcbf29ce484222325u;
    for (size_t c = 0; c < result->n_contacts; c++)
        hash = hash_bytes(hash, result->contacts[c].volumes, sizeof result->contacts[c].volumes);
    for (size_t c = 0; c < result->n_contacts && result->vertices; c++) { /* not those of cells: others have none */
        const ct_contact *of = &result->contacts[c];
        hash =
            hash_bytes(hash, result->vertices + of->first[0], (of->count[0] + of->count[1]) * sizeof *result->vertices);
    }
    for (size_t c = 0; c < result->n_contacts && result->gradient; c++) {
        const ct_contact *of = &result->contacts[c];
        hash = hash_bytes(hash, result->gradient + 3 * of->first[0],
                          3 * (of->count[0] + of->count[1]) * sizeof *result->gradient);
    }
    if (result->n_products) {
        const uint64_t n = 3 * (uint64_t)result->n_directions * result->n_products;
        hash = hash_bytes(hash, result->products, n * sizeof *result->products);
    }
    for (size_t c = 0; c < result->n_contacts && result->want & CT_WANT_INERTIA; c++)
        hash = hash_bytes(hash, result->contacts[c].inertia, sizeof result->contacts[c].inertia);
    totals->hash = hash;
}

void print_run(const run_label *label, ct_engine *engine, run_totals *totals, const char *more) {
    ct_engine_facts facts;
    const ct_engine_facts *before = &totals->before;
    ct_engine_get_facts(engine, 0, &facts);
    bench_samples *ms = &totals->ms;
    double n = (double)ms->count;
    printf("{\"method\":\"%s\",", ct_method_name(label->method ? label->method : CT_METHOD_LDI));
    printf("\"backend\":\"%s\",\"scene\":\"%s\",\"bodies\":[\"%s\",\"%s\"],\"triangles\":[%llu,%llu],\"scenes\":%zu,"
           "\"resolution\":[%u,%u,%u],\"rasterizer\":\"%s\",\"simd\":\"%s\",\"threads\":%u,\"device\":\"%s\","
           "\"samples\":%zu,",
           facts.backend, label->scene, label->bodies[0], label->bodies[1], (unsigned long long)label->triangles[0],
           (unsigned long long)label->triangles[1], label->n_scenes, label->resolution[0], label->resolution[1],
           label->resolution[2], facts.rasterizer, facts.simd, facts.threads, facts.device, ms->count);
    printf("\"ms\":{\"p10\":%.6g,\"median\":%.6g,\"p90\":%.6g},\"phases_ms\":{", bench_quantile(ms, 0.1),
           bench_quantile(ms, 0.5), bench_quantile(ms, 0.9));
    for (int p = 0; p < CT_PHASES; p++)
        printf("%s\"%s\":%.6g", p ? "," : "", ct_phase_name((ct_phase)p), 1e3 * totals->phases[p] / n);
    printf(
        "},\"rays\":%.6g,\"fragments\":%.6g,\"contacts\":%.6g,\"cells\":%.6g,\"gradient_entries\":%.6g,\"volume\":%.9g,"
        "\"scratch_bytes\":%llu,\"launches\":%.6g,\"uploaded\":%.6g,\"downloaded\":%.6g,"
        "\"clusters\":%.6g,\"near_clusters\":%.6g,\"hash\":\"%016llx\"%s}\n",
        (double)totals->rays / n, (double)totals->fragments / n, (double)totals->contacts / n,
        (double)totals->cells / n, (double)totals->entries / n, totals->volume / n,
        (unsigned long long)facts.scratch_peak, (double)(facts.launches - before->launches) / n,
        (double)(facts.uploaded - before->uploaded) / n, (double)(facts.downloaded - before->downloaded) / n,
        (double)(facts.clusters - before->clusters) / n, (double)(facts.near_clusters - before->near_clusters) / n,
        (unsigned long long)totals->hash, more);
    fflush(stdout);
}

/* samples.c - the benches' clock and order statistics. */
#include "tests/bench/samples.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

double bench_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void bench_add(bench_samples *samples, double value) {
    if (samples->count == samples->capacity) {
        samples->capacity = samples->capacity ? 2 * samples->capacity : 1024;
        samples->values = realloc(samples->values, samples->capacity * sizeof *samples->values);
        if (!samples->values) abort();
    }
    samples->values[samples->count++] = value;
}

void bench_clear(bench_samples *samples) {
    samples->count = 0;
}

void bench_free(bench_samples *samples) {
    free(samples->values);
    *samples = (bench_samples){0};
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_quantile(bench_samples *samples, double q) {
    if (!samples->count) return 0;
    qsort(samples->values, samples->count, sizeof *samples->values, ascending);
    size_t rank = (size_t)ceil(q * (double)samples->count);
    return samples->values[rank ? rank - 1 : 0];
}

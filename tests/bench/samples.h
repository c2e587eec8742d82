/* samples.h - the benches' clock and order statistics. */
#ifndef BENCH_SAMPLES_H
#define BENCH_SAMPLES_H

#include <stddef.h>

double bench_now(void); /* s, monotonic */

typedef struct bench_samples {
    double *values;
    size_t count, capacity;
} bench_samples;

void bench_add(bench_samples *samples, double value); /* aborts when out of memory */
void bench_clear(bench_samples *samples);             /* keeps the memory */
void bench_free(bench_samples *samples);

/* The value that the fraction q of the samples does not exceed (nearest rank); sorts the samples. 0 where there is
 * none. */
double bench_quantile(bench_samples *samples, double q);

#endif

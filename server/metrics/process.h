/* process.h - the process's own metrics, named as Prometheus' client libraries name them. For metrics.c. */
#ifndef SERVER_METRICS_PROCESS_H
#define SERVER_METRICS_PROCESS_H

#include <stdio.h>

/* Reads /proc; what cannot be read is left out. */
void process_write(FILE *out);

#endif

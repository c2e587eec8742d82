/* jobs.h - a few threads for work that would hold up the I/O thread, behind a bounded queue. */
#ifndef SERVER_JOBS_H
#define SERVER_JOBS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct jobs jobs;
typedef void job_function(void *argument);

jobs *jobs_start(unsigned threads, unsigned capacity);             /* NULL: out of memory or threads */
bool jobs_add(jobs *jobs, job_function *function, void *argument); /* false: the queue is full */
void jobs_stop(jobs **jobs); /* after the queued ones have run; NULL inside is allowed */

#endif

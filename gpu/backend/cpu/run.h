/* run.h - a job while it is computed: what job.c, which takes it to sums, and finish.c, which makes the answer of
 * these, share. */
#ifndef CT_CPU_RUN_H
#define CT_CPU_RUN_H

#include <stdatomic.h>

#include "gpu/backend/cpu/device.h"

enum { CT_RUN_VERTICES = 1 << 14 }; /* in a chunk */

/* What is made of the sums of a chunk of one body's vertices. */
typedef struct ct_gathered {
    size_t first, count; /* entries */
    ct_moments moments;
    ct_barycentre barycentre;
} ct_gathered;

typedef struct ct_run {
    ct_device *device;
    ct_lane *lane;
    ct_job *job;
    uint32_t driver; /* the worker whose pair scratch is used */
    bool spread;
    uint32_t first_worker, end_worker; /* the workers that may have a part in it; others may be busy with other jobs */
    bool sparse;                       /* coordinates of the corners of kept triangles only */
    ct_placed placed[2];
    uint32_t vertices[2], vertex_chunks[2], triangle_chunks[2];
    const uint32_t *triangles[2];
    int first;          /* the body that is rasterised first: the finer one, as it tells best where the other matters */
    atomic_bool failed; /* for want of memory, unless status says otherwise */
    ct_status status;
    uint32_t tile; /* of the first of the job's tiles, when patches are made */
    /* When the bands are done: */
    ct_sums *parts[CT_MAX_THREADS]; /* of the threads that had a part in it */
    uint32_t n_parts;
    ct_gathered *gathered; /* per chunk, body 0's first */
    int has_normal;        /* the contact */
} ct_run;

/* Tasks 0 to n - 1, on all threads if the job is spread. */
static inline void ct_run_spread(ct_run *run, uint32_t n, ct_task task) {
    if (run->spread)
        ct_pool_run(run->device->pool, n, task, run);
    else
        for (uint32_t i = 0; i < n; i++) task(run, i, run->driver);
}

/* Vertices that there is room for wherever a body has something for each: whole CT_MARKED. */
static inline size_t ct_run_room(const ct_run *run, int body) {
    return ((size_t)run->vertices[body] + CT_MARKED - 1) / CT_MARKED * CT_MARKED;
}

/* Makes the job's answer of the sums, and clears them. What has failed so far has none. */
void ct_run_finish(ct_run *run);

#endif

/* run.h - a job while it is computed: what job.c, which takes it to sums, and finish.c, which makes the answer of
 * these, share. */
#ifndef CT_PAIR_CONTEXT_H
#define CT_PAIR_CONTEXT_H

#include <stdatomic.h>

#include "gpu/backend/cpu/device.h"

enum { CT_PAIR_VERTEX_CHUNK = 1 << 14 }; /* in a chunk */

/* What is made of the sums of a chunk of one body's vertices. */
typedef struct ct_compacted_chunk {
    size_t first, count; /* entries */
    ct_moments moments;
    ct_barycentre barycentre;
} ct_compacted_chunk;

typedef struct ct_pair_context {
    ct_device *device;
    ct_workspace *workspace;
    ct_pair_task *job;
    uint32_t driver; /* the worker whose pair scratch is used */
    bool spread;
    uint32_t first_worker, end_worker; /* the workers that may have a part in it; others may be busy with other jobs */
    bool sparse;                       /* coordinates of the corners of kept triangles only */
    ct_snapped_body placed[2];
    uint32_t vertices[2], vertex_chunks[2], triangle_chunks[2];
    const uint32_t *triangles[2];
    int first;          /* the body that is rasterised first: the finer one, as it tells best where the other matters */
    atomic_bool failed; /* for want of memory, unless status says otherwise */
    ct_status status;
    uint32_t tile; /* of the first of the job's tiles, when patches are made */
    /* When the bands are done: */
    ct_contact_sums *parts[CT_MAX_THREADS]; /* of the threads that had a part in it */
    uint32_t n_parts;
    ct_compacted_chunk *gathered; /* per chunk, body 0's first */
    int has_normal;               /* the contact */
} ct_pair_context;

/* Tasks 0 to n - 1, on all threads if the job is spread. */
static inline void ct_pair_parallel_for(ct_pair_context *run, uint32_t n, ct_pool_fn task) {
    if (run->spread)
        ct_pool_run(run->device->pool, n, task, run);
    else
        for (uint32_t i = 0; i < n; i++) task(run, i, run->driver);
}

/* Vertices that there is room for wherever a body has something for each: whole CT_VERTEX_BLOCK. */
static inline size_t ct_padded_vertices(const ct_pair_context *run, int body) {
    return ((size_t)run->vertices[body] + CT_VERTEX_BLOCK - 1) / CT_VERTEX_BLOCK * CT_VERTEX_BLOCK;
}

/* Makes the job's answer of the sums, and clears them. What has failed so far has none. */
void ct_pair_finish(ct_pair_context *run);

#endif

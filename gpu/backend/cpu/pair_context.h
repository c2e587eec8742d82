/* pair_context.h - the state of a pair while it is computed, shared by compute_pair.c, which computes its sums, and
 * finish_pair.c, which turns the sums into contacts. */
#ifndef CT_PAIR_CONTEXT_H
#define CT_PAIR_CONTEXT_H

#include <stdatomic.h>

#include "gpu/backend/cpu/device.h"
#include "gpu/mesh/mesh.h"

/* Vertices, and triangles, that one task processes: large enough to amortise a task, small enough to spread a mesh of
 * 100k triangles over several threads. */
enum { CT_PAIR_VERTEX_CHUNK = 1 << 14, CT_PAIR_TRIANGLE_CHUNK = 1 << 14 };

/* What needs the sums of single vertices. */
enum { CT_WANT_ENTRIES = CT_WANT_FRAME | CT_WANT_GRADIENT | CT_WANT_FRICTION | CT_WANT_FORCES };

/* The sums of a chunk of one body's vertices, compacted. */
typedef struct ct_compacted_chunk {
    size_t first, count; /* entries */
    ct_moments moments;
    ct_barycentre barycentre;
} ct_compacted_chunk;

typedef struct ct_pair_context {
    ct_device *device;
    ct_workspace *workspace;
    ct_pair_task *pair;
    uint32_t driver; /* the worker whose pair scratch is used */
    bool is_spread;
    uint32_t first_worker, end_worker; /* the workers that may take part; others may be busy with other pairs */
    bool is_sparse;                    /* coordinates are written of the corners of kept triangles only */
    bool lists_vertices[2];            /* vertices are snapped cluster by cluster: few of the body's matter */
    ct_snapped_body snapped[2];
    ct_near near[2];                /* what may matter of each body */
    const ct_triangle_run *runs[2]; /* its triangles, [near.n_runs] */
    const uint32_t *chunk_runs[2];  /* first run of each chunk of triangles, [triangle_chunks + 1] */
    uint32_t vertices[2], vertex_chunks[2], triangle_chunks[2];
    ct_span_options options;
    ct_cell_grid grid;      /* with a cell_size; then options.grid points to it */
    int first_body;         /* rasterised first: the finer one, which limits best where the other matters */
    atomic_bool has_failed; /* out of memory, unless status says otherwise */
    ct_status status;
    uint32_t region; /* of the first of the pair's regions, when patches are made */
    /* In the contact stage, for the current contact: */
    ct_pair_contact *contact;
    ct_contact_sums *partial_sums[CT_MAX_THREADS]; /* its sums, one set per thread that computed spans */
    uint32_t n_partial_sums;
    int64_t spans[3];                  /* its spans per view */
    const uint64_t *parts;             /* of a body with itself, with cells: a bit per vertex, set in part 1 */
    const struct cell_sort *cell_sort; /* while cells are finished */
    ct_compacted_chunk *compacted;     /* per chunk, body 0's first */
    int has_normal;
} ct_pair_context;

/* Runs tasks 0 to n - 1, on all threads if the pair is spread. */
static inline void ct_pair_parallel_for(ct_pair_context *context, uint32_t n, ct_pool_fn task) {
    if (context->is_spread)
        ct_pool_run(context->workspace->pool, n, task, context);
    else
        for (uint32_t i = 0; i < n; i++) task(context, i, context->driver);
}

static inline ct_thread_scratch *ct_pair_driver(const ct_pair_context *context) {
    return &context->workspace->workers[context->driver];
}

/* A body's vertices, padded to whole CT_VERTEX_BLOCKs, as per-vertex arrays are. */
static inline size_t ct_padded_vertices(const ct_pair_context *context, int body) {
    return ((size_t)context->vertices[body] + CT_VERTEX_BLOCK - 1) / CT_VERTEX_BLOCK * CT_VERTEX_BLOCK;
}

static inline uint32_t ct_all_vertex_chunks(const ct_pair_context *context) {
    return context->vertex_chunks[0] + context->vertex_chunks[1];
}

static inline uint32_t ct_all_triangle_chunks(const ct_pair_context *context) {
    return context->triangle_chunks[0] + context->triangle_chunks[1];
}

/* What a body's vertices are, in its own frame or the world's, and the pose that takes them to the world, or NULL. */
static inline const float *ct_body_positions(const ct_body *body) {
    return body->kind == CT_BODY_RIGID ? body->mesh->positions : body->resident->positions;
}

static inline const double *ct_body_pose(const ct_body *body) {
    return body->kind == CT_BODY_RIGID ? body->pose : NULL;
}

/* compute_pair.c: */
ct_pair_context ct_pair_context_of(ct_workspace *workspace, ct_pair_task *pair, uint32_t worker, bool is_spread);
/* Sets the options, and what ct_pair_finish needs of the vertices; their coordinates are memory still to be written.
 * False: out of memory. */
bool ct_pair_prepare_vertices(ct_pair_context *context);
/* Gives the worker's sums to this pair. They are all zero; so memory that has to grow is zeroed. False: out of memory.
 */
bool ct_pair_prepare_sums(ct_pair_context *context, ct_thread_scratch *worker);

/* Turns the sums into the pair's contacts, and clears them. After a failure it only clears. */
void ct_pair_finish(ct_pair_context *context);

/* finish_cells.c: */
/* Places the walls of the pair's cells. False: out of memory. */
bool ct_pair_place_walls(ct_pair_context *context);
/* For a body with itself, while context->partial_sums[0] has both parts' sums: keeps which vertices are part 1. False:
 * out of memory. */
bool ct_pair_keep_parts(ct_pair_context *context);
/* Adds its cells to context->contact, whose sums are cleared: from what these n threads collected. */
void ct_pair_finish_cells(ct_pair_context *context, ct_thread_scratch *const *contributors, uint32_t n);

/* The point that a body's torques are about: a rigid body's translation, else 0 0 0. */
static inline void ct_pair_origin(const ct_body *body, double origin[3]) {
    for (int k = 0; k < 3; k++) origin[k] = body->kind == CT_BODY_RIGID ? body->pose[4 * k + 3] : 0;
}

#endif

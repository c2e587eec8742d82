/* pair_cpu.h - rays on the CPU: the slots of the method LDI, and the state of a pair while it is computed, shared by
 * pair_cpu.c, which computes its sums, and finish_cpu.c, which turns the sums into contacts. EBPI uses both. */
#ifndef CT_PAIR_CONTEXT_H
#define CT_PAIR_CONTEXT_H

#include <stdatomic.h>

#include "gpu/mesh/mesh.h"
#include "gpu/method/device_cpu.h"
#include "gpu/methods/ldi/raster_gl.h"
#include "gpu/methods/ldi/span_cpu.h"
#include "gpu/view/turned_k.h"

/* ---- slots ---- */

typedef struct ct_ldi_kernels {
    const ct_bin_cpu *bin;
    const ct_raster_cpu *raster;
    const ct_span_cpu *span;
} ct_ldi_kernels;

/* Draws a batch's quads. As ct_raster_gl_draw. */
typedef ct_status (*ct_draw_fn)(ct_workspace *workspace, ct_drawing *drawing, ct_error *error);

typedef struct ct_ldi_device {
    ct_draw_fn draw;          /* NULL: the CPU rasterises by itself */
    struct ct_gl_context *gl; /* NULL where OpenGL does not draw */
} ct_ldi_device;

typedef struct ct_ldi_workspace {
    ct_raster_gl *gl;  /* NULL where OpenGL does not draw */
    ct_buffer regions; /* of a drawing of several pairs */
} ct_ldi_workspace;

/* Sums of one cell at a time (finish_cells_cpu.c). All but the compact arrays are zero between cells. */
enum { CT_CELL_SUM = 4 }; /* per vertex: of each view, and one unused, so that none is in two lines of a cache */
typedef struct ct_cell_sums {
    ct_buffer sums[2];    /* per part: int64_t [vertices][CT_CELL_SUM] */
    ct_buffer touched[2]; /* per part: a bit per vertex, then one for each word of these */
    ct_buffer compact;    /* of the touched vertices alone: planes, coordinates, flags, vertices */
} ct_cell_sums;

/* One thread's scratch. */
typedef struct ct_ldi_scratch {
    /* A pair on its lattice, for the thread that drives the pair: */
    ct_buffer coords[2], cells[2], runs[2], front_runs, front_winding[2], chunk_memory, compacted;
    ct_binned_chunk *chunks;
    size_t n_chunks;   /* that have memory of their own, which is freed in the end */
    ct_quads quads[2]; /* for OpenGL: made by this thread, of bodies drawn first, and second */
    /* A chunk of triangles, then a bin: */
    ct_bin_scratch binning;
    ct_ray_lists rays;
    ct_span_scratch span;
    ct_cell_sums cell_sums;
    ct_buffer walls, parts, cell_order; /* of the pair's cells, for the thread that drives the pair */
    /* The sums of the pair's contacts, or this thread's part of them: */
    ct_buffer sums_memory, gradient_memory[2], touched_memory[2];
    ct_contact_sums *sums; /* [the pair's n_contacts] */
    uint64_t sums_pair;    /* number of the pair task that sums belong to; 0: none, and all are zero */
    uint64_t rays_cast, fragments;
    double raster_seconds, span_seconds;
} ct_ldi_scratch;

/* What is planned of a pair whose bodies meet along rays. */
typedef struct ct_ray_plan {
    ct_box part; /* of the overlap of the bodies' boxes, m, world: what the window spans */
    ct_binned_tile tiles[3];
    ct_bin_plan bins;
    ct_span_rule rule;
    ct_cell_axis cells[3];       /* the pair's grid, without its walls */
    ct_turned_views turned;      /* the axes of the method EBPI's views */
    ct_view_error view_error[3]; /* of methods that bound the error of each view */
    bool has_view_errors;
    /* If OpenGL draws: rays of bins [first_bin, end_bin) are in the drawing. first_ray: per view, the index in the
     * drawing that the ray of the view's first row has, or would have. */
    const ct_drawing *drawing;
    uint32_t first_bin, end_bin;
    int64_t first_ray[3];
} ct_ray_plan;

static inline const ct_ldi_kernels *ct_ldi_kernels_of(const ct_device *device) {
    return device->kernels_of_method[CT_METHOD_LDI];
}

static inline ct_ldi_device *ct_ldi_device_of(const ct_device *device) {
    return device->of_method[CT_METHOD_LDI];
}

static inline ct_ldi_workspace *ct_ldi_workspace_of(const ct_workspace *workspace) {
    return workspace->of_method[CT_METHOD_LDI];
}

static inline ct_ldi_scratch *ct_ldi_scratch_of(const ct_workspace *workspace, uint32_t worker) {
    return workspace->workers[worker].of_method[CT_METHOD_LDI];
}

/* ---- a pair ---- */

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
    ct_ray_plan *plan; /* the pair's */
    uint32_t driver;   /* the worker whose pair scratch is used */
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
    uint32_t region; /* of the first of the pair's regions, when quads are made */
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

static inline ct_ldi_scratch *ct_pair_driver(const ct_pair_context *context) {
    return ct_ldi_scratch_of(context->workspace, context->driver);
}

/* Of answers, which live until the batch's results are made. NULL: out of memory. */
static inline void *ct_pair_allocate(const ct_pair_context *context, size_t bytes) {
    return ct_arena_alloc(&context->workspace->workers[context->driver].answers, &context->device->answers, bytes);
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

/* What a body's vertices are; ct_body_pose takes them to the world. */
static inline const float *ct_body_positions(const ct_body *body) {
    return body->kind == CT_BODY_RIGID ? body->mesh->positions : body->resident->positions;
}

/* pair_cpu.c: */
ct_pair_context ct_pair_context_of(ct_workspace *workspace, ct_pair_task *pair, uint32_t worker, bool is_spread);
/* Sets the options, and what ct_pair_finish needs of the vertices; their coordinates are memory still to be written.
 * False: out of memory. */
bool ct_pair_prepare_vertices(ct_pair_context *context);
/* Gives the worker's sums to this pair. They are all zero; so memory that has to grow is zeroed. False: out of memory.
 */
bool ct_pair_prepare_sums(ct_pair_context *context, ct_ldi_scratch *worker);

/* Turns the sums into the pair's contacts, and clears them. After a failure it only clears. */
void ct_pair_finish(ct_pair_context *context);

/* finish_cells_cpu.c: */
/* Places the walls of the pair's cells. False: out of memory. */
bool ct_pair_place_walls(ct_pair_context *context);
/* For a body with itself, while context->partial_sums[0] has both parts' sums: keeps which vertices are part 1. False:
 * out of memory. */
bool ct_pair_keep_parts(ct_pair_context *context);
/* Adds its cells to context->contact, whose sums are cleared: from what these n threads collected. */
void ct_pair_finish_cells(ct_pair_context *context, ct_ldi_scratch *const *contributors, uint32_t n);

/* narrow_cpu.c: finds the part of the overlap of the pair's boxes that both bodies reach into (region_k.h). */
ct_box ct_cpu_find_part(const ct_pair_task *pair);

/* pair_cpu.c: computes one pair, on the calling worker alone or spread over the pool. If OpenGL draws: from the plan's
 * drawing, which then holds all of the pair's bins, or else by drawings of its own, on worker 0 or spread. */
void ct_cpu_compute_pair(ct_workspace *workspace, ct_pair_task *pair, uint32_t worker, bool is_spread);
/* Gives the pair's bins [first_bin, end_bin) their regions (3 at most) and rays in a drawing that has n_regions and
 * n_rays so far. */
void ct_cpu_plan_draw_regions(ct_ray_plan *plan, ct_drawing *drawing);
/* Makes the quads of a pair whose regions are planned; region: number of the first. False: out of memory. */
bool ct_cpu_make_quads(ct_workspace *workspace, ct_pair_task *pair, uint32_t worker, uint32_t region);

/* draw_pairs.c, for devices that OpenGL draws for: draws the quads of all workers of the workspace, and drops them.
 * A DEVICE_ERROR is kept in the device. */
ct_status ct_cpu_draw(ct_workspace *workspace, ct_drawing *drawing);
/* As ct_cpu_method.compute_small: many pairs per drawing. */
bool ct_cpu_draw_pairs(ct_workspace *workspace, ct_pair_task *pairs, const uint32_t *order, uint32_t n, bool is_spread);

/* device_gl.c and no_opengl.c, for devices that OpenGL draws for: */
ct_status ct_cpu_gl_open(ct_device *device, ct_error *error); /* after its workspaces were made; sets `draw` */
void ct_cpu_gl_close(ct_device *device);                      /* harmless after a failed open, and without one */
void ct_cpu_gl_release(ct_workspace *workspace);              /* gives back the workspace's buffers */
const char *ct_cpu_gl_renderer(const ct_device *device);      /* the OpenGL driver's name; "" without one */

#endif

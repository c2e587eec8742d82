/* device.h - the CPU backend's own structures: the device, its workspaces and their per-thread scratch, and the pair
 * tasks of a batch. */
#ifndef CT_CPU_DEVICE_H
#define CT_CPU_DEVICE_H

#include <pthread.h>

#include "gpu/backend/backend.h"
#include "gpu/backend/cpu/pool.h"
#include "gpu/base/arena.h"
#include "gpu/base/clock.h"
#include "gpu/base/scratch.h"
#include "gpu/contact/compact_cpu.h"
#include "gpu/contact/sides_cpu.h"
#include "gpu/ebpi/tile_cpu.h"
#include "gpu/exact/exact_cpu.h"
#include "gpu/exact/search_cpu.h"
#include "gpu/mesh/volume_cpu.h"
#include "gpu/raster/patch.h"
#include "gpu/raster/raster_cpu.h"
#include "gpu/raster/raster_gl.h"
#include "gpu/span/span_cpu.h"
#include "gpu/view/snap_cpu.h"
#include "gpu/view/turned_k.h"
#include "gpu/view/view.h"
#include "gpu/voxtree/descend_cpu.h"

enum { CT_MAX_THREADS = 256 };

/* One instruction set's kernels. */
typedef struct ct_kernels {
    const char *name;
    const ct_snap_cpu *snap;
    const ct_bin_cpu *bin;
    const ct_raster_cpu *raster;
    const ct_span_cpu *span;
    const ct_compact_cpu *compact;
    const ct_volume_cpu *volume;
    const ct_exact_cpu *exact;
    const ct_ebpi_cpu *ebpi;
    const ct_voxel_cpu *voxel;
    const ct_search_cpu *search;
} ct_kernels;

/* The kernels of that name ("auto": the best that this processor runs), or NULL with *error. */
const ct_kernels *ct_kernels_find(const char *name, ct_error *error);
void ct_kernels_list(char *names, size_t size); /* those that this processor runs, space-separated */

/* What a body was before the step that runs, so that a step that fails changes nothing (upload.c). */
typedef struct ct_body_before {
    ct_box box;
    uint32_t box_level; /* rigid, as in ct_resident */
    double pose[12];    /* rigid */
    double volume;      /* deformable, as in ct_body, and the next two */
    bool is_volume_old;
    uint32_t updates_since_volume;
    bool is_kept;     /* the step has updated the body, or changed its box */
    uint32_t n_swaps; /* updates of all its vertices; after one, ct_resident.other has the positions before */
    float *rows;      /* [n_rows][3] of vertices that updates of a part of the body overwrote before, in their order */
    size_t n_rows, row_capacity;
} ct_body_before;

/* A body's state. */
struct ct_resident {
    float *positions; /* [n_vertices][3] and CT_VOLUME_PADDING bytes: deformable, world; NULL for a rigid
                         body, whose mesh has them */
    float *other;     /* the same size: what an update of all vertices is written to, before the two are
                         swapped; NULL until the first */
    ct_body_before before;
    const ct_clusters *clusters; /* the mesh's; NULL: too small a mesh to look for near clusters */
    ct_cluster_box *boxes;       /* [clusters->n_nodes]: deformable, world; NULL for a rigid body: the rest boxes */
    bool is_stale;               /* boxes are those of older positions */
    /* While a step's updates are applied: */
    ct_box next_box;     /* box of the checked positions that are not applied yet */
    size_t updates_left; /* updates of this body still to be applied */
    bool has_moved;      /* rigid: an applied update changed its pose, and its box is not found yet */
    uint32_t box_level;  /* the body's box is ct_voxel_posed_box's of the mesh's tree of this finest
                            level; 0: that of its vertices */
};

/* The method `exact`: one thread's scratch. */
typedef struct ct_exact_scratch {
    ct_crossing_lists lists;
    /* For the thread that drives a pair: */
    ct_arena arena;          /* until the end of the pair; counted against the device's budget */
    ct_buffer cluster_pairs; /* ct_cluster_pair */
    ct_buffer gradient[2];   /* int64_t [vertices][3], zero between pairs */
    ct_buffer touched[2];    /* ct_exact_gradient.touched, groups and marks, zero between pairs */
} ct_exact_scratch;

/* Sums of one cell at a time (finish_cells.c). All but the compact arrays are zero between cells. */
enum { CT_CELL_SUM = 4 }; /* per vertex: of each view, and one unused, so that none is in two lines of a cache */
typedef struct ct_cell_sums {
    ct_buffer sums[2];    /* per part: int64_t [vertices][CT_CELL_SUM] */
    ct_buffer touched[2]; /* per part: a bit per vertex, then one for each word of these */
    ct_buffer compact;    /* of the touched vertices alone: planes, coordinates, flags, vertices */
} ct_cell_sums;

/* One thread's scratch in one workspace. */
typedef struct ct_thread_scratch {
    /* A pair on its lattice, for the thread that drives the pair: */
    ct_buffer coords[2], cells[2], runs[2], front_runs, front_winding[2], chunk_memory, compacted;
    ct_binned_chunk *chunks;
    size_t n_chunks;       /* that have memory of their own, which is freed in the end */
    ct_patches patches[2]; /* for OpenGL: made by this thread, of bodies drawn first, and second */
    /* A chunk of triangles, then a bin: */
    ct_bin_scratch binning;
    ct_ray_lists rays;
    ct_span_scratch span;
    ct_side_scratch sides; /* of a body that touches itself */
    ct_cell_sums cell_sums;
    ct_buffer walls, parts, cell_order; /* of the pair's cells, for the thread that drives the pair */
    /* The sums of the pair's contacts, or this thread's part of them: */
    ct_buffer sums_memory, gradient_memory[2], touched_memory[2];
    ct_contact_sums *sums; /* [the pair's n_contacts] */
    uint64_t sums_pair;    /* number of the pair task that sums belong to; 0: none, and all are zero */
    uint64_t rays_cast, fragments;
    double raster_seconds, span_seconds;
    ct_exact_scratch exact;
    ct_ebpi_scratch ebpi;
    ct_buffer ebpi_tiles[2]; /* ct_ebpi_tile: of a pair that this thread drives, before and after a pass */
    ct_buffer ebpi_cuts;     /* ct_ebpi_cut of each of these tiles */
    ct_arena answers;        /* of the pairs that this thread drives, until the batch's results are made */
} ct_thread_scratch;

/* A cell of a contact. */
typedef struct ct_pair_cell {
    ct_contact contact;
    ct_entry_arrays entries; /* in an arena; part 0's first */
} ct_pair_cell;

/* A contact of a pair. */
typedef struct ct_pair_contact {
    bool is_found;
    ct_contact contact;
    ct_entry_arrays entries;   /* body 0's first */
    const ct_raw_span *spans;  /* [contact.n_spans] */
    const ct_ray_tile *tiles;  /* [contact.n_tiles], in an arena */
    const ct_pair_cell *cells; /* [n_cells], in an arena */
    uint32_t n_cells;
    /* Products with the second derivative, as in ct_result; in an arena. contact.count_product tells how many. */
    const uint32_t *product_vertices;
    const double *products, *generalized_product;
    const ct_point *points; /* [contact.n_points], in an arena */
} ct_pair_contact;

/* A pair of a step: two bodies whose boxes overlap, or one body twice that may touch itself. */
typedef struct ct_pair_task {
    size_t step;
    const ct_body *body[2];
    ct_box part; /* of the overlap of the bodies' boxes, m, world: what the window spans */
    ct_window window;
    ct_binned_tile tiles[3];
    ct_bin_plan plan;
    ct_span_rule rule;
    uint32_t n_contacts; /* contacts that the pair may yield, each with sums of its own */
    uint64_t number;     /* unique and non-zero */
    double cost;         /* estimate, ns */
    uint32_t want;
    const ct_direction *directions; /* the step's; each body has the indices of its own */
    uint32_t n_directions;          /* 1 + their largest index */
    double stiffness;               /* the scene's */
    double tolerance;               /* m^3: the step's, then what the method aims at; 0: none */
    double tolerance_rel;
    bool strict;
    ct_allocation allocation;
    uint64_t ray_budget;
    ct_turned_views turned;      /* the axes of the method EBPI's views */
    ct_view_error view_error[3]; /* of methods that bound the error of each view */
    bool has_view_errors;
    const ct_scene_settings *settings; /* the scene's */
    bool is_alone; /* the only pair of its step, without cells: a single contact's entries become the result's without
                      a copy */
    double cell_size;      /* m; 0: no cells */
    ct_cell_axis cells[3]; /* the pair's grid, without its walls */
    bool wants_patches;    /* exact: each piece of the intersection is a contact; n_contacts counts them afterwards */
    /* If OpenGL draws: rays of bins [first_bin, end_bin) are in the drawing. first_ray: per view, the index in the
     * drawing that the ray of the view's first row has, or would have. */
    const ct_drawing *drawing;
    uint32_t first_bin, end_bin;
    int64_t first_ray[3];
    /* out: */
    ct_status status;
    ct_ended ended;
    uint32_t passes;
    uint64_t cells_needed;     /* where status is LIMIT_EXCEEDED: exact up to CT_CELLS_COUNTED times the limit */
    ct_pair_progress progress; /* of a method that gives it */
    double quality;            /* the same: how much of its work the method did, 0..1 */
    ct_pair_contact *contacts; /* [n_contacts], in an arena; NULL: none was found */
    uint64_t rays, fragments;
    double seconds[CT_PHASES];
} ct_pair_task;

/* The pair is one body, which may touch itself. */
static inline bool ct_is_self_task(const ct_pair_task *pair) {
    return pair->body[0] == pair->body[1];
}

/* "bodies 1 and 2", or "bodies 1 and 1" for a body with itself. Returns name. */
enum { CT_PAIR_NAME = 40 };
const char *ct_name_pair(const ct_pair_task *pair, char name[CT_PAIR_NAME]);

/* The scratch of one of the batches that run at a time. The pool's threads work for every batch, so each thread has
 * scratch in every workspace. */
typedef struct ct_workspace {
    ct_device *device;
    ct_pool *pool;              /* the device's for the batch: see ct_step.in_background */
    ct_thread_scratch *workers; /* [device->threads] */
    ct_buffer pairs;            /* ct_pair_task */
    uint64_t next_pair;
    ct_buffer voxel_tasks; /* of voxtree.c, with buffers of their own */
    uint32_t n_voxel_tasks;
    double voxel_answers_at, voxel_answers_expected; /* of voxtree.c: when they were begun, ct_now, and how long: s */
    ct_raster_gl *gl;                                /* NULL where OpenGL does not draw */
    ct_buffer regions;                               /* of a drawing of several pairs */
    bool is_taken, in_background, is_waiting;        /* guarded by the device's mutex. is_waiting: its batch waits for
                                         exclusive use and is        not computing */
} ct_workspace;

/* Draws a batch's patches. As ct_raster_gl_draw. */
typedef ct_status (*ct_draw_fn)(ct_workspace *workspace, ct_drawing *drawing, ct_error *error);

struct ct_device {
    ct_draw_fn draw;                 /* NULL: the CPU rasterises by itself */
    struct ct_gl_context *gl;        /* NULL where OpenGL does not draw */
    ct_pool *pool, *background_pool; /* the second's threads have a lower priority */
    uint32_t threads;
    const ct_kernels *kernels;
    uint32_t max_cells;
    _Atomic double exact_factor;  /* of voxtree.c: time of a pair of EXACT in parts of its estimate; 0: not known */
    _Atomic double answer_factor; /* of voxtree.c: time of a batch's answers in parts of its estimate; 0: not known */
    ct_budget budget;             /* scratch */
    ct_budget answers;            /* arenas of answers: without a limit, as the results made of them are */
    ct_workspace workspaces[CT_MAX_CONCURRENT_BATCHES];
    ct_error lost; /* guarded by mutex: why OpenGL failed for good */
    pthread_mutex_t mutex;
    pthread_cond_t changed;  /* a workspace was released, waits, or ended its exclusive use */
    ct_workspace *exclusive; /* guarded by mutex */
};

/* workspace.c: */
ct_status ct_workspaces_create(ct_device *device, ct_error *error); /* after device->threads was set */
void ct_workspaces_destroy(ct_device *device);
/* A free workspace, which is waited for, but not for long. Large batches, all that run in the background among them,
 * and small ones keep to different workspaces where they can, so that few workspaces hold a large batch's scratch.
 * NULL: none is free, so try again. */
ct_workspace *ct_workspace_try(ct_device *device, bool is_large, bool in_background);
void ct_workspace_release(ct_workspace *workspace);
/* Frees the scratch and the pair list of a taken workspace that computes nothing now. */
void ct_workspace_give_back(ct_workspace *workspace);
/* For a taken workspace that computes nothing now: waits until no other batch computes, or, where its batch is in the
 * background, no other one of these. None of those starts before ct_workspace_end_exclusive. False: the thread's work
 * was cancelled. */
bool ct_workspace_begin_exclusive(ct_workspace *workspace);
void ct_workspace_end_exclusive(ct_workspace *workspace);
/* Frees the scratch that workspaces whose batches do not compute keep for later pairs; not the answers and pair lists
 * of taken ones. Needs exclusive use. */
void ct_workspaces_free_scratch(ct_device *device);

/* device_gl.c and no_opengl.c, for devices that OpenGL draws for: */
ct_status ct_cpu_gl_open(ct_device *device, ct_error *error); /* after its workspaces were made; sets device->draw */
void ct_cpu_gl_close(ct_device *device);                      /* harmless after a failed open, and without one */
void ct_cpu_gl_release(ct_workspace *workspace);              /* gives back the workspace's buffers */
const char *ct_cpu_gl_renderer(const ct_device *device);      /* the OpenGL driver's name; "" without one */

/* upload.c: applies the updates of a step or refuses them all; brings the bodies' boxes up to date and marks their
 * cluster boxes stale. */
ct_status ct_cpu_upload(ct_device *device, ct_step *step);
void ct_cpu_undo(ct_device *device, ct_step *step); /* as ct_backend.undo */
void ct_cpu_keep_body(ct_body *body);               /* before the step changes it: for undo. Once in a step is enough */
void ct_cpu_measure_old_volumes(const ct_device *device, const ct_scene *scene); /* see ct_body.is_volume_old */

/* near_cpu.c, narrow_cpu.c: */
/* Gives a body its cluster tree. The mesh's must not be freed before the body. OUT_OF_MEMORY. */
ct_status ct_cpu_attach_clusters(ct_body *body, ct_resident *resident, ct_error *error);
/* Refits stale cluster boxes of the bodies in a step's pairs; pool: NULL on a thread of the pool. always: else only
 * where LDI gains by it. */
void ct_cpu_refit_clusters(ct_device *device, ct_step *step, bool always, ct_pool *pool);
/* Finds the boxes of the rigid bodies of a step's scene that moved, or whose box is another method's. pool: NULL on a
 * thread of the pool. */
void ct_cpu_find_posed_boxes(ct_device *device, ct_step *step, bool of_voxels, ct_pool *pool);
/* Body b of a planned pair for queries. False: it has no clusters, or its boxes are stale. */
bool ct_cpu_near_body(const ct_pair_task *pair, int b, ct_near_body *body);
/* Finds the part of the overlap of the pair's boxes that both bodies reach into (region_k.h). */
ct_box ct_cpu_find_part(const ct_pair_task *pair);
/* Triangles that may matter of body b of a planned pair; an estimate. */
uint64_t ct_cpu_count_near(const ct_pair_task *pair, int b);

/* Plans a pair whose bodies are set: its number of contacts and cost, and whatever the method needs. Several threads
 * may plan pairs at a time. */
typedef ct_status (*ct_plan_pair_fn)(const ct_device *device, const ct_scene_settings *settings, ct_pair_task *pair,
                                     ct_error *error);

/* Computes a planned pair, on the calling worker alone or spread over the pool. */
typedef void (*ct_compute_pair_fn)(ct_workspace *workspace, ct_pair_task *pair, uint32_t worker, bool is_spread);

/* Computes the planned pairs of a batch that began at `start` (of ct_now): pairs[order[0..n-1]], those of a step one
 * after the other. */
typedef void (*ct_compute_all_fn)(ct_workspace *workspace, const ct_step *steps, double start, ct_pair_task *pairs,
                                  const uint32_t *order, uint32_t n);

/* What a method brings of its own to a batch. */
typedef struct ct_pair_method {
    ct_plan_pair_fn plan;
    ct_compute_pair_fn compute;
    ct_compute_all_fn compute_all;             /* NULL: each pair by itself, by `compute` */
    void (*answered)(ct_workspace *workspace); /* NULL, or what is done when the batch's results are made */
    bool gives_progress;                       /* fills ct_pair_task.progress and quality */
    bool is_drawn;        /* where OpenGL draws, many pairs are drawn at a time: see ct_cpu_draw_pairs */
    bool needs_boxes;     /* cluster boxes of all bodies in pairs are current */
    bool needs_volumes;   /* volumes of deformable bodies are current */
    bool has_voxel_boxes; /* boxes of rigid bodies are those of their voxel trees, unless they are refined */
    bool takes_half_spaces;
} ct_pair_method;

extern const ct_pair_method ct_cpu_exact_method; /* exact_pair.c */

/* batch.c: runs steps, pair by pair; see ct_method_run. */
void ct_cpu_run_pairs(ct_device *device, ct_step *steps, size_t n_steps, const ct_pair_method *method);

/* A ct_pair_method of methods that cast rays: plan fills the window, tiles, bins, span rule, contacts and cost. */
#define CT_RAY_METHOD(plan_pair)                                                                                       \
    { .plan = plan_pair, .compute = ct_cpu_compute_pair, .is_drawn = true }

/* compute_pair.c: computes one pair, on the calling worker alone or spread over the pool. If OpenGL draws: from
 * pair->drawing, which then holds all of the pair's bins, or else by drawings of its own, on worker 0 or spread. */
void ct_cpu_compute_pair(ct_workspace *workspace, ct_pair_task *pair, uint32_t worker, bool is_spread);
/* Frees the memory of a pair's contacts that is not in arenas. */
void ct_cpu_clear_pair(ct_pair_task *pair);
/* Gives the pair's bins [first_bin, end_bin) their regions (3 at most) and rays in a drawing that has n_regions and
 * n_rays so far. */
void ct_cpu_plan_draw_regions(ct_pair_task *pair, ct_drawing *drawing);
/* Makes the patches of a pair whose regions are planned; region: number of the first. False: out of memory. */
bool ct_cpu_make_patches(ct_workspace *workspace, ct_pair_task *pair, uint32_t worker, uint32_t region);

/* draw_pairs.c, for devices that OpenGL draws for: draws the patches of all workers of the workspace, and drops them.
 * A DEVICE_ERROR is kept in the device. */
ct_status ct_cpu_draw(ct_workspace *workspace, ct_drawing *drawing);
/* Computes pairs[order[0..n-1]], many of them per drawing. */
void ct_cpu_draw_pairs(ct_workspace *workspace, ct_pair_task *pairs, const uint32_t *order, uint32_t n, bool is_spread);

/* answer.c: makes a step's result from its pairs and may take over their entries. On failure the step has its error and
 * no result. */
void ct_cpu_answer(ct_device *device, ct_step *step, bool has_progress, ct_pair_task *pairs, size_t n_pairs);

/* voxtree.c: frees what it keeps in a workspace for later pairs. */
void ct_cpu_free_voxel_tasks(ct_workspace *workspace);

#endif

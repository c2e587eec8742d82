/* device_cpu.h - the CPU backend's own structures: the device, its workspaces and their per-thread scratch, the pair
 * tasks of a batch, and what a method has to offer. Each method has slots in the device, a workspace, a thread's
 * scratch and a pair's task, whose memory is made here and looked into by the method alone (ct_cpu_method). */
#ifndef CT_CPU_DEVICE_H
#define CT_CPU_DEVICE_H

#include <pthread.h>

#include "gpu/base/arena.h"
#include "gpu/base/clock.h"
#include "gpu/base/scratch.h"
#include "gpu/contact/compact_cpu.h"
#include "gpu/contact/sides_cpu.h"
#include "gpu/device/pool.h"
#include "gpu/mesh/volume_cpu.h"
#include "gpu/method/backend.h"
#include "gpu/view/near.h"
#include "gpu/view/snap_cpu.h"

enum { CT_MAX_THREADS = 256 };

/* Slots of methods, by ct_method. */
enum { CT_CPU_SLOTS = 8 };

/* Instruction sets. */
enum { CT_SIMD_BASE, CT_SIMD_AVX2, CT_SIMD_SETS };

/* One instruction set's kernels that all methods use; those of a method are ct_cpu_method.kernels. */
typedef struct ct_kernels {
    const char *name;
    int set; /* CT_SIMD_* */
    const ct_snap_cpu *snap;
    const ct_compact_cpu *compact;
    const ct_volume_cpu *volume;
} ct_kernels;

/* The kernels of that name ("auto": the best that this processor runs), or NULL with *error. */
const ct_kernels *ct_kernels_find(const char *name, ct_error *error);
void ct_kernels_list(char *names, size_t size); /* those that this processor runs, space-separated */

/* What a body was before the step that runs, so that a step that fails changes nothing (upload_cpu.c). */
typedef struct ct_body_before {
    ct_box box;
    uint32_t box_level;          /* rigid, as in ct_resident */
    double given[12], origin[3]; /* of positions; see ct_body_place */
    double low_reach;
    double volume; /* deformable, as in ct_body, and the next two */
    bool is_volume_old;
    uint32_t updates_since_volume;
    bool is_kept;     /* the step has updated the body, or changed its box */
    uint32_t n_swaps; /* updates of all its vertices; after one, ct_resident.other has the positions before */
    bool has_low;     /* deformable, as in ct_resident */
    float *
        rows; /* [n_rows][6], high and low, of vertices that updates of a part of the body overwrote before, in their order */
    size_t n_rows, row_capacity;
} ct_body_before;

/* A body's state. */
struct ct_resident {
    float *positions;       /* [n_vertices][3] and CT_VOLUME_PADDING bytes: deformable, from `origin`; NULL for a rigid
                         body, whose mesh has them */
    float *other;           /* the same size: what an update of all vertices is written to, before the two are
                         swapped; NULL until the first */
    float *low, *other_low; /* the same of what float32 leaves (mesh/split.h); NULL until needed */
    bool has_low;           /* `low` counts; else it is all 0, whatever it holds */
    double origin[3];       /* m, what the positions count from */
    ct_body_before before;
    const ct_clusters *clusters; /* the mesh's; NULL: too small a mesh to look for near clusters */
    ct_cluster_box *boxes; /* [clusters->n_nodes]: deformable, from `origin`; NULL for a rigid body: the rest boxes */
    bool is_stale;         /* boxes are those of older positions */
    /* While a step's updates are applied: */
    ct_box next_box;       /* box of the positions that were checked last, as they were given */
    const ct_update *next; /* whose positions these are */
    bool are_floats;       /* float32 holds them */
    size_t updates_left;   /* updates of this body still to be applied */
    bool takes_low;        /* some update needs `low`, whose memory was reserved */
    bool has_moved;        /* rigid: an applied update changed its pose, and its box is not found yet */
    uint64_t n_moves;      /* rises whenever pose or positions change, an undone step's included */
    int at_rest; /* 1: it does not move in the step that runs, nor came to the scene since the last one; else 0, or
                            -1 before its first step */
    uint32_t box_level; /* the body's box is ct_voxel_posed_box's of the mesh's tree of this finest
                            level; 0: that of its vertices */
};

/* One thread's scratch in one workspace. */
typedef struct ct_thread_scratch {
    void *of_method[CT_CPU_SLOTS]; /* of ct_cpu_method.thread_bytes */
    ct_side_scratch sides;         /* of a body that touches itself */
    ct_arena arena;   /* until the end of a pair that this thread drives; counted against the device's budget */
    ct_arena answers; /* of the pairs that this thread drives, until the batch's results are made */
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

typedef struct ct_kept_pair ct_kept_pair; /* kept_cpu.h */

/* A pair of a step: two bodies whose boxes overlap, or one body twice that may touch itself. */
typedef struct ct_pair_task {
    const ct_step *step;
    const ct_scene_settings *settings; /* of the step's scene */
    const ct_body *body[2];
    uint64_t number;       /* unique and non-zero */
    uint32_t n_directions; /* 1 + the largest index of the step's; each body has the indices of its own */
    bool is_alone; /* the only pair of its step, without cells: a single contact's entries become the result's without
                      a copy */
    bool is_left_out;   /* it cannot be placed, and its scene goes on without such pairs */
    ct_kept_pair *kept; /* its answer, which an earlier step computed: it is not planned; NULL: none */
    /* The method's plan: */
    void *plan;          /* of ct_cpu_method.pair_bytes, zero before it is planned */
    ct_window window;    /* of methods that have one */
    uint32_t n_contacts; /* contacts that the pair may yield, each with sums of its own; EXACT counts them at the end */
    double cost;         /* estimate, ns */
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

/* Frees the memory of a pair's contacts that is not in arenas. */
static inline void ct_cpu_clear_pair(ct_pair_task *pair) {
    for (uint32_t c = 0; pair->contacts && pair->is_alone && c < pair->n_contacts; c++)
        ct_entry_arrays_free(&pair->contacts[c].entries);
    pair->contacts = NULL;
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
    ct_buffer pairs;            /* ct_pair_task, and then their plans */
    uint64_t next_pair;
    void *of_method[CT_CPU_SLOTS]; /* of ct_cpu_method.workspace_bytes */
    /* Guarded by the device's mutex: */
    bool is_taken, in_background;
    double used_until; /* of ct_now: when its last batch ended; 0: it has no scratch to give back */
    bool is_waiting;   /* its batch waits for exclusive use and is not computing */
} ct_workspace;

struct ct_device {
    ct_pool *pool, *background_pool; /* the second's threads have a lower priority */
    uint32_t threads;
    const ct_kernels *kernels;
    const void *kernels_of_method[CT_CPU_SLOTS]; /* of the same instruction set */
    void *of_method[CT_CPU_SLOTS];               /* of ct_cpu_method.device_bytes */
    bool has_slots;                              /* all, those in the workspaces too */
    uint32_t max_cells;
    ct_budget budget;  /* scratch */
    ct_budget answers; /* arenas of answers: without a limit, as the results made of them are */
    ct_workspace workspaces[CT_MAX_CONCURRENT_BATCHES];
    ct_error lost; /* guarded by mutex: why OpenGL failed for good */
    pthread_mutex_t mutex;
    pthread_cond_t changed;  /* a workspace was released, waits, or ended its exclusive use */
    ct_workspace *exclusive; /* guarded by mutex */
};

/* workspace_cpu.c: */
/* With the slots of all methods; after threads and kernels of the device were set. */
ct_status ct_workspaces_create(ct_device *device, ct_error *error);
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
uint64_t ct_workspaces_release_idle(ct_device *device, double seconds); /* as ct_backend.release_scratch */

/* upload_cpu.c: applies the updates of a step or refuses them all; brings the bodies' boxes up to date and marks their
 * cluster boxes stale. */
ct_status ct_cpu_upload(ct_device *device, ct_step *step);
void ct_cpu_undo(ct_device *device, ct_step *step); /* as ct_backend.undo */
/* The box of a rigid body at its pose. */
void ct_cpu_find_posed_box(const ct_device *device, const ct_body *body, ct_box *box);
/* Sets the box of a deformable body, whose positions are finite. */
void ct_cpu_find_deformed_box(const ct_device *device, ct_body *body);
void ct_cpu_keep_body(ct_body *body); /* before the step changes it: for undo. Once in a step is enough */
void ct_cpu_measure_old_volumes(const ct_device *device, const ct_scene *scene); /* see ct_body.is_volume_old */

/* near_cpu.c: */
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
/* Triangles that may matter of body b of a planned pair; an estimate. */
uint64_t ct_cpu_count_near(const ct_pair_task *pair, int b);

/* ---- methods ---- */

/* Tables of kernels that *_base and *_avx2 are of. */
#ifdef __x86_64__
#define CT_KERNELS(table)                                                                                              \
    { [CT_SIMD_BASE] = &table##_base, [CT_SIMD_AVX2] = &table##_avx2 }
#else
#define CT_KERNELS(table)                                                                                              \
    { [CT_SIMD_BASE] = &table##_base }
#endif

/* What a method has, and brings to a batch. */
typedef struct ct_cpu_method {
    const void *kernels[CT_SIMD_SETS]; /* ct_device.kernels_of_method */
    /* Sizes of its slots, whose memory is all zero at first; 0: none. A pair's task that another method hands on to
     * this one has no plan, so such a method has no pair_bytes. */
    size_t device_bytes, workspace_bytes, thread_bytes, pair_bytes;
    /* Frees the memory that its slots in a workspace, and in the scratch of its threads, keep for later pairs. NULL:
     * they keep none. */
    void (*release)(ct_workspace *workspace);
    /* Plans a pair whose bodies are set: its number of contacts and cost, and whatever the method needs. Several
     * threads may plan pairs at a time. */
    ct_status (*plan)(const ct_device *device, const ct_scene_settings *settings, ct_pair_task *pair, ct_error *error);
    /* Computes a planned pair, on the calling worker alone or spread over the pool. */
    void (*compute)(ct_workspace *workspace, ct_pair_task *pair, uint32_t worker, bool is_spread);
    /* Computes pairs[order[0..n-1]] that are too small to be spread, where that is faster than each by `compute`.
     * False: it is not, and nothing was done. NULL: it never is. */
    bool (*compute_small)(ct_workspace *workspace, ct_pair_task *pairs, const uint32_t *order, uint32_t n,
                          bool uses_threads);
    /* Computes the planned pairs of a batch that began at `start` (of ct_now): pairs[order[0..n-1]], those of a step
     * one after the other. NULL: each pair by itself, by `compute`. */
    void (*compute_all)(ct_workspace *workspace, const ct_step *steps, double start, ct_pair_task *pairs,
                        const uint32_t *order, uint32_t n);
    void (*answered)(ct_workspace *workspace); /* NULL, or what is done when the batch's results are made */
    const char *remedy;                        /* where a pair needs too much memory; NULL: that of rays in a lattice */
    bool gives_progress;                       /* fills ct_pair_task.progress and quality */
    bool needs_boxes;                          /* cluster boxes of all bodies in pairs are current */
    bool needs_volumes;                        /* volumes of deformable bodies are current */
    bool has_voxel_boxes; /* boxes of rigid bodies are those of their voxel trees, unless they are refined */
    bool takes_half_spaces;
    bool keeps_answers; /* a pair's answer depends on nothing but its bodies, the settings and what the step wants */
} ct_cpu_method;

/* kernels_cpu.c: by ct_method; NULL where there is none. */
extern const ct_cpu_method *const ct_cpu_methods[CT_CPU_SLOTS];

/* batch_cpu.c: runs steps, pair by pair; see ct_method_run. */
void ct_cpu_run_pairs(ct_device *device, ct_step *steps, size_t n_steps, const ct_cpu_method *method);

/* answer_cpu.c: makes a step's result from its pairs and may take over their entries. On failure the step has its error
 * and no result. */
void ct_cpu_answer(ct_device *device, ct_step *step, const ct_cpu_method *method, ct_pair_task *pairs, size_t n_pairs);

#endif

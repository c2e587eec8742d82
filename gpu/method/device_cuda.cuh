/* device_cuda.cuh - the host side of the CUDA backend: a device, what is resident on it, its workspaces, and what a
 * method has to offer. A workspace runs one batch at a time, on its own stream. Each method has a room of its own in
 * it, which the others do not look into. */
#ifndef CT_CUDA_DEVICE_CUH
#define CT_CUDA_DEVICE_CUH

#include "gpu/method/batch_cuda.cuh"

#include <atomic>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

extern "C" {
#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/contact/result.h"
#include "gpu/mesh/clusters.h"
#include "gpu/method/backend.h"
#include "gpu/method/backend_cuda.h"
#include "gpu/method/method.h"
#include "gpu/view/view.h"
}

typedef struct ct_gl_context ct_gl_context; /* gpu/device/gl/context.h */

/* What a method keeps of a mesh on the device, and what it knows of it on the host. Both are freed with the mesh. */
struct ct_mesh_part {
    void *data;
    uint64_t bytes;
    void *host;
};

/* The methods' places in the arrays below are their ct_method. */
enum { CT_GPU_ROOMS = 8, CT_MESH_PARTS = CT_MAX_VOXEL_LEVEL + 1 };

enum ct_mesh_state { CT_MESH_UPLOADING, CT_MESH_READY, CT_MESH_FAILED };

/* The one copy of a mesh on the device. */
struct ct_mesh_copy {
    char hash[33];
    ct_mesh_state state;
    void *memory; /* positions, triangles, clusters' boxes */
    uint32_t *triangles;
    ct_cluster_box *cluster_boxes; /* of the rest positions; NULL: too few triangles to cull */
    uint64_t bytes;
    ct_mesh_part part[CT_GPU_ROOMS][CT_MESH_PARTS]; /* of each method; data NULL before the method needs it */
    uint32_t users; /* bodies, and threads that wait for the upload; without users it stays until memory is short */
    ct_mesh_copy *next;
};

/* What a body was before the step that runs, on the host: see ct_backend.undo. */
struct ct_body_before {
    bool is_kept; /* the step has moved the body */
    ct_box box;
    uint32_t box_level;
    double given[12];
    double low_reach;
    double volume;
    bool is_volume_old;
    uint32_t updates_since_volume;
};

struct ct_resident {
    ct_mesh_copy *mesh;
    ct_gpu_body *body; /* on the device; a deformable body's positions and clusters' boxes follow it */
    float *before;     /* on the device, behind those: positions that the last step overwrote, at their vertices */
    uint64_t bytes;
    uint32_t n_vertices, n_triangles;
    uint64_t n_box_chunks; /* see ct_gpu_box_update */
    bool has_topology;     /* body->topology is set, and body->own_surface if it meets itself */
    uint32_t
        box_level;  /* the box on the host is that of the mesh's tree of this finest level at the pose; 0: it is not */
    bool is_behind; /* the pose and the box on the device are not the host's: the method `voxtree` moved the body, or a
                       step that moved it failed. Of a deformable body: the box and the volume */
    ct_body_before kept;
    bool is_only_behind; /* while a step runs: it sends the body because it was behind, not to update it */
    /* While a step is staged: */
    size_t updates_left;          /* updates of this body in the step that are not staged yet */
    bool will_be_rounded;         /* once they are applied: see ct_gpu_note_rounding */
    const ct_update *last_update; /* of them */
};

/* The list of a scene's bodies and its ignored pairs, sent when they change; see ct_gpu_step.bodies. */
struct ct_scene_table {
    ct_gpu_body **memory;
    uint64_t bytes;
    uint64_t version;   /* the scene's when it was sent; 0: never */
    bool may_be_behind; /* some body may be behind on the device */
};

/* A scene's table that the device has in an older version, and where its words are among those to be sent. */
struct ct_stale_table {
    ct_scene *scene;
    uint64_t first, n; /* words */
};

/* What a method has in a workspace. */
struct ct_gpu_room {
    ct_gpu_table_set tables;
    void *scratch; /* of ct_gpu_method.scratch_bytes */
    uint64_t work; /* blocks that recent batches of the method had something for; 0: not known */
};

struct ct_workspace {
    bool busy;
    double used_until;           /* of ct_gpu_now: when its last batch ended; 0: it has no scratch to give back */
    const ct_gpu_method *method; /* the batch's */
    ct_gpu_room room[CT_GPU_ROOMS];
    cudaStream_t stream;
    cudaEvent_t events[CT_PHASES + 1]; /* the begin of each phase, and the end of the last one's copy to the host */
    ct_gpu_capacity capacity;
    /* What steps send, as lists of ct_gpu_step, ct_gpu_crowd, ct_gpu_box_update, ct_gpu_pose_write,
     * ct_gpu_position_write and uint32_t. Beside them, in the same order: moved_bodies (ct_body *) of box_updates,
     * posed_bodies (ct_body *) of pose_writes, members (ct_step *) of steps. Scene tables that changed: their words,
     * and a ct_stale_table for each. */
    ct_host_list steps, crowds, box_updates, pose_writes, position_writes, indices, moved_bodies, posed_bodies, members,
        words, stale_tables, directions, direction_values;
    uint64_t n_rows, n_box_chunks;
    uint32_t n_bodies;
    ct_gpu_crowd crowd_end; /* the offsets that the next crowd begins at */
    ct_gpu_buffer *buffers; /* those that were reserved, of the methods too */
    ct_gpu_pinned *pinned;
    ct_gpu_table_set common; /* the tables of ct_batch; those of its method are in its room */
    /* What is sent, tables whose size is known before, and the answer with its copy: */
    ct_gpu_buffer tables, rows, small, answer;
    ct_gpu_pinned tables_staging, rows_staging, answer_host;
    /* Of bodies with themselves: */
    ct_gpu_buffer side_list, side_sums;
    ct_gpu_pinned sides_host;
    uint64_t expected_answer; /* bytes that the next answer is expected to have */
    uint64_t copied_answer;   /* bytes of the last answer that its first copy took */
    unsigned grid;            /* blocks of a launch of this batch: ct_gpu_choose_grid */
    bool has_moved_bodies;    /* the kernel that writes the batch's updates of bodies was launched */
    bool lacks_launch;        /* a kernel was not launched, as the device has no memory left for it: the batch fails */
};

struct ct_device {
    int ordinal;
    unsigned grid;      /* blocks of a launch at most; an eighth of it for each multiprocessor */
    uint32_t max_cells; /* of a contact */
    char name[96];
    pthread_mutex_t mutex; /* recursive; guards the list of meshes, the budget and the use of workspaces */
    pthread_cond_t workspace_free, mesh_ready;
    ct_mesh_copy *meshes;
    ct_gl_context *gl;          /* on the same GPU; NULL: CUDA rasterises */
    cudaStream_t setup;         /* uploads of meshes and bodies */
    cudaStream_t memory_stream; /* allocations and frees of the pool */
    cudaMemPool_t pool;         /* NULL: the device has none */
    ct_workspace workspaces[CT_MAX_CONCURRENT_BATCHES];
    uint64_t limit, scratch_limit; /* bytes; scratch_limit 0: the budget is the only limit */
    std::atomic<uint64_t> used, peak_scratch, mesh_bytes, body_bytes, uploaded, downloaded, launches, reruns, clusters,
        near_clusters;
    std::atomic<bool> lost;
    std::atomic<double> exact_factor; /* how long EXACT takes after VOXTREE: learn_factor of voxtree/refine_cuda.cu */
    char lost_reason[128];            /* written before lost is set */
};

/* ---- methods ---- */

/* A method on this backend. What is NULL a method does not have. */
struct ct_gpu_method {
    ct_method method;
    const ct_kernel_entry *const *kernels; /* lists; NULL-ended */
    const ct_gpu_table *tables;            /* rows that lay out its tables */
    size_t n_tables;
    size_t scratch_bytes; /* of its own in each workspace, all zero at first; buffers in it are known once they */
    void (*destroy_scratch)(void *); /* are reserved. Frees what else it has when the device is closed */
    void (*release)(ct_device *device, ct_workspace *workspace); /* the same when memory is short */
    bool casts_tiles;                                            /* ct_plan_tables.casts_tiles */
    bool needs_volumes;                                          /* of deformable bodies that moved, in each step */
    const char *remedy;                                          /* where a step needs too much memory */

    /* Sends what it needs of the steps' meshes. False: no memory for what *need says, or the device is lost. */
    bool (*prepare)(ct_device *device, ct_workspace *workspace, ct_step *const *steps, size_t n_steps,
                    ct_gpu_need *need);
    /* Fills what of a step is the method's. False: no memory. */
    bool (*fill_step)(ct_workspace *workspace, const ct_step *step, ct_gpu_step *to);
    /* Buffers beside its tables: reserves what is known before the batch runs, lowers *capacity to what they hold, and
     * grows them as CT_SHORT_* flags say. */
    bool (*reserve)(ct_device *device, ct_workspace *workspace);
    void (*limit)(const ct_workspace *workspace, ct_gpu_capacity *capacity);
    bool (*grow)(ct_device *device, ct_workspace *workspace, const ct_gpu_counts *counts, uint32_t shortage,
                 ct_gpu_need *need);
    /* Launches all stages after the update of the bodies, and marks the ends of their phases. Sets b->lacks_memory
     * where there is none for what *need says. False: the device is lost, or lacks a launch. */
    bool (*launch)(ct_device *device, ct_workspace *workspace, ct_batch *b, ct_gpu_need *need);
    /* Copies what the answer does not have. False: no memory for what *need says, or the device is lost. */
    bool (*copy_more)(ct_device *device, ct_workspace *workspace, const ct_batch *b, const ct_gpu_counts *counts,
                      ct_gpu_need *need);
    /* Computes a batch in place of all of these, of steps that began at `start` (of ct_gpu_now). May be called again
     * after it failed. alone: the caller has all workspaces. False: no memory for what *need says, or the device is
     * lost. */
    bool (*compute)(ct_device *device, ct_workspace *workspace, ct_step *const *steps, size_t n_steps, double start,
                    bool alone, ct_gpu_need *need);

    /* ---- results ---- */

    /* Whether step number `index` of the batch fails on the method's own; it then has its error. refused: its first
     * pair without a window, or CT_GPU_NONE; before that one, or where there is none, it has an error of its own. */
    bool (*refuses_step)(const ct_device *device, const ct_workspace *workspace, ct_step *step, uint64_t index,
                         uint32_t refused);
    /* Cells of a contact: adds their and their entries' number, then them, with their entries from *entry on, to the
     * result, whose last contact it is. */
    void (*count_cells)(const ct_workspace *workspace, const ct_gpu_contact *contact, uint64_t *cells,
                        uint64_t *entries);
    void (*add_cells)(const ct_workspace *workspace, const ct_step *step, const ct_gpu_step *sent,
                      const ct_gpu_contact *contact, ct_result *result, uint64_t *entry);
    /* Adds what else the method has to a result. False: no memory; the step has its error. */
    bool (*finish_result)(const ct_workspace *workspace, const ct_gpu_counts *counts, ct_step *step, uint64_t index,
                          const ct_gpu_step *sent, ct_gpu_contact *contacts, ct_result *result);
};

/* All of them; NULL-ended (gpu/run/methods_cuda.cu). */
extern const ct_gpu_method *const ct_gpu_methods[];
const ct_gpu_method *ct_gpu_method_of(ct_method method);

/* Nothing more of the batch can be launched. */
static inline bool ct_gpu_is_over(const ct_device *device, const ct_workspace *workspace) {
    return device->lost || workspace->lacks_launch;
}

template <class T> void ct_gpu_destroy_scratch(void *scratch) {
    ((T *)scratch)->~T();
}

/* ---- backend_cuda.cu ---- */

/* False if `error` is one; the device is lost then. */
bool ct_gpu_ok(ct_device *device, cudaError_t error, const char *what);
void ct_gpu_lose(ct_device *device, const char *why);
ct_status ct_gpu_lost(const ct_device *device, ct_error *error); /* the error of a lost device */
double ct_gpu_now(void);                                         /* s */

extern const ct_kernel_entry ct_probe_kernels[];
extern const ct_kernel_entry ct_local_kernels[]; /* that are there to hold local memory */

/* ---- methods_cuda.cu ---- */

/* Loads every kernel onto the current device. *local_bytes: the most that one has of local memory, a thread, but for
 * ct_local_kernels.
 * OUT_OF_MEMORY, DEVICE_ERROR: which kernel it was, and why. */
ct_status ct_gpu_load_kernels(const ct_device *device, size_t *local_bytes, ct_error *error);

/* ---- memory_cuda.cu ---- */

struct ct_guard { /* locks the device's mutex for a scope */
    ct_device *device;
    explicit ct_guard(ct_device *d) : device(d) {
        pthread_mutex_lock(&d->mutex);
    }
    ~ct_guard() {
        pthread_mutex_unlock(&device->mutex);
    }
};

/* Waits for the workspace's stream. Before that what kernels should have written is not to be looked at. False: the
 * device is lost while `what` was being done, or lacks the memory to launch a kernel (ct_workspace.lacks_launch). */
bool ct_gpu_wait(ct_device *device, ct_workspace *workspace, const char *what);
/* Copies on the stream. `to` of copy_out must be pinned, and has the bytes after a wait. False: the device is lost
 * while `what` was being done. */
bool ct_gpu_copy_out(ct_device *device, const ct_workspace *workspace, void *to, const void *from, uint64_t bytes,
                     const char *what);
bool ct_gpu_copy_in(ct_device *device, const ct_workspace *workspace, void *to, const void *from, uint64_t bytes,
                    const char *what);

/* Bytes that the driver takes for an allocation of so many. */
uint64_t ct_gpu_rounded(uint64_t bytes);

/* What memory is counted as. Scratch has a limit of its own besides the budget. */
enum ct_memory_kind { CT_MEMORY_SCRATCH, CT_MEMORY_MESHES, CT_MEMORY_BODIES };

bool ct_gpu_open_pool(ct_device *device);    /* false: the device is lost */
bool ct_gpu_keep_in_pool(ct_device *device); /* after the budget is known; false: the device is lost */
void ct_gpu_trim_pool(ct_device *device);    /* gives what the pool has unused back to the driver, for OpenGL */
void ct_gpu_close_pool(ct_device *device);

/* Device memory that any stream may use. NULL: over the budget or none left, even after freeing meshes and workspaces
 * that are unused, or the device is lost. `mine`, which may be NULL, is a workspace whose scratch is in use. */
void *ct_gpu_alloc(ct_device *device, uint64_t bytes, ct_memory_kind kind, const ct_workspace *mine);
void ct_gpu_free(ct_device *device, void *memory, uint64_t bytes, ct_memory_kind kind);

/* Counts scratch that OpenGL allocates. False: over the budget. */
bool ct_gpu_reserve_foreign(ct_device *device, uint64_t bytes, const ct_workspace *mine);
void ct_gpu_return_foreign(ct_device *device, uint64_t bytes);

/* Grows a buffer of the workspace to at least so many bytes; its content is lost if it grows. Pinned memory counts as
 * scratch too; without a workspace the caller frees it.
 * False: no memory, or the device is lost. */
bool ct_gpu_reserve(ct_device *device, ct_workspace *workspace, ct_gpu_buffer *buffer, uint64_t bytes);
bool ct_gpu_reserve_pinned(ct_device *device, ct_workspace *workspace, ct_gpu_pinned *pinned, uint64_t bytes);
void ct_gpu_free_buffer(ct_device *device, ct_gpu_buffer *buffer); /* which may grow again */
void ct_gpu_free_pinned(ct_device *device, ct_gpu_pinned *pinned);
void ct_gpu_free_scratch(ct_device *device, ct_workspace *workspace); /* all memory of a workspace that is not in use */
uint64_t ct_gpu_release_idle(ct_device *device, double seconds);      /* as ct_backend.release_scratch */
void ct_gpu_free_workspace(ct_device *device, ct_workspace *workspace); /* and its stream and events */

/* Appends n elements of `size` bytes. Returns the first of them; NULL: no memory. */
void *ct_host_append(ct_host_list *list, uint64_t n, size_t size);
template <class T> bool ct_host_add(ct_host_list *list, const T &value) {
    void *at = ct_host_append(list, 1, sizeof value);
    if (at) memcpy(at, &value, sizeof value);
    return at;
}

/* ---- body_cuda.cu ---- */

ct_status ct_gpu_body_create(ct_device *device, ct_body *body, ct_error *error);
void ct_gpu_body_destroy(ct_device *device, ct_body *body);
ct_status ct_gpu_body_positions(ct_device *device, const ct_body *body, float *out, float *low, ct_error *error);
/* Once the body's box is known: whether float32 holds not all of the positions that callers gave. */
void ct_gpu_note_rounding(ct_body *body, bool is_rounded);
void ct_gpu_mesh_forget(ct_device *device, const ct_mesh *mesh);
uint64_t ct_gpu_mesh_bytes(ct_device *device, const char *hash);
void ct_gpu_scene_forget(ct_device *device, ct_scene *scene);
/* Allocates a scene's table. False: no memory, or the device is lost. */
bool ct_gpu_reserve_table(ct_device *device, ct_scene *scene);
bool ct_gpu_evict_meshes(ct_device *device); /* frees meshes without users; false: there is none */
void ct_gpu_free_meshes(ct_device *device);

/* ---- undo_cuda.cu ---- */

/* Before a step moves the body: keeps what it was. */
void ct_gpu_keep_body(ct_body *body);
/* Before a step runs: nothing of its bodies is kept. */
void ct_gpu_forget_kept(const ct_step *step);
/* As ct_backend.undo. */
void ct_gpu_undo(ct_device *device, ct_step *step);

/* ---- batch_cuda.cu ---- */

/* Makes the workspace's tables. False: no memory. */
bool ct_gpu_open_tables(ct_workspace *workspace);
/* Reserves what is known before the batch runs; tells the batch where its tables are and how many elements fit into
 * each; grows those that CT_SHORT_* flags name. */
bool ct_gpu_reserve_known(ct_device *device, ct_workspace *workspace, ct_batch *b);
void ct_gpu_lay_out(const ct_device *device, ct_workspace *workspace, ct_batch *b);
bool ct_gpu_grow_tables(ct_device *device, ct_workspace *workspace, const ct_gpu_counts *counts, uint32_t shortage,
                        ct_gpu_need *need);
/* Whether the tables that a finished batch leaves zero are, and what makes them so; new memory and a batch with a
 * shortage do not. */
bool ct_gpu_are_tables_clean(const ct_workspace *workspace);
void ct_gpu_mark_tables(ct_workspace *workspace, bool are_clean);
bool ct_gpu_clear_tables(ct_device *device, ct_workspace *workspace);
/* Where a method's tables are: after ct_gpu_lay_out. */
void ct_gpu_point_tables(const ct_workspace *workspace, const ct_gpu_room *room, void *tables);

/* Reserves memory for what *need then says. */
bool ct_gpu_reserve_for(ct_device *device, ct_workspace *workspace, ct_gpu_buffer *buffer, uint64_t bytes,
                        const char *what, ct_gpu_need *need);
bool ct_gpu_reserve_pinned_for(ct_device *device, ct_workspace *workspace, ct_gpu_pinned *pinned, uint64_t bytes,
                               const char *what, ct_gpu_need *need);
bool ct_gpu_clear(ct_device *device, const ct_workspace *workspace, void *memory, uint64_t bytes);

/* Blocks of a launch for so many threads: no more than are needed, as those without work take their time, too. */
unsigned ct_gpu_grid_of(const ct_device *device, uint64_t threads);
/* The same of a batch, whose numbers are known on the device only: by those that recent batches had. */
void ct_gpu_choose_grid(const ct_device *device, ct_workspace *workspace, const ct_batch *b);
void ct_gpu_note_work(ct_workspace *workspace, const ct_gpu_counts *counts);

/* Marks the end of a phase, and the beginning of the next one. False: the device is lost. */
bool ct_gpu_end_phase(ct_device *device, ct_workspace *workspace, ct_phase phase);
/* Queues the copy of bytes [first, end) of the answer, or of as much of it as is expected: its size is known on the
 * device only. */
bool ct_gpu_copy_answer(ct_device *device, ct_workspace *workspace, uint64_t first, uint64_t end);
bool ct_gpu_copy_expected(ct_device *device, ct_workspace *workspace, const ct_batch *b);

/* Stages that several methods have. */
bool ct_gpu_launch_pairs(ct_device *device, ct_workspace *workspace, const ct_batch *b);
bool ct_gpu_launch_windows(ct_device *device, ct_workspace *workspace, const ct_batch *b); /* pairs and their plans */
bool ct_gpu_launch_answer(ct_device *device, ct_workspace *workspace, const ct_batch *b);

/* ---- sides_cuda.cu ---- */

/* Where a method has what bodies with themselves are divided by. */
struct ct_side_source {
    const uint64_t
        *offset;       /* on the device: [per_pair pairs + 1], where the parts of a pair's candidates begin: no two */
    uint32_t per_pair; /* offsets of a pair without any differ */
    uint32_t needs;    /* wishes of which a step must have one; 0: none */
    const void *facts; /* on the device: of each pair, in steps of fact_stride bytes */
    uint64_t fact_bytes, fact_stride; /* bytes: a multiple of 4 */
    bool (*has_shortage)(const ct_gpu_counts *counts, const ct_gpu_capacity *capacity);
    /* What the sides of a pair with these facts are found with: ct_side_rows.rounding, and units of areas. */
    void (*read_facts)(const void *facts, ct_weight_units *units, int64_t *rounding);
};

/* Waits for what has been launched, and divides the sums of each body with itself between the contact's two parts;
 * *sides are they. After a shortage it does nothing. False: no memory for what *need says, or the device is lost. */
bool ct_gpu_split_sides(ct_device *device, ct_workspace *workspace, const ct_answer_tables *b,
                        const ct_side_source *source, ct_side_tables *sides, ct_gpu_need *need);

/* ---- stage_cuda.cu ---- */

enum ct_staged { CT_STAGED, CT_STAGED_NOTHING, CT_STAGE_NO_MEMORY };

/* Assembles the tables of a batch of these steps. A step that sends a number which is not finite gets its error and is
 * left out. Without `updates` the steps' updates are on the device already. */
ct_staged ct_gpu_stage(ct_device *device, ct_workspace *workspace, ct_step *const *steps, size_t n_steps, bool updates);

/* Copies them to the device. False: no memory, or the device is lost. */
bool ct_gpu_send(ct_device *device, ct_workspace *workspace, ct_batch *batch);

/* ---- run_cuda.cu ---- */

/* Writes the steps' updates to the device and nothing else, so that boxes and poses of the bodies on the host are those
 * of their vertices. False: no memory for what *need says, or the device is lost. */
bool ct_gpu_move_bodies(ct_device *device, ct_workspace *workspace, ct_step *const *steps, size_t n_steps,
                        ct_gpu_need *need);
/* Computes steps, whose updates are on the device, by the method `exact`. They get their results or errors. alone: the
 * caller has all workspaces. */
void ct_gpu_run_exact_on(ct_device *device, ct_workspace *workspace, ct_step *const *steps, size_t n_steps, bool alone);

/* ---- run/answer_cuda.cu ---- */

/* Makes the results of a batch that has been computed. */
void ct_gpu_answer(ct_device *device, ct_workspace *workspace, const ct_batch *batch);

#endif

/* device.cuh - the host side of the CUDA backend: a device, what is resident on it, and its workspaces. A workspace
 * runs one batch at a time, on its own stream. */
#ifndef CT_CUDA_DEVICE_CUH
#define CT_CUDA_DEVICE_CUH

#include "gpu/backend/cuda/batch.cuh"
#include "gpu/span/cells_cuda.cuh"

#include <atomic>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

extern "C" {
#include "gpu/backend/backend.h"
#include "gpu/backend/cuda/backend_cuda.h"
#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/contact/result.h"
#include "gpu/ebpi/refine.h"
#include "gpu/exact/extents.h"
#include "gpu/mesh/clusters.h"
#include "gpu/methods.h"
#include "gpu/raster/shared_gl.h"
#include "gpu/view/view.h"
}

/* Device memory, counted against the budget. */
struct ct_gpu_buffer {
    void *data;
    uint64_t bytes;
};

/* Host memory that the device reads and writes. */
struct ct_gpu_pinned {
    void *host, *device;
    uint64_t bytes;
};

/* A growing array on the host. Its memory is kept for the next batch. */
struct ct_host_list {
    void *data;
    uint64_t n, capacity; /* elements */
};

enum ct_mesh_state { CT_MESH_UPLOADING, CT_MESH_READY, CT_MESH_FAILED };

/* The one copy of a mesh on the device. */
struct ct_gpu_tree; /* voxtree.cu */
struct ct_mesh_copy {
    char hash[33];
    ct_mesh_state state;
    void *memory; /* positions, triangles, clusters' boxes */
    uint32_t *triangles;
    ct_cluster_box *cluster_boxes; /* of the rest positions; NULL: too few triangles to cull */
    uint64_t bytes;
    ct_gpu_topology *topology; /* on the device, of topology_bytes; NULL before the method `exact` needs it */
    uint64_t topology_bytes;
    ct_gpu_own_surface *own_surface; /* the same, before that method has a body that meets itself */
    uint64_t own_surface_bytes;
    ct_gpu_tree *trees[CT_MAX_VOXEL_LEVEL + 1]; /* by their finest level; NULL before the method `voxtree` needs them */
    uint64_t tree_bytes;
    uint32_t (*opposite)[3]; /* ct_adjacency, on the device, of opposite_bytes; NULL before `ebpi` needs it */
    uint64_t opposite_bytes;
    uint32_t users; /* bodies, and threads that wait for the upload; without users it stays until memory is short */
    ct_mesh_copy *next;
};

/* What a body was before the step that runs, on the host: see ct_backend.undo. */
struct ct_body_before {
    bool is_kept; /* the step has moved the body */
    ct_box box;
    uint32_t box_level;
    double pose[12];
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

/* An OpenGL buffer that is registered with CUDA. */
struct ct_gpu_shared {
    cudaGraphicsResource_t resource;
    uint64_t bytes;
};

/* Why a step's contacts have no cells: pairs and candidates of its batch, or CT_GPU_NONE. */
struct ct_gpu_cell_step {
    uint32_t unplanned; /* the first pair whose cells cannot be planned */
    uint32_t crowded;   /* the first candidate that is a contact of too many cells */
};

/* The cells of a batch, on the host, in memory of its workspace (cells.cu). */
struct ct_gpu_found_cells {
    uint64_t n_candidates, n_cells, n_entries;
    const ct_gpu_pair *pairs;         /* [all pairs of the batch] */
    const ct_gpu_plan *plans;         /* the same */
    const uint32_t *candidate_pair;   /* [n_candidates] */
    const int64_t (*length)[3];       /* [n_candidates] sums over the views' spans */
    const int64_t (*spans)[3];        /* [n_candidates] */
    const ct_cell_grid *grids;        /* [n_candidates]; their walls are on the device */
    const uint64_t *met;              /* [n_candidates] as in ct_cell_tables */
    const ct_gpu_cell *cells;         /* [n_cells] in no order */
    const ct_gpu_cell_entry *entries; /* [n_entries] in no order */
    const uint64_t *order;            /* [n_cells] of these by candidate and place */
    const uint64_t *first_cell;       /* [n_candidates + 1] in this order */
    const uint64_t *first_entry;      /* [n_cells + 1] in entry_order, of cells in order */
    const uint64_t *entry_order;      /* [n_entries] by cell, part and vertex */
};

/* How a step of the method `ebpi` ended. */
struct ct_ebpi_step_totals {
    uint64_t rays;
    uint32_t passes, n_pairs, n_met;
    ct_ended ended;
};

struct ct_workspace {
    bool busy;
    bool is_exact, is_ebpi; /* the batch's method: one of these, or LDI */
    bool is_clean;          /* rays, sums and their page table are all zero */
    bool gl_is_clean;       /* OpenGL's lists of fragments are empty */
    ct_raster_gl *gl;       /* NULL: CUDA rasterises */
    ct_gpu_shared shared[CT_GL_BUFFERS];
    cudaStream_t stream;
    cudaEvent_t events[CT_PHASES + 1]; /* the begin of each phase, and the end of the last one's copy to the host */
    ct_gpu_capacity capacity;
    /* What steps send, as lists of ct_gpu_step, ct_gpu_crowd, ct_gpu_box_update, ct_gpu_pose_write,
     * ct_gpu_position_write and uint32_t. Beside them, in the same order: moved_bodies (ct_body *) of box_updates,
     * posed_bodies (ct_body *) of pose_writes, members (ct_step *) of steps. Scene tables that changed: their words,
     * and a ct_stale_table for each. */
    ct_host_list steps, crowds, box_updates, pose_writes, position_writes, indices, moved_bodies, posed_bodies, members,
        words, stale_tables, directions, direction_values;
    /* Of cells: a ct_gpu_cell_step for each step; the others are what found_cells points to, and a rank for each cell.
     */
    ct_host_list cell_steps, cell_order, first_cells, cell_ranks, first_cell_entries, cell_entry_order;
    ct_gpu_found_cells found_cells;
    ct_host_list ebpi_totals;  /* ct_ebpi_step_totals of each step */
    ct_host_list ebpi_tiles;   /* ct_ray_tile: those of each candidate whose step wants them, */
    ct_host_list first_tile;   /* and where they begin, uint64_t: one more than there are candidates */
    ct_host_list turned_views; /* ct_turned_views of each candidate; none: no views are turned */
    ct_ebpi_memory *ebpi_memory;
    uint64_t n_rows, n_box_chunks;
    uint32_t n_bodies;
    ct_gpu_crowd crowd_end; /* the offsets that the next crowd begins at */
    /* What is sent, the tables of ct_batch, and the answer with its copy; also as arrays of all of them. */
    union {
        struct {
            ct_gpu_buffer tables, rows, small, pairs, candidates, chunks, near_clusters, rays, vertex_chunks,
                page_table, pages, fragments, large_triangles, entries, spans, answer;
            /* Of the method `exact`: */
            ct_gpu_buffer exact_pairs, exact_chunks, slots, side_clusters, units, components, cluster_pairs,
                triangle_pairs, crossings, crossed, windings, own_numbers, recrossings, second_sums;
            /* Of patches: */
            ct_gpu_buffer found, found_units, found_facings, ray_hits, splits;
            /* Of bodies with themselves: */
            ct_gpu_buffer side_list, side_sums;
            /* Of cells: */
            ct_gpu_buffer cell_spans, cell_grids, cell_slots, cell_list, cell_vertices, cell_entries;
            /* Of the method `voxtree`: */
            ct_gpu_buffer voxel_pairs, voxel_fronts[2], voxel_sums, voxel_slots;
            /* Of the method `ebpi`: */
            ct_gpu_buffer ebpi_coords, ebpi_counts, ebpi_faces[2], ebpi_tables, ebpi_scratch, ebpi_errors, ebpi_turned;
        };
        ct_gpu_buffer buffers[56];
    };
    union {
        struct {
            ct_gpu_pinned tables_staging, rows_staging, answer_host, second_host, found_host, ray_hits_host,
                splits_staging, sides_host, voxel_staging, voxel_host, cell_pairs_host, cell_grids_host,
                cell_counts_host, cells_host, ebpi_host;
        };
        ct_gpu_pinned pinned[15];
    };
    uint64_t expected_answer; /* bytes that the next answer is expected to have */
    uint64_t copied_answer;   /* bytes of the last answer that its first copy took */
};

/* The table that could not grow, for an error message. */
struct ct_gpu_need {
    const char *what;
    uint64_t bytes;
    uint64_t most; /* 0, or the largest size of such a table whatever the memory */
};

struct ct_device {
    int ordinal;
    unsigned grid;      /* blocks of a launch */
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
    std::atomic<double> exact_factor; /* how long EXACT takes after VOXTREE: see learn_factor of voxtree_refine.cu */
    char lost_reason[128];            /* written before lost is set */
};

/* ---- device.cu ---- */

/* False if `error` is one; the device is lost then. */
bool ct_gpu_ok(ct_device *device, cudaError_t error, const char *what);
void ct_gpu_lose(ct_device *device, const char *why);
ct_status ct_gpu_lost(const ct_device *device, ct_error *error); /* the error of a lost device */
double ct_gpu_now(void);                                         /* s */

extern const ct_kernel_entry ct_probe_kernels[];

/* ---- load.cu ---- */

/* Loads every kernel onto the current device. OUT_OF_MEMORY, DEVICE_ERROR: which kernel it was, and why. */
ct_status ct_gpu_load_kernels(const ct_device *device, ct_error *error);

/* ---- memory.cu ---- */

struct ct_guard { /* locks the device's mutex for a scope */
    ct_device *device;
    explicit ct_guard(ct_device *d) : device(d) {
        pthread_mutex_lock(&d->mutex);
    }
    ~ct_guard() {
        pthread_mutex_unlock(&device->mutex);
    }
};

/* Waits for the workspace's stream, and copies on it. `to` of copy_out must be pinned, and has the bytes after a wait.
 * False: the device is lost; `what` was being done. */
bool ct_gpu_wait(ct_device *device, const ct_workspace *workspace, const char *what);
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

/* Grows a buffer to at least so many bytes; its content is lost if it grows. Pinned memory counts as scratch too.
 * False: no memory, or the device is lost. */
bool ct_gpu_reserve(ct_device *device, ct_workspace *workspace, ct_gpu_buffer *buffer, uint64_t bytes);
bool ct_gpu_reserve_pinned(ct_device *device, const ct_workspace *workspace, ct_gpu_pinned *pinned, uint64_t bytes);
void ct_gpu_free_pinned(ct_device *device, ct_gpu_pinned *pinned);
void ct_gpu_free_scratch(ct_device *device, ct_workspace *workspace); /* all memory of a workspace that is not in use */
void ct_gpu_free_workspace(ct_device *device, ct_workspace *workspace); /* and its stream, events and lists */

/* Appends n elements of `size` bytes. Returns the first of them; NULL: no memory. */
void *ct_host_append(ct_host_list *list, uint64_t n, size_t size);

/* ---- body.cu ---- */

ct_status ct_gpu_body_create(ct_device *device, ct_body *body, ct_error *error);
void ct_gpu_body_destroy(ct_device *device, ct_body *body);
ct_status ct_gpu_body_positions(ct_device *device, const ct_body *body, float *out, ct_error *error);
void ct_gpu_mesh_forget(ct_device *device, const ct_mesh *mesh);
uint64_t ct_gpu_mesh_bytes(ct_device *device, const char *hash);
void ct_gpu_scene_forget(ct_device *device, ct_scene *scene);
/* Allocates a scene's table. False: no memory, or the device is lost. */
bool ct_gpu_reserve_table(ct_device *device, ct_scene *scene);
bool ct_gpu_evict_meshes(ct_device *device); /* frees meshes without users; false: there is none */
void ct_gpu_free_meshes(ct_device *device);

/* ---- undo.cu ---- */

/* Before a step moves the body: keeps what it was. */
void ct_gpu_keep_body(ct_body *body);
/* Before a step runs: nothing of its bodies is kept. */
void ct_gpu_forget_kept(const ct_step *step);
/* As ct_backend.undo. */
void ct_gpu_undo(ct_device *device, ct_step *step);

/* ---- stage.cu ---- */

enum ct_staged { CT_STAGED, CT_STAGED_NOTHING, CT_STAGE_NO_MEMORY };

/* Assembles the tables of a batch of these steps. A step that sends a number which is not finite gets its error and is
 * left out. Without `updates` the steps' updates are on the device already. */
ct_staged ct_gpu_stage(ct_device *device, ct_workspace *workspace, ct_step *const *steps, size_t n_steps, bool updates);

/* Copies them to the device. False: no memory, or the device is lost. */
bool ct_gpu_send(ct_device *device, ct_workspace *workspace, ct_batch *batch);

/* ---- topology.cu ---- */

/* Sends what the method `exact` needs of the steps' meshes, where it has not been sent yet. False: no memory for what
 * *need says, or the device is lost. */
bool ct_gpu_prepare_exact(ct_device *device, ct_workspace *workspace, ct_step *const *steps, size_t n_steps,
                          ct_gpu_need *need);

/* ---- second.cu ---- */

/* Copies the sums for second derivatives and moments of a computed batch to the host. False: no memory for what *need
 * says, or the device is lost. */
bool ct_gpu_copy_second(ct_device *device, ct_workspace *workspace, const ct_batch *batch, const ct_gpu_counts *counts,
                        ct_gpu_need *need);

/* Adds what a step wants of them to its result, whose contacts are contacts[]. False: no memory; the step has its
 * error. */
bool ct_gpu_add_second(const ct_workspace *workspace, const ct_gpu_counts *counts, ct_step *step,
                       const ct_gpu_step *sent, ct_gpu_contact *contacts, ct_result *result);

/* ---- patches.cu ---- */

/* Between winding numbers and sums: waits for what has been launched, splits the pairs of steps that want patches into
 * their pieces, and launches what makes the tables of *batch those of the pieces. After a shortage it does nothing, and
 * if the tables have no room for the pieces it makes the counts tell so. False: no memory for what *need says, or the
 * device is lost. */
bool ct_gpu_split_pairs(ct_device *device, ct_workspace *workspace, ct_batch *batch, ct_gpu_need *need);

/* ---- sides.cu ---- */

/* Between spans and answer: waits for what has been launched, and divides the sums of each body with itself between the
 * contact's two parts. After a shortage it does nothing. False: no memory for what *need says, or the device is lost.
 */
bool ct_gpu_split_sides(ct_device *device, ct_workspace *workspace, const ct_batch *batch, ct_gpu_need *need);

/* ---- cells.cu ---- */

/* Between sides and answer: waits for what has been launched, and divides the contacts of steps with cells, into
 * workspace->found_cells. After a shortage it does nothing. False: no memory for what *need says, or the device is
 * lost. */
bool ct_gpu_find_cells(ct_device *device, ct_workspace *workspace, const ct_batch *batch, ct_gpu_need *need);

/* Whether step number `index` of the batch has a pair that cannot be divided; the step then has its error. refused: its
 * first pair without a window, or CT_GPU_NONE; before that one, or where there is none, it has an error of its own. */
bool ct_gpu_refuse_cells(const ct_device *device, const ct_workspace *workspace, ct_step *step, uint64_t index,
                         uint32_t refused);

/* Adds a contact's cells and their entries to *cells and *entries. */
void ct_gpu_count_cells(const ct_workspace *workspace, const ct_gpu_contact *contact, uint64_t *cells,
                        uint64_t *entries);

/* Adds a contact's cells to the result, whose last contact it is, with their entries from *entry on. */
void ct_gpu_add_cells(const ct_workspace *workspace, const ct_step *step, const ct_gpu_step *sent,
                      const ct_gpu_contact *contact, ct_result *result, uint64_t *entry);

/* ---- voxtree.cu ---- */

/* Computes a batch of the method `voxtree`, of steps that began at `start` (of ct_gpu_now). May be called again after
 * it failed. alone: the caller has all workspaces. False: no memory for what *need says, or the device is lost. */
bool ct_gpu_compute_voxels(ct_device *device, ct_workspace *workspace, ct_step *const *steps, size_t n_steps,
                           double start, bool alone, ct_gpu_need *need);
void ct_gpu_free_trees(ct_device *device, ct_mesh_copy *copy);

/* ---- voxtree_refine.cu ---- */

/* Computes pairs that went down their trees by the method `exact`, where their scenes want it and it fits the time
 * left. Steps that fail get their errors. alone: as above. False: no memory for what *need says, or the device is lost.
 */
bool ct_gpu_refine_voxels(ct_device *device, ct_workspace *workspace, struct ct_voxel_rounds *rounds, bool alone,
                          ct_gpu_need *need);

/* ---- run.cu ---- */

/* Writes the steps' updates to the device and nothing else, so that boxes and poses of the bodies on the host are those
 * of their vertices. False: no memory for what *need says, or the device is lost. */
bool ct_gpu_move_bodies(ct_device *device, ct_workspace *workspace, ct_step *const *steps, size_t n_steps,
                        ct_gpu_need *need);
/* Computes steps, whose updates are on the device, by the method `exact`. They get their results or errors. alone: the
 * caller has all workspaces. */
void ct_gpu_run_exact_on(ct_device *device, ct_workspace *workspace, ct_step *const *steps, size_t n_steps, bool alone);

/* ---- ebpi.cu ---- */

/* Once the windows are planned: waits for them, refines the tiles of each pair, launches what adds the spans of their
 * rays, and sets b->view_errors and b->turned. After a shortage it does nothing. A step with a pair that cannot be
 * refined gets its error. False: no memory for what *need says, or the device is lost. */
bool ct_gpu_refine_pairs(ct_device *device, ct_workspace *workspace, ct_batch *b, ct_gpu_need *need);

/* ---- answer.cu ---- */

/* Makes the results of a batch that has been computed. */
void ct_gpu_answer(ct_device *device, ct_workspace *workspace, const ct_batch *batch);

#endif

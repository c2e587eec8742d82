/* device.cuh - the CUDA backend's host side: a device with what is resident on it, and its workspaces, each of which
 * runs one batch at a time on a stream of its own. */
#ifndef CT_CUDA_DEVICE_CUH
#define CT_CUDA_DEVICE_CUH

#include "gpu/backend/cuda/batch.cuh"

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
#include "gpu/base/fail.h"
#include "gpu/contact/result.h"
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

/* A list on the host that is kept for the next batch. */
struct ct_host_list {
    void *data;
    uint64_t n, capacity; /* elements */
};

/* A mesh's one copy on the device. */
struct ct_mesh_copy {
    char hash[33];
    void *memory; /* positions, then triangles */
    uint32_t *triangles;
    uint64_t bytes;
    uint32_t users; /* bodies; with none it stays until memory is short or it is forgotten */
    ct_mesh_copy *next;
};

struct ct_resident {
    ct_mesh_copy *mesh;
    ct_gpu_body *body; /* on the device, with a deformable body's positions after it */
    uint64_t bytes;
};

/* The list of a scene's bodies and its ignored pairs, sent when they change; see ct_gpu_step.bodies. */
struct ct_scene_table {
    ct_gpu_body **memory;
    uint64_t bytes;
    uint64_t version; /* the scene's when it was sent; 0: never */
};

/* A scene's table that the device has in an older version, and where its words are among those to be sent. */
struct ct_stale_table {
    ct_scene *scene;
    uint64_t first, n; /* words */
};

/* A buffer of OpenGL's that CUDA uses as well. */
struct ct_gpu_shared {
    cudaGraphicsResource_t resource;
    uint64_t bytes;
};

struct ct_workspace {
    bool busy;
    bool is_clean;    /* rays, pages and their table are all zero */
    bool is_blank;    /* what OpenGL draws into is empty */
    ct_raster_gl *gl; /* NULL: kernels rasterise */
    ct_gpu_shared shared[CT_GL_BUFFERS];
    cudaStream_t stream;
    cudaEvent_t events[CT_PHASES + 1]; /* the beginning, and the end of each phase */
    ct_gpu_capacity capacity;
    /* What is sent, as lists of ct_gpu_step, ct_gpu_crowd, ct_gpu_box_update, ct_gpu_pose_write, ct_gpu_position_write
     * and uint32_t. Whose it is: ct_body * of box_updates and pose_writes, ct_step * of steps. Scene tables that
     * changed: their words, and a ct_stale_table for each. */
    ct_host_list steps, crowds, box_updates, pose_writes, position_writes, indices, moved_bodies, posed_bodies, members,
        words, stale_tables;
    uint64_t n_rows, n_box_chunks;
    uint32_t n_bodies;
    ct_gpu_crowd crowd_end; /* what would be first of the next */
    ct_gpu_pinned tables_staging, rows_staging;
    ct_gpu_buffer tables, rows;
    /* Scratch, see ct_batch: */
    ct_gpu_buffer small, pairs, candidates, chunks, rays, vertex_chunks, page_table, pages, fragments, large_triangles,
        entries, spans, answer;
    ct_gpu_pinned answer_host;               /* a copy of the answer */
    uint64_t expected_answer, copied_answer; /* bytes that the next answer is expected to have; that were copied */
};

/* What a batch lacked, for a message. */
struct ct_gpu_need {
    const char *what;
    uint64_t bytes;
    uint64_t most; /* 0, or all that there can be of it, whatever the memory */
};

struct ct_device {
    int ordinal;
    unsigned grid; /* blocks of a launch */
    char name[96];
    pthread_mutex_t mutex; /* recursive: of meshes, memory and workspaces */
    pthread_cond_t workspace_free;
    ct_mesh_copy *meshes;
    ct_gl_context *gl; /* on the same GPU; NULL: kernels rasterise */
    cudaStream_t setup;
    ct_workspace workspaces[CT_MAX_CONCURRENT_BATCHES];
    uint64_t limit, scratch_limit; /* bytes; scratch_limit 0: none of its own */
    std::atomic<uint64_t> used, peak_scratch, mesh_bytes, body_bytes, uploaded, downloaded, launches, reruns;
    std::atomic<bool> lost;
    char lost_reason[128]; /* written before lost is set */
};

/* ---- device.cu ---- */

/* False, and the device is lost, if `error` is one. */
bool ct_gpu_ok(ct_device *device, cudaError_t error, const char *what);
void ct_gpu_lose(ct_device *device, const char *why);
ct_status ct_gpu_lost(const ct_device *device, ct_error *error); /* the error of a lost device */
double ct_gpu_now(void);                                         /* s */

extern const ct_kernel_entry ct_probe_kernels[];

/* ---- load.cu ---- */

/* Loads every kernel onto the current device. OUT_OF_MEMORY, DEVICE_ERROR: which kernel it was, and why. */
ct_status ct_gpu_load_kernels(const ct_device *device, ct_error *error);

/* ---- memory.cu ---- */

struct ct_guard { /* holds the device's mutex */
    ct_device *device;
    explicit ct_guard(ct_device *d) : device(d) {
        pthread_mutex_lock(&d->mutex);
    }
    ~ct_guard() {
        pthread_mutex_unlock(&device->mutex);
    }
};

/* The driver gives memory in pieces; this many bytes it takes for so many. */
uint64_t ct_gpu_rounded(uint64_t bytes);

/* NULL: over the budget, or there is none left, even after dropping what nobody uses (`mine`, which may be NULL, is the
 * workspace whose scratch is in use); or the device is lost. */
void *ct_gpu_alloc(ct_device *device, uint64_t bytes, const ct_workspace *mine);
void ct_gpu_free(ct_device *device, void *memory, uint64_t bytes);

/* The same for memory of a workspace's scratch that something else than cudaMalloc gives: only counts it. */
bool ct_gpu_take(ct_device *device, uint64_t bytes, const ct_workspace *mine);
void ct_gpu_give(ct_device *device, uint64_t bytes);

/* Makes room, and some more where there is; what was in the buffer is gone if it had to grow. */
bool ct_gpu_reserve(ct_device *device, ct_workspace *workspace, ct_gpu_buffer *buffer, uint64_t bytes);
bool ct_gpu_reserve_pinned(ct_device *device, ct_gpu_pinned *pinned, uint64_t bytes);
void ct_gpu_free_scratch(ct_device *device, ct_workspace *workspace); /* all that a workspace keeps */
void ct_gpu_free_workspace(ct_device *device, ct_workspace *workspace);

/* Room for n more elements of `size` bytes after those there are; NULL: no memory. */
void *ct_host_add(ct_host_list *list, uint64_t n, size_t size);

/* ---- body.cu ---- */

ct_status ct_gpu_body_create(ct_device *device, ct_body *body, ct_error *error);
void ct_gpu_body_destroy(ct_device *device, ct_body *body);
ct_status ct_gpu_body_positions(ct_device *device, const ct_body *body, float *out, ct_error *error);
void ct_gpu_mesh_forget(ct_device *device, const ct_mesh *mesh);
uint64_t ct_gpu_mesh_bytes(ct_device *device, const char *hash);
void ct_gpu_scene_forget(ct_device *device, ct_scene *scene);
/* Room for a scene's table. False: no memory, or lost. */
bool ct_gpu_reserve_table(ct_device *device, ct_scene *scene);
bool ct_gpu_evict_meshes(ct_device *device); /* those without users; false: there were none */
void ct_gpu_free_meshes(ct_device *device);

/* ---- stage.cu ---- */

enum ct_staged { CT_STAGED, CT_STAGED_NOTHING, CT_STAGE_NO_MEMORY };

/* Puts together what a batch of these steps needs; refuses those that send numbers that are not finite. With
 * `updates` unset, what they send has been applied before. */
ct_staged ct_gpu_stage(ct_device *device, ct_workspace *workspace, ct_step *const *steps, size_t n_steps, bool updates);

/* Copies it to the device. False: no memory, or lost. */
bool ct_gpu_send(ct_device *device, ct_workspace *workspace, ct_batch *batch);

/* ---- answer.cu ---- */

/* Results of the workspace's batch, which has been computed. */
void ct_gpu_answer(ct_device *device, ct_workspace *workspace, const ct_batch *batch);

#endif

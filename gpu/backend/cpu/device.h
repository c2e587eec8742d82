/* device.h - the CPU backend's own structures: the device with its threads, workspaces and scratch, and the jobs of
 * a batch. */
#ifndef CT_CPU_DEVICE_H
#define CT_CPU_DEVICE_H

#include <pthread.h>

#include "gpu/backend/backend.h"
#include "gpu/backend/cpu/pool.h"
#include "gpu/base/scratch.h"
#include "gpu/contact/compact_cpu.h"
#include "gpu/raster/patch.h"
#include "gpu/raster/raster_cpu.h"
#include "gpu/raster/raster_gl.h"
#include "gpu/span/span_cpu.h"
#include "gpu/view/snap_cpu.h"
#include "gpu/view/view.h"

enum { CT_MAX_THREADS = 256 };

/* One instruction set's kernels. */
typedef struct ct_kernels {
    const char *name;
    const ct_snap_cpu *snap;
    const ct_bin_cpu *bin;
    const ct_raster_cpu *raster;
    const ct_span_cpu *span;
    const ct_compact_cpu *gather;
} ct_kernels;

/* The kernels of that name ("auto": the best that this processor runs), or NULL with *error. */
const ct_kernels *ct_kernels_find(const char *name, ct_error *error);
void ct_kernels_list(char *names, size_t size); /* those that this processor runs, space-separated */

struct ct_resident {
    float *positions; /* [n_vertices][3]: deformable, world; NULL for a rigid body, whose mesh has them */
};

/* One thread's scratch. */
typedef struct ct_thread_scratch {
    /* A pair on its lattice, used by whoever drives the job: */
    ct_buffer coords[2], cells[2], bins_memory, gathered;
    ct_bin *bins;
    size_t n_bins;         /* whose memory is to be freed in the end */
    ct_patches patches[2]; /* for OpenGL: those that this thread made of bodies drawn first, and second */
    /* A chunk of triangles, then a band: */
    ct_bin_scratch binning;
    ct_ray_lists rays;
    ct_span_scratch span;
    /* The pair's sums, or this thread's part of them: */
    ct_buffer gradient_memory[2], touched_memory[2];
    ct_contact_sums sums;
    uint64_t sums_job; /* number of the job that sums belong to; 0: none, and all is zero */
    uint64_t rays_cast, fragments;
    double raster_seconds, span_seconds;
} ct_thread_scratch;

/* A pair of a step. */
typedef struct ct_pair_task {
    size_t step;
    const ct_body *body[2];
    ct_window window;
    ct_bands bands;
    uint64_t number; /* unique and non-zero */
    double cost;     /* ns, roughly */
    uint32_t want;
    double stiffness; /* the scene's */
    /* Of bands [first_band, end_band), rays were drawn by OpenGL, if it draws: by view, the index in the drawing that
     * the ray of the view's first row has, or would have. */
    const ct_drawing *drawing;
    uint32_t first_band, end_band;
    int64_t first_ray[3];
    /* out: */
    ct_status status;
    bool found; /* a contact */
    ct_contact contact;
    /* Its own memory until the step's result is made: the entries, body 0's first, and ct_raw_span
     * [contact.n_spans]. */
    ct_entry_arrays entries;
    void *raw_spans;
    uint64_t rays, fragments;
    double seconds[CT_PHASES];
} ct_pair_task;

/* One of the batches that run at a time: its caller's place in the device. The pool's threads work for every workspace,
 * so each has scratch in each. */
typedef struct ct_workspace {
    ct_device *device;
    ct_thread_scratch *workers; /* [device->threads] */
    ct_buffer jobs;
    uint64_t next_job;
    ct_raster_gl *gl;    /* of the device's drawer */
    ct_buffer tiles;     /* of a drawing of several pairs */
    bool taken, waiting; /* guarded by the device's mutex. waiting: to be alone; it computes nothing meanwhile */
} ct_workspace;

/* What lets the views of pairs be drawn by OpenGL; NULL in a device: the CPU rasterises them itself. */
typedef struct ct_drawer {
    const char *name;                                      /* as ct_engine_options.rasterizer has it: "egl" */
    ct_status (*open)(ct_device *device, ct_error *error); /* after its workspaces were made */
    void (*close)(ct_device *device);                      /* harmless after a failed open */
    void (*release)(ct_workspace *workspace);              /* gives back the workspace's buffers */
    ct_status (*draw)(ct_workspace *workspace, ct_drawing *drawing, ct_error *error); /* as ct_raster_gl_draw */
    const char *(*renderer)(const ct_device *device); /* the OpenGL driver's name for what draws */
} ct_drawer;

extern const ct_drawer ct_drawer_egl; /* only with CT_HAVE_EGL */

struct ct_device {
    const ct_drawer *drawer;
    struct ct_gl_context *gl; /* the drawer's */
    ct_pool *pool;
    uint32_t threads;
    const ct_kernels *kernels;
    ct_budget budget;
    ct_workspace workspaces[CT_MAX_CONCURRENT_BATCHES];
    ct_error lost; /* guarded by mutex: why OpenGL failed for good */
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* a workspace was left, or waits, or is no longer alone */
    ct_workspace *alone;    /* guarded by mutex */
};

/* workspace.c: */
ct_status ct_workspaces_create(ct_device *device, ct_error *error); /* after device->threads was set */
void ct_workspaces_destroy(ct_device *device);
/* Waits for a free one. Large batches and small ones keep to different workspaces where they can: a large one's scratch
 * is then kept once. */
ct_workspace *ct_workspace_acquire(ct_device *device, bool large);
void ct_workspace_release(ct_workspace *workspace);
/* For a taken workspace that computes nothing just now. Waits until the others compute nothing either; none does until
 * ct_workspace_end_exclusive. */
void ct_workspace_begin_exclusive(ct_workspace *workspace);
void ct_workspace_end_exclusive(ct_workspace *workspace);
/* What all workspaces keep for their next jobs, but for the lists of pairs of those that are taken. By who is alone. */
void ct_workspaces_free_scratch(ct_device *device);

double ct_now(void); /* s, monotonic */

/* upload.c: applies the updates of a step or refuses them all; brings the boxes up to date. */
ct_status ct_cpu_upload(ct_device *device, ct_step *step);

/* Frees what a job's answer holds. */
void ct_cpu_clear_pair(ct_pair_task *job);

/* job.c: computes one pair, on the calling worker alone or spread over the pool. With a drawer: what of its bands lies
 * in job->drawing, which holds all of them, or else by drawings of its own, on worker 0 or spread. */
void ct_cpu_compute_pair(ct_workspace *workspace, ct_pair_task *job, uint32_t worker, bool spread);
/* Gives the job's bands, from first_band up to end_band, their tiles (3 at most) and rays in a drawing that has n_tiles
 * and n_rays so far. */
void ct_cpu_plan_draw_regions(ct_pair_task *job, ct_drawing *drawing);
/* Makes the patches of a job that has its tiles, the first of which is number `tile`. False: out of memory. */
bool ct_cpu_make_patches(ct_workspace *workspace, ct_pair_task *job, uint32_t worker, uint32_t tile);

/* drawn.c, for a device with a drawer: draws what the patches of all workers of the workspace make, and forgets them. A
 * DEVICE_ERROR is kept in the device. */
ct_status ct_cpu_draw(ct_workspace *workspace, ct_drawing *drawing);
/* Computes jobs[order[0..n-1]], many of them in a drawing. */
void ct_cpu_draw_pairs(ct_workspace *workspace, ct_pair_task *jobs, const uint32_t *order, uint32_t n, bool spread);

/* answer.c: makes a step's result of its jobs, whose entries it may take. On failure the step has its error and no
 * result. */
void ct_cpu_answer(ct_device *device, ct_step *step, ct_pair_task *jobs, size_t n_jobs);

#endif

/* cpu.c - the CPU backend: a batch of steps over threads. */
#include "gpu/backend/cpu/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "gpu/backend/cpu/device.h"
#include "gpu/backend/rasterizer.h"
#include "gpu/base/fail.h"
#include "gpu/mesh/mesh.h"

double ct_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- device ---- */

static void destroy(ct_device **handle) {
    ct_device *device = *handle;
    if (!device) return;
    ct_pool_destroy(&device->pool);
    if (device->drawer) device->drawer->close(device);
    ct_workspaces_destroy(device);
    free(device);
    *handle = NULL;
}

#ifdef CT_HAVE_EGL
static const ct_drawer *const egl = &ct_drawer_egl;
#else
static const ct_drawer *const egl = NULL; /* nor is it ever chosen */
#endif

static size_t count(const ct_engine_options *options, ct_error *error) {
    bool draws;
    return ct_rasterizer_choose(options->rasterizer, &draws, error) ? 0 : 1;
}

static ct_status create(const ct_engine_options *options, size_t index, ct_device **out, ct_error *error) {
    (void)index;
    const ct_kernels *kernels = ct_kernels_find(options->simd, error);
    if (!kernels) return CT_UNSUPPORTED;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t threads = options->threads ? options->threads : online > 0 ? (uint32_t)online : 1;
    if (options->threads > CT_MAX_THREADS)
        return ct_fail(error, CT_OUT_OF_RANGE, "threads", "%u threads, expected at most %d", threads, CT_MAX_THREADS);
    if (threads > CT_MAX_THREADS) threads = CT_MAX_THREADS;
    ct_device *device = calloc(1, sizeof *device);
    if (!device) return ct_fail(error, CT_OUT_OF_MEMORY, "", "no memory for a device");
    device->threads = threads;
    device->kernels = kernels;
    device->budget.limit = options->max_scratch_bytes;
    bool draws;
    ct_status status = ct_rasterizer_choose(options->rasterizer, &draws, error);
    device->drawer = draws ? egl : NULL;
    if (!status) status = ct_workspaces_create(device, error);
    if (!status) status = ct_pool_create(threads, &device->pool, error);
    if (!status && device->drawer) status = device->drawer->open(device, error);
    if (status) destroy(&device);
    *out = device;
    return status;
}

static void processor_name(char *name, size_t size) {
    snprintf(name, size, "CPU");
    FILE *f = fopen("/proc/cpuinfo", "r");
    if (!f) return;
    char line[256];
    while (fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        if (!colon || strncmp(line, "model name", 10) != 0) continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(name, size, "%s", colon + 2);
        break;
    }
    fclose(f);
}

static bool is_lost(const ct_device *device, char *reason, size_t size) {
    pthread_mutex_t *mutex = (pthread_mutex_t *)(uintptr_t)&device->mutex;
    pthread_mutex_lock(mutex);
    bool lost = device->lost.status;
    if (lost) snprintf(reason, size, "%.127s", device->lost.message);
    pthread_mutex_unlock(mutex);
    return lost;
}

static void facts(const ct_device *device, ct_engine_facts *f) {
    snprintf(f->backend, sizeof f->backend, "cpu");
    snprintf(f->rasterizer, sizeof f->rasterizer, "%s", device->drawer ? device->drawer->name : "native");
    processor_name(f->device, sizeof f->device);
    if (device->drawer) {
        size_t used = strlen(f->device);
        snprintf(f->device + used, sizeof f->device - used, " + %s", device->drawer->renderer(device));
    }
    snprintf(f->simd, sizeof f->simd, "%s", device->kernels->name);
    ct_kernels_list(f->simd_available, sizeof f->simd_available);
    f->threads = device->threads;
    f->scratch_bytes = atomic_load(&device->budget.used);
    f->scratch_peak = atomic_load(&device->budget.peak);
    f->lost = is_lost(device, f->lost_reason, sizeof f->lost_reason);
}

/* ---- bodies ---- */

static ct_status body_create(ct_device *device, ct_body *body, ct_error *error) {
    const ct_mesh *mesh = body->mesh;
    bool rigid = body->kind == CT_BODY_RIGID;
    ct_resident *resident = calloc(1, sizeof *resident);
    size_t bytes = (size_t)mesh->n_vertices * 12;
    if (resident && !rigid) resident->positions = malloc(bytes);
    if (!resident || (!rigid && !resident->positions)) {
        free(resident);
        return ct_fail(error, CT_OUT_OF_MEMORY, "body", "no memory for the positions of %u vertices", mesh->n_vertices);
    }
    if (!rigid) memcpy(resident->positions, mesh->positions, bytes);
    body->resident = resident;
    device->kernels->snap->box(mesh->positions, mesh->n_vertices, rigid ? body->pose : NULL, &body->box);
    return CT_OK;
}

static void body_destroy(ct_device *device, ct_body *body) {
    (void)device;
    if (!body->resident) return;
    free(body->resident->positions);
    free(body->resident);
    body->resident = NULL;
}

static ct_status body_positions(ct_device *device, const ct_body *body, float *out, ct_error *error) {
    (void)device, (void)error;
    memcpy(out, body->resident->positions, (size_t)body->mesh->n_vertices * 12);
    return CT_OK;
}

/* ---- a batch ---- */

struct batch {
    ct_device *device;
    ct_workspace *workspace;
    ct_step *steps;
    struct state {
        size_t first_job, n_jobs;
        double upload, broadphase, download; /* s */
    } * states;
    ct_pair_task *jobs;
    const uint32_t *order; /* small jobs */
};

static void place_bodies(void *context, uint32_t i, uint32_t worker) {
    (void)worker;
    struct batch *batch = context;
    ct_step *step = &batch->steps[i];
    struct state *state = &batch->states[i];
    if (step->error.status) return;
    double start = ct_now();
    if (ct_cpu_upload(batch->device, step)) return;
    double uploaded = ct_now();
    state->upload = uploaded - start;
    ct_scene *scene = step->scene;
    ct_scene_refresh(scene);
    for (uint32_t b = 0; b < scene->n_bodies; b++) {
        const ct_body *body = scene->bodies[b];
        scene->broad_bodies[b] = (ct_broad_body){body->box, body->group, body->mask};
    }
    ct_broadphase_run(&scene->broad, scene->broad_bodies, scene->n_bodies, scene->ignored, scene->n_ignored,
                      &step->error);
    state->broadphase = ct_now() - uploaded;
}

/* Rough, but only the choice between one thread and several hangs on it. */
static double cost_of(const ct_pair_task *job) {
    double triangles = (double)job->body[0]->mesh->n_triangles + job->body[1]->mesh->n_triangles, samples = 0;
    for (int w = 0; w < 3; w++) samples += (double)job->window.axis[ct_view_u(w)].n * job->window.axis[ct_view_v(w)].n;
    return 2000 + 12 * triangles + 12 * samples;
}

/* A band's fragments should stay in a core's cache: at a few layers of 20 bytes that is some thousand samples. */
enum { BAND_SAMPLES = 16384 };

/* Where OpenGL draws, a band is the height of the rectangles that a large triangle is drawn as: the lower it is, the
 * fewer samples beside the triangle are tried. */
enum { DRAWN_BAND_SAMPLES = 2048 };

static bool reserve_jobs(ct_workspace *workspace, size_t n) {
    ct_budget *budget = &workspace->device->budget;
    if (ct_buffer_reserve(&workspace->jobs, budget, n * sizeof(ct_pair_task), 0, false)) return true;
    ct_workspace_begin_exclusive(workspace);
    ct_workspaces_free_scratch(workspace->device);
    bool fits = ct_buffer_reserve(&workspace->jobs, budget, n * sizeof(ct_pair_task), 0, false);
    ct_workspace_end_exclusive(workspace);
    return fits;
}

static bool plan_jobs(struct batch *batch, size_t n_steps, size_t *n_jobs) {
    ct_workspace *workspace = batch->workspace;
    size_t n = 0;
    for (size_t i = 0; i < n_steps; i++)
        if (!batch->steps[i].error.status) n += batch->steps[i].scene->broad.n_pairs;
    if (!reserve_jobs(workspace, n)) return false;
    batch->jobs = workspace->jobs.data;
    n = 0;
    for (size_t i = 0; i < n_steps; i++) {
        ct_step *step = &batch->steps[i];
        struct state *state = &batch->states[i];
        state->first_job = n;
        if (step->error.status) continue;
        const ct_scene *scene = step->scene;
        for (size_t p = 0; p < scene->broad.n_pairs; p++) {
            ct_pair_task *job = &batch->jobs[n];
            memset(job, 0, sizeof *job);
            job->step = i;
            for (int b = 0; b < 2; b++) {
                job->body[b] = scene->bodies[b ? scene->broad.pairs[p].b : scene->broad.pairs[p].a];
                job->contact.body[b] = job->body[b]->id;
            }
            ct_error why = {0};
            if (ct_view_plan(&job->body[0]->box, &job->body[1]->box, &scene->settings, &job->window, &why)) {
                ct_fail(&step->error, why.status, why.field, "bodies %u and %u: %s", job->body[0]->id, job->body[1]->id,
                        why.message);
                n = state->first_job;
                break;
            }
            job->bands = ct_bands_plan(&job->window, workspace->device->drawer ? DRAWN_BAND_SAMPLES : BAND_SAMPLES);
            job->number = workspace->next_job++;
            job->want = step->want;
            job->stiffness = scene->settings.stiffness;
            job->cost = cost_of(job);
            n++;
        }
        state->n_jobs = n - state->first_job;
    }
    *n_jobs = n;
    return true;
}

static void small_job(void *context, uint32_t i, uint32_t worker) {
    struct batch *batch = context;
    ct_cpu_compute_pair(batch->workspace, &batch->jobs[batch->order[i]], worker, false);
}

/* Below this much work waking other threads costs more than they bring. */
static const double WORTH_SPREADING = 150e3; /* ns */

static void run_jobs(struct batch *batch, size_t n, uint32_t *order) {
    ct_device *device = batch->device;
    double total = 0;
    for (size_t i = 0; i < n; i++) total += batch->jobs[i].cost;
    bool several = device->threads > 1 && total > WORTH_SPREADING;
    uint32_t n_small = 0;
    for (size_t i = 0; i < n; i++) {
        ct_pair_task *job = &batch->jobs[i];
        /* A pair that is a large part of the batch would leave the other threads idle at the end. Spans are kept in the
         * order of the bands, so on one thread. */
        bool large = several && job->cost > WORTH_SPREADING && 2 * device->threads * job->cost > total &&
                     !(job->want & CT_WANT_SPANS);
        if (large)
            ct_cpu_compute_pair(batch->workspace, job, 0, true);
        else
            order[n_small++] = (uint32_t)i;
    }
    batch->order = order;
    if (device->drawer)
        ct_cpu_draw_pairs(batch->workspace, batch->jobs, order, n_small, several);
    else if (several)
        ct_pool_run(device->pool, n_small, small_job, batch);
    else
        for (uint32_t i = 0; i < n_small; i++) small_job(batch, i, 0);
}

/* What a pair lacked may be what other threads, or another batch, worked with or kept: it gets all there is, alone. So
 * whether a step fits does not depend on the steps before or beside it (but for the lists of pairs of these). */
static void retry_jobs(struct batch *batch, size_t n) {
    bool alone = false;
    for (size_t i = 0; i < n; i++) {
        ct_pair_task *job = &batch->jobs[i];
        if (job->status != CT_OUT_OF_MEMORY) continue;
        if (!alone) ct_workspace_begin_exclusive(batch->workspace);
        alone = true;
        ct_workspaces_free_scratch(batch->device);
        job->status = CT_OK;
        job->rays = job->fragments = 0;
        memset(job->seconds, 0, sizeof job->seconds);
        ct_cpu_compute_pair(batch->workspace, job, 0, false);
    }
    if (alone) ct_workspace_end_exclusive(batch->workspace);
}

static void answer_step(void *context, uint32_t i, uint32_t worker) {
    (void)worker;
    struct batch *batch = context;
    ct_step *step = &batch->steps[i];
    const struct state *state = &batch->states[i];
    if (step->error.status) return;
    double start = ct_now();
    ct_cpu_answer(batch->device, step, batch->jobs + state->first_job, state->n_jobs);
    if (!step->result) return;
    step->result->seconds[CT_PHASE_UPLOAD] = state->upload;
    step->result->seconds[CT_PHASE_BROADPHASE] = state->broadphase;
    step->result->seconds[CT_PHASE_DOWNLOAD] = ct_now() - start;
}

/* Pairs to answers of steps whose bodies are placed. A list of pairs for which there is no memory is taken in parts, so
 * that one scene's does not fail the others. */
static void compute(struct batch *batch, uint32_t n_steps) {
    ct_device *device = batch->device;
    size_t n_jobs = 0;
    uint32_t *order = plan_jobs(batch, n_steps, &n_jobs) ? malloc((n_jobs ? n_jobs : 1) * sizeof *order) : NULL;
    if (order) {
        run_jobs(batch, n_jobs, order);
        retry_jobs(batch, n_jobs);
        ct_pool_run(n_steps > 8 ? device->pool : NULL, n_steps, answer_step, batch);
        for (size_t i = 0; i < n_jobs; i++) ct_cpu_clear_pair(&batch->jobs[i]);
    } else if (n_steps > 1) {
        uint32_t half = n_steps / 2;
        struct batch rest = *batch;
        rest.steps += half;
        rest.states += half;
        compute(batch, half);
        compute(&rest, n_steps - half);
    } else {
        const ct_scene *scene = batch->steps[0].scene;
        ct_fail(&batch->steps[0].error, CT_OUT_OF_MEMORY, "scratch",
                "%zu pairs of %u bodies overlap: there is no working memory for so many", scene->broad.n_pairs,
                scene->n_bodies);
    }
    free(order);
}

/* Tells which batches keep to which workspace, no more. */
static bool is_large(const ct_step *steps, size_t n_steps) {
    enum { LARGE = 1 << 17 };
    uint64_t triangles = 0;
    for (size_t i = 0; i < n_steps; i++)
        for (uint32_t b = 0; b < steps[i].scene->n_bodies && triangles < LARGE; b++)
            triangles += steps[i].scene->bodies[b]->mesh->n_triangles;
    return triangles >= LARGE;
}

void ct_cpu_run_ldi(ct_device *device, ct_step *steps, size_t n_steps) {
    struct batch batch = {.device = device, .steps = steps};
    batch.states = calloc(n_steps ? n_steps : 1, sizeof *batch.states);
    if (batch.states && n_steps) {
        batch.workspace = ct_workspace_acquire(device, is_large(steps, n_steps));
        ct_pool_run(n_steps > 8 ? device->pool : NULL, (uint32_t)n_steps, place_bodies, &batch);
        compute(&batch, (uint32_t)n_steps);
        ct_workspace_release(batch.workspace);
    }
    for (size_t i = 0; i < n_steps && !batch.states; i++)
        ct_fail(&steps[i].error, CT_OUT_OF_MEMORY, "", "no memory for a batch of %zu steps", n_steps);
    free(batch.states);
}

const ct_backend ct_backend_cpu = {.version = CT_BACKEND_VERSION,
                                   .name = "cpu",
                                   .count = count,
                                   .create = create,
                                   .destroy = destroy,
                                   .facts = facts,
                                   .body_create = body_create,
                                   .body_destroy = body_destroy,
                                   .body_positions = body_positions};

/* refine_cuda.cu - the method EXACT after VOXTREE, where a scene wants its answers refined: each pair is computed as
 * a scene of its two bodies, so that one without a place in the batch's memory fails alone. */
#include "gpu/device/cuda/trace.cuh"
#include "gpu/methods/voxtree/drive_cuda.cuh"

/* ---- the time left ---- */

/* A batch and a triangle within reach, in s, before anything is known; a batch takes some time whatever its pairs. */
static const double BATCH_SECONDS = 1e-3, TRIANGLE_SECONDS = 50e-9, FORGOTTEN = 0.95;

static double expected_seconds(const ct_device *device, double triangles) {
    const double factor = device->exact_factor.load(std::memory_order_relaxed);
    return (factor > 0 ? factor : 1) * (BATCH_SECONDS + TRIANGLE_SECONDS * triangles);
}

/* The most of the last batches, forgotten slowly; also where none was started, so that one will be tried again. */
static void learn_factor(ct_device *device, double factor) {
    const double before = device->exact_factor.load(std::memory_order_relaxed);
    device->exact_factor.store(fmax(factor, FORGOTTEN * (before > 0 ? before : 1)), std::memory_order_relaxed);
}

/* ---- pairs as scenes ---- */

struct pair_scene {
    ct_scene scene;
    ct_body *body[2];
    ct_step step;
    uint32_t number; /* of its pair in the rounds */
};

static void make_scene(const ct_voxel_round_exact *from, pair_scene *to) {
    const ct_scene *scene = from->step->scene;
    memset(to, 0, sizeof *to);
    to->scene.engine = scene->engine;
    to->scene.device = scene->device;
    to->scene.settings = to->scene.asked = scene->settings;
    to->scene.settings.method = to->scene.asked.method = CT_METHOD_EXACT;
    to->scene.version = 1;
    to->scene.bodies = to->body;
    to->scene.n_bodies = 2;
    for (int b = 0; b < 2; b++) to->body[b] = from->body[b];
    to->step.scene = &to->scene;
    to->step.want = from->step->want;
    to->number = from->number;
}

/* Computes n pairs, and hands them to the rounds. */
static void compute_pairs(ct_device *device, ct_workspace *workspace, ct_voxel_rounds *rounds, pair_scene *pairs,
                          ct_step **steps, uint32_t n, bool alone) {
    for (uint32_t i = 0; i < n; i++) steps[i] = &pairs[i].step;
    if (n) ct_gpu_run_exact_on(device, workspace, steps, n, alone);
    for (uint32_t i = 0; i < n; i++) {
        ct_voxel_rounds_refine(rounds, pairs[i].number, &pairs[i].step);
        ct_gpu_scene_forget(device, &pairs[i].scene);
    }
}

/* Computes pairs of steps with a time budget that are expected to be done by the first of their deadlines. */
static void compute_in_time(ct_device *device, ct_workspace *workspace, ct_voxel_rounds *rounds,
                            const ct_voxel_round_exact *list, uint32_t n_list, pair_scene *pairs, ct_step **steps,
                            bool alone) {
    const double start = ct_gpu_now();
    double triangles = 0, end = 0;
    uint32_t n = 0, n_late = 0;
    for (uint32_t i = 0; i < n_list; i++) {
        if (list[i].deadline <= 0) continue;
        const double first = end > 0 ? fmin(end, list[i].deadline) : list[i].deadline;
        if (start + expected_seconds(device, triangles + list[i].triangles) <= first) {
            make_scene(&list[i], &pairs[n++]);
            triangles += list[i].triangles;
            end = first;
        } else {
            ct_step none = {};
            ct_voxel_rounds_refine(rounds, list[i].number, &none);
            n_late++;
        }
    }
    compute_pairs(device, workspace, rounds, pairs, steps, n, alone);
    const double seconds = ct_gpu_now() - start;
    if (n || n_late) learn_factor(device, n ? seconds / (BATCH_SECONDS + TRIANGLE_SECONDS * triangles) : 0);
}

bool ct_gpu_refine_voxels(ct_device *device, ct_workspace *workspace, ct_voxel_rounds *rounds, bool alone,
                          ct_gpu_need *need) {
    const ct_trace_range range("refine voxel trees' pairs");
    const ct_voxel_round_exact *list;
    const uint32_t n_list = ct_voxel_rounds_may_refine(rounds, &list);
    if (!n_list) return true;
    pair_scene *pairs = (pair_scene *)malloc(n_list * sizeof *pairs);
    ct_step **steps = (ct_step **)malloc(n_list * sizeof *steps);
    need->what = "the list of pairs to refine, on the host";
    need->bytes = n_list * (sizeof *pairs + sizeof *steps);
    if (pairs && steps) {
        uint32_t n = 0;
        compute_in_time(device, workspace, rounds, list, n_list, pairs, steps, alone);
        for (uint32_t i = 0; i < n_list; i++)
            if (list[i].deadline <= 0) make_scene(&list[i], &pairs[n++]);
        compute_pairs(device, workspace, rounds, pairs, steps, n, alone);
    }
    const bool ok = pairs && steps && !device->lost;
    free(pairs);
    free(steps);
    return ok;
}

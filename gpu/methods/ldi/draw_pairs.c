/* draw_pairs.c - computes pairs whose views OpenGL draws. Many small pairs share one drawing, as each drawing has a
 * fixed cost. */
#include <stdatomic.h>

#include "gpu/methods/ldi/pair_cpu.h"

ct_status ct_cpu_draw(ct_workspace *workspace, ct_drawing *drawing) {
    ct_device *device = workspace->device;
    const ct_quads *parts[2][CT_MAX_THREADS];
    for (uint32_t w = 0; w < device->threads; w++)
        for (int order = 0; order < 2; order++) parts[order][w] = &ct_ldi_scratch_of(workspace, w)->quads[order];
    ct_error error = {0};
    ct_status status = CT_OUT_OF_MEMORY; /* without a drawing: the quads did not fit */
    if (drawing) {
        drawing->parts[0] = parts[0];
        drawing->parts[1] = parts[1];
        drawing->n_parts = device->threads;
        status = ct_ldi_device_of(device)->draw(workspace, drawing, &error);
    }
    for (uint32_t w = 0; w < device->threads; w++)
        for (int order = 0; order < 2; order++) {
            ct_quads *quads = &ct_ldi_scratch_of(workspace, w)->quads[order];
            quads->n = quads->samples = 0;
        }
    if (status == CT_DEVICE_ERROR) {
        pthread_mutex_lock(&device->mutex);
        if (!device->lost.status) device->lost = error;
        pthread_mutex_unlock(&device->mutex);
    }
    return status;
}

/* Pairs order[0..n-1], which share a drawing. */
struct drawing_group {
    ct_workspace *workspace;
    ct_pair_task *pairs;
    const uint32_t *order;
    uint32_t n;
    bool is_spread;
    atomic_bool has_failed;
};

static ct_ray_plan *plan_of(const struct drawing_group *group, uint32_t i) {
    return group->pairs[group->order[i]].plan;
}

static void for_each_pair(struct drawing_group *group, ct_pool_fn task) {
    if (group->is_spread)
        ct_pool_run(group->workspace->pool, group->n, task, group);
    else
        for (uint32_t i = 0; i < group->n; i++) task(group, i, 0);
}

static void make_quads(void *context, uint32_t i, uint32_t worker) {
    struct drawing_group *group = context;
    ct_pair_task *pair = &group->pairs[group->order[i]];
    double start = ct_now();
    if (!group->has_failed && !ct_cpu_make_quads(group->workspace, pair, worker, 3 * i)) group->has_failed = true;
    pair->seconds[CT_PHASE_RASTER] += ct_now() - start;
}

static void compute_drawn_pair(void *context, uint32_t i, uint32_t worker) {
    struct drawing_group *group = context;
    ct_cpu_compute_pair(group->workspace, &group->pairs[group->order[i]], worker, false);
}

static uint64_t count_rays(const ct_pair_task *pair) {
    const ct_ray_plan *plan = pair->plan;
    uint64_t n = 0;
    for (int w = 0; w < 3; w++) n += (uint64_t)plan->tiles[w].tile.n_u * (uint64_t)plan->tiles[w].tile.n_v;
    return n;
}

/* Computes all pairs of the group with one drawing. False: it does not fit OpenGL's limits or memory; nothing was
 * computed. */
static bool compute_group(struct drawing_group *group) {
    ct_workspace *workspace = group->workspace;
    ct_buffer *regions = &ct_ldi_workspace_of(workspace)->regions;
    if (!ct_buffer_reserve(regions, &workspace->device->budget, 3 * group->n * sizeof(ct_draw_region), 0, false))
        return false;
    ct_drawing drawing = {.regions = regions->data};
    for (uint32_t i = 0; i < group->n; i++) {
        ct_ray_plan *plan = plan_of(group, i);
        plan->first_bin = 0;
        plan->end_bin = plan->bins.n_bins;
        ct_cpu_plan_draw_regions(plan, &drawing);
    }
    for_each_pair(group, make_quads);
    double start = ct_now();
    ct_status status = ct_cpu_draw(workspace, group->has_failed ? NULL : &drawing);
    const double seconds_per_pair = (ct_now() - start) / group->n;
    for (uint32_t i = 0; i < group->n; i++) {
        ct_pair_task *pair = &group->pairs[group->order[i]];
        pair->seconds[CT_PHASE_RASTER] += seconds_per_pair;
        if (status == CT_DEVICE_ERROR) pair->status = status;
        if (!status) plan_of(group, i)->drawing = &drawing;
    }
    if (!status) for_each_pair(group, compute_drawn_pair);
    for (uint32_t i = 0; i < group->n; i++) plan_of(group, i)->drawing = NULL;
    return !status || status == CT_DEVICE_ERROR;
}

bool ct_cpu_draw_pairs(ct_workspace *workspace, ct_pair_task *pairs, const uint32_t *order, uint32_t n,
                       bool is_spread) {
    if (!ct_ldi_device_of(workspace->device)->draw) return false;
    enum { MAX_RAYS = 1 << 22 }; /* per drawing of several pairs: 50 MB of list heads and winding numbers */
    for (uint32_t first = 0, end; first < n; first = end) {
        uint64_t rays = 0;
        for (end = first; end < n; end++) {
            rays += count_rays(&pairs[order[end]]);
            if (end > first && rays > MAX_RAYS) break;
        }
        struct drawing_group group = {
            .workspace = workspace, .pairs = pairs, .order = order + first, .n = end - first, .is_spread = is_spread};
        if (group.n > 1 && compute_group(&group)) continue;
        for (uint32_t i = first; i < end; i++) ct_cpu_compute_pair(workspace, &pairs[order[i]], 0, false);
    }
    return true;
}

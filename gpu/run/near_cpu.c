/* near_cpu.c - cluster trees of the CPU's bodies: attached to bodies, refitted where bodies deform, and searched for
 * what may matter to a pair. */
#include <math.h>
#include <stdlib.h>

#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/mesh/clusters.h"
#include "gpu/mesh/mesh.h"
#include "gpu/method/device_cpu.h"
#include "gpu/methods/voxtree/tree.h"
#include "gpu/scene/half_space.h"
#include "gpu/view/winding_k.h"

ct_status ct_cpu_attach_clusters(ct_body *body, ct_resident *resident, ct_error *error) {
    if (body->mesh->n_triangles < CT_CLUSTERED_TRIANGLES) return CT_OK;
    resident->clusters = ct_mesh_clusters(body->mesh, error);
    if (!resident->clusters) return ct_failure();
    if (body->kind == CT_BODY_RIGID) return CT_OK;
    const size_t bytes = resident->clusters->n_nodes * sizeof *resident->boxes;
    resident->boxes = malloc(bytes);
    if (!resident->boxes)
        return ct_fail(error, CT_OUT_OF_MEMORY, "body", "no memory for %zu bytes of cluster boxes", bytes);
    resident->is_stale = true;
    return CT_OK;
}

/* ---- deformable bodies ---- */

/* Clusters that one task refits: about 20,000 vertices. */
enum { REFIT_CHUNK = 256 };

struct refit {
    const ct_snap_cpu *snap;
    ct_resident *resident;
    bool has_low;
};

static void refit_chunk(void *argument, uint32_t i, uint32_t worker) {
    (void)worker;
    const struct refit *refit = argument;
    ct_resident *resident = refit->resident;
    const uint32_t first = i * REFIT_CHUNK, end = first + REFIT_CHUNK, n = resident->clusters->n;
    refit->snap->refit(resident->clusters, resident->positions, first, end < n ? end : n, resident->boxes);
    if (refit->has_low) ct_clusters_widen(first, end < n ? end : n, resident->boxes);
}

/* Finding the near clusters saves nothing if most are near, but refitting costs as much as culling a third of the
 * triangles. So a deformable body is refitted only for a pair in which little of its box overlaps the other's. */
static bool is_worth_refitting(const ct_box *body, const ct_box *other) {
    double part = 4; /* refit below a quarter of the volume */
    for (int k = 0; k < 3; k++) {
        const double size = body->hi[k] - body->lo[k];
        if (size > 0) part *= (fmin(body->hi[k], other->hi[k]) - fmax(body->lo[k], other->lo[k])) / size;
    }
    return part < 1;
}

void ct_cpu_refit_clusters(ct_device *device, ct_step *step, bool always, ct_pool *pool) {
    const ct_scene *scene = step->scene;
    for (size_t p = 0; !step->error.status && p < scene->broad.n_pairs; p++) {
        const ct_body *body[2] = {scene->bodies[scene->broad.pairs[p].a], scene->bodies[scene->broad.pairs[p].b]};
        for (int b = 0; b < 2; b++) {
            struct refit refit = {device->kernels->snap, body[b]->resident, body[b]->low_reach > 0};
            ct_resident *resident = refit.resident;
            if (!resident->is_stale) continue;
            if (!always && !is_worth_refitting(&body[b]->box, &body[1 - b]->box)) continue;
            const uint32_t chunks = (resident->clusters->n + REFIT_CHUNK - 1) / REFIT_CHUNK;
            ct_pool_run(chunks > 1 ? pool : NULL, chunks, refit_chunk, &refit);
            ct_clusters_refit_tree(resident->clusters, resident->boxes);
            resident->is_stale = false;
        }
    }
}

/* ---- queries ---- */

void ct_cpu_find_posed_box(const ct_device *device, const ct_body *body, ct_box *box) {
    /* Below this many vertices one pass over all of them is faster than six searches. */
    enum { FEW_VERTICES = 2048 };
    const ct_clusters *clusters = body->resident->clusters;
    const ct_mesh *mesh = body->mesh;
    if (body->is_half_space)
        ct_half_space_box(body->pose, box);
    else if (clusters && clusters->has_all_vertices && mesh->n_vertices > FEW_VERTICES)
        ct_posed_box(clusters, mesh->positions, body->pose, box);
    else
        device->kernels->snap->box(mesh->positions, mesh->n_vertices, body->pose, box);
    ct_body_widen_box(body, box);
}

struct posed_boxes {
    const ct_device *device;
    const ct_scene *scene;
    bool of_voxels;
};

/* The finest level of the tree whose box the body has in this step; 0: it has that of its vertices. Scenes with boxes
 * of trees have made those of all their bodies. */
static uint32_t box_level_of(const struct posed_boxes *boxes, const ct_body *body) {
    if (!boxes->of_voxels || body->kind != CT_BODY_RIGID || body->is_half_space) return 0;
    return ct_voxel_level_for(body->mesh, &boxes->scene->settings);
}

static bool is_box_due(const struct posed_boxes *boxes, const ct_body *body) {
    return body->resident->has_moved || body->resident->box_level != box_level_of(boxes, body);
}

static void find_box(void *argument, uint32_t i, uint32_t worker) {
    (void)worker;
    const struct posed_boxes *boxes = argument;
    ct_body *body = boxes->scene->bodies[i];
    if (!is_box_due(boxes, body)) return;
    ct_resident *resident = body->resident;
    ct_cpu_keep_body(body);
    resident->has_moved = false;
    resident->box_level = box_level_of(boxes, body);
    if (resident->box_level)
        ct_voxel_posed_box(ct_voxel_tree_of(body->mesh, resident->box_level, NULL), body->pose, &body->box);
    else
        ct_cpu_find_posed_box(boxes->device, body, &body->box);
}

void ct_cpu_find_posed_boxes(ct_device *device, ct_step *step, bool of_voxels, ct_pool *pool) {
    enum { WORTH_THREADS = 8 };
    struct posed_boxes boxes = {device, step->scene, of_voxels};
    uint32_t n_due = 0;
    for (uint32_t b = 0; b < step->scene->n_bodies; b++) n_due += is_box_due(&boxes, step->scene->bodies[b]);
    if (n_due) ct_pool_run(n_due >= WORTH_THREADS ? pool : NULL, step->scene->n_bodies, find_box, &boxes);
}

bool ct_cpu_near_body(const ct_pair_task *pair, int b, ct_near_body *near) {
    const ct_body *body = pair->body[b];
    const ct_resident *resident = body->resident;
    if (!resident->clusters || resident->is_stale) return false;
    const bool is_rigid = body->kind == CT_BODY_RIGID;
    *near = (ct_near_body){.clusters = resident->clusters,
                           .boxes = is_rigid ? resident->clusters->rest : resident->boxes,
                           .pose = ct_body_pose(body),
                           .n_triangles = body->mesh->n_triangles};
    for (int w = 0; w < 3; w++)
        near->initial[w] = (uint8_t)ct_find_initial_winding(&body->box, &pair->body[1 - b]->box, w);
    return true;
}

uint64_t ct_cpu_count_near(const ct_pair_task *pair, int b) {
    ct_near_body near;
    if (!ct_cpu_near_body(pair, b, &near)) return pair->body[b]->mesh->n_triangles;
    /* As if loops gave the initial winding numbers (front_winding.h). */
    for (int w = 0; w < 3; w++)
        if (near.initial[w] == CT_INITIAL_COUNTED) near.initial[w] = CT_INITIAL_FROM_BALANCE;
    return ct_estimate_near(&near, &pair->window);
}

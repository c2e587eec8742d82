/* undo_cuda.cu - takes back the updates of a step that failed. The device keeps the positions that a step overwrites; boxes
 * and poses go to the device with the scene's next step. */
#include "gpu/method/device_cuda.cuh"

extern "C" {
#include "gpu/mesh/closing.h"
#include "gpu/scene/rows.h"
}

void ct_gpu_keep_body(ct_body *body) {
    ct_body_before *kept = &body->resident->kept;
    if (kept->is_kept) return;
    kept->is_kept = true;
    kept->box = body->box;
    kept->box_level = body->resident->box_level;
    memcpy(kept->given, body->given, sizeof kept->given);
    kept->low_reach = body->low_reach;
    kept->volume = body->volume;
    kept->is_volume_old = body->is_volume_old;
    kept->updates_since_volume = body->updates_since_volume;
}

void ct_gpu_forget_kept(const ct_step *step) {
    for (size_t i = 0; i < step->n_updates; i++)
        ct_scene_find(step->scene, step->updates[i].body, NULL)->resident->kept.is_kept = false;
}

/* ---- positions ---- */

/* A deformable body's positions on the host, as they are and as they were where the step overwrote them. */
struct overwritten {
    const ct_body *body;
    float *now, *before; /* [n_vertices][3] */
};

static void restore_vertex(const overwritten *o, uint32_t vertex) {
    memcpy(o->now + 3 * (uint64_t)vertex, o->before + 3 * (uint64_t)vertex, 12);
    const uint32_t closing = ct_closing_of(o->body->mesh, vertex);
    if (closing != UINT32_MAX) memcpy(o->now + 3 * (uint64_t)closing, o->before + 3 * (uint64_t)closing, 12);
}

static void restore_update(const overwritten *o, const ct_update *u) {
    if (u->kind == CT_UPDATE_POSITIONS) {
        memcpy(o->now, o->before, 12 * (uint64_t)o->body->resident->n_vertices);
    } else if (u->kind == CT_UPDATE_INDEXED) {
        for (uint64_t k = 0; k < u->n_indices; k++) restore_vertex(o, ct_update_index(u, k));
    } else {
        for (uint64_t i = 0; i < u->n_indices; i += 2)
            for (uint32_t k = 0; k < ct_update_index(u, i + 1); k++) restore_vertex(o, ct_update_index(u, i) + k);
    }
}

static bool copy(ct_device *device, void *to, const void *from, uint64_t bytes, cudaMemcpyKind kind) {
    return ct_gpu_ok(device, cudaMemcpyAsync(to, from, bytes, kind, device->setup), "taking a step back") &&
           ct_gpu_ok(device, cudaStreamSynchronize(device->setup), "taking a step back");
}

static void undo_positions(ct_device *device, const ct_step *step, const ct_body *body) {
    ct_resident *resident = body->resident;
    const uint64_t bytes = 12 * (uint64_t)resident->n_vertices;
    const overwritten o = {body, (float *)malloc(bytes), (float *)malloc(bytes)};
    if (!o.now || !o.before)
        ct_gpu_lose(device, "no memory on the host to take a step back that failed");
    else if (copy(device, o.now, resident->body + 1, bytes, cudaMemcpyDeviceToHost) &&
             copy(device, o.before, resident->before, bytes, cudaMemcpyDeviceToHost)) {
        for (size_t i = 0; i < step->n_updates; i++)
            if (step->updates[i].body == body->id) restore_update(&o, &step->updates[i]);
        copy(device, resident->body + 1, o.now, bytes, cudaMemcpyHostToDevice);
    }
    free(o.now);
    free(o.before);
}

/* ---- a step ---- */

static void undo_body(ct_device *device, const ct_step *step, ct_body *body) {
    ct_resident *resident = body->resident;
    const ct_body_before *kept = &resident->kept;
    if (body->kind == CT_BODY_RIGID)
        ct_body_place(body, kept->given, ct_mesh_origin(body->mesh));
    else
        undo_positions(device, step, body);
    body->box = kept->box;
    body->low_reach = kept->low_reach;
    resident->box_level = kept->box_level;
    body->volume = kept->volume;
    body->is_volume_old = kept->is_volume_old;
    body->updates_since_volume = kept->updates_since_volume;
    resident->is_behind = true;
    resident->kept.is_kept = false;
}

void ct_gpu_undo(ct_device *device, ct_step *step) {
    if (!step->scene->is_moved || device->lost) return;
    if (!ct_gpu_ok(device, cudaSetDevice(device->ordinal), "choosing the device")) return;
    step->scene->is_moved = false;
    if (step->scene->table) step->scene->table->may_be_behind = true;
    for (size_t i = 0; i < step->n_updates && !device->lost; i++) {
        ct_body *body = ct_scene_find(step->scene, step->updates[i].body, NULL);
        if (body->resident->kept.is_kept) undo_body(device, step, body);
    }
}

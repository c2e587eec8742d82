/* upload.c - applies a step's updates to the bodies' state, and measures the deformable bodies that moved. All numbers
 * are checked before anything is applied. */
#include <string.h>

#include "gpu/backend/cpu/device.h"
#include "gpu/base/fail.h"
#include "gpu/mesh/closing.h"
#include "gpu/mesh/mesh.h"
#include "gpu/scene/rows.h"

static ct_status check_finite(const ct_device *device, ct_body *body, const ct_update *u, ct_error *error) {
    if (u->kind == CT_UPDATE_POSE) return CT_OK;
    if (u->dtype == CT_F32 && device->kernels->snap->box(u->positions, u->count, NULL, &body->resident->next_box))
        return CT_OK;
    return ct_update_name_offender(u, error);
}

static void apply(ct_body *body, const ct_update *u) {
    if (u->kind == CT_UPDATE_POSE) {
        body->resident->has_moved |= memcmp(body->pose, u->pose, sizeof body->pose) != 0;
        memcpy(body->pose, u->pose, sizeof body->pose);
        return;
    }
    float *positions = body->resident->positions;
    uint64_t row = 0;
    switch (u->kind) {
    case CT_UPDATE_RANGES:
        for (uint64_t i = 0; i < u->n_indices; i += 2) {
            uint64_t first = ct_update_index(u, i), count = ct_update_index(u, i + 1);
            for (uint64_t k = 0; k < count; k++) ct_update_row(u, row++, positions + 3 * (first + k));
        }
        break;
    case CT_UPDATE_INDEXED:
        for (uint64_t k = 0; k < u->n_indices; k++) ct_update_row(u, k, positions + 3 * (size_t)ct_update_index(u, k));
        break;
    default:
        if (u->dtype == CT_F32)
            memcpy(positions, u->positions, u->count * 12);
        else
            for (uint64_t k = 0; k < u->count; k++) ct_update_row(u, k, positions + 3 * k);
    }
}

static void measure_volume(const ct_device *device, ct_body *body) {
    const ct_mesh *mesh = body->mesh;
    ct_body_set_volume(body, device->kernels->volume->signed_volume(body->resident->positions, mesh->triangles,
                                                                    mesh->n_triangles, &body->box));
}

/* The box and the volume of a deformable body whose updates have all been applied; `last` is the last of them. */
static void measure_deformed(const ct_device *device, ct_body *body, const ct_update *last) {
    struct ct_resident *resident = body->resident;
    const ct_mesh *mesh = body->mesh;
    resident->is_stale = resident->boxes != NULL;
    ct_move_closing(mesh, resident->positions);
    if (last->kind == CT_UPDATE_POSITIONS && last->dtype == CT_F32 && !mesh->n_closing)
        body->box = resident->next_box;
    else
        device->kernels->snap->box(resident->positions, mesh->n_vertices, NULL, &body->box);
    if (ct_body_volume_is_due(body, mesh->n_triangles)) measure_volume(device, body);
}

ct_status ct_cpu_upload(ct_device *device, ct_step *step) {
    for (size_t i = 0; i < step->n_updates; i++) {
        const ct_update *u = &step->updates[i];
        ct_status status = check_finite(device, ct_scene_find(step->scene, u->body, NULL), u, &step->error);
        if (status) return status;
    }
    for (size_t i = 0; i < step->n_updates; i++)
        ct_scene_find(step->scene, step->updates[i].body, NULL)->resident->updates_left++;
    for (size_t i = 0; i < step->n_updates; i++) {
        const ct_update *u = &step->updates[i];
        ct_body *body = ct_scene_find(step->scene, u->body, NULL);
        apply(body, u);
        if (--body->resident->updates_left) continue; /* box and volume are needed after the last update */
        if (body->kind != CT_BODY_RIGID) measure_deformed(device, body, u);
    }
    return CT_OK;
}

void ct_cpu_measure_old_volumes(const ct_device *device, const ct_scene *scene) {
    for (uint32_t b = 0; b < scene->n_bodies; b++)
        if (scene->bodies[b]->is_volume_old) measure_volume(device, scene->bodies[b]);
}

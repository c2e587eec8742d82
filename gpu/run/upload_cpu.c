/* upload_cpu.c - applies a step's updates to the bodies' state, and measures the deformable bodies that moved. All numbers
 * are checked before anything is applied, and what they overwrite is kept until the step has ended well. */
#include <stdlib.h>
#include <string.h>

#include "gpu/base/fail.h"
#include "gpu/mesh/closing.h"
#include "gpu/mesh/mesh.h"
#include "gpu/method/device_cpu.h"
#include "gpu/scene/rows.h"

static ct_status check_finite(const ct_device *device, ct_body *body, const ct_update *u, ct_error *error) {
    if (u->kind == CT_UPDATE_POSE) return CT_OK;
    if (u->dtype == CT_F32 && device->kernels->snap->box(u->positions, u->count, NULL, &body->resident->next_box))
        return CT_OK;
    return ct_update_name_offender(u, error);
}

/* ---- what a body was before ---- */

/* Keeps what the body's first update in a step overwrites, whose memory was reserved, or another box. */
void ct_cpu_keep_body(ct_body *body) {
    ct_body_before *before = &body->resident->before;
    if (before->is_kept) return;
    before->is_kept = true;
    before->n_swaps = 0;
    before->n_rows = 0;
    before->box = body->box;
    before->box_level = body->resident->box_level;
    before->volume = body->volume;
    before->is_volume_old = body->is_volume_old;
    before->updates_since_volume = body->updates_since_volume;
    if (body->kind == CT_BODY_RIGID) memcpy(before->pose, body->pose, sizeof before->pose);
}

static void keep_row(ct_resident *resident, uint64_t vertex) {
    ct_body_before *before = &resident->before;
    memcpy(before->rows + 3 * before->n_rows++, resident->positions + 3 * vertex, 12);
}

/* Memory for what the updates of a step overwrite of deformable bodies. */
static ct_status reserve_before(ct_step *step) {
    for (size_t i = 0; i < step->n_updates; i++)
        if (step->updates[i].kind != CT_UPDATE_POSE)
            ct_scene_find(step->scene, step->updates[i].body, NULL)->resident->before.n_rows = 0;
    for (size_t i = 0; i < step->n_updates; i++) {
        const ct_update *u = &step->updates[i];
        if (u->kind == CT_UPDATE_POSE) continue;
        ct_body *body = ct_scene_find(step->scene, u->body, NULL);
        ct_resident *resident = body->resident;
        ct_body_before *before = &resident->before;
        if (u->kind == CT_UPDATE_POSITIONS) {
            if (!resident->other) resident->other = malloc((size_t)body->mesh->n_vertices * 12 + CT_VOLUME_PADDING);
            if (!resident->other)
                return ct_fail(&step->error, CT_OUT_OF_MEMORY, "body", "no memory for the positions of %u vertices",
                               body->mesh->n_vertices);
            continue;
        }
        before->n_rows += u->count;
        if (before->n_rows <= before->row_capacity) continue;
        float *grown = realloc(before->rows, before->n_rows * 12);
        if (!grown)
            return ct_fail(&step->error, CT_OUT_OF_MEMORY, "body", "no memory for the positions of %zu vertices",
                           before->n_rows);
        before->rows = grown;
        before->row_capacity = before->n_rows;
    }
    return CT_OK;
}

/* ---- updates ---- */

static void exchange_positions(ct_resident *resident) {
    float *before = resident->positions;
    resident->positions = resident->other;
    resident->other = before;
}

/* Returns where all positions of the body are written to: its other memory, as what it had is kept; in place after the
 * step's first such update. */
static float *swap_positions(ct_resident *resident) {
    if (resident->before.n_swaps++ == 0) exchange_positions(resident);
    return resident->positions;
}

/* Writes row k of an update. What was there is kept, unless the body's other memory has it. */
static void write_row(ct_resident *resident, const ct_update *u, uint64_t k, uint64_t vertex) {
    if (resident->before.n_swaps == 0) keep_row(resident, vertex);
    ct_update_row(u, k, resident->positions + 3 * vertex);
}

static void apply(ct_body *body, const ct_update *u) {
    ct_resident *resident = body->resident;
    ct_cpu_keep_body(body);
    if (u->kind == CT_UPDATE_POSE) {
        resident->has_moved |= memcmp(body->pose, u->pose, sizeof body->pose) != 0;
        memcpy(body->pose, u->pose, sizeof body->pose);
        return;
    }
    uint64_t row = 0;
    float *positions;
    switch (u->kind) {
    case CT_UPDATE_RANGES:
        for (uint64_t i = 0; i < u->n_indices; i += 2) {
            uint64_t first = ct_update_index(u, i), count = ct_update_index(u, i + 1);
            for (uint64_t k = 0; k < count; k++) write_row(resident, u, row++, first + k);
        }
        break;
    case CT_UPDATE_INDEXED:
        for (uint64_t k = 0; k < u->n_indices; k++) write_row(resident, u, k, ct_update_index(u, k));
        break;
    default:
        positions = swap_positions(resident);
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
    const ct_status reserved = reserve_before(step);
    if (reserved) return reserved;
    for (uint32_t b = 0; b < step->scene->n_bodies; b++) step->scene->bodies[b]->resident->before.is_kept = false;
    for (size_t i = 0; i < step->n_updates; i++)
        ct_scene_find(step->scene, step->updates[i].body, NULL)->resident->updates_left++;
    step->scene->is_moved = true;
    for (size_t i = 0; i < step->n_updates; i++) {
        const ct_update *u = &step->updates[i];
        ct_body *body = ct_scene_find(step->scene, u->body, NULL);
        apply(body, u);
        if (--body->resident->updates_left) continue; /* box and volume are needed after the last update */
        if (body->kind != CT_BODY_RIGID) measure_deformed(device, body, u);
    }
    return CT_OK;
}

/* Takes back an update of all vertices. */
static void swap_back(ct_resident *resident) {
    if (--resident->before.n_swaps == 0) exchange_positions(resident);
}

/* Takes back an update of a part of a deformable body, whose kept rows are the last ones. */
static void undo_rows(ct_resident *resident, const ct_update *u) {
    ct_body_before *before = &resident->before;
    if (u->kind == CT_UPDATE_INDEXED) {
        for (uint64_t k = u->n_indices; k-- > 0;)
            memcpy(resident->positions + 3 * (size_t)ct_update_index(u, k), before->rows + 3 * --before->n_rows, 12);
        return;
    }
    for (uint64_t i = u->n_indices; i > 0; i -= 2) {
        const uint64_t first = ct_update_index(u, i - 2);
        for (uint64_t k = ct_update_index(u, i - 1); k-- > 0;)
            memcpy(resident->positions + 3 * (first + k), before->rows + 3 * --before->n_rows, 12);
    }
}

static void undo_body(ct_body *body) {
    ct_resident *resident = body->resident;
    ct_body_before *before = &resident->before;
    before->is_kept = false;
    body->box = before->box;
    if (body->kind == CT_BODY_RIGID) {
        memcpy(body->pose, before->pose, sizeof body->pose);
        resident->box_level = before->box_level;
        resident->has_moved = false;
        return;
    }
    body->volume = before->volume;
    body->is_volume_old = before->is_volume_old;
    body->updates_since_volume = before->updates_since_volume;
    resident->is_stale = resident->boxes != NULL;
    ct_move_closing(body->mesh, resident->positions);
}

void ct_cpu_undo(ct_device *device, ct_step *step) {
    (void)device;
    if (!step->scene->is_moved) return;
    step->scene->is_moved = false;
    for (size_t i = step->n_updates; i-- > 0;) {
        const ct_update *u = &step->updates[i];
        ct_resident *resident = ct_scene_find(step->scene, u->body, NULL)->resident;
        if (u->kind == CT_UPDATE_POSITIONS)
            swap_back(resident);
        else if (u->kind != CT_UPDATE_POSE && resident->before.n_swaps == 0)
            undo_rows(resident, u);
    }
    for (uint32_t b = 0; b < step->scene->n_bodies; b++) /* also those that were given the box of another method */
        if (step->scene->bodies[b]->resident->before.is_kept) undo_body(step->scene->bodies[b]);
}

void ct_cpu_measure_old_volumes(const ct_device *device, const ct_scene *scene) {
    for (uint32_t b = 0; b < scene->n_bodies; b++)
        if (scene->bodies[b]->is_volume_old) measure_volume(device, scene->bodies[b]);
}

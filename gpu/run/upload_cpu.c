/* upload_cpu.c - applies a step's updates to the bodies' state, and measures the deformable bodies that moved. All
 * numbers are checked before anything is applied, and what they overwrite is kept until the step has ended well. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/fail.h"
#include "gpu/mesh/closing.h"
#include "gpu/mesh/mesh.h"
#include "gpu/mesh/split.h"
#include "gpu/method/device_cpu.h"
#include "gpu/scene/rows.h"

/* Finds the box of an update's positions. False: one of them is not finite as float32. */
static bool measure_positions(const ct_device *device, ct_resident *resident, const ct_update *u) {
    const ct_snap_cpu *snap = device->kernels->snap;
    resident->next = u;
    resident->are_floats = true;
    if (u->dtype == CT_F32) return snap->box(u->positions, u->count, NULL, &resident->next_box);
    return snap->wide_box(u->positions, u->count, &resident->next_box, &resident->are_floats);
}

/* Checks the numbers of an update, and notes whether the body needs memory for lower parts of positions. */
static ct_status check_positions(const ct_device *device, ct_body *body, const ct_update *u, ct_error *error) {
    ct_resident *resident = body->resident;
    if (u->kind == CT_UPDATE_POSE) return CT_OK;
    if (!measure_positions(device, resident, u)) return ct_update_name_offender(u, error);
    resident->takes_low |=
        !resident->are_floats || (u->kind != CT_UPDATE_POSITIONS && (resident->has_low || body->is_placed));
    return CT_OK;
}

static ct_status check_all(const ct_device *device, ct_step *step) {
    for (size_t i = 0; i < step->n_updates; i++)
        ct_scene_find(step->scene, step->updates[i].body, NULL)->resident->takes_low = false;
    for (size_t i = 0; i < step->n_updates; i++) {
        const ct_update *u = &step->updates[i];
        const ct_status status = check_positions(device, ct_scene_find(step->scene, u->body, NULL), u, &step->error);
        if (status) return status;
    }
    return CT_OK;
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
    before->has_low = body->resident->has_low;
    before->low_reach = body->low_reach;
    memcpy(before->given, body->given, sizeof before->given);
    memcpy(before->origin, body->resident->origin, sizeof before->origin);
}

static void keep_row(ct_resident *resident, uint64_t vertex) {
    float *row = resident->before.rows + 6 * resident->before.n_rows++;
    memcpy(row, resident->positions + 3 * vertex, 12);
    if (resident->has_low) memcpy(row + 3, resident->low + 3 * vertex, 12);
}

static void put_back_row(ct_resident *resident, uint64_t vertex) {
    const float *row = resident->before.rows + 6 * --resident->before.n_rows;
    memcpy(resident->positions + 3 * vertex, row, 12);
    if (resident->before.has_low) memcpy(resident->low + 3 * vertex, row + 3, 12);
}

/* Memory for another copy of a body's positions, or of their lower parts. */
static ct_status reserve_copy(float **copy, ct_body *body, ct_error *error) {
    if (*copy) return CT_OK;
    *copy = malloc((size_t)body->mesh->n_vertices * 12 + CT_VOLUME_PADDING);
    if (*copy) {
        body->copy_bytes += 12 * (uint64_t)body->mesh->n_vertices;
        return CT_OK;
    }
    return ct_fail(error, CT_OUT_OF_MEMORY, "body", "no memory for the positions of %u vertices",
                   body->mesh->n_vertices);
}

/* Memory for what an update overwrites of a deformable body. */
static ct_status reserve_for(const ct_update *u, ct_body *body, ct_error *error) {
    ct_resident *resident = body->resident;
    ct_body_before *before = &resident->before;
    ct_status status = CT_OK;
    if (u->kind == CT_UPDATE_POSITIONS) status = reserve_copy(&resident->other, body, error);
    if (!status && resident->takes_low) {
        status = reserve_copy(&resident->low, body, error);
        if (!status) status = reserve_copy(&resident->other_low, body, error);
    }
    if (status || u->kind == CT_UPDATE_POSITIONS) return status;
    before->n_rows += u->count;
    if (before->n_rows <= before->row_capacity) return CT_OK;
    float *grown = realloc(before->rows, before->n_rows * 24);
    if (!grown)
        return ct_fail(error, CT_OUT_OF_MEMORY, "body", "no memory for the positions of %zu vertices", before->n_rows);
    body->copy_bytes += 24 * (uint64_t)(before->n_rows - before->row_capacity);
    before->rows = grown;
    before->row_capacity = before->n_rows;
    return CT_OK;
}

static ct_status reserve_before(ct_step *step) {
    for (size_t i = 0; i < step->n_updates; i++)
        ct_scene_find(step->scene, step->updates[i].body, NULL)->resident->before.n_rows = 0;
    for (size_t i = 0; i < step->n_updates; i++) {
        const ct_update *u = &step->updates[i];
        if (u->kind == CT_UPDATE_POSE) continue;
        ct_body *body = ct_scene_find(step->scene, u->body, NULL);
        const uint64_t had = body->copy_bytes;
        const ct_status status = reserve_for(u, body, &step->error);
        step->scene->body_bytes += body->copy_bytes - had;
        if (status) return status;
    }
    return CT_OK;
}

/* ---- updates ---- */

static void exchange(float **a, float **b) {
    float *c = *a;
    *a = *b;
    *b = c;
}

static void exchange_positions(ct_resident *resident) {
    exchange(&resident->positions, &resident->other);
    exchange(&resident->low, &resident->other_low);
}

/* Lets all positions of the body be written to its other memory, as what it had is kept; in place after the step's
 * first such update. */
static void swap_positions(ct_resident *resident) {
    if (resident->before.n_swaps++ == 0) exchange_positions(resident);
}

/* From now on the body has lower parts, all 0 until they are written. */
static void begin_low(const ct_body *body, ct_resident *resident) {
    if (resident->has_low) return;
    resident->has_low = true;
    memset(resident->low, 0, (size_t)body->mesh->n_vertices * 12);
}

/* Writes row k of an update. What was there is kept, unless the body's other memory has it. */
static void write_row(ct_resident *resident, const ct_update *u, uint64_t k, uint64_t vertex) {
    float *high = resident->positions + 3 * vertex;
    if (resident->before.n_swaps == 0) keep_row(resident, vertex);
    if (!resident->has_low) {
        ct_update_row(u, k, high);
        return;
    }
    double x[3];
    ct_update_row_f64(u, k, x);
    ct_split_row(x, resident->origin, high, resident->low + 3 * vertex);
}

/* All positions, whose origin follows the body. */
static void write_all(const ct_device *device, ct_body *body, const ct_update *u) {
    ct_resident *resident = body->resident;
    static const double nowhere[3];
    const bool will_split = u->dtype == CT_F64 && resident->takes_low;
    swap_positions(resident);
    resident->has_low = false;
    memcpy(resident->origin, nowhere, sizeof nowhere);
    if (will_split) {
        resident->has_low = true; /* closing vertices have no lower parts */
        memset(resident->low + 3 * u->count, 0, (body->mesh->n_vertices - u->count) * 12);
        if (resident->next != u) measure_positions(device, resident, u); /* the body has several updates */
        ct_choose_box_origin(resident->next_box.lo, resident->next_box.hi, resident->origin);
    }
    ct_body_place(body, body->given, resident->origin);
    if (u->dtype == CT_F32)
        memcpy(resident->positions, u->positions, u->count * 12);
    else
        device->kernels->snap->split(u->positions, u->count, resident->origin, resident->positions,
                                     will_split ? resident->low : NULL);
}

/* Whether the body is where it was before a step whose only update so far wrote all its positions, bit for bit. */
static bool is_unmoved(const ct_resident *resident, size_t size) {
    const ct_body_before *before = &resident->before;
    return before->n_swaps == 1 && before->n_rows == 0 && resident->has_low == before->has_low &&
           memcmp(resident->origin, before->origin, sizeof before->origin) == 0 &&
           memcmp(resident->positions, resident->other, size) == 0 &&
           (!resident->has_low || memcmp(resident->low, resident->other_low, size) == 0);
}

static void note_move(ct_resident *resident) {
    resident->n_moves++;
    resident->at_rest = 0;
}

static void apply(const ct_device *device, ct_body *body, const ct_update *u) {
    ct_resident *resident = body->resident;
    ct_cpu_keep_body(body);
    if (u->kind == CT_UPDATE_POSE) {
        if (memcmp(body->given, u->pose, sizeof body->given) == 0) return;
        note_move(resident);
        resident->has_moved = true;
        ct_body_place(body, u->pose, body->mesh->origin);
        return;
    }
    if (u->kind == CT_UPDATE_POSITIONS) {
        write_all(device, body, u);
        if (!is_unmoved(resident, u->count * 12)) note_move(resident);
        return;
    }
    note_move(resident);
    uint64_t row = 0;
    if (resident->takes_low) begin_low(body, resident);
    if (u->kind == CT_UPDATE_INDEXED)
        for (uint64_t k = 0; k < u->n_indices; k++) write_row(resident, u, k, ct_update_index(u, k));
    else
        for (uint64_t i = 0; i < u->n_indices; i += 2) {
            uint64_t first = ct_update_index(u, i), count = ct_update_index(u, i + 1);
            for (uint64_t k = 0; k < count; k++) write_row(resident, u, row++, first + k);
        }
}

static void measure_volume(const ct_device *device, ct_body *body) {
    const ct_mesh *mesh = body->mesh;
    const double *origin = body->resident->origin;
    ct_box box;
    for (int k = 0; k < 3; k++) { /* as the positions count */
        box.lo[k] = body->box.lo[k] - origin[k];
        box.hi[k] = body->box.hi[k] - origin[k];
    }
    ct_body_set_volume(body, device->kernels->volume->signed_volume(body->resident->positions, mesh->triangles,
                                                                    mesh->n_triangles, &box));
}

void ct_cpu_find_deformed_box(const ct_device *device, ct_body *body) {
    const ct_resident *resident = body->resident;
    double reach = 0;
    device->kernels->snap->box(resident->positions, body->mesh->n_vertices, NULL, &body->box);
    for (int k = 0; k < 3; k++) {
        reach = fmax(reach, fmax(fabs(body->box.lo[k]), fabs(body->box.hi[k])));
        body->box.lo[k] += resident->origin[k];
        body->box.hi[k] += resident->origin[k];
    }
    body->low_reach = resident->has_low ? CT_HIGH_ROUNDING * reach : 0;
    ct_body_widen_box(body, &body->box);
}

/* The box and the volume of a deformable body whose updates have all been applied; `last` is the last of them. */
static void measure_deformed(const ct_device *device, ct_body *body, const ct_update *last) {
    struct ct_resident *resident = body->resident;
    const ct_mesh *mesh = body->mesh;
    resident->is_stale = resident->boxes != NULL;
    ct_move_closing(mesh, resident->positions);
    if (last->kind == CT_UPDATE_POSITIONS && last->dtype == CT_F32 && !mesh->n_closing) {
        body->box = resident->next_box;
        body->low_reach = 0;
    } else {
        ct_cpu_find_deformed_box(device, body);
    }
    if (ct_body_volume_is_due(body, mesh->n_triangles)) measure_volume(device, body);
}

static void begin_step(ct_scene *scene) {
    for (uint32_t b = 0; b < scene->n_bodies; b++) {
        ct_resident *resident = scene->bodies[b]->resident;
        resident->before.is_kept = false;
        resident->at_rest += resident->at_rest < 1;
    }
}

static void count_at_rest(ct_scene *scene) {
    scene->n_at_rest = 0;
    for (uint32_t b = 0; b < scene->n_bodies; b++) scene->n_at_rest += scene->bodies[b]->resident->at_rest > 0;
}

ct_status ct_cpu_upload(ct_device *device, ct_step *step) {
    ct_status status = check_all(device, step);
    if (!status) status = reserve_before(step);
    if (status) return status;
    begin_step(step->scene);
    for (size_t i = 0; i < step->n_updates; i++)
        ct_scene_find(step->scene, step->updates[i].body, NULL)->resident->updates_left++;
    step->scene->is_moved = true;
    for (size_t i = 0; i < step->n_updates; i++) {
        const ct_update *u = &step->updates[i];
        ct_body *body = ct_scene_find(step->scene, u->body, NULL);
        apply(device, body, u);
        if (--body->resident->updates_left) continue; /* box and volume are needed after the last update */
        if (body->kind != CT_BODY_RIGID) measure_deformed(device, body, u);
    }
    count_at_rest(step->scene);
    return CT_OK;
}

/* Takes back an update of all vertices. */
static void swap_back(ct_resident *resident) {
    if (--resident->before.n_swaps == 0) exchange_positions(resident);
}

/* Takes back an update of a part of a deformable body, whose kept rows are the last ones. */
static void undo_rows(ct_resident *resident, const ct_update *u) {
    if (u->kind == CT_UPDATE_INDEXED) {
        for (uint64_t k = u->n_indices; k-- > 0;) put_back_row(resident, ct_update_index(u, k));
        return;
    }
    for (uint64_t i = u->n_indices; i > 0; i -= 2) {
        const uint64_t first = ct_update_index(u, i - 2);
        for (uint64_t k = ct_update_index(u, i - 1); k-- > 0;) put_back_row(resident, first + k);
    }
}

static void undo_body(ct_body *body) {
    ct_resident *resident = body->resident;
    ct_body_before *before = &resident->before;
    before->is_kept = false;
    note_move(resident);
    body->box = before->box;
    body->low_reach = before->low_reach;
    memcpy(resident->origin, before->origin, sizeof before->origin);
    ct_body_place(body, before->given, before->origin);
    if (body->kind == CT_BODY_RIGID) {
        resident->box_level = before->box_level;
        resident->has_moved = false;
        return;
    }
    body->volume = before->volume;
    body->is_volume_old = before->is_volume_old;
    body->updates_since_volume = before->updates_since_volume;
    resident->has_low = before->has_low;
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

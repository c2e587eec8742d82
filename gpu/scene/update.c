/* update.c - checks a step's updates before any of them is applied. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gpu/base/fail.h"
#include "gpu/mesh/mesh.h"
#include "gpu/scene/rows.h"
#include "gpu/scene/scene.h"

static const char *body_name(char name[24], uint32_t id) {
    if (!id) return "the body";
    snprintf(name, 24, "body %u", id);
    return name;
}

ct_status ct_pose_check(const double pose[12], uint32_t id, ct_error *error) {
    char name[24];
    for (int i = 0; i < 12; i++)
        if (!isfinite(pose[i]))
            return ct_fail(error, CT_NON_FINITE, "pose", "%s: number %d of the pose is %g", body_name(name, id), i,
                           pose[i]);
    const double *r = pose;
    double worst = 0;
    for (int a = 0; a < 3; a++)
        for (int b = 0; b <= a; b++) {
            const double off = fabs(r[a] * r[b] + r[4 + a] * r[4 + b] + r[8 + a] * r[8 + b] - (a == b));
            if (off > worst) worst = off;
        }
    double determinant =
        r[0] * (r[5] * r[10] - r[6] * r[9]) - r[1] * (r[4] * r[10] - r[6] * r[8]) + r[2] * (r[4] * r[9] - r[5] * r[8]);
    if (!(worst <= CT_POSE_OFF) || determinant < 0)
        return ct_fail(error, CT_OUT_OF_RANGE, "pose",
                       "%s: the pose's 3x3 part is no rotation (its columns are off orthonormal by %.3g, determinant "
                       "%.3g): row-major 3x4 [R|t] is expected, without scale or mirroring",
                       body_name(name, id), worst, determinant);
    return CT_OK;
}

ct_status ct_pose_check_reach(const double pose[12], const ct_mesh *mesh, uint32_t id, ct_error *error) {
    char name[24];
    double extent = 0, away = 0;
    double placed[12];
    ct_pose_from_origin(pose, mesh->origin, placed);
    for (int k = 0; k < 3; k++) {
        extent = fmax(extent, mesh->hi[k] - mesh->lo[k]);
        away = fmax(away, fabs(placed[4 * k + 3]));
    }
    if (away <= CT_POSE_REACH * extent) return CT_OK;
    return ct_fail(error, CT_OUT_OF_RANGE, "pose",
                   "%s: the pose places it %g m from the origin, expected at most %g m for a body of %g m: further out "
                   "doubles do not hold its shape. Move the scene's origin near the bodies",
                   body_name(name, id), away, CT_POSE_REACH * extent, extent);
}

static ct_status check_ranges(const ct_update *u, uint32_t vertices, ct_error *error) {
    if (u->n_indices % 2)
        return ct_fail(error, CT_WRONG_LENGTH, "indices",
                       "body %u: %llu range numbers, expected (first, count) pairs: an even number", u->body,
                       (unsigned long long)u->n_indices);
    uint64_t total = 0;
    for (uint64_t i = 0; i < u->n_indices; i += 2) {
        uint64_t first = ct_update_index(u, i), count = ct_update_index(u, i + 1);
        if (first + count > vertices)
            return ct_fail(error, CT_OUT_OF_RANGE, "indices",
                           "body %u: range %llu ends before vertex %llu, but the body has %u", u->body,
                           (unsigned long long)(i / 2), (unsigned long long)(first + count), vertices);
        total += count;
    }
    if (total != u->count)
        return ct_fail(error, CT_WRONG_LENGTH, "positions",
                       "body %u: the ranges cover %llu vertices, but positions of %llu were given", u->body,
                       (unsigned long long)total, (unsigned long long)u->count);
    return CT_OK;
}

static ct_status check_indexed(const ct_update *u, uint32_t vertices, ct_error *error) {
    if (u->n_indices != u->count)
        return ct_fail(error, CT_WRONG_LENGTH, "indices", "body %u: %llu indices for %llu positions", u->body,
                       (unsigned long long)u->n_indices, (unsigned long long)u->count);
    for (uint64_t i = 0; i < u->n_indices; i++) {
        uint32_t vertex = ct_update_index(u, i);
        if (vertex >= vertices)
            return ct_fail(error, CT_OUT_OF_RANGE, "indices", "body %u: index %llu is vertex %u, but the body has %u",
                           u->body, (unsigned long long)i, vertex, vertices);
    }
    return CT_OK;
}

ct_status ct_update_check(const ct_scene *scene, const ct_update *u, ct_error *error) {
    const ct_body *body = ct_scene_find(scene, u->body, error);
    if (!body) return CT_NOT_FOUND;
    const uint32_t vertices = ct_mesh_given(body->mesh);
    if (u->kind == CT_UPDATE_POSE) {
        if (body->kind != CT_BODY_RIGID)
            return ct_fail(error, CT_INVALID_ARGUMENT, "kind", "body %u is deformable: it takes positions, not a pose",
                           u->body);
        const ct_status status = ct_pose_check(u->pose, u->body, error);
        if (status || body->is_half_space) return status;
        return ct_pose_check_reach(u->pose, body->mesh, u->body, error);
    }
    if (u->kind != CT_UPDATE_POSITIONS && u->kind != CT_UPDATE_RANGES && u->kind != CT_UPDATE_INDEXED)
        return ct_fail(error, CT_INVALID_ARGUMENT, "kind", "body %u: update kind %d is unknown", u->body, (int)u->kind);
    if (body->kind != CT_BODY_DEFORMABLE)
        return ct_fail(error, CT_INVALID_ARGUMENT, "kind", "body %u is rigid: it takes a pose, not positions", u->body);
    if (u->dtype != CT_F32 && u->dtype != CT_F64)
        return ct_fail(error, CT_INVALID_ARGUMENT, "positions", "body %u: positions are float32 or float64", u->body);
    if (u->count && !u->positions)
        return ct_fail(error, CT_INVALID_ARGUMENT, "positions", "body %u: no positions were given", u->body);
    if (u->n_indices && !u->indices)
        return ct_fail(error, CT_INVALID_ARGUMENT, "indices", "body %u: no indices were given", u->body);
    if (u->kind == CT_UPDATE_RANGES) return check_ranges(u, vertices, error);
    if (u->kind == CT_UPDATE_INDEXED) return check_indexed(u, vertices, error);
    if (u->count != vertices)
        return ct_fail(error, CT_WRONG_LENGTH, "positions", "body %u: positions of %llu vertices, expected %u", u->body,
                       (unsigned long long)u->count, vertices);
    return CT_OK;
}

ct_status ct_update_name_offender(const ct_update *u, ct_error *error) {
    for (uint64_t k = 0; k < u->count; k++) {
        double p[3];
        ct_update_row_f64(u, k, p);
        for (int i = 0; i < 3; i++)
            if (!isfinite((float)p[i]))
                return ct_fail(error, CT_NON_FINITE, "positions",
                               "body %u: position %llu has %c = %g, expected a finite number within float32's range",
                               u->body, (unsigned long long)k, "xyz"[i], p[i]);
    }
    return CT_OK;
}

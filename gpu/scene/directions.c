/* directions.c - checks a step's directions (ct_direction). */
#include <math.h>

#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/mesh/mesh.h"
#include "gpu/scene/scene.h"

/* m and rad: products with coordinates and areas, summed over any mesh, stay finite. */
#define MOST 1e200

static ct_status check_size(const ct_direction *d, double value, ct_error *error) {
    if (fabs(value) <= MOST) return CT_OK;
    return ct_fail(error, CT_OUT_OF_RANGE, "directions", "body %u: direction %u has %g, expected at most %g", d->body,
                   d->index, value, MOST);
}

static ct_status check_twist(const ct_direction *d, ct_error *error) {
    if (d->count)
        return ct_fail(error, CT_INVALID_ARGUMENT, "directions",
                       "body %u is rigid: its part of a direction is a twist, not values of its vertices", d->body);
    ct_status status = CT_OK;
    for (int i = 0; i < 6 && !status; i++) {
        if (!isfinite(d->twist[i]))
            return ct_fail(error, CT_NON_FINITE, "directions", "body %u: number %d of the twist is %g", d->body, i,
                           d->twist[i]);
        status = check_size(d, d->twist[i], error);
    }
    return status;
}

static ct_status check_values(const ct_direction *d, uint32_t vertices, ct_error *error) {
    if (!d->count && !d->values)
        return ct_fail(error, CT_INVALID_ARGUMENT, "directions",
                       "body %u is deformable: its part of a direction is values, a displacement for each of its %u "
                       "vertices, not a twist",
                       d->body, vertices);
    if (d->dtype != CT_F32 && d->dtype != CT_F64)
        return ct_fail(error, CT_INVALID_ARGUMENT, "directions", "body %u: values are float32 or float64", d->body);
    if (d->count != vertices)
        return ct_fail(error, CT_WRONG_LENGTH, "directions",
                       "body %u: direction %u has values of %llu vertices, expected %u", d->body, d->index,
                       (unsigned long long)d->count, vertices);
    if (!d->values) return ct_fail(error, CT_INVALID_ARGUMENT, "directions", "body %u: no values were given", d->body);
    for (uint64_t k = 0; k < d->count; k++) {
        double row[3];
        if (CT_POLL_EVERY(k, 8192) && ct_is_cancelled()) return ct_fail_cancelled(error);
        ct_direction_row(d, k, row);
        for (int i = 0; i < 3; i++) {
            if (!isfinite(row[i]))
                return ct_fail(error, CT_NON_FINITE, "directions", "body %u: vertex %llu of direction %u has %c = %g",
                               d->body, (unsigned long long)k, d->index, "xyz"[i], row[i]);
            const ct_status status = check_size(d, row[i], error);
            if (status) return status;
        }
    }
    return CT_OK;
}

ct_status ct_directions_check(ct_scene *scene, const ct_direction *directions, size_t n, ct_error *error) {
    for (uint32_t b = 0; b < scene->n_bodies; b++)
        memset(scene->bodies[b]->direction, 0, sizeof scene->bodies[b]->direction);
    for (size_t i = 0; i < n; i++) {
        const ct_direction *d = &directions[i];
        ct_body *body = ct_scene_find(scene, d->body, error);
        if (!body) return CT_NOT_FOUND;
        if (d->index >= CT_MAX_DIRECTIONS)
            return ct_fail(error, CT_OUT_OF_RANGE, "directions",
                           "body %u: a part of direction %u, but a step has at most %d: take more steps", d->body,
                           d->index, CT_MAX_DIRECTIONS);
        if (body->direction[d->index])
            return ct_fail(error, CT_INVALID_ARGUMENT, "directions", "body %u has two parts of direction %u", d->body,
                           d->index);
        const ct_status status =
            body->kind == CT_BODY_RIGID ? check_twist(d, error) : check_values(d, ct_mesh_given(body->mesh), error);
        if (status) return status;
        body->direction[d->index] = (uint32_t)(i + 1);
    }
    return CT_OK;
}

uint32_t ct_directions_count(const ct_direction *directions, size_t n) {
    uint32_t count = 0;
    for (size_t i = 0; i < n; i++)
        if (directions[i].index >= count) count = directions[i].index + 1;
    return count;
}

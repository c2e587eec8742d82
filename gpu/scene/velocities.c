/* velocities.c - checks a step's velocities (ct_velocity). */
#include <math.h>

#include "gpu/base/fail.h"
#include "gpu/mesh/mesh.h"
#include "gpu/scene/slip.h"

/* m/s and rad/s: products of velocities, weights and distances stay finite. */
#define MOST 1e30

static ct_status check_number(uint32_t body, double value, const char *what, uint64_t row, ct_error *error) {
    if (!isfinite(value))
        return ct_fail(error, CT_NON_FINITE, "velocities", "body %u: %s %llu has %g", body, what,
                       (unsigned long long)row, value);
    if (fabs(value) > MOST)
        return ct_fail(error, CT_OUT_OF_RANGE, "velocities", "body %u: %s %llu has %g, expected at most %g", body, what,
                       (unsigned long long)row, value, MOST);
    return CT_OK;
}

static ct_status check_velocity(const ct_body *body, const ct_velocity *v, ct_error *error) {
    ct_status status = CT_OK;
    if (body->kind == CT_BODY_RIGID) {
        if (v->count)
            return ct_fail(error, CT_INVALID_ARGUMENT, "velocities",
                           "body %u is rigid: its velocity is a twist, not values of its vertices", v->body);
        for (int i = 0; i < 6 && !status; i++)
            status = check_number(v->body, v->twist[i], "number", (uint64_t)i, error);
        return status;
    }
    if (!v->count && !v->values)
        return ct_fail(error, CT_INVALID_ARGUMENT, "velocities",
                       "body %u is deformable: it takes values, a velocity for each of its %u vertices, not a twist",
                       v->body, ct_mesh_given(body->mesh));
    if (v->dtype != CT_F32 && v->dtype != CT_F64)
        return ct_fail(error, CT_INVALID_ARGUMENT, "velocities", "body %u: values are float32 or float64", v->body);
    if (v->count != ct_mesh_given(body->mesh))
        return ct_fail(error, CT_WRONG_LENGTH, "velocities", "body %u: velocities of %llu vertices, expected %u",
                       v->body, (unsigned long long)v->count, ct_mesh_given(body->mesh));
    if (!v->values) return ct_fail(error, CT_INVALID_ARGUMENT, "velocities", "body %u: no values were given", v->body);
    for (uint64_t k = 0; k < v->count && !status; k++) {
        double row[3];
        ct_velocity_row(v, k, row);
        for (int i = 0; i < 3 && !status; i++) status = check_number(v->body, row[i], "vertex", k, error);
    }
    return status;
}

ct_status ct_velocities_check(ct_scene *scene, const ct_step *step, ct_error *error) {
    if (!isfinite(step->viscosity))
        return ct_fail(error, CT_NON_FINITE, "viscosity", "viscosity is %g N s/m^3", step->viscosity);
    if (!(step->viscosity >= 0 && step->viscosity <= 1e100))
        return ct_fail(error, CT_OUT_OF_RANGE, "viscosity", "viscosity is %g N s/m^3, expected 0 to 1e100",
                       step->viscosity);
    if (!step->n_velocities && step->viscosity != 0)
        return ct_fail(error, CT_INVALID_ARGUMENT, "velocities",
                       "viscosity is %g, but no body has a velocity: give velocities, or leave viscosity out",
                       step->viscosity);
    for (uint32_t b = 0; b < scene->n_bodies && step->n_velocities; b++) scene->bodies[b]->velocity = 0;
    for (size_t i = 0; i < step->n_velocities; i++) {
        const ct_velocity *v = &step->velocities[i];
        ct_body *body = ct_scene_find(scene, v->body, error);
        if (!body) return CT_NOT_FOUND;
        if (body->velocity)
            return ct_fail(error, CT_INVALID_ARGUMENT, "velocities", "body %u has two velocities", v->body);
        const ct_status status = check_velocity(body, v, error);
        if (status) return status;
        body->velocity = (uint32_t)(i + 1);
    }
    return CT_OK;
}

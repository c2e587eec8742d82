/* slip.h - how the surfaces of a contact slide on each other, and viscous friction against it, from a step's
 * velocities. For the engine: ct_step.velocities and viscosity; ct_contact.relative_velocity says what is computed. */
#ifndef CT_SLIP_H
#define CT_SLIP_H

#include "gpu/scene/scene.h"

/* The velocity of vertex k in a deformable body's velocities, m/s. */
static inline void ct_velocity_row(const ct_velocity *v, uint64_t k, double out[3]) {
    const char *row = (const char *)v->values + k * (v->dtype == CT_F64 ? 24 : 12);
    if (v->dtype == CT_F64) {
        memcpy(out, row, 24);
    } else {
        float p[3];
        memcpy(p, row, 12);
        for (int i = 0; i < 3; i++) out[i] = (double)p[i];
    }
}

/* Checks a step's velocities and viscosity, and notes in each body of the scene which velocity is its own. NOT_FOUND,
 * INVALID_ARGUMENT, WRONG_LENGTH, OUT_OF_RANGE, NON_FINITE. */
ct_status ct_velocities_check(ct_scene *scene, const ct_step *step, ct_error *error);

/* Adds slip and friction to the result of a step with velocities, whose contacts have frames and friction weights. Sums
 * do not depend on the order of vertices. OUT_OF_MEMORY, DEVICE_ERROR. */
ct_status ct_result_add_slip(ct_scene *scene, const ct_step *step, ct_result *result, ct_error *error);

#endif

/* slip.c - slip and viscous friction of a contact, from its friction weights and the velocities of its vertices.
 *
 * Faure 2008 section 3.3 takes the relative velocity along each ray. Here it is that of a contact, from the friction
 * weights of Allard 2010, so that every method has it, no lattice shows in it, and forces balance: a mean slip and a
 * turn about the normal. With patches or cells it is that of each of them. */
#include "gpu/after/slip.h"

#include <math.h>
#include <stdlib.h>

#include "gpu/after/side.h"
#include "gpu/after/surfaces.h"
#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/base/vec.h"
#include "gpu/mesh/mesh.h"

/* ---- slip and friction ---- */

/* Force and torque about the contact's centre that act on side 1 at the point `at`; side 0 has the opposite. */
static void find_torque(const double at[3], const double force[3], double turn, const double normal[3],
                        double torque[3]) {
    ct_cross3(at, force, torque);
    for (int i = 0; i < 3; i++) torque[i] += turn * normal[i];
}

/* The load on a side of a unit slide along `along` (NULL: none) and a turn: both about the same point on either side,
 * so that not only forces but torques are opposite. */
static ct_side_load load_of(const ct_side *side, int s, const double at[3], const double *along, double turn) {
    ct_side_load load = {.turn = 0};
    double force[3] = {0, 0, 0}, torque[3];
    for (int i = 0; i < 3 && along; i++) {
        load.push[i] = along[i];
        force[i] = side->weight * along[i];
    }
    find_torque(at, force, s ? turn : -turn, side->normal, torque);
    ct_side_balance(side, torque, &load);
    return load;
}

/* How fast the point of a side at which friction acts moves along a tangent, times the side's weight, m^3/s; without a
 * tangent, how fast it turns about the normal, rad/s, with a sign by side. What the load does per time: so friction
 * against it never adds energy. */
static double motion_of(const ct_side *side, int s, const double at[3], const double *along) {
    if (side->body->kind == CT_BODY_RIGID) {
        double velocity[3];
        ct_side_velocity(side, at, velocity);
        if (along) return side->weight * ct_dot3(velocity, along);
        return side->velocity ? (s ? 1 : -1) * ct_dot3(side->velocity->twist + 3, side->normal) : 0;
    }
    const ct_side_load load = load_of(side, s, at, along, along ? 0 : 1);
    return ct_side_power(side, &load);
}

static void push_side(const ct_side *side, int s, const double at[3], const double slide[3], double turn,
                      double *forces, double wrench[6]) {
    double torque[3], shift[3];
    for (int i = 0; i < 3; i++) wrench[i] = side->weight * slide[i];
    find_torque(at, wrench, s ? turn : -turn, side->normal, torque);
    ct_cross3(side->origin, wrench, shift);
    for (int i = 0; i < 3; i++) wrench[3 + i] = torque[i] - shift[i];
    if (!forces) return;
    const ct_side_load load = load_of(side, s, at, slide, turn);
    ct_side_push(side, &load, forces);
}

static void find_slip(ct_contact *contact, const ct_side side[2], double viscosity, double *forces) {
    double at[3], slide[3], turn = 0, flow[2];
    for (int i = 0; i < 3; i++) {
        contact->relative_velocity[i] = (side[0].flow[i] + side[1].flow[i]) / contact->area;
        at[i] = (contact->side_center[0][i] + contact->side_center[1][i]) / 2 - contact->center[i];
    }
    contact->spin = motion_of(&side[0], 0, at, NULL) + motion_of(&side[1], 1, at, NULL);
    if (!(viscosity > 0)) return;
    for (int t = 0; t < 2; t++)
        flow[t] = motion_of(&side[0], 0, at, contact->tangents[t]) + motion_of(&side[1], 1, at, contact->tangents[t]);
    for (int i = 0; i < 3; i++)
        slide[i] = -viscosity * (flow[0] * contact->tangents[0][i] + flow[1] * contact->tangents[1][i]) / contact->area;
    if (contact->spin != 0) turn = -viscosity * contact->area * contact->area / (2 * M_PI) * contact->spin;
    for (int s = 0; s < 2; s++)
        push_side(&side[s], s, at, slide, turn, forces ? forces + 3 * contact->first[s] : NULL, contact->friction[s]);
}

/* A half-space's surface contributes what follows from the other side's. */
static void complete_half_space(ct_side side_of[2], int s, const ct_contact *contact) {
    ct_side *side = &side_of[s];
    const ct_side *other = &side_of[1 - s];
    double center[3], velocity[3];
    side->weight = -other->weight;
    side->size = fabs(side->weight);
    for (int i = 0; i < 3; i++) center[i] = contact->side_center[s][i] - contact->center[i];
    ct_side_velocity(side, center, velocity);
    for (int i = 0; i < 3; i++) side->flow[i] = side->weight * velocity[i];
}

static void add_slip(const ct_side_work *work, ct_contact *contact, ct_side side[2]) {
    for (int s = 0; s < 2; s++)
        if (side[s].body->is_half_space) complete_half_space(side, s, contact);
    find_slip(contact, side, work->step->viscosity, work->result->friction_forces);
}

ct_status ct_result_add_slip(ct_scene *scene, const ct_step *step, ct_result *result, ct_error *error) {
    const ct_side_work work = {.scene = scene,
                               .step = step,
                               .result = result,
                               .has_rows = true,
                               .has_moments = step->viscosity > 0,
                               .has_cells = true,
                               .phase = "finding slip",
                               .field = "velocities",
                               .task = add_slip};
    if (step->viscosity > 0) result->friction_forces = calloc(3 * result->n_entries + 1, sizeof(double));
    const ct_status status = step->viscosity > 0 && !result->friction_forces
                                 ? ct_fail(error, CT_OUT_OF_MEMORY, "velocities",
                                           "no memory for the slip of %zu contacts", result->n_contacts)
                                 : ct_side_work_run(&work, error);
    result->has_slip = !status;
    return status;
}

/* ---- checks of a step's velocities ---- */

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
    if (step->viscosity > 0 && scene->settings.law == CT_LAW_PRESSURE)
        return ct_fail(
            error, CT_INVALID_ARGUMENT, "viscosity",
            "viscosity is of the law \"volume\"; by the law \"pressure\" bodies have a friction of their own");
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

/* law.h - the contact law "pressure": wrenches of contacts from bodies' materials and velocities. For the engine. */
#ifndef CT_LAW_H
#define CT_LAW_H

#include "gpu/after/side.h"
#include "gpu/scene/material.h"
#include "gpu/scene/scene.h"

/* What a step of a scene with the law needs of the method, CT_WANT_...; 0 without the law. */
uint32_t ct_law_wants(const ct_step *step);

/* What acts between the two surfaces of a contact, place by place: for the contact surface (sheet.h). Positions are
 * from the contact's centre, world axes, m; forces are those on part 0. */
typedef struct ct_traction {
    bool has_law, has_friction;
    ct_material material; /* of the pair */
    double speed;         /* m/s: of stiction */
    double at[3];         /* the barycentre of the contact's area */
    double velocity[3];   /* m/s: of part 1 relative to part 0 at `at` */
    double turning[3];    /* rad/s */
    double
        share; /* 0..1: how far the law's pressure acts along the normals of part 1's surface, the rest along part 0's */
    double wrench[6]; /* N, N m: force, and torque about the contact's centre, that all of it comes to */
} ct_traction;

/* Whether sides have to be measured with rows, for the motion of deformable bodies. */
bool ct_law_needs_rows(const ct_step *step);
/* Of a contact with an area and moments (CT_WANT_INERTIA), after ct_result_add_law. Sides that ct_side_measure
 * measured. */
void ct_law_describe(const ct_scene *scene, const ct_step *step, const ct_contact *contact, const ct_side side[2],
                     ct_traction *traction);
/* The velocity of part 1 relative to part 0 at a place. */
void ct_traction_velocity(const ct_traction *traction, const double place[3], double out[3]);
/* The coefficient of friction where surfaces slide at a speed of this square, m^2/s^2. */
double ct_traction_friction(const ct_traction *traction, double square);

/* Adds ct_contact.wrench, extents, axes and friction to the result of a step with ct_law_wants, and replaces forces and
 * friction_forces, where they are wanted, by the law's. After slip. OUT_OF_MEMORY, DEVICE_ERROR. */
ct_status ct_result_add_law(ct_scene *scene, const ct_step *step, ct_result *result, ct_error *error);

#endif

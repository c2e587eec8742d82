/* rigid.h - rigid bodies for the settle example: mass and inertia of a mesh, motion, and the response to contacts that
 * contactd found. SI units; angular velocities and torques are in world axes about the centre of mass. */
#ifndef SETTLE_RIGID_H
#define SETTLE_RIGID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client_c/contactd.h"

typedef struct rigid {
    bool fixed;                   /* never moves */
    double volume, mass;          /* m^3, kg */
    double inertia[3][3];         /* kg m^2, body axes */
    double inverse_inertia[3][3]; /* world axes, of the current orientation; zero where fixed */
    double x[3];                  /* m, centre of mass */
    double q[4];                  /* orientation: w, x, y, z */
    double v[3], w[3];            /* m/s, rad/s */
} rigid;

/* Moves the vertices so that the centre of mass is the origin, and makes a resting body of them. */
rigid rigid_of_mesh(float *positions, size_t n_vertices, const uint32_t *triangles, size_t n_triangles, double density);

void rigid_pose(const rigid *body, double pose[12]); /* row-major [R|t] */
void rigid_turn(rigid *body, const double axis[3], double angle);
void rigid_begin_step(rigid *body, double dt, const double gravity[3]); /* velocities under gravity and air drag */
void rigid_end_step(rigid *body, double dt);                            /* positions from velocities */

typedef struct contact_law {
    double stiffness; /* k of E = k V^2 / 2, N/m^5 */
    double damping;   /* s: the force of a volume that changes by dV/dt is that of damping * dV/dt more volume */
    double friction;  /* Coulomb's */
} contact_law;

/* A contact, ready to be solved with the others of its step. */
typedef struct contact_row {
    int body[2];
    double volume;
    double gradient[2][6];                    /* dV/dq */
    double normal_mass, pressure;             /* g M^-1 g; the multiplier k V + ... */
    double tangent[2][2][6], tangent_mass[2]; /* sliding velocity of body[1] over body[0] by q, per tangent */
    double slide[2];                          /* impulses */
    double push;                              /* N, force along the normal */
} contact_row;

contact_row contact_row_of(const contactd_contact *contact, const int body[2], const rigid *bodies);

/* Changes the velocities so that each contact's wrench is -p dV/dq with p = k (V + dt dV/dt) + k damping dV/dt >= 0 at
 * the end of the step (so stiff contacts are stable at any dt), and friction within its cone. */
void contact_solve(contact_row *rows, size_t n, rigid *bodies, const contact_law *law, double dt, int sweeps);

#endif

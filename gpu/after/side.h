/* side.h - one side of a contact on the host: its entries' positions, velocities and friction weights, their moments, and
 * the forces on its vertices that amount to a given force and torque. For slip.c and law.c. */
#ifndef CT_SIDE_H
#define CT_SIDE_H

#include "gpu/after/surfaces.h"
#include "gpu/scene/scene.h"

/* Positions are from the contact's centre, world axes, m. Weights are the friction weights of Allard 2010, w = n . dV/dx,
 * m^2, whose sum is the contact's area on side 1 and minus the area on side 0. n is the contact's normal, u and v its
 * tangents; y is a vertex's position from the middle, the barycentre of |w|, which lies amid the vertices even where
 * weights cancel; and e = n x y. */
typedef struct ct_side {
    const ct_body *body;
    const ct_surface *surface;   /* with has_nested that of a rigid body around a nested one has a tree */
    const ct_velocity *velocity; /* NULL: at rest */
    double origin[3];            /* of the body */
    const double *normal, *u, *v;
    const double *weights; /* [n] */
    double *rows;          /* [n][CT_SIDE_COLUMNS] */
    uint64_t n;
    double weight;              /* m^2: the sum of w */
    double flow[3];             /* m^3/s: of w times velocity */
    double size;                /* m^2: the sum of |w| */
    double drift[3];            /* m^3/s: of |w| times velocity */
    double first[3];            /* m^3: of w times position */
    double middle[3];           /* m */
    double uu, uv, vv, lift[2]; /* m^4: sums of |w| y_u y_u, y_u y_v, y_v y_v; and of y_n y_u, y_n y_v */
    double tilt[2], swirl;      /* m^4/s: sums of |w| y_u v_n, y_v v_n; and of e . velocity */
} ct_side;

/* Of a row of doubles for each entry: position, velocity, scratch. */
enum { CT_SIDE_VELOCITY = 3, CT_SIDE_SCRATCH = 6, CT_SIDE_COLUMNS = 14 };

/* The sum of scratch column i over all rows, whatever their order. */
double ct_side_sum(const ct_side *side, int i);

/* Measures side s of a contact with a frame. rows: room for its entries, of a result with friction weights; NULL: its
 * vertices are not looked at, and it has no moments, as a half-space has none. has_moments: what follows `flow` above is
 * measured, too, which loads need, and the motion of a deformable body. OUT_OF_MEMORY, DEVICE_ERROR: positions could not be
 * had. Sums do not depend on the order of vertices, and have no meaning where the work is cancelled. */
ct_status ct_side_measure(ct_surfaces *surfaces, const ct_step *step, const ct_result *result,
                          const ct_contact *contact, int s, double *rows, bool has_moments, ct_side *side,
                          ct_error *error);

/* Measures both sides of all contacts with an area, or of all, on all threads, and calls `task` for each. */
typedef struct ct_side_work {
    const ct_scene *scene;
    const ct_step *step;
    ct_result *result;
    bool has_rows;    /* vertices are looked at */
    bool has_moments; /* see ct_side_measure; of a deformable body always */
    bool has_cells;   /* of all cells with an area, too */
    bool has_nested;  /* of contacts without an area, too */
    const char *phase, *field;
    void (*task)(const struct ct_side_work *work, ct_contact *contact, ct_side side[2]);
} ct_side_work;

/* OUT_OF_MEMORY, DEVICE_ERROR, CANCELLED; the error names `field`. */
ct_status ct_side_work_run(const ct_side_work *work, ct_error *error);

/* The velocity of a point p of a rigid body or half-space, and of any body at rest, m/s. */
void ct_side_velocity(const ct_side *side, const double p[3], double out[3]);

/* Forces on vertices, N: w push + |w| (pull + n (along . y) + turn e), y in u and v. */
typedef struct ct_side_load {
    double push[3], pull[3]; /* Pa */
    double along[2], turn;   /* Pa / m */
} ct_side_load;

/* Chooses along and turn so that the load's torque about the contact's centre is `torque`: as far as the weights can
 * carry it, which vertices in one line or point cannot. */
void ct_side_balance(const ct_side *side, const double torque[3], ct_side_load *load);
/* What the load does per time as the side moves, W. */
double ct_side_power(const ct_side *side, const ct_side_load *load);
/* Adds the load to forces, [n][3]. */
void ct_side_push(const ct_side *side, const ct_side_load *load, double *forces);

#endif

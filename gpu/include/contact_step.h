/* contact_step.h - steps: what moves, what is wanted, and the call that computes it.
 * Part of contact.h, which says what holds of all: units, ownership, errors, threads. */
#ifndef CONTACT_STEP_H
#define CONTACT_STEP_H

#include <stddef.h>
#include <stdint.h>

#include "gpu/include/contact_cancel.h"
#include "gpu/include/contact_result.h"
#include "gpu/include/contact_scene.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- updates ---- */

typedef enum ct_update_kind {
    CT_UPDATE_POSITIONS = 1, /* all vertices of a deformable body */
    CT_UPDATE_RANGES = 2,    /* indices holds (first, count) pairs; positions has their vertices, range after range */
    CT_UPDATE_INDEXED = 3,   /* indices holds one vertex index for each of the positions */
    CT_UPDATE_POSE = 4,      /* the pose of a rigid body or a half-space */
} ct_update_kind;

typedef struct ct_update {
    uint32_t body;
    ct_update_kind kind;
    const void *positions; /* [count][3] of dtype, world axes, m; need not be aligned */
    ct_dtype dtype;
    uint64_t count;      /* vertices */
    const void *indices; /* [n_indices] of uint32; need not be aligned */
    uint64_t n_indices;  /* numbers, not pairs */
    double pose[12];     /* POSE: row-major 3x4 [R|t], as in ct_body_options */
} ct_update;

/* ---- what a step may give ---- */

/* Optional parts of a result. Each contact's bodies, volumes and error are always computed. VOXTREE has no gradient of
 * vertices but that of refined pairs, so that GRADIENT and FRICTION have no entries of the others; a step that wants
 * FORCES by name in a scene without `refine` fails with INVALID_ARGUMENT. ALL is whatever of the four the method gives.
 */
enum {
    CT_WANT_FRAME = 1u << 0,    /* area, depth, normal, tangents, centre, generalised gradients */
    CT_WANT_GRADIENT = 1u << 1, /* sparse dV/dx */
    CT_WANT_FRICTION = 1u << 2, /* friction weights, one per entry of the sparse gradient (implies FRAME) */
    CT_WANT_FORCES = 1u << 3,   /* penalty forces -k V dV/dx, one per entry of the sparse gradient */
    CT_WANT_SPANS = 1u << 4,    /* the end points of every span, for debugging and pictures. LDI only, else
                                   INVALID_ARGUMENT */
    CT_WANT_INERTIA =
        1u << 5,             /* second moments of the intersection (implies FRAME). EXACT only, else INVALID_ARGUMENT */
    CT_WANT_TILES = 1u << 6, /* the tiles that EBPI divided its views into, for pictures. Else INVALID_ARGUMENT */
    CT_WANT_SURFACE =
        1u << 7, /* the contact surface, ct_surface_polygon (implies INERTIA). EXACT only, else INVALID_ARGUMENT */
    CT_WANT_IDS =
        1u << 8, /* numbers that contacts and points keep from step to step, and the ended ones' (implies FRAME) */
    CT_WANT_POINTS =
        1u << 9, /* points of contacts, ct_point: as many as the scene's max_points, or CT_DEFAULT_POINTS where
                                 that is 0; with a max_points all steps have them, and VOXTREE's always do (implies
                                 FRAME, FRICTION) */
    CT_WANT_ALL = CT_WANT_FRAME | CT_WANT_GRADIENT | CT_WANT_FRICTION | CT_WANT_FORCES,
};

/* ---- directions and velocities ---- */

/* Directions along which a step differentiates the gradient: see ct_step.directions. Twelve are those of two rigid
 * bodies. */
enum { CT_MAX_DIRECTIONS = 12 };

/* One body's part of a direction; a body without a part does not move along it. */
typedef struct ct_direction {
    uint32_t body;
    uint32_t index;     /* which direction this is a part of: 0 .. CT_MAX_DIRECTIONS - 1 */
    const void *values; /* deformable: [count][3] of dtype, m, a displacement of every vertex; need not be aligned */
    ct_dtype dtype;
    uint64_t count;  /* vertices */
    double twist[6]; /* rigid: translation, m, then rotation about the body's origin, rad; world axes */
} ct_direction;

/* One body's velocity in a step; a body without one is at rest. */
typedef struct ct_velocity {
    uint32_t body;
    const void *values; /* deformable: [count][3] of dtype, m/s, of every vertex; need not be aligned */
    ct_dtype dtype;
    uint64_t count;  /* vertices */
    double twist[6]; /* rigid, half-space: of the body's origin, m/s, then angular velocity, rad/s; world axes */
} ct_velocity;

/* ---- steps ---- */

typedef struct ct_step { /* zero it, then fill in what the step needs */
    ct_scene *scene;     /* each scene at most once in a batch */
    const ct_update *updates;
    size_t n_updates;
    uint32_t want; /* CT_WANT_... */

    /* Limits for methods that adapt to them. A step with a limit that the scene's method does not take fails
     * with INVALID_ARGUMENT: a limit is never ignored. */
    double time_budget; /* s, wall-clock time from the start of the batch in which to answer as well as possible; 0:
                           none. VOXTREE takes it: the CPU looks at the clock after each few cubes, other backends
                           after each level of all pairs, so they may be late by the time of a level */
    double tolerance;   /* m^3, error of each contact's volume to aim at; 0: none */

    /* Directions for products with the exact second derivative. Each (body, index) at most once. The products are those
     * of the bodies after the step's updates; they imply FRAME. EXACT only, else INVALID_ARGUMENT.
     * NOT_FOUND, INVALID_ARGUMENT (values for a rigid body, none for a deformable one, whose twist is not read),
     * WRONG_LENGTH, OUT_OF_RANGE, NON_FINITE. */
    const ct_direction *directions; /* [n_directions]; read during the call */
    size_t n_directions;

    /* Velocities after the step's updates, for slip and friction (ct_contact.relative_velocity); at most one of each
     * body. They imply FRAME and FRICTION, which are added to `want`. Every backend takes them, and every method but
     * VOXTREE. NOT_FOUND, INVALID_ARGUMENT (values for a rigid body, none for a deformable one, or a viscosity without
     * velocities), WRONG_LENGTH, OUT_OF_RANGE, NON_FINITE. */
    const ct_velocity *velocities; /* [n_velocities]; read during the call */
    size_t n_velocities;
    double viscosity; /* N s/m^3, >= 0: friction per area and sliding velocity; 0: slip without friction */

    ct_cancel *cancel; /* ends the step early, with CANCELLED; NULL: the thread's does (ct_cancel_scope), if it has one
                        */

    bool in_background; /* its threads, but for the caller's, yield to those of steps without: for long steps beside
                           short ones. The first step's counts for a batch */

    ct_result *result; /* out: the caller frees it; NULL if the step failed */
    ct_error error;    /* out: status OK, or why the step failed. A step that failed has changed nothing: its bodies are
                          where they were before, to the bit. Only after a DEVICE_ERROR that is final no further step
                          of the scene runs */
} ct_step;

/* Applies every step's updates and computes its contacts; the whole batch runs as one where methods allow it. OK: every
 * step went well. Else the status of the first step that failed; each step has its own in error.status.
 * INVALID_ARGUMENT, and no step ran: a scene is in the batch twice. */
ct_status ct_engine_run(ct_engine *engine, ct_step *steps, size_t n_steps);

/* The volume in which a mesh overlaps itself, m^3: where its winding number is 2 or more, each place as often as it
 * is above 1. Measured by EXACT on the caller's thread, apart from all engines; contacts below their error bounds are
 * none. -1: not measured, as parts of the mesh share edges. Fails as steps do. */
ct_status ct_mesh_measure_overlap(ct_mesh *mesh, double *volume, ct_error *error);

/* Of a batch of many scenes: the contacts of all its steps, one step's after the other's. first: [n_steps + 1], out:
 * step i has contacts first[i] to first[i + 1] - 1; those of a step that failed are none. contacts NULL: only counts.
 * Returns how many there are. Where their entries lie, first[] and count[] of a contact, is in its own step's
 * result. */
uint64_t ct_steps_gather(const ct_step *steps, size_t n_steps, ct_contact *contacts, uint64_t *first);
/* Frees the results of all steps, and nulls them. */
void ct_steps_free_results(ct_step *steps, size_t n_steps);

#ifdef __cplusplus
}
#endif
#endif

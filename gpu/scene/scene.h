/* scene.h - a scene inside the engine: its settings, its bodies with their handles and filters, and the checks of
 * updates. Positions of deformable bodies are kept by the backend (ct_resident). */
#ifndef CT_SCENE_H
#define CT_SCENE_H

#include <string.h>

#include "gpu/base/box.h"
#include "gpu/include/contact.h"
#include "gpu/mesh/split.h"
#include "gpu/scene/broadphase.h"
#include "gpu/scene/material.h"
#include "gpu/scene/stray_updates.h"

struct ct_backend;
struct ct_resident;
struct ct_scene_table;
struct ct_identity;
struct ct_kept;

typedef struct ct_body {
    uint32_t id; /* the handle that callers know it by */
    ct_body_kind kind;
    ct_mesh *mesh;      /* the body holds one reference */
    bool is_half_space; /* kind is RIGID, and the mesh is that of ct_half_space_mesh */
    uint32_t group, mask;
    double given[12];          /* the current pose as callers know it; deformable: identity */
    double start[12];          /* the pose that it was added with: of ct_scene_reset */
    double pose[12];           /* of what `positions` has, which counts from an origin (mesh/split.h) */
    bool is_placed;            /* the positions are not in the world's axes: a rigid body, or one with an origin */
    double low_reach;          /* m, the most that lower parts of positions add to a coordinate in the world; 0: none */
    ct_box box;                /* world, of the current state */
    double volume;             /* m^3, deformable: signed volume when it was measured last, set by the backend */
    bool is_volume_old;        /* deformable: it has got positions since its volume was measured */
    ct_warning_code condition; /* of the volume; NONE for a rigid body */
    bool self_contact;         /* see ct_body_options */
    ct_material material;
    struct ct_resident *resident;  /* the backend's state of the body */
    uint64_t device_bytes;         /* bytes of the device's own memory, without the mesh; 0 if the device has none */
    uint64_t copy_bytes;           /* beside its positions: what updates have needed so far to be taken back */
    uint32_t updates_since_volume; /* see ct_body_volume_is_due */
    uint32_t direction[CT_MAX_DIRECTIONS]; /* 1 + the body's part of direction k in the step's directions, 0: none; set
                                              by ct_directions_check, and only read in a step that has any */
    uint32_t velocity; /* 1 + the body's own among the step's velocities, 0: none; set by ct_velocities_check, and only
                          read in a step that has any */
} ct_body;

/* The signed volume of a deformable body of up to CT_VOLUME_EACH_UPDATE triangles is measured after each step that
 * updates it, of a larger one after every CT_VOLUME_PERIOD-th: it costs a nanosecond a triangle, which a coarsely
 * sampled contact of a large body would feel. EXACT measures what is old, as its answers depend on the sign. */
enum { CT_VOLUME_EACH_UPDATE = 1 << 14, CT_VOLUME_PERIOD = 8 };

/* Whether the volume is measured after the next update. */
static inline bool ct_body_will_measure_volume(const ct_body *body, uint32_t n_triangles) {
    return n_triangles <= CT_VOLUME_EACH_UPDATE || body->updates_since_volume == 0;
}

/* Counts an update, and tells whether the volume is measured after it. For backends, once per body and step. */
static inline bool ct_body_volume_is_due(ct_body *body, uint32_t n_triangles) {
    const bool is_due = ct_body_will_measure_volume(body, n_triangles);
    body->updates_since_volume = (body->updates_since_volume + 1) % CT_VOLUME_PERIOD;
    body->is_volume_old = !is_due && body->kind == CT_BODY_DEFORMABLE;
    return is_due;
}

static inline void ct_body_set_volume(ct_body *body, double volume) {
    body->volume = volume;
    body->is_volume_old = false;
    body->updates_since_volume = 1;
}

/* Sets the pose of what counts from this origin. */
static inline void ct_body_place(ct_body *body, const double given[12], const double origin[3]) {
    memmove(body->given, given, sizeof body->given);
    ct_pose_from_origin(given, origin, body->pose);
    body->is_placed = body->kind == CT_BODY_RIGID || origin[0] != 0 || origin[1] != 0 || origin[2] != 0;
}

/* The pose that takes positions to the world; NULL: they are in the world. */
static inline const double *ct_body_pose(const ct_body *body) {
    return body->is_placed ? body->pose : NULL;
}

/* The point that a body's torques are about: the translation of a rigid body's pose, else 0 0 0. */
static inline void ct_body_origin(const ct_body *body, double origin[3]) {
    for (int k = 0; k < 3; k++) origin[k] = body->given[4 * k + 3];
}

/* Lets the body's box reach around lower parts of positions too. */
static inline void ct_body_widen_box(const ct_body *body, ct_box *box) {
    for (int k = 0; k < 3 && body->low_reach > 0; k++) {
        box->lo[k] -= body->low_reach;
        box->hi[k] += body->low_reach;
    }
}

/* A body's handle: its slot + 1 in the low 20 bits, the slot's generation in the high 12. */
enum { CT_SLOT_BITS = 20, CT_MAX_BODIES = (1 << CT_SLOT_BITS) - 1 };

typedef struct ct_body_slot {
    ct_body *body;       /* NULL: the slot is free */
    uint32_t generation; /* how often the slot was freed, modulo 2^12 */
} ct_body_slot;

struct ct_scene {
    ct_engine *engine;
    size_t device;              /* index of the device in the engine */
    ct_scene_settings settings; /* what steps run: never AUTO, and LDI always with a sampling */
    ct_scene_settings asked;    /* what the caller gave; see ct_scene_get_settings */

    ct_body_slot *slots; /* [n_slots] */
    uint32_t n_slots, slot_capacity;
    uint32_t first_free; /* no slot below it is free */
    ct_body **bodies;    /* [n_bodies], in rising order of id, which is the order of contacts */
    uint32_t n_bodies, body_capacity;
    uint32_t n_warnings; /* bodies whose condition is not NONE */
    uint32_t n_self;     /* bodies with self_contact */
    uint32_t n_half_spaces;

    uint64_t *ignored_ids; /* [n_ignored] ct_pair_key of two ids */
    size_t n_ignored, ignored_capacity;
    uint64_t *ignored;  /* [n_ignored] ct_pair_key of the same pairs' indices into bodies[], sorted */
    bool ignored_stale; /* ignored[] has to be rebuilt: ct_scene_refresh */

    ct_pair_material *pair_materials; /* [n_pair_materials] in rising order of key */
    size_t n_pair_materials, pair_material_capacity;

    bool is_moved;                /* the updates of the step that runs were applied: see ct_backend.undo */
    bool is_in_batch;             /* while ct_engine_run looks whether a scene is in it twice */
    uint64_t version;             /* rises when bodies[], ignored_ids[] or settings change */
    struct ct_scene_table *table; /* the backend's state of the scene; NULL if it keeps none */
    uint64_t table_bytes;         /* bytes of the device's own memory that the table holds */
    uint64_t body_bytes;          /* of all bodies, without their meshes: see ct_scene_count_body */
    uint64_t body_device_bytes;   /* of these, the device's own */

    struct ct_kept *kept; /* the CPU backend's answers of pairs at rest; NULL: none */
    uint64_t kept_bytes;
    uint32_t n_at_rest; /* bodies that have not moved in the step that runs, nor come to the scene since the last */

    ct_stray_updates strays;      /* for steps that run */
    struct ct_identity *identity; /* the contacts of the last step that wanted ids; NULL: there was none */

    ct_broadphase broad;         /* holds the pairs of the last step */
    ct_broad_body *broad_bodies; /* [body_capacity] the broad phase's input */
    uint32_t only_pair[2]; /* ids: the CPU's broad phase may leave out other pairs, for a picture of one; 0: none */
};

/* The body with this handle. NULL with *error (NOT_FOUND): it is unknown, or was removed. */
ct_body *ct_scene_find(const ct_scene *scene, uint32_t id, ct_error *error);
bool ct_scene_has_open_mesh(const ct_scene *scene); /* some body's mesh has closing vertices */

/* Rebuilds ignored[] if it is stale. */
void ct_scene_refresh(ct_scene *scene);
/* Finds the pairs of bodies whose boxes overlap and that may be in contact: scene->broad. *error: OUT_OF_MEMORY. */
void ct_scene_find_pairs(ct_scene *scene, ct_error *error);

/* Checks the body, its kind, lengths, index ranges, and that a pose is finite and a rotation. Whether positions are
 * finite is left to the backend, which reads them all anyway. NOT_FOUND, INVALID_ARGUMENT, WRONG_LENGTH, OUT_OF_RANGE,
 * NON_FINITE (a pose). */
ct_status ct_update_check(const ct_scene *scene, const ct_update *update, ct_error *error);

/* Checks a step's directions, and notes in each body of the scene which are its own. NOT_FOUND, INVALID_ARGUMENT,
 * WRONG_LENGTH, OUT_OF_RANGE, NON_FINITE. */
ct_status ct_directions_check(ct_scene *scene, const ct_direction *directions, size_t n, ct_error *error);

/* The number of directions that the parts belong to: 1 + the largest index. */
uint32_t ct_directions_count(const ct_direction *directions, size_t n);

/* Vertex k's displacement in a deformable body's part, m. */
static inline void ct_direction_row(const ct_direction *d, uint64_t k, double out[3]) {
    const char *row = (const char *)d->values + k * (d->dtype == CT_F64 ? 24 : 12);
    if (d->dtype == CT_F64) {
        memcpy(out, row, 24);
    } else {
        float p[3];
        memcpy(p, row, 12);
        for (int i = 0; i < 3; i++) out[i] = (double)p[i];
    }
}

/* Checks that a pose is finite and that its R is a rotation to 1e-3. id (0: the body has none yet) is for the message.
 */
ct_status ct_pose_check(const double pose[12], uint32_t id, ct_error *error);
/* Checks that a rigid body with this mesh may have the pose: see CT_POSE_REACH. OUT_OF_RANGE. */
ct_status ct_pose_check_reach(const double pose[12], const ct_mesh *mesh, uint32_t id, ct_error *error);

#endif

/* scene.h - bodies of a scene: handles, filters, placement. Positions themselves are resident with the backend. */
#ifndef CT_SCENE_H
#define CT_SCENE_H

#include "gpu/base/box.h"
#include "gpu/broadphase/broadphase.h"
#include "gpu/include/contact.h"

struct ct_backend;
struct ct_resident;
struct ct_scene_table;

typedef struct ct_body {
    uint32_t id;
    ct_body_kind kind;
    ct_mesh *mesh; /* one reference */
    uint32_t group, mask;
    double pose[12];     /* rigid: current pose; deformable: identity */
    ct_box box;          /* of the current state */
    ct_box next_box;     /* of the positions that an upload has looked at but not applied yet */
    size_t updates_left; /* while an upload is applied: updates of this body still to come */
    struct ct_resident *resident;
    uint64_t device_bytes; /* of its device's own memory, without the mesh; 0 where there is no such memory */
} ct_body;

/* A body's handle: place + 1 in the low 20 bits, generation in the high 12. */
enum { CT_SLOT_BITS = 20, CT_MAX_BODIES = (1 << CT_SLOT_BITS) - 1 };

typedef struct ct_body_slot {
    ct_body *body; /* NULL: free */
    uint32_t generation;
} ct_body_slot;

struct ct_scene {
    ct_engine *engine;
    size_t device; /* index of the device in the engine */
    ct_scene_settings settings;

    ct_body_slot *slots; /* [n_slots] */
    uint32_t n_slots, slot_capacity;
    uint32_t first_free; /* no place below it is free */
    ct_body **bodies;    /* [n_bodies], rising id: the order of contacts */
    uint32_t n_bodies, body_capacity;

    uint64_t *ignored_ids; /* [n_ignored] pairs of ids, as ct_pair_key */
    size_t n_ignored, ignored_capacity;
    uint64_t *ignored; /* the same as indices into bodies, sorted; rebuilt when stale */
    bool ignored_stale;

    uint64_t version;             /* goes up when bodies come or go, and ignored pairs with them */
    struct ct_scene_table *table; /* the backend's, NULL if it keeps nothing of a scene */
    uint64_t table_bytes;         /* of the device's own memory */

    ct_broadphase broad;         /* with the pairs of the last step */
    ct_broad_body *broad_bodies; /* [body_capacity] */
};

/* The body of a handle, or NULL with *error naming why: unknown, or removed. */
ct_body *ct_scene_find(const ct_scene *scene, uint32_t id, ct_error *error);

/* Brings ignored[] up to date with bodies[]. */
void ct_scene_refresh(ct_scene *scene);

/* Checks everything about an update but whether its numbers are finite: the body, its kind, lengths, index ranges, that
 * a pose is a rotation. NOT_FOUND, INVALID_ARGUMENT, WRONG_LENGTH, OUT_OF_RANGE, NON_FINITE (a pose). */
ct_status ct_update_check(const ct_scene *scene, const ct_update *update, ct_error *error);

/* A pose is finite and its R a rotation to 1e-3; id (0: none yet) is for the message. */
ct_status ct_pose_check(const double pose[12], uint32_t id, ct_error *error);

#endif

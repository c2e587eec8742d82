/* backend.h - what a compute backend provides. Adding one touches its own folder and the list in backends.c.
 *
 * A backend holds the bodies' resident state and runs whole batches: uploads, boxes, broad phase, views, rasterising,
 * spans, sums, answers. All backends give the same bits (the arithmetic is in the stages' *_k.h headers).
 */
#ifndef CT_BACKEND_H
#define CT_BACKEND_H

#include "gpu/include/contact.h"
#include "gpu/scene/scene.h"

#define CT_BACKEND_VERSION 3

typedef struct ct_device ct_device;     /* one device with its memory, opaque outside the backend */
typedef struct ct_resident ct_resident; /* a body's state on the device */

typedef struct ct_backend {
    uint32_t version; /* CT_BACKEND_VERSION */
    const char *name; /* "cpu" */

    /* How many devices the options ask for, at most CT_MAX_DEVICES; 0 with *error: none can be used, and why. */
    size_t (*count)(const ct_engine_options *options, ct_error *error);
    /* The index-th of them, index < count. It has run a kernel and got the right answer. */
    ct_status (*create)(const ct_engine_options *options, size_t index, ct_device **out, ct_error *error);
    void (*destroy)(ct_device **device);
    void (*facts)(const ct_device *device, ct_engine_facts *facts); /* zeroed by the caller */

    /* A body at its rest positions, its box computed, and how much of the device's own memory it takes. The mesh
     * outlives the resident state. On any thread. */
    ct_status (*body_create)(ct_device *device, ct_body *body, ct_error *error);
    void (*body_destroy)(ct_device *device, ct_body *body);
    /* Copies a deformable body's current positions, [vertices][3], to the host. With no step of its scene running. */
    ct_status (*body_positions)(ct_device *device, const ct_body *body, float *out, ct_error *error);
    /* Drops the device's copy of a mesh that no body uses. NULL: the backend keeps none. */
    void (*mesh_forget)(ct_device *device, const ct_mesh *mesh);
    /* Of the device's own memory, what its copy of the mesh with this hash takes. NULL: the backend keeps none. */
    uint64_t (*mesh_bytes)(ct_device *device, const char *hash);
    /* Drops what the device keeps of a scene beside its bodies, which are gone. NULL: the backend keeps nothing. */
    void (*scene_forget)(ct_device *device, ct_scene *scene);

    /* Runs the steps whose status is OK, whose updates have passed ct_update_check, and leaves the others alone. Up to
     * CT_MAX_CONCURRENT_BATCHES calls at a time, with different scenes. */
    void (*run)(ct_device *device, ct_step *steps, size_t n_steps);
} ct_backend;

/* The backends compiled in, in the order in which "auto" tries them; NULL: no more. */
const ct_backend *ct_backend_at(size_t i);

#endif

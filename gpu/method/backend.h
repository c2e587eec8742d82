/* backend.h - the interface of a compute backend. Adding a backend touches its own folder, the list in backends.c and a
 * column of the table in gpu/run/methods.c, which names the functions that run batches.
 *
 * A backend opens devices and holds the bodies' resident state. All backends give the same bits, because they share the
 * arithmetic in the stages' *_k.h headers.
 */
#ifndef CT_BACKEND_H
#define CT_BACKEND_H

#include "gpu/include/contact.h"
#include "gpu/scene/scene.h"

#define CT_BACKEND_VERSION 6

typedef struct ct_device ct_device;     /* one device with its memory, opaque outside the backend */
typedef struct ct_resident ct_resident; /* a body's state on the device */

typedef struct ct_backend {
    uint32_t version; /* CT_BACKEND_VERSION */
    const char *name; /* "cpu" */

    /* The number of devices that the options ask for, at most CT_MAX_DEVICES. 0 with *error: none can be used. */
    size_t (*count)(const ct_engine_options *options, ct_error *error);
    /* Opens one of them, index < count. It has run a kernel and got the right answer. */
    ct_status (*create)(const ct_engine_options *options, size_t index, ct_device **out, ct_error *error);
    void (*destroy)(ct_device **device);
    void (*facts)(const ct_device *device, ct_engine_facts *facts); /* zeroed by the caller */

    /* Makes a body's resident state, at its rest positions, and sets its box and device_bytes. The mesh outlives the
     * resident state. On any thread. */
    ct_status (*body_create)(ct_device *device, ct_body *body, ct_error *error);
    void (*body_destroy)(ct_device *device, ct_body *body);
    /* Copies a deformable body's current positions, [vertices][3], to the host, in the axes of ct_body_pose; to `low`,
     * unless it is NULL, what float32 leaves of them. With no step of its scene running. */
    ct_status (*body_positions)(ct_device *device, const ct_body *body, float *out, float *low, ct_error *error);
    /* Takes back the updates of a step that failed: its bodies are again what they were before, to the bit. Called
     * after each failed step, also where none of its updates had been applied. */
    void (*undo)(ct_device *device, ct_step *step);
    /* Frees the device's copy of a mesh that no body uses. NULL: the backend keeps no copies. */
    void (*mesh_forget)(ct_device *device, const ct_mesh *mesh);
    /* Bytes of the device's own memory that hold the mesh of this hash. NULL: the backend keeps no copies. */
    uint64_t (*mesh_bytes)(ct_device *device, const char *hash);
    /* Frees what the device keeps of a scene; its bodies are gone already. NULL: the backend keeps nothing. */
    void (*scene_forget)(ct_device *device, ct_scene *scene);
    /* Frees scratch that no step has used for so many seconds; returns its bytes. On any thread. */
    uint64_t (*release_scratch)(ct_device *device, double seconds);

    /* Host threads for what is computed from finished results: runs task(context, 0..n-1, worker), worker <
     * threads(device), on them and on the calling thread, and returns when all are done. Both NULL: the backend has
     * none. */
    void (*spread)(ct_device *device, uint32_t n, void (*task)(void *context, uint32_t index, uint32_t worker),
                   void *context);
    uint32_t (*threads)(const ct_device *device);
} ct_backend;

/* The backends compiled in, in the order in which "auto" tries them. NULL: i is past the last. */
const ct_backend *ct_backend_at(size_t i);

#endif

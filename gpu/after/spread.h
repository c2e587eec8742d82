/* spread.h - the threads of a scene's device, for what is computed from finished results. */
#ifndef CT_SPREAD_H
#define CT_SPREAD_H

#include "gpu/method/backend.h"
#include "gpu/method/engine.h"
#include "gpu/scene/scene.h"

/* Where a thread put what it made for a contact, in a list of its own: to be gathered in the order of contacts. */
typedef struct ct_made {
    uint32_t worker;
    size_t first, n;
} ct_made;

/* Indices of workers are below this. */
static inline uint32_t ct_spread_threads(const ct_scene *scene) {
    const ct_backend *backend = scene->engine->backend;
    return backend->spread ? backend->threads(scene->engine->devices[scene->device].device) : 1;
}

/* Runs task(context, 0..n-1, worker); on the calling thread alone where the device has no threads for it, and in a task. */
static inline void ct_spread(const ct_scene *scene, uint32_t n,
                             void (*task)(void *context, uint32_t index, uint32_t worker), void *context) {
    const ct_backend *backend = scene->engine->backend;
    if (backend->spread)
        backend->spread(scene->engine->devices[scene->device].device, n, task, context);
    else
        for (uint32_t i = 0; i < n; i++) task(context, i, 0);
}

#endif

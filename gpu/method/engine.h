/* engine.h - the engine's own state: one backend, its devices, its methods. */
#ifndef CT_ENGINE_H
#define CT_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>

#include "gpu/method/method.h"

/* A device, and the load that new scenes are spread by. */
typedef struct ct_engine_device {
    ct_device *device;
    atomic_uint_fast64_t scenes, triangles;
} ct_engine_device;

struct ct_engine {
    const ct_backend *backend;
    ct_method_run *run[CT_MAX_METHODS]; /* by row of the table in methods.c; NULL: the backend does not have it */
    size_t n_devices;
    ct_engine_device devices[CT_MAX_DEVICES];
    char reason[512];                                     /* why this backend was chosen */
    pthread_mutex_t painting;                             /* guards painter */
    struct ct_painter *painter;                           /* draws snapshots; NULL until the first */
    void (*destroy_painter)(struct ct_painter **painter); /* set with it; nulls */
};

#endif

/* engine.h - an engine inside: one backend and its devices. */
#ifndef CT_ENGINE_H
#define CT_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>

#include "gpu/backend/backend.h"

/* A device and what lies on it. */
typedef struct ct_engine_device {
    ct_device *device;
    atomic_uint_fast64_t scenes, triangles;
} ct_engine_device;

struct ct_engine {
    const ct_backend *backend;
    size_t n_devices;
    ct_engine_device devices[CT_MAX_DEVICES];
    char reason[512];           /* why this backend */
    pthread_mutex_t painting;   /* guards: */
    struct ct_painter *painter; /* draws snapshots; NULL until the first */
};

#endif

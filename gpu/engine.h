/* engine.h - an engine inside: one backend and its device. */
#ifndef CT_ENGINE_H
#define CT_ENGINE_H

#include "gpu/backend/backend.h"

struct ct_engine {
    const ct_backend *backend;
    ct_device *device;
};

#endif

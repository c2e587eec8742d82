/* choose_cuda.cuh - the devices that an engine's options ask for. */
#ifndef CT_CUDA_CHOOSE_CUH
#define CT_CUDA_CHOOSE_CUH

#include <stdarg.h>

#include "gpu/method/device_cuda.cuh"

extern "C" {
#include "gpu/device/rasterizer.h"
}

struct ct_choice {
    bool draws; /* OpenGL rasterises */
    int n;
    int ordinal[CT_MAX_DEVICES];
};

/* False, with *error: none can be used, or not all that were named. */
bool ct_gpu_choose(const ct_engine_options *options, ct_choice *choice, ct_error *error);

#endif

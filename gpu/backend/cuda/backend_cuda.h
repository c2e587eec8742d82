/* backend_cuda.h - the CUDA backend, for the list of backends. */
#ifndef CT_BACKEND_CUDA_H
#define CT_BACKEND_CUDA_H

#include "gpu/backend/backend.h"

#ifdef __cplusplus
extern "C" {
#endif
extern const ct_backend ct_backend_cuda;

void ct_gpu_run_ldi(ct_device *device, ct_step *steps, size_t n_steps); /* a ct_method_run */
#ifdef __cplusplus
}
#endif

#endif

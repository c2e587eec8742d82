/* backend_cuda.h - the CUDA backend, for the list of backends. */
#ifndef CT_BACKEND_CUDA_H
#define CT_BACKEND_CUDA_H

#include "gpu/method/backend.h"

#ifdef __cplusplus
extern "C" {
#endif
extern const ct_backend ct_backend_cuda;

/* Each a ct_method_run. */
void ct_gpu_run_ldi(ct_device *device, ct_step *steps, size_t n_steps);
void ct_gpu_run_exact(ct_device *device, ct_step *steps, size_t n_steps);
void ct_gpu_run_ebpi(ct_device *device, ct_step *steps, size_t n_steps);
void ct_gpu_run_voxtree(ct_device *device, ct_step *steps, size_t n_steps);
#ifdef __cplusplus
}
#endif

#endif

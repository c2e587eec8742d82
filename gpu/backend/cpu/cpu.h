/* cpu.h - the CPU backend: threads and SIMD. */
#ifndef CT_CPU_H
#define CT_CPU_H

#include "gpu/backend/backend.h"

extern const ct_backend ct_backend_cpu;

/* Each a ct_method_run: */
void ct_cpu_run_ldi(ct_device *device, ct_step *steps, size_t n_steps);
void ct_cpu_run_exact(ct_device *device, ct_step *steps, size_t n_steps);
void ct_cpu_run_ebpi(ct_device *device, ct_step *steps, size_t n_steps);
void ct_cpu_run_voxtree(ct_device *device, ct_step *steps, size_t n_steps);

#endif

/* backend_cpu.h - the CPU backend: threads and SIMD. */
#ifndef CT_CPU_H
#define CT_CPU_H

#include "gpu/method/backend.h"

extern const ct_backend ct_backend_cpu;

/* What its methods have (device_cpu.h). */
extern const struct ct_cpu_method ct_cpu_ldi_method, ct_cpu_exact_method, ct_cpu_ebpi_method, ct_cpu_voxtree_method;

/* Each a ct_method_run: */
void ct_cpu_run_ldi(ct_device *device, ct_step *steps, size_t n_steps);
void ct_cpu_run_exact(ct_device *device, ct_step *steps, size_t n_steps);
void ct_cpu_run_ebpi(ct_device *device, ct_step *steps, size_t n_steps);
void ct_cpu_run_voxtree(ct_device *device, ct_step *steps, size_t n_steps);

#endif

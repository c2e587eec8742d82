/* cpu.h - the CPU backend: threads and SIMD. */
#ifndef CT_CPU_H
#define CT_CPU_H

#include "gpu/backend/backend.h"

extern const ct_backend ct_backend_cpu;

#endif

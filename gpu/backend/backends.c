/* backends.c - the backends compiled in. */
#include "gpu/backend/backend.h"
#include "gpu/backend/cpu/cpu.h"

static const ct_backend *const backends[] = {&ct_backend_cpu};

const ct_backend *ct_backend_at(size_t i) {
    return i < sizeof backends / sizeof *backends ? backends[i] : NULL;
}

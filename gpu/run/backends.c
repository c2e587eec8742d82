/* backends.c - the backends compiled in. */
#include "gpu/method/backend.h"
#include "gpu/method/backend_cpu.h"
#ifdef CT_HAVE_CUDA
#include "gpu/method/backend_cuda.h"
#endif

static const ct_backend *const backends[] = {
#ifdef CT_HAVE_CUDA
    &ct_backend_cuda,
#endif
    &ct_backend_cpu,
};

const ct_backend *ct_backend_at(size_t i) {
    return i < sizeof backends / sizeof *backends ? backends[i] : NULL;
}

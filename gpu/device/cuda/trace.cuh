/* trace.cuh - named ranges for NVIDIA's profilers, in builds with NVTX=1; nothing in others. A range covers the host
 * code of its scope and, in the profiler, the kernels launched there. */
#ifndef CT_CUDA_TRACE_CUH
#define CT_CUDA_TRACE_CUH

#if defined(CT_NVTX) && !defined(CT_CUDA_SHIM)
#include <nvtx3/nvToolsExt.h>

struct ct_trace_range {
    explicit ct_trace_range(const char *name) {
        nvtxRangePushA(name);
    }
    ~ct_trace_range() {
        nvtxRangePop();
    }
};
#else
struct ct_trace_range {
    explicit ct_trace_range(const char *) {
    }
    ~ct_trace_range() {
    }
};
#endif

#endif

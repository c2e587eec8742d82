/* interop.cuh - OpenGL as the CUDA backend's rasteriser, on the same GPU: kernels write what it is to draw into its
 * buffers and take from them what it drew, and none of it passes through the host. CUDA's stream and OpenGL wait for
 * each other as buffers are mapped and unmapped; the host waits for neither.
 *
 * Without CT_HAVE_EGL there is no workspace with a `gl`, and nothing here does anything.
 */
#ifndef CT_CUDA_INTEROP_CUH
#define CT_CUDA_INTEROP_CUH

#include "gpu/backend/cuda/device.cuh"

/* A context on the device's GPU, tried: that it draws exactly, and that both see the same memory. UNSUPPORTED: what was
 * found in place of it. */
ct_status ct_gpu_gl_open(ct_device *device, ct_error *error);
void ct_gpu_gl_close(ct_device *device); /* harmless after a failed open; workspaces have been freed */

/* For workspaces with a `gl`: */

/* Some room in every buffer. False: no memory, or the device is lost. */
bool ct_gpu_gl_reserve(ct_device *device, ct_workspace *workspace);
/* More, where it was lacking. */
bool ct_gpu_gl_grow(ct_device *device, ct_workspace *workspace, const ct_gpu_counts *counts, uint32_t shortage,
                    ct_gpu_need *need);
/* Lowers *capacity to what OpenGL's buffers have. */
void ct_gpu_gl_limit(const ct_workspace *workspace, ct_gpu_capacity *capacity);

/* Rasterises the batch, in place of ct_cuda_raster; adds the launches to *launches. False: the device is lost. */
bool ct_gpu_gl_draw(ct_device *device, ct_workspace *workspace, const ct_batch *batch, unsigned *launches);

/* Gives back the buffers, also of a workspace without. */
void ct_gpu_gl_free(ct_device *device, ct_workspace *workspace);

#endif

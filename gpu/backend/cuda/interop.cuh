/* interop.cuh - OpenGL as the CUDA backend's rasteriser, on the same GPU. Kernels write patches into OpenGL's buffers
 * and read the fragments that it drew; nothing of a drawing passes through the host. Mapping and unmapping the buffers
 * makes CUDA's stream and OpenGL wait for each other; the host waits for neither.
 *
 * Without CT_HAVE_EGL no workspace has a `gl`, and these functions do nothing.
 */
#ifndef CT_CUDA_INTEROP_CUH
#define CT_CUDA_INTEROP_CUH

#include "gpu/backend/cuda/device.cuh"

/* Makes a context on the device's GPU and tests that it draws exactly and that OpenGL and CUDA see the same memory.
 * UNSUPPORTED: the message says what was found. */
ct_status ct_gpu_gl_open(ct_device *device, ct_error *error);
void ct_gpu_gl_close(ct_device *device); /* harmless after a failed open; workspaces have been freed */

/* For workspaces with a `gl`: */

/* Makes every buffer at least a few KiB. False: no memory, or the device is lost. */
bool ct_gpu_gl_reserve(ct_device *device, ct_workspace *workspace);
/* Grows the buffers that CT_SHORT_* flags name. False: no memory for what *need says, or the device is lost. */
bool ct_gpu_gl_grow(ct_device *device, ct_workspace *workspace, const ct_gpu_counts *counts, uint32_t shortage,
                    ct_gpu_need *need);
/* Lowers *capacity to what OpenGL's buffers have. */
void ct_gpu_gl_limit(const ct_workspace *workspace, ct_gpu_capacity *capacity);

/* Rasterises the batch instead of ct_cuda_raster and adds its launches to *launches. False: the device is lost. */
bool ct_gpu_gl_draw(ct_device *device, ct_workspace *workspace, const ct_batch *batch, unsigned *launches);

/* Frees the buffers of a workspace, if it has any. */
void ct_gpu_gl_free(ct_device *device, ct_workspace *workspace);

#endif

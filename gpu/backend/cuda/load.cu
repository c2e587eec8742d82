/* load.cu - loads every kernel of the backend onto a device when it is opened. CUDA loads a kernel at its first launch
 * otherwise; on a device whose memory has filled up by then that launch fails, and the device counts as lost. */
#include "gpu/backend/cuda/device.cuh"
#include "gpu/contact/sides_cuda.cuh"
#include "gpu/ebpi/ebpi_cuda.cuh"
#include "gpu/exact/self_cuda.cuh"
#include "gpu/voxtree/descend_cuda.cuh"

/* Every list of kernels. The shim refuses to launch a kernel that none of them names. */
static const ct_kernel_entry *const kernel_lists[] = {
    ct_probe_kernels,   ct_update_kernels,  ct_deformed_kernels,   ct_crowd_kernels,        ct_pair_kernels,
    ct_plan_kernels,    ct_narrow_kernels,  ct_raster_kernels,     ct_draw_kernels,         ct_span_kernels,
    ct_side_kernels,    ct_answer_kernels,  ct_plan_exact_kernels, ct_cross_kernels,        ct_crossed_kernels,
    ct_flood_kernels,   ct_surface_kernels, ct_second_kernels,     ct_finish_exact_kernels, ct_piece_kernels,
    ct_descend_kernels, ct_cell_kernels,    ct_ebpi_list_kernels,  ct_ebpi_tile_kernels,    ct_ebpi_span_kernels,
    ct_own_kernels,
};

/* The error of one kernel, or cudaSuccess. Asking for a kernel's attributes loads its module and the kernel. */
static cudaError_t load(const ct_kernel_entry *kernel, int *max_threads) {
    cudaFuncAttributes attributes;
    const cudaError_t error = cudaFuncGetAttributes(&attributes, kernel->function);
    cudaGetLastError(); /* not an error of a later call */
    *max_threads = error ? 0 : attributes.maxThreadsPerBlock;
    return error;
}

ct_status ct_gpu_load_kernels(const ct_device *device, ct_error *error) {
    for (const ct_kernel_entry *list : kernel_lists)
        for (const ct_kernel_entry *kernel = list; kernel->name; kernel++) {
            int max_threads = 0;
            const cudaError_t code = load(kernel, &max_threads);
            if (code == cudaErrorMemoryAllocation)
                return ct_fail(
                    error, CT_OUT_OF_MEMORY, "max_device_bytes",
                    "device %d, %s, has no memory for kernel %s: end what else runs on it, or choose another "
                    "device",
                    device->ordinal, device->name, kernel->name);
            if (code)
                return ct_fail(error, CT_DEVICE_ERROR, "device", "device %d, %s, cannot load kernel %s: %s: %s",
                               device->ordinal, device->name, kernel->name, cudaGetErrorName(code),
                               cudaGetErrorString(code));
            if (max_threads < (int)CT_BLOCK)
                return ct_fail(error, CT_DEVICE_ERROR, "device",
                               "device %d, %s, runs kernel %s with at most %d threads a block, and %u are needed",
                               device->ordinal, device->name, kernel->name, max_threads, CT_BLOCK);
        }
    return CT_OK;
}

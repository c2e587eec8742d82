/* methods_cuda.cu - the table of methods of this backend, and all its kernels: it loads them onto a device when it is
 * opened. CUDA loads a kernel at its first launch otherwise; on a device whose memory has filled up by then that launch
 * fails, and so does the step. */
#include "gpu/method/device_cuda.cuh"

extern const ct_gpu_method ct_gpu_ldi_method, ct_gpu_exact_method, ct_gpu_ebpi_method, ct_gpu_voxtree_method;

const ct_gpu_method *const ct_gpu_methods[] = {&ct_gpu_ldi_method, &ct_gpu_exact_method, &ct_gpu_ebpi_method,
                                               &ct_gpu_voxtree_method, NULL};

const ct_gpu_method *ct_gpu_method_of(ct_method method) {
    const ct_gpu_method *const *at = ct_gpu_methods;
    while (*at && (*at)->method != method) at++;
    return *at;
}

/* ---- kernels ---- */

/* Those that several methods launch; the others are in the methods' rows. The shim refuses to launch a kernel that none
 * of them names. */
static const ct_kernel_entry *const common_kernels[] = {
    ct_probe_kernels, ct_update_kernels, ct_deformed_kernels, ct_crowd_kernels,  ct_pair_kernels,
    ct_plan_kernels,  ct_narrow_kernels, ct_side_kernels,     ct_answer_kernels, NULL};

/* The error of one kernel, or cudaSuccess. Asking for a kernel's attributes loads its module and the kernel. */
static cudaError_t load(const ct_kernel_entry *kernel, cudaFuncAttributes *attributes) {
    const cudaError_t error = cudaFuncGetAttributes(attributes, kernel->function);
    cudaGetLastError(); /* not an error of a later call */
    return error;
}

static ct_status load_lists(const ct_device *device, const ct_kernel_entry *const *list, size_t *local_bytes,
                            ct_error *error) {
    for (; *list; list++)
        for (const ct_kernel_entry *kernel = *list; kernel->name; kernel++) {
            cudaFuncAttributes attributes = {};
            const cudaError_t code = load(kernel, &attributes);
            if (attributes.localSizeBytes > *local_bytes) *local_bytes = attributes.localSizeBytes;
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
            if (attributes.maxThreadsPerBlock < (int)CT_BLOCK)
                return ct_fail(error, CT_DEVICE_ERROR, "device",
                               "device %d, %s, runs kernel %s with at most %d threads a block, and %u are needed",
                               device->ordinal, device->name, kernel->name, attributes.maxThreadsPerBlock, CT_BLOCK);
        }
    return CT_OK;
}

ct_status ct_gpu_load_kernels(const ct_device *device, size_t *local_bytes, ct_error *error) {
    *local_bytes = 0;
    ct_status status = load_lists(device, common_kernels, local_bytes, error);
    for (const ct_gpu_method *const *method = ct_gpu_methods; *method && !status; method++)
        status = load_lists(device, (*method)->kernels, local_bytes, error);
    static const ct_kernel_entry *const local_kernels[] = {ct_local_kernels, NULL};
    size_t theirs = 0; /* is what they are for, not what the others need */
    return status ? status : load_lists(device, local_kernels, &theirs, error);
}

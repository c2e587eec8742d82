/* drive_cuda.cuh - the host side of the method `exact` on CUDA: what it has in a workspace, and what its stages need of
 * the host. */
#ifndef CT_EXACT_DRIVE_CUDA_CUH
#define CT_EXACT_DRIVE_CUDA_CUH

#include "gpu/method/device_cuda.cuh"
#include "gpu/methods/exact/exact_cuda.cuh"

struct ct_gpu_exact_scratch {
    ct_exact_tables tables;
    ct_gpu_pinned second_host;
    /* Of patches: */
    ct_gpu_buffer found, found_units, found_facings, ray_hits, splits;
    ct_gpu_pinned found_host, ray_hits_host, splits_staging;
};

inline ct_gpu_exact_scratch *ct_gpu_exact(const ct_workspace *workspace) {
    return (ct_gpu_exact_scratch *)workspace->room[CT_METHOD_EXACT].scratch;
}

/* ---- topology_cuda.cu ---- */

/* ct_gpu_method.prepare: sends what has not been sent yet. */
bool ct_gpu_prepare_exact(ct_device *device, ct_workspace *workspace, ct_step *const *steps, size_t n_steps,
                          ct_gpu_need *need);

/* ---- add_second_cuda.cu ---- */

/* Adds to what a step sends how its bodies move along its directions. False: no memory. */
bool ct_gpu_send_directions(ct_workspace *workspace, const ct_step *step, ct_gpu_step *to);

/* Copies the sums for second derivatives and moments of a computed batch to the host. False: no memory for what *need
 * says, or the device is lost. */
bool ct_gpu_copy_second(ct_device *device, ct_workspace *workspace, const ct_batch *batch, const ct_gpu_counts *counts,
                        ct_gpu_need *need);

/* Adds what a step wants of them to its result, whose contacts are contacts[]. False: no memory; the step has its
 * error. */
bool ct_gpu_add_second(const ct_workspace *workspace, const ct_gpu_counts *counts, ct_step *step, uint64_t index,
                       const ct_gpu_step *sent, ct_gpu_contact *contacts, ct_result *result);

/* ---- split_cuda.cu ---- */

/* Between winding numbers and sums: waits for what has been launched, splits the pairs of steps that want patches into
 * their pieces, and launches what makes the tables those of the pieces. After a shortage it does nothing, and if the
 * tables have no room for the pieces it makes the counts tell so. False: no memory for what *need says, or the device is
 * lost. */
bool ct_gpu_split_pairs(ct_device *device, ct_workspace *workspace, ct_exact_tables *tables, ct_gpu_need *need);

#endif

/* drive_cuda.cuh - the host side of the method VOXTREE on CUDA. */
#ifndef CT_VOXTREE_DRIVE_CUDA_CUH
#define CT_VOXTREE_DRIVE_CUDA_CUH

#include "gpu/method/device_cuda.cuh"
#include "gpu/methods/voxtree/descend_cuda.cuh"

extern "C" {
#include "gpu/methods/voxtree/rounds.h"
}

/* ---- refine_cuda.cu ---- */

/* Computes pairs that went down their trees by the method `exact`, where their scenes want it and it fits the time
 * left. Steps that fail get their errors. alone: the caller has all workspaces. False: no memory for what *need says, or
 * the device is lost. */
bool ct_gpu_refine_voxels(ct_device *device, ct_workspace *workspace, ct_voxel_rounds *rounds, bool alone,
                          ct_gpu_need *need);

#endif

/* volume_cuda.cu - sums the signed volumes of the deformable bodies that moved. */
#include "gpu/backend/cuda/collective.cuh"
#include "gpu/backend/cuda/resident.cuh"
#include "gpu/backend/cuda/scan.cuh"

/* A body's triangles are divided evenly among its chunks of vertices, so that no table is needed beside theirs. */
CT_KERNEL sum_volumes(const ct_resident_tables b) {
    CT_EACH_BLOCK(chunk, b.n_box_chunks) {
        const ct_gpu_box_update *update = &b.box_updates[b.box_chunk_update[chunk]];
        ct_gpu_body *body = update->body;
        if (body->rigid) continue;
        const uint64_t n_chunks = ((uint64_t)body->n_vertices + CT_BOX_CHUNK - 1) / CT_BOX_CHUNK;
        const uint64_t first = (chunk - update->first_chunk) * body->n_triangles / n_chunks;
        const uint64_t end = (chunk - update->first_chunk + 1) * body->n_triangles / n_chunks;
        const ct_box box = ct_gpu_box(body);
        const ct_volume_scale scale = ct_volume_scale_of(&box);
        int64_t high = 0, low = 0;
        CT_THREADS(t) {
            for (uint64_t i = first + t; i < end && scale.unit > 0; i += CT_BLOCK) {
                const float *corners[3];
                for (int k = 0; k < 3; k++) corners[k] = body->positions + 3 * (uint64_t)body->triangles[3 * i + k];
                const int64_t term = ct_volume_term(corners[0], corners[1], corners[2], &scale);
                high += term >> 32;
                low += term & 0xffffffff;
            }
        }
        high = ct_block_sum(high);
        low = ct_block_sum(low);
        CT_THREADS(t) {
            if (t == 0) {
                ct_atomic_sum(&body->volume_high, high);
                ct_atomic_sum(&body->volume_low, low);
            }
        }
        CT_BARRIER();
    }
}

const ct_kernel_entry ct_volume_kernels[] = {CT_KERNEL_ENTRY(sum_volumes), CT_KERNELS_END};

unsigned ct_cuda_sum_volumes(const ct_resident_tables *tables, unsigned grid, cudaStream_t stream) {
    return CT_LAUNCH(sum_volumes, grid, stream, *tables);
}

/* update_cuda.cu - writes the positions and poses that steps send into the bodies, and computes the boxes of the bodies
 * that moved. */
#include "gpu/backend/cuda/collective.cuh"
#include "gpu/backend/cuda/resident.cuh"
#include "gpu/view/view_k.h"

CT_KERNEL write_positions_and_poses(const ct_resident_tables b) {
    CT_FOR(row, b.n_rows) {
        const ct_gpu_position_write w = b.position_writes[ct_find_owner(
            b.n_position_writes, row, [&](uint64_t i) { return b.position_writes[i].first_row; })];
        const uint64_t k = row - w.first_row;
        const uint64_t vertex = w.first_index == CT_GPU_NONE ? w.first_vertex + k : b.indices[w.first_index + k];
        for (int i = 0; i < 3; i++) w.positions[3 * vertex + i] = b.rows[3 * row + i];
    }
    CT_FOR(i, 12 * (uint64_t)b.n_pose_writes)
    b.pose_writes[i / 12].body->pose[i % 12] = b.pose_writes[i / 12].pose[i % 12];
    CT_FOR(i, 6 * (uint64_t)b.n_box_updates) b.box_updates[i / 6].body->box[i % 6] = i % 6 < 3 ? UINT64_MAX : 0;
    CT_FOR(i, b.n_box_updates) b.box_updates[i].body->volume_high = b.box_updates[i].body->volume_low = 0;
}

CT_KERNEL compute_boxes(const ct_resident_tables b) {
    CT_SHARED uint64_t keys[6][CT_BLOCK];
    CT_EACH_BLOCK(chunk, b.n_box_chunks) {
        const ct_gpu_box_update *update = &b.box_updates[ct_find_owner(
            b.n_box_updates, chunk, [&](uint64_t i) { return b.box_updates[i].first_chunk; })];
        ct_gpu_body *body = update->body;
        const uint64_t first = (chunk - update->first_chunk) * CT_BOX_CHUNK;
        CT_THREADS(t) {
            uint64_t mine[6] = {UINT64_MAX, UINT64_MAX, UINT64_MAX, 0, 0, 0};
            for (uint64_t v = first + t; v < first + CT_BOX_CHUNK && v < body->n_vertices; v += CT_BLOCK) {
                const float x = body->positions[3 * v], y = body->positions[3 * v + 1], z = body->positions[3 * v + 2];
                for (int k = 0; k < 3; k++) {
                    const double p = body->rigid ? ct_pose_coord(body->pose + 4 * k, x, y, z)
                                                 : (double)(k == 0   ? x
                                                            : k == 1 ? y
                                                                     : z);
                    const uint64_t at = ct_order_key(p);
                    if (at < mine[k]) mine[k] = at;
                    if (at > mine[3 + k]) mine[3 + k] = at;
                }
            }
            for (int k = 0; k < 6; k++) keys[k][t] = mine[k];
        }
        CT_BARRIER();
        for (unsigned d = CT_BLOCK / 2; d > 0; d /= 2) {
            CT_THREADS(t) {
                if (t >= d) continue;
                for (int k = 0; k < 6; k++) {
                    const uint64_t a = keys[k][t], c = keys[k][t + d];
                    keys[k][t] = (k < 3) == (a < c) ? a : c;
                }
            }
            CT_BARRIER();
        }
        CT_THREADS(t) {
            if (t < 3) ct_atomic_min(&body->box[t], keys[t][0]);
            if (t >= 3 && t < 6) ct_atomic_max(&body->box[t], keys[t][0]);
        }
        CT_BARRIER();
    }
}

const ct_kernel_entry ct_update_kernels[] = {CT_KERNEL_ENTRY(write_positions_and_poses), CT_KERNEL_ENTRY(compute_boxes),
                                             CT_KERNELS_END};

unsigned ct_cuda_update_bodies(const ct_resident_tables *tables, unsigned grid, cudaStream_t stream) {
    unsigned n = CT_LAUNCH(write_positions_and_poses, grid, stream, *tables);
    n += CT_LAUNCH(compute_boxes, grid, stream, *tables);
    if (tables->n_box_updates > tables->n_pose_writes) n += ct_cuda_sum_volumes(tables, grid, stream);
    return n;
}

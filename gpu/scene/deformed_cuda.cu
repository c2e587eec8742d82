/* deformed_cuda.cu - the signed volumes and the clusters' boxes of the deformable bodies that moved, in one pass over
 * their triangles. */
#include "gpu/device/cuda/collective.cuh"
#include "gpu/device/cuda/scan.cuh"
#include "gpu/scene/resident_cuda.cuh"

CT_DEVICE ct_cluster_box empty_box(void) {
    const ct_cluster_box box = {{INFINITY, INFINITY, INFINITY}, {-INFINITY, -INFINITY, -INFINITY}};
    return box;
}

CT_DEVICE ct_cluster_box join_boxes(ct_cluster_box x, const ct_cluster_box &y) {
    for (int k = 0; k < 3; k++) {
        if (y.lo[k] < x.lo[k]) x.lo[k] = y.lo[k];
        if (y.hi[k] > x.hi[k]) x.hi[k] = y.hi[k];
    }
    return x;
}

CT_DEVICE void add_point(ct_cluster_box *box, const float *p) {
    for (int k = 0; k < 3; k++) {
        if (p[k] < box->lo[k]) box->lo[k] = p[k];
        if (p[k] > box->hi[k]) box->hi[k] = p[k];
    }
}

/* A body's clusters are divided evenly among its chunks of vertices, so that no table is needed beside theirs. A warp
 * works on one cluster at a time. */
CT_KERNEL measure_deformed_bodies(const ct_resident_tables b) {
    enum : unsigned { WARPS = CT_BLOCK / 32 };
    CT_EACH_BLOCK(chunk, b.n_box_chunks) {
        const ct_gpu_box_update *update = &b.box_updates[b.box_chunk_update[chunk]];
        ct_gpu_body *body = update->body;
        if (body->rigid) continue;
        const uint64_t n_chunks = ct_gpu_box_chunks(body->n_vertices, body->n_triangles, false);
        const uint64_t n_clusters = ct_cluster_count(body->n_triangles), index = chunk - update->first_chunk;
        const uint64_t first = index * n_clusters / n_chunks, end = (index + 1) * n_clusters / n_chunks;
        const ct_box body_box = ct_gpu_box(body);
        const ct_volume_scale scale = ct_volume_scale_of(&body_box);
        int64_t high = 0, low = 0;
        for (uint64_t base = first; base < end; base += WARPS) {
            ct_cluster_box box = empty_box();
            CT_THREADS(t) {
                const uint64_t cluster = base + t / 32, begin = cluster * CT_CLUSTER_TRIANGLES;
                for (uint64_t i = begin + t % 32;
                     cluster < end && i < begin + CT_CLUSTER_TRIANGLES && i < body->n_triangles; i += 32) {
                    const float *corners[3];
                    for (int k = 0; k < 3; k++) {
                        corners[k] = body->positions + 3 * (uint64_t)body->triangles[3 * i + k];
                        add_point(&box, corners[k]);
                    }
                    if (!(scale.unit > 0)) continue;
                    const int64_t term = ct_volume_term(corners[0], corners[1], corners[2], &scale);
                    high += term >> 32;
                    low += term & 0xffffffff;
                }
            }
            box =
                ct_warp_reduce(box, [](const ct_cluster_box &x, const ct_cluster_box &y) { return join_boxes(x, y); });
            CT_THREADS(t) {
                const uint64_t cluster = base + t / 32;
                if (t % 32 == 0 && cluster < end && body->cluster_boxes) body->cluster_boxes[cluster] = box;
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

const ct_kernel_entry ct_deformed_kernels[] = {CT_KERNEL_ENTRY(measure_deformed_bodies), CT_KERNELS_END};

unsigned ct_cuda_measure_deformed_bodies(const ct_resident_tables *tables, unsigned grid, cudaStream_t stream) {
    return CT_LAUNCH(measure_deformed_bodies, grid, stream, *tables);
}

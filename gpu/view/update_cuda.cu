/* update_cuda.cu - writes the positions and poses that steps send into the bodies, and computes the boxes of the bodies
 * that moved. */
#include "gpu/device/cuda/scan.cuh"
#include "gpu/scene/half_space_k.h"
#include "gpu/scene/resident_cuda.cuh"
#include "gpu/view/near_k.h"

/* Copies the rows of one chunk to their vertices. The chunk's first row belongs to write number `write`; each row is
 * marked with the number of the write that begins there, and the prefix maximum tells every row which write it belongs
 * to. */
CT_DEVICE void write_rows(const ct_resident_tables &b, uint64_t chunk, uint32_t write) {
    CT_SHARED uint32_t n_after[CT_BLOCK]; /* the number of a write that begins at the row, counted from `write` */
    const uint64_t first = chunk * CT_BLOCK, next_chunk = (chunk + 1) * CT_BLOCK;
    uint32_t mine = 0;
    /* Where the next chunk still belongs to the same write, so do all rows of this one. */
    if (next_chunk >= b.n_rows || b.row_chunk_write[chunk + 1] != write) {
        CT_THREADS(t) n_after[t] = 0;
        CT_BARRIER();
        CT_THREADS(t) { /* each write has a row, so fewer than CT_BLOCK begin after the chunk's first row */
            const uint64_t later = (uint64_t)write + 1 + t;
            if (later >= b.n_position_writes) continue;
            const uint64_t row = b.position_writes[later].first_row;
            if (row < next_chunk) n_after[row - first] = t + 1;
        }
        CT_BARRIER();
        CT_THREADS(t) mine = n_after[t];
        mine = ct_block_prefix_max(mine);
    }
    CT_THREADS(t) {
        const uint64_t row = first + t;
        if (row >= b.n_rows) continue;
        const ct_gpu_position_write w = b.position_writes[write + mine];
        const uint64_t k = row - w.first_row;
        const uint64_t vertex = w.first_index == CT_GPU_NONE ? w.first_vertex + k : b.indices[w.first_index + k];
        for (int i = 0; i < 3; i++) {
            w.before[3 * vertex + i] = w.positions[3 * vertex + i];
            w.positions[3 * vertex + i] = b.rows[3 * row + i];
        }
    }
}

CT_KERNEL write_positions_and_poses(const ct_resident_tables b) {
    const uint64_t n_chunks = (b.n_rows + CT_BLOCK - 1) / CT_BLOCK;
    CT_EACH_BLOCK(chunk, n_chunks) write_rows(b, chunk, b.row_chunk_write[chunk]);
    CT_FOR(i, 12 * (uint64_t)b.n_pose_writes)
    b.pose_writes[i / 12].body->pose[i % 12] = b.pose_writes[i / 12].pose[i % 12];
    CT_FOR(i, 3 * (uint64_t)b.n_pose_writes)
    b.pose_writes[i / 3].body->about[i % 3] = b.pose_writes[i / 3].about[i % 3];
    CT_FOR(i, b.n_box_updates)
    if (!b.box_updates[i].body->rigid) b.box_updates[i].body->is_rounded = b.box_updates[i].is_rounded;
    CT_FOR(i, 6 * (uint64_t)b.n_box_updates) b.box_updates[i / 6].body->box[i % 6] = i % 6 < 3 ? UINT64_MAX : 0;
    CT_FOR(i, b.n_box_updates) b.box_updates[i].body->volume_high = b.box_updates[i].body->volume_low = 0;
}

/* The least and the largest coordinates of some vertices, as ct_order_key. */
struct key_box {
    uint64_t lo[3], hi[3];
};

CT_DEVICE key_box join_boxes(key_box x, const key_box &y) {
    for (int k = 0; k < 3; k++) {
        if (y.lo[k] < x.lo[k]) x.lo[k] = y.lo[k];
        if (y.hi[k] > x.hi[k]) x.hi[k] = y.hi[k];
    }
    return x;
}

CT_DEVICE key_box box_of_vertex(const ct_gpu_body *body, uint64_t v) {
    const float *p = body->positions + 3 * v;
    const float x = p[0], y = p[1], z = p[2];
    key_box box;
    for (int k = 0; k < 3; k++)
        box.lo[k] = box.hi[k] = ct_order_key(body->rigid ? ct_pose_coord(body->pose + 4 * k, x, y, z)
                                                         : (double)(k == 0   ? x
                                                                    : k == 1 ? y
                                                                             : z));
    return box;
}

CT_DEVICE key_box reduce_boxes(const key_box &box) {
    return ct_block_reduce(box, [](const key_box &x, const key_box &y) { return join_boxes(x, y); });
}

/* ---- the box of a posed body of many triangles ---- */

/* Vertices, evenly spread over the surface, whose box is found first: few clusters reach out of it. */
enum { SAMPLES = 256, CLUSTER_CORNERS = 3 * CT_CLUSTER_TRIANGLES };

/* The cluster may reach out of the box. */
CT_DEVICE bool may_reach_out(const ct_gpu_body *body, uint64_t cluster, const key_box *of) {
    const ct_cluster_box box = body->cluster_boxes[cluster];
    bool is_inside = true;
    for (int k = 0; k < 3; k++) {
        const double *row = body->pose + 4 * k;
        double lo, hi;
        ct_find_posed_extent(row, ct_bound_pose_rounding(row, &box), &box, &lo, &hi);
        is_inside = is_inside && lo >= ct_order_value(of->lo[k]) && hi <= ct_order_value(of->hi[k]);
    }
    return !is_inside;
}

/* The box of the vertices of clusters first .. first + CT_BOX_CLUSTERS - 1 that reach out of the samples' box, and of
 * the samples: each thread's share. As the samples are vertices too, joining all shares gives the box of all vertices.
 */
CT_DEVICE key_box search_clusters(const ct_gpu_body *body, uint64_t first, key_box box) {
    CT_SHARED key_box sampled;
    CT_SHARED uint32_t listed[CT_BOX_CLUSTERS], n_listed;
    const uint64_t n_clusters = ct_cluster_count(body->n_triangles), n_corners = 3 * (uint64_t)body->n_triangles;
    CT_THREADS(t) {
        for (uint64_t i = t; i < SAMPLES; i += CT_BLOCK)
            box = join_boxes(box, box_of_vertex(body, body->triangles[i * body->n_triangles / SAMPLES * 3]));
    }
    const key_box all = reduce_boxes(box);
    CT_THREADS(t) {
        if (t == 0) {
            sampled = all;
            n_listed = 0;
        }
    }
    CT_BARRIER();
    CT_THREADS(t) {
        for (uint64_t i = t; i < CT_BOX_CLUSTERS && first + i < n_clusters; i += CT_BLOCK)
            if (may_reach_out(body, first + i, &sampled)) listed[atomicAdd(&n_listed, 1u)] = (uint32_t)(first + i);
    }
    CT_BARRIER();
    CT_THREADS(t) {
        for (uint32_t i = t; i < n_listed * CLUSTER_CORNERS; i += CT_BLOCK) {
            const uint64_t corner = (uint64_t)listed[i / CLUSTER_CORNERS] * CLUSTER_CORNERS + i % CLUSTER_CORNERS;
            if (corner < n_corners) box = join_boxes(box, box_of_vertex(body, body->triangles[corner]));
        }
    }
    return box;
}

/* ---- all boxes ---- */

CT_KERNEL compute_boxes(const ct_resident_tables b) {
    CT_EACH_BLOCK(chunk, b.n_box_chunks) {
        const ct_gpu_box_update *update = &b.box_updates[b.box_chunk_update[chunk]];
        ct_gpu_body *body = update->body;
        const uint64_t index = chunk - update->first_chunk, first = index * CT_BOX_CHUNK;
        key_box box = {{UINT64_MAX, UINT64_MAX, UINT64_MAX}, {0, 0, 0}};
        if (body->is_half_space) {
            ct_box of_plane;
            ct_half_space_box(body->pose, &of_plane);
            for (int k = 0; k < 3; k++) {
                box.lo[k] = ct_order_key(of_plane.lo[k]);
                box.hi[k] = ct_order_key(of_plane.hi[k]);
            }
        } else if (body->searches_box) {
            box = search_clusters(body, index * CT_BOX_CLUSTERS, box);
        } else {
            CT_THREADS(t) {
                for (uint64_t v = first + t; v < first + CT_BOX_CHUNK && v < body->n_vertices; v += CT_BLOCK)
                    box = join_boxes(box, box_of_vertex(body, v));
            }
        }
        box = reduce_boxes(box);
        CT_THREADS(t) {
            for (int k = 0; k < 3 && t == 0; k++) {
                ct_atomic_min(&body->box[k], box.lo[k]);
                ct_atomic_max(&body->box[3 + k], box.hi[k]);
            }
        }
    }
}

const ct_kernel_entry ct_update_kernels[] = {CT_KERNEL_ENTRY(write_positions_and_poses), CT_KERNEL_ENTRY(compute_boxes),
                                             CT_KERNELS_END};

unsigned ct_cuda_update_bodies(const ct_resident_tables *tables, unsigned grid, cudaStream_t stream) {
    unsigned n = CT_LAUNCH(write_positions_and_poses, grid, stream, *tables);
    n += CT_LAUNCH(compute_boxes, grid, stream, *tables);
    if (tables->n_box_updates > tables->n_pose_writes) n += ct_cuda_measure_deformed_bodies(tables, grid, stream);
    return n;
}

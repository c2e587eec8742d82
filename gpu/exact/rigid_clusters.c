/* rigid_clusters.c - copies positions into the order of clusters, and finds the boxes of their blocks. */
#include "gpu/exact/rigid_clusters.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/base/scratch.h"
#include "gpu/exact/topology.h"
#include "gpu/mesh/mesh.h"

struct owned_clusters {
    ct_rigid_clusters clusters;
    float (*positions)[3];
    ct_rigid_blocks *blocks;
};

static void destroy(void *content) {
    struct owned_clusters *owned = content;
    free(owned->positions);
    free(owned->blocks);
    free(owned);
}

/* False: cancelled. */
static bool copy_positions(const ct_mesh *mesh, const ct_clusters *clusters, float (*to)[3]) {
    for (uint32_t i = 0; i < clusters->first_vertex[clusters->n]; i++) {
        if (CT_POLL_EVERY(i, 8192) && ct_is_cancelled()) return false;
        memcpy(to[i], mesh->positions + 3 * (size_t)clusters->vertices[i], sizeof to[i]);
    }
    return true;
}

/* Of the triangles first + order[0 .. n - 1]. */
static ct_cluster_box box_triangles(const ct_mesh *mesh, uint32_t first, const uint8_t *order, uint32_t n) {
    ct_cluster_box box = {{INFINITY, INFINITY, INFINITY}, {-INFINITY, -INFINITY, -INFINITY}};
    for (uint32_t i = 0; i < 3 * n; i++) {
        const float *p = mesh->positions + 3 * (size_t)mesh->triangles[3 * ((size_t)first + order[i / 3]) + i % 3];
        for (int k = 0; k < 3; k++) {
            box.lo[k] = fminf(box.lo[k], p[k]);
            box.hi[k] = fmaxf(box.hi[k], p[k]);
        }
    }
    return box;
}

/* Whole steps in a distance. A step of rounding is kept back: what remains is rounded by less. */
static uint8_t count_steps(double distance, double step) {
    if (!(step > 0)) return 0;
    return (uint8_t)fmin(254, fmax(0, floor(distance / step * (1 - 0x1p-40))));
}

static void find_blocks(const ct_mesh *mesh, const ct_topology *topology, uint32_t cluster, ct_rigid_blocks *to) {
    const ct_cluster_box *whole = &topology->clusters->rest[cluster];
    const uint32_t first_triangle = cluster * CT_CLUSTER_TRIANGLES, n_triangles = mesh->n_triangles - first_triangle;
    for (uint32_t i = 0; i < CT_EXACT_BLOCKS; i++) {
        const uint32_t first = i * CT_EXACT_BLOCK, left = n_triangles - first;
        for (int k = 0; k < 6; k++) to->inset[k][i] = 255;
        if (first >= n_triangles) continue;
        const ct_cluster_box box = box_triangles(mesh, first_triangle, topology->block_order + first_triangle + first,
                                                 left < CT_EXACT_BLOCK ? left : CT_EXACT_BLOCK);
        for (int k = 0; k < 3; k++) {
            const double step = ct_block_step(whole, k);
            to->inset[k][i] = count_steps((double)box.lo[k] - (double)whole->lo[k], step);
            to->inset[3 + k][i] = count_steps((double)whole->hi[k] - (double)box.hi[k], step);
        }
    }
}

static void *make(ct_mesh *mesh, uint64_t *bytes, ct_error *error) {
    const ct_topology *topology = ct_mesh_topology(mesh, error);
    if (!topology) return NULL;
    const ct_clusters *clusters = topology->clusters;
    const size_t n_vertices = clusters->first_vertex[clusters->n];
    const bool copies_positions = n_vertices <= mesh->n_triangles;
    ct_enter_phase("making a mesh's clusters");
    struct owned_clusters *owned = calloc(1, sizeof *owned);
    if (owned) {
        owned->blocks = malloc(clusters->n * sizeof *owned->blocks);
        if (copies_positions) owned->positions = ct_scratch_new(n_vertices * sizeof *owned->positions);
    }
    if (!owned || !owned->blocks || (copies_positions && !owned->positions)) {
        if (owned) destroy(owned);
        ct_fail(error, CT_OUT_OF_MEMORY, "mesh",
                "no memory for the positions of %u triangles in the order of clusters, about %llu bytes",
                mesh->n_triangles, 10ull * mesh->n_triangles);
        return NULL;
    }
    bool ok = true;
    for (uint32_t c = 0; ok && c < clusters->n; c++) {
        find_blocks(mesh, topology, c, &owned->blocks[c]);
        ok = !CT_POLL_EVERY(c, 16) || !ct_is_cancelled();
    }
    if (!ok || (copies_positions && !copy_positions(mesh, clusters, owned->positions))) {
        destroy(owned);
        ct_fail_cancelled(error);
        return NULL;
    }
    owned->clusters.positions = (const float(*)[3])owned->positions;
    owned->clusters.blocks = owned->blocks;
    *bytes = sizeof *owned + clusters->n * sizeof *owned->blocks +
             (copies_positions ? n_vertices * sizeof *owned->positions : 0);
    return owned; /* whose first member is the content */
}

static const ct_mesh_slot_kind kind = {"rigid clusters", make, destroy};

bool ct_has_rigid_clusters(const ct_mesh *mesh) {
    return mesh->n_triangles >= CT_CLUSTERED_TRIANGLES;
}

const ct_rigid_clusters *ct_mesh_rigid_clusters(ct_mesh *mesh, ct_error *error) {
    return ct_mesh_slot_get(mesh, &kind, error);
}

/* adjacency.c - finds opposite half-edges by sorting: the two half-edges of an edge have the same two vertices, so a
 * sort by (smaller vertex, larger vertex) puts them side by side. Two counting sorts, the less significant key first,
 * do this in linear time for any mesh; a search around each vertex would be quadratic for a fan. */
#include "gpu/mesh/adjacency.h"

#include <stdlib.h>

#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/base/large.h"
#include "gpu/mesh/edge_pairs.h"
#include "gpu/mesh/mesh.h"

/* ct_mesh has at most 2^30 triangles, so half-edges are numbered below 2^32. */

static uint32_t smaller_end(const uint32_t *triangles, uint32_t half_edge) {
    uint32_t from = triangles[half_edge], to = triangles[half_edge % 3 < 2 ? half_edge + 1 : half_edge - 2];
    return from < to ? from : to;
}

static uint32_t larger_end(const uint32_t *triangles, uint32_t half_edge) {
    uint32_t from = triangles[half_edge], to = triangles[half_edge % 3 < 2 ? half_edge + 1 : half_edge - 2];
    return from < to ? to : from;
}

enum { BLOCK = 4096 }; /* half-edges between polls: up to some 0.1 ms, where each misses the cache */

/* A stable counting sort of n half-edges by a vertex of each. in NULL: 0, 1, 2... starts has n_vertices + 1 elements.
 * False: cancelled. */
static bool sort_by_vertex(const ct_mesh *mesh, uint32_t (*vertex_of)(const uint32_t *, uint32_t), const uint32_t *in,
                           uint32_t *out, uint32_t *starts) {
    const uint32_t n = 3 * mesh->n_triangles;
    if (!ct_fill_large(starts, 0, ((size_t)mesh->n_vertices + 1) * sizeof *starts)) return false;
    for (uint32_t h = 0; h < n; h++) {
        if (CT_POLL_EVERY(h, BLOCK) && ct_is_cancelled()) return false;
        starts[vertex_of(mesh->triangles, h) + 1]++;
    }
    for (uint32_t v = 0; v < mesh->n_vertices; v++) {
        if (CT_POLL_EVERY(v, BLOCK) && ct_is_cancelled()) return false;
        starts[v + 1] += starts[v];
    }
    for (uint32_t i = 0; i < n; i++) {
        if (CT_POLL_EVERY(i, BLOCK) && ct_is_cancelled()) return false;
        uint32_t half_edge = in ? in[i] : i;
        out[starts[vertex_of(mesh->triangles, half_edge)]++] = half_edge;
    }
    return true;
}

/* Ends early when cancelled; so does pairing. */
static void fill_area_vectors(const ct_mesh *mesh, double (*area_vector)[3]) {
    for (uint32_t t = 0; t < mesh->n_triangles; t++) {
        if (CT_POLL_EVERY(t, BLOCK) && ct_is_cancelled()) return;
        const uint32_t *corner = mesh->triangles + 3 * (size_t)t;
        double e[2][3];
        for (int i = 0; i < 2; i++)
            for (int k = 0; k < 3; k++)
                e[i][k] = (double)mesh->positions[3 * (size_t)corner[i + 1] + (size_t)k] -
                          (double)mesh->positions[3 * (size_t)corner[0] + (size_t)k];
        area_vector[t][0] = 0.5 * (e[0][1] * e[1][2] - e[0][2] * e[1][1]);
        area_vector[t][1] = 0.5 * (e[0][2] * e[1][0] - e[0][0] * e[1][2]);
        area_vector[t][2] = 0.5 * (e[0][0] * e[1][1] - e[0][1] * e[1][0]);
    }
}

/* sorted: [n] half-edges by their edges, two of each. False: cancelled. */
static bool pair_neighbours(const uint32_t *sorted, size_t n, uint32_t *opposite) {
    for (size_t i = 0; i < n; i += 2) {
        opposite[sorted[i]] = sorted[i + 1];
        opposite[sorted[i + 1]] = sorted[i];
        if (CT_POLL_EVERY(i, BLOCK) && ct_is_cancelled()) return false;
    }
    return true;
}

/* The same where edges may have more. False: out of memory, or cancelled. */
static bool pair_shared(const ct_mesh *mesh, const uint32_t *sorted, size_t n, uint32_t *opposite) {
    for (size_t i = 0, end; i < n; i = end) {
        const uint32_t low = smaller_end(mesh->triangles, sorted[i]), high = larger_end(mesh->triangles, sorted[i]);
        for (end = i + 1; end < n && smaller_end(mesh->triangles, sorted[end]) == low &&
                          larger_end(mesh->triangles, sorted[end]) == high;)
            end++;
        ct_edge_face *faces = malloc((end - i) * sizeof *faces);
        if (!faces || ct_is_cancelled()) {
            free(faces);
            return false;
        }
        for (size_t k = i; k < end; k++) {
            const uint32_t half_edge = sorted[k], t = half_edge / 3;
            faces[k - i] = (ct_edge_face){.id = half_edge,
                                          .apex = mesh->triangles[3 * (size_t)t + (half_edge + 2 - 3 * t) % 3],
                                          .runs_up = mesh->triangles[half_edge] == low};
        }
        const bool is_paired = ct_pair_edge_faces(mesh->positions, low, high, faces, end - i) == CT_EDGE_PAIRED;
        for (size_t k = 0; k < end - i && is_paired; k++) opposite[faces[k].id] = faces[k ^ 1].id;
        free(faces);
        if (!is_paired) return false;
    }
    return true;
}

/* Followed by its arrays in one block, the doubles first. */
static void *make(ct_mesh *mesh, uint64_t *bytes, ct_error *error) {
    const size_t n = mesh->n_triangles, half_edges = 3 * n;
    const size_t block_bytes = sizeof(ct_adjacency) + n * (3 * sizeof(double) + 3 * sizeof(uint32_t));
    const size_t scratch_bytes = (2 * half_edges + mesh->n_vertices + 1) * sizeof(uint32_t);
    ct_adjacency *adjacency = malloc(block_bytes);
    uint32_t *scratch = malloc(scratch_bytes);
    if (!adjacency || !scratch) {
        free(adjacency);
        free(scratch);
        ct_fail(error, CT_OUT_OF_MEMORY, "mesh",
                "no memory for the edge adjacency of %zu triangles: it takes %zu bytes, and %zu more while it is made",
                n, block_bytes, scratch_bytes);
        return NULL;
    }
    double(*area_vector)[3] = (double(*)[3])(adjacency + 1);
    uint32_t *opposite = (uint32_t *)(area_vector + n);
    uint32_t *by_larger = scratch, *sorted = scratch + half_edges, *starts = scratch + 2 * half_edges;
    ct_enter_phase("finding edges");
    fill_area_vectors(mesh, area_vector);
    bool is_made = sort_by_vertex(mesh, larger_end, NULL, by_larger, starts) &&
                   sort_by_vertex(mesh, smaller_end, by_larger, sorted, starts);
    is_made = is_made && (mesh->has_shared_edges ? pair_shared(mesh, sorted, half_edges, opposite)
                                                 : pair_neighbours(sorted, half_edges, opposite));
    free(scratch);
    if (!is_made) {
        free(adjacency);
        ct_fail(error, CT_OUT_OF_MEMORY, "mesh", "no memory for the edge adjacency of %zu triangles", n);
        return NULL;
    }
    adjacency->opposite = (const uint32_t(*)[3])opposite;
    adjacency->area_vector = (const double(*)[3])area_vector;
    *bytes = block_bytes;
    return adjacency;
}

static const ct_mesh_slot_kind edge_adjacency = {"edge adjacency", make, free};

const ct_adjacency *ct_mesh_adjacency(ct_mesh *mesh, ct_error *error) {
    return ct_mesh_slot_get(mesh, &edge_adjacency, error);
}

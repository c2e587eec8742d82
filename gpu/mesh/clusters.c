/* clusters.c - makes clusters and their tree, and refits their boxes. */
#include "gpu/mesh/clusters.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/mesh/mesh.h"

struct owned_clusters {
    ct_clusters clusters;
    uint32_t *first_vertex, *vertices;
    ct_cluster_box *rest;
};

static void destroy(void *content) {
    struct owned_clusters *owned = content;
    free(owned->first_vertex);
    free(owned->vertices);
    free(owned->rest);
    free(owned);
}

static int compare_vertices(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Copies the vertices that triangles [first, end) use to `to`, each once, in rising order. Returns their number.
 * last_use: per vertex, 1 + the last cluster that used it. */
static uint32_t list_vertices(const ct_mesh *mesh, uint32_t cluster, uint32_t *last_use, uint32_t *to) {
    const uint32_t first = cluster * CT_CLUSTER_TRIANGLES, left = mesh->n_triangles - first;
    const uint32_t *corner = mesh->triangles + 3 * (size_t)first;
    const uint32_t corners = 3 * (left < CT_CLUSTER_TRIANGLES ? left : CT_CLUSTER_TRIANGLES);
    uint32_t n = 0;
    for (uint32_t i = 0; i < corners; i++) {
        if (last_use[corner[i]] == cluster + 1) continue;
        last_use[corner[i]] = cluster + 1;
        to[n++] = corner[i];
    }
    qsort(to, n, sizeof *to, compare_vertices);
    return n;
}

static void plan_levels(ct_clusters *c) {
    uint32_t n = c->n;
    for (;;) {
        c->level[c->n_levels++] = c->n_nodes;
        c->n_nodes += n;
        if (n <= 1) break;
        n = (n + CT_CLUSTER_FAN - 1) / CT_CLUSTER_FAN;
    }
    c->level[c->n_levels] = c->n_nodes;
}

/* Lists all clusters' vertices. False: out of memory, or cancelled. */
static bool list_all_vertices(const ct_mesh *mesh, struct owned_clusters *owned) {
    uint32_t *last_use = calloc(mesh->n_vertices ? mesh->n_vertices : 1, sizeof *last_use);
    size_t capacity = (size_t)mesh->n_triangles + 3 * CT_CLUSTER_TRIANGLES, used = 0;
    uint32_t *vertices = malloc(capacity * sizeof *vertices);
    bool ok = last_use && vertices;
    for (uint32_t c = 0; ok && c < owned->clusters.n; c++) {
        if (ct_is_cancelled()) {
            ok = false;
            break;
        }
        owned->first_vertex[c] = (uint32_t)used;
        if (used + 3 * CT_CLUSTER_TRIANGLES > capacity) {
            capacity += capacity / 2 + 3 * CT_CLUSTER_TRIANGLES;
            uint32_t *larger = realloc(vertices, capacity * sizeof *vertices);
            ok = larger;
            if (!ok) break;
            vertices = larger;
        }
        used += list_vertices(mesh, c, last_use, vertices + used);
    }
    if (ok) {
        owned->first_vertex[owned->clusters.n] = (uint32_t)used;
        uint32_t *exact = realloc(vertices, (used ? used : 1) * sizeof *vertices);
        owned->vertices = exact ? exact : vertices;
        uint32_t unused = 0;
        for (uint32_t v = 0; v < mesh->n_vertices; v++) {
            if (CT_POLL_EVERY(v, 1 << 14) && ct_is_cancelled()) break; /* the slot is not kept then */
            unused += last_use[v] == 0;
        }
        owned->clusters.has_all_vertices = unused == 0;
    } else {
        free(vertices);
    }
    free(last_use);
    return ok;
}

static void *make(ct_mesh *mesh, uint64_t *bytes, ct_error *error) {
    const uint32_t n = ct_cluster_count(mesh->n_triangles);
    struct owned_clusters *owned = calloc(1, sizeof *owned);
    ct_enter_phase("making clusters");
    if (owned) {
        owned->clusters.n = n;
        plan_levels(&owned->clusters);
        owned->first_vertex = malloc((n + 1) * sizeof *owned->first_vertex);
        owned->rest = malloc(owned->clusters.n_nodes * sizeof *owned->rest);
    }
    if (!owned || !owned->first_vertex || !owned->rest || !list_all_vertices(mesh, owned)) {
        if (owned) destroy(owned);
        ct_fail(error, CT_OUT_OF_MEMORY, "mesh", "no memory for the cluster tree of %u triangles, about %llu bytes",
                mesh->n_triangles, (unsigned long long)mesh->n_triangles * sizeof(uint32_t));
        return NULL;
    }
    ct_clusters *c = &owned->clusters;
    c->first_vertex = owned->first_vertex;
    c->vertices = owned->vertices;
    c->rest = owned->rest;
    enum { SOME = 64 }; /* clusters between polls, some 20 us */
    for (uint32_t first = 0; first < n && !ct_is_cancelled(); first += SOME)
        ct_clusters_refit(c, mesh->positions, first, n - first < SOME ? n : first + SOME, owned->rest);
    if (mesh->low) ct_clusters_widen(0, n, owned->rest);
    if (!ct_is_cancelled()) ct_clusters_refit_tree(c, owned->rest);
    *bytes =
        sizeof *owned + (n + 1 + (uint64_t)c->first_vertex[n]) * sizeof(uint32_t) + c->n_nodes * sizeof(ct_cluster_box);
    return c; /* the first member of *owned */
}

static const ct_mesh_slot_kind kind = {"cluster tree", make, destroy};

const ct_clusters *ct_mesh_clusters(ct_mesh *mesh, ct_error *error) {
    return ct_mesh_slot_get(mesh, &kind, error);
}

void ct_clusters_widen(uint32_t first, uint32_t end, ct_cluster_box *boxes) {
    for (uint32_t c = first; c < end; c++)
        for (int k = 0; k < 3; k++) {
            boxes[c].lo[k] = nextafterf(boxes[c].lo[k], -INFINITY);
            boxes[c].hi[k] = nextafterf(boxes[c].hi[k], INFINITY);
        }
}

void ct_clusters_refit(const ct_clusters *clusters, const float *positions, uint32_t first, uint32_t end,
                       ct_cluster_box *boxes) {
    for (uint32_t c = first; c < end; c++) {
        float lo[3] = {INFINITY, INFINITY, INFINITY}, hi[3] = {-INFINITY, -INFINITY, -INFINITY};
        for (uint32_t i = clusters->first_vertex[c]; i < clusters->first_vertex[c + 1]; i++) {
            const float *p = positions + 3 * (size_t)clusters->vertices[i];
            for (int k = 0; k < 3; k++) {
                lo[k] = p[k] < lo[k] ? p[k] : lo[k];
                hi[k] = p[k] > hi[k] ? p[k] : hi[k];
            }
        }
        for (int k = 0; k < 3; k++) {
            boxes[c].lo[k] = lo[k];
            boxes[c].hi[k] = hi[k];
        }
    }
}

void ct_clusters_refit_tree(const ct_clusters *clusters, ct_cluster_box *boxes) {
    for (uint32_t l = 1; l < clusters->n_levels; l++)
        for (uint32_t i = clusters->level[l]; i < clusters->level[l + 1]; i++) {
            const uint32_t first = clusters->level[l - 1] + (i - clusters->level[l]) * CT_CLUSTER_FAN;
            const uint32_t left = clusters->level[l] - first, n = left < CT_CLUSTER_FAN ? left : CT_CLUSTER_FAN;
            ct_cluster_box box = boxes[first];
            for (uint32_t j = first + 1; j < first + n; j++)
                for (int k = 0; k < 3; k++) {
                    if (boxes[j].lo[k] < box.lo[k]) box.lo[k] = boxes[j].lo[k];
                    if (boxes[j].hi[k] > box.hi[k]) box.hi[k] = boxes[j].hi[k];
                }
            boxes[i] = box;
        }
}

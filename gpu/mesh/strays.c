/* strays.c - finds the vertices that no triangle uses, and moves them to one that a triangle uses. */
#include "gpu/mesh/strays.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/base/large.h"
#include "gpu/mesh/mesh.h"

enum { POLL = 1 << 13 }; /* vertices or corners between polls */

const float *ct_mesh_rest(const ct_mesh *mesh) {
    return mesh->positions;
}

bool ct_is_stray(const ct_mesh *mesh, uint32_t vertex) {
    uint32_t low = 0, high = mesh->n_strays;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (mesh->strays[middle] == vertex) return true;
        if (mesh->strays[middle] < vertex)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

/* Marks in is_used, all 0, the vertices of triangles. False: cancelled. */
static bool mark_used(const ct_mesh *mesh, uint8_t *is_used) {
    for (size_t i = 0; i < 3 * (size_t)mesh->n_triangles; i++) {
        if (CT_POLL_EVERY(i, POLL) && ct_is_cancelled()) return false;
        is_used[mesh->triangles[i]] = 1;
    }
    return true;
}

bool ct_set_strays_aside(ct_mesh *mesh) {
    const uint32_t n = mesh->n_vertices;
    uint8_t *is_used = calloc(n, 1);
    mesh->strays = malloc(n * sizeof *mesh->strays);
    mesh->as_given = malloc(12 * (size_t)n);
    bool is_done = is_used && mesh->strays && mesh->as_given && mark_used(mesh, is_used) &&
                   ct_copy_large(mesh->as_given, mesh->positions, 12 * (size_t)n);
    mesh->anchor = mesh->triangles[0];
    for (uint32_t v = 0; v < n && is_done; v++) {
        if (CT_POLL_EVERY(v, POLL)) is_done = !ct_is_cancelled();
        if (is_used[v]) continue;
        mesh->strays[mesh->n_strays++] = v;
        memcpy(mesh->positions + 3 * (size_t)v, mesh->as_given + 3 * (size_t)mesh->anchor, 12);
    }
    free(is_used);
    uint32_t *exact = is_done ? realloc(mesh->strays, (mesh->n_strays + 1) * sizeof *mesh->strays) : NULL;
    if (exact) mesh->strays = exact;
    return is_done;
}

/* stray_updates.c - replaces updates of vertices that no triangle uses. */
#include "gpu/scene/stray_updates.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/base/array.h"
#include "gpu/base/fail.h"
#include "gpu/mesh/mesh.h"
#include "gpu/mesh/strays.h"
#include "gpu/scene/rows.h"
#include "gpu/scene/scene.h"

static size_t row_bytes(const ct_update *u) {
    return u->dtype == CT_F64 ? 24 : 12;
}

/* The mesh, if the update gives positions and the mesh has strays; else NULL. */
static const ct_mesh *mesh_with_strays(const ct_scene *scene, const ct_update *u) {
    const ct_mesh *mesh = ct_scene_find(scene, u->body, NULL)->mesh;
    return u->kind != CT_UPDATE_POSE && mesh->n_strays ? mesh : NULL;
}

/* Of the most that replaces an update: a row and an index for each row given and each stray; a multiple of 8. */
static size_t bytes_of(const ct_mesh *mesh, const ct_update *u) {
    return ((u->count + mesh->n_strays) * (row_bytes(u) + 4) + 7) / 8 * 8;
}

static void replace_all(const ct_mesh *mesh, ct_update *u, char *to) {
    const size_t row = row_bytes(u);
    memcpy(to, u->positions, u->count * row);
    for (uint32_t i = 0; i < mesh->n_strays; i++) memcpy(to + row * mesh->strays[i], to + row * mesh->anchor, row);
    u->positions = to;
}

struct listing {
    const ct_mesh *mesh;
    const ct_update *given;
    char *rows, *indices;
    uint64_t n;
    const char *anchor; /* the last row given for it; NULL: none */
};

static void list_row(struct listing *l, uint32_t vertex, const char *row) {
    const size_t size = row_bytes(l->given);
    memcpy(l->rows + size * l->n, row, size);
    memcpy(l->indices + 4 * l->n++, &vertex, 4);
}

static void list_given(struct listing *l, uint32_t vertex, uint64_t k) {
    const char *row = (const char *)l->given->positions + k * row_bytes(l->given);
    if (ct_is_stray(l->mesh, vertex)) return;
    if (vertex == l->mesh->anchor) l->anchor = row;
    list_row(l, vertex, row);
}

/* Vertex by vertex, without strays; where the anchor moves, all of them follow. */
static void replace_some(const ct_mesh *mesh, ct_update *u, char *to) {
    const ct_update given = *u;
    struct listing l = {mesh, &given, to, to + (u->count + mesh->n_strays) * row_bytes(u), 0, NULL};
    uint64_t k = 0;
    if (u->kind == CT_UPDATE_INDEXED) {
        for (; k < u->count; k++) list_given(&l, ct_update_index(u, k), k);
    } else {
        for (uint64_t i = 0; i < u->n_indices; i += 2) {
            const uint32_t first = ct_update_index(u, i), n = ct_update_index(u, i + 1);
            for (uint32_t v = 0; v < n; v++) list_given(&l, first + v, k++);
        }
    }
    for (uint32_t i = 0; i < mesh->n_strays && l.anchor; i++) list_row(&l, mesh->strays[i], l.anchor);
    u->kind = CT_UPDATE_INDEXED;
    u->positions = l.rows;
    u->indices = l.indices;
    u->count = u->n_indices = l.n;
}

ct_status ct_replace_stray_updates(ct_step *step, ct_error *error) {
    ct_stray_updates *strays = &step->scene->strays;
    size_t bytes = 0;
    for (size_t i = 0; i < step->n_updates; i++) {
        const ct_mesh *mesh = mesh_with_strays(step->scene, &step->updates[i]);
        if (!mesh) continue;
        const ct_status status = ct_update_name_offender(&step->updates[i], error); /* while rows have their numbers */
        if (status) return status;
        bytes += bytes_of(mesh, &step->updates[i]);
    }
    if (!bytes) return CT_OK;
    if (!ct_array_grow(&strays->updates, &strays->update_capacity, step->n_updates) ||
        !ct_array_grow(&strays->numbers, &strays->number_bytes, bytes))
        return ct_fail(error, CT_OUT_OF_MEMORY, "updates", "no memory for positions: %zu bytes", bytes);
    memcpy(strays->updates, step->updates, step->n_updates * sizeof *step->updates);
    char *to = strays->numbers;
    for (size_t i = 0; i < step->n_updates; i++) {
        const ct_mesh *mesh = mesh_with_strays(step->scene, &step->updates[i]);
        if (!mesh) continue;
        if (step->updates[i].kind == CT_UPDATE_POSITIONS)
            replace_all(mesh, &strays->updates[i], to);
        else
            replace_some(mesh, &strays->updates[i], to);
        to += bytes_of(mesh, &step->updates[i]);
    }
    strays->given = step->updates;
    step->updates = strays->updates;
    return CT_OK;
}

void ct_restore_stray_updates(ct_step *step) {
    ct_stray_updates *strays = &step->scene->strays;
    if (strays->given) step->updates = strays->given;
    strays->given = NULL;
}

void ct_stray_updates_free(ct_stray_updates *strays) {
    free(strays->updates);
    free(strays->numbers);
}

/* closing.c - moves closing vertices with the rim, and adds what results have of them to it. */
#include "gpu/mesh/closing.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "gpu/mesh/mesh.h"

/* Where `vertex` is, or belongs, among rising vertices. */
static uint64_t place_of(const uint32_t *vertices, uint64_t n, uint32_t vertex) {
    uint64_t low = 0, high = n;
    while (low < high) {
        const uint64_t middle = (low + high) / 2;
        if (vertices[middle] < vertex)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint32_t ct_closing_count(const ct_mesh *mesh) {
    return mesh->n_closing;
}

void ct_closing_position(const ct_mesh *mesh, uint32_t i, const float at[3], float out[3]) {
    const float *rim = mesh->positions + 3 * (size_t)mesh->rim[i];
    const float *copy = mesh->positions + 3 * (size_t)(ct_mesh_given(mesh) + i);
    for (int k = 0; k < 3; k++) {
        const double moved = (double)at[k] + ((double)copy[k] - (double)rim[k]);
        out[k] = at[k] == rim[k] ? copy[k] : (float)fmin(fmax(moved, -(double)FLT_MAX), (double)FLT_MAX);
    }
}

void ct_move_closing(const ct_mesh *mesh, float *positions) {
    for (uint32_t i = 0; i < mesh->n_closing; i++)
        ct_closing_position(mesh, i, positions + 3 * (size_t)mesh->rim[i],
                            positions + 3 * (size_t)(ct_mesh_given(mesh) + i));
}

uint32_t ct_closing_of(const ct_mesh *mesh, uint32_t vertex) {
    const uint64_t i = place_of(mesh->rim, mesh->n_closing, vertex);
    return i < mesh->n_closing && mesh->rim[i] == vertex ? ct_mesh_given(mesh) + (uint32_t)i : UINT32_MAX;
}

enum { MOST_WIDTH = 3 * CT_MAX_DIRECTIONS };

void ct_fold_closing(const ct_mesh *mesh, uint32_t *vertices, const ct_row_array *arrays, size_t n_arrays,
                     uint64_t first, uint64_t *count) {
    uint32_t *part = vertices + first;
    const uint32_t n_given = ct_mesh_given(mesh);
    uint64_t n = place_of(part, *count, n_given);
    for (uint64_t i = n; i < *count; i++) {
        const uint32_t to = mesh->rim[part[i] - n_given];
        const uint64_t at = place_of(part, n, to);
        const bool is_new = at == n || part[at] != to;
        if (is_new) { /* row i is read below before anything is moved onto it */
            memmove(part + at + 1, part + at, (n - at) * sizeof *part);
            part[at] = to;
        }
        for (size_t k = 0; k < n_arrays; k++) {
            if (!arrays[k].rows) continue;
            const size_t width = arrays[k].width;
            double *rows = arrays[k].rows + width * first, row[MOST_WIDTH];
            memcpy(row, rows + width * i, width * sizeof *row);
            if (is_new) memmove(rows + width * (at + 1), rows + width * at, (size_t)(n - at) * width * sizeof *row);
            for (size_t w = 0; w < width; w++) rows[width * at + w] = is_new ? row[w] : rows[width * at + w] + row[w];
        }
        n += is_new;
    }
    *count = n;
}

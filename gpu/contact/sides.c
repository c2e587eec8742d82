/* sides.c - the sides of a body with itself, from rows of sums. */
#include "gpu/contact/sides.h"

#include <stdlib.h>

#include "gpu/contact/sides_cpu.h"

/* Cuts memory into the planes of both parts, each of n elements, and their flags. */
static void lay_out(void *memory, size_t n, ct_contact_sums *sums) {
    int64_t *at = memory;
    for (int part = 0; part < 2; part++)
        for (int w = 0; w < 3; w++, at += n) sums->gradient[part][w] = at;
    for (int part = 0; part < 2; part++) sums->touched[part] = (uint8_t *)at + (size_t)part * (n / CT_VERTEX_GROUP);
}

bool ct_find_part_1(const ct_side_rows *rows, const ct_weight_units *units, uint8_t *is_part_1) {
    const size_t n = ((size_t)rows->n_vertices + CT_VERTEX_GROUP) / CT_VERTEX_GROUP * CT_VERTEX_GROUP;
    void *memory = calloc(n, 6 * sizeof(int64_t) + 1);
    if (!memory) return false;
    ct_contact_sums sums = {.length = {0}};
    lay_out(memory, n, &sums);
    for (uint32_t v = 0; v < rows->n_vertices; v++) {
        for (int w = 0; w < 3; w++) sums.gradient[0][w][v] = rows->sums[v][w];
        sums.touched[0][v / CT_VERTEX_GROUP] = 1;
    }
    const ct_triangle_run all = {0, rows->n_triangles};
    const ct_self_surface surface = {rows->n_vertices, rows->triangles, &all, 1, rows->rounding};
    ct_budget budget = {.limit = 0};
    ct_side_scratch scratch = {.pieces = {0}};
    const bool ok = ct_split_sides(&surface, units, &sums, &scratch, &budget);
    for (uint32_t v = 0; v < rows->n_vertices && ok; v++)
        is_part_1[v] = (sums.gradient[1][0][v] | sums.gradient[1][1][v] | sums.gradient[1][2][v]) != 0;
    ct_buffer_free(&scratch.pieces, &budget);
    ct_buffer_free(&scratch.forces, &budget);
    free(memory);
    return ok;
}

/* soup.c - the growing arrays of a triangle soup. */
#include "gpu/mesh/soup.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/array.h"
#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/mesh/split.h"

#define ENGINE_LIMIT ((uint64_t)1 << 30) /* ct_check_edges packs an index and a flag into 32 bits */

void ct_mesh_limits_init(ct_mesh_limits *limits) {
    limits->max_vertices = (uint64_t)1 << 26;
    limits->max_triangles = (uint64_t)1 << 27;
}

void ct_soup_init(ct_soup *soup, const ct_mesh_limits *limits) {
    memset(soup, 0, sizeof *soup);
    soup->digits.watched = CT_SURELY_HELD;
    if (limits)
        soup->limits = *limits;
    else
        ct_mesh_limits_init(&soup->limits);
    if (soup->limits.max_vertices > ENGINE_LIMIT) soup->limits.max_vertices = ENGINE_LIMIT;
    if (soup->limits.max_triangles > ENGINE_LIMIT) soup->limits.max_triangles = ENGINE_LIMIT;
}

void ct_soup_free(ct_soup *soup) {
    free(soup->positions);
    free(soup->low);
    free(soup->wide);
    free(soup->triangles);
    free(soup->polygons);
    memset(soup, 0, sizeof *soup);
}

/* Grows either array; both have rows of three 4-byte numbers. */
static ct_status grow_rows(void **rows, size_t *capacity, uint64_t n, uint64_t limit, const char *what,
                           const char *field, ct_error *error) {
    if (n > limit)
        return ct_fail(error, CT_LIMIT_EXCEEDED, field,
                       "the mesh has %llu %s or more, at most %llu are allowed: simplify it or raise the limit",
                       (unsigned long long)n, what, (unsigned long long)limit);
    if (n <= *capacity) return CT_OK;
    void *grown = realloc(*rows, (size_t)n * 12);
    if (!grown) return ct_fail(error, CT_OUT_OF_MEMORY, field, "no memory for %llu %s", (unsigned long long)n, what);
    *rows = grown;
    *capacity = (size_t)n;
    return CT_OK;
}

ct_status ct_soup_reserve_vertices(ct_soup *soup, uint64_t n, ct_error *error) {
    void *rows = soup->positions;
    if (soup->digits.is_wide && n > soup->vertex_capacity && n <= soup->limits.max_vertices) {
        double *wide = realloc(soup->wide, (size_t)n * 3 * sizeof *wide);
        if (!wide)
            return ct_fail(error, CT_OUT_OF_MEMORY, "positions", "no memory for %llu vertices", (unsigned long long)n);
        soup->wide = wide;
    }
    ct_status status =
        grow_rows(&rows, &soup->vertex_capacity, n, soup->limits.max_vertices, "vertices", "positions", error);
    soup->positions = rows;
    return status;
}

ct_status ct_soup_add_wide(ct_soup *soup, const double position[3], ct_error *error) {
    if (soup->digits.loses_many) return CT_PARSE_ERROR;
    if (soup->n_vertices == soup->vertex_capacity) {
        ct_status status = ct_soup_grow_vertices(soup, error);
        if (status != CT_OK) return status;
    }
    memcpy(soup->wide + 3 * soup->n_vertices++, position, 3 * sizeof *position);
    return CT_OK;
}

bool ct_soup_split(ct_soup *soup, const void *doubles, size_t n, double scale) {
    const bool has_low = !ct_are_floats(doubles, 3 * n, scale);
    if (has_low) {
        ct_choose_split_origin(doubles, n, scale, soup->origin);
        soup->low = malloc(12 * n);
        soup->n_low = n;
        if (!soup->low) return false;
    }
    for (size_t i = 0; i < 3 * n; i++) {
        if (CT_POLL_EVERY(i, 1 << 14) && ct_is_cancelled()) return false;
        float rest = 0;
        const double x = ct_load_double(doubles, i) * scale - soup->origin[i % 3];
        ct_split_double(x, &soup->positions[i], &rest);
        if (!isfinite(soup->positions[i])) soup->positions[i] = (float)x; /* for the message: infinite, not NaN */
        if (has_low) soup->low[i] = rest;
    }
    return true;
}

ct_status ct_soup_reserve_triangles(ct_soup *soup, uint64_t n, ct_error *error) {
    void *rows = soup->triangles;
    ct_status status =
        grow_rows(&rows, &soup->triangle_capacity, n, soup->limits.max_triangles, "triangles", "triangles", error);
    soup->triangles = rows;
    return status;
}

/* Twice the capacity, at most the limit; limit + 1, which fails, if the capacity is at the limit. */
static uint64_t double_capacity(size_t capacity, uint64_t limit) {
    uint64_t wanted = capacity < 64 ? 64 : 2 * (uint64_t)capacity;
    return wanted <= limit ? wanted : capacity < limit ? limit : limit + 1;
}

ct_status ct_soup_grow_vertices(ct_soup *soup, ct_error *error) {
    return ct_soup_reserve_vertices(soup, double_capacity(soup->vertex_capacity, soup->limits.max_vertices), error);
}

ct_status ct_soup_grow_triangles(ct_soup *soup, ct_error *error) {
    return ct_soup_reserve_triangles(soup, double_capacity(soup->triangle_capacity, soup->limits.max_triangles), error);
}

ct_status ct_soup_add_polygon(ct_soup *soup, uint32_t n, ct_error *error) {
    if (!ct_array_grow(&soup->polygons, &soup->polygon_capacity, soup->n_polygons + 1))
        return ct_fail(error, CT_OUT_OF_MEMORY, "bytes", "no memory for %zu faces", soup->n_polygons);
    soup->polygons[soup->n_polygons++] = (ct_polygon){(uint32_t)(soup->n_triangles - (n - 2)), n};
    return CT_OK;
}

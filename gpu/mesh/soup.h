/* soup.h - a triangle soup: vertices and triangles before validation, in arrays that grow up to the mesh limits; for
 * the readers.
 */
#ifndef CT_SOUP_H
#define CT_SOUP_H

#include "gpu/include/contact.h"
#include "gpu/mesh/digits.h"

/* A face of more than three corners: the fan of n - 2 triangles that starts with this one. */
typedef struct ct_polygon {
    uint32_t first, n;
} ct_polygon;

typedef struct ct_soup {
    float *positions; /* [n_vertices][3] from `origin`, m */
    double origin[3];
    float *low; /* [n_low][3] what float32 leaves of the first vertices (split.h), those given; NULL: nothing */
    size_t n_low;
    double *wide;        /* [n_vertices][3] m, while a file is read in double precision, in place of `positions` */
    ct_digits digits;    /* of the file */
    uint32_t *triangles; /* [n_triangles][3], not yet checked against n_vertices */
    size_t n_vertices, n_triangles;
    size_t vertex_capacity, triangle_capacity;
    ct_polygon *polygons; /* [n_polygons], rising: some of these fans are cut otherwise (build/polygons.h) */
    size_t n_polygons, polygon_capacity;
    ct_mesh_limits limits;
} ct_soup;

void ct_soup_init(ct_soup *soup, const ct_mesh_limits *limits); /* NULL: the defaults */
void ct_soup_free(ct_soup *soup);

/* Grow the capacity to at least n. A reader first checks n, which may come from a header, against the size of its
 * input. LIMIT_EXCEEDED, OUT_OF_MEMORY. */
ct_status ct_soup_reserve_vertices(ct_soup *soup, uint64_t n, ct_error *error);
ct_status ct_soup_reserve_triangles(ct_soup *soup, uint64_t n, ct_error *error);

/* Double the capacity, up to the limit. LIMIT_EXCEEDED, OUT_OF_MEMORY. */
ct_status ct_soup_grow_vertices(ct_soup *soup, ct_error *error);
ct_status ct_soup_grow_triangles(ct_soup *soup, ct_error *error);

static inline ct_status ct_soup_add_vertex(ct_soup *soup, const float position[3], ct_error *error) {
    if (soup->n_vertices == soup->vertex_capacity) {
        ct_status status = ct_soup_grow_vertices(soup, error);
        if (status != CT_OK) return status;
    }
    float *to = soup->positions + 3 * soup->n_vertices++;
    to[0] = position[0], to[1] = position[1], to[2] = position[2];
    return CT_OK;
}

static inline ct_status ct_soup_add_triangle(ct_soup *soup, uint32_t a, uint32_t b, uint32_t c, ct_error *error) {
    if (soup->n_triangles == soup->triangle_capacity) {
        ct_status status = ct_soup_grow_triangles(soup, error);
        if (status != CT_OK) return status;
    }
    uint32_t *to = soup->triangles + 3 * soup->n_triangles++;
    to[0] = a, to[1] = b, to[2] = c;
    return CT_OK;
}

/* A vertex as a reader has it: `wide` where the soup's digits.is_wide, else `rounded`. */
typedef struct ct_soup_point {
    float rounded[3];
    double wide[3];
} ct_soup_point;

/* PARSE_ERROR without a word where digits.loses_many: the file is to be read again. */
ct_status ct_soup_add_wide(ct_soup *soup, const double position[3], ct_error *error);

static inline ct_status ct_soup_add_point(ct_soup *soup, const ct_soup_point *point, ct_error *error) {
    if (!(soup->digits.is_wide | soup->digits.loses_many)) return ct_soup_add_vertex(soup, point->rounded, error);
    return ct_soup_add_wide(soup, point->wide, error);
}

/* Takes n vertices, doubles[n][3] times scale (unaligned), into `positions`, which have room for them, `low` and
 * `origin` (split.h). False: out of memory, or cancelled. */
bool ct_soup_split(ct_soup *soup, const void *doubles, size_t n, double scale);

/* Notes that the last triangles are the fan of a face of n corners. OUT_OF_MEMORY. */
ct_status ct_soup_add_polygon(ct_soup *soup, uint32_t n, ct_error *error);

/* Cuts polygons, repairs the soup if asked for, validates it and makes a mesh of it. The mesh takes ownership of the arrays; the soup
 * is empty afterwards. *changes is set. */
ct_status ct_soup_finish(ct_soup *soup, const ct_mesh_options *options, ct_mesh **out, ct_mesh_changes *changes,
                         ct_error *error);

#endif

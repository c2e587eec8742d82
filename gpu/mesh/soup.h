/* soup.h - vertices and triangles while they are being read: growing arrays that respect the limits, for the readers.
 */
#ifndef CT_SOUP_H
#define CT_SOUP_H

#include "gpu/include/contact.h"

typedef struct ct_soup {
    float *positions;    /* [n_vertices][3] */
    uint32_t *triangles; /* [n_triangles][3], not yet checked against n_vertices */
    size_t n_vertices, n_triangles;
    size_t vertex_capacity, triangle_capacity;
    ct_mesh_limits limits;
} ct_soup;

void ct_soup_init(ct_soup *soup, const ct_mesh_limits *limits); /* NULL: the defaults */
void ct_soup_free(ct_soup *soup);

/* Makes room for this many in all. The caller has checked the numbers against the size of its input. */
ct_status ct_soup_reserve_vertices(ct_soup *soup, uint64_t n, ct_error *error);
ct_status ct_soup_reserve_triangles(ct_soup *soup, uint64_t n, ct_error *error);

/* Doubles the room, within the limits. */
ct_status ct_soup_grow_vertices(ct_soup *soup, ct_error *error);
ct_status ct_soup_grow_triangles(ct_soup *soup, ct_error *error);

static inline ct_status ct_soup_vertex(ct_soup *soup, const float position[3], ct_error *error) {
    if (soup->n_vertices == soup->vertex_capacity) {
        ct_status status = ct_soup_grow_vertices(soup, error);
        if (status != CT_OK) return status;
    }
    float *to = soup->positions + 3 * soup->n_vertices++;
    to[0] = position[0], to[1] = position[1], to[2] = position[2];
    return CT_OK;
}

static inline ct_status ct_soup_triangle(ct_soup *soup, uint32_t a, uint32_t b, uint32_t c, ct_error *error) {
    if (soup->n_triangles == soup->triangle_capacity) {
        ct_status status = ct_soup_grow_triangles(soup, error);
        if (status != CT_OK) return status;
    }
    uint32_t *to = soup->triangles + 3 * soup->n_triangles++;
    to[0] = a, to[1] = b, to[2] = c;
    return CT_OK;
}

/* Validates the soup and turns it into a mesh, which takes over its arrays; the soup is empty afterwards. */
ct_status ct_soup_finish(ct_soup *soup, ct_mesh **out, ct_error *error);

#endif

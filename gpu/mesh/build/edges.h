/* edges.h - checks that every edge of a surface has exactly two faces, which run through it in opposite directions, and
 * finds the surface's shells. For validation. */
#ifndef CT_EDGES_H
#define CT_EDGES_H

#include "gpu/include/contact.h"

enum { CT_EDGE_EXAMPLES = 4 };

typedef struct ct_edge_defects {
    size_t count;
    struct {
        uint32_t vertex[2], faces;
    } first[CT_EDGE_EXAMPLES]; /* in rising order of vertices */
} ct_edge_defects;

typedef struct ct_edge_report {
    ct_edge_defects open;    /* one face */
    ct_edge_defects crowded; /* more than two faces */
    ct_edge_defects turned;  /* two faces, both in the same direction */
    size_t n_repeating;      /* triangles that name a vertex twice; their edges are not counted above */
    size_t repeating;        /* the first of these triangles, and the vertex: */
    uint32_t repeated_vertex;
} ct_edge_report;

/* Fills *report, and numbers the shells, triangles that edges of two faces connect, by their first triangles: shell,
 * [n_triangles], below *n_shells. Indices must be below n_vertices and 2^30. OUT_OF_MEMORY. */
ct_status ct_check_edges(const uint32_t *triangles, size_t n_triangles, size_t n_vertices, ct_edge_report *report,
                         uint32_t *shell, uint32_t *n_shells, ct_error *error);

#endif

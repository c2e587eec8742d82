/* edges.h - checks that as many faces run through every edge of a surface one way as the other, and finds the surface's
 * shells. For validation. */
#ifndef CT_EDGES_H
#define CT_EDGES_H

#include "gpu/mesh/soup.h"

enum { CT_EDGE_EXAMPLES = 4 };

typedef struct ct_edge_defects {
    size_t count;
    struct {
        uint32_t vertex[2], faces;
    } first[CT_EDGE_EXAMPLES]; /* in rising order of vertices */
} ct_edge_defects;

typedef struct ct_edge_report {
    ct_edge_defects open;    /* one face */
    ct_edge_defects crowded; /* more than two faces, not as many each way, or one twice */
    ct_edge_defects turned;  /* two faces, both in the same direction */
    size_t n_shared;         /* edges of more than two faces that are no defects: parts touch there */
    size_t n_repeating;      /* triangles that name a vertex twice; their edges are not counted above */
    size_t repeating;        /* the first of these triangles, and the vertex: */
    uint32_t repeated_vertex;
} ct_edge_report;

/* Fills *report, and numbers the shells by their first triangles: triangles that edges connect, in pairs where an edge
 * has more than two (edge_pairs.h). shell: [n_triangles], below *n_shells. Positions are finite, indices below n_vertices
 * and 2^30. OUT_OF_MEMORY. */
ct_status ct_check_edges(const ct_soup *soup, ct_edge_report *report, uint32_t *shell, uint32_t *n_shells,
                         ct_error *error);

#endif

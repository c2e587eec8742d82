/* repair.h - repairs a surface before it is validated, for those who ask for it: ct_mesh_options.repair, where the
 * header says what is done and in which order. Vertices keep their number and order: only triangles change. */
#ifndef CT_REPAIR_H
#define CT_REPAIR_H

#include "gpu/mesh/soup.h"

/* direction: of an open surface, of length 1; NULL: the surface is closed. Repairs the soup and notes in *changes what was done. What it cannot repair it leaves for the validation to refuse,
 * but for surfaces with one side only, holes that are too large or too crooked, and shells whose direction would take
 * too long to find: INVALID_MESH, with the reason. NON_FINITE, LIMIT_EXCEEDED, OUT_OF_MEMORY. */
ct_status ct_repair(ct_soup *soup, const ct_mesh_options *options, const double *direction, ct_mesh_changes *changes,
                    ct_error *error);

/* ---- shared by the files of the repair ---- */

/* An edge as one triangle runs through it. */
typedef struct ct_half_edge {
    uint64_t key; /* smaller vertex << 32 | larger vertex */
    uint32_t triangle;
    uint32_t from, to; /* vertices, in the triangle's direction */
} ct_half_edge;

/* All of a soup's, sorted by key and triangle, so that those of one edge follow each other. Triangles that name a
 * vertex twice have none. NULL: out of memory, or cancelled. The caller frees it. */
ct_half_edge *ct_half_edges(const uint32_t *triangles, size_t n_triangles, size_t *n);

static inline uint64_t ct_edge_key(uint32_t a, uint32_t b) {
    return a < b ? (uint64_t)a << 32 | b : (uint64_t)b << 32 | a;
}

/* A closed walk along open edges, against the direction of their triangles: the direction of those that fill it. */
typedef struct ct_loop {
    const uint32_t *vertices;
    size_t n;
} ct_loop;

/* Fills a hole with triangles between the loop's vertices, which it appends to the soup: ears of the loop as seen along
 * its normal, the one with the largest smallest angle first; triangles without area, where it lies on a line. edges: all half edges of the soup before any hole was
 * filled; no filling may use one of these twice. *n_tests grows by the points and boxes that are tested against
 * triangles. INVALID_MESH: the loop has no such ears. LIMIT_EXCEEDED, OUT_OF_MEMORY. */
ct_status ct_fill_hole(ct_soup *soup, const ct_loop *loop, const ct_half_edge *edges, size_t n_edges, uint64_t *n_tests,
                       ct_error *error);

/* Cuts a polygon into triangles between its corners, which it appends to the soup, as ct_fill_hole does; corners may lie
 * at one position, as where a cut leads to a hole in the polygon, and triangles without area are taken where no others
 * are left. *is_cut false: there are none. LIMIT_EXCEEDED, OUT_OF_MEMORY. */
ct_status ct_clip_polygon(ct_soup *soup, const ct_loop *loop, bool *is_cut, ct_error *error);

/* Whether a loop's vertices lie on a line, but for rounding of their positions, as where an edge has been split on one of
 * its sides alone. ct_fill_hole fills it without ears. */
bool ct_is_on_line(const ct_soup *soup, const ct_loop *loop);

/* m, the longest side of the loop's box, and the middle of that box. */
double ct_measure_loop(const ct_soup *soup, const ct_loop *loop, double middle[3]);

#endif

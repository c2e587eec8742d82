/* hostile_parts.h - what hostile.c puts shapes together from. */
#ifndef HOSTILE_PARTS_H
#define HOSTILE_PARTS_H

#include <stdbool.h>

#include "tests/scenes/shapes.h"

enum { PERMUTOHEDRON_VERTICES = 24, PERMUTOHEDRON_TRIANGLES = 44 };

/* Two unit vectors orthogonal to `along` and each other. */
void vectors_across(const double along[3], double u[3], double w[3]);

/* Counter-clockwise seen from outside, in whatever order its corners come. */
void add_tetrahedron(struct shape *shape, const double corners[4][3]);
void add_tetrahedron_of(struct shape *shape, const uint32_t vertices[4]);
void add_box(struct shape *shape, const double lo[3], const double hi[3], bool is_inverted);
/* A truncated octahedron of this width: cells of it fill space at the points of a body-centred cubic lattice. */
void add_permutohedron(struct shape *shape, const double center[3], double width);

/* Joins n rings of `around` vertices, which are all that the shape has, to a tube; is_ring: the last one with the
 * first, else both ends are closed by fans. */
void close_tube(struct shape *shape, uint32_t n, uint32_t around, bool is_ring);

/* The surface of Menger's sponge of this level, 1 to 4, of side 1. */
struct shape make_menger_sponge(int level);
uint32_t sponge_triangles(int level);

void turn_inside_out(struct shape *shape);

#endif

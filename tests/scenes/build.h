/* build.h - helpers that build shapes: checked allocation, growing lists, and trigonometry with the same bits
 * everywhere.
 */
#ifndef SHAPES_BUILD_H
#define SHAPES_BUILD_H

#include "tests/scenes/shapes.h"

/* Room for exactly these; vertices and triangles are then added one by one. */
struct shape shape_begin(uint64_t n_vertices, uint64_t n_triangles);
uint32_t shape_add_vertex(struct shape *shape, double x, double y, double z);
void shape_add_triangle(struct shape *shape, uint32_t a, uint32_t b, uint32_t c);
void shape_add_quad(struct shape *shape, uint32_t a, uint32_t b, uint32_t c, uint32_t d); /* counter-clockwise */

void *shape_alloc(uint64_t count, uint64_t size); /* zeroed; aborts when there is none */

/* cos and sin of a full turn's fraction, by arithmetic alone, good to 1e-15. */
void shape_turn(double turns, double *cosine, double *sine);

#endif

/* order.h - puts a mesh's triangles in an order that is kind to caches. */
#ifndef CT_ORDER_H
#define CT_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sorts triangles [n][3] along a Morton curve through their centroids, so that triangles that follow each other share
 * vertices: scanned meshes come in nearly random order, and every stage that walks triangles then waits for memory.
 * Contacts do not depend on the order. False: out of memory, nothing changed. */
bool ct_order_triangles(const float *positions, const double lo[3], const double hi[3], uint32_t *triangles, size_t n);

#endif

/* order.h - sorts a mesh's triangles along a Morton curve, so that neighbours in memory are neighbours in space. */
#ifndef CT_ORDER_H
#define CT_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sorts triangles [n][3] along a Morton curve through their centroids; lo and hi bound the positions. Consecutive
 * triangles then share vertices in cache; scanned meshes come in nearly random order, which makes every pass over the
 * triangles memory-bound. Contacts do not depend on the order. False: out of memory, nothing changed. */
bool ct_order_triangles(const float *positions, const double lo[3], const double hi[3], uint32_t *triangles, size_t n);

#endif

/* order.h - orders a mesh's triangles so that neighbours in memory are neighbours in space, and clusters are compact.
 */
#ifndef CT_ORDER_H
#define CT_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Orders triangles [n][3] by splitting them in two, by their centroids, across the longest side of the centroids' box,
 * again and again, down to clusters (clusters.h). Splits fall on the boundaries of the cluster tree's nodes, so every
 * node is one side of a split and has a tight box. Within a cluster triangles follow a Morton curve: consecutive ones
 * share vertices in cache. Scanned meshes come in nearly random order, which makes every pass over the triangles
 * memory-bound.
 *
 * The order depends on the positions alone, not on the order given, but for triangles that coincide exactly. Contacts
 * do not depend on it. lo and hi bound the positions. Takes O(n log n) for any input; *n_compared, where it is not
 * NULL, is how many pairs of triangles were compared to split. False: out of memory or cancelled; the triangles may be
 * lost. */
bool ct_order_triangles(const float *positions, const double lo[3], const double hi[3], uint32_t *triangles, size_t n,
                        uint64_t *n_compared);

#endif

/* block_order.h - which triangles of a cluster make up its blocks of eight. Boxes of blocks tell apart most triangles
 * of two clusters, so blocks should be compact: along the Morton curve that orders a cluster, a run of eight triangles
 * has a box whose faces are twice as large. No bit of an answer depends on it. */
#ifndef CT_EXACT_BLOCK_ORDER_H
#define CT_EXACT_BLOCK_ORDER_H

#include "gpu/mesh/cluster_k.h"

/* Triangles of a block, and blocks of a cluster. */
enum { CT_EXACT_BLOCK = 8, CT_EXACT_BLOCKS = CT_CLUSTER_TRIANGLES / CT_EXACT_BLOCK };

/* Lists n triangles, at most CT_CLUSTER_TRIANGLES, block by block: block i are order[8 i .. 8 i + 7]. triangles:
 * [n][3], vertices in positions. Splits by the triangles' centroids, as order.h does. */
void ct_order_blocks(const float *positions, const uint32_t *triangles, uint32_t n, uint8_t *order);

#endif

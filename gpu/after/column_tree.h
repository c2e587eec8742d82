/* column_tree.h - a tree of boxes, four children a node: finds the boxes that meet a box. For faces over a contact as seen
 * along its normal, which come in the mesh's order, where neighbours are near one another. So the tree is implicit:
 * CT_COLUMN_FAN consecutive boxes of a level have one parent. */
#ifndef CT_COLUMN_TREE_H
#define CT_COLUMN_TREE_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/base/simd.h"

enum { CT_COLUMN_FAN = 4, CT_COLUMN_LEVELS = 17 };

typedef struct ct_column_box {
    double lo[3], hi[3]; /* m: u, v, w; both included */
} ct_column_box;

/* The boxes of four children, a lane each, rounded outwards; of none: an empty one. */
typedef struct ct_column_node {
    ct_v4f lo[3], hi[3];
} ct_column_node;

typedef struct ct_column_tree {
    ct_column_node *nodes; /* of level 0, whose children are the boxes, and so on; the last is the root */
    uint32_t level[CT_COLUMN_LEVELS + 1]; /* the first node of each level, and their number */
    uint32_t n_levels;
    size_t capacity; /* of nodes */
} ct_column_tree;

/* A search, from ct_column_tree_find to the last ct_column_search_next. */
typedef struct ct_column_search {
    const ct_column_tree *tree;
    ct_column_node box; /* the same in each lane, rounded outwards */
    struct {
        uint32_t level, first; /* of whose children: nodes below, or boxes */
        uint32_t lanes;        /* of those that may meet the box and were not visited */
    } stack[CT_COLUMN_LEVELS];
    uint32_t depth;
    uint64_t visits; /* boxes that were compared */
} ct_column_search;

/* A float that is not above x, but is as near as the second that is not; a larger one for a larger x. */
static inline float ct_column_below(double x) {
    const float f = (float)x;
    return (double)f > x ? f - fabsf(f) * 0x1p-23f - 0x1p-149f : f;
}

/* The box in each lane. */
ct_column_node ct_column_node_of(const ct_column_box *box);
/* Copies the box of a child of the tree's lowest level, rounded, to a lane of a node. */
static inline void ct_column_copy_child(const ct_column_tree *tree, uint32_t child, ct_column_node *node, size_t lane) {
    const ct_column_node *of = &tree->nodes[child / CT_COLUMN_FAN];
    for (int k = 0; k < 3; k++) {
        node->lo[k][lane] = of->lo[k][child % CT_COLUMN_FAN];
        node->hi[k][lane] = of->hi[k][child % CT_COLUMN_FAN];
    }
}
/* A bit for each lane whose boxes meet. */
static inline uint32_t ct_column_nodes_meet(const ct_column_node *a, const ct_column_node *b) {
    return ct_v4i_signs((a->lo[0] <= b->hi[0]) & (a->hi[0] >= b->lo[0]) & (a->lo[1] <= b->hi[1]) &
                        (a->hi[1] >= b->lo[1]) & (a->lo[2] <= b->hi[2]) & (a->hi[2] >= b->lo[2]));
}

/* Of any tree made before, or {0}. False: out of memory, or more boxes than 31 bits count. */
bool ct_column_tree_make(ct_column_tree *tree, const ct_column_box *boxes, size_t n);
void ct_column_tree_free(ct_column_tree *tree);

ct_column_search ct_column_tree_find(const ct_column_tree *tree, const ct_column_box *box);
/* The next of the boxes that meet the search's once both are rounded outwards, in their order. False: there is none. */
bool ct_column_search_next(ct_column_search *search, uint32_t *index);

#endif

/* column_tree.h - the triangles of one surface of a contact, as seen along its normal, with a tree of their boxes:
 * finds those whose boxes meet a box, as a column or another triangle has.
 *
 * Triangles are sorted along a curve, on which neighbours are near each other, so the tree is implicit: CT_COLUMN_FAN
 * consecutive boxes of a level have one parent. It does not depend on the order in which triangles are given. */
#ifndef CT_COLUMN_TREE_H
#define CT_COLUMN_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/base/simd.h"

enum { CT_COLUMN_FAN = 4, CT_COLUMN_LEVELS = 17 };

typedef struct ct_column_triangle {
    double p[3][3]; /* m: u, v, w of its corners */
    uint64_t place; /* on the curve */
    bool is_listed; /* a corner of it has an entry in the contact */
} ct_column_triangle;

typedef struct ct_column_box {
    double lo[3], hi[3]; /* m: u, v, w; both included */
} ct_column_box;

/* The boxes of four children, a lane each, rounded outwards; of none: an empty one. */
typedef struct ct_column_node {
    ct_v4f lo[3], hi[3];
} ct_column_node;

typedef struct ct_column_tree {
    ct_column_triangle *triangles;
    size_t n_triangles, capacity;
    ct_column_box *boxes;  /* of triangles */
    ct_column_node *nodes; /* of level 0, whose children are triangles, and so on; the last is the root */
    uint32_t level[CT_COLUMN_LEVELS + 1]; /* the first node of each level, and their number */
    uint32_t n_levels;
} ct_column_tree;

/* A search, from ct_column_tree_find to the last ct_column_search_next. */
typedef struct ct_column_search {
    const ct_column_tree *tree;
    ct_column_box box;
    ct_v4f lo[3], hi[3]; /* the same in each lane, rounded outwards */
    struct {
        uint32_t level, first; /* of whose children: nodes below, or triangles */
        uint32_t lanes;        /* of those that may meet the box and were not visited */
    } stack[CT_COLUMN_LEVELS];
    uint32_t depth;
    uint64_t visits; /* boxes that were compared */
} ct_column_search;

ct_column_box ct_column_box_of(const ct_column_triangle *triangle);

/* Sorts the triangles and makes their tree. False: out of memory, or more triangles than 31 bits count. */
bool ct_column_tree_make(ct_column_tree *tree);
void ct_column_tree_free(ct_column_tree *tree);

ct_column_search ct_column_tree_find(const ct_column_tree *tree, const ct_column_box *box);
/* The next triangle whose box meets the search's, in the order of the triangles. NULL: there are no more. */
const ct_column_triangle *ct_column_search_next(ct_column_search *search);

#endif
